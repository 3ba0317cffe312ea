//! Whether a clock may decide what cannot be undone. For an hour after it was set it may not: it may have been set wrongly, and
//! such a mistake is usually put right by then.

use std::sync::atomic::{AtomicI64, Ordering};

/// A longer step of a clock is no correction, and a clock that is further behind the store was wrong, or is.
const LONGEST_CORRECTION_US: i64 = 60_000_000;
/// For how long a clock is not trusted after a step.
const DOUBT_US: i64 = 3_600_000_000;

/// What one clock, compared with time that only elapses, has done so far.
#[derive(Debug, Default)]
pub struct ClockTrust {
    /// Until when it is not trusted, by the time that elapses.
    doubted_until_us: AtomicI64,
}

impl ClockTrust {
    /// Takes note that the clock moved by `step_us` against the time that elapses, which is `now_us`.
    pub fn moved(&self, step_us: i64, now_us: i64) {
        if step_us.saturating_abs() > LONGEST_CORRECTION_US {
            self.doubted_until_us.store(now_us.saturating_add(DOUBT_US), Ordering::Relaxed);
        }
    }

    /// Whether the machine's clock, which is so far ahead of the time that elapses, may decide what cannot be undone.
    pub(super) fn is_given_ahead(&self, now_us: i64, ahead_ms: i64) -> bool {
        ahead_ms >= -LONGEST_CORRECTION_US / 1_000 && self.is_given(now_us)
    }

    /// Whether it may decide what cannot be undone.
    #[must_use]
    pub fn is_given(&self, now_us: i64) -> bool {
        now_us >= self.doubted_until_us.load(Ordering::Relaxed)
    }

    /// The latest that a trusted clock may show which is expected to show `expected_us`: later, it was set.
    #[must_use]
    pub fn latest(expected_us: i64) -> i64 {
        expected_us.saturating_add(LONGEST_CORRECTION_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000_000;

    #[test]
    fn a_clock_is_not_trusted_for_an_hour_after_a_step_of_over_a_minute_either_way() {
        let trust = ClockTrust::default();
        assert!(trust.is_given(0));
        trust.moved(MINUTE, 0);
        trust.moved(-MINUTE, 0);
        assert!(trust.is_given(0), "corrections");
        for (step, at) in [(MINUTE + 1, 0), (-MINUTE - 1, 90 * MINUTE)] {
            trust.moved(step, at);
            assert!(!trust.is_given(at) && !trust.is_given(at + 60 * MINUTE - 1), "{step}");
            assert!(trust.is_given(at + 60 * MINUTE), "{step}");
        }
    }
}
