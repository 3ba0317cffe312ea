//! Time, injected: the only module that reads a clock or sleeps (`clippy.toml` bans it elsewhere).
//!
//! A reading of the clock is rounded in two ways ([`Now`]): down to decide whether a deadline has passed, up as the
//! start of a delay. So nothing fires early. The scripts of the Redis engine round their server's clock in the same
//! way (`clock` in `store/redis/scripts/record.lua`). The timer's sleeps are the kernel's (`precise_timer.rs`). The
//! embedded engine's writer waits for a deadline on a condition variable, which is as precise, but stops while the
//! machine is suspended; the next health check, within a second, is an operation that ends the wait.

mod manual;
mod pause_detector;
mod precise_timer;
mod system;
mod trust;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

pub use manual::ManualClock;
pub use pause_detector::PauseDetector;
pub use precise_timer::PreciseTimer;
pub use system::SystemClock;
pub use trust::ClockTrust;

use crate::job::{Now, Timestamp};

/// A source of time and of waiting.
#[async_trait]
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The current time in microseconds since the Unix epoch. It never goes backwards, and setting the machine's clock does
    /// not change it.
    fn now_micros(&self) -> i64;

    /// By how many milliseconds the machine's clock is ahead of this one, as of the last comparison: 0 unless it was set, or
    /// this clock was [advanced](Self::advance_to_at_least).
    fn wall_ahead_ms(&self) -> i64;

    /// Whether the machine's clock may decide what cannot be undone: not for an hour after it was set by over a minute
    /// ([`ClockTrust`]), and not while it is over a minute behind this one, which was [advanced](Self::advance_to_at_least) then.
    fn is_trusted(&self) -> bool;

    /// Returns once `duration` has passed on this clock, never earlier, and perhaps some milliseconds later.
    async fn sleep(&self, duration: Duration);

    /// When the first period began, in microseconds on this clock. It differs among processes: those on one Redis must not all
    /// call it at the same moment.
    fn first_period_us(&self) -> i64;

    /// Returns when the present period ends. Periods follow one another, for all tasks alike, so that tasks which check something
    /// now and then wake together: to wake an idle processor costs more than most of these checks.
    async fn sleep_until_period_ends(&self, period: Duration) {
        let period_us = i64::try_from(period.as_micros()).unwrap_or(i64::MAX).max(1);
        let passed_us = self.now_micros().saturating_sub(self.first_period_us()).rem_euclid(period_us);
        self.sleep(Duration::from_micros((period_us - passed_us).unsigned_abs())).await;
    }

    /// A timer that is as precise as this clock can be. Must be called within a runtime.
    fn precise_timer(self: Arc<Self>) -> PreciseTimer;

    /// Moves the clock forward to `floor` if it is behind. The floor is the latest time that an engine recorded, so
    /// that time does not go backwards over a restart. Returns how far the clock was moved.
    fn advance_to_at_least(&self, floor: Timestamp) -> Duration;

    /// The current time rounded down, which is compared with deadlines.
    fn now(&self) -> Timestamp {
        self.read().rounded_down
    }

    /// The current time by the machine's clock, in microseconds since the Unix epoch. It follows a correction of that clock
    /// within a second, and may go backwards then.
    fn wall_micros(&self) -> i64 {
        self.now_micros().saturating_add(self.wall_ahead_ms().saturating_mul(1_000))
    }

    /// The current time by the machine's clock, rounded down.
    fn wall_now(&self) -> Timestamp {
        Now::from_micros(self.wall_micros()).rounded_down
    }

    /// The current time with both roundings, for one reading per operation.
    fn read(&self) -> Now {
        Now::from_micros(self.now_micros())
    }
}

/// By how many microseconds `now_us` is before `floor`; 0 if it is not.
fn micros_behind(floor: Timestamp, now_us: i64) -> i64 {
    floor.as_millis().saturating_mul(1_000).saturating_sub(now_us).max(0)
}
