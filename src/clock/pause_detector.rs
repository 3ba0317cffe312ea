//! Detects that the process did not run: stopped by a signal, frozen with its container, or paused with its machine.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    thread,
    time::Duration,
};

use super::system::boot_micros;

/// How often the thread ticks.
const TICK: Duration = Duration::from_millis(250);
/// A shorter gap between two ticks may come from a busy machine.
const SHORTEST_PAUSE_US: i64 = 1_000_000;
/// How long after a pause requests may still be read that arrived during it.
const AFTERMATH_US: i64 = 1_000_000;

/// Knows whether the process was paused a moment ago, by the ticks of a thread of its own. Time spent suspended counts.
#[derive(Debug)]
pub struct PauseDetector {
    last_tick_us: AtomicI64,
    aftermath_until_us: AtomicI64,
}

impl PauseDetector {
    /// Starts the thread. It ends when the detector is dropped.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn start() -> std::io::Result<Arc<Self>> {
        let detector = Arc::new(Self::new(boot_micros()));
        let watched = Arc::downgrade(&detector);
        thread::Builder::new().name("linger-pauses".to_owned()).spawn(move || {
            while let Some(detector) = watched.upgrade() {
                detector.tick(boot_micros());
                drop(detector);
                #[expect(clippy::disallowed_methods, reason = "a thread that waits for nothing else")]
                thread::sleep(TICK);
            }
        })?;
        Ok(detector)
    }

    fn new(now_us: i64) -> Self {
        Self { last_tick_us: AtomicI64::new(now_us), aftermath_until_us: AtomicI64::new(now_us) }
    }

    /// Whether the process was paused for over a second and has run again for less than a second.
    #[must_use]
    pub fn was_just_paused(&self) -> bool {
        self.was_just_paused_at(boot_micros())
    }

    /// The thread may run later than the caller after a pause, so a tick that is overdue counts too.
    fn was_just_paused_at(&self, now_us: i64) -> bool {
        now_us - self.last_tick_us.load(Ordering::Acquire) > SHORTEST_PAUSE_US
            || now_us < self.aftermath_until_us.load(Ordering::Relaxed)
    }

    fn tick(&self, now_us: i64) {
        let paused_us = now_us - self.last_tick_us.load(Ordering::Relaxed);
        if paused_us > SHORTEST_PAUSE_US {
            self.aftermath_until_us.store(now_us + AFTERMATH_US, Ordering::Relaxed);
            tracing::warn!(
                paused_ms = paused_us / 1_000,
                "the process was paused; calls that arrived meanwhile are refused, because their clients may have repeated \
                 them elsewhere"
            );
        }
        // Last, so that a caller who sees this tick also sees the aftermath.
        self.last_tick_us.store(now_us, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_known_before_its_first_tick_and_for_a_second_afterwards() {
        let detector = PauseDetector::new(0);
        for (tick_us, before, after) in [
            (250_000, false, false),
            (1_250_000, false, false),
            (2_250_001, true, true),
            (2_500_000, true, true),
            (3_250_000, true, true),
            (3_500_000, false, false),
        ] {
            assert_eq!(detector.was_just_paused_at(tick_us), before, "before the tick at {tick_us}");
            detector.tick(tick_us);
            assert_eq!(detector.was_just_paused_at(tick_us), after, "after the tick at {tick_us}");
        }
    }

    #[test]
    fn a_process_that_runs_was_not_paused() {
        let detector = PauseDetector::start().expect("starts");
        assert!(!detector.was_just_paused());
        let watched = Arc::downgrade(&detector);
        drop(detector);
        // The thread holds it for a moment at most.
        while watched.upgrade().is_some() {
            thread::yield_now();
        }
    }
}
