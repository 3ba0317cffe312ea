//! Batches of calls: while a call of one kind to a shard is in flight, the requests of other callers
//! of that kind and shard collect, and share the next call. Half of a small script's cost is
//! reaching the server and starting the script. A caller without company is served alone, at once: there is no timer
//! and no task in between. When those that wait fill a call, it does not wait for the one before: it begins beside it. Must
//! not know what the calls do.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::oneshot;

use crate::{
    clock::Clock,
    store::{
        Error, Result,
        redis::{context::EngineContext, keys::Shard, options::Options, time::micros},
    },
};

/// Most items, and about the most bytes, that different callers share a call for, so that no call blocks Redis
/// for long.
const LIMIT: (usize, usize) = (64, 512 * 1_024);

/// Most calls of one kind to one shard that are in flight at a time, so that Redis need not wait for this process
/// between full calls.
const MOST_IN_FLIGHT: usize = 2;

/// A call is begun only for callers who still wait at least this long for its reply.
const MIN_WAIT: Duration = Duration::from_millis(250);

/// How much longer than a call may take its followers wait for it to end: it began before they came, and its fault says
/// more than that it was not in time.
const GRACE: Duration = Duration::from_secs(1);

/// A kind of call that several callers can share.
#[async_trait]
pub trait BatchCall: Send + Sync + 'static {
    /// What a caller requests.
    type Item: Send + 'static;
    /// The result of one item.
    type Outcome: Send + 'static;

    /// About how many bytes an item takes.
    fn weight(item: &Self::Item) -> usize;

    /// Makes the call for callers the first of whom has waited since `since_us`. Returns one outcome per item, in
    /// order.
    async fn call(&self, shard: Shard, items: Vec<Self::Item>, since_us: i64) -> Result<Vec<Self::Outcome>>;
}

/// Batches calls of one kind, by shard.
pub struct CallBatcher<C: BatchCall>(Arc<BatcherState<C>>);

struct BatcherState<C: BatchCall> {
    call: C,
    context: EngineContext,
    shards: Vec<Mutex<BatchQueue<C>>>,
}

/// The requests for one shard that wait for the calls in flight.
struct BatchQueue<C: BatchCall> {
    in_flight: usize,
    last_number: u64,
    waiting: Vec<BatchRequest<C>>,
}

struct BatchRequest<C: BatchCall> {
    number: u64,
    since_us: i64,
    items: Vec<C::Item>,
    reply: oneshot::Sender<Result<Vec<C::Outcome>>>,
}

/// The number of a request in the queue, and the receiver of its reply.
type QueuedCall<C> = (u64, oneshot::Receiver<Result<Vec<<C as BatchCall>::Outcome>>>);

impl<C: BatchCall> CallBatcher<C> {
    pub fn new(call: C, context: EngineContext, shards: u16) -> Self {
        let queue = || Mutex::new(BatchQueue { in_flight: 0, last_number: 0, waiting: Vec::new() });
        Self(Arc::new(BatcherState { call, context, shards: (0..shards).map(|_| queue()).collect() }))
    }

    /// Makes a call for `items`, alone or together with other callers.
    pub async fn submit(&self, shard: Shard, items: Vec<C::Item>) -> Result<Vec<C::Outcome>> {
        let since_us = self.0.context.now_us();
        let queued = {
            let mut queue = self.0.lock(shard);
            if queue.in_flight == 0 {
                queue.in_flight = 1;
                Ok(items)
            } else {
                let queued = queue.push(items, since_us);
                Err((queued, queue.next_batch()))
            }
        };
        match queued {
            Ok(items) => {
                let mut in_flight = CallInFlight { batcher: self.0.clone(), shard, fault: None };
                let outcomes = self.0.call.call(shard, items, since_us).await;
                in_flight.fault = reason_of(&outcomes);
                outcomes
            }
            Err((queued, requests)) => {
                BatcherState::begin(&self.0, shard, requests);
                self.wait(shard, queued).await
            }
        }
    }

    /// Waits until the request is served. While it is queued, hardly longer than a call may take; once its call has
    /// begun, until that ends: a change that was reported as failed must not happen later.
    async fn wait(&self, shard: Shard, (number, mut replied): QueuedCall<C>) -> Result<Vec<C::Outcome>> {
        let context = &self.0.context;
        let reply = tokio::select! {
            reply = &mut replied => reply,
            () = context.clock.sleep(self.0.longest_call() + GRACE) => {
                if self.0.lock(shard).withdraw(number) {
                    return Err(not_in_time());
                }
                replied.await
            }
        };
        reply.unwrap_or_else(|_| Err(not_in_time()))
    }
}

impl<C: BatchCall> BatcherState<C> {
    /// How long a call may take, with its retries and the wait for replicas.
    fn longest_call(&self) -> Duration {
        let Options { retry_for, command_timeout, wait_replicas, wait_timeout, .. } = *self.context.options;
        let waits = if wait_replicas > 0 { wait_timeout } else { Duration::ZERO };
        retry_for.max(command_timeout + waits)
    }

    fn lock(&self, shard: Shard) -> MutexGuard<'_, BatchQueue<C>> {
        self.shards[usize::from(shard)].lock().expect("no code panics while it holds a queue")
    }

    /// Begins the call for these requests, if there are any, and those that may begin beside it.
    fn begin(this: &Arc<Self>, shard: Shard, mut requests: Vec<BatchRequest<C>>) {
        while !requests.is_empty() {
            let in_flight = CallInFlight { batcher: this.clone(), shard, fault: None };
            // Spawned, so that the current caller goes on at once.
            this.context.spawn(serve(in_flight, requests));
            requests = this.lock(shard).next_batch();
        }
    }
}

impl<C: BatchCall> BatchQueue<C> {
    fn push(&mut self, items: Vec<C::Item>, since_us: i64) -> QueuedCall<C> {
        let (reply, replied) = oneshot::channel();
        self.last_number += 1;
        self.waiting.push(BatchRequest { number: self.last_number, since_us, items, reply });
        (self.last_number, replied)
    }

    /// Removes a request whose call has not begun; returns whether it was still queued.
    fn withdraw(&mut self, number: u64) -> bool {
        let at = self.waiting.iter().position(|request| request.number == number);
        at.map(|at| self.waiting.remove(at)).is_some()
    }

    /// Removes the requests that came before `earliest_us`, whose callers will not wait for another call.
    fn take_expired(&mut self, earliest_us: i64) -> Vec<BatchRequest<C>> {
        self.waiting.extract_if(.., |request| request.since_us < earliest_us).collect()
    }

    /// The next requests to share a call, if it may begin now: when no other is in flight, or when they fill it.
    fn next_batch(&mut self) -> Vec<BatchRequest<C>> {
        if self.in_flight == MOST_IN_FLIGHT {
            return Vec::new();
        }
        // Drop requests whose caller is gone: running them late could undo newer work.
        self.waiting.retain(|request| !request.reply.is_closed());
        let (mut items, mut bytes) = (0, 0);
        let is_full = |items, bytes| items >= LIMIT.0 || bytes >= LIMIT.1;
        let batch = self.waiting.iter().take_while(|request| {
            let fits = !is_full(items, bytes);
            if fits {
                items += request.items.len();
                bytes += request.items.iter().map(C::weight).sum::<usize>();
            }
            fits
        });
        let count = batch.count();
        if count == 0 || (self.in_flight > 0 && !is_full(items, bytes)) {
            return Vec::new();
        }
        self.in_flight += 1;
        self.waiting.drain(..count).collect()
    }
}

/// A call in flight to a shard. When it ends, however it does, the next begins.
struct CallInFlight<C: BatchCall> {
    batcher: Arc<BatcherState<C>>,
    shard: Shard,
    /// Why the store did nothing, if that is why it failed.
    fault: Option<Error>,
}

impl<C: BatchCall> Drop for CallInFlight<C> {
    fn drop(&mut self) {
        let context = &self.batcher.context;
        let longest_wait = self.batcher.longest_call();
        let earliest_us = context.now_us() - micros(longest_wait - MIN_WAIT.min(longest_wait / 2));
        let (expired, requests) = {
            let mut queue = self.batcher.lock(self.shard);
            queue.in_flight -= 1;
            (queue.take_expired(earliest_us), queue.next_batch())
        };
        for request in expired {
            // These callers waited for this call to end, so they get its fault, if any. Their items were not sent.
            let _ = request.reply.send(Err(self.fault.clone().unwrap_or_else(not_in_time)));
        }
        BatcherState::begin(&self.batcher, self.shard, requests);
    }
}

/// Makes one call for all requests.
async fn serve<C: BatchCall>(mut in_flight: CallInFlight<C>, requests: Vec<BatchRequest<C>>) {
    let counts: Vec<usize> = requests.iter().map(|request| request.items.len()).collect();
    let since_us = requests.first().map_or(0, |first| first.since_us);
    let (items, callers): (Vec<_>, Vec<_>) =
        requests.into_iter().map(|request| (request.items, request.reply)).unzip();
    let items = items.into_iter().flatten().collect();
    let outcomes = in_flight.batcher.call.call(in_flight.shard, items, since_us).await;
    in_flight.fault = reason_of(&outcomes);
    let mut outcomes = outcomes.map(Vec::into_iter);
    for (caller, count) in callers.into_iter().zip(counts) {
        let share = outcomes.as_mut().map(|outcomes| outcomes.by_ref().take(count).collect());
        // The call was made even if its caller is gone.
        let _ = caller.send(share.map_err(|error| error.clone()));
    }
}

/// The error of a call if it is about the store, and so true of other calls, too. Other errors are about the change that
/// was made or the records that were read.
fn reason_of<T>(outcomes: &Result<T>) -> Option<Error> {
    outcomes.as_ref().err().filter(|error| error.is_unavailable()).cloned()
}

fn not_in_time() -> Error {
    Error::Unavailable("earlier calls were not answered in time".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_faults_of_the_store_are_passed_on_to_calls_that_were_not_made() {
        let refused = Error::Refused { reason: String::new(), cause: String::new() };
        for (error, is_passed_on) in [
            (Error::Unavailable(String::new()), true),
            (refused, true),
            (Error::NotDurable(String::new()), false),
            (Error::Damaged(String::new()), false),
        ] {
            assert_eq!(reason_of::<()>(&Err(error.clone())).is_some(), is_passed_on, "{error}");
        }
    }
}
