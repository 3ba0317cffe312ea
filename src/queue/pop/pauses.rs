//! Pauses that end by themselves. Whether one is over is decided when jobs are reserved or added, so that no process has to be
//! alive at its end. A process that is alive then removes the pause, which wakes the polls and callbacks that wait.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    clock::Clock,
    job::{PausedOperations, Timestamp, Topic, TopicPause},
    store::{Store, TopicConfig, TopicUpdates},
};

/// Before the next try when the store has failed, or has not removed a pause.
const RETRY: Duration = Duration::from_secs(1);
/// Longest sleep, after which the store's clock is read again: it may have been set.
const MAX_SLEEP: Duration = Duration::from_secs(5);

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

    /// Whether the delivery of a topic is paused. If that pause has an end, a task of this process removes it then.
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

    /// Removes pauses of a topic at their ends.
    pub fn await_ends(self: &Arc<Self>, topic: &Topic, pause: &TopicPause) {
        if let Some(until) = first_end(pause) {
            self.await_end(topic, until);
        }
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

    /// Removes the pause at its end. If there is another end by then, goes on until that.
    async fn remove_at(&self, topic: &Topic, mut until: Timestamp) {
        // Another task waits for an earlier end otherwise.
        while self.lock().get(topic) == Some(&until) {
            let now = self.store.now();
            if now < until {
                self.clock.sleep(until.since(now).min(MAX_SLEEP)).await;
            } else if self.store.resume(topic, PausedOperations::NONE).await.is_err() {
                self.clock.sleep(RETRY).await;
            } else {
                let mut awaited = self.lock();
                if awaited.get(topic) != Some(&until) {
                    return;
                }
                // Read under the lock: a pause that is set now is either seen here, or finds no end awaited.
                let Some(next) = first_end(&self.store.topic_config(topic).pause) else {
                    awaited.remove(topic);
                    return;
                };
                // A pause that was not removed must not keep the store busy.
                until = if next > until { next } else { now.after(RETRY) };
                awaited.insert(topic.clone(), until);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Topic, Timestamp>> {
        self.awaited.lock().expect("no code panics while it holds the ends")
    }
}

/// The end of the pause that ends first.
fn first_end(pause: &TopicPause) -> Option<Timestamp> {
    [&pause.delivery, &pause.intake].into_iter().flatten().filter_map(|pause| pause.until).min()
}
