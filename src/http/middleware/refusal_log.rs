//! Log lines for refusals that clients bring about at will: one a second for each code, with a count of those
//! in between. Without a bound, a flood of calls would be a flood of lines.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// Refusals that load or strangers cause, and no fault of the server; and those of a store that is away, which is
/// logged once, where it is noticed.
const EXPECTED: [&str; 6] =
    ["overloaded", "too_many_waiting", "store_full", "draining", "unauthorized", "store_unavailable"];

const SECOND_US: i64 = 1_000_000;

/// When each code was logged last.
#[derive(Debug, Default)]
pub struct RefusalLog(Mutex<HashMap<&'static str, Logged>>);

#[derive(Debug)]
struct Logged {
    at_us: i64,
    left_out: u64,
}

/// Whether refusals with this code are expected under load or from strangers.
pub fn is_expected(code: &str) -> bool {
    EXPECTED.contains(&code)
}

impl RefusalLog {
    /// Whether a refusal at `now_us` gets a line; then how many with the same code got none since the last line.
    pub fn admit(&self, code: &'static str, now_us: i64) -> Option<u64> {
        let mut by_code = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(logged) = by_code.get_mut(code) else {
            by_code.insert(code, Logged { at_us: now_us, left_out: 0 });
            return Some(0);
        };
        if now_us - logged.at_us < SECOND_US {
            logged.left_out += 1;
            return None;
        }
        logged.at_us = now_us;
        Some(std::mem::take(&mut logged.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_gets_a_line_a_second_with_a_count_of_those_between() {
        let log = RefusalLog::default();
        assert_eq!(log.admit("overloaded", 0), Some(0));
        assert_eq!(log.admit("overloaded", 1), None);
        assert_eq!(log.admit("overloaded", SECOND_US - 1), None);
        assert_eq!(log.admit("draining", 1), Some(0));
        assert_eq!(log.admit("overloaded", SECOND_US), Some(2));
        assert_eq!(log.admit("overloaded", 2 * SECOND_US), Some(0));
    }
}
