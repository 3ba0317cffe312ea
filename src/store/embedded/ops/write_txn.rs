//! The transaction that an operation works on: rows and memory of the present group, one reading of the clock, and
//! the effects to publish once the group is committed. Keeps rows and memory in step.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    clock::Clock,
    job::{AttemptEnd, Due, DueKind, Job, JobId, Now, Outlet, Reason, Timestamp, Topic, TopicFilter},
    store::{
        TopicConfig,
        embedded::{
            disk::disk_space::{SpaceGauge, SpaceNeed},
            memory::{
                job_index::{IdHash, JobRef},
                job_state::MemoryState,
                state::Memory,
                topics::OutletNumber,
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

/// What to publish after the commit.
#[derive(Debug, Default)]
pub(crate) struct CommitEffects {
    /// Outlets with new ready jobs.
    pub ready: BTreeSet<Outlet>,
    /// Topics whose callback changed or whose delivery was resumed.
    pub changed_topics: Vec<Topic>,
    /// Topics whose configuration changed.
    pub configs: Vec<(Topic, Arc<TopicConfig>)>,
    /// Number of records set aside.
    pub set_aside: u64,
    /// Number of ids that there was no disk space to remember.
    pub not_remembered: u64,
    /// Number of ids that were forgotten before their window had passed, to remember others.
    pub forgotten_early: u64,
    /// Set by a promotion: its limit, and until when its caller sleeps unless it is notified.
    pub promotion: Option<(usize, Timestamp)>,
}

/// The transaction of a group, as an operation sees it.
pub(crate) struct WriteTxn<'a> {
    pub db: &'a mut Db,
    pub memory: &'a mut Memory,
    pub effects: &'a mut CommitEffects,
    /// The store's clock, by which time elapses.
    pub now: Now,
    /// By how much the machine's clock is ahead of it.
    pub wall_ahead_ms: i64,
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

impl WriteTxn<'_> {
    /// Reads the clock for the next operation of the group.
    pub fn next_operation(&mut self) {
        self.now = self.clock.read();
        self.wall_ahead_ms = self.clock.wall_ahead_ms();
    }

    /// The machine's clock, by which moments come, and which callers see.
    pub fn wall_now(&self) -> Now {
        self.now.shifted(self.wall_ahead_ms)
    }

    /// The present time by the clock that decides about jobs of this kind.
    pub fn now_of(&self, kind: DueKind) -> Now {
        match kind {
            DueKind::Elapsed => self.now,
            DueKind::Moment => self.wall_now(),
        }
    }

    /// How long until `moment` of the store's clock; zero when it has passed.
    pub fn time_until(&self, moment: Timestamp) -> Duration {
        time_until(self.clock, moment)
    }

    /// Fails if there is not enough disk space for an operation. Called before its first change.
    pub fn check_space(&mut self, need: SpaceNeed) -> crate::store::Result<()> {
        self.space.level().refusal(need).map_or(Ok(()), Err)
    }

    /// The job called `id`, with its body, if it is of a topic in `scope`.
    pub fn find(&mut self, scope: &TopicFilter, id: &JobId) -> SqlResult<Option<FoundJob<Record>>> {
        self.find_by(scope, id, Db::read, |record| &record.head.id)
    }

    /// The job called `id`, without its body, if it is of a topic in `scope`.
    pub fn find_head(&mut self, scope: &TopicFilter, id: &JobId) -> SqlResult<Option<FoundJob<RecordHead>>> {
        self.find_by(scope, id, Db::read_head, |head| &head.id)
    }

    /// Reads every job in `scope` whose id has the same hash, and sets aside those that cannot be read. Memory knows
    /// the topics: a job out of scope costs no read, so that it takes as long as a job that does not exist.
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
            match read(self.db, Table::for_job(job_ref.dead), job_ref.key)? {
                Ok(content) if id_of(&content) == id => return Ok(Some(FoundJob { hash, job_ref, content })),
                Ok(_) => {}
                Err(why) => self.set_aside(job_ref.key, job_ref.dead, why)?,
            }
        }
        Ok(None)
    }

    /// Whether the job's topic is in `scope`.
    pub fn is_in_scope(&self, scope: &TopicFilter, job_ref: JobRef) -> bool {
        scope.is_all() || scope.allows(&self.memory.topics().get(job_ref.outlet).outlet.topic)
    }

    /// The job's topic.
    pub fn topic_of(&self, job_ref: JobRef) -> Topic {
        self.memory.topics().get(job_ref.outlet).outlet.topic.clone()
    }

    /// Adds the attempt that was made under `lease`, and ends now, to the history of `head`.
    pub fn remember_attempt(
        &self,
        head: &mut RecordHead,
        lease: &Lease,
        end: AttemptEnd,
        reason: Option<&Reason>,
    ) {
        let took = self.now.rounded_down.since(lease.since);
        head.remember_attempt(lease, end, reason, took, self.wall_now());
    }

    /// Sets the due time of a job that waits for `delay` from now.
    pub fn set_delay(&self, head: &mut RecordHead, delay: Duration) {
        head.set_due(self.now.after(delay), DueKind::Elapsed);
    }

    /// Sets the due time that a client asked for. A moment that has passed means now, also if the clock is corrected later.
    pub fn set_due(&self, head: &mut RecordHead, due: Due) {
        match due {
            Due::After(delay) => self.set_delay(head, delay.as_duration()),
            Due::At(moment) if moment <= self.wall_now().rounded_down => self.set_delay(head, Duration::ZERO),
            Due::At(moment) => head.set_due(moment, DueKind::Moment),
        }
    }

    /// Whether the job's expiry has passed.
    pub fn has_expired(&self, head: &RecordHead) -> bool {
        head.expiry().is_some_and(|expires_at| expires_at.moment <= self.now_of(expires_at.kind).rounded_down)
    }

    /// Whether the job would expire before its due time.
    pub fn expires_first(&self, head: &RecordHead) -> bool {
        let due_at = self.shown_due(head);
        head.expiry().is_some_and(|expires_at| expires_at.shown(self.wall_ahead_ms) < due_at)
    }

    /// The due time as callers see it.
    pub fn shown_due(&self, head: &RecordHead) -> Timestamp {
        head.shown_due(self.wall_ahead_ms)
    }

    /// The job as callers see it.
    pub fn to_job(&self, job_ref: JobRef, record: &Record) -> Job {
        let lease = self.memory.lease(job_ref.key).filter(|_| !job_ref.dead);
        record.to_job(self.memory.job_state(job_ref), lease, self.wall_ahead_ms)
    }

    /// The state of a waiting job.
    pub fn waiting_state(&self, head: &RecordHead) -> MemoryState {
        if head.due_at <= self.now_of(head.due_kind()).rounded_down {
            MemoryState::Ready { since: self.now.rounded_down }
        } else {
            MemoryState::Delayed
        }
    }

    /// Stores a record that waits for its due time, under a new key.
    pub fn insert_waiting(
        &mut self,
        hash: IdHash,
        outlet: OutletNumber,
        record: &Record,
    ) -> SqlResult<JobRef> {
        let key = self.db.free_key(Table::Live, record.head.due_at, record.head.due_kind())?;
        let job_ref = JobRef { key, outlet, dead: false };
        self.memory.set_remembers(outlet, record.head.spec.dedup.is_some());
        self.db.insert(Table::Live, job_ref.key, record)?;
        let state = self.waiting_state(&record.head);
        if matches!(state, MemoryState::Ready { .. }) {
            self.announce_ready(outlet);
        }
        self.memory.set_expiry_of_new(job_ref, record.head.expiry());
        self.memory.insert(hash, job_ref, state);
        Ok(job_ref)
    }

    /// Stores a record that is reserved under `lease`, under a new key.
    pub fn insert_reserved(
        &mut self,
        hash: IdHash,
        outlet: OutletNumber,
        record: &Record,
        lease: Lease,
    ) -> SqlResult<JobRef> {
        let key = self.db.free_key(Table::Live, record.head.due_at, record.head.due_kind())?;
        self.memory.set_remembers(outlet, record.head.spec.dedup.is_some());
        self.db.insert(Table::Live, key, record)?;
        self.db.set_lease(key, &lease)?;
        let job_ref = JobRef { key, outlet, dead: false };
        self.memory.set_expiry_of_new(job_ref, record.head.expiry());
        self.memory.insert(hash, job_ref, MemoryState::Reserved(lease));
        Ok(job_ref)
    }

    /// Ends the reservation of an older version: the job that replaced it waits for its due time, which its key has.
    /// Returns whether it is ready.
    pub fn end_older_lease(&mut self, job_ref: JobRef) -> SqlResult<bool> {
        self.db.delete_lease(job_ref.key)?;
        let is_due = job_ref.key.slot() <= self.now_of(job_ref.key.kind()).rounded_down;
        let state =
            if is_due { MemoryState::Ready { since: self.now.rounded_down } } else { MemoryState::Delayed };
        self.change_state(job_ref, state);
        Ok(is_due)
    }

    /// Stores a record that died now, under a new key.
    pub fn insert_dead(
        &mut self,
        hash: IdHash,
        outlet: OutletNumber,
        record: &mut Record,
    ) -> SqlResult<JobRef> {
        let now = self.now.rounded_down;
        record.head.dead_at = Some(self.wall_now().rounded_down);
        let job_ref =
            JobRef { key: self.db.free_key(Table::Dead, now, DueKind::Elapsed)?, outlet, dead: true };
        self.db.insert(Table::Dead, job_ref.key, record)?;
        self.memory.insert(hash, job_ref, MemoryState::Dead);
        if self.memory.earliest_death().is_none_or(|since| now < since) {
            self.memory.set_earliest_death(Some(now));
        }
        Ok(job_ref)
    }

    /// Removes a job, with its reservation if it has one.
    pub fn remove(&mut self, hash: IdHash, job_ref: JobRef) -> SqlResult<MemoryState> {
        self.db.delete(Table::for_job(job_ref.dead), job_ref.key)?;
        let state = self.memory.remove(hash, job_ref);
        if matches!(state, MemoryState::Reserved(_)) {
            self.db.delete_lease(job_ref.key)?;
        }
        Ok(state)
    }

    /// Changes the state of a job that keeps its key.
    pub fn change_state(&mut self, job_ref: JobRef, state: MemoryState) -> MemoryState {
        if matches!(state, MemoryState::Ready { .. }) {
            self.announce_ready(job_ref.outlet);
        }
        self.memory.change_state(job_ref, state)
    }

    /// Grants or changes the reservation of a job.
    pub fn set_lease(&mut self, job_ref: JobRef, lease: Lease) -> SqlResult<MemoryState> {
        self.db.set_lease(job_ref.key, &lease)?;
        Ok(self.memory.change_state(job_ref, MemoryState::Reserved(lease)))
    }

    /// Moves the broken record at `key` to the table `broken`, so that it is not read again, and logs it. It is not
    /// counted any more.
    pub fn set_aside(&mut self, key: RowKey, dead: bool, why: RecordError) -> SqlResult<()> {
        let id = self.db.set_aside(Table::for_job(dead), key, why, self.now.rounded_down)?;
        let ids = self.memory.job_index();
        let by_name = id.as_deref().map(|id| ids.hash(id)).and_then(|hash| {
            let job_ref = ids
                .candidates(hash)
                .into_iter()
                .find(|job_ref| job_ref.key == key && job_ref.dead == dead)?;
            Some((hash, job_ref))
        });
        let known = by_name.or_else(|| ids.find_by_key(key, dead));
        let topic = known.map(|(_, job_ref)| self.memory.topics().get(job_ref.outlet).outlet.topic.clone());
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

    /// Notifies the listener of an outlet that has ready jobs.
    pub fn announce_ready(&mut self, outlet: OutletNumber) {
        let outlet = &self.memory.topics().get(outlet).outlet;
        if !self.effects.ready.contains(outlet) {
            self.effects.ready.insert(outlet.clone());
        }
    }
}

/// How long until `moment` on `clock`, to the microsecond; zero when it has passed.
pub(crate) fn time_until(clock: &dyn Clock, moment: Timestamp) -> Duration {
    let left_us = moment.as_millis().saturating_mul(1_000).saturating_sub(clock.now_micros());
    Duration::from_micros(u64::try_from(left_us).unwrap_or(0))
}
