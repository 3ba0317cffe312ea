//! Bulk operations: they change many jobs by a filter, or count them. Each is a task of one process, which walks
//! the list of its jobs in slices, and ends with the process. By notices it can be watched and stopped from every
//! process.
//!
//! # The task
//!
//! `StepAction::Change` takes each job with what a list showed of it: id, topic, state and moment. It compares them in
//! the step that changes the job, and skips a job that has moved. So a bulk operation needs no lock, and one that
//! is killed leaves each job either changed or not. The task (`runner.rs`) lists a hundred jobs, changes them, and
//! then pauses for as long as that took. A dry run counts without a list where the store's counts are enough: all
//! jobs of a state, or the delayed jobs between two whole minutes. What an action means for a job, such as its
//! share of `spread`, is computed above the store (`request.rs`). A reschedule remembers hashes of the ids that it
//! changed, because the walk may meet them again.
//!
//! # Other processes
//!
//! Others know an operation by a notice (`store/notice.rs`): a text with an id that every process of a store reads,
//! at most 64 of each kind. On Redis they are fields of one hash; the embedded engine has them in memory. The store
//! writes a new notice only if there is none with its id, so two requests with the same id start one operation. The
//! process writes the notice (`stored.rs`, as JSON) at the start, once a second
//! while the operation runs, and at its end (`reporter.rs`). One that claims to run but is older than ten seconds,
//! by the store's clock, is shown as abandoned. An operation begins once its notice is written; if no answer came, the
//! notice is withdrawn, or taken by a repeat of the request. A request to stop an operation is a notice of its own, so that it
//! cannot be overwritten by a report. It names when the operation began, because a later one may have the same id.
//! The limit on running operations is not exact: two processes may start one at the same moment. A report that
//! fails does not end the operation. At the start, every ten seconds and at the end the process also writes the operation into the archive
//! (`store/archive.rs`), which outlives it and has the last 200. While no operation runs and none is watched, notices cost no call.

pub(super) mod dead_letters;
pub(super) mod oldest;
mod operation;
pub(super) mod purges;
mod reporter;
mod request;
mod runner;
mod stored;

use std::{
    cmp::Reverse,
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use operation::{OperationState, OperationView, Progress};
pub use request::{BulkAction, BulkRequest};
pub(super) use runner::{SLICE, parts_of};

use self::{
    operation::Operation,
    reporter::{Reporter, stop_request},
    runner::Runner,
    stored::KnownOperation,
};
use super::{
    ended::EndedJobs,
    error::{Error, Result},
};
use crate::{
    clock::Clock,
    job::OperationId,
    messages::failure_log::FailureLog,
    metrics::QueueMetrics,
    store::{self, ArchiveKind, NoticeKind, Store},
};

/// Most operations at once of one caller, and of all, over all processes: a caller can take half of the places. Dry runs have
/// as many places of their own. Operations that start at the same moment at different processes may exceed both.
const MAX_OF_CALLER: usize = 4;
const MAX_RUNNING: usize = 2 * MAX_OF_CALLER;
/// How many operations of a process are kept in memory, those that run included.
const MAX_KEPT: usize = 64;
/// How many operations a list has: those of the archive, and those that run.
const MAX_LISTED: usize = ArchiveKind::Operation.most() as usize;
/// How long the caller of a dry run waits for its end.
const DRY_RUN_WAIT: Duration = Duration::from_millis(100);
/// How long a caller waits for the end of an operation that another process stops, and how often it is looked at.
const STOP_WAIT: Duration = Duration::from_secs(10);
const STOP_POLL: Duration = Duration::from_millis(250);
/// How often the notice of an operation that did not begin is tried to be deleted.
const WITHDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// The operations of this process, and what it knows of those of others.
#[derive(Debug)]
pub(super) struct Operations {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: QueueMetrics,
    ended: Arc<EndedJobs>,
    tasks: TaskTracker,
    /// Cancelled by the shutdown.
    shutdown: CancellationToken,
    /// The name of this process in notices.
    owner: Arc<str>,
    report_failures: Arc<FailureLog>,
    archive_failures: Arc<FailureLog>,
    /// Held from looking an operation up to keeping it, so that two requests with the same id start one, and no two take
    /// the last place. Has the operations that did not begin, because no answer came to their announcement: their notices may
    /// be there.
    start: tokio::sync::Mutex<HashSet<OperationId>>,
    /// The operations of this process, the oldest first.
    own: Mutex<VecDeque<Arc<Operation>>>,
}

impl Operations {
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        metrics: QueueMetrics,
        ended: Arc<EndedJobs>,
        tasks: TaskTracker,
    ) -> Arc<Self> {
        let owner = format!("{:032x}", rand::random::<u128>()).into();
        let (shutdown, report_failures, archive_failures) =
            (CancellationToken::new(), Arc::default(), Arc::default());
        let (start, own) = (tokio::sync::Mutex::default(), Mutex::default());
        Arc::new(Self {
            store,
            clock,
            metrics,
            ended,
            tasks,
            shutdown,
            owner,
            report_failures,
            archive_failures,
            start,
            own,
        })
    }

    /// Starts an operation, unless one of any process has its id already: then that one is returned if it was asked to do the
    /// same. Waits a moment for the end of a dry run, which is not kept if it is done by then.
    ///
    /// # Errors
    /// [`Error::OperationExists`], [`Error::TooManyOperations`], or the store's.
    pub async fn start(self: &Arc<Self>, request: BulkRequest) -> Result<OperationView> {
        let operations = self.clone();
        // In a task of its own: an operation that was announced must begin, even if the caller leaves.
        let started = self.tasks.spawn(async move { operations.start_now(request).await });
        let failed = || Error::Unavailable("the start of a bulk operation failed".to_owned());
        started.await.unwrap_or_else(|_panic| Err(failed()))
    }

    async fn start_now(self: &Arc<Self>, request: BulkRequest) -> Result<OperationView> {
        let mut start = self.start.lock().await;
        if let Some(own) = request.id.as_ref().and_then(|id| self.find_own(id)) {
            return own.view().if_repeated_by(&request);
        }
        let others = self.others().await?;
        if let Some(known) = others.iter().find(|known| Some(&known.view.id) == request.id.as_ref()) {
            return known.view.clone().if_repeated_by(&request);
        }
        if let Some(id) = &request.id
            && let Some(earlier) = self.find_archived(id).await?
        {
            return earlier.if_repeated_by(&request);
        }
        self.check_room(&request, &others)?;
        let operation = Arc::new(Operation::new(request, self.clock.wall_now(), self.shutdown.child_token()));
        let reporter = self.reporter(&operation);
        if operation.request.is_dry_run() {
            self.keep(operation.clone());
            self.tasks.spawn(self.runner(&operation).run());
            drop(start);
            self.finish_dry_run(reporter).await;
        } else {
            match reporter.announce().await {
                Ok(None) => {}
                // The notice of an earlier try, which did not begin.
                Ok(Some(_)) if start.contains(&operation.id) => {
                    reporter.report().await;
                }
                Ok(Some(notice)) => {
                    let known = KnownOperation::read(&notice).ok_or(Error::OperationNotFound)?;
                    return known.view.if_repeated_by(&operation.request);
                }
                Err(error) => {
                    if start.insert(operation.id.clone()) {
                        self.tasks.spawn(self.clone().withdraw(operation.id.clone()));
                    }
                    return Err(error.into());
                }
            }
            start.remove(&operation.id);
            self.keep(operation.clone());
            self.tasks.spawn(self.runner(&operation).run());
            self.tasks.spawn(reporter.run());
        }
        Ok(operation.view())
    }

    /// Deletes the notice of an operation that did not begin, as soon as the store answers again: a request that is repeated at
    /// another process would take it for one that runs.
    async fn withdraw(self: Arc<Self>, id: OperationId) {
        loop {
            tokio::select! {
                () = self.clock.sleep(WITHDRAW_INTERVAL) => {}
                () = self.shutdown.cancelled() => return,
            }
            let mut start = self.start.lock().await;
            if !start.contains(&id) {
                return;
            }
            // Another process may have begun an operation with this id meanwhile: only this process's own notice is deleted.
            let is_ours = async || {
                let notice = self.store.notices().get(NoticeKind::Operation, id.as_str()).await?;
                let known = notice.as_ref().and_then(KnownOperation::read);
                store::Result::Ok(known.is_some_and(|known| known.owner == *self.owner))
            };
            let withdrawn = match is_ours().await {
                Ok(true) => self.store.notices().delete(NoticeKind::Operation, id.as_str()).await.is_ok(),
                Ok(false) => true,
                Err(_) => false,
            };
            if withdrawn {
                start.remove(&id);
                return;
            }
        }
    }

    /// Waits a moment for the end of a dry run. If it takes longer, other processes can know it from then on.
    async fn finish_dry_run(&self, reporter: Reporter) {
        let operation = reporter.operation.clone();
        tokio::select! {
            () = operation.ended() => {}
            () = self.clock.sleep(DRY_RUN_WAIT) => {}
        }
        if operation.progress().state == OperationState::Done {
            self.lock().retain(|kept| !Arc::ptr_eq(kept, &operation));
            operation.set_reported();
        } else if matches!(reporter.announce().await, Ok(Some(_))) {
            // Another process has started an operation with this id meanwhile. Its notice stays.
            operation.set_reported();
        } else {
            self.tasks.spawn(reporter.run());
        }
    }

    fn runner(&self, operation: &Arc<Operation>) -> Runner {
        Runner {
            store: self.store.clone(),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            ended: self.ended.clone(),
            operation: operation.clone(),
        }
    }

    fn reporter(&self, operation: &Arc<Operation>) -> Reporter {
        Reporter {
            store: self.store.clone(),
            clock: self.clock.clone(),
            operation: operation.clone(),
            owner: self.owner.clone(),
            shutdown: self.shutdown.clone(),
            failures: self.report_failures.clone(),
            archive_failures: self.archive_failures.clone(),
        }
    }

    /// Refuses one more operation while too many of its kind run: real ones, or dry runs.
    fn check_room(&self, request: &BulkRequest, others: &[KnownOperation]) -> Result<()> {
        if self.shutdown.is_cancelled() {
            return Err(Error::Draining);
        }
        let own = self.lock();
        let own = own.iter().filter(|operation| operation.is_running()).map(|operation| &operation.request);
        let others = others.iter().filter(|known| known.is_running()).map(|known| &known.view.request);
        let (mut running, mut of_caller) = (0, 0);
        for other in own.chain(others).filter(|other| other.is_dry_run() == request.is_dry_run()) {
            running += 1;
            of_caller += usize::from(other.by == request.by);
        }
        let is_dry_run = request.is_dry_run();
        if of_caller >= MAX_OF_CALLER {
            return Err(Error::TooManyOperations { limit: MAX_OF_CALLER, is_dry_run, of_caller: true });
        }
        if running >= MAX_RUNNING {
            return Err(Error::TooManyOperations { limit: MAX_RUNNING, is_dry_run, of_caller: false });
        }
        Ok(())
    }

    /// How many operations this process runs, without dry runs.
    pub fn running(&self) -> u64 {
        let is_change =
            |operation: &&Arc<Operation>| operation.is_running() && !operation.request.is_dry_run();
        self.lock().iter().filter(is_change).count() as u64
    }

    /// Keeps an operation, in place of the oldest that has ended if there are many.
    fn keep(&self, operation: Arc<Operation>) {
        let mut own = self.lock();
        if own.len() >= MAX_KEPT {
            let oldest = own.iter().position(|operation| !operation.is_running());
            oldest.map(|oldest| own.remove(oldest));
        }
        own.push_back(operation);
    }

    /// The latest operations of all processes, the newest first.
    pub async fn list(&self) -> Result<Vec<OperationView>> {
        let others = self.others().await?;
        let mut views: Vec<OperationView> =
            self.lock().iter().rev().map(|operation| operation.view()).collect();
        let is_own = |id: &OperationId| views.iter().any(|own| own.id == *id);
        let others: Vec<OperationView> =
            others.into_iter().map(|known| known.view).filter(|view| !is_own(&view.id)).collect();
        views.extend(others);
        let known: HashSet<_> = views.iter().map(|view| view.id.clone()).collect();
        let archived = self.archived().await?.into_iter();
        views.extend(archived.filter(|view| !known.contains(&view.id)));
        views.sort_by_key(|view| Reverse(view.started_at));
        views.truncate(MAX_LISTED);
        Ok(views)
    }

    /// The operation with this id, of any process.
    pub async fn find(&self, id: &OperationId) -> Result<OperationView> {
        match self.find_own(id) {
            Some(own) => Ok(own.view()),
            None => self.find_elsewhere(id).await,
        }
    }

    /// Stops an operation before its next slice. Returns it once it has ended. If another process runs it and does not stop
    /// it within some seconds, or is gone, it is returned as it is.
    pub async fn stop(&self, id: &OperationId) -> Result<OperationView> {
        if let Some(own) = self.find_own(id) {
            own.stop();
            own.ended().await;
            own.reported().await;
            return Ok(own.view());
        }
        let mut view = self.find_elsewhere(id).await?;
        let until = self.clock.now().after(STOP_WAIT);
        // A process that was only suspended finds the request, too.
        if matches!(view.progress.state, OperationState::Running | OperationState::Abandoned) {
            let request = stop_request(view.started_at);
            self.store.notices().put(NoticeKind::StopRequest, id.as_str(), request).await?;
        }
        while view.progress.state == OperationState::Running && self.clock.now() < until {
            tokio::select! {
                () = self.clock.sleep(STOP_POLL) => {}
                () = self.shutdown.cancelled() => break,
            }
            view = self.find_elsewhere(id).await?;
        }
        Ok(view)
    }

    /// Stops every operation of this process before its next slice, and starts no more.
    pub fn stop_all(&self) {
        self.shutdown.cancel();
    }

    fn find_own(&self, id: &OperationId) -> Option<Arc<Operation>> {
        self.lock().iter().find(|operation| operation.id == *id).cloned()
    }

    async fn find_elsewhere(&self, id: &OperationId) -> Result<OperationView> {
        let notice = self.store.notices().get(NoticeKind::Operation, id.as_str()).await?;
        if let Some(known) = notice.as_ref().and_then(KnownOperation::read) {
            return Ok(known.view);
        }
        self.find_archived(id).await?.ok_or(Error::OperationNotFound)
    }

    /// The operation with this id, if the archive has it.
    async fn find_archived(&self, id: &OperationId) -> Result<Option<OperationView>> {
        let record = self.store.archive().get(ArchiveKind::Operation, id.as_str()).await?;
        Ok(record.as_ref().and_then(stored::read_archived))
    }

    /// The operations that the archive has, the newest first. One that does not seem to have ended is taken for abandoned.
    async fn archived(&self) -> Result<Vec<OperationView>> {
        let records = self.store.archive().page(ArchiveKind::Operation, None, MAX_LISTED).await?;
        Ok(records.iter().filter_map(stored::read_archived).collect())
    }

    /// The operations of other processes.
    async fn others(&self) -> Result<Vec<KnownOperation>> {
        let notices = self.store.notices().list(NoticeKind::Operation).await?;
        let known = notices.iter().filter_map(KnownOperation::read);
        Ok(known.filter(|known| known.owner != *self.owner).collect())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Operation>>> {
        self.own.lock().expect("no code panics while it holds the operations")
    }
}
