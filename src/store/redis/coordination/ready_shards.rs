//! Which shards may have ready jobs of a topic, as far as this process has heard. Hints save looks;
//! nothing depends on them: a reservation that is about to answer with less than was asked looks at
//! every shard first, or has that done soon for those who wait anyway.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard},
};

use tokio::sync::{Notify, futures::Notified};

use crate::job::Topic;
use crate::store::redis::keys::Shard;

/// The hints of one process. Holds only topics that have any.
#[derive(Debug, Default)]
pub struct Hints {
    topics: Mutex<HashMap<Topic, Hinted>>,
    /// Wakes those who hope for another hint.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Hinted {
    /// How many jobs each was last known to have ready.
    shards: BTreeMap<Shard, usize>,
    /// Where the next reservation begins, so that they take turns.
    next: Shard,
}

impl Hints {
    /// `shard` may have ready jobs of `topic`.
    pub fn mark(&self, topic: &Topic, shard: Shard) {
        let mut topics = self.lock();
        match topics.get_mut(topic) {
            Some(hinted) => drop(hinted.shards.entry(shard).or_insert(1)),
            None => drop(topics.entry(topic.clone()).or_default().shards.insert(shard, 1)),
        }
        drop(topics);
        self.changed.notify_waiters();
    }

    /// `shard` counts so many ready jobs of `topic`.
    pub fn set(&self, topic: &Topic, shard: Shard, ready: i64) {
        let mut topics = self.lock();
        if let Ok(ready @ 1..) = usize::try_from(ready) {
            topics.entry(topic.clone()).or_default().shards.insert(shard, ready);
            drop(topics);
            self.changed.notify_waiters();
        } else if let Some(hinted) = topics.get_mut(topic) {
            hinted.shards.remove(&shard);
            if hinted.shards.is_empty() {
                topics.remove(topic);
            }
        }
    }

    /// Completes when there may be a new hint.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Whether there is a hint of `topic` at one of the shards that `may` be asked.
    pub fn any(&self, topic: &Topic, may: impl Fn(Shard) -> bool) -> bool {
        self.lock().get(topic).is_some_and(|hinted| hinted.shards.keys().any(|shard| may(*shard)))
    }

    /// Shards to try for `wanted` jobs, taking turns, of those that `may` be asked: as many as it takes by what
    /// they are known to have when each gives up to `most`, and so no more than there are jobs wanted.
    pub fn pick(&self, topic: &Topic, wanted: usize, most: usize, may: impl Fn(Shard) -> bool) -> Vec<Shard> {
        let mut topics = self.lock();
        let Some(hinted) = topics.get_mut(topic) else { return Vec::new() };
        let in_turn = hinted.shards.range(hinted.next..).chain(hinted.shards.range(..hinted.next));
        let mut known = 0;
        let picked = in_turn.filter(|(shard, _)| may(**shard)).take_while(|(_, ready)| {
            let short = known < wanted;
            known += (**ready).min(most);
            short
        });
        let picked: Vec<Shard> = picked.map(|(shard, _)| *shard).collect();
        hinted.next = picked.last().map_or(0, |last| last + 1);
        picked
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Topic, Hinted>> {
        self.topics.lock().expect("no code panics while it holds the hints")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_take_turns_and_topics_are_forgotten() {
        let hints = Hints::default();
        let topic = Topic::parse("t").expect("valid");
        assert!(hints.pick(&topic, 1, 100, |_| true).is_empty());
        [3, 1, 7].into_iter().for_each(|shard| hints.mark(&topic, shard));
        let picked: Vec<_> = (0..4).flat_map(|_| hints.pick(&topic, 1, 100, |_| true)).collect();
        assert_eq!(picked, [1, 3, 7, 1]);
        [3, 1, 7].into_iter().for_each(|shard| hints.set(&topic, shard, 0));
        assert!(hints.pick(&topic, 1, 100, |_| true).is_empty());
        assert!(hints.lock().is_empty());
    }

    #[test]
    fn as_many_shards_are_tried_as_it_takes() {
        let hints = Hints::default();
        let topic = Topic::parse("t").expect("valid");
        [0, 1, 2, 3].into_iter().for_each(|shard| hints.mark(&topic, shard));
        assert_eq!(hints.pick(&topic, 9, 100, |_| true), [0, 1, 2, 3], "each has one, as far as is known");
        assert_eq!(hints.pick(&topic, 3, 100, |_| true), [0, 1, 2]);
        assert_eq!(hints.pick(&topic, 3, 100, |_| true), [3, 0, 1]);
        hints.set(&topic, 2, 50);
        hints.mark(&topic, 2);
        assert_eq!(hints.pick(&topic, 9, 100, |_| true), [2], "what is known stands");
        assert_eq!(hints.pick(&topic, 9, 5, |_| true), [3, 0, 1, 2], "one gives no more than a share");
        assert!(hints.pick(&topic, 0, 5, |_| true).is_empty());
    }
}
