//! When a job comes back after a reservation that did not finish it.

use std::time::Duration;

use super::{model::ValueError, time::ceil_millis};

/// Reservations before a job becomes a dead letter, if neither the job nor its topic sets a limit.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 16;

/// A list of delays: step *n* follows attempt *n*, and the last step repeats. Empty means that none was given: a job
/// whose TTR ends is ready at once, and a release backs off from 1 s, doubling up to 10 minutes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct RetrySchedule(Box<[Duration]>);

impl RetrySchedule {
    /// Longest accepted list.
    pub const MAX_STEPS: usize = 64;
    /// Longest accepted step: ten years, as for a delay.
    pub const MAX_STEP: Duration = super::Delay::MAX;
    /// First and longest back-off of a release without a list.
    const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

    /// Accepts up to 64 steps of up to ten years each, rounded up to whole milliseconds.
    ///
    /// # Errors
    /// [`ValueError`] when there are too many steps or one is too long.
    pub fn new(steps: Vec<Duration>) -> Result<Self, ValueError> {
        if steps.len() > Self::MAX_STEPS {
            return Err(ValueError::TooManySteps { limit: Self::MAX_STEPS, got: steps.len() });
        }
        if steps.iter().any(|step| *step > Self::MAX_STEP) {
            return Err(ValueError::StepTooLong);
        }
        let whole = |step: Duration| Duration::from_millis(ceil_millis(step).unsigned_abs());
        Ok(Self(steps.into_iter().map(whole).collect()))
    }

    /// The steps, first to last, in whole milliseconds.
    #[must_use]
    pub fn steps(&self) -> &[Duration] {
        &self.0
    }

    /// Whether no list was given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The wait after attempt `attempt` (counted from 1) has ended by its TTR.
    #[must_use]
    pub fn after_timeout(&self, attempt: u32) -> Duration {
        self.step(attempt).unwrap_or(Duration::ZERO)
    }

    /// The wait after attempt `attempt` (counted from 1) has ended by a release without a delay.
    #[must_use]
    pub fn after_release(&self, attempt: u32) -> Duration {
        let (first, cap) = Self::BACKOFF;
        self.step(attempt).unwrap_or_else(|| {
            let doublings = attempt.saturating_sub(1).min(16);
            (first * 2u32.pow(doublings)).min(cap)
        })
    }

    fn step(&self, attempt: u32) -> Option<Duration> {
        let last = self.0.len().checked_sub(1)?;
        Some(self.0[last.min(attempt.saturating_sub(1) as usize)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(schedule: &RetrySchedule, attempt: u32) -> (u64, u64) {
        (schedule.after_timeout(attempt).as_secs(), schedule.after_release(attempt).as_secs())
    }

    #[test]
    fn step_n_follows_attempt_n_and_the_last_repeats() {
        let steps = [15, 180, 600].map(Duration::from_secs).to_vec();
        let schedule = RetrySchedule::new(steps).expect("valid");
        let waits: Vec<_> = (1..=5).map(|n| seconds(&schedule, n)).collect();
        assert_eq!(waits, [(15, 15), (180, 180), (600, 600), (600, 600), (600, 600)]);
    }

    #[test]
    fn without_a_list_a_timeout_is_at_once_and_release_backs_off() {
        let none = RetrySchedule::default();
        let waits: Vec<_> = [1, 2, 3, 10, 11, 1_000_000].map(|n| seconds(&none, n)).into();
        assert_eq!(waits, [(0, 1), (0, 2), (0, 4), (0, 512), (0, 600), (0, 600)]);
    }

    #[test]
    fn bounds_are_refused_not_cut() {
        assert!(RetrySchedule::new(vec![Duration::ZERO; 64]).is_ok());
        assert!(RetrySchedule::new(vec![Duration::ZERO; 65]).is_err());
        assert!(RetrySchedule::new(vec![RetrySchedule::MAX_STEP + Duration::from_millis(1)]).is_err());
        let rounded = RetrySchedule::new(vec![Duration::from_micros(1)]).expect("valid");
        assert_eq!(rounded.steps(), [Duration::from_millis(1)]);
    }
}
