//! The queue in front of the writer: bounded, drained in groups. Knows operations only by their weight.
//!
//! It is not a channel, because the writer takes a whole group under one lock, can wait for a while or not at
//! all, and is woken only when it sleeps.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::store::{Error, embedded::ops::write_txn::WriteTxn};

/// Most queued operations; further callers wait for a slot.
const CAPACITY: usize = 1_024;
/// Most jobs and most bytes of a group, whose operations share one sync. A larger operation is a group of its own.
const MAX_GROUP_JOBS: usize = 1_024;
const MAX_GROUP_BYTES: usize = 1 << 20;

/// One queued call of the store.
pub(crate) trait Operation: Send {
    /// Runs within the group's transaction, and keeps the result. It runs again, alone, when that transaction met
    /// a full disk and was rolled back.
    fn run(&mut self, txn: &mut WriteTxn<'_>) -> crate::store::embedded::rows::db::SqlResult<()>;

    /// Sends the result to the caller, or why the transaction was not committed.
    fn reply(self: Box<Self>, committed: Result<(), Error>);
}

struct QueuedOperation {
    operation: Box<dyn Operation>,
    jobs: usize,
    bytes: usize,
    _slot: Option<OwnedSemaphorePermit>,
}

#[derive(Default)]
struct QueueState {
    operations: VecDeque<QueuedOperation>,
    closed: bool,
    writer_sleeps: bool,
    /// Whether several callers shared the last group.
    shared: bool,
}

pub(crate) struct WriteQueue {
    state: Mutex<QueueState>,
    not_empty: Condvar,
    slots: Arc<Semaphore>,
}

/// What the writer gets from the queue.
pub(crate) enum NextGroup {
    /// Operations to run in one transaction.
    Group(Vec<Box<dyn Operation>>),
    /// No operation came in time; after a spurious wake-up also earlier.
    Idle,
    /// The queue is closed and empty.
    Closed,
}

/// How long the writer waits for an operation; the shortest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WaitFor {
    None,
    AtMost(Duration),
    Forever,
}

impl WriteQueue {
    pub fn new() -> Self {
        Self { state: Mutex::default(), not_empty: Condvar::new(), slots: Arc::new(Semaphore::new(CAPACITY)) }
    }

    /// Queues an operation on `jobs` jobs with `bytes` bytes of bodies, once there is a slot. Returns it when the
    /// queue is closed.
    pub async fn push(
        &self,
        operation: Box<dyn Operation>,
        jobs: usize,
        bytes: usize,
    ) -> Result<(), Box<dyn Operation>> {
        match self.slots.clone().acquire_owned().await {
            Ok(slot) => self.enqueue(QueuedOperation { operation, jobs, bytes, _slot: Some(slot) }),
            Err(_closed) => Err(operation),
        }
    }

    /// Queues an operation of the engine itself without waiting for a slot. Drops it when the queue is closed.
    pub fn push_internal(&self, operation: Box<dyn Operation>) {
        let _closed = self.enqueue(QueuedOperation { operation, jobs: 1, bytes: 0, _slot: None });
    }

    fn enqueue(&self, queued: QueuedOperation) -> Result<(), Box<dyn Operation>> {
        let mut state = self.lock();
        if state.closed {
            return Err(queued.operation);
        }
        state.operations.push_back(queued);
        let wake = std::mem::take(&mut state.writer_sleeps);
        drop(state);
        if wake {
            self.not_empty.notify_one();
        }
        Ok(())
    }

    /// Takes the next group of operations, and waits for it as long as `wait` allows.
    pub fn next_group(&self, wait: WaitFor) -> NextGroup {
        let mut state = self.lock();
        loop {
            if !state.operations.is_empty() {
                let group = Self::group(&mut state.operations);
                state.shared = group.len() > 1;
                return NextGroup::Group(group);
            }
            if state.closed {
                return NextGroup::Closed;
            }
            state.writer_sleeps = wait != WaitFor::None;
            state = match wait {
                WaitFor::None => return NextGroup::Idle,
                WaitFor::Forever => {
                    let state = self.not_empty.wait(state).expect("no code panics while it holds the lock");
                    self.yield_to_callers(state)
                }
                WaitFor::AtMost(time) => {
                    // Real time, not the clock's: the writer then reads its clock, and waits again if it is too early.
                    let (mut state, _) = self
                        .not_empty
                        .wait_timeout(state, time)
                        .expect("no code panics while it holds the lock");
                    if state.operations.is_empty() && !state.closed {
                        state.writer_sleeps = false;
                        return NextGroup::Idle;
                    }
                    self.yield_to_callers(state)
                }
            };
        }
    }

    /// Yields to other callers that are about to push, if the last group had several: the first one wakes the
    /// writer, and a commit costs about the same for one operation as for many. Costs nothing on an idle core, and
    /// nothing for a lone caller.
    fn yield_to_callers<'a>(&'a self, state: MutexGuard<'a, QueueState>) -> MutexGuard<'a, QueueState> {
        if !state.shared {
            return state;
        }
        drop(state);
        std::thread::yield_now();
        self.lock()
    }

    fn group(operations: &mut VecDeque<QueuedOperation>) -> Vec<Box<dyn Operation>> {
        let (mut jobs, mut bytes) = (0, 0);
        let mut group = Vec::with_capacity(operations.len().min(MAX_GROUP_JOBS));
        while let Some(next) = operations.front() {
            jobs += next.jobs;
            bytes += next.bytes;
            if !group.is_empty() && (jobs > MAX_GROUP_JOBS || bytes > MAX_GROUP_BYTES) {
                break;
            }
            group.extend(operations.pop_front().map(|queued| queued.operation));
        }
        group
    }

    /// Refuses new operations; the queued ones still run.
    pub fn close(&self) {
        self.lock().closed = true;
        self.slots.close();
        self.not_empty.notify_one();
    }

    /// Refuses new operations and drops the queued ones, whose callers then get an error.
    pub fn abandon(&self) {
        self.close();
        let dropped = std::mem::take(&mut self.lock().operations);
        drop(dropped);
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().expect("no code panics while it holds the lock")
    }
}

impl std::fmt::Debug for WriteQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WriteQueue")
    }
}
