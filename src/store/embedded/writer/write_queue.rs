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

use crate::store::{Error, embedded::ops::write_txn::Work};

/// Most operations waiting; callers beyond that wait for a place.
const PLACES: usize = 1_024;
/// Most jobs in one group, and most bytes: what one sync is shared by. A larger operation is a group of
/// its own.
const GROUP_JOBS: usize = 1_024;
const GROUP_BYTES: usize = 1 << 20;

/// One queued call of the store.
pub(crate) trait Operation: Send {
    /// Does it within the group's transaction, and keeps the answer. It runs again, alone, when that transaction
    /// met a full disk and was rolled back.
    fn run(&mut self, work: &mut Work<'_>) -> crate::store::embedded::rows::records::Sql<()>;

    /// Hands the answer over, or why there is none.
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

struct Queued {
    operation: Box<dyn Operation>,
    jobs: usize,
    bytes: usize,
    _place: Option<OwnedSemaphorePermit>,
}

#[derive(Default)]
struct Queue {
    operations: VecDeque<Queued>,
    closed: bool,
    writer_sleeps: bool,
    /// Whether several callers shared the last group.
    shared: bool,
}

pub(crate) struct Intake {
    queue: Mutex<Queue>,
    filled: Condvar,
    places: Arc<Semaphore>,
}

/// What the writer found.
pub(crate) enum Taken {
    /// Operations to do together.
    Group(Vec<Box<dyn Operation>>),
    /// Nothing came in time.
    Quiet,
    /// Nothing is left, and nothing more will come.
    Closed,
}

/// How long the writer waits for something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    None,
    For(Duration),
    Forever,
}

impl Intake {
    pub fn new() -> Self {
        Self { queue: Mutex::default(), filled: Condvar::new(), places: Arc::new(Semaphore::new(PLACES)) }
    }

    /// Queues an operation on `jobs` jobs with `bytes` bytes of bodies, once there is a place; gives it back
    /// when the intake is closed.
    pub async fn push(
        &self,
        operation: Box<dyn Operation>,
        jobs: usize,
        bytes: usize,
    ) -> Result<(), Box<dyn Operation>> {
        match self.places.clone().acquire_owned().await {
            Ok(place) => self.enqueue(Queued { operation, jobs, bytes, _place: Some(place) }),
            Err(_closed) => Err(operation),
        }
    }

    /// Queues an operation of our own without waiting for a place; dropped when the intake is closed.
    pub fn push_own(&self, operation: Box<dyn Operation>) {
        let _closed = self.enqueue(Queued { operation, jobs: 1, bytes: 0, _place: None });
    }

    fn enqueue(&self, queued: Queued) -> Result<(), Box<dyn Operation>> {
        let mut queue = self.lock();
        if queue.closed {
            return Err(queued.operation);
        }
        queue.operations.push_back(queued);
        let wake = std::mem::take(&mut queue.writer_sleeps);
        drop(queue);
        if wake {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Takes the next group; waits as long as `patience` says.
    pub fn take(&self, patience: Patience) -> Taken {
        let mut queue = self.lock();
        loop {
            if !queue.operations.is_empty() {
                let group = Self::group(&mut queue.operations);
                queue.shared = group.len() > 1;
                return Taken::Group(group);
            }
            if queue.closed {
                return Taken::Closed;
            }
            queue.writer_sleeps = patience != Patience::None;
            queue = match patience {
                Patience::None => return Taken::Quiet,
                Patience::Forever => {
                    let queue = self.filled.wait(queue).expect("no code panics while it holds the queue");
                    self.let_gather(queue)
                }
                Patience::For(time) => {
                    // Real time, not the clock's: it only decides when we tidy up.
                    let (queue, waited) = self
                        .filled
                        .wait_timeout(queue, time)
                        .expect("no code panics while it holds the queue");
                    if waited.timed_out() && queue.operations.is_empty() && !queue.closed {
                        return Taken::Quiet;
                    }
                    self.let_gather(queue)
                }
            };
        }
    }

    /// Lets callers that are about to push do so first, where several have been about: the first to come
    /// wakes the writer, and a commit costs about the same for one as for many. Costs nothing on a core
    /// that nobody else wants, and nothing for a caller that is alone.
    fn let_gather<'a>(&'a self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        if !queue.shared {
            return queue;
        }
        drop(queue);
        std::thread::yield_now();
        self.lock()
    }

    fn group(operations: &mut VecDeque<Queued>) -> Vec<Box<dyn Operation>> {
        let (mut jobs, mut bytes) = (0, 0);
        let mut group = Vec::with_capacity(operations.len().min(GROUP_JOBS));
        while let Some(next) = operations.front() {
            jobs += next.jobs;
            bytes += next.bytes;
            if !group.is_empty() && (jobs > GROUP_JOBS || bytes > GROUP_BYTES) {
                break;
            }
            group.extend(operations.pop_front().map(|queued| queued.operation));
        }
        group
    }

    /// Takes nothing in any more; what is queued is still done.
    pub fn close(&self) {
        self.lock().closed = true;
        self.places.close();
        self.filled.notify_one();
    }

    /// Takes nothing in any more and drops what is queued, so that its callers hear of it.
    pub fn abandon(&self) {
        self.close();
        let dropped = std::mem::take(&mut self.lock().operations);
        drop(dropped);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no code panics while it holds the queue")
    }
}

impl std::fmt::Debug for Intake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Intake")
    }
}
