//! The topics in memory: the delayed and ready jobs of each, and the counts of the others. Topics are numbered, so that a job
//! costs four bytes for its topic; numbers are reused.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use crate::{
    job::{Outlet, Timestamp, Topic},
    store::{TopicConfig, TopicStats, embedded::rows::key::RowKey},
};

/// The number of a topic while memory knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TopicNumber(u32);

impl TopicNumber {
    /// The number, below 2^31.
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// From [`TopicNumber::to_bits`].
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TopicState {
    pub outlet: Outlet,
    /// The delayed jobs. Change them through [`DelayedJobs`](super::delayed::DelayedJobs).
    pub delayed: BTreeSet<RowKey>,
    /// The ready jobs, each with the moment it became ready.
    pub ready: BTreeMap<RowKey, Timestamp>,
    pub reserved: u64,
    pub dead: u64,
    pub config: Arc<TopicConfig>,
}

impl TopicState {
    fn new(name: Topic) -> Self {
        Self {
            outlet: Outlet::plain(name),
            delayed: BTreeSet::new(),
            ready: BTreeMap::new(),
            reserved: 0,
            dead: 0,
            config: Arc::default(),
        }
    }

    /// Whether it has neither jobs nor configuration, so that memory may forget it.
    pub fn is_forgettable(&self) -> bool {
        self.reserved + self.dead == 0
            && self.delayed.is_empty()
            && self.ready.is_empty()
            && self.config.is_default()
    }

    pub fn stats(&self) -> TopicStats {
        TopicStats {
            delayed: self.delayed.len() as u64,
            ready: self.ready.len() as u64,
            reserved: self.reserved,
            dead: self.dead,
            next_due: self.delayed.first().map(|key| key.slot()),
            oldest_ready: self.ready.first_key_value().map(|(key, _)| key.slot()),
            config: (*self.config).clone(),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Topics {
    slots: Vec<Option<TopicState>>,
    free: Vec<TopicNumber>,
    names: BTreeMap<Arc<str>, TopicNumber>,
}

impl Topics {
    pub fn find(&self, name: &str) -> Option<TopicNumber> {
        self.names.get(name).copied()
    }

    /// The number of `name`, which is added when it is not known.
    pub fn find_or_add(&mut self, name: &Topic) -> TopicNumber {
        if let Some(ix) = self.find(name.as_str()) {
            return ix;
        }
        let state = Some(TopicState::new(name.clone()));
        let ix = match self.free.pop() {
            Some(ix) => {
                self.slots[ix.0 as usize] = state;
                ix
            }
            None => {
                self.slots.push(state);
                TopicNumber(
                    u32::try_from(self.slots.len() - 1).expect("memory ends long before topic numbers do"),
                )
            }
        };
        self.names.insert(name.as_str().into(), ix);
        ix
    }

    pub fn get(&self, ix: TopicNumber) -> &TopicState {
        self.slots[ix.0 as usize].as_ref().expect("a topic is kept while its number is in use")
    }

    /// The topic with this number, if there is one.
    pub fn try_get(&self, ix: TopicNumber) -> Option<&TopicState> {
        self.slots.get(ix.0 as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, ix: TopicNumber) -> &mut TopicState {
        self.slots[ix.0 as usize].as_mut().expect("a topic is kept while its number is in use")
    }

    /// Forgets the topic if it is [forgettable](TopicState::is_forgettable). Does nothing for a free number.
    pub fn forget_if_empty(&mut self, ix: TopicNumber) {
        let slot = &mut self.slots[ix.0 as usize];
        if slot.as_ref().is_some_and(TopicState::is_forgettable)
            && let Some(topic) = slot.take()
        {
            self.names.remove(topic.outlet.topic.as_str());
            self.free.push(ix);
        }
    }

    /// The topics in order of name, behind `after`.
    pub fn by_name(&self, after: Option<&Topic>) -> impl Iterator<Item = &TopicState> {
        let from = after.map_or(Bound::Unbounded, |topic| Bound::Excluded(topic.as_str()));
        self.names.range::<str, _>((from, Bound::Unbounded)).map(|(_, ix)| self.get(*ix))
    }
}
