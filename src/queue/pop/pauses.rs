//! Pauses that end by themselves. Whether one is over is decided when jobs are reserved or added, so that no process has to be
//! alive at its end; one that is removes the pause then, which wakes the polls and callbacks that wait.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    clock::Clock,
    job::{PausedOperations, Timestamp, Topic},
    store::{Store, TopicConfig, TopicUpdates},
};

/// The pause after the store has failed.
const RETRY: Duration = Duration::from_secs(1);
/// Longest sleep, after which the store's clock is read again: it may have been set.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// The ends of pauses that this process waits for.
#[derive(Debug)]
pub(in crate::queue) struct Pauses {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    tasks: TaskTracker,
    runtime: tokio::runtime::Handle,
    shutdown: CancellationToken,
    /// The topics with a task that removes their pauses.
    awaited: Mutex<HashMap<Topic, Timestamp>>,
}

impl Pauses {
    /// Must be called within a tokio runtime.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, tasks: TaskTracker) -> Arc<Self> {
        Arc::new(Self {
            store,
            clock,
            tasks,
            runtime: tokio::runtime::Handle::current(),
            shutdown: CancellationToken::new(),
            awaited: Mutex::default(),
        })
    }

    /// Whether the delivery of a topic is paused. If that pause has an end, this process removes it then.
    pub fn stops_delivery(self: &Arc<Self>, topic: &Topic, config: &TopicConfig) -> bool {
        // The store's clock is read only for a topic that has a pause.
        let Some(pause) = &config.pause.delivery else { return false };
        let is_over = pause.is_over(self.store.now());
        if let Some(until) = pause.until.filter(|_| !is_over) {
            self.await_end(topic, until);
        }
        !is_over
    }

    /// Waits for no further end.
    pub fn stop(&self) {
        self.shutdown.cancel();
    }

    fn await_end(self: &Arc<Self>, topic: &Topic, until: Timestamp) {
        let mut awaited = self.lock();
        if self.shutdown.is_cancelled() || awaited.get(topic).is_some_and(|earlier| *earlier <= until) {
            return;
        }
        awaited.insert(topic.clone(), until);
        let (pauses, topic) = (self.clone(), topic.clone());
        let remove = async move {
            tokio::select! {
                () = pauses.remove_at(&topic, until) => {}
                () = pauses.shutdown.cancelled() => {}
            }
        };
        self.tasks.spawn_on(remove, &self.runtime);
    }

    /// Removes the pause at its end. If it was given a later one meanwhile, goes on until that.
    async fn remove_at(&self, topic: &Topic, mut until: Timestamp) {
        loop {
            let now = self.store.now();
            if now < until {
                self.clock.sleep(until.since(now).min(MAX_SLEEP)).await;
                continue;
            }
            let Ok(left) = self.store.resume(topic, PausedOperations::NONE).await else {
                self.clock.sleep(RETRY).await;
                continue;
            };
            let mut awaited = self.lock();
            // Another task may wait for an earlier end.
            let is_mine = awaited.get(topic) == Some(&until);
            match left.delivery.and_then(|pause| pause.until) {
                Some(later) if is_mine => {
                    until = later;
                    awaited.insert(topic.clone(), until);
                }
                _ => {
                    if is_mine {
                        awaited.remove(topic);
                    }
                    return;
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Topic, Timestamp>> {
        self.awaited.lock().expect("no code panics while it holds the ends")
    }
}
