//! Whether the store works, as of the last check. A background task checks it, so that health checks and scrapes are
//! answered at once, also while the store is away or hangs.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Clock,
    messages::failure_log::FailureLog,
    metrics::QueueMetrics,
    store::{self, Store},
};

/// Time between checks of a store that works.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time between checks of a store that does not work, and the least before a check because an operation failed.
const RECHECK_INTERVAL: Duration = Duration::from_millis(250);
/// A store that takes longer to answer counts as unavailable until it answers.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks the store and remembers the result.
#[derive(Debug)]
pub(super) struct StoreHealth {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: QueueMetrics,
    /// Why the store does not work; `None` while it does.
    failure: watch::Sender<Option<store::Error>>,
    /// Notified when an operation failed, so that the store is checked soon.
    operation_failed: Arc<Notify>,
    log: FailureLog,
}

impl StoreHealth {
    /// The health of a store that has just been opened.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        metrics: QueueMetrics,
        operation_failed: Arc<Notify>,
    ) -> Self {
        let failure = watch::Sender::new(None);
        Self { store, clock, metrics, failure, operation_failed, log: FailureLog::default() }
    }

    /// Why the store does not work; `None` while it does.
    pub fn failure(&self) -> Option<store::Error> {
        self.failure.borrow().clone()
    }

    /// Waits for the result of `operation`, but fails as soon as the store is known to be unavailable.
    pub async fn while_available<T>(
        &self,
        operation: impl Future<Output = store::Result<T>>,
    ) -> store::Result<T> {
        let mut receiver = self.failure.subscribe();
        let fails = async {
            // Cloned at once: the value stays locked while it is borrowed.
            let failure = receiver.wait_for(Option::is_some).await.map(|failure| failure.clone());
            match failure {
                Ok(failure) => failure,
                // `self` owns the sender, so the channel is never closed here.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(failure) = fails => Err(failure),
            outcome = operation => outcome,
        }
    }

    /// Checks the store once and records the result.
    pub async fn check(&self) {
        self.record(self.store.check().await);
    }

    /// Checks the store until `stop`.
    pub async fn watch(&self, stop: CancellationToken) {
        let watching = async {
            loop {
                let works = self.check_patiently().await;
                let checked_us = self.clock.now_micros();
                if works {
                    tokio::select! {
                        () = self.clock.sleep_until_period_ends(CHECK_INTERVAL) => continue,
                        () = self.operation_failed.notified() => {}
                    }
                }
                let since_us = self.clock.now_micros().saturating_sub(checked_us).unsigned_abs();
                self.clock.sleep(RECHECK_INTERVAL.saturating_sub(Duration::from_micros(since_us))).await;
            }
        };
        tokio::select! {
            () = watching => {}
            () = stop.cancelled() => {}
        }
    }

    /// Checks the store and records the result. A store that worked is checked twice before it counts as unavailable: a
    /// connection that was just cut, or a shard that just moved, is no outage.
    async fn check_patiently(&self) -> bool {
        let mut result = self.check_with_timeout().await;
        if result.as_ref().is_err_and(store::Error::is_unavailable) && self.failure().is_none() {
            self.clock.sleep(RECHECK_INTERVAL).await;
            result = self.check_with_timeout().await;
        }
        self.record(result)
    }

    /// Checks the store. When the timeout passes, records a failure and goes on waiting, so that a store that hangs has
    /// only one check in flight.
    async fn check_with_timeout(&self) -> store::Result<()> {
        let mut check = std::pin::pin!(self.store.check());
        tokio::select! {
            result = &mut check => result,
            () = self.clock.sleep(CHECK_TIMEOUT) => {
                let why = format!("it has not answered for {CHECK_TIMEOUT:?}");
                self.record(Err(store::Error::Unavailable(why)));
                check.await
            }
        }
    }

    /// Records the result of a check and logs a change. Returns whether the store works.
    fn record(&self, result: store::Result<()>) -> bool {
        let now_us = self.clock.now_micros();
        match &result {
            Ok(()) => {
                if let Some(lasted) = self.log.succeeded(now_us) {
                    tracing::info!(after = ?whole_millis(lasted), "the store is available again");
                }
            }
            Err(error) => {
                if self.log.failed(now_us) {
                    tracing::error!("{error}");
                }
            }
        }
        let works = result.is_ok();
        self.failure.send_replace(result.err());
        self.metrics.set_store_up(works);
        works
    }
}

fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
