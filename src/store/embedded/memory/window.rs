//! The window: the delayed jobs of the next minutes, by topic and by time. Jobs that are due later stay on disk
//! until the window's end moves behind them.
//!
//! Invariant: a delayed job is in the window exactly when its key is before the window's end. Each topic keeps its
//! own keys, so that its next due time is known; the window keeps the first key of each topic.

use std::collections::BTreeSet;

use super::topics::{TopicNumber, Topics};
use crate::store::embedded::rows::key::RowKey;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DelayedWindow {
    end: RowKey,
    /// The first key of every topic that has any in the window.
    first_keys: BTreeSet<(RowKey, TopicNumber)>,
    len: usize,
}

impl DelayedWindow {
    /// Empty, ending at `frontier`.
    pub fn new(end: RowKey) -> Self {
        Self { end, first_keys: BTreeSet::new(), len: 0 }
    }

    pub fn end(&self) -> RowKey {
        self.end
    }

    /// Whether a delayed job at `key` belongs to the window.
    pub fn covers(&self, key: RowKey) -> bool {
        key < self.end
    }

    /// Moves the end. Returns the previous one.
    pub fn set_end(&mut self, end: RowKey) -> RowKey {
        std::mem::replace(&mut self.end, end)
    }

    /// The delayed job of any topic that is due first.
    pub fn first(&self) -> Option<(RowKey, TopicNumber)> {
        self.first_keys.first().copied()
    }

    /// The first key of every topic that has any in the window.
    pub fn first_keys(&self) -> &BTreeSet<(RowKey, TopicNumber)> {
        &self.first_keys
    }

    /// Number of jobs in the window.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn insert(&mut self, topics: &mut Topics, key: RowKey, topic: TopicNumber) {
        let due_soon = &mut topics.get_mut(topic).due_soon;
        let first = due_soon.first().copied();
        if !due_soon.insert(key) {
            return;
        }
        self.len += 1;
        if first.is_none_or(|first| key < first) {
            if let Some(first) = first {
                self.first_keys.remove(&(first, topic));
            }
            self.first_keys.insert((key, topic));
        }
    }

    pub fn remove(&mut self, topics: &mut Topics, key: RowKey, topic: TopicNumber) {
        let due_soon = &mut topics.get_mut(topic).due_soon;
        if !due_soon.remove(&key) {
            return;
        }
        self.len -= 1;
        if self.first_keys.remove(&(key, topic))
            && let Some(first) = due_soon.first()
        {
            self.first_keys.insert((*first, topic));
        }
    }
}
