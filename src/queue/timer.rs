//! The timer: promotes due jobs, then sleeps until the next deadline or until something becomes due earlier. It has no
//! fixed tick. An engine that promotes by itself needs it only at the start and after a failure.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    ended::{EndKind, Ended, EndedJobs},
    health::StoreHealth,
};
use crate::{
    clock::Clock,
    messages::failure_log::FailureLog,
    metrics::{Event, QueueMetrics},
    store::{self, Move, MoveKind, Promoted, Store},
};

/// Longest sleep. Without a precise timer, sleeps stop while the machine is suspended, and one that began before may end
/// late by as much as this.
const MAX_SLEEP: Duration = Duration::from_secs(60);
/// A store that answers later than this counts `next_in` from a moment that may be long ago.
const PROMPT: Duration = Duration::from_millis(10);
/// Most jobs that one promotion moves.
const BATCH: usize = 1_000;
/// First and longest pause after the store failed.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Promotes due jobs.
#[derive(Debug)]
pub(super) struct Timer {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: QueueMetrics,
    ended: Arc<EndedJobs>,
    waker: TimerWaker,
}

/// Wakes the timer if something becomes due before its next promotion.
#[derive(Debug)]
struct TimerWaker {
    /// When the next promotion is planned, in microseconds of the queue's clock.
    next_promotion_us: AtomicI64,
    notify: Notify,
}

impl TimerWaker {
    /// Until a promotion is planned, every due time wakes the timer.
    fn new() -> Self {
        Self { next_promotion_us: AtomicI64::new(i64::MAX), notify: Notify::new() }
    }

    fn wake_at(&self, due_us: i64) {
        if self.next_promotion_us.fetch_min(due_us, Ordering::AcqRel) > due_us {
            self.notify.notify_one();
        }
    }
}

impl Timer {
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        metrics: QueueMetrics,
        ended: Arc<EndedJobs>,
    ) -> Self {
        Self { store, clock, metrics, ended, waker: TimerWaker::new() }
    }

    /// Something may become due in `after`.
    pub fn due_in(&self, after: Duration) {
        self.waker.wake_at(self.micros_in(after));
    }

    /// Promotes due jobs until `stop`.
    pub async fn run(&self, health: &StoreHealth, stop: CancellationToken) {
        let (mut pause, log) = (BACKOFF.0, FailureLog::default());
        let mut precise_timer = self.clock.clone().precise_timer();
        while !stop.is_cancelled() {
            self.waker.next_promotion_us.store(i64::MAX, Ordering::Release);
            let began_us = self.clock.now_micros();
            let promoted = self.promote().await;
            self.log_outcome(&log, promoted.as_ref().err(), health);
            let sleep = match promoted {
                Ok(promoted) if promoted.more => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Ok(promoted) => {
                    pause = BACKOFF.0;
                    self.sleep_until_next(promoted.next_in.unwrap_or(MAX_SLEEP), began_us)
                }
                Err(_) => {
                    pause = (pause * 2).min(BACKOFF.1);
                    pause
                }
            };
            // An event since the promotion began has left a permit, so the timer does not sleep through it.
            self.waker.next_promotion_us.fetch_min(self.micros_in(sleep), Ordering::AcqRel);
            tokio::select! {
                // In order, not at random, so that the simulation of a seed is always the same.
                biased;
                () = precise_timer.sleep(sleep) => {}
                () = self.waker.notify.notified() => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// How long to sleep after a promotion that began at `began_us`. If its answer was late, the time is counted from when
    /// the promotion began, so that no job becomes ready as much too late. After a prompt answer it is not: the timer would wake
    /// that much too early each time, and promote twice.
    fn sleep_until_next(&self, next_in: Duration, began_us: i64) -> Duration {
        let took = Duration::from_micros(self.clock.now_micros().saturating_sub(began_us).unsigned_abs());
        let late = if took > PROMPT { took } else { Duration::ZERO };
        next_in.min(MAX_SLEEP).saturating_sub(late)
    }

    /// Promotes one batch of due jobs.
    pub async fn promote(&self) -> store::Result<Promoted> {
        let promoted = self.store.promote(BATCH).await?;
        self.count(&promoted.moves);
        Ok(promoted)
    }

    /// Counts moves in the metrics, and remembers the jobs that they deleted.
    pub fn count(&self, moves: &[Move]) {
        for moved in moves {
            let topic = moved.topic.as_str();
            match moved.kind {
                MoveKind::Ready => self.metrics.became_ready(topic, moved.late),
                MoveKind::TimedOut => {
                    self.metrics.count(Event::TimedOut, topic, 1);
                    if moved.is_ready {
                        self.metrics.count(Event::Due, topic, 1);
                    }
                }
                MoveKind::Died => {
                    self.metrics.count(Event::TimedOut, topic, 1);
                    self.metrics.count(Event::Buried, topic, 1);
                }
                MoveKind::Forgotten => self.metrics.count(Event::Deleted, topic, 1),
                MoveKind::Expired => {
                    self.metrics.count(Event::Expired, topic, 1);
                    if let Some(id) = &moved.deleted {
                        let ended = Ended { how: EndKind::Expired, at: self.clock.wall_now(), by: None };
                        self.ended.push(id.clone(), moved.topic.clone(), ended);
                    }
                }
            }
        }
    }

    fn micros_in(&self, after: Duration) -> i64 {
        self.clock.now_micros().saturating_add(i64::try_from(after.as_micros()).unwrap_or(i64::MAX))
    }

    fn log_outcome(&self, log: &FailureLog, error: Option<&store::Error>, health: &StoreHealth) {
        let now_us = self.clock.now_micros();
        match error {
            None => {
                if log.succeeded(now_us).is_some() {
                    tracing::info!("due jobs are promoted again");
                }
            }
            // An unavailable store is logged by `health`, which may notice only later that it was replaced.
            Some(store::Error::Replaced) => {}
            Some(_) if health.failure().is_some() => {}
            Some(error) => {
                if log.failed(now_us) {
                    tracing::error!(%error, "cannot promote due jobs");
                }
            }
        }
    }
}
