//! The delayed jobs by due time. Each outlet keeps its own keys in order, so that its next due time is known; this index
//! keeps the first key of each outlet, so that the next job of all outlets is known too.

use std::collections::BTreeSet;

use super::topics::{OutletNumber, Topics};
use crate::store::embedded::rows::key::RowKey;

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct DelayedJobs {
    first_keys: BTreeSet<(RowKey, OutletNumber)>,
}

impl DelayedJobs {
    /// The delayed job of any outlet that is due first.
    pub fn first(&self) -> Option<(RowKey, OutletNumber)> {
        self.first_keys.first().copied()
    }

    /// The first key of every outlet that has delayed jobs.
    pub fn first_keys(&self) -> &BTreeSet<(RowKey, OutletNumber)> {
        &self.first_keys
    }

    pub fn insert(&mut self, topics: &mut Topics, key: RowKey, outlet: OutletNumber) {
        let delayed = &mut topics.get_mut(outlet).delayed;
        let first = delayed.first().copied();
        delayed.insert(key);
        if first.is_none_or(|first| key < first) {
            if let Some(first) = first {
                self.first_keys.remove(&(first, outlet));
            }
            self.first_keys.insert((key, outlet));
        }
    }

    /// Removes a job; `false` when it is not there.
    pub fn remove(&mut self, topics: &mut Topics, key: RowKey, outlet: OutletNumber) -> bool {
        let delayed = &mut topics.get_mut(outlet).delayed;
        let found = delayed.remove(&key);
        if self.first_keys.remove(&(key, outlet))
            && let Some(first) = delayed.first()
        {
            self.first_keys.insert((*first, outlet));
        }
        found
    }
}
