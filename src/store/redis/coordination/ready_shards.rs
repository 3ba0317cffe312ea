//! Which shards this process expects to have ready jobs of an outlet. A hint that saves calls: before a reservation
//! returns fewer jobs than wanted, it probes every shard; if its caller waits anyway, it requests a probe and returns.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard},
};

use tokio::sync::{Notify, futures::Notified};

use crate::{
    job::{Outlet, Topic},
    store::redis::keys::Shard,
};

/// The most outlets that are remembered. One whose jobs are popped by other processes would be remembered for ever.
const MOST_OUTLETS: usize = 10_000;

/// The shards that may have ready jobs, by outlet. Contains only outlets with such shards.
#[derive(Debug, Default)]
pub struct ReadyShards {
    outlets: Mutex<HashMap<Outlet, OutletShards>>,
    /// Notified when a shard may have more ready jobs.
    changed: Notify,
}

#[derive(Debug, Default)]
struct OutletShards {
    /// How many ready jobs each shard was last known to have.
    shards: BTreeMap<Shard, usize>,
    /// The shard where the next selection begins, so that shards take turns.
    next: Shard,
}

impl ReadyShards {
    /// `shard` may have ready jobs of `outlet`.
    pub fn add(&self, outlet: &Outlet, shard: Shard) {
        let mut outlets = self.lock();
        match outlets.get_mut(outlet) {
            Some(known) => drop(known.shards.entry(shard).or_insert(1)),
            None => insert(&mut outlets, outlet, shard, 1),
        }
        drop(outlets);
        self.changed.notify_waiters();
    }

    /// `shard` has this many ready jobs of `outlet`.
    pub fn set_count(&self, outlet: &Outlet, shard: Shard, ready: i64) {
        let mut outlets = self.lock();
        if let Ok(ready @ 1..) = usize::try_from(ready) {
            match outlets.get_mut(outlet) {
                Some(known) => drop(known.shards.insert(shard, ready)),
                None => insert(&mut outlets, outlet, shard, ready),
            }
            drop(outlets);
            self.changed.notify_waiters();
        } else if let Some(known) = outlets.get_mut(outlet) {
            known.shards.remove(&shard);
            if known.shards.is_empty() {
                outlets.remove(outlet);
            }
        }
    }

    /// The outlets of a topic that may have ready jobs.
    pub fn outlets_of(&self, topic: &Topic) -> Vec<Outlet> {
        self.lock().keys().filter(|outlet| outlet.topic == *topic).cloned().collect()
    }

    /// Completes when a shard may have more ready jobs.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Whether one of the `eligible` shards may have ready jobs of `outlet`.
    pub fn contains_any(&self, outlet: &Outlet, eligible: impl Fn(Shard) -> bool) -> bool {
        self.lock().get(outlet).is_some_and(|known| known.shards.keys().any(|shard| eligible(*shard)))
    }

    /// The next of the `eligible` shards to reserve `wanted` jobs from, in turn: as many as are needed by their known
    /// counts if each gives at most `limit` jobs, and so never more shards than wanted jobs.
    pub fn select(
        &self,
        outlet: &Outlet,
        wanted: usize,
        limit: usize,
        eligible: impl Fn(Shard) -> bool,
    ) -> Vec<Shard> {
        let mut outlets = self.lock();
        let Some(known) = outlets.get_mut(outlet) else { return Vec::new() };
        let in_turn = known.shards.range(known.next..).chain(known.shards.range(..known.next));
        let mut jobs = 0;
        let selected = in_turn.filter(|(shard, _)| eligible(**shard)).take_while(|(_, ready)| {
            let short = jobs < wanted;
            jobs += (**ready).min(limit);
            short
        });
        let selected: Vec<Shard> = selected.map(|(shard, _)| *shard).collect();
        known.next = selected.last().map_or(0, |last| last + 1);
        selected
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Outlet, OutletShards>> {
        self.outlets.lock().expect("no code panics while it holds the shards")
    }
}

/// Remembers an outlet. All others are forgotten when they are too many: they are probed when they are needed.
fn insert(outlets: &mut HashMap<Outlet, OutletShards>, outlet: &Outlet, shard: Shard, ready: usize) {
    if outlets.len() >= MOST_OUTLETS {
        outlets.clear();
    }
    outlets.entry(outlet.clone()).or_default().shards.insert(shard, ready);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outlets_whose_jobs_other_processes_pop_are_forgotten_at_last() {
        let ready_shards = ReadyShards::default();
        let outlet = |n: usize| Outlet::parse(&format!("t{n}")).expect("valid");
        for n in 0..MOST_OUTLETS {
            ready_shards.add(&outlet(n), 0);
        }
        ready_shards.set_count(&outlet(0), 1, 5);
        assert_eq!(ready_shards.lock().len(), MOST_OUTLETS, "a known outlet takes no room");
        ready_shards.set_count(&outlet(MOST_OUTLETS), 3, 5);
        assert_eq!(ready_shards.lock().len(), 1);
        assert_eq!(ready_shards.select(&outlet(MOST_OUTLETS), 1, 100, |_| true), [3]);
    }

    #[test]
    fn shards_take_turns_and_empty_outlets_are_removed() {
        let ready_shards = ReadyShards::default();
        let outlet = Outlet::parse("t").expect("valid");
        assert!(ready_shards.select(&outlet, 1, 100, |_| true).is_empty());
        [3, 1, 7].into_iter().for_each(|shard| ready_shards.add(&outlet, shard));
        let selected: Vec<_> = (0..4).flat_map(|_| ready_shards.select(&outlet, 1, 100, |_| true)).collect();
        assert_eq!(selected, [1, 3, 7, 1]);
        [3, 1, 7].into_iter().for_each(|shard| ready_shards.set_count(&outlet, shard, 0));
        assert!(ready_shards.select(&outlet, 1, 100, |_| true).is_empty());
        assert!(ready_shards.lock().is_empty());
    }

    #[test]
    fn as_many_shards_are_selected_as_needed() {
        let ready_shards = ReadyShards::default();
        let outlet = Outlet::parse("t").expect("valid");
        [0, 1, 2, 3].into_iter().for_each(|shard| ready_shards.add(&outlet, shard));
        assert_eq!(ready_shards.select(&outlet, 9, 100, |_| true), [0, 1, 2, 3], "each is known to have one");
        assert_eq!(ready_shards.select(&outlet, 3, 100, |_| true), [0, 1, 2]);
        assert_eq!(ready_shards.select(&outlet, 3, 100, |_| true), [3, 0, 1]);
        ready_shards.set_count(&outlet, 2, 50);
        ready_shards.add(&outlet, 2);
        assert_eq!(ready_shards.select(&outlet, 9, 100, |_| true), [2], "a known count is kept");
        assert_eq!(
            ready_shards.select(&outlet, 9, 5, |_| true),
            [3, 0, 1, 2],
            "each gives at most the limit"
        );
        assert!(ready_shards.select(&outlet, 0, 5, |_| true).is_empty());
    }
}
