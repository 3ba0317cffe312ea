//! Everything that the engine keeps in memory, and the rollback of a group of changes.
//!
//! Each change writes its inverse into a journal. A commit clears the journal, a rollback applies it backwards,
//! so that memory never shows what the disk does not contain, while operations of one group see each other's
//! effects. (Rejected: applying changes after the commit, which needs an overlay in front of every look-up.)
//! Knows keys and hashes, neither SQL nor records.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use super::{
    expiries::Expiries,
    job_index::{IdHash, JobIndex, JobRef},
    job_state::MemoryState,
    journal::Undo,
    topics::{DelayedJobs, OutletNumber, Topics},
};
use crate::{
    job::{DueKind, ExpiresAt, Outlet, State, Timestamp},
    store::{
        TopicConfig, Totals,
        embedded::rows::{codec::Lease, key::RowKey},
    },
};

/// Where each job is, what is ready, what is reserved, and what is due next.
#[derive(Debug)]
pub(crate) struct Memory {
    index: JobIndex,
    topics: Topics,
    delayed: DelayedJobs,
    leases: HashMap<RowKey, (OutletNumber, Lease)>,
    deadlines: BTreeSet<(Timestamp, RowKey)>,
    expiries: Expiries,
    /// All jobs by state.
    totals: Totals,
    /// Outlets that have, or had, jobs whose ids are to be remembered: the records of their jobs say which.
    remembering: HashSet<OutletNumber>,
    /// No dead letter died before this; `None` when there are none.
    earliest_death: Option<Timestamp>,
    journal: Vec<Undo>,
    /// Outlets that may be empty now.
    maybe_empty: Vec<OutletNumber>,
    /// Outlets that may have gained their first ready job in this group, or lost their last.
    ready_changed: Vec<OutletNumber>,
}

impl Memory {
    /// Without jobs; `index` is empty too.
    pub fn new(index: JobIndex) -> Self {
        Self {
            index,
            topics: Topics::default(),
            delayed: DelayedJobs::default(),
            leases: HashMap::new(),
            deadlines: BTreeSet::new(),
            expiries: Expiries::default(),
            totals: Totals::default(),
            remembering: HashSet::new(),
            earliest_death: None,
            journal: Vec::new(),
            maybe_empty: Vec::new(),
            ready_changed: Vec::new(),
        }
    }

    pub fn job_index(&self) -> &JobIndex {
        &self.index
    }

    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// For tests that make memory inconsistent.
    #[cfg(test)]
    pub fn topics_mut(&mut self) -> &mut Topics {
        &mut self.topics
    }

    pub fn delayed(&self) -> &DelayedJobs {
        &self.delayed
    }

    /// The reservations with the outlets of their jobs.
    pub fn leases(&self) -> impl Iterator<Item = (RowKey, OutletNumber, &Lease)> {
        self.leases.iter().map(|(key, (topic, lease))| (*key, *topic, lease))
    }

    /// The reservations by their end.
    pub fn deadlines(&self) -> &BTreeSet<(Timestamp, RowKey)> {
        &self.deadlines
    }

    pub fn expiries(&self) -> &Expiries {
        &self.expiries
    }

    /// Whether a group has changes that are neither committed nor rolled back.
    #[cfg(test)]
    pub fn has_pending_changes(&self) -> bool {
        !self.journal.is_empty() || !self.maybe_empty.is_empty()
    }

    /// All jobs by state.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    pub fn lease(&self, key: RowKey) -> Option<&Lease> {
        self.leases.get(&key).map(|(_, lease)| lease)
    }

    /// The outlet of the reserved job at `key`, which must be known.
    pub fn reserved_outlet(&self, key: RowKey) -> OutletNumber {
        self.leases[&key].0
    }

    /// The number of `outlet`, which stays valid at least until the group ends.
    pub fn outlet(&mut self, outlet: &Outlet) -> OutletNumber {
        let ix = self.topics.find_or_add(outlet);
        if self.topics.get(ix).is_forgettable() {
            self.maybe_empty.push(ix);
        }
        ix
    }

    /// The state of a known job.
    pub fn job_state(&self, job: JobRef) -> State {
        if job.dead {
            State::Dead
        } else if self.leases.contains_key(&job.key) {
            State::Reserved
        } else if self.topics.get(job.outlet).ready.contains_key(&job.key) {
            State::Ready
        } else {
            State::Delayed
        }
    }

    /// Inserts a job while the store is loaded. This is not part of a group and cannot be rolled back.
    pub fn load(&mut self, hash: IdHash, job: JobRef, state: MemoryState, expires_at: Option<ExpiresAt>) {
        if !job.dead {
            self.expiries.set(job.key, expires_at.map(|expires_at| (expires_at, job.outlet)));
        }
        self.index.insert(hash, job);
        self.insert_into_lists(job, state);
    }

    /// Sets when a live job expires that is inserted next. Only a job in no state has its expiry set.
    pub fn set_expiry_of_new(&mut self, job: JobRef, expires_at: Option<ExpiresAt>) {
        if let Some(expires_at) = expires_at {
            self.set_expiry(job.key, Some((expires_at, job.outlet)));
        }
    }

    /// Inserts a new job.
    pub fn insert(&mut self, hash: IdHash, job: JobRef, state: MemoryState) {
        debug_assert_eq!(job.dead, matches!(state, MemoryState::Dead));
        self.index.insert(hash, job);
        self.journal.push(Undo::RemoveFromIndex(hash, job));
        self.insert_state(job, state);
    }

    /// Removes a job, which must be known.
    pub fn remove(&mut self, hash: IdHash, job: JobRef) -> MemoryState {
        let known = self.index.remove(hash, job.key, job.dead);
        assert_eq!(known, Some(job), "only a known job is removed");
        self.journal.push(Undo::AddToIndex(hash, job));
        let state = self.remove_state(job);
        if !job.dead && self.expiries.get(job.key).is_some() {
            self.set_expiry(job.key, None);
        }
        state
    }

    /// Changes when a waiting job expires.
    pub fn change_expiry(&mut self, job: JobRef, expires_at: Option<ExpiresAt>) {
        let state = self.remove_state(job);
        self.set_expiry(job.key, expires_at.map(|expires_at| (expires_at, job.outlet)));
        self.insert_state(job, state);
    }

    fn set_expiry(&mut self, key: RowKey, expiry: Option<(ExpiresAt, OutletNumber)>) {
        let before = self.expiries.set(key, expiry);
        self.journal.push(Undo::SetExpiry(key, before));
    }

    /// Changes the state of a job that keeps its key. Returns the previous state.
    pub fn change_state(&mut self, job: JobRef, state: MemoryState) -> MemoryState {
        let before = self.remove_state(job);
        self.insert_state(job, state);
        before
    }

    /// Sets the configuration of the topic with this plain outlet.
    pub fn set_config(&mut self, topic: OutletNumber, config: Arc<TopicConfig>) {
        let before = std::mem::replace(&mut self.topics.get_mut(topic).config, config);
        self.journal.push(Undo::SetConfig(topic, before));
        self.maybe_empty.push(topic);
    }

    /// Notes that an outlet gets a job whose id is to be remembered, if it is. A rollback need not undo this.
    pub fn set_remembers(&mut self, outlet: OutletNumber, is_remembered: bool) {
        if is_remembered {
            self.remembering.insert(outlet);
        }
    }

    /// Whether the id of a job of this outlet may have to be remembered.
    pub fn may_remember(&self, outlet: OutletNumber) -> bool {
        !self.remembering.is_empty() && self.remembering.contains(&outlet)
    }

    /// Sets the lower bound of the times of death.
    pub fn set_earliest_death(&mut self, since: Option<Timestamp>) {
        self.journal.push(Undo::SetEarliestDeath(std::mem::replace(&mut self.earliest_death, since)));
    }

    pub fn earliest_death(&self) -> Option<Timestamp> {
        self.earliest_death
    }

    /// The reservation that ends first.
    pub fn first_deadline(&self) -> Option<(Timestamp, JobRef)> {
        let &(deadline, key) = self.deadlines.first()?;
        let (outlet, _) = self.leases.get(&key).expect("every deadline belongs to a lease");
        Some((deadline, JobRef { key, outlet: *outlet, dead: false }))
    }

    /// The next moment by the store's clock at which `promote` has work, while the machine's clock is ahead by
    /// `wall_ahead_ms`.
    pub fn next_deadline(&self, dead_retention: Option<Duration>, wall_ahead_ms: i64) -> Option<Timestamp> {
        let first = |kind| self.delayed.first(kind).map(|(key, _)| key.slot());
        let delayed = first(DueKind::Elapsed);
        let moment = first(DueKind::Moment).map(|due| due.shifted(-wall_ahead_ms));
        let reserved = self.deadlines.first().map(|(deadline, _)| *deadline);
        let dead = self.earliest_death.zip(dead_retention).map(|(since, kept)| since.after(kept));
        let expires = |kind| self.expiries.first(kind).map(|(at, _)| at);
        let expiring = expires(DueKind::Elapsed);
        let moment_expiring = expires(DueKind::Moment).map(|at| at.shifted(-wall_ahead_ms));
        [delayed, moment, reserved, dead, expiring, moment_expiring].into_iter().flatten().min()
    }

    /// Keeps the changes of the group. Calls `publish` with each outlet that may have gained its first ready job or
    /// lost its last, and whether it has any now.
    pub fn commit(&mut self, mut publish: impl FnMut(&Outlet, bool)) {
        for changed in self.ready_changed.drain(..) {
            let state = self.topics.get(changed);
            publish(&state.outlet, !state.ready.is_empty());
        }
        self.journal.clear();
        self.forget_empty_outlets();
    }

    /// Restores everything as it was after the last commit.
    pub fn rollback(&mut self) {
        while let Some(undo) = self.journal.pop() {
            match undo {
                Undo::RemoveFromIndex(hash, job) => {
                    self.index.remove(hash, job.key, job.dead);
                }
                Undo::AddToIndex(hash, job) => self.index.insert(hash, job),
                Undo::RemoveState(job) => {
                    self.remove_from_lists(job);
                }
                Undo::InsertState(job, state) => self.insert_into_lists(job, state),
                Undo::SetExpiry(key, before) => {
                    self.expiries.set(key, before);
                }
                Undo::SetEarliestDeath(before) => self.earliest_death = before,
                Undo::SetConfig(topic, before) => self.topics.get_mut(topic).config = before,
            }
        }
        self.ready_changed.clear();
        self.forget_empty_outlets();
    }

    fn forget_empty_outlets(&mut self) {
        for outlet in self.maybe_empty.drain(..) {
            self.topics.forget_if_empty(outlet);
        }
    }

    fn insert_state(&mut self, job: JobRef, state: MemoryState) {
        self.insert_into_lists(job, state);
        self.journal.push(Undo::RemoveState(job));
    }

    fn remove_state(&mut self, job: JobRef) -> MemoryState {
        let state = self.remove_from_lists(job);
        self.journal.push(Undo::InsertState(job, state.clone()));
        self.maybe_empty.push(job.outlet);
        state
    }

    fn insert_into_lists(&mut self, job: JobRef, state: MemoryState) {
        *self.totals.count_mut(state.name()) += 1;
        if matches!(state, MemoryState::Delayed | MemoryState::Ready { .. }) {
            self.expiries.begin_waiting(job.key);
        }
        let outlet = self.topics.get_mut(job.outlet);
        match state {
            MemoryState::Delayed => self.delayed.insert(&mut self.topics, job.key, job.outlet),
            MemoryState::Ready { since } => {
                if outlet.ready.is_empty() {
                    self.ready_changed.push(job.outlet);
                }
                outlet.ready.insert(job.key, since);
            }
            MemoryState::Reserved(lease) => {
                outlet.reserved += 1;
                self.deadlines.insert((lease.deadline, job.key));
                self.leases.insert(job.key, (job.outlet, lease));
            }
            MemoryState::Dead => outlet.dead += 1,
        }
    }

    fn remove_from_lists(&mut self, job: JobRef) -> MemoryState {
        let state = self.take_from_lists(job);
        *self.totals.count_mut(state.name()) -= 1;
        if matches!(state, MemoryState::Delayed | MemoryState::Ready { .. }) {
            self.expiries.end_waiting(job.key);
        }
        state
    }

    fn take_from_lists(&mut self, job: JobRef) -> MemoryState {
        let outlet = self.topics.get_mut(job.outlet);
        if job.dead {
            outlet.dead -= 1;
            return MemoryState::Dead;
        }
        if let Some((_, lease)) = self.leases.remove(&job.key) {
            outlet.reserved -= 1;
            self.deadlines.remove(&(lease.deadline, job.key));
            return MemoryState::Reserved(lease);
        }
        if let Some(since) = outlet.ready.remove(&job.key) {
            if outlet.ready.is_empty() {
                self.ready_changed.push(job.outlet);
            }
            return MemoryState::Ready { since };
        }
        let known = self.delayed.remove(&mut self.topics, job.key, job.outlet);
        assert!(known, "a live job that is neither reserved nor ready is delayed");
        MemoryState::Delayed
    }
}
