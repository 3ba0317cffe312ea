//! The system's time: wall-clock time at start plus elapsed boot time. Setting the wall clock while the process runs
//! therefore neither makes delays end early nor prolongs them, and time spent suspended counts. How far the wall clock is
//! ahead since is kept beside it, for what goes by moments.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;

use super::{Clock, ClockTrust, PreciseTimer, micros_behind};
use crate::job::Timestamp;

/// Wall-clock time at start plus elapsed `CLOCK_BOOTTIME`.
#[derive(Debug)]
pub struct SystemClock {
    /// When boot time was zero, in microseconds since the epoch, by the wall clock at start.
    offset_us: AtomicI64,
    first_period_us: i64,
    /// By how much the wall clock is ahead of this clock, as of the last comparison.
    wall_ahead_ms: AtomicI64,
    trust: ClockTrust,
}

/// Smaller differences between the clocks are not followed: they come from the measurement.
const LEAST_STEP_US: i64 = 1_000;

impl SystemClock {
    /// Starts from the wall clock.
    #[must_use]
    pub fn new() -> Self {
        let (offset_us, wall_ahead_ms) = (offset_micros(), AtomicI64::new(0));
        let first_period_us = offset_us + boot_micros();
        Self { offset_us: offset_us.into(), first_period_us, wall_ahead_ms, trust: ClockTrust::default() }
    }

    /// Compares this clock with the wall clock, and follows a difference of at least a millisecond. Returns how far the wall
    /// clock is ahead, in microseconds. It changes when the wall clock is set.
    pub fn compare_with_wall(&self) -> i64 {
        let ahead_us = offset_micros() - self.offset_us.load(Ordering::Relaxed);
        let step_us = ahead_us - self.wall_ahead_ms.load(Ordering::Relaxed) * 1_000;
        if step_us.abs() > LEAST_STEP_US {
            // First, so that what follows the step is never trusted.
            self.trust.moved(step_us, self.now_micros());
            // Rounded down, so that no moment comes early.
            self.wall_ahead_ms.store(ahead_us.div_euclid(1_000), Ordering::Release);
        }
        ahead_us
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now_micros(&self) -> i64 {
        self.offset_us.load(Ordering::Relaxed) + boot_micros()
    }

    fn wall_ahead_ms(&self) -> i64 {
        self.wall_ahead_ms.load(Ordering::Acquire)
    }

    fn is_trusted(&self) -> bool {
        self.trust.is_given_ahead(self.now_micros(), self.wall_ahead_ms())
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that sleeps")]
    async fn sleep(&self, duration: Duration) {
        // tokio's timer stops during suspend. Callers bound their waits and check again.
        tokio::time::sleep(duration).await;
    }

    fn first_period_us(&self) -> i64 {
        self.first_period_us
    }

    fn precise_timer(self: Arc<Self>) -> PreciseTimer {
        PreciseTimer::of_kernel(self)
    }

    fn advance_to_at_least(&self, floor: Timestamp) -> Duration {
        let behind_us = micros_behind(floor, self.now_micros());
        self.offset_us.fetch_add(behind_us, Ordering::Relaxed);
        // So that the difference stays rounded down.
        self.wall_ahead_ms.fetch_sub((behind_us + 999) / 1_000, Ordering::Relaxed);
        Duration::from_micros(behind_us.unsigned_abs())
    }
}

/// How often both clocks are read to compute their difference.
const SAMPLES: usize = 100;

/// Wall-clock time minus boot time. Preemption between the two reads would skew the offset for as long as the process
/// runs, and the next process on the same store would fire early or late by as much. So the tightest sample counts.
fn offset_micros() -> i64 {
    tightest_offset((0..SAMPLES).map(|_| (boot_micros(), wall_micros(), boot_micros())))
}

/// The offset by the sample, of boot time, wall time and boot time again, that took the least time.
fn tightest_offset(samples: impl Iterator<Item = (i64, i64, i64)>) -> i64 {
    let by_width = samples.map(|(before, wall, after)| (after - before, wall - before));
    by_width.min_by_key(|(width, _)| *width).map_or(0, |(_, offset)| offset)
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
fn wall_micros() -> i64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn boot_micros() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
pub(super) fn boot_micros() -> i64 {
    use std::{sync::LazyLock, time::Instant};
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    i64::try_from(START.elapsed().as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_wall_clock_and_moves_forward_but_not_back() {
        let clock = SystemClock::new();
        assert!(clock.compare_with_wall().abs() < 60_000_000);
        assert_eq!(clock.advance_to_at_least(Timestamp::from_millis(0)), Duration::ZERO);
        let future = clock.now().after(Duration::from_secs(3_600));
        assert!(clock.advance_to_at_least(future) > Duration::from_secs(3_599));
        assert!(clock.now() >= future);
        assert!(clock.wall_now() < future, "the wall clock was not moved");
        assert!(!clock.is_trusted(), "it is an hour behind the store");
    }

    /// A moment would come early otherwise.
    #[test]
    fn the_difference_is_rounded_down_where_the_clock_moves_forward() {
        for _ in 0..5 {
            let clock = SystemClock::new();
            let moved = clock.advance_to_at_least(clock.now().after(Duration::from_secs(10)));
            let behind_us = i64::try_from(moved.as_micros()).expect("fits");
            assert!((-999..=0).contains(&(clock.wall_ahead_ms() * 1_000 + behind_us)), "{behind_us}");
        }
    }

    #[test]
    fn preempted_samples_do_not_count() {
        let preempted = [(0, 500, 2_000), (3_000, 103_001, 3_002), (4_000, 106_000, 6_000)];
        assert_eq!(tightest_offset(preempted.into_iter()), 100_001);
    }
}
