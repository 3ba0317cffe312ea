//! The delayed jobs by due time. Each topic keeps its own keys in order, so that its next due time is known; this index
//! keeps the first key of each topic, so that the next job of all topics is known too.

use std::collections::BTreeSet;

use super::topics::{TopicNumber, Topics};
use crate::store::embedded::rows::key::RowKey;

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct DelayedJobs {
    first_keys: BTreeSet<(RowKey, TopicNumber)>,
}

impl DelayedJobs {
    /// The delayed job of any topic that is due first.
    pub fn first(&self) -> Option<(RowKey, TopicNumber)> {
        self.first_keys.first().copied()
    }

    /// The first key of every topic that has delayed jobs.
    pub fn first_keys(&self) -> &BTreeSet<(RowKey, TopicNumber)> {
        &self.first_keys
    }

    pub fn insert(&mut self, topics: &mut Topics, key: RowKey, topic: TopicNumber) {
        let delayed = &mut topics.get_mut(topic).delayed;
        let first = delayed.first().copied();
        delayed.insert(key);
        if first.is_none_or(|first| key < first) {
            if let Some(first) = first {
                self.first_keys.remove(&(first, topic));
            }
            self.first_keys.insert((key, topic));
        }
    }

    /// Removes a job; `false` when it is not there.
    pub fn remove(&mut self, topics: &mut Topics, key: RowKey, topic: TopicNumber) -> bool {
        let delayed = &mut topics.get_mut(topic).delayed;
        let found = delayed.remove(&key);
        if self.first_keys.remove(&(key, topic))
            && let Some(first) = delayed.first()
        {
            self.first_keys.insert((*first, topic));
        }
        found
    }
}
