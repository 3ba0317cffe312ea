//! Which topics a client may use: all of them, or those that match a list of names and prefixes.

use std::{fmt, sync::Arc};

use super::names::{NameError, Topic};

/// A topic's name, or a prefix of names followed by `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicPattern {
    /// This topic only.
    Exact(Topic),
    /// Every topic with this prefix; all topics if it is empty.
    Prefix(Box<str>),
}

impl TopicPattern {
    /// Parses `orders`, `orders-*` or `*`. The star is allowed only at the end.
    ///
    /// # Errors
    /// [`NameError`] if the text before the star cannot begin a topic's name.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        match text.strip_suffix('*') {
            Some("") => Ok(Self::Prefix("".into())),
            Some(prefix) => Self::parse_prefix(prefix),
            None => Topic::parse(text).map(Self::Exact),
        }
    }

    /// The pattern of all topics whose names begin with `text`.
    ///
    /// # Errors
    /// [`NameError`] if it cannot begin a topic's name.
    pub fn parse_prefix(text: &str) -> Result<Self, NameError> {
        // One or two dots may begin a name, though they are not names themselves.
        if !matches!(text, "." | "..") {
            Topic::parse(text)?;
        }
        Ok(Self::Prefix(text.into()))
    }

    /// What the names that it matches begin with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        match self {
            Self::Exact(topic) => topic.as_str(),
            Self::Prefix(prefix) => prefix,
        }
    }

    /// Whether it matches every topic that `other` matches.
    fn covers(&self, other: &Self) -> bool {
        match self {
            Self::Exact(_) => self == other,
            Self::Prefix(prefix) => other.prefix().starts_with(&**prefix),
        }
    }

    /// Whether it matches `topic`.
    #[must_use]
    pub fn matches(&self, topic: &Topic) -> bool {
        match self {
            Self::Exact(exact) => exact == topic,
            Self::Prefix(prefix) => topic.as_str().starts_with(&**prefix),
        }
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(topic) => f.write_str(topic.as_str()),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

/// The topics that a client may use. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicFilter(Option<Arc<[TopicPattern]>>);

impl TopicFilter {
    /// Every topic.
    pub const ALL: Self = Self(None);

    /// The topics that match one of `patterns`; none if there are no patterns.
    #[must_use]
    pub fn only(patterns: Vec<TopicPattern>) -> Self {
        let all = TopicPattern::Prefix("".into());
        if patterns.contains(&all) { Self::ALL } else { Self(Some(patterns.into())) }
    }

    /// Whether it allows every topic.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// The patterns; `None` if it allows every topic.
    #[must_use]
    pub fn patterns(&self) -> Option<&[TopicPattern]> {
        self.0.as_deref()
    }

    /// The topics that match `pattern`, too.
    #[must_use]
    pub fn within(&self, pattern: &TopicPattern) -> Self {
        let narrower = |own: &TopicPattern| match (own.covers(pattern), pattern.covers(own)) {
            (true, _) => Some(pattern.clone()),
            (false, true) => Some(own.clone()),
            (false, false) => None,
        };
        match &self.0 {
            None => Self::only(vec![pattern.clone()]),
            Some(patterns) => Self::only(patterns.iter().filter_map(narrower).collect()),
        }
    }

    /// Patterns of the same topics, none of which matches a topic of another, in the order of the names that they match.
    #[must_use]
    pub fn in_order(&self) -> Vec<TopicPattern> {
        let mut patterns = self.0.as_deref().map_or(vec![TopicPattern::Prefix("".into())], <[_]>::to_vec);
        let is_exact = |pattern: &TopicPattern| matches!(pattern, TopicPattern::Exact(_));
        patterns.sort_by(|one, other| (one.prefix(), is_exact(one)).cmp(&(other.prefix(), is_exact(other))));
        // What a pattern covers comes right behind it.
        patterns.dedup_by(|later, earlier| earlier.covers(later));
        patterns
    }

    /// What the names of all its topics begin with, perhaps nothing.
    #[must_use]
    pub fn common_prefix(&self) -> &str {
        let mut prefixes = self.0.iter().flat_map(|patterns| patterns.iter().map(TopicPattern::prefix));
        let first = prefixes.next().unwrap_or_default();
        prefixes.fold(first, |common, prefix| {
            let equal = common.bytes().zip(prefix.bytes()).take_while(|(one, other)| one == other).count();
            &common[..equal]
        })
    }

    /// Whether it allows `topic`.
    #[must_use]
    pub fn allows(&self, topic: &Topic) -> bool {
        self.0.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(topic)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(patterns: &[&str], topic: &str) -> bool {
        let patterns = patterns.iter().map(|text| TopicPattern::parse(text).expect("a pattern")).collect();
        TopicFilter::only(patterns).allows(&Topic::parse(topic).expect("a topic"))
    }

    #[test]
    fn names_are_whole_and_prefixes_are_not() {
        assert!(allows(&["orders"], "orders") && !allows(&["orders"], "orders-eu"));
        assert!(allows(&["orders-*"], "orders-eu") && allows(&["orders-*"], "orders-"));
        assert!(!allows(&["orders-*"], "orders") && !allows(&["orders-*"], "my-orders-eu"));
        assert!(allows(&["mail", "orders-*"], "orders-eu") && !allows(&["mail", "orders-*"], "sms"));
        assert!(allows(&["*"], "anything") && allows(&["mail", "*"], "anything"));
        assert!(allows(&["..*"], "..a") && !allows(&["..*"], ".a"));
        assert!(!allows(&[], "anything"), "no pattern is no topic, not all of them");
    }

    fn filter(patterns: &[&str]) -> TopicFilter {
        TopicFilter::only(patterns.iter().map(|text| TopicPattern::parse(text).expect("a pattern")).collect())
    }

    fn in_order(filter: &TopicFilter) -> Vec<String> {
        filter.in_order().iter().map(TopicPattern::to_string).collect()
    }

    #[test]
    fn ordered_patterns_do_not_overlap() {
        assert_eq!(in_order(&TopicFilter::ALL), ["*"]);
        assert_eq!(in_order(&filter(&[])), [""; 0]);
        let patterns = ["b", "a-c*", "a", "a*", "c", "ab", "c", "b-*", "b*", "a-*"];
        assert_eq!(in_order(&filter(&patterns)), ["a*", "b*", "c"]);
        assert_eq!(in_order(&filter(&["b-*", "b", "b.x", "b", "b-a"])), ["b", "b-*", "b.x"]);
    }

    #[test]
    fn a_prefix_narrows_a_filter() {
        let within = |patterns: &[&str], prefix: &str| {
            in_order(&filter(patterns).within(&TopicPattern::parse_prefix(prefix).expect("a prefix")))
        };
        assert_eq!(within(&["*"], "or"), ["or*"]);
        assert_eq!(within(&["orders-*", "mail", "o", "or", "o*"], "or"), ["or*"]);
        assert_eq!(within(&["orders-*", "mail", "o", "or"], "or"), ["or", "orders-*"]);
        assert_eq!(within(&["orders-*", "orders"], "orders-eu"), ["orders-eu*"]);
        assert_eq!(within(&["mail"], "orders"), [""; 0]);
        assert_eq!(within(&["mail"], "mail"), ["mail"]);
        for text in ["", "a b", "a*", "*", "é", &"x".repeat(129)] {
            assert!(TopicPattern::parse_prefix(text).is_err(), "{text:?}");
        }
        for text in [".", "..", "a.b:c_d-"] {
            assert_eq!(TopicPattern::parse_prefix(text).expect("a prefix").prefix(), text);
        }
    }

    #[test]
    fn the_common_prefix_is_that_of_all_patterns() {
        assert_eq!(TopicFilter::ALL.common_prefix(), "");
        assert_eq!(filter(&[]).common_prefix(), "");
        assert_eq!(filter(&["orders"]).common_prefix(), "orders");
        assert_eq!(filter(&["orders-eu", "orders-*", "ordered"]).common_prefix(), "order");
        assert_eq!(filter(&["mail", "orders"]).common_prefix(), "");
    }

    #[test]
    fn a_pattern_is_a_name_with_at_most_a_star_behind_it() {
        for text in ["", "a b", "*a", "a*b", "a**", "**", "é*", &"x".repeat(129)] {
            assert!(TopicPattern::parse(text).is_err(), "{text:?}");
        }
        for text in ["a", "a*", "*", ".*", "a.b:c_d-*"] {
            assert_eq!(TopicPattern::parse(text).expect("a pattern").to_string(), text);
        }
    }
}
