//! Which shards may have ready jobs of a topic, as far as this process has heard. Hints save looks;
//! nothing depends on them: a reservation that is about to answer with less than was asked looks at
//! every shard first.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard},
};

use super::keys::Shard;
use crate::job::Topic;

/// The hints of one process. Holds only topics that have any.
#[derive(Debug, Default)]
pub(super) struct Hints(Mutex<HashMap<Topic, Hinted>>);

#[derive(Debug, Default)]
struct Hinted {
    shards: BTreeSet<Shard>,
    /// Where the next reservation begins, so that they take turns.
    next: Shard,
}

impl Hints {
    /// `shard` may have ready jobs of `topic`.
    pub fn mark(&self, topic: &Topic, shard: Shard) {
        let mut topics = self.lock();
        match topics.get_mut(topic) {
            Some(hinted) => drop(hinted.shards.insert(shard)),
            None => drop(topics.entry(topic.clone()).or_default().shards.insert(shard)),
        }
    }

    /// `shard` has none left.
    pub fn clear(&self, topic: &Topic, shard: Shard) {
        let mut topics = self.lock();
        if let Some(hinted) = topics.get_mut(topic) {
            hinted.shards.remove(&shard);
            if hinted.shards.is_empty() {
                topics.remove(topic);
            }
        }
    }

    /// A shard to try, taking turns.
    pub fn pick(&self, topic: &Topic) -> Option<Shard> {
        let mut topics = self.lock();
        let hinted = topics.get_mut(topic)?;
        let shard = *hinted.shards.range(hinted.next..).next().or_else(|| hinted.shards.first())?;
        hinted.next = shard + 1;
        Some(shard)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Topic, Hinted>> {
        self.0.lock().expect("no code panics while it holds the hints")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_take_turns_and_topics_are_forgotten() {
        let hints = Hints::default();
        let topic = Topic::parse("t").expect("valid");
        assert_eq!(hints.pick(&topic), None);
        [3, 1, 7].into_iter().for_each(|shard| hints.mark(&topic, shard));
        let picked: Vec<_> = (0..4).filter_map(|_| hints.pick(&topic)).collect();
        assert_eq!(picked, [1, 3, 7, 1]);
        [3, 1, 7].into_iter().for_each(|shard| hints.clear(&topic, shard));
        assert_eq!(hints.pick(&topic), None);
        assert!(hints.lock().is_empty());
    }
}
