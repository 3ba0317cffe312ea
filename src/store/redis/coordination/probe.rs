//! Probes for ready jobs whose announcement this process missed. A caller that needs an answer probes at once; callers
//! that wait anyway share a probe for all their outlets, a little later.

use std::{
    collections::{BTreeSet, HashSet},
    convert::identity,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures_util::future::{join_all, try_join_all};
use tokio::sync::{Notify, watch};

use super::{
    notifier::Notifier,
    shards::{Shards, outlet_arg},
};
use crate::{
    clock::Clock,
    job::Outlet,
    store::{
        Error, Result,
        redis::{connection::call::ScriptCall, keys::Shard, reply::Reply, scripts::Script},
    },
};

/// Shortest time between two probes for waiting callers. A probe finds only jobs that were announced while the
/// reply to an older call was in flight, or before this process subscribed.
const INTERVAL: Duration = Duration::from_millis(10);

/// Shortest and longest time until shards that did not answer are probed again: as soon as a server replies again in between.
const RETRY_INTERVAL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Most outlets that one run of the script counts.
const OUTLETS_SLICE: usize = 100;

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

    /// Requests a probe for an outlet. Returns false when the last one failed: the caller must probe itself, and report
    /// why that fails.
    pub fn request(&self, outlet: &Outlet) -> bool {
        self.queue.request(outlet)
    }

    /// Makes the requested probes until the engine closes: at once after a pause without any.
    pub async fn run(self: Arc<Self>) {
        let context = self.shards.context();
        loop {
            tokio::select! {
                () = self.queue.wake.notified() => {}
                () = context.closing.cancelled() => return,
            }
            let (probe, outlets) = (self.clone(), self.queue.take_outlets());
            // Spawned: a server that does not answer must not delay the next probe.
            context.spawn(async move {
                join_all(outlets.chunks(OUTLETS_SLICE).map(|slice| probe.probe_for_waiters(slice))).await;
            });
            context.clock.sleep(INTERVAL).await;
        }
    }

    /// Probes some outlets, and notifies the listener of those with ready jobs, and of all if no shard answered. While
    /// only some shards answer, the probe is repeated.
    async fn probe_for_waiters(self: &Arc<Self>, outlets: &[Outlet]) {
        let recoveries = self.shards.recoveries();
        let probes = self.shards.groups().into_iter().map(|group| async move {
            if self.shards.is_unresponsive(group[0]) {
                return false;
            }
            // A short retry: a caller that learns of the failure probes itself, with the full retry.
            let count = self.count_ready(&group, outlets, ScriptCall::with_short_retry);
            let Ok(ready) = self.shards.observe(group[0], count).await else { return false };
            let ready = outlets.iter().zip(ready).filter(|(_, ready)| *ready);
            ready.for_each(|(outlet, _)| self.notifier.ready(outlet));
            true
        });
        let answered = join_all(probes).await;
        if answered.iter().all(|answered| *answered) {
            self.queue.record_success(outlets);
        } else if !answered.contains(&true) {
            for outlet in outlets {
                self.queue.record_failure(outlet);
                self.notifier.ready(outlet);
            }
        } else if self.queue.add_partial(outlets) {
            self.shards.context().spawn(self.clone().repeat_partial(recoveries));
        }
    }

    /// Notifies waiting callers after a pause, or when a server replies again, so that they request another probe.
    async fn repeat_partial(self: Arc<Self>, mut recoveries: watch::Receiver<()>) {
        let (context, (shortest, longest)) = (self.shards.context(), RETRY_INTERVAL);
        context.sleep_unless_closing(shortest).await;
        tokio::select! {
            _ = context.sleep_unless_closing(longest - shortest) => {}
            _ = recoveries.changed() => {}
        }
        self.queue.take_partial().iter().for_each(|outlet| self.notifier.ready(outlet));
    }

    /// Probes every shard for ready jobs of an outlet; returns whether there are any.
    pub async fn probe(&self, outlet: &Outlet) -> Result<bool> {
        let outlets = std::slice::from_ref(outlet);
        let probes = self.shards.groups().into_iter().map(|group| async move {
            let count = self.shards.observe(group[0], self.count_ready(&group, outlets, identity));
            Ok::<_, Error>(count.await?.contains(&true))
        });
        let results = join_all(probes).await;
        if results.iter().any(|result| matches!(result, Ok(true))) {
            return Ok(true);
        }
        results.into_iter().try_fold(false, |any, result| result.map(|ready| any || ready))
    }

    /// The outlets with ready jobs, over all shards.
    pub async fn ready_outlets(&self) -> Result<Vec<Outlet>> {
        let lists = self.shards.keys.all().map(|shard| async move {
            let counts = self.shards.keys.shard(shard).counts.clone();
            let call = self.shards.read(Script::ListReadyOutlets, &[shard], vec![counts]);
            let mut reply = Reply::new(self.shards.call(call).await?)?;
            let mut outlets = BTreeSet::new();
            while !reply.is_empty() {
                // Ignore a field that another program wrote; the sweep mends it.
                if let Ok(outlet) = reply.name::<Outlet>() {
                    self.notifier.ready_shards.add(&outlet, shard);
                    outlets.insert(outlet);
                }
            }
            Ok::<_, Error>(outlets)
        });
        let outlets: BTreeSet<Outlet> = try_join_all(lists).await?.into_iter().flatten().collect();
        Ok(outlets.into_iter().collect())
    }

    /// Counts the ready jobs of outlets on a group of shards and remembers the counts. Returns for each outlet whether
    /// there are any.
    async fn count_ready(
        &self,
        group: &[Shard],
        outlets: &[Outlet],
        set_retry: fn(ScriptCall) -> ScriptCall,
    ) -> Result<Vec<bool>> {
        let keys = group.iter().map(|shard| self.shards.keys.shard(*shard).counts.clone()).collect();
        let call = set_retry(self.shards.read(Script::CountReady, group, keys));
        let call = outlets.iter().fold(call, |call, outlet| call.arg(outlet_arg(outlet)));
        let mut reply = Reply::new(self.shards.call(call).await?)?;
        let mut any_ready = vec![false; outlets.len()];
        for shard in group {
            for (outlet, any_ready) in outlets.iter().zip(&mut any_ready) {
                let ready = reply.int()?;
                self.notifier.ready_shards.set_count(outlet, *shard, ready);
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
    outlets: HashSet<Outlet>,
    /// Topics for which no shard answered, until a caller has been told to probe itself.
    failed: HashSet<Outlet>,
    /// Topics for which only some shards answered, and which are probed again.
    partial: HashSet<Outlet>,
}

impl ProbeQueue {
    fn request(&self, outlet: &Outlet) -> bool {
        let mut requests = self.lock();
        if requests.failed.remove(outlet) {
            return false;
        }
        if !requests.outlets.contains(outlet) {
            requests.outlets.insert(outlet.clone());
            self.wake.notify_one();
        }
        true
    }

    fn take_outlets(&self) -> Vec<Outlet> {
        self.lock().outlets.drain().collect()
    }

    fn record_failure(&self, outlet: &Outlet) {
        self.lock().failed.insert(outlet.clone());
    }

    fn record_success(&self, outlets: &[Outlet]) {
        let mut requests = self.lock();
        if !requests.failed.is_empty() {
            for outlet in outlets {
                requests.failed.remove(outlet);
            }
        }
    }

    /// Adds outlets to probe again; returns whether there were none, so that the caller must schedule it.
    fn add_partial(&self, outlets: &[Outlet]) -> bool {
        let mut requests = self.lock();
        let first = requests.partial.is_empty();
        requests.partial.extend(outlets.iter().cloned());
        first
    }

    fn take_partial(&self) -> HashSet<Outlet> {
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
        let (queue, outlet) = (ProbeQueue::default(), Outlet::parse("t").expect("valid"));
        assert!(queue.request(&outlet) && queue.request(&outlet));
        assert_eq!(queue.take_outlets(), std::slice::from_ref(&outlet));
        assert!(queue.take_outlets().is_empty());
        queue.record_failure(&outlet);
        assert!(!queue.request(&outlet), "the caller must probe itself");
        assert!(queue.request(&outlet), "and only the first one");
        queue.record_failure(&outlet);
        queue.record_success(std::slice::from_ref(&outlet));
        assert!(queue.request(&outlet), "there is no failure to report any more");
    }
}
