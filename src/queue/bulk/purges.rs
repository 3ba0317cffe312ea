//! Purges: each deletes the jobs of one topic, in a task that goes on when its caller has left, and ends with the process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    job::Topic,
    metrics::{Event, QueueMetrics},
    queue::error::{Error, Result},
    store::Store,
};

/// Jobs that one step deletes, so that others are not delayed for long.
const SLICE: usize = 500;

/// How a purge ended; `None` while it runs.
type Outcome = Option<Result<u64>>;

/// The purges of this process.
#[derive(Debug)]
pub(in crate::queue) struct Purges {
    store: Arc<dyn Store>,
    metrics: QueueMetrics,
    tasks: TaskTracker,
    /// Cancelled by the shutdown.
    shutdown: CancellationToken,
    /// Those that run. All callers of one topic wait for the same purge.
    running: Mutex<HashMap<Topic, watch::Receiver<Outcome>>>,
}

/// Makes room for the next purge of a topic, even if this one panics.
struct RemoveOnDrop<'a> {
    purges: &'a Purges,
    topic: &'a Topic,
}

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        self.purges.lock().remove(self.topic);
    }
}

impl Purges {
    pub fn new(store: Arc<dyn Store>, metrics: QueueMetrics, tasks: TaskTracker) -> Arc<Self> {
        let (shutdown, running) = Default::default();
        Arc::new(Self { store, metrics, tasks, shutdown, running })
    }

    /// Deletes the jobs of a topic and returns how many. If the topic is being purged already, waits for that purge.
    pub async fn purge(self: &Arc<Self>, topic: &Topic) -> Result<u64> {
        let mut running = self.join_or_begin(topic);
        let outcome = running.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        let failed = || Error::Unavailable("the purge failed because of an internal error".to_owned());
        outcome.ok().flatten().unwrap_or_else(|| Err(failed()))
    }

    fn join_or_begin(self: &Arc<Self>, topic: &Topic) -> watch::Receiver<Outcome> {
        let mut running = self.lock();
        if let Some(outcome) = running.get(topic) {
            return outcome.clone();
        }
        let (sender, outcome) = watch::channel(None);
        running.insert(topic.clone(), outcome.clone());
        let (purges, topic) = (self.clone(), topic.clone());
        self.tasks.spawn(async move {
            let ended = purges.run(&topic).await;
            sender.send_replace(Some(ended));
        });
        outcome
    }

    async fn run(&self, topic: &Topic) -> Result<u64> {
        let _removed = RemoveOnDrop { purges: self, topic };
        let (mut deleted, mut cursor) = (0, None);
        let ended = loop {
            let slice = match self.store.purge(topic, cursor, SLICE).await {
                Ok(slice) => slice,
                Err(error) => break Err(Error::from(error)),
            };
            deleted += slice.deleted as u64;
            self.metrics.count(Event::Deleted, topic.as_str(), slice.deleted as u64);
            cursor = slice.next;
            if cursor.is_none() {
                break Ok(deleted);
            }
            // Checked after the first slice, so that small topics can be purged during the shutdown, too.
            if self.shutdown.is_cancelled() {
                break Err(Error::Draining);
            }
        };
        // The caller may have left.
        let (topic, error) = (topic.as_str(), ended.as_ref().err().map(tracing::field::display));
        tracing::info!(topic, deleted, error, "a purge ended");
        ended
    }

    /// Ends every purge after its present slice.
    pub fn stop_all(&self) {
        self.shutdown.cancel();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Topic, watch::Receiver<Outcome>>> {
        self.running.lock().expect("no code panics while it holds the purges")
    }
}
