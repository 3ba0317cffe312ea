//! Everything the engine knows in memory, and how a group of changes is taken back as a whole.
//!
//! Each change leaves its opposite in a journal. A commit throws the journal away, a rollback plays it
//! backwards, so that memory never shows what the disk does not hold, while operations of one group see
//! each other's effects. (Rejected: applying changes after the commit, which needs an overlay in front of
//! every look-up.) Knows keys and hashes, neither SQL nor records.

mod check;
#[cfg(test)]
pub(crate) mod snapshot;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use super::{
    job_index::{IdHash, JobIndex, JobRef},
    topics::{TopicNumber, Topics},
    window::DelayedWindow,
};
use crate::{
    job::{State, Timestamp, Topic},
    store::{
        TopicConfig,
        embedded::rows::{codec::Lease, key::RowKey},
    },
};

/// Where a job is in its life, with what only memory knows about that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobState {
    Delayed,
    Ready { since: Timestamp },
    Reserved(Lease),
    Dead,
}

/// The opposite of one change.
#[derive(Debug)]
enum Undo {
    RemoveFromIndex(IdHash, JobRef),
    AddToIndex(IdHash, JobRef),
    RemoveState(JobRef),
    InsertState(JobRef, JobState),
    RemoveFromWindow(RowKey, TopicNumber),
    SetWindowEnd(RowKey),
    SetEarliestDeath(Option<Timestamp>),
    SetConfig(TopicNumber, Arc<TopicConfig>),
}

#[derive(Debug)]
pub(crate) struct Memory {
    ids: JobIndex,
    topics: Topics,
    window: DelayedWindow,
    leases: HashMap<RowKey, (TopicNumber, Lease)>,
    deadlines: BTreeSet<(Timestamp, RowKey)>,
    /// Delayed jobs of all topics, within the window and beyond.
    delayed: u64,
    /// No dead letter died before this; `None` when there are none.
    earliest_death: Option<Timestamp>,
    journal: Vec<Undo>,
    /// Topics that may have become empty, or were never filled.
    maybe_empty: Vec<TopicNumber>,
    /// Topics that may have got their first ready job in this group, or lost their last.
    ready_changed: Vec<TopicNumber>,
}

impl Memory {
    /// Empty, with a window that ends at `frontier`.
    pub fn new(ids: JobIndex, frontier: RowKey) -> Self {
        Self {
            ids,
            topics: Topics::default(),
            window: DelayedWindow::new(frontier),
            leases: HashMap::new(),
            deadlines: BTreeSet::new(),
            delayed: 0,
            earliest_death: None,
            journal: Vec::new(),
            maybe_empty: Vec::new(),
            ready_changed: Vec::new(),
        }
    }

    pub fn job_index(&self) -> &JobIndex {
        &self.ids
    }

    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    pub fn window(&self) -> &DelayedWindow {
        &self.window
    }

    pub fn lease(&self, key: RowKey) -> Option<&Lease> {
        self.leases.get(&key).map(|(_, lease)| lease)
    }

    /// The number of `name`, which is remembered at least until the group ends.
    pub fn topic(&mut self, name: &Topic) -> TopicNumber {
        let ix = self.topics.find_or_add(name);
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
        } else if self.topics.get(job.topic).ready.contains_key(&job.key) {
            State::Ready
        } else {
            State::Delayed
        }
    }

    /// A job is there from the start: not a change, so it cannot be taken back.
    pub fn load(&mut self, hash: IdHash, job: JobRef, state: JobState) {
        self.ids.insert(hash, job);
        self.insert_into_lists(job, state);
    }

    /// A job appears.
    pub fn insert(&mut self, hash: IdHash, job: JobRef, state: JobState) {
        debug_assert_eq!(job.dead, matches!(state, JobState::Dead));
        self.ids.insert(hash, job);
        self.journal.push(Undo::RemoveFromIndex(hash, job));
        self.insert_state(job, state);
    }

    /// A job disappears; it was there.
    pub fn remove(&mut self, hash: IdHash, job: JobRef) -> JobState {
        let known = self.ids.remove(hash, job.key, job.dead);
        assert_eq!(known, Some(job), "only a known job is removed");
        self.journal.push(Undo::AddToIndex(hash, job));
        self.remove_state(job)
    }

    /// A job changes its place but not its key.
    pub fn change_state(&mut self, job: JobRef, state: JobState) -> JobState {
        let before = self.remove_state(job);
        self.insert_state(job, state);
        before
    }

    /// A record that lies before the new frontier comes into view.
    pub fn add_to_window(&mut self, key: RowKey, topic: TopicNumber) {
        self.window.insert(&mut self.topics, key, topic);
        self.journal.push(Undo::RemoveFromWindow(key, topic));
    }

    /// The window ends at `frontier` from now on; every delayed job before it has been [seen](Self::see).
    pub fn set_window_end(&mut self, frontier: RowKey) {
        self.journal.push(Undo::SetWindowEnd(self.window.set_end(frontier)));
    }

    pub fn set_config(&mut self, topic: TopicNumber, config: Arc<TopicConfig>) {
        let before = std::mem::replace(&mut self.topics.get_mut(topic).config, config);
        self.journal.push(Undo::SetConfig(topic, before));
        self.maybe_empty.push(topic);
    }

    /// Puts a better bound on when the first dead letter died.
    pub fn set_earliest_death(&mut self, since: Option<Timestamp>) {
        self.journal.push(Undo::SetEarliestDeath(std::mem::replace(&mut self.earliest_death, since)));
    }

    pub fn earliest_death(&self) -> Option<Timestamp> {
        self.earliest_death
    }

    /// How many delayed jobs lie beyond the window.
    pub fn delayed_beyond_window(&self) -> u64 {
        self.delayed - self.window.len() as u64
    }

    /// The reservation that ends first.
    pub fn first_deadline(&self) -> Option<(Timestamp, JobRef)> {
        let &(deadline, key) = self.deadlines.first()?;
        let (topic, _) = self.leases.get(&key).expect("every deadline is one of a lease");
        Some((deadline, JobRef { key, topic: *topic, dead: false }))
    }

    /// The next moment at which something is due, as far as the window shows.
    pub fn next_deadline(&self, dead_retention: Option<Duration>) -> Option<Timestamp> {
        let delayed = self.window.first().map(|(key, _)| key.slot());
        let reserved = self.deadlines.first().map(|(deadline, _)| *deadline);
        let unseen = (self.delayed_beyond_window() > 0).then(|| self.window.end().slot());
        let dead = self.earliest_death.zip(dead_retention).map(|(since, kept)| since.after(kept));
        [delayed, reserved, unseen, dead].into_iter().flatten().min()
    }

    /// What was changed stays. `tell` hears of each topic that got its first ready job since the last commit,
    /// or lost its last, whether it has any now.
    pub fn commit(&mut self, mut tell: impl FnMut(&Topic, bool)) {
        for topic in self.ready_changed.drain(..) {
            let topic = self.topics.get(topic);
            tell(&topic.name, !topic.ready.is_empty());
        }
        self.journal.clear();
        self.forget_empty_topics();
    }

    /// Everything is as it was after the last commit.
    pub fn rollback(&mut self) {
        while let Some(undo) = self.journal.pop() {
            match undo {
                Undo::RemoveFromIndex(hash, job) => {
                    self.ids.remove(hash, job.key, job.dead);
                }
                Undo::AddToIndex(hash, job) => self.ids.insert(hash, job),
                Undo::RemoveState(job) => {
                    self.remove_from_lists(job);
                }
                Undo::InsertState(job, state) => self.insert_into_lists(job, state),
                Undo::RemoveFromWindow(key, topic) => self.window.remove(&mut self.topics, key, topic),
                Undo::SetWindowEnd(before) => {
                    self.window.set_end(before);
                }
                Undo::SetEarliestDeath(before) => self.earliest_death = before,
                Undo::SetConfig(topic, before) => self.topics.get_mut(topic).config = before,
            }
        }
        self.ready_changed.clear();
        self.forget_empty_topics();
    }

    fn forget_empty_topics(&mut self) {
        for topic in self.maybe_empty.drain(..) {
            self.topics.forget_if_empty(topic);
        }
    }

    fn insert_state(&mut self, job: JobRef, state: JobState) {
        self.insert_into_lists(job, state);
        self.journal.push(Undo::RemoveState(job));
    }

    fn remove_state(&mut self, job: JobRef) -> JobState {
        let state = self.remove_from_lists(job);
        self.journal.push(Undo::InsertState(job, state.clone()));
        self.maybe_empty.push(job.topic);
        state
    }

    fn insert_into_lists(&mut self, job: JobRef, state: JobState) {
        let topic = self.topics.get_mut(job.topic);
        match state {
            JobState::Delayed => {
                topic.delayed += 1;
                self.delayed += 1;
                if self.window.covers(job.key) {
                    self.window.insert(&mut self.topics, job.key, job.topic);
                }
            }
            JobState::Ready { since } => {
                if topic.ready.is_empty() {
                    self.ready_changed.push(job.topic);
                }
                topic.ready.insert(job.key, since);
            }
            JobState::Reserved(lease) => {
                topic.reserved += 1;
                self.deadlines.insert((lease.deadline, job.key));
                self.leases.insert(job.key, (job.topic, lease));
            }
            JobState::Dead => topic.dead += 1,
        }
    }

    fn remove_from_lists(&mut self, job: JobRef) -> JobState {
        let topic = self.topics.get_mut(job.topic);
        if job.dead {
            topic.dead -= 1;
            return JobState::Dead;
        }
        if let Some((_, lease)) = self.leases.remove(&job.key) {
            topic.reserved -= 1;
            self.deadlines.remove(&(lease.deadline, job.key));
            return JobState::Reserved(lease);
        }
        if let Some(since) = topic.ready.remove(&job.key) {
            if topic.ready.is_empty() {
                self.ready_changed.push(job.topic);
            }
            return JobState::Ready { since };
        }
        topic.delayed -= 1;
        self.delayed -= 1;
        if self.window.covers(job.key) {
            self.window.remove(&mut self.topics, job.key, job.topic);
        }
        JobState::Delayed
    }
}
