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
            // One or two dots may begin a name, though they are not names themselves.
            Some(dots @ ("." | "..")) => Ok(Self::Prefix(dots.into())),
            Some(prefix) => Ok(Self::Prefix(Topic::parse(prefix)?.as_str().into())),
            None => Topic::parse(text).map(Self::Exact),
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
