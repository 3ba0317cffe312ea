//! Whether the store works, as far as is known. A task asks the store in the background, so that health checks and
//! scrapes are answered at once, also while the store is away or hangs.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{Queue, Result};
use crate::{failure_log::FailureLog, store};

/// How often a store that works is asked.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How often one is asked that does not work, or where an operation failed.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// A store that takes longer to answer does not work, until it does answer.
const HANGS_AFTER: Duration = Duration::from_secs(5);

/// What is known of the store.
#[derive(Debug)]
pub(super) struct StoreHealth {
    /// Why it does not work, if it does not.
    failure: watch::Sender<Option<store::Error>>,
    /// Notified when an operation failed, so that the store is asked soon.
    failed: Arc<Notify>,
    log: FailureLog,
}

impl StoreHealth {
    /// The health of a store that has just been opened.
    pub fn new() -> Self {
        Self { failure: watch::Sender::new(None), failed: Arc::default(), log: FailureLog::default() }
    }

    /// To be notified when an operation failed.
    pub fn failed(&self) -> Arc<Notify> {
        self.failed.clone()
    }

    /// Why the store does not work, if it does not.
    pub fn failure(&self) -> Option<store::Error> {
        self.failure.borrow().clone()
    }

    /// Waits for the outcome of `work`, but no longer than the store is known to work.
    pub async fn while_it_works<T>(&self, work: impl Future<Output = store::Result<T>>) -> store::Result<T> {
        let mut known = self.failure.subscribe();
        let fails = async {
            // Cloned at once: what is known stays locked as long as it is borrowed.
            let failure = known.wait_for(Option::is_some).await.map(|failure| failure.clone());
            match failure {
                Ok(failure) => failure,
                // The sender is ours.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(failure) = fails => Err(failure),
            outcome = work => outcome,
        }
    }

    /// Takes in what the store answered, and logs what that changes. Whether it works.
    fn note(&self, answer: store::Result<()>, now_us: i64) -> bool {
        match &answer {
            Ok(()) => {
                if let Some(lasted) = self.log.works(now_us) {
                    tracing::info!(after = ?rounded(lasted), "the store is available again");
                }
            }
            Err(error) => {
                if self.log.failed(now_us) {
                    tracing::error!("{error}");
                }
            }
        }
        let works = answer.is_ok();
        self.failure.send_replace(answer.err());
        works
    }
}

fn rounded(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

impl Queue {
    /// Whether the store can take a write, from what is known: it is not asked.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn store_state(&self) -> Result<()> {
        self.health.failure().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Asks the store whether it can take a write; what [`watch_store`](Self::watch_store) does, for those who
    /// hold the clock.
    pub async fn check_store(&self) {
        self.note_store(self.store.check().await);
    }

    /// Keeps [`store_state`](Self::store_state) true until `stop`, and logs when the store goes away, at most
    /// once a minute while it is, and when it is back.
    pub async fn watch_store(&self, stop: CancellationToken) {
        let watching = async {
            loop {
                let works = self.ask_store().await;
                self.clock.sleep(ASK_AGAIN).await;
                if works {
                    tokio::select! {
                        () = self.clock.sleep(ASK_EVERY - ASK_AGAIN) => {}
                        () = self.health.failed.notified() => {}
                    }
                }
            }
        };
        tokio::select! {
            () = watching => {}
            () = stop.cancelled() => {}
        }
    }

    /// Asks the store, and takes in what it answers. A store that worked is asked twice: a connection that was
    /// just cut, or a shard that just moved, is no outage.
    async fn ask_store(&self) -> bool {
        let mut answer = self.ask_once().await;
        if matches!(answer, Err(store::Error::Unavailable(_))) && self.store_state().is_ok() {
            self.clock.sleep(ASK_AGAIN).await;
            answer = self.ask_once().await;
        }
        self.note_store(answer)
    }

    /// Asks the store once. One that hangs is asked nothing more until it answers.
    async fn ask_once(&self) -> store::Result<()> {
        let mut asking = std::pin::pin!(self.store.check());
        tokio::select! {
            answer = &mut asking => answer,
            () = self.clock.sleep(HANGS_AFTER) => {
                let why = format!("it has not answered for {HANGS_AFTER:?}");
                self.note_store(Err(store::Error::Unavailable(why)));
                asking.await
            }
        }
    }

    fn note_store(&self, answer: store::Result<()>) -> bool {
        let works = self.health.note(answer, self.clock.now_micros());
        self.metrics.set_store_up(works);
        works
    }
}
