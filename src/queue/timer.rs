//! The timer: moves what is due, then sleeps until the next deadline or a nudge. No fixed tick.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Queue;
use crate::{
    clock::Clock,
    failure_log::FailureLog,
    metrics::Event,
    store::{self, MoveKind, Promoted},
};

/// Longest sleep. Where there is no fine timer, sleeps stand still while a machine is suspended, and one that
/// began before may end late by as much as this.
const MAX_SLEEP: Duration = Duration::from_secs(60);
/// First and longest pause after the store failed.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Wakes the timer when something becomes due before it would look again.
#[derive(Debug)]
pub(super) struct Nudge {
    /// The engine-independent moment of the next look, in microseconds of our clock.
    next_look_us: AtomicI64,
    notify: Notify,
}

impl Nudge {
    pub fn new() -> Self {
        // Until the first look is planned, every nudge counts.
        Self { next_look_us: AtomicI64::new(i64::MAX), notify: Notify::new() }
    }

    /// Something may be due in `after`.
    pub fn due_in(&self, clock: &dyn Clock, after: Duration) {
        let due_us = moment(clock, after);
        if self.next_look_us.fetch_min(due_us, Ordering::AcqRel) > due_us {
            self.notify.notify_one();
        }
    }
}

fn moment(clock: &dyn Clock, after: Duration) -> i64 {
    clock.now_micros().saturating_add(i64::try_from(after.as_micros()).unwrap_or(i64::MAX))
}

impl Queue {
    /// Serves delays, TTR ends and dead letters until `stop`. After an error of the store it tries again, after
    /// a pause that doubles up to 2 s.
    pub async fn run_timer(&self, stop: CancellationToken) {
        let (mut pause, log) = (BACKOFF.0, FailureLog::default());
        let mut alarm = self.clock.clone().alarm();
        while !stop.is_cancelled() {
            self.nudge.next_look_us.store(i64::MAX, Ordering::Release);
            let promoted = self.promote_once().await;
            self.log_promotion(&log, promoted.as_ref().err());
            let sleep = match promoted {
                Ok(promoted) if promoted.more => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Ok(promoted) => {
                    pause = BACKOFF.0;
                    promoted.next_in.unwrap_or(MAX_SLEEP).min(MAX_SLEEP)
                }
                Err(_) => {
                    pause = (pause * 2).min(BACKOFF.1);
                    pause
                }
            };
            // A nudge since the look began has left a permit, so nothing is slept through.
            self.nudge.next_look_us.fetch_min(moment(&*self.clock, sleep), Ordering::AcqRel);
            tokio::select! {
                () = alarm.sleep(sleep) => {}
                () = self.nudge.notify.notified() => {}
                () = stop.cancelled() => {}
            }
        }
    }

    fn log_promotion(&self, log: &FailureLog, error: Option<&store::Error>) {
        let now_us = self.clock.now_micros();
        match error {
            None => {
                if log.works(now_us).is_some() {
                    tracing::info!("due jobs are moved again");
                }
            }
            // A store that is away has a line of its own.
            Some(_) if self.store_state().is_err() => {}
            Some(error) => {
                if log.failed(now_us) {
                    tracing::error!(%error, "due jobs cannot be moved");
                }
            }
        }
    }

    /// Moves everything that is due now; what the timer does, for those who hold the clock.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn promote_due(&self) -> Result<(), super::Error> {
        while self.promote_once().await?.more {}
        Ok(())
    }

    async fn promote_once(&self) -> store::Result<Promoted> {
        let promoted = self.store.promote(self.limits.promote_batch).await?;
        for moved in &promoted.moves {
            let topic = moved.topic.as_str();
            match moved.kind {
                MoveKind::Ready => self.metrics.became_ready(topic, moved.late),
                MoveKind::Expired => self.metrics.count(Event::Expired, topic, 1),
                MoveKind::Died => {
                    self.metrics.count(Event::Expired, topic, 1);
                    self.metrics.count(Event::Buried, topic, 1);
                }
                MoveKind::Forgotten => self.metrics.count(Event::Deleted, topic, 1),
            }
        }
        Ok(promoted)
    }
}
