//! Decides which rests of an outlet are logged.

use std::time::Duration;

use crate::push::window::{Signal, Window};

/// Shortest time between two lines about an outlet that begins to rest, in microseconds.
const REPEAT_US: i64 = 60_000_000;

/// What is to be logged about the rests of an outlet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestChange {
    /// It rests until this moment, in microseconds.
    Began(i64),
    /// A call has shown that the endpoint is back, so long after the first rest began.
    Ended(Duration),
}

/// When the rests of an outlet began, and which of them were logged.
#[derive(Debug, Default)]
pub(super) struct RestLog {
    /// When the first rest began since a call last showed that the endpoint is alive.
    since_us: Option<i64>,
    /// When the beginning of a rest was logged last.
    logged_us: Option<i64>,
    /// Whether one of the rests since `since_us` was logged, so that their end is logged too.
    is_logged: bool,
}

impl RestLog {
    /// A call has ended that counts against `window`, and changes it. Returns what is to be logged.
    pub fn of_call(
        &mut self,
        window: &mut Window,
        number: u64,
        signal: Signal,
        now_us: i64,
    ) -> Option<RestChange> {
        let (was_resting, was_away) = (window.resting_until(now_us).is_some(), window.is_probing());
        window.ended(number, signal, now_us);
        match window.resting_until(now_us) {
            Some(until_us) if !was_resting => self.began(now_us).then_some(RestChange::Began(until_us)),
            None if was_away && !window.is_probing() => self.ended(now_us).map(RestChange::Ended),
            Some(_) | None => None,
        }
    }

    /// A rest begins. Returns whether to log it: at most once a minute.
    pub fn began(&mut self, now_us: i64) -> bool {
        self.since_us.get_or_insert(now_us);
        let must_log = self.logged_us.is_none_or(|at_us| now_us.saturating_sub(at_us) >= REPEAT_US);
        if must_log {
            (self.logged_us, self.is_logged) = (Some(now_us), true);
        }
        must_log
    }

    /// The endpoint is back. Returns how long the outlet has rested in all, if that is to be logged.
    pub fn ended(&mut self, now_us: i64) -> Option<Duration> {
        let since_us = self.since_us.take()?;
        let is_logged = std::mem::take(&mut self.is_logged);
        is_logged.then(|| Duration::from_micros(now_us.saturating_sub(since_us).unsigned_abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: i64 = 1_000_000;

    #[test]
    fn rests_are_logged_once_a_minute_and_their_end_if_they_were() {
        let mut log = RestLog::default();
        let logged: Vec<i64> = (1..=150).filter(|second| log.began(second * SECOND_US)).collect();
        assert_eq!(logged, [1, 61, 121]);
        assert_eq!(log.ended(151 * SECOND_US), Some(Duration::from_secs(150)));
        assert_eq!(log.ended(152 * SECOND_US), None, "its end is logged once");
        assert!(!log.began(153 * SECOND_US), "an endpoint that comes and goes does not fill the log");
        assert_eq!(log.ended(154 * SECOND_US), None, "the beginning was not logged");
        assert!(log.began(181 * SECOND_US));
    }
}
