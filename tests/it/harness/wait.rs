//! Waiting for a condition that another task, thread or process brings about. Every wait has a time limit, and a failure
//! shows the last observation.

use std::{
    panic::Location,
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use linger::clock::{Clock, SystemClock};

/// Longer than any condition needs to become true, also on a very busy machine. `scripts/mutants`, under which many waits are
/// in vain, sets fewer seconds.
pub static LONGEST: LazyLock<Duration> = LazyLock::new(|| {
    let seconds =
        std::env::var("LINGER_LONGEST_WAIT").map(|seconds| seconds.parse().expect("a number of seconds"));
    Duration::from_secs(seconds.unwrap_or(300))
});

/// Between two looks at what another process brings about: this part of the time that has been waited. Looking costs
/// both processes time, and a look that comes later by this part prolongs no test much.
const PAUSE_PART: u32 = 16;
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Looks at a condition before it pauses between them: other tasks of the runtime need no time to make it true.
const LOOKS_AT_ONCE: u32 = 200;

/// The time limit of one wait.
#[derive(Debug)]
pub struct TimeLimit {
    clock: SystemClock,
    end_us: i64,
    caller: &'static Location<'static>,
}

impl TimeLimit {
    #[track_caller]
    pub fn new() -> Self {
        let clock = SystemClock::new();
        let end_us = clock.now_micros() + i64::try_from(LONGEST.as_micros()).expect("fits");
        Self { clock, end_us, caller: Location::caller() }
    }

    /// Panics with the last observation once the limit is reached.
    pub fn check(&self, observed: impl FnOnce() -> String) {
        let over = self.clock.now_micros() > self.end_us;
        assert!(
            !over,
            "{}: waited in vain for {:?}; last observation: {}",
            self.caller,
            *LONGEST,
            observed()
        );
    }

    /// Leaves the processor to others before the next check.
    pub async fn pause(&self) {
        self.clock.sleep(self.next_pause()).await;
    }

    /// Does so outside of async code.
    pub fn pause_thread(&self) {
        std::thread::park_timeout(self.next_pause());
    }

    fn next_pause(&self) -> Duration {
        let left =
            Duration::from_micros(self.end_us.saturating_sub(self.clock.now_micros()).max(0).unsigned_abs());
        (LONGEST.saturating_sub(left) / PAUSE_PART).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
    }
}

/// The most steps of a walk, such as pages of a list. A walk that does not end fails, in place of waiting for ever.
#[derive(Debug)]
pub struct StepLimit {
    left: u32,
    caller: &'static Location<'static>,
}

impl StepLimit {
    /// More steps than any walk of the tests has.
    const MOST: u32 = 10_000;

    #[track_caller]
    pub fn new() -> Self {
        Self { left: Self::MOST, caller: Location::caller() }
    }

    /// Counts one step. Panics past the limit.
    pub fn step(&mut self) {
        assert!(self.left > 0, "{}: the walk has not ended after {} steps", self.caller, Self::MOST);
        self.left -= 1;
    }
}

/// Lets other tasks run until `condition` is true.
#[track_caller]
pub fn until(condition: impl Fn() -> bool) -> impl Future<Output = ()> {
    let time_limit = TimeLimit::new();
    async move {
        let mut looks = 0;
        while !condition() {
            time_limit.check(|| "the condition is false".to_owned());
            looks += 1;
            if looks < LOOKS_AT_ONCE { tokio::task::yield_now().await } else { time_limit.pause().await }
        }
    }
}

/// Lets every other task of the runtime run more often than any of them needs to do what it can do at this moment.
pub async fn let_others_run() {
    for _ in 0..LOOKS_AT_ONCE {
        tokio::task::yield_now().await;
    }
}

/// Asserts that a task does not end although it could run.
#[track_caller]
pub fn assert_waits<T>(task: &tokio::task::JoinHandle<T>, why: &str) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let_others_run().await;
        assert!(!task.is_finished(), "{caller}: the task has ended: {why}");
    }
}

/// Joins a thread, and panics if it has not ended within the limit.
#[track_caller]
pub fn join<T>(what: &str, thread: JoinHandle<T>) -> T {
    let time_limit = TimeLimit::new();
    while !thread.is_finished() {
        time_limit.check(|| format!("{what} has not ended"));
        time_limit.pause_thread();
    }
    thread.join().expect("does not panic")
}

/// Awaits `future`, and panics if it takes longer than the limit.
pub async fn bounded<T>(what: &str, future: impl Future<Output = T>) -> T {
    let clock = SystemClock::new();
    tokio::select! {
        outcome = future => outcome,
        () = clock.sleep(*LONGEST) => panic!("{what}: waited in vain for {:?}", *LONGEST),
    }
}

/// Sets a flag when it is dropped, so that the threads that run until then also end if the test panics.
#[derive(Debug)]
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
