//! Probes for ready jobs that nobody has announced: at once for callers that need an answer, a little later and for all
//! topics together for callers that wait anyway.

use std::{
    collections::HashSet,
    convert::identity,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::sync::Notify;

use super::{notifier::Notifier, shards::Shards};
use crate::{
    clock::Clock,
    job::Topic,
    store::{
        Error, Result,
        redis::{connection::call::ScriptCall, keys::Shard, reply::Reply, scripts::Script},
    },
};

/// Shortest time between two probes for waiting callers. A probe finds only jobs that were announced while the
/// reply to an older call was in flight, or before this process subscribed.
const INTERVAL: Duration = Duration::from_millis(10);

/// Time until shards that did not answer are probed again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Most topics that one run of the script counts.
const TOPICS_SLICE: usize = 100;

/// Probes shards for ready jobs.
pub struct ReadyProbe {
    shards: Arc<Shards>,
    notifier: Arc<Notifier>,
    queue: ProbeQueue,
}

impl ReadyProbe {
    pub fn new(shards: Arc<Shards>, notifier: Arc<Notifier>) -> Arc<Self> {
        Arc::new(Self { shards, notifier, queue: ProbeQueue::default() })
    }

    /// Requests a probe for a topic. Returns false when the last one failed: the caller must probe itself, and report
    /// why that fails.
    pub fn request(&self, topic: &Topic) -> bool {
        self.queue.request(topic)
    }

    /// Makes the requested probes until the engine closes: at once after a pause without any.
    pub async fn run(self: Arc<Self>) {
        let context = self.shards.context();
        loop {
            tokio::select! {
                () = self.queue.wake.notified() => {}
                () = context.closing.cancelled() => return,
            }
            let (probe, topics) = (self.clone(), self.queue.take_topics());
            // Spawned: a server that does not answer must not delay the next probe.
            context.spawn(async move {
                join_all(topics.chunks(TOPICS_SLICE).map(|slice| probe.probe_for_waiters(slice))).await;
            });
            context.clock.sleep(INTERVAL).await;
        }
    }

    /// Probes some topics, and notifies the listener of those with ready jobs, and of all if no shard answered. While
    /// only some shards answer, the probe is repeated.
    async fn probe_for_waiters(self: &Arc<Self>, topics: &[Topic]) {
        let probes = self.shards.groups().into_iter().map(|group| async move {
            if self.shards.is_unresponsive(group[0]) {
                return false;
            }
            // A short retry: a caller that learns of the failure probes itself, with the full retry.
            let count = self.count_ready(&group, topics, ScriptCall::with_short_retry);
            let Ok(ready) = self.shards.observe(group[0], count).await else { return false };
            let ready = topics.iter().zip(ready).filter(|(_, ready)| *ready);
            ready.for_each(|(topic, _)| self.notifier.ready(topic));
            true
        });
        let answered = join_all(probes).await;
        if answered.iter().all(|answered| *answered) {
            self.queue.record_success(topics);
        } else if !answered.contains(&true) {
            for topic in topics {
                self.queue.record_failure(topic);
                self.notifier.ready(topic);
            }
        } else if self.queue.add_partial(topics) {
            self.shards.context().spawn(self.clone().repeat_partial());
        }
    }

    /// Notifies waiting callers after a pause, so that they request another probe.
    async fn repeat_partial(self: Arc<Self>) {
        self.shards.context().sleep_unless_closing(RETRY_INTERVAL).await;
        self.queue.take_partial().iter().for_each(|topic| self.notifier.ready(topic));
    }

    /// Probes every shard for ready jobs of a topic; returns whether there are any.
    pub async fn probe(&self, topic: &Topic) -> Result<bool> {
        let topics = std::slice::from_ref(topic);
        let probes = self.shards.groups().into_iter().map(|group| async move {
            let count = self.shards.observe(group[0], self.count_ready(&group, topics, identity));
            Ok::<_, Error>(count.await?.contains(&true))
        });
        let results = join_all(probes).await;
        if results.iter().any(|result| matches!(result, Ok(true))) {
            return Ok(true);
        }
        results.into_iter().try_fold(false, |any, result| result.map(|ready| any || ready))
    }

    /// Counts the ready jobs of topics on a group of shards and remembers the counts. Returns for each topic whether
    /// there are any.
    async fn count_ready(
        &self,
        group: &[Shard],
        topics: &[Topic],
        set_retry: fn(ScriptCall) -> ScriptCall,
    ) -> Result<Vec<bool>> {
        let keys = group.iter().map(|shard| self.shards.keys.shard(*shard).counts.clone()).collect();
        let call = set_retry(self.shards.read(Script::CountReady, group, keys));
        let call = topics.iter().fold(call, |call, topic| call.arg(topic.as_str()));
        let mut reply = Reply::new(self.shards.call(call).await?)?;
        let mut any_ready = vec![false; topics.len()];
        for shard in group {
            for (topic, any_ready) in topics.iter().zip(&mut any_ready) {
                let ready = reply.int()?;
                self.notifier.ready_shards.set_count(topic, *shard, ready);
                *any_ready |= ready > 0;
            }
        }
        Ok(any_ready)
    }
}

/// The requested probes.
#[derive(Debug, Default)]
struct ProbeQueue {
    requests: Mutex<ProbeRequests>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct ProbeRequests {
    topics: HashSet<Topic>,
    /// Topics for which no shard answered, until a caller has been told to probe itself.
    failed: HashSet<Topic>,
    /// Topics for which only some shards answered, and which are probed again.
    partial: HashSet<Topic>,
}

impl ProbeQueue {
    fn request(&self, topic: &Topic) -> bool {
        let mut requests = self.lock();
        if requests.failed.remove(topic) {
            return false;
        }
        if !requests.topics.contains(topic) {
            requests.topics.insert(topic.clone());
            self.wake.notify_one();
        }
        true
    }

    fn take_topics(&self) -> Vec<Topic> {
        self.lock().topics.drain().collect()
    }

    fn record_failure(&self, topic: &Topic) {
        self.lock().failed.insert(topic.clone());
    }

    fn record_success(&self, topics: &[Topic]) {
        let mut requests = self.lock();
        if !requests.failed.is_empty() {
            for topic in topics {
                requests.failed.remove(topic);
            }
        }
    }

    /// Adds topics to probe again; returns whether there were none, so that the caller must schedule it.
    fn add_partial(&self, topics: &[Topic]) -> bool {
        let mut requests = self.lock();
        let first = requests.partial.is_empty();
        requests.partial.extend(topics.iter().cloned());
        first
    }

    fn take_partial(&self) -> HashSet<Topic> {
        std::mem::take(&mut self.lock().partial)
    }

    fn lock(&self) -> MutexGuard<'_, ProbeRequests> {
        self.requests.lock().expect("no code panics while it holds the requests")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_requests_share_a_probe_and_one_caller_probes_itself_after_a_failure() {
        let (queue, topic) = (ProbeQueue::default(), Topic::parse("t").expect("valid"));
        assert!(queue.request(&topic) && queue.request(&topic));
        assert_eq!(queue.take_topics(), std::slice::from_ref(&topic));
        assert!(queue.take_topics().is_empty());
        queue.record_failure(&topic);
        assert!(!queue.request(&topic), "the caller must probe itself");
        assert!(queue.request(&topic), "and only the first one");
        queue.record_failure(&topic);
        queue.record_success(std::slice::from_ref(&topic));
        assert!(queue.request(&topic), "there is no failure to report any more");
    }
}
