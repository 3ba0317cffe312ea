//! Time, injected: the only place that reads a clock or sleeps (`clippy.toml` bans the others).
//!
//! [`SystemClock`] is wall time at start plus elapsed boot time, so that steps of the wall clock while
//! running neither fire delays early nor hold them back, and suspend counts. [`ManualClock`] stands
//! still until a test advances it, which lets a 30-day delay pass in a millisecond.

mod precise_timer;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::oneshot;

pub use precise_timer::Alarm;

use crate::job::{Now, Timestamp};

/// A source of time and of waiting.
#[async_trait]
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The present moment in microseconds since the Unix epoch; never goes backwards.
    fn now_micros(&self) -> i64;

    /// Returns once `duration` has passed on this clock, never earlier, and perhaps some milliseconds later.
    async fn sleep(&self, duration: Duration);

    /// A sleeper that wakes as precisely as this clock can. Must be called within a runtime.
    fn alarm(self: Arc<Self>) -> Alarm;

    /// Moves the clock forward to `floor` if it is behind: the high-water mark that an engine kept,
    /// so that time does not go backwards over a restart. Returns how far it was moved.
    fn raise_to(&self, floor: Timestamp) -> Duration;

    /// The present moment rounded down: what a deadline is compared with.
    fn now(&self) -> Timestamp {
        self.read().down
    }

    /// The present moment, both ways of rounding: read once per operation.
    fn read(&self) -> Now {
        Now::from_micros(self.now_micros())
    }
}

/// Wall time at start plus elapsed `CLOCK_BOOTTIME`.
#[derive(Debug)]
pub struct SystemClock {
    /// Microseconds since the epoch at which boot time was zero, by the wall clock at start.
    offset_us: AtomicI64,
}

impl SystemClock {
    /// Starts from the wall clock.
    #[must_use]
    pub fn new() -> Self {
        Self { offset_us: AtomicI64::new(offset_micros()) }
    }

    /// How far the wall clock has moved away from this one since start, in microseconds; shows steps
    /// of the wall clock.
    #[must_use]
    pub fn wall_drift_micros(&self) -> i64 {
        offset_micros() - self.offset_us.load(Ordering::Relaxed)
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

    #[expect(clippy::disallowed_methods, reason = "the one place that sleeps")]
    async fn sleep(&self, duration: Duration) {
        // tokio's timer stands still in suspend; the callers' waits are capped and looked at again.
        tokio::time::sleep(duration).await;
    }

    fn alarm(self: Arc<Self>) -> Alarm {
        Alarm::fine(self)
    }

    fn raise_to(&self, floor: Timestamp) -> Duration {
        let behind_us = behind(floor, self.now_micros());
        self.offset_us.fetch_add(behind_us, Ordering::Relaxed);
        Duration::from_micros(behind_us.unsigned_abs())
    }
}

/// By how many microseconds `now_us` lies before `floor`; 0 when it does not.
fn behind(floor: Timestamp, now_us: i64) -> i64 {
    floor.as_millis().saturating_mul(1_000).saturating_sub(now_us).max(0)
}

/// How often both clocks are read to find out how far they are apart.
const READINGS: usize = 100;

/// Wall time less boot time. Whoever is interrupted between reading the one and the other would be off by that
/// for as long as it runs, and the next process on the same store would fire early or late by it.
fn offset_micros() -> i64 {
    closest((0..READINGS).map(|_| (boot_micros(), wall_micros(), boot_micros())))
}

/// The difference by the readings of boot time, wall time and boot time again that lie closest together.
fn closest(readings: impl Iterator<Item = (i64, i64, i64)>) -> i64 {
    let by_width = readings.map(|(before, wall, after)| (after - before, wall - before));
    by_width.min_by_key(|(width, _)| *width).map_or(0, |(_, offset)| offset)
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
fn wall_micros() -> i64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn boot_micros() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
fn boot_micros() -> i64 {
    use std::{sync::LazyLock, time::Instant};
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    i64::try_from(START.elapsed().as_micros()).unwrap_or(i64::MAX)
}

/// A clock that moves only when told to; sleepers wake when it passes their moment.
#[derive(Debug)]
pub struct ManualClock {
    state: Mutex<Manual>,
}

#[derive(Debug)]
struct Manual {
    now_us: i64,
    /// By wake-up moment, then by order of arrival.
    sleepers: BTreeMap<(i64, u64), oneshot::Sender<()>>,
    arrivals: u64,
}

impl ManualClock {
    /// Stands at `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Arc<Self> {
        let state = Manual { now_us: start.as_millis() * 1_000, sleepers: BTreeMap::new(), arrivals: 0 };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Moves time on and wakes every sleeper whose moment has come.
    pub fn advance(&self, duration: Duration) {
        let due = {
            let mut state = self.lock();
            state.now_us += i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4);
            let first_later = (state.now_us + 1, 0);
            let later = state.sleepers.split_off(&first_later);
            std::mem::replace(&mut state.sleepers, later)
        };
        // Woken after the lock is let go; a sleeper that went away needs no waking.
        for wake in due.into_values() {
            let _ = wake.send(());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Manual> {
        self.state.lock().expect("no code panics while it holds the clock")
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now_micros(&self) -> i64 {
        self.lock().now_us
    }

    async fn sleep(&self, duration: Duration) {
        let woken = {
            let mut state = self.lock();
            let wake_us =
                state.now_us.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX));
            if wake_us <= state.now_us {
                return;
            }
            let (wake, woken) = oneshot::channel();
            state.arrivals += 1;
            let arrival = state.arrivals;
            state.sleepers.insert((wake_us, arrival), wake);
            woken
        };
        let _ = woken.await;
    }

    fn alarm(self: Arc<Self>) -> Alarm {
        Alarm::plain(self)
    }

    fn raise_to(&self, floor: Timestamp) -> Duration {
        let moved = Duration::from_micros(behind(floor, self.now_micros()).unsigned_abs());
        self.advance(moved);
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Poll;

    #[test]
    fn the_system_clock_follows_the_wall_and_can_be_raised_but_not_lowered() {
        let clock = SystemClock::new();
        assert!(clock.wall_drift_micros().abs() < 60_000_000);
        assert_eq!(clock.raise_to(Timestamp::from_millis(0)), Duration::ZERO);
        let future = clock.now().after(Duration::from_secs(3_600));
        assert!(clock.raise_to(future) > Duration::from_secs(3_599));
        assert!(clock.now() >= future);
    }

    #[test]
    fn a_reading_that_was_interrupted_does_not_count() {
        let interrupted = [(0, 500, 2_000), (3_000, 103_001, 3_002), (4_000, 106_000, 6_000)];
        assert_eq!(closest(interrupted.into_iter()), 100_001);
    }

    #[tokio::test]
    async fn a_manual_sleeper_wakes_exactly_at_its_moment() {
        let clock = ManualClock::new(Timestamp::from_millis(1_000));
        let mut sleeper = tokio_test_task(clock.clone(), Duration::from_millis(10));
        assert!(sleeper().is_pending());
        clock.advance(Duration::from_micros(9_999));
        assert!(sleeper().is_pending());
        clock.advance(Duration::from_micros(1));
        assert!(sleeper().is_ready());
    }

    /// A sleeper that is polled by hand.
    fn tokio_test_task(clock: Arc<ManualClock>, duration: Duration) -> impl FnMut() -> Poll<()> {
        let mut sleep = Box::pin(async move { clock.sleep(duration).await });
        move || sleep.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }
}
