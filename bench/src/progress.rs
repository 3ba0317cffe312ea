//! How far a step is: the bar on a terminal, and the guard that ends a step which does not get on.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use tokio::time::{Instant, sleep};

use crate::failure::Failure;

/// A step that makes no progress for so long has failed.
const QUIET: Duration = Duration::from_secs(30);

/// How often progress is checked.
const INTERVAL: Duration = Duration::from_millis(100);

/// The progress of the step at hand.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Draws on stderr, and nothing where that is no terminal.
    bar: ProgressBar,
    moved: AtomicU64,
}

impl Progress {
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{msg:30} {wide_bar} {human_pos}/{human_len} {elapsed}");
        bar.set_style(style.expect("the template is sound"));
        Self { bar, moved: AtomicU64::new(0) }
    }

    /// Counts that something happened, `count` times.
    pub fn step(&self, count: usize) {
        self.moved.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Relaxed);
    }

    /// Does `work`, in which `total` things are to happen. Fails when none happens for half a minute beyond
    /// `idle`, in which nothing is expected.
    pub async fn guard<T>(
        &self,
        name: &str,
        total: usize,
        idle: Duration,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.guard_within(QUIET + idle, name, total, work).await
    }

    async fn guard_within<T>(
        &self,
        quiet: Duration,
        name: &str,
        total: usize,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.moved.store(0, Relaxed);
        self.bar.reset();
        self.bar.set_length(u64::try_from(total).unwrap_or(u64::MAX));
        self.bar.set_message(name.to_owned());
        tokio::select! {
            done = work => done,
            moved = self.standstill(quiet) => {
                let waited_for = format!("{name}, after {moved} of {total}");
                Err(Failure::Stalled { waited_for, quiet })
            }
        }
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Returns how much had happened when nothing more happened for `quiet`.
    async fn standstill(&self, quiet: Duration) -> u64 {
        let mut last = LastMove { moved: 0, at: Instant::now() };
        loop {
            sleep(INTERVAL).await;
            let moved = self.moved.load(Relaxed);
            self.bar.set_position(moved);
            if last.update(moved, Instant::now()) > quiet {
                return moved;
            }
        }
    }
}

/// When progress was last seen.
struct LastMove {
    moved: u64,
    at: Instant,
}

impl LastMove {
    /// How long nothing has happened, `moved` being how much has happened in all until `now`.
    fn update(&mut self, moved: u64, now: Instant) -> Duration {
        if moved != self.moved {
            *self = Self { moved, at: now };
        }
        now - self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_time_counts_from_the_last_progress() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut last = LastMove { moved: 0, at: start };
        let quiet = [(0, 20), (1, 25), (1, 50), (1, 61), (2, 61)]
            .map(|(moved, s)| last.update(moved, at(s)).as_secs());
        assert_eq!(quiet, [20, 0, 25, 36, 0]);
    }

    #[tokio::test]
    async fn a_step_without_progress_fails_with_what_it_waited_for() {
        let progress = Progress::new();
        let work = std::future::pending::<Result<(), Failure>>();
        let guarded = progress.guard_within(Duration::from_millis(1), "jobs", 9, work);
        let said = guarded.await.expect_err("it never gets done").to_string();
        assert_eq!(said, "nothing happened for 1ms while waiting for jobs, after 0 of 9");
    }
}
