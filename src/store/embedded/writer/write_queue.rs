//! The queue in front of the writer: bounded, drained in groups. Knows operations only by their weight.
//!
//! Our own rather than a channel: the writer takes a whole group under one lock, can wait for a while or
//! not at all, and is woken only when it sleeps.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::store::{Error, embedded::ops::write_txn::WriteTxn};

/// Most operations waiting; callers beyond that wait for a place.
const CAPACITY: usize = 1_024;
/// Most jobs in one group, and most bytes: what one sync is shared by. A larger operation is a group of
/// its own.
const MAX_GROUP_JOBS: usize = 1_024;
const MAX_GROUP_BYTES: usize = 1 << 20;

/// One queued call of the store.
pub(crate) trait Operation: Send {
    /// Does it within the group's transaction, and keeps the answer. It runs again, alone, when that transaction
    /// met a full disk and was rolled back.
    fn run(&mut self, txn: &mut WriteTxn<'_>) -> crate::store::embedded::rows::db::SqlResult<()>;

    /// Hands the answer over, or why there is none.
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

struct QueuedOperation {
    operation: Box<dyn Operation>,
    jobs: usize,
    bytes: usize,
    _place: Option<OwnedSemaphorePermit>,
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
    filled: Condvar,
    slots: Arc<Semaphore>,
}

/// What the writer found.
pub(crate) enum NextGroup {
    /// Operations to do together.
    Group(Vec<Box<dyn Operation>>),
    /// Nothing came in time.
    Idle,
    /// Nothing is left, and nothing more will come.
    Closed,
}

/// How long the writer waits for something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitFor {
    None,
    For(Duration),
    Forever,
}

impl WriteQueue {
    pub fn new() -> Self {
        Self { state: Mutex::default(), filled: Condvar::new(), slots: Arc::new(Semaphore::new(CAPACITY)) }
    }

    /// Queues an operation on `jobs` jobs with `bytes` bytes of bodies, once there is a place; gives it back
    /// when the intake is closed.
    pub async fn push(
        &self,
        operation: Box<dyn Operation>,
        jobs: usize,
        bytes: usize,
    ) -> Result<(), Box<dyn Operation>> {
        match self.slots.clone().acquire_owned().await {
            Ok(place) => self.enqueue(QueuedOperation { operation, jobs, bytes, _place: Some(place) }),
            Err(_closed) => Err(operation),
        }
    }

    /// Queues an operation of our own without waiting for a place; dropped when the intake is closed.
    pub fn push_internal(&self, operation: Box<dyn Operation>) {
        let _closed = self.enqueue(QueuedOperation { operation, jobs: 1, bytes: 0, _place: None });
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
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Takes the next group; waits as long as `patience` says.
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
                    let state = self.filled.wait(state).expect("no code panics while it holds the queue");
                    self.yield_to_callers(state)
                }
                WaitFor::For(time) => {
                    // Real time, not the clock's: it only decides when we tidy up.
                    let (state, waited) = self
                        .filled
                        .wait_timeout(state, time)
                        .expect("no code panics while it holds the queue");
                    if waited.timed_out() && state.operations.is_empty() && !state.closed {
                        return NextGroup::Idle;
                    }
                    self.yield_to_callers(state)
                }
            };
        }
    }

    /// Lets callers that are about to push do so first, where several have been about: the first to come
    /// wakes the writer, and a commit costs about the same for one as for many. Costs nothing on a core
    /// that nobody else wants, and nothing for a caller that is alone.
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

    /// Takes nothing in any more; what is queued is still done.
    pub fn close(&self) {
        self.lock().closed = true;
        self.slots.close();
        self.filled.notify_one();
    }

    /// Takes nothing in any more and drops what is queued, so that its callers hear of it.
    pub fn abandon(&self) {
        self.close();
        let dropped = std::mem::take(&mut self.lock().operations);
        drop(dropped);
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().expect("no code panics while it holds the queue")
    }
}

impl std::fmt::Debug for WriteQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Intake")
    }
}
