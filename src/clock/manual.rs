//! A clock for tests. It stands still until a test advances it, so that a delay of 30 days passes in a millisecond.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::{Clock, ClockTrust, PreciseTimer, micros_behind};
use crate::job::Timestamp;

/// A clock that moves only when it is advanced. Sleepers wake when it reaches their time.
#[derive(Debug)]
pub struct ManualClock {
    state: Mutex<ManualState>,
    trust: ClockTrust,
}

#[derive(Debug)]
struct ManualState {
    now_us: i64,
    wall_ahead_ms: i64,
    /// By wake-up time, then by order of arrival.
    sleepers: BTreeMap<(i64, u64), oneshot::Sender<()>>,
    arrivals: u64,
}

impl ManualClock {
    /// A clock that shows `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Arc<Self> {
        let now_us = start.as_millis() * 1_000;
        let state = ManualState { now_us, wall_ahead_ms: 0, sleepers: BTreeMap::new(), arrivals: 0 };
        Arc::new(Self { state: Mutex::new(state), trust: ClockTrust::default() })
    }

    /// Advances the time and wakes every sleeper whose time has come.
    pub fn advance(&self, duration: Duration) {
        let due = {
            let mut state = self.lock();
            state.now_us += i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4);
            let first_later = (state.now_us + 1, 0);
            let later = state.sleepers.split_off(&first_later);
            std::mem::replace(&mut state.sleepers, later)
        };
        // The mutex is released before sleepers wake. A sleeper that was dropped needs no waking.
        for wake in due.into_values() {
            let _ = wake.send(());
        }
    }

    /// Sets the machine's clock by `step_ms`, which may be negative.
    pub fn step_wall(&self, step_ms: i64) {
        let mut state = self.lock();
        self.trust.moved(step_ms * 1_000, state.now_us);
        state.wall_ahead_ms += step_ms;
    }

    /// Whether a task sleeps until exactly this moment, in microseconds.
    #[must_use]
    pub fn has_sleeper_until(&self, wake_us: i64) -> bool {
        self.lock().sleepers.range((wake_us, 0)..=(wake_us, u64::MAX)).any(|(_, wake)| !wake.is_closed())
    }

    fn lock(&self) -> MutexGuard<'_, ManualState> {
        self.state.lock().expect("no code panics while it holds the clock")
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now_micros(&self) -> i64 {
        self.lock().now_us
    }

    fn wall_ahead_ms(&self) -> i64 {
        self.lock().wall_ahead_ms
    }

    fn is_trusted(&self) -> bool {
        let state = self.lock();
        self.trust.is_given_ahead(state.now_us, state.wall_ahead_ms)
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

    fn first_period_us(&self) -> i64 {
        0
    }

    fn precise_timer(self: Arc<Self>) -> PreciseTimer {
        PreciseTimer::of_clock(self)
    }

    fn advance_to_at_least(&self, floor: Timestamp) -> Duration {
        let moved = Duration::from_micros(micros_behind(floor, self.now_micros()).unsigned_abs());
        self.advance(moved);
        self.step_wall(-i64::try_from(moved.as_millis()).unwrap_or(i64::MAX));
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    #[tokio::test]
    async fn a_sleeper_wakes_exactly_at_its_time() {
        let clock = ManualClock::new(Timestamp::from_millis(1_000));
        let mut poll_sleeper = sleeper(clock.clone(), Duration::from_millis(10));
        assert!(poll_sleeper().is_pending());
        clock.advance(Duration::from_micros(9_999));
        assert!(poll_sleeper().is_pending());
        assert!(clock.has_sleeper_until(1_010_000) && !clock.has_sleeper_until(1_009_999));
        clock.advance(Duration::from_micros(1));
        assert!(poll_sleeper().is_ready());
        assert!(!clock.has_sleeper_until(1_010_000));
    }

    #[tokio::test]
    async fn tasks_that_wait_for_the_end_of_a_period_wake_together() {
        let clock = ManualClock::new(Timestamp::from_millis(1_000));
        let wait = |period| {
            let (clock, period) = (clock.clone(), Duration::from_millis(period));
            let mut waiting = Box::pin(async move { clock.sleep_until_period_ends(period).await });
            move || waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        };
        let mut first = wait(1_000);
        assert!(first().is_pending(), "a period has just begun");
        clock.advance(Duration::from_micros(700_001));
        let (mut second, mut third) = (wait(1_000), wait(500));
        assert!(second().is_pending() && third().is_pending());
        clock.advance(Duration::from_micros(299_998));
        assert!(first().is_pending() && second().is_pending() && third().is_pending());
        clock.advance(Duration::from_micros(1));
        assert!(first().is_ready() && second().is_ready() && third().is_ready());
    }

    /// A sleeper that is polled by hand.
    fn sleeper(clock: Arc<ManualClock>, duration: Duration) -> impl FnMut() -> Poll<()> {
        let mut sleep = Box::pin(async move { clock.sleep(duration).await });
        move || sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }
}
