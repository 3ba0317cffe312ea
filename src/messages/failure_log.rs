//! Decides when a lasting failure is logged: when it begins, at most once a minute while it lasts, and when it ends.
//! It knows only times; its callers write the log lines.

use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};

/// Shortest time between two lines of one failure, in microseconds.
const REPEAT_US: i64 = 60_000_000;

/// Remembers since when one thing has been failing, and when that was last logged.
#[derive(Debug, Default)]
pub struct FailureLog(Mutex<Option<Failing>>);

#[derive(Debug, Clone, Copy)]
struct Failing {
    since_us: i64,
    logged_us: i64,
}

impl FailureLog {
    /// Records a failure at `now_us`. Returns whether to log it.
    #[must_use]
    pub fn failed(&self, now_us: i64) -> bool {
        let mut failing = self.lock();
        let since_us = failing.map_or(now_us, |failing| failing.since_us);
        let must_log = failing.is_none_or(|failing| now_us.saturating_sub(failing.logged_us) >= REPEAT_US);
        if must_log {
            *failing = Some(Failing { since_us, logged_us: now_us });
        }
        must_log
    }

    /// Records a success at `now_us`. Returns how long it had been failing, if it had.
    #[must_use]
    pub fn succeeded(&self, now_us: i64) -> Option<Duration> {
        let failing = self.lock().take()?;
        Some(Duration::from_micros(now_us.saturating_sub(failing.since_us).unsigned_abs()))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Failing>> {
        self.0.lock().expect("no code panics while it holds the state")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: i64 = 1_000_000;

    #[test]
    fn a_failure_is_logged_when_it_begins_once_a_minute_and_when_it_ends() {
        let log = FailureLog::default();
        assert_eq!(log.succeeded(0), None, "nothing failed yet");
        let logged: Vec<i64> = (1..=150).filter(|second| log.failed(second * SECOND_US)).collect();
        assert_eq!(logged, [1, 61, 121]);
        assert_eq!(log.succeeded(151 * SECOND_US), Some(Duration::from_secs(150)));
        assert_eq!(log.succeeded(152 * SECOND_US), None, "its end is logged once");
        assert!(log.failed(153 * SECOND_US), "the next one is another failure");
    }
}
