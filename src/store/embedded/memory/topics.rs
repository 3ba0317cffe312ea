//! The topics in memory and their outlets: the delayed and ready jobs of each outlet, the counts of the others, and the
//! delayed jobs of all outlets by due time and the clock that decides about it. Outlets are numbered, so that a job costs four bytes for its outlet; numbers
//! are reused.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use super::due_counts::DueCounts;
use crate::{
    job::{DueKind, HostNumber, Outlet, Timestamp, Topic, TopicPattern},
    store::{Minute, Span, TopicConfig, TopicStats, embedded::rows::key::RowKey},
};

/// The number of an outlet while memory knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OutletNumber(u32);

impl OutletNumber {
    /// The number, below 2^31.
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// From [`OutletNumber::to_bits`].
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// One of each for jobs that are due once time has elapsed, and for those that go by the machine's clock. How the two
/// interleave changes when that clock is set, so they are never in one order.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ByKind<T> {
    pub elapsed: T,
    pub moments: T,
}

impl<T> ByKind<T> {
    pub fn get(&self, kind: DueKind) -> &T {
        match kind {
            DueKind::Elapsed => &self.elapsed,
            DueKind::Moment => &self.moments,
        }
    }

    pub fn get_mut(&mut self, kind: DueKind) -> &mut T {
        match kind {
            DueKind::Elapsed => &mut self.elapsed,
            DueKind::Moment => &mut self.moments,
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        [&self.elapsed, &self.moments].into_iter()
    }
}

impl ByKind<BTreeSet<RowKey>> {
    pub fn contains(&self, key: RowKey) -> bool {
        self.get(key.kind()).contains(&key)
    }

    pub fn len(&self) -> usize {
        self.elapsed.len() + self.moments.len()
    }

    pub fn is_empty(&self) -> bool {
        self.elapsed.is_empty() && self.moments.is_empty()
    }
}

impl ByKind<DueCounts> {
    /// The jobs due in each step of `span`, by the machine's clock, which is ahead of the store's by `wall_ahead_ms`.
    pub fn count(&self, span: &Span, wall_ahead_ms: i64) -> Vec<u64> {
        let elapsed = self.elapsed.count(&span.shifted(-wall_ahead_ms));
        elapsed
            .into_iter()
            .zip(self.moments.count(span))
            .map(|(elapsed, moments)| elapsed + moments)
            .collect()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OutletState {
    pub outlet: Outlet,
    /// The delayed jobs. Change them through [`DelayedJobs`].
    pub delayed: ByKind<BTreeSet<RowKey>>,
    /// The ready jobs, each with the moment it became ready.
    pub ready: BTreeMap<RowKey, Timestamp>,
    pub reserved: u64,
    pub dead: u64,
    /// What is set for the topic. Only its plain outlet has it.
    pub config: Arc<TopicConfig>,
    /// The delayed jobs of all outlets of the topic by due time. Only its plain outlet has them.
    pub due_counts: ByKind<DueCounts>,
    /// The topic's outlets of jobs with a callback of their own. Only its plain outlet has them.
    hosts: BTreeMap<HostNumber, OutletNumber>,
}

impl OutletState {
    fn new(outlet: Outlet) -> Self {
        Self {
            outlet,
            delayed: ByKind::default(),
            ready: BTreeMap::new(),
            reserved: 0,
            dead: 0,
            config: Arc::default(),
            due_counts: ByKind::default(),
            hosts: BTreeMap::new(),
        }
    }

    /// Whether it has neither jobs nor configuration nor other outlets, so that memory may forget it.
    pub fn is_forgettable(&self) -> bool {
        self.reserved + self.dead == 0
            && self.delayed.is_empty()
            && self.ready.is_empty()
            && self.config.is_default()
            && self.hosts.is_empty()
    }

    /// What it adds to the statistics of its topic, while the machine's clock is ahead by `wall_ahead_ms`.
    fn stats(&self, wall_ahead_ms: i64) -> TopicStats {
        let shown = |key: &RowKey| key.shown_slot(wall_ahead_ms);
        TopicStats {
            delayed: self.delayed.len() as u64,
            ready: self.ready.len() as u64,
            reserved: self.reserved,
            dead: self.dead,
            next_due: self.delayed.iter().filter_map(|keys| keys.first().map(shown)).min(),
            oldest_ready: self.ready.first_key_value().map(|(key, _)| shown(key)),
            config: (*self.config).clone(),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Topics {
    slots: Vec<Option<OutletState>>,
    free: Vec<OutletNumber>,
    /// The plain outlet of each topic, by name.
    names: BTreeMap<Arc<str>, OutletNumber>,
}

impl Topics {
    pub fn find(&self, outlet: &Outlet) -> Option<OutletNumber> {
        let plain = self.find_topic(outlet.topic.as_str())?;
        outlet.host.map_or(Some(plain), |host| self.get(plain).hosts.get(&host).copied())
    }

    /// The plain outlet of a topic. Memory knows it as long as the topic has jobs or configuration.
    pub fn find_topic(&self, name: &str) -> Option<OutletNumber> {
        self.names.get(name).copied()
    }

    /// The number of `outlet`, which is added when it is not known.
    pub fn find_or_add(&mut self, outlet: &Outlet) -> OutletNumber {
        let plain = self.find_topic(outlet.topic.as_str()).unwrap_or_else(|| {
            let plain = self.add(Outlet::plain(outlet.topic.clone()));
            self.names.insert(outlet.topic.as_str().into(), plain);
            plain
        });
        let Some(host) = outlet.host else { return plain };
        if let Some(known) = self.get(plain).hosts.get(&host) {
            return *known;
        }
        let added = self.add(outlet.clone());
        self.get_mut(plain).hosts.insert(host, added);
        added
    }

    fn add(&mut self, outlet: Outlet) -> OutletNumber {
        let state = Some(OutletState::new(outlet));
        if let Some(ix) = self.free.pop() {
            self.slots[ix.0 as usize] = state;
            return ix;
        }
        self.slots.push(state);
        OutletNumber(u32::try_from(self.slots.len() - 1).expect("memory ends long before outlet numbers do"))
    }

    pub fn get(&self, ix: OutletNumber) -> &OutletState {
        self.slots[ix.0 as usize].as_ref().expect("an outlet is kept while its number is in use")
    }

    /// The outlet with this number, if there is one.
    pub fn try_get(&self, ix: OutletNumber) -> Option<&OutletState> {
        self.slots.get(ix.0 as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, ix: OutletNumber) -> &mut OutletState {
        self.slots[ix.0 as usize].as_mut().expect("an outlet is kept while its number is in use")
    }

    /// The counts of delayed jobs of the outlet's topic.
    fn due_counts_mut(&mut self, outlet: OutletNumber) -> &mut ByKind<DueCounts> {
        let Outlet { topic, host } = &self.get(outlet).outlet;
        let plain = match host {
            None => outlet,
            Some(_) => self.find_topic(topic.as_str()).expect("a topic is kept while it has outlets"),
        };
        &mut self.get_mut(plain).due_counts
    }

    /// Forgets the outlet if it is [forgettable](OutletState::is_forgettable), and then perhaps its topic. Does nothing for
    /// a free number.
    pub fn forget_if_empty(&mut self, ix: OutletNumber) {
        let slot = &mut self.slots[ix.0 as usize];
        let Some(OutletState { outlet, .. }) = slot.take_if(|state| state.is_forgettable()) else { return };
        self.free.push(ix);
        let Some(host) = outlet.host else {
            self.names.remove(outlet.topic.as_str());
            return;
        };
        let plain = self.find_topic(outlet.topic.as_str()).expect("a topic is kept while it has outlets");
        self.get_mut(plain).hosts.remove(&host);
        self.forget_if_empty(plain);
    }

    /// The plain outlets of the topics in order of name.
    pub fn by_name(&self) -> impl Iterator<Item = (OutletNumber, &OutletState)> {
        self.names.values().map(|ix| (*ix, self.get(*ix)))
    }

    /// The plain outlets of the topics that match `pattern`, in order of name, behind `after`.
    pub fn matching(
        &self,
        pattern: &TopicPattern,
        after: Option<&Topic>,
    ) -> impl Iterator<Item = (OutletNumber, &OutletState)> {
        let first = pattern.prefix();
        let after = after.map(Topic::as_str).filter(|after| *after >= first);
        let from = after.map_or(Bound::Included(first), Bound::Excluded);
        let names = self.names.range::<str, _>((from, Bound::Unbounded));
        let plain = names.map(|(_, ix)| (*ix, self.get(*ix)));
        plain.take_while(|(_, state)| pattern.matches(&state.outlet.topic))
    }

    /// All outlets of the topic with this plain outlet, which comes first.
    pub fn outlets_of(&self, plain: OutletNumber) -> impl Iterator<Item = (OutletNumber, &OutletState)> {
        let others = self.get(plain).hosts.values().copied();
        std::iter::once(plain).chain(others).map(|ix| (ix, self.get(ix)))
    }

    /// All outlets from `first` on, in order.
    pub fn outlets_from<'a>(
        &'a self,
        first: Option<&'a Outlet>,
    ) -> impl Iterator<Item = (OutletNumber, &'a OutletState)> {
        let from = first.map_or(Bound::Unbounded, |first| Bound::Included(first.topic.as_str()));
        let plain = self.names.range::<str, _>((from, Bound::Unbounded)).map(|(_, plain)| *plain);
        let outlets = plain.flat_map(|plain| self.outlets_of(plain));
        outlets.skip_while(move |(_, state)| first.is_some_and(|first| state.outlet < *first))
    }

    /// All outlets of all topics, in order.
    pub fn outlets(&self) -> impl Iterator<Item = (OutletNumber, &OutletState)> {
        self.by_name().flat_map(|(plain, _)| self.outlets_of(plain))
    }

    /// The statistics of the topic with this plain outlet, over all its outlets. The machine's clock is ahead of the store's
    /// by `wall_ahead_ms`, and the statistics show its times.
    pub fn stats(&self, plain: OutletNumber, wall_ahead_ms: i64) -> TopicStats {
        let mut stats = self.get(plain).stats(wall_ahead_ms);
        for (_, other) in self.outlets_of(plain).skip(1) {
            let other = other.stats(wall_ahead_ms);
            stats.delayed += other.delayed;
            stats.ready += other.ready;
            stats.reserved += other.reserved;
            stats.dead += other.dead;
            stats.next_due = stats.next_due.into_iter().chain(other.next_due).min();
            stats.oldest_ready = stats.oldest_ready.into_iter().chain(other.oldest_ready).min();
        }
        stats
    }
}

/// The delayed jobs of all outlets by due time. Each outlet keeps its own keys in order, so that its next due time is
/// known; this index keeps the first key of each outlet, so that the next job of all outlets is known too.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct DelayedJobs {
    first_keys: ByKind<BTreeSet<(RowKey, OutletNumber)>>,
    due_counts: ByKind<DueCounts>,
}

impl DelayedJobs {
    /// The delayed job of a kind, of any outlet, that is due first.
    pub fn first(&self, kind: DueKind) -> Option<(RowKey, OutletNumber)> {
        self.first_keys.get(kind).first().copied()
    }

    /// The first key of each kind of every outlet that has delayed jobs.
    pub fn first_keys(&self) -> &ByKind<BTreeSet<(RowKey, OutletNumber)>> {
        &self.first_keys
    }

    /// The delayed jobs of all topics by due time.
    pub fn due_counts(&self) -> &ByKind<DueCounts> {
        &self.due_counts
    }

    pub fn insert(&mut self, topics: &mut Topics, key: RowKey, outlet: OutletNumber) {
        let (due, kind) = (Minute::containing(key.slot()), key.kind());
        self.due_counts.get_mut(kind).add(due);
        topics.due_counts_mut(outlet).get_mut(kind).add(due);
        let delayed = topics.get_mut(outlet).delayed.get_mut(kind);
        let first = delayed.first().copied();
        delayed.insert(key);
        if first.is_none_or(|first| key < first) {
            let first_keys = self.first_keys.get_mut(kind);
            if let Some(first) = first {
                first_keys.remove(&(first, outlet));
            }
            first_keys.insert((key, outlet));
        }
    }

    /// Removes a job; `false` when it is not there.
    pub fn remove(&mut self, topics: &mut Topics, key: RowKey, outlet: OutletNumber) -> bool {
        let kind = key.kind();
        let delayed = topics.get_mut(outlet).delayed.get_mut(kind);
        if !delayed.remove(&key) {
            return false;
        }
        let first_keys = self.first_keys.get_mut(kind);
        if first_keys.remove(&(key, outlet))
            && let Some(first) = delayed.first()
        {
            first_keys.insert((*first, outlet));
        }
        let due = Minute::containing(key.slot());
        self.due_counts.get_mut(kind).remove(due);
        topics.due_counts_mut(outlet).get_mut(kind).remove(due);
        true
    }
}
