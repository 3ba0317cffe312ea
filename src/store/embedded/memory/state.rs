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
    job_index::{IdHash, Ids, Located},
    topics::{TopicIx, Topics},
    window::Window,
};
use crate::{
    job::{State as JobState, Timestamp, Topic},
    store::{
        TopicConfig,
        embedded::rows::{codec::Lease, key::Key},
    },
};

/// Where a job is in its life, with what only memory knows about that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Delayed,
    Ready { since: Timestamp },
    Reserved(Lease),
    Dead,
}

/// The opposite of one change.
#[derive(Debug)]
enum Undo {
    Forget(IdHash, Located),
    Know(IdHash, Located),
    TakeOut(Located),
    PutIn(Located, Place),
    Unsee(Key, TopicIx),
    Frontier(Key),
    DeadSince(Option<Timestamp>),
    Config(TopicIx, Arc<TopicConfig>),
}

#[derive(Debug)]
pub(crate) struct State {
    ids: Ids,
    topics: Topics,
    window: Window,
    leases: HashMap<Key, (TopicIx, Lease)>,
    deadlines: BTreeSet<(Timestamp, Key)>,
    /// Delayed jobs of all topics, within the window and beyond.
    delayed: u64,
    /// No dead letter died before this; `None` when there are none.
    dead_since: Option<Timestamp>,
    journal: Vec<Undo>,
    /// Topics that may have become empty, or were never filled.
    maybe_empty: Vec<TopicIx>,
    /// Topics that may have got their first ready job in this group, or lost their last.
    ready_turned: Vec<TopicIx>,
}

impl State {
    /// Empty, with a window that ends at `frontier`.
    pub fn new(ids: Ids, frontier: Key) -> Self {
        Self {
            ids,
            topics: Topics::default(),
            window: Window::new(frontier),
            leases: HashMap::new(),
            deadlines: BTreeSet::new(),
            delayed: 0,
            dead_since: None,
            journal: Vec::new(),
            maybe_empty: Vec::new(),
            ready_turned: Vec::new(),
        }
    }

    pub fn ids(&self) -> &Ids {
        &self.ids
    }

    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    pub fn window(&self) -> &Window {
        &self.window
    }

    pub fn lease(&self, key: Key) -> Option<&Lease> {
        self.leases.get(&key).map(|(_, lease)| lease)
    }

    /// The number of `name`, which is remembered at least until the group ends.
    pub fn topic(&mut self, name: &Topic) -> TopicIx {
        let ix = self.topics.find_or_add(name);
        if self.topics.get(ix).is_forgettable() {
            self.maybe_empty.push(ix);
        }
        ix
    }

    /// The state of a known job.
    pub fn job_state(&self, job: Located) -> JobState {
        if job.dead {
            JobState::Dead
        } else if self.leases.contains_key(&job.key) {
            JobState::Reserved
        } else if self.topics.get(job.topic).ready.contains_key(&job.key) {
            JobState::Ready
        } else {
            JobState::Delayed
        }
    }

    /// A job is there from the start: not a change, so it cannot be taken back.
    pub fn load(&mut self, hash: IdHash, job: Located, place: Place) {
        self.ids.insert(hash, job);
        self.do_put_in(job, place);
    }

    /// A job appears.
    pub fn insert(&mut self, hash: IdHash, job: Located, place: Place) {
        debug_assert_eq!(job.dead, matches!(place, Place::Dead));
        self.ids.insert(hash, job);
        self.journal.push(Undo::Forget(hash, job));
        self.put_in(job, place);
    }

    /// A job disappears; it was there.
    pub fn remove(&mut self, hash: IdHash, job: Located) -> Place {
        let known = self.ids.remove(hash, job.key, job.dead);
        assert_eq!(known, Some(job), "only a known job is removed");
        self.journal.push(Undo::Know(hash, job));
        self.take_out(job)
    }

    /// A job changes its place but not its key.
    pub fn shift(&mut self, job: Located, place: Place) -> Place {
        let before = self.take_out(job);
        self.put_in(job, place);
        before
    }

    /// A record that lies before the new frontier comes into view.
    pub fn see(&mut self, key: Key, topic: TopicIx) {
        self.window.enter(&mut self.topics, key, topic);
        self.journal.push(Undo::Unsee(key, topic));
    }

    /// The window ends at `frontier` from now on; every delayed job before it has been [seen](Self::see).
    pub fn set_frontier(&mut self, frontier: Key) {
        self.journal.push(Undo::Frontier(self.window.set_frontier(frontier)));
    }

    pub fn set_config(&mut self, topic: TopicIx, config: Arc<TopicConfig>) {
        let before = std::mem::replace(&mut self.topics.get_mut(topic).config, config);
        self.journal.push(Undo::Config(topic, before));
        self.maybe_empty.push(topic);
    }

    /// Puts a better bound on when the first dead letter died.
    pub fn set_dead_since(&mut self, since: Option<Timestamp>) {
        self.journal.push(Undo::DeadSince(std::mem::replace(&mut self.dead_since, since)));
    }

    pub fn dead_since(&self) -> Option<Timestamp> {
        self.dead_since
    }

    /// How many delayed jobs lie beyond the window.
    pub fn beyond(&self) -> u64 {
        self.delayed - self.window.len() as u64
    }

    /// The reservation that ends first.
    pub fn first_deadline(&self) -> Option<(Timestamp, Located)> {
        let &(deadline, key) = self.deadlines.first()?;
        let (topic, _) = self.leases.get(&key).expect("every deadline is one of a lease");
        Some((deadline, Located { key, topic: *topic, dead: false }))
    }

    /// The next moment at which something is due, as far as the window shows.
    pub fn next_deadline(&self, dead_retention: Option<Duration>) -> Option<Timestamp> {
        let delayed = self.window.head().map(|(key, _)| key.slot());
        let reserved = self.deadlines.first().map(|(deadline, _)| *deadline);
        let unseen = (self.beyond() > 0).then(|| self.window.frontier().slot());
        let dead = self.dead_since.zip(dead_retention).map(|(since, kept)| since.after(kept));
        [delayed, reserved, unseen, dead].into_iter().flatten().min()
    }

    /// What was changed stays. `tell` hears of each topic that got its first ready job since the last commit,
    /// or lost its last, whether it has any now.
    pub fn commit(&mut self, mut tell: impl FnMut(&Topic, bool)) {
        for topic in self.ready_turned.drain(..) {
            let topic = self.topics.get(topic);
            tell(&topic.name, !topic.ready.is_empty());
        }
        self.journal.clear();
        self.sweep();
    }

    /// Everything is as it was after the last commit.
    pub fn rollback(&mut self) {
        while let Some(undo) = self.journal.pop() {
            match undo {
                Undo::Forget(hash, job) => {
                    self.ids.remove(hash, job.key, job.dead);
                }
                Undo::Know(hash, job) => self.ids.insert(hash, job),
                Undo::TakeOut(job) => {
                    self.do_take_out(job);
                }
                Undo::PutIn(job, place) => self.do_put_in(job, place),
                Undo::Unsee(key, topic) => self.window.leave(&mut self.topics, key, topic),
                Undo::Frontier(before) => {
                    self.window.set_frontier(before);
                }
                Undo::DeadSince(before) => self.dead_since = before,
                Undo::Config(topic, before) => self.topics.get_mut(topic).config = before,
            }
        }
        self.ready_turned.clear();
        self.sweep();
    }

    fn sweep(&mut self) {
        for topic in self.maybe_empty.drain(..) {
            self.topics.forget_if_empty(topic);
        }
    }

    fn put_in(&mut self, job: Located, place: Place) {
        self.do_put_in(job, place);
        self.journal.push(Undo::TakeOut(job));
    }

    fn take_out(&mut self, job: Located) -> Place {
        let place = self.do_take_out(job);
        self.journal.push(Undo::PutIn(job, place.clone()));
        self.maybe_empty.push(job.topic);
        place
    }

    fn do_put_in(&mut self, job: Located, place: Place) {
        let topic = self.topics.get_mut(job.topic);
        match place {
            Place::Delayed => {
                topic.delayed += 1;
                self.delayed += 1;
                if self.window.shows(job.key) {
                    self.window.enter(&mut self.topics, job.key, job.topic);
                }
            }
            Place::Ready { since } => {
                if topic.ready.is_empty() {
                    self.ready_turned.push(job.topic);
                }
                topic.ready.insert(job.key, since);
            }
            Place::Reserved(lease) => {
                topic.reserved += 1;
                self.deadlines.insert((lease.deadline, job.key));
                self.leases.insert(job.key, (job.topic, lease));
            }
            Place::Dead => topic.dead += 1,
        }
    }

    fn do_take_out(&mut self, job: Located) -> Place {
        let topic = self.topics.get_mut(job.topic);
        if job.dead {
            topic.dead -= 1;
            return Place::Dead;
        }
        if let Some((_, lease)) = self.leases.remove(&job.key) {
            topic.reserved -= 1;
            self.deadlines.remove(&(lease.deadline, job.key));
            return Place::Reserved(lease);
        }
        if let Some(since) = topic.ready.remove(&job.key) {
            if topic.ready.is_empty() {
                self.ready_turned.push(job.topic);
            }
            return Place::Ready { since };
        }
        topic.delayed -= 1;
        self.delayed -= 1;
        if self.window.shows(job.key) {
            self.window.leave(&mut self.topics, job.key, job.topic);
        }
        Place::Delayed
    }
}
