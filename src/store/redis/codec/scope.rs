//! A caller's topics as an argument of scripts. Knows no call.

use fred::bytes_utils::Str;

use crate::job::TopicFilter;

/// A scope as scripts read it, see `scripts/scope.lua`.
pub fn encode_scope(scope: &TopicFilter) -> Str {
    match scope.patterns() {
        None => Str::new(),
        // Not '', which means every topic.
        Some([]) => Str::from_static(" "),
        Some(patterns) => patterns.iter().map(|pattern| format!("{pattern} ")).collect::<String>().into(),
    }
}
