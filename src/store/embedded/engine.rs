//! The engine as its callers see it: each call of the store becomes an operation for the writer.
//!
//! Reads go through the writer too, because what a job's state is only memory knows: there they see every
//! change that was acknowledged, and no lock is needed on the way of the writes. Only lists of dead letters,
//! which may carry large bodies and are all on disk, are read beside it on a connection of their own.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    thread::JoinHandle,
};

use async_trait::async_trait;
use rusqlite::Connection;
use tokio::sync::OnceCell;

use super::{
    disk::data_dir::DB_FILE,
    ops::{self, write_txn::Work},
    options::Options,
    rows::{
        codec::{Broken, Record},
        key::Key,
        records::{Db, Sql},
    },
    verify::online::{Faults, Step, file},
    writer::{
        request::{Call, Reserve},
        shared::Shared,
        write_queue::Intake,
    },
};
use crate::{
    job::{Delay, Job, JobId, Reason, Receipt, State, Topic, TopicFilter, TopicPause, TopicSettings, Ttr},
    store::{
        AddJob, Added, DeadCursor, Degraded, Deleted, EngineInfo, Error, FinishJob, Finished, Held, Patch,
        Patched, Promoted, PurgeCursor, PurgeSlice, Release, Requeued, Reservation, Result, Store,
        TopicConfig, TopicStats, Verified, Wait,
    },
};

/// Dead letters handled in one operation, so that a large bulk step does not hold everybody up.
const BULK: usize = 250;

/// Topics read in one operation.
const TOPICS: usize = 1_000;

/// The embedded engine; made by [`open`](super::open).
#[derive(Debug)]
pub struct Embedded {
    pub(crate) intake: Arc<Intake>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: Arc<Options>,
    pub(crate) reader: Arc<Mutex<Option<Connection>>>,
    pub(crate) writer: Mutex<Option<JoinHandle<Result<()>>>>,
    pub(crate) closed: OnceCell<Result<()>>,
}

impl Embedded {
    /// Has the writer do `change`, which concerns one job or a few.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        mut change: impl FnMut(&mut Work<'_>) -> Sql<T> + Send + 'static,
    ) -> Result<T> {
        self.ask_for(1, 0, move |work| change(work).map(Ok)).await
    }

    /// Has the writer do `change`, which concerns `jobs` jobs with `bytes` bytes of bodies, and may refuse. A change
    /// that was rolled back for lack of space runs once more.
    async fn ask_for<T: Send + 'static>(
        &self,
        jobs: usize,
        bytes: usize,
        change: impl FnMut(&mut Work<'_>) -> Sql<Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (call, answer) = Call::new(change);
        // A call that is dropped on the way was not done: the intake is closed or the writer gone.
        let _ = self.intake.push(call, jobs, bytes).await;
        answer.await.unwrap_or_else(|_| Err(self.shared.why_stopped()))
    }

    async fn change_config(
        &self,
        topic: &Topic,
        change: impl Fn(&mut TopicConfig) + Send + 'static,
    ) -> Result<Arc<TopicConfig>> {
        let topic = topic.clone();
        self.ask_for(1, 0, move |work| ops::put_config(work, &topic, &change)).await
    }

    /// Does a bulk step in slices until `limit` is reached or nothing is left.
    async fn in_bulk(
        &self,
        topic: &Topic,
        limit: usize,
        step: fn(&mut Work<'_>, &Topic, usize) -> Sql<Result<ops::Slice>>,
    ) -> Result<usize> {
        let mut done = 0;
        while done < limit {
            let (topic, most) = (topic.clone(), BULK.min(limit - done));
            let slice = self.ask_for(1, 0, move |work| step(work, &topic, most)).await?;
            done += slice.done;
            if !slice.more {
                break;
            }
        }
        Ok(done)
    }

    fn handle(&self) -> MutexGuard<'_, Option<JoinHandle<Result<()>>>> {
        self.writer.lock().expect("no code panics while it holds the handle")
    }

    async fn stop(&self) -> Result<()> {
        self.shared.ask_clean_stop();
        self.intake.close();
        let writer = self.handle().take();
        let reader = self.reader.clone();
        let stopped = tokio::task::spawn_blocking(move || {
            drop(lock(&reader).take());
            writer.map_or(Ok(Ok(())), JoinHandle::join)
        });
        match stopped.await {
            Ok(Ok(result)) => result,
            Ok(Err(_panic)) => Err(self.shared.why_stopped()),
            Err(_cancelled) => Err(Error::Unavailable("stopping was cut short".to_owned())),
        }
    }
}

impl Drop for Embedded {
    /// Without [`close`](Store::close): the writer answers what is queued and leaves the rest to the next
    /// start. The wait is short; no checkpoint is made.
    fn drop(&mut self) {
        self.intake.close();
        let writer = self.handle().take();
        // A listener may hold the last reference, and be dropped by the writer itself.
        if let Some(writer) = writer.filter(|writer| writer.thread().id() != std::thread::current().id()) {
            let _ = writer.join();
        }
    }
}

fn lock(reader: &Mutex<Option<Connection>>) -> MutexGuard<'_, Option<Connection>> {
    reader.lock().expect("no code panics while it reads")
}

type Page = Vec<(Key, std::result::Result<Record, Broken>)>;

#[async_trait]
impl Store for Embedded {
    fn info(&self) -> EngineInfo {
        EngineInfo {
            engine: "embedded",
            durability: self.options.durability.to_string(),
            version: format!("SQLite {}", rusqlite::version()),
        }
    }

    async fn add(&self, jobs: Vec<AddJob>) -> Result<Vec<Added>> {
        let bytes = jobs.iter().map(|job| job.body.as_bytes().len()).sum();
        self.ask_for(jobs.len(), bytes, move |work| ops::add(work, &jobs)).await
    }

    async fn reserve(&self, topic: &Topic, ttrs: &[Option<Ttr>], _: Wait) -> Result<Vec<Reservation>> {
        let (topic, ttrs) = (topic.clone(), ttrs.to_vec());
        let jobs = ttrs.len();
        let (call, grants) =
            Reserve::new(&self.intake, move |work: &mut Work<'_>| ops::reserve(work, &topic, &ttrs));
        let _ = self.intake.push(call, jobs, 0).await;
        grants.receive().await.unwrap_or_else(|| Err(self.shared.why_stopped()))
    }

    fn may_have_ready(&self, topic: &Topic) -> bool {
        self.shared.may_have_ready(topic)
    }

    async fn cancel(&self, grants: Vec<(JobId, Receipt)>) -> Result<()> {
        self.ask_for(grants.len(), 0, move |work| ops::cancel(work, &grants).map(Ok)).await
    }

    async fn finish(&self, scope: &TopicFilter, jobs: Vec<FinishJob>) -> Result<Vec<Finished>> {
        let scope = scope.clone();
        self.ask_for(jobs.len(), 0, move |work| ops::finish(work, &scope, &jobs).map(Ok)).await
    }

    async fn release(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        release: Release,
    ) -> Result<Held> {
        let (scope, id, receipt) = (scope.clone(), id.clone(), receipt.clone());
        self.ask_for(1, 0, move |work| ops::release(work, &scope, &id, &receipt, &release)).await
    }

    async fn touch(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        ttr: Option<Ttr>,
    ) -> Result<Held> {
        let (scope, id, receipt) = (scope.clone(), id.clone(), receipt.clone());
        self.ask(move |work| ops::touch(work, &scope, &id, &receipt, ttr)).await
    }

    async fn bury(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        reason: Option<Reason>,
    ) -> Result<Held> {
        let (scope, id, receipt) = (scope.clone(), id.clone(), receipt.clone());
        self.ask_for(1, 0, move |work| ops::bury(work, &scope, &id, &receipt, &reason)).await
    }

    async fn requeue(&self, scope: &TopicFilter, id: &JobId, delay: Delay) -> Result<Requeued> {
        let (scope, id) = (scope.clone(), id.clone());
        self.ask_for(1, 0, move |work| ops::requeue(work, &scope, &id, delay)).await
    }

    async fn patch(&self, scope: &TopicFilter, id: &JobId, patch: Patch) -> Result<Patched> {
        let (scope, id) = (scope.clone(), id.clone());
        self.ask_for(1, 0, move |work| ops::patch(work, &scope, &id, &patch)).await
    }

    async fn delete(&self, scope: &TopicFilter, ids: Vec<JobId>) -> Result<Vec<Deleted>> {
        let scope = scope.clone();
        self.ask_for(ids.len(), 0, move |work| ops::delete(work, &scope, &ids).map(Ok)).await
    }

    async fn get(&self, scope: &TopicFilter, id: &JobId) -> Result<Option<Job>> {
        let (scope, id) = (scope.clone(), id.clone());
        self.ask(move |work| ops::get(work, &scope, &id)).await
    }

    async fn promote(&self, limit: usize) -> Result<Promoted> {
        // Counts as one: a tick hardly ever writes, and should not break up a group.
        self.ask(move |work| ops::promote(work, limit)).await
    }

    fn topic_config(&self, topic: &Topic) -> Arc<TopicConfig> {
        self.shared.config(topic)
    }

    async fn put_settings(&self, topic: &Topic, settings: TopicSettings) -> Result<()> {
        self.change_config(topic, move |config| config.settings = settings.clone()).await.map(drop)
    }

    async fn change_pause(&self, topic: &Topic, set: TopicPause, clear: TopicPause) -> Result<TopicPause> {
        let change = move |config: &mut TopicConfig| config.pause = config.pause.changed(set, clear);
        Ok(self.change_config(topic, change).await?.pause)
    }

    async fn topics(&self, after: Option<&Topic>, limit: usize) -> Result<Vec<(Topic, TopicStats)>> {
        let (mut found, mut after) = (Vec::new(), after.cloned());
        while found.len() < limit {
            let (from, slice) = (after.take(), TOPICS.min(limit - found.len()));
            let page = self.ask(move |work| Ok(ops::topics(work, from.as_ref(), slice))).await?;
            let is_last = page.len() < slice;
            after = page.last().map(|(topic, _)| topic.clone());
            found.extend(page);
            if is_last {
                break;
            }
        }
        Ok(found)
    }

    async fn topic(&self, topic: &Topic) -> Result<Option<TopicStats>> {
        let topic = topic.clone();
        self.ask(move |work| Ok(ops::topic(work, &topic))).await
    }

    async fn purge(&self, topic: &Topic, cursor: Option<PurgeCursor>, limit: usize) -> Result<PurgeSlice> {
        let topic = topic.clone();
        self.ask_for(limit, 0, move |work| ops::purge(work, &topic, cursor.as_ref(), limit).map(Ok)).await
    }

    async fn dead(&self, topic: &Topic, after: Option<&DeadCursor>, limit: usize) -> Result<Vec<Job>> {
        let after = after.map(|after| (after.dead_at.as_millis(), after.id.to_string()));
        let after = after.unwrap_or((-1, String::new()));
        loop {
            self.shared.check()?;
            let (reader, topic, after) = (self.reader.clone(), topic.clone(), after.clone());
            let read = tokio::task::spawn_blocking(move || {
                let reader = lock(&reader);
                reader.as_ref().map(|conn| Db::dead_page(conn, &topic, (after.0, &after.1), limit))
            });
            let page: Page = match read.await {
                Ok(Some(Ok(page))) => page,
                Ok(Some(Err(error))) => return Err(Error::Unavailable(error.to_string())),
                Ok(None) | Err(_) => return Err(self.shared.why_stopped()),
            };
            let broken: Vec<(Key, Broken)> =
                page.iter().filter_map(|(key, record)| Some((*key, *record.as_ref().err()?))).collect();
            if broken.is_empty() {
                let records = page.into_iter().filter_map(|(_, record)| record.ok());
                return Ok(records.map(|record| record.to_job(State::Dead, None)).collect());
            }
            self.ask(move |work| broken.iter().try_for_each(|(key, why)| work.set_aside(*key, true, *why)))
                .await?;
        }
    }

    async fn requeue_dead(&self, topic: &Topic, limit: usize) -> Result<usize> {
        self.in_bulk(topic, limit, ops::requeue_dead).await
    }

    async fn delete_dead(&self, topic: &Topic, limit: usize) -> Result<usize> {
        self.in_bulk(topic, limit, ops::delete_dead).await
    }

    async fn verify(&self) -> Result<Verified> {
        let (mut faults, mut step) = (Faults::default(), Some(Step::FIRST));
        while let Some(at) = step {
            (step, faults) = self
                .ask(move |work| {
                    let mut faults = faults.clone();
                    let next = at.take(work.state, work.db, work.now, &mut faults).unwrap_or_else(|error| {
                        faults.add(|| format!("not everything could be read: {error}"));
                        None
                    });
                    Ok((next, faults))
                })
                .await?;
        }
        let (jobs, set_aside) =
            self.ask(|work| Ok((work.state.ids().len() as u64, work.db.set_aside_count()?))).await?;
        let path = self.options.data_dir.join(DB_FILE);
        // On a connection of its own: it may take long, and needs nothing that only memory knows.
        let lines = tokio::task::spawn_blocking(move || file(&path)).await;
        for line in lines.map_err(|_cancelled| self.shared.why_stopped())? {
            faults.add(|| line);
        }
        Ok(Verified { jobs, stale: 0, set_aside, faults: faults.into_sentences() })
    }

    /// A round through the writer, which looks whether its files are in place and how much space is left. That adds
    /// are refused for lack of space does not count: finishing and deleting still work then, and a process
    /// taken out of service could not do them.
    async fn check(&self) -> Result<()> {
        self.shared.check()?;
        let level = self.ask(|work| Ok(work.space.level())).await;
        level.map(drop)
    }

    fn degraded(&self) -> Vec<Degraded> {
        self.shared.space().degraded().into_iter().collect()
    }

    async fn close(&self) -> Result<()> {
        self.closed.get_or_init(|| self.stop()).await.clone()
    }
}
