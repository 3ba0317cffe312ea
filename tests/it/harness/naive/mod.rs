//! The model: a delay queue so simple that it can be checked by reading. It has one lock and one map, and every query scans
//! all jobs. The conformance suite runs on it, too, so that suite and model agree before an engine is compared with them.

mod adding;
mod archive;
mod list;
mod notices;
mod records;
mod schedules;
mod steps;
mod store;

use std::{
    collections::{BTreeMap, HashMap},
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, MutexGuard, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use linger::{
    clock::Clock,
    job::{
        Actor, AttemptEnd, Attributes, Body, DueKind, Fingerprint, HistoryEntry, HistoryEvent, HostNumber,
        IdEnd, Job, JobId, JobState, Origin, Outlet, Reason, Receipt, RememberedId, Reserved, ScheduleName,
        State, Timestamp, Topic, TopicFilter,
    },
    store::{
        ArchiveKind, ArchivedRecord, Claim, FinishJob, Finished, Listener, MoveKind, NoticeKind, Outcome,
        Refusal, Reservation, ScheduleContent, Store, TopicConfig, TopicStats,
    },
};

/// A copy of a body, because the body of a request keeps the whole request in memory.
fn copied(body: &Body) -> Body {
    Body::from_stored(Bytes::copy_from_slice(body.as_bytes()))
}

#[derive(Debug, Clone)]
struct Entry {
    job: Job,
    fingerprint: Fingerprint,
    receipt: Option<Receipt>,
    /// The receipt of the reservation that timed out last, while it is good for a finish but for a present reservation.
    timed_out: Option<Receipt>,
    ready_at: Timestamp,
    arrival: u64,
    /// Attributes of later versions.
    other: Attributes,
}

#[derive(Debug, Default)]
struct Content {
    jobs: HashMap<JobId, Entry>,
    topics: HashMap<Topic, TopicConfig>,
    /// When the next call of a topic is free, in microseconds.
    next_calls: HashMap<Topic, f64>,
    arrivals: u64,
    /// By kind and id: when it was written, and its text.
    notices: BTreeMap<(NoticeKind, String), (Timestamp, Bytes)>,
    archive: Vec<(ArchiveKind, ArchivedRecord)>,
    schedules: BTreeMap<ScheduleName, ScheduleContent>,
    remembered: BTreeMap<JobId, RememberedId>,
}

impl Entry {
    /// Whether the receipt is good for a finish, although its reservation has ended.
    fn takes_late(&self, receipt: &Receipt) -> bool {
        self.job.state() != State::Reserved && self.timed_out.as_ref() == Some(receipt)
    }
}

impl Content {
    /// The job with this id, if `scope` allows its topic.
    fn find(&mut self, scope: &TopicFilter, id: &JobId) -> Option<&mut Entry> {
        self.jobs.get_mut(id).filter(|entry| scope.allows(&entry.job.topic))
    }
}

pub struct Naive {
    clock: Arc<dyn Clock>,
    listener: Arc<dyn Listener>,
    dead_retention: Option<Duration>,
    content: Mutex<Content>,
    host_numbers: OnceLock<Vec<(Origin, HostNumber)>>,
    /// What the listener hears of once the content is unlocked.
    announced: Mutex<Vec<Outlet>>,
}

/// The locked content. Notifies the listener after it is unlocked.
struct ContentGuard<'a> {
    naive: &'a Naive,
    content: Option<MutexGuard<'a, Content>>,
}

impl Deref for ContentGuard<'_> {
    type Target = Content;

    fn deref(&self) -> &Content {
        self.content.as_ref().expect("is locked until it is dropped")
    }
}

impl DerefMut for ContentGuard<'_> {
    fn deref_mut(&mut self) -> &mut Content {
        self.content.as_mut().expect("is locked until it is dropped")
    }
}

impl Drop for ContentGuard<'_> {
    fn drop(&mut self) {
        self.content = None;
        let announced = std::mem::take(&mut *self.naive.announced.lock().expect("not poisoned"));
        announced.iter().for_each(|outlet| self.naive.listener.ready(outlet));
    }
}

impl std::fmt::Debug for Naive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Naive")
    }
}

impl Naive {
    pub fn new(
        clock: Arc<dyn Clock>,
        listener: Arc<dyn Listener>,
        dead_retention: Option<Duration>,
    ) -> Arc<Self> {
        Arc::new(Self {
            clock,
            listener,
            dead_retention,
            content: Mutex::default(),
            announced: Mutex::default(),
            host_numbers: OnceLock::new(),
        })
    }

    fn content(&self) -> ContentGuard<'_> {
        ContentGuard { naive: self, content: Some(self.content.lock().expect("not poisoned")) }
    }

    /// Notifies the listener of an outlet once the content is unlocked: it may call the store.
    fn announce(&self, outlet: Outlet) {
        self.announced.lock().expect("not poisoned").push(outlet);
    }

    /// The ids of the ready jobs of an outlet, by due time and arrival.
    pub fn ready(&self, outlet: &Outlet) -> Vec<JobId> {
        let content = self.content();
        let mut ready: Vec<_> = content
            .jobs
            .values()
            .filter(|entry| self.outlet(&entry.job) == *outlet && entry.job.state() == State::Ready)
            .filter(|entry| !self.has_expired(&entry.job))
            .collect();
        ready.sort_by_key(|entry| (entry.job.due_at, entry.arrival));
        ready.into_iter().map(|entry| entry.job.id.clone()).collect()
    }

    /// Numbers these hosts as `store` does, which has a seed of its own.
    pub fn number_hosts_like(self: Arc<Self>, store: &dyn Store, origins: Vec<Origin>) -> Arc<Self> {
        let numbered = origins.into_iter().map(|origin| (origin.clone(), store.host_number(&origin)));
        self.host_numbers.set(numbered.collect()).expect("the first ones");
        self
    }

    fn number_of(&self, origin: &Origin) -> HostNumber {
        let mut known = self.host_numbers.get().into_iter().flatten();
        let known = known.find_map(|(known, number)| (known == origin).then_some(*number));
        known.unwrap_or_else(|| HostNumber::new(&[0; 16], origin))
    }

    fn outlet(&self, job: &Job) -> Outlet {
        let host = job.spec.callback.as_ref().map(|callback| self.number_of(callback.url.origin()));
        Outlet { topic: job.topic.clone(), host }
    }

    /// Reserves the job that the engine under test reserved, with the same receipt, for the claim at this index.
    pub fn grant(&self, id: &JobId, receipt: &Receipt, (index, claim): (usize, &Claim)) -> Reservation {
        let now = self.clock.read();
        let mut content = self.content();
        let entry = content.jobs.get_mut(id).expect("the model has this job");
        assert_eq!(entry.job.state(), State::Ready, "only a ready job is reserved");
        entry.job.attempts += 1;
        let lasts = claim.ttr.unwrap_or(entry.job.spec.ttr).as_duration();
        let (since, until) = (now.rounded_down, now.after(lasts));
        entry.job.state = JobState::Reserved(Reserved { since, until, by: claim.by.clone() });
        entry.receipt = Some(receipt.clone());
        self.listener.due_in(lasts);
        Reservation {
            claim: index,
            job: entry.job.clone(),
            receipt: receipt.clone(),
            late: now.rounded_down.since(entry.job.due_at),
            waited: now.rounded_down.since(entry.ready_at),
        }
    }

    fn remember(&self, job: &mut Job, event: HistoryEvent, by: Option<&Actor>) {
        job.history.push(&HistoryEntry { at: self.clock.now(), by: by.cloned(), event });
    }

    fn remember_attempt(&self, job: &mut Job, end: AttemptEnd, reason: Option<Reason>) {
        let since = job.reserved_at().expect("is reserved");
        let took = self.clock.now().since(since);
        let event = HistoryEvent::Attempt { number: job.attempts, took, end, reason };
        job.history.push(&HistoryEntry { at: since, by: job.reserved_by().cloned(), event });
    }

    /// Computes when a job expires that is due at this moment. Returns whether that would be earlier.
    fn expires_first(job: &mut Job, due_at: Timestamp) -> bool {
        job.expires_at = job.spec.expiry.map(|expiry| expiry.resolve(due_at, DueKind::Elapsed).moment);
        job.expires_at.is_some_and(|expires_at| expires_at < due_at)
    }

    fn has_expired(&self, job: &Job) -> bool {
        job.expires_at.is_some_and(|expires_at| expires_at <= self.clock.now())
    }

    /// Makes a job wait until `due_at`, and notifies the listener.
    fn wait_until(&self, entry: &mut Entry, due_at: Timestamp) {
        let now = self.clock.now();
        entry.job.due_at = due_at;
        entry.receipt = None;
        if due_at <= now {
            entry.job.state = JobState::Ready;
            entry.ready_at = now;
            self.announce(self.outlet(&entry.job));
        } else {
            entry.job.state = JobState::Delayed;
        }
        if let Some(deadline) = entry.job.next_deadline() {
            self.listener.due_in(deadline.since(now));
        }
    }

    fn die(&self, entry: &mut Entry, reason: Option<Reason>, otherwise: &str) {
        entry.job.state = JobState::Dead(self.clock.now());
        entry.job.reason = reason.or_else(|| Reason::new(otherwise));
        entry.receipt = None;
    }

    /// Ends the reservation of an older version: the job that replaced it waits for its due time.
    fn end_older(&self, entry: &mut Entry) {
        self.wait_until(entry, entry.job.due_at);
    }

    fn finish_one(
        &self,
        content: &mut Content,
        scope: &TopicFilter,
        finish: &FinishJob,
    ) -> Outcome<Finished> {
        let entry = content.find(scope, &finish.id).ok_or(Refusal::Gone)?;
        let is_late = finish.receipt.as_ref().is_some_and(|receipt| entry.takes_late(receipt));
        match &finish.receipt {
            Some(_) if is_late => {}
            Some(_) if finish.receipt != entry.receipt => return Err(Refusal::Lost),
            None if entry.job.spec.require_receipt => return Err(Refusal::ReceiptRequired),
            None if entry.job.state() != State::Reserved => return Err(Refusal::NotReserved),
            Some(_) | None if entry.job.waits_for_older() => {
                self.end_older(entry);
                return Err(Refusal::Replaced);
            }
            Some(_) | None => {}
        }
        let topic = entry.job.topic.clone();
        self.remember_id(content, &finish.id, IdEnd::Finished);
        content.jobs.remove(&finish.id);
        Ok(Finished { topic, is_late })
    }

    /// Applies the change of a deadline that has passed, if there is one.
    fn expire(&self, entry: &mut Entry) -> Option<MoveKind> {
        let now = self.clock.read();
        match entry.job.state() {
            State::Delayed | State::Ready if self.has_expired(&entry.job) => {
                self.die(entry, None, Reason::EXPIRED);
                Some(MoveKind::Expired)
            }
            State::Delayed if entry.job.due_at <= now.rounded_down => {
                self.wait_until(entry, entry.job.due_at);
                Some(MoveKind::Ready)
            }
            State::Reserved if entry.job.reserved_until() <= Some(now.rounded_down) => {
                if entry.job.waits_for_older() {
                    self.end_older(entry);
                    return Some(MoveKind::TimedOut);
                }
                self.remember_attempt(&mut entry.job, AttemptEnd::TimedOut, None);
                entry.timed_out = entry.receipt.clone().filter(|_| entry.job.spec.late_finish);
                let attempts = entry.job.attempts;
                if entry.job.spec.has_used_all_attempts(attempts) {
                    self.die(entry, None, Reason::TTR_EXPIRED);
                    return Some(MoveKind::Died);
                }
                let step = entry.job.spec.retry.after_timeout(attempts);
                self.wait_until(entry, now.after(step));
                Some(MoveKind::TimedOut)
            }
            State::Dead => {
                let (dead_at, keep) = (entry.job.dead_at()?, self.dead_retention?);
                (dead_at.after(keep) <= now.rounded_down).then_some(MoveKind::Forgotten)
            }
            State::Delayed | State::Ready | State::Reserved => None,
        }
    }

    fn deadline(&self, entry: &Entry) -> Option<Timestamp> {
        match entry.job.state() {
            State::Delayed | State::Ready | State::Reserved => entry.job.next_deadline(),
            State::Dead => Some(entry.job.dead_at()?.after(self.dead_retention?)),
        }
    }

    /// For each job that is past its deadline and waits for a promotion, by how many milliseconds.
    pub fn overdue_ms(&self) -> Vec<i64> {
        let now = self.clock.now();
        let content = self.content();
        let deadlines = content.jobs.values().filter_map(|entry| self.deadline(entry));
        deadlines.filter(|at| *at <= now).map(|at| now.as_millis() - at.as_millis()).collect()
    }

    fn stats(content: &Content, topic: &Topic) -> Option<TopicStats> {
        let config = content.topics.get(topic).cloned().unwrap_or_default();
        let mut stats = TopicStats { config, ..TopicStats::default() };
        let jobs: Vec<_> = content.jobs.values().map(|e| &e.job).filter(|job| job.topic == *topic).collect();
        for job in &jobs {
            match job.state() {
                State::Delayed => stats.delayed += 1,
                State::Ready => stats.ready += 1,
                State::Reserved => stats.reserved += 1,
                State::Dead => stats.dead += 1,
            }
        }
        let first = |state| jobs.iter().filter(|job| job.state() == state).map(|job| job.due_at).min();
        stats.next_due = first(State::Delayed);
        stats.oldest_ready = first(State::Ready);
        (!jobs.is_empty() || !stats.config.is_default()).then_some(stats)
    }
}
