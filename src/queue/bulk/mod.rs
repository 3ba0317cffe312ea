//! Bulk operations: they change many jobs by a filter, or count them. Each is a task of this process, which walks the list
//! of its jobs in slices; it can be watched and stopped, and ends with the process.

mod operation;
mod request;
mod runner;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use operation::{Operation, OperationState, Progress};
pub use request::{BulkAction, BulkRequest};

use self::runner::Runner;
use super::error::{Error, Result};
use crate::{clock::Clock, job::OperationId, metrics::QueueMetrics, store::Store};

/// Most operations at once.
const MAX_RUNNING: usize = 4;
/// How many operations are kept, those that run included.
const MAX_KEPT: usize = 64;
/// How long the caller of a dry run waits for its end.
const DRY_RUN_WAIT: Duration = Duration::from_millis(100);

/// The operations of this process.
#[derive(Debug)]
pub(super) struct Operations {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: QueueMetrics,
    tasks: TaskTracker,
    /// Cancelled by the shutdown.
    shutdown: CancellationToken,
    /// The oldest first.
    kept: Mutex<VecDeque<Arc<Operation>>>,
}

impl Operations {
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        metrics: QueueMetrics,
        tasks: TaskTracker,
    ) -> Arc<Self> {
        let (shutdown, kept) = (CancellationToken::new(), Mutex::default());
        Arc::new(Self { store, clock, metrics, tasks, shutdown, kept })
    }

    /// Starts an operation, unless one has its id already: then that one is returned. Waits a moment for the end of a dry
    /// run, which is not kept if it is done by then.
    pub async fn start(&self, request: BulkRequest) -> Result<Arc<Operation>> {
        let operation = match self.insert(request)? {
            Inserted::Known(operation) => return Ok(operation),
            Inserted::New(operation) => operation,
        };
        let runner = Runner {
            store: self.store.clone(),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            operation: operation.clone(),
        };
        self.tasks.spawn(runner.run());
        if operation.request.is_dry_run() {
            tokio::select! {
                () = operation.ended() => {
                    if operation.progress().state == OperationState::Done {
                        self.kept().retain(|kept| !Arc::ptr_eq(kept, &operation));
                    }
                }
                () = self.clock.sleep(DRY_RUN_WAIT) => {}
            }
        }
        Ok(operation)
    }

    fn insert(&self, request: BulkRequest) -> Result<Inserted> {
        let mut kept = self.kept();
        if self.shutdown.is_cancelled() {
            return Err(Error::Draining);
        }
        let known = kept.iter().find(|known| Some(&known.id) == request.id.as_ref());
        if let Some(known) = known {
            return Ok(Inserted::Known(known.clone()));
        }
        if kept.iter().filter(|operation| operation.is_running()).count() >= MAX_RUNNING {
            return Err(Error::TooManyOperations { limit: MAX_RUNNING });
        }
        if kept.len() >= MAX_KEPT {
            let oldest = kept.iter().position(|operation| !operation.is_running());
            oldest.map(|oldest| kept.remove(oldest));
        }
        let operation = Operation::new(request, self.clock.now(), self.shutdown.child_token());
        let operation = Arc::new(operation);
        kept.push_back(operation.clone());
        Ok(Inserted::New(operation))
    }

    /// The latest operations, the newest first.
    pub fn list(&self) -> Vec<Arc<Operation>> {
        self.kept().iter().rev().cloned().collect()
    }

    /// The operation with this id.
    pub fn find(&self, id: &OperationId) -> Result<Arc<Operation>> {
        let found = self.kept().iter().find(|operation| operation.id == *id).cloned();
        found.ok_or(Error::OperationNotFound)
    }

    /// Stops every operation before its next slice, and starts no more.
    pub fn stop_all(&self) {
        let _no_insert = self.kept();
        self.shutdown.cancel();
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Arc<Operation>>> {
        self.kept.lock().expect("no code panics while it holds the operations")
    }
}

enum Inserted {
    Known(Arc<Operation>),
    New(Arc<Operation>),
}
