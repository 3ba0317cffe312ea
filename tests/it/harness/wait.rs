//! Waiting for a condition that another task, thread or process brings about: always with a time limit, and with the
//! last observation in the failure.

use std::{
    panic::Location,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use linger::clock::{Clock, SystemClock};

/// Longer than any condition takes that will be met at all, also on a very busy machine.
const LONGEST: Duration = Duration::from_secs(90);

/// The time limit of one wait.
#[derive(Debug)]
pub struct Patience {
    clock: SystemClock,
    end_us: i64,
    at: &'static Location<'static>,
}

impl Patience {
    #[track_caller]
    pub fn new() -> Self {
        let clock = SystemClock::new();
        let end_us = clock.now_micros() + i64::try_from(LONGEST.as_micros()).expect("fits");
        Self { clock, end_us, at: Location::caller() }
    }

    /// Fails with the last observation `seen` once the limit is reached.
    pub fn or_fail(&self, seen: impl FnOnce() -> String) {
        let over = self.clock.now_micros() > self.end_us;
        assert!(!over, "{}: in vain for {LONGEST:?}; seen last: {}", self.at, seen());
    }

    /// Yields the processor before the next check.
    pub async fn pause(&self) {
        self.clock.sleep(Duration::from_millis(2)).await;
    }
}

/// Lets other tasks run until `reached`.
#[track_caller]
pub fn until(reached: impl Fn() -> bool) -> impl Future<Output = ()> {
    let patience = Patience::new();
    async move {
        while !reached() {
            patience.or_fail(|| "not so yet".to_owned());
            tokio::task::yield_now().await;
        }
    }
}

/// The output of `future`; fails when it takes longer than the limit.
pub async fn bounded<T>(what: &str, future: impl Future<Output = T>) -> T {
    let clock = SystemClock::new();
    tokio::select! {
        outcome = future => outcome,
        () = clock.sleep(LONGEST) => panic!("{what}: in vain for {LONGEST:?}"),
    }
}

/// Sets a flag when it is dropped: threads that work until it is set also end when a check between panics.
#[derive(Debug)]
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
