//! The rate of log lines for refusals that clients can cause at will: one per second and code, with a count of the
//! lines left out. Without a limit, a flood of requests would be a flood of lines.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// Codes of refusals that load or strangers cause, not a fault of the server; and the code of an unavailable store, which
/// is logged once where it is noticed.
const EXPECTED_CODES: [&str; 7] = [
    "overloaded",
    "too_many_waiting",
    "store_full",
    "store_replaced",
    "draining",
    "unauthorized",
    "store_unavailable",
];

const SECOND_US: i64 = 1_000_000;

/// The last log line of each code.
#[derive(Debug, Default)]
pub struct RefusalLog(Mutex<HashMap<&'static str, LastLine>>);

#[derive(Debug)]
struct LastLine {
    logged_us: i64,
    left_out: u64,
}

/// Whether refusals with this code are expected under load or from strangers.
pub fn is_expected(code: &str) -> bool {
    EXPECTED_CODES.contains(&code)
}

impl RefusalLog {
    /// Whether a refusal at `now_us` is logged. If it is, returns how many refusals with the same code were left out since
    /// the last line.
    pub fn admit(&self, code: &'static str, now_us: i64) -> Option<u64> {
        let mut by_code = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = by_code.get_mut(code) else {
            by_code.insert(code, LastLine { logged_us: now_us, left_out: 0 });
            return Some(0);
        };
        if now_us - last.logged_us < SECOND_US {
            last.left_out += 1;
            return None;
        }
        last.logged_us = now_us;
        Some(std::mem::take(&mut last.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_one_line_per_second_with_a_count_of_those_left_out() {
        let log = RefusalLog::default();
        assert_eq!(log.admit("overloaded", 0), Some(0));
        assert_eq!(log.admit("overloaded", 1), None);
        assert_eq!(log.admit("overloaded", SECOND_US - 1), None);
        assert_eq!(log.admit("draining", 1), Some(0));
        assert_eq!(log.admit("overloaded", SECOND_US), Some(2));
        assert_eq!(log.admit("overloaded", 2 * SECOND_US), Some(0));
    }
}
