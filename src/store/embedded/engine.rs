//! The engine that callers use: each call of the store becomes an operation for the writer.
//!
//! Reads go through the writer too, because only memory knows the state of a job: there they see every acknowledged
//! change, and writes need no lock.

mod archive;
mod list;
mod moving;
mod schedules;
mod stop;

use std::{
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

use async_trait::async_trait;
use tokio::sync::OnceCell;

use super::{
    disk::{data_dir::DB_FILE, disk_space::store_space},
    id_index::IdIndex,
    notice_board::NoticeBoard,
    ops::{self, write_txn::WriteTxn},
    options::Options,
    rate_limits::RateLimits,
    rows::db::SqlResult,
    verify::{
        backup_mark::last_backup,
        findings::Findings,
        online::{VerifyStep, check_file},
        record_reader::read_records,
        verify_sql::set_aside_count,
    },
    writer::{
        published::{LOCKED, PublishedState},
        request::{ReserveRequest, WriteRequest},
        write_queue::WriteQueue,
    },
};
use crate::{
    clock::Clock,
    job::{CallRate, HostNumber, Job, JobId, Origin, Outlet, RememberedId, Timestamp, Topic, TopicFilter},
    store::{
        AddJob, Added, Allowed, Applied, Archive, Claim, Degraded, EngineInfo, Error, FinishJob, Finished,
        JobFilter, JobPage, JobRecord, LastBackup, ListPosition, Notices, Order, Outcome, Promoted,
        PurgeCursor, PurgeSlice, Put, RecordReader, Reservation, Result, Span, Step, Store, StoreSpace,
        Timeline, TopicConfig, TopicStats, TopicStore, TopicValues, Updated, Verified, Wait,
    },
};

/// The embedded engine; made by [`open`](super::open).
#[derive(Debug)]
pub struct EmbeddedStore {
    pub(crate) queue: Arc<WriteQueue>,
    pub(crate) published: Arc<PublishedState>,
    pub(crate) options: Arc<Options>,
    pub(crate) writer: Mutex<Option<JoinHandle<Result<()>>>>,
    pub(crate) closed: OnceCell<Result<()>>,
    /// The seed of host numbers: the id of the store, which every copy of it has.
    pub(crate) host_seed: [u8; 16],
    pub(crate) rate_limits: RateLimits,
    pub(crate) notices: NoticeBoard,
    pub(crate) ids: IdIndex,
    pub(crate) clock: Arc<dyn Clock>,
}

impl EmbeddedStore {
    /// Runs `change`, which concerns one job or a few, on the writer's thread.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        mut change: impl FnMut(&mut WriteTxn<'_>) -> SqlResult<T> + Send + 'static,
    ) -> Result<T> {
        self.run_weighted(1, 0, move |txn| change(txn).map(Ok)).await
    }

    /// Runs `change`, which concerns `jobs` jobs with `bytes` bytes of bodies and may fail, on the writer's thread. It
    /// runs once more when it was rolled back for lack of space.
    async fn run_weighted<T: Send + 'static>(
        &self,
        jobs: usize,
        bytes: usize,
        change: impl FnMut(&mut WriteTxn<'_>) -> SqlResult<Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (request, reply) = WriteRequest::new(change);
        // A request that is dropped did not run: the queue is closed or the writer gone.
        let _ = self.queue.push(request, jobs, bytes).await;
        reply.await.unwrap_or_else(|_| Err(self.published.stop_error()))
    }
}

/// Further behind the store's clock than this, the machine's clock is wrong, or the store's was.
const MAX_BEHIND_MS: i64 = 24 * 3_600_000;

/// The message for operators when the machine's clock is far behind the latest moment on which the store acted.
fn clock_behind(wall_ahead_ms: i64) -> Option<Degraded> {
    (wall_ahead_ms < -MAX_BEHIND_MS).then(|| Degraded {
        part: "clock",
        detail: format!(
            "the machine's clock is {} hours behind the latest moment on which this store acted; correct the clock, or, if it \
             is right now, stop the server and run linger store accept-clock",
            wall_ahead_ms / -3_600_000
        ),
        is_unready: true,
    })
}

#[async_trait]
impl Store for EmbeddedStore {
    fn info(&self) -> EngineInfo {
        EngineInfo {
            engine: "embedded",
            durability: self.options.durability.to_string(),
            version: format!("SQLite {}", rusqlite::version()),
            is_shared: false,
        }
    }

    async fn add(&self, jobs: Vec<AddJob>) -> Result<Vec<Outcome<Added>>> {
        let bytes = jobs.iter().map(|job| job.body.as_bytes().len()).sum();
        self.run_weighted(jobs.len(), bytes, move |txn| ops::add(txn, &jobs)).await
    }

    async fn reserve(&self, outlet: &Outlet, claims: &[Claim], _: Wait) -> Result<Vec<Reservation>> {
        let (outlet, claims, jobs) = (outlet.clone(), claims.to_vec(), claims.len());
        let reserve = move |txn: &mut WriteTxn<'_>| ops::reserve(txn, &outlet, &claims);
        let (request, reservations) = ReserveRequest::new(&self.queue, reserve);
        let _ = self.queue.push(request, jobs, 0).await;
        reservations.receive().await.unwrap_or_else(|| Err(self.published.stop_error()))
    }

    fn may_have_ready(&self, outlet: &Outlet) -> bool {
        self.published.may_have_ready(outlet)
    }

    fn host_number(&self, origin: &Origin) -> HostNumber {
        HostNumber::new(&self.host_seed, origin)
    }

    async fn ready_outlets(&self) -> Result<Vec<Outlet>> {
        self.published.check()?;
        Ok(self.published.ready_outlets())
    }

    async fn allow(&self, topic: &Topic, rate: CallRate, want: usize) -> Result<Allowed> {
        self.published.check()?;
        Ok(self.rate_limits.allow(topic, rate, want))
    }

    async fn give_back_calls(&self, topic: &Topic, allowed: Allowed, unused: usize) -> Result<()> {
        self.rate_limits.give_back(topic, allowed, unused);
        Ok(())
    }

    async fn finish(&self, scope: &TopicFilter, jobs: Vec<FinishJob>) -> Result<Vec<Outcome<Finished>>> {
        let scope = scope.clone();
        self.run_weighted(jobs.len(), 0, move |txn| ops::finish(txn, &scope, &jobs)).await
    }

    async fn apply(&self, steps: Vec<Step>) -> Result<Vec<Outcome<Applied>>> {
        self.run_weighted(steps.len(), 0, move |txn| ops::apply(txn, &steps)).await
    }

    async fn get(&self, scope: &TopicFilter, id: &JobId) -> Result<Option<Job>> {
        let (scope, id) = (scope.clone(), id.clone());
        self.run(move |txn| ops::get(txn, &scope, &id)).await
    }

    async fn promote(&self, limit: usize) -> Result<Promoted> {
        // Counts as one job: a promotion seldom writes, and should not split a group.
        self.run(move |txn| ops::promote(txn, limit)).await
    }

    fn topic_config(&self, topic: &Topic) -> Arc<TopicConfig> {
        self.published.config(topic)
    }

    async fn topics(
        &self,
        scope: &TopicFilter,
        after: Option<&Topic>,
        limit: usize,
    ) -> Result<Vec<(Topic, TopicStats)>> {
        let (mut found, mut after) = (Vec::new(), after.cloned());
        loop {
            let (scope, from, left) = (scope.clone(), after.take(), limit - found.len());
            let page = self.run(move |txn| Ok(ops::topics(txn, &scope, from.as_ref(), left))).await?;
            found.extend(page.topics);
            after = page.next;
            if after.is_none() || found.len() >= limit {
                return Ok(found);
            }
        }
    }

    async fn topic(&self, topic: &Topic) -> Result<Option<TopicStats>> {
        let topic = topic.clone();
        self.run(move |txn| Ok(ops::topic(txn, &topic))).await
    }

    async fn timeline(&self, topic: Option<&Topic>, span: Span) -> Result<Timeline> {
        let topic = topic.cloned();
        self.run(move |txn| Ok(ops::timeline(txn, topic.as_ref(), &span))).await
    }

    async fn list(
        &self,
        filter: &JobFilter,
        order: Order,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<JobPage> {
        self.list_in_steps(filter, order, after, limit).await
    }

    async fn purge(&self, topic: &Topic, cursor: Option<PurgeCursor>, limit: usize) -> Result<PurgeSlice> {
        let topic = topic.clone();
        self.run_weighted(limit, 0, move |txn| ops::purge(txn, &topic, cursor.as_ref(), limit).map(Ok)).await
    }

    /// Not through the writer, which a reader of very many jobs must not delay.
    async fn records(&self) -> Result<Box<dyn RecordReader>> {
        let (dir, clock) = (self.options.data_dir.clone(), self.clock.clone());
        let with_set_aside = self.options.reads_set_aside;
        let opened = tokio::task::spawn_blocking(move || read_records(&dir, &*clock, with_set_aside)).await;
        let opened = opened.map_err(|_cancelled| self.published.stop_error())?;
        opened.map_err(|error| Error::Unavailable(error.to_string()))
    }

    async fn put(&self, jobs: Vec<JobRecord>) -> Result<Vec<Put>> {
        let bytes = jobs.iter().map(|job| job.job.body.as_bytes().len()).sum();
        self.run_weighted(jobs.len(), bytes, move |txn| ops::put(txn, &jobs)).await
    }

    async fn put_remembered(&self, ids: Vec<RememberedId>) -> Result<Vec<Put>> {
        self.run_weighted(ids.len(), 0, move |txn| ops::put_remembered(txn, &ids)).await
    }

    fn notices(&self) -> &dyn Notices {
        &self.notices
    }

    fn archive(&self) -> &dyn Archive {
        self
    }

    async fn verify(&self) -> Result<Verified> {
        let (mut faults, mut step) = (Findings::default(), Some(VerifyStep::FIRST));
        while let Some(current) = step {
            (step, faults) =
                self.run(move |txn| Ok(current.run_on(faults.clone(), txn.memory, txn.db, txn.now))).await?;
        }
        let count =
            |txn: &mut WriteTxn<'_>| Ok((txn.memory.job_index().len() as u64, set_aside_count(txn.db)?));
        let (jobs, set_aside) = self.run(count).await?;
        let path = self.options.data_dir.join(DB_FILE);
        // On a connection of its own, because it may take long and does not need memory.
        let lines = tokio::task::spawn_blocking(move || check_file(&path)).await;
        for line in lines.map_err(|_cancelled| self.published.stop_error())? {
            faults.add(|| line);
        }
        Ok(Verified { jobs, stale: 0, set_aside, faults: faults.into_sentences() })
    }

    /// Goes once through the writer, which checks that its files are in place and reads the free space. Refusing adds for
    /// lack of space is no failure: finishing and deleting still work, which a process taken out of service could not do.
    async fn check(&self) -> Result<()> {
        self.published.check()?;
        let check = |txn: &mut WriteTxn<'_>| {
            txn.space.level();
            Ok(if txn.db.is_locked_out()? { Err(Error::refused(LOCKED)) } else { Ok(()) })
        };
        self.run_weighted(1, 0, check).await
    }

    fn degraded(&self) -> Vec<Degraded> {
        let clock = clock_behind(self.clock.wall_ahead_ms());
        let space = self.published.space().degraded();
        [space, self.published.blocked_log(), clock].into_iter().flatten().collect()
    }

    async fn space(&self) -> Result<StoreSpace> {
        let options = self.options.clone();
        let read = tokio::task::spawn_blocking(move || store_space(&options)).await;
        read.map_err(|_cancelled| self.published.stop_error())
    }

    async fn last_backup(&self) -> Result<LastBackup> {
        let data_dir = self.options.data_dir.clone();
        let read = tokio::task::spawn_blocking(move || last_backup(&data_dir)).await;
        let began_at = read.map_err(|_cancelled| self.published.stop_error())?;
        Ok(began_at.map_or(LastBackup::Unknown, LastBackup::At))
    }

    async fn close(&self) -> Result<()> {
        self.closed.get_or_init(|| self.stop()).await.clone()
    }
}

#[async_trait]
impl TopicStore for EmbeddedStore {
    fn now(&self) -> Timestamp {
        self.clock.wall_now()
    }

    async fn topic_values(&self, topic: &Topic) -> Result<TopicValues> {
        let topic = topic.clone();
        self.run(move |txn| ops::topic_values(txn, &topic)).await
    }

    async fn update_topic(
        &self,
        topic: &Topic,
        expected: &TopicValues,
        values: TopicValues,
    ) -> Result<Updated> {
        let (topic, expected) = (topic.clone(), expected.clone());
        self.run_weighted(1, 0, move |txn| ops::update_topic(txn, &topic, &expected, &values)).await
    }
}
