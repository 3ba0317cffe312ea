//! The window: the delayed jobs of the next minutes, by topic and by time. What is due later stays on
//! disk until the window's end, the *frontier*, moves on.
//!
//! Invariant: a delayed job is in the window exactly when its key is before the frontier. Each topic holds
//! its own keys (so that its next due time is at hand); the window holds each topic's first.

use std::collections::BTreeSet;

use super::topics::{TopicIx, Topics};
use crate::store::embedded::rows::key::Key;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Window {
    frontier: Key,
    /// The first key of every topic that has any in the window.
    heads: BTreeSet<(Key, TopicIx)>,
    len: usize,
}

impl Window {
    /// Empty, ending at `frontier`.
    pub fn new(frontier: Key) -> Self {
        Self { frontier, heads: BTreeSet::new(), len: 0 }
    }

    pub fn frontier(&self) -> Key {
        self.frontier
    }

    /// Whether a delayed job at `key` belongs into the window.
    pub fn shows(&self, key: Key) -> bool {
        key < self.frontier
    }

    /// Moves the end; answers where it was.
    pub fn set_frontier(&mut self, frontier: Key) -> Key {
        std::mem::replace(&mut self.frontier, frontier)
    }

    /// The delayed job that is due first, of all topics.
    pub fn head(&self) -> Option<(Key, TopicIx)> {
        self.heads.first().copied()
    }

    /// The first key of every topic that has any in the window.
    pub fn heads(&self) -> &BTreeSet<(Key, TopicIx)> {
        &self.heads
    }

    /// Jobs in the window.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn enter(&mut self, topics: &mut Topics, key: Key, topic: TopicIx) {
        let soon = &mut topics.get_mut(topic).soon;
        let head = soon.first().copied();
        if !soon.insert(key) {
            return;
        }
        self.len += 1;
        if head.is_none_or(|head| key < head) {
            if let Some(head) = head {
                self.heads.remove(&(head, topic));
            }
            self.heads.insert((key, topic));
        }
    }

    pub fn leave(&mut self, topics: &mut Topics, key: Key, topic: TopicIx) {
        let soon = &mut topics.get_mut(topic).soon;
        if !soon.remove(&key) {
            return;
        }
        self.len -= 1;
        if self.heads.remove(&(key, topic))
            && let Some(head) = soon.first()
        {
            self.heads.insert((*head, topic));
        }
    }
}
