//! What one operation works with: the disk and the memory of the present group, one reading of the clock,
//! and what has to be told once the group is committed.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    clock::Clock,
    job::{Job, JobId, Now, Timestamp, Topic, TopicFilter},
    store::{
        Error, TopicConfig,
        embedded::{
            disk::disk_space::{SpaceGauge, SpaceNeed},
            memory::{
                job_index::{IdHash, JobRef},
                job_state::JobState,
                state::Memory,
                topics::TopicNumber,
            },
            options::Options,
            rows::{
                codec::{Lease, Record, RecordError, RecordHead},
                db::{Db, SqlResult, Table},
                key::RowKey,
            },
        },
    },
};

/// What has to be told after the commit.
#[derive(Debug, Default)]
pub(crate) struct CommitEffects {
    /// Topics that have ready jobs which they did not have before.
    pub ready: BTreeSet<Topic>,
    /// Topics whose configuration changed.
    pub configs: Vec<(Topic, Arc<TopicConfig>)>,
    /// Records set aside.
    pub set_aside: u64,
    /// Set by a promotion: until when its caller sleeps unless it is told otherwise.
    pub sleeps_until: Option<Timestamp>,
}

/// One operation's view of the engine.
pub(crate) struct WriteTxn<'a> {
    pub db: &'a mut Db,
    pub memory: &'a mut Memory,
    pub effects: &'a mut CommitEffects,
    pub now: Now,
    pub clock: &'a dyn Clock,
    pub options: &'a Options,
    /// How much disk space is left.
    pub space: SpaceGauge<'a>,
}

/// A job found by its id.
#[derive(Debug)]
pub(crate) struct FoundJob<T> {
    pub hash: IdHash,
    pub job_ref: JobRef,
    pub content: T,
}

/// Most records read ahead in one go: under a millisecond of the writer's time. Tests cross many ends of slices.
const SLICE: usize = if cfg!(test) { 3 } else { 1_000 };

impl WriteTxn<'_> {
    /// Reads the clock for the next operation of the group.
    pub fn next_operation(&mut self) {
        self.now = self.clock.read();
    }

    /// How long until `moment`; zero when it has passed.
    pub fn time_until(&self, moment: Timestamp) -> Duration {
        time_until(self.clock, moment)
    }

    /// Why there is no room for an operation with this need, if so. Asked before its first change.
    pub fn space_refusal(&mut self, need: SpaceNeed) -> Option<Error> {
        self.space.level().refusal(need)
    }

    /// The job called `id`, with its body, if it is of a topic in `scope`.
    pub fn find(&mut self, scope: &TopicFilter, id: &JobId) -> SqlResult<Option<FoundJob<Record>>> {
        self.find_by(scope, id, Db::read, |record| &record.head.id)
    }

    /// The job called `id`, without its body, if it is of a topic in `scope`.
    pub fn find_head(&mut self, scope: &TopicFilter, id: &JobId) -> SqlResult<Option<FoundJob<RecordHead>>> {
        self.find_by(scope, id, Db::read_head, |head| &head.id)
    }

    /// Reads every job in `scope` whose id has the same hash; one that cannot be read is set aside on the way.
    /// Memory knows the topics: a job of another one costs no read, so that it takes no longer than no job.
    fn find_by<T>(
        &mut self,
        scope: &TopicFilter,
        id: &JobId,
        read: fn(&Db, Table, RowKey) -> SqlResult<Result<T, RecordError>>,
        id_of: fn(&T) -> &JobId,
    ) -> SqlResult<Option<FoundJob<T>>> {
        let hash = self.memory.job_index().hash(id.as_str().as_bytes());
        for job_ref in self.memory.job_index().candidates(hash) {
            if !self.is_in_scope(scope, job_ref) {
                continue;
            }
            match read(self.db, Table::of(job_ref.dead), job_ref.key)? {
                Ok(content) if id_of(&content) == id => return Ok(Some(FoundJob { hash, job_ref, content })),
                Ok(_) => {}
                Err(why) => self.set_aside(job_ref.key, job_ref.dead, why)?,
            }
        }
        Ok(None)
    }

    /// Whether the job at `at` is of a topic in `scope`.
    pub fn is_in_scope(&self, scope: &TopicFilter, job_ref: JobRef) -> bool {
        scope.is_all() || scope.allows(&self.memory.topics().get(job_ref.topic).name)
    }

    /// The job as people see it.
    pub fn to_job(&self, job_ref: JobRef, record: &Record) -> Job {
        record
            .to_job(self.memory.job_state(job_ref), self.memory.lease(job_ref.key).filter(|_| !job_ref.dead))
    }

    /// Where a live job that is due at `due_at` waits.
    pub fn waiting_state(&self, due_at: Timestamp) -> JobState {
        if due_at <= self.now.down { JobState::Ready { since: self.now.down } } else { JobState::Delayed }
    }

    /// Stores a record that waits until its due time, under a new key.
    pub fn insert_waiting(&mut self, hash: IdHash, topic: TopicNumber, record: &Record) -> SqlResult<JobRef> {
        let job_ref = JobRef { key: self.db.free_key(Table::Live, record.head.due_at)?, topic, dead: false };
        self.db.insert(Table::Live, job_ref.key, record)?;
        let place = self.waiting_state(record.head.due_at);
        self.announce_ready(topic, &place);
        self.memory.insert(hash, job_ref, place);
        Ok(job_ref)
    }

    /// Stores a record that died now, under a new key.
    pub fn insert_dead(
        &mut self,
        hash: IdHash,
        topic: TopicNumber,
        record: &mut Record,
    ) -> SqlResult<JobRef> {
        let now = self.now.down;
        record.head.dead_at = Some(now);
        let job_ref = JobRef { key: self.db.free_key(Table::Dead, now)?, topic, dead: true };
        self.db.insert(Table::Dead, job_ref.key, record)?;
        self.memory.insert(hash, job_ref, JobState::Dead);
        if self.memory.earliest_death().is_none_or(|since| now < since) {
            self.memory.set_earliest_death(Some(now));
        }
        Ok(job_ref)
    }

    /// Removes a job from where it lies, with its reservation if it has one.
    pub fn remove(&mut self, hash: IdHash, job_ref: JobRef) -> SqlResult<JobState> {
        self.db.delete(Table::of(job_ref.dead), job_ref.key)?;
        let place = self.memory.remove(hash, job_ref);
        if matches!(place, JobState::Reserved(_)) {
            self.db.delete_lease(job_ref.key)?;
        }
        Ok(place)
    }

    /// Changes the place of a job that keeps its key.
    pub fn change_state(&mut self, job_ref: JobRef, place: JobState) -> JobState {
        self.announce_ready(job_ref.topic, &place);
        self.memory.change_state(job_ref, place)
    }

    /// Grants or changes the reservation of the job at `at`.
    pub fn set_lease(&mut self, job_ref: JobRef, lease: Lease) -> SqlResult<JobState> {
        self.db.set_lease(job_ref.key, &lease)?;
        Ok(self.memory.change_state(job_ref, JobState::Reserved(lease)))
    }

    /// Makes sure that the broken record at `key` is never looked at again. It is named in the log, kept in
    /// the table `broken`, and counts nowhere.
    pub fn set_aside(&mut self, key: RowKey, dead: bool, why: RecordError) -> SqlResult<()> {
        let id = self.db.set_aside(Table::of(dead), key, why, self.now.down)?;
        let ids = self.memory.job_index();
        let by_name = id.as_deref().map(|id| ids.hash(id)).and_then(|hash| {
            let job_ref = ids
                .candidates(hash)
                .into_iter()
                .find(|job_ref| job_ref.key == key && job_ref.dead == dead)?;
            Some((hash, job_ref))
        });
        let known = by_name.or_else(|| ids.find_by_key(key, dead));
        let topic = known.map(|(_, job_ref)| self.memory.topics().get(job_ref.topic).name.clone());
        if let Some((hash, job_ref)) = known {
            self.memory.remove(hash, job_ref);
        }
        self.effects.set_aside += 1;
        let id = id.map(|id| String::from_utf8_lossy(&id).into_owned());
        tracing::error!(
            %why, ?key, id = id.as_deref(), topic = topic.as_ref().map(Topic::as_str),
            "a broken record was set aside; its bytes are kept in the table `broken`"
        );
        Ok(())
    }

    /// Brings delayed jobs before `until` into the window, at most about a thousand. Whether all are there.
    pub fn extend_window(&mut self, until: Timestamp) -> SqlResult<bool> {
        let (from, to) = (self.memory.window().end(), RowKey::first_after(until));
        if to <= from {
            return Ok(true);
        }
        if self.memory.delayed_beyond_window() == 0 {
            self.memory.set_window_end(to);
            return Ok(true);
        }
        let (mut last, mut broken) = (from, Vec::new());
        let memory = &mut *self.memory;
        let seen = self.db.scan(Table::Live, (from, to), SLICE, |key, columns| {
            last = key;
            let topic = columns.and_then(|columns| {
                columns.verify()?;
                let name = std::str::from_utf8(columns.topic).map_err(|_| RecordError::Value)?;
                memory.topics().find(name).ok_or(RecordError::Value)
            });
            match topic {
                // Ready or reserved jobs can lie here too after the clock took a leap.
                Ok(topic)
                    if memory.job_state(JobRef { key, topic, dead: false }) == crate::job::State::Delayed =>
                {
                    memory.add_to_window(key, topic);
                }
                Ok(_) => {}
                Err(why) => broken.push((key, why)),
            }
        })?;
        let complete = seen < SLICE;
        self.memory.set_window_end(if complete { to } else { last.next() });
        for (key, why) in broken {
            self.set_aside(key, false, why)?;
        }
        Ok(complete)
    }

    /// Reads ahead when half of the look-ahead is used. Whether there is nothing left to read for now.
    pub fn refill_window(&mut self) -> SqlResult<bool> {
        let end = self.memory.window().end().slot();
        let ahead = self.options.look_ahead;
        if end >= self.now.up.after(ahead / 2) {
            return Ok(true);
        }
        self.extend_window(self.now.up.after(ahead))
    }

    fn announce_ready(&mut self, topic: TopicNumber, place: &JobState) {
        if matches!(place, JobState::Ready { .. }) {
            let name = &self.memory.topics().get(topic).name;
            if !self.effects.ready.contains(name) {
                self.effects.ready.insert(name.clone());
            }
        }
    }
}

/// How long until `moment` on `clock`, to the microsecond; zero when it has passed.
pub(crate) fn time_until(clock: &dyn Clock, moment: Timestamp) -> Duration {
    let left_us = moment.as_millis().saturating_mul(1_000).saturating_sub(clock.now_micros());
    Duration::from_micros(u64::try_from(left_us).unwrap_or(0))
}
