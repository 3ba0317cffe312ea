//! How far a step is: the bar on a terminal, and the guard that ends a step which does not get on.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Failure;
use crate::clock::Clock;

/// A step that makes no progress for so long has failed.
const QUIET: Duration = Duration::from_secs(30);

/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The progress of the step at hand.
#[derive(Debug)]
pub(super) struct Progress {
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

    /// Something happened, `count` times.
    pub fn step(&self, count: usize) {
        self.moved.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Relaxed);
    }

    /// Does `work`, in which `total` things are to happen. Fails when none happens for half a minute beyond
    /// `idle`, in which nothing is expected.
    pub async fn guard<T>(
        &self,
        clock: &dyn Clock,
        name: &str,
        total: usize,
        idle: Duration,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.moved.store(0, Relaxed);
        self.bar.reset();
        self.bar.set_length(u64::try_from(total).unwrap_or(u64::MAX));
        self.bar.set_message(name.to_owned());
        let quiet = QUIET + idle;
        tokio::select! {
            done = work => done,
            moved = self.standstill(clock, quiet) => {
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
    async fn standstill(&self, clock: &dyn Clock, quiet: Duration) -> u64 {
        let (mut seen, mut since_us) = (0, clock.now_micros());
        loop {
            clock.sleep(LOOK).await;
            let (moved, now_us) = (self.moved.load(Relaxed), clock.now_micros());
            self.bar.set_position(moved);
            if moved != seen {
                (seen, since_us) = (moved, now_us);
            } else if u128::from((now_us - since_us).unsigned_abs()) > quiet.as_micros() {
                return moved;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::ManualClock, job::Timestamp};

    /// How a guarded step ends of which something happens `times` times, 20 s apart, and then nothing.
    async fn ends_after(times: usize) -> Duration {
        let (progress, clock) = (Progress::new(), ManualClock::new(Timestamp::from_millis(0)));
        let work = async {
            for _ in 0..times {
                clock.sleep(Duration::from_secs(20)).await;
                progress.step(1);
            }
            std::future::pending::<Result<(), Failure>>().await
        };
        let guarded = progress.guard(clock.as_ref(), "jobs", 9, Duration::from_secs(5), work);
        let passing = async {
            for _ in 0..2_000 {
                clock.advance(LOOK);
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::select! { ended = guarded => ended, () = passing => Ok(()) };
        let said = ended.expect_err("it never gets done").to_string();
        assert_eq!(said, format!("nothing happened for 35s while waiting for jobs, after {times} of 9"));
        Duration::from_micros(clock.now_micros().unsigned_abs())
    }

    #[tokio::test]
    async fn a_step_fails_half_a_minute_after_its_last_progress() {
        for times in 0..3 {
            let (least, ended) = (20 * times as u64 + 35, ends_after(times).await.as_secs());
            assert!((least..least + 2).contains(&ended), "{ended} s after {times}");
        }
    }
}
