//! Waiting polls: first come, first served per topic.
//!
//! Every pop joins the waiters of its topics, also one that does not wait for jobs. One dispatch per topic reserves as
//! many jobs as its waiters want and hands them out in order. Ten thousand waiting polls therefore cost the store
//! nothing until a topic is announced, and then one call. Knows no HTTP.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard},
};

use tokio::sync::oneshot;

use crate::{
    job::{Outlet, Topic},
    queue::{
        error::{Error, Result},
        pop::{
            delivery::{Delivery, ReturnContext, shortest_ttr_us},
            pauses::Pauses,
        },
    },
    store::{Claim, Reservation, TopicConfig, Wait},
};

/// Most jobs reserved by one call: enough to share one commit, few enough not to delay it.
const DISPATCH_BATCH: usize = 256;

/// The waiters of all topics.
#[derive(Debug)]
pub(in crate::queue) struct Waiters {
    return_context: Arc<ReturnContext>,
    pauses: Arc<Pauses>,
    max_waiting: usize,
    table: Mutex<WaiterTable>,
}

#[derive(Debug, Default)]
struct WaiterTable {
    by_topic: HashMap<Topic, TopicWaiters>,
    last_ticket: u64,
    /// Number of blocking polls.
    blocking: usize,
    closed: bool,
}

#[derive(Debug, Default)]
struct TopicWaiters {
    /// By ticket, which keeps them in order and finds the one that leaves.
    waiters: BTreeMap<u64, Arc<Waiter>>,
    /// Number of non-blocking polls among them.
    non_blocking: usize,
    /// Whether a dispatch is running. It queries the store once more before it ends if `announced`.
    dispatching: bool,
    announced: bool,
}

impl TopicWaiters {
    fn join(&mut self, ticket: u64, waiter: Arc<Waiter>) {
        self.non_blocking += usize::from(!waiter.request.blocking);
        self.waiters.insert(ticket, waiter);
    }

    fn leave(&mut self, ticket: u64) {
        if let Some(waiter) = self.waiters.remove(&ticket) {
            self.non_blocking -= usize::from(!waiter.request.blocking);
        }
    }

    /// Requests a dispatch. Returns true if the caller must start one, false if the running one will serve the
    /// request.
    fn request_dispatch(&mut self) -> bool {
        let must_start = !self.dispatching;
        self.announced = !must_start;
        self.dispatching = true;
        must_start
    }

    /// Removes and returns all non-blocking polls.
    fn remove_non_blocking(&mut self) -> Vec<Arc<Waiter>> {
        if self.non_blocking == 0 {
            return Vec::new();
        }
        self.non_blocking = 0;
        self.waiters.extract_if(.., |_, waiter| !waiter.request.blocking).map(|(_, waiter)| waiter).collect()
    }

    /// The first waiters that have no result yet, as many as share one call to the store.
    fn next_batch(&self) -> WaiterBatch {
        let mut wanted = 0;
        let unanswered = self.waiters.iter().filter(|(_, waiter)| waiter.is_unanswered());
        let batch = unanswered.take_while(|(_, waiter)| {
            let has_room = wanted < DISPATCH_BATCH;
            wanted += waiter.request.jobs;
            has_room
        });
        batch.map(|(ticket, waiter)| (*ticket, waiter.clone())).collect()
    }
}

#[derive(Debug)]
struct Waiter {
    request: PopRequest,
    /// Taken by the first dispatch that has a result: one waiter can wait for several topics.
    sender: Mutex<Option<oneshot::Sender<Result<Delivery>>>>,
}

impl Waiter {
    /// Sends the result, unless the waiter has one already. A delivery that is not received returns its jobs.
    fn answer(&self, result: Result<Delivery>) {
        let sender = self.sender.lock().expect("no code panics while it holds a sender").take();
        if let Some(sender) = sender {
            let _ = sender.send(result);
        }
    }

    fn is_unanswered(&self) -> bool {
        self.sender.lock().expect("no code panics while it holds a sender").is_some()
    }
}

/// What a poll asks of a topic.
#[derive(Debug, Clone)]
pub(in crate::queue) struct PopRequest {
    pub jobs: usize,
    /// For each of the jobs.
    pub claim: Claim,
    /// Whether it waits if no job is ready.
    pub blocking: bool,
}

/// A poll among the waiters of its topics. Dropping it leaves them.
#[derive(Debug)]
pub(in crate::queue) struct WaiterGuard {
    waiters: Arc<Waiters>,
    outlets: Vec<Outlet>,
    ticket: u64,
    blocking: bool,
    receiver: oneshot::Receiver<Result<Delivery>>,
}

impl WaiterGuard {
    /// Waits for the result.
    pub async fn result(&mut self) -> Result<Delivery> {
        (&mut self.receiver).await.unwrap_or_else(|_| Ok(Delivery::empty()))
    }

    /// Stops waiting. Returns a result that has been sent already, or an empty delivery.
    pub fn cancel(mut self) -> Result<Delivery> {
        self.receiver.close();
        self.receiver.try_recv().unwrap_or_else(|_| Ok(Delivery::empty()))
    }
}

impl Drop for WaiterGuard {
    fn drop(&mut self) {
        self.waiters.leave(self);
    }
}

impl Waiters {
    pub fn new(return_context: Arc<ReturnContext>, pauses: Arc<Pauses>, max_waiting: usize) -> Arc<Self> {
        Arc::new(Self { return_context, pauses, max_waiting, table: Mutex::default() })
    }

    /// Joins the waiters of the topics of these plain outlets, and starts a dispatch for each topic that may have ready
    /// jobs.
    pub fn join(self: &Arc<Self>, outlets: Vec<Outlet>, request: PopRequest) -> Result<WaiterGuard> {
        let (sender, receiver) = oneshot::channel();
        let blocking = request.blocking;
        let waiter = Arc::new(Waiter { request, sender: Mutex::new(Some(sender)) });
        let (ticket, to_dispatch) = {
            let mut table = self.lock();
            if table.closed {
                return Err(Error::Draining);
            }
            if blocking && table.blocking >= self.max_waiting {
                return Err(Error::TooManyWaiting { limit: self.max_waiting });
            }
            table.last_ticket += 1;
            let ticket = table.last_ticket;
            let mut to_dispatch = Vec::new();
            for outlet in &outlets {
                let of_topic = table.by_topic.entry(outlet.topic.clone()).or_default();
                of_topic.join(ticket, waiter.clone());
                // Must be atomic: a dispatch ending now would answer this waiter without querying the store. A blocking
                // poll needs no query if nothing is ready: it receives every announcement from here on.
                let may_succeed = !blocking || self.return_context.store.may_have_ready(outlet);
                if may_succeed && of_topic.request_dispatch() {
                    to_dispatch.push(&outlet.topic);
                }
            }
            table.blocking += usize::from(blocking);
            self.return_context.metrics.set_waiting(table.blocking);
            (ticket, to_dispatch)
        };
        for topic in to_dispatch {
            self.dispatch(topic);
        }
        Ok(WaiterGuard { waiters: self.clone(), outlets, ticket, blocking, receiver })
    }

    /// `topic` may have ready jobs: starts a dispatch if it has waiters.
    pub fn topic_ready(self: &Arc<Self>, topic: &Topic) {
        let must_start = self.lock().by_topic.get_mut(topic).is_some_and(TopicWaiters::request_dispatch);
        if must_start {
            self.dispatch(topic);
        }
    }

    fn dispatch(self: &Arc<Self>, topic: &Topic) {
        let outlet = Outlet::plain(topic.clone());
        let dispatch = Dispatch { waiters: self.clone(), outlet, ended: false };
        self.return_context.tasks.spawn_on(dispatch.run(), &self.return_context.runtime);
    }

    /// Answers all polls with an empty delivery and refuses new ones.
    pub fn close(&self) {
        let by_topic = {
            let mut table = self.lock();
            table.closed = true;
            std::mem::take(&mut table.by_topic)
        };
        for waiter in by_topic.values().flat_map(|of_topic| of_topic.waiters.values()) {
            waiter.answer(Ok(Delivery::empty()));
        }
    }

    /// Whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub fn return_context(&self) -> Arc<ReturnContext> {
        self.return_context.clone()
    }

    /// Number of polls waiting for `topic`.
    pub fn waiting_for(&self, topic: &Topic) -> usize {
        self.lock().by_topic.get(topic).map_or(0, |of_topic| of_topic.waiters.len())
    }

    /// Number of blocking polls by topic.
    pub fn parked_by_topic(&self) -> Vec<(Topic, usize)> {
        let parked = |of: &TopicWaiters| of.waiters.len() - of.non_blocking;
        self.lock().by_topic.iter().map(|(topic, of)| (topic.clone(), parked(of))).collect()
    }

    /// Number of blocking polls of all topics.
    pub fn waiting(&self) -> usize {
        self.lock().blocking
    }

    fn leave(&self, guard: &WaiterGuard) {
        let mut table = self.lock();
        for Outlet { topic, .. } in &guard.outlets {
            let Some(of_topic) = table.by_topic.get_mut(topic) else { continue };
            of_topic.leave(guard.ticket);
            if of_topic.waiters.is_empty() && !of_topic.dispatching {
                table.by_topic.remove(topic);
            }
        }
        table.blocking -= usize::from(guard.blocking);
        self.return_context.metrics.set_waiting(table.blocking);
    }

    fn lock(&self) -> MutexGuard<'_, WaiterTable> {
        self.table.lock().expect("no code panics while it holds the table")
    }
}

/// Serves the waiters of one topic. A topic has at most one at a time.
struct Dispatch {
    waiters: Arc<Waiters>,
    /// The plain outlet of the topic.
    outlet: Outlet,
    /// Whether it has unregistered itself. If it panics, `drop` does so and fails the polls of the topic.
    ended: bool,
}

/// Waiters in order, with their tickets.
type WaiterBatch = Vec<(u64, Arc<Waiter>)>;

impl Dispatch {
    async fn run(mut self) {
        let (mut answered, mut may_have_more) = (Vec::new(), true);
        while let Some((batch, wait)) = self.next_batch(&answered, may_have_more) {
            (answered, may_have_more) = self.serve(batch, wait).await;
        }
    }

    /// Removes the `answered` waiters and returns those to serve next, and whether each of them can wait for one job.
    ///
    /// Returns `None` when no waiter is left, or when there are no more jobs and no new announcement. The dispatch ends
    /// in the same step, so that no announcement is lost in between. Non-blocking polls behind the last batch are then
    /// answered with an empty delivery: the polls before them took every ready job.
    fn next_batch(&mut self, answered: &[u64], may_have_more: bool) -> Option<(WaiterBatch, Wait)> {
        let mut table = self.waiters.lock();
        let of_topic = table.by_topic.get_mut(&self.outlet.topic)?;
        for ticket in answered {
            of_topic.leave(*ticket);
        }
        let must_query = may_have_more || of_topic.announced;
        of_topic.announced = false;
        if must_query {
            let batch = of_topic.next_batch();
            if !batch.is_empty() {
                let can_wait = of_topic.non_blocking == 0 && batch.iter().all(|(_, w)| w.request.jobs == 1);
                return Some((batch, if can_wait { Wait::Yes } else { Wait::No }));
            }
        }
        of_topic.dispatching = false;
        self.ended = true;
        let non_blocking = of_topic.remove_non_blocking();
        if of_topic.waiters.is_empty() {
            table.by_topic.remove(&self.outlet.topic);
        }
        drop(table);
        non_blocking.into_iter().for_each(|waiter| waiter.answer(Ok(Delivery::empty())));
        None
    }

    /// Reserves jobs for `batch` and hands them out. Returns the tickets of the waiters that have a result, and whether
    /// all of `batch` got what it wanted, so that there may be more jobs.
    async fn serve(&self, batch: WaiterBatch, wait: Wait) -> (Vec<u64>, bool) {
        // Read before the store is called, so that no reservation ends earlier than computed from it.
        let ReturnContext { clock, store, .. } = &*self.waiters.return_context;
        let started_us = clock.now_micros();
        let config = store.topic_config(&self.outlet.topic);
        if config.settings.callback.target.is_some() {
            // The jobs go to the callback now. The next poll learns of it.
            batch.iter().for_each(|(_, waiter)| waiter.answer(Ok(Delivery::empty())));
            return (batch.into_iter().map(|(ticket, _)| ticket).collect(), true);
        }
        let mut jobs = match self.reserve(&batch, wait, &config).await {
            Ok(jobs) => jobs.into_iter().peekable(),
            Err(error) => {
                let failed: Vec<_> = batch.into_iter().chain(self.non_blocking()).collect();
                failed.iter().for_each(|(_, waiter)| waiter.answer(Err(error.clone())));
                return (failed.into_iter().map(|(ticket, _)| ticket).collect(), true);
            }
        };
        let (mut answered, mut may_have_more, mut claims) = (Vec::new(), true, 0);
        for (ticket, waiter) in batch {
            claims += waiter.request.jobs;
            let mut share = Vec::with_capacity(waiter.request.jobs.min(jobs.len()));
            share.extend(std::iter::from_fn(|| jobs.next_if(|job| job.claim < claims)));
            may_have_more &= share.len() == waiter.request.jobs;
            if !share.is_empty() {
                let ends_us = started_us.saturating_add(shortest_ttr_us(&share, waiter.request.claim.ttr));
                let context = self.waiters.return_context.clone();
                waiter.answer(Ok(Delivery::new(share, ends_us, context)));
            } else if !waiter.request.blocking {
                waiter.answer(Ok(Delivery::empty()));
            } else {
                continue;
            }
            answered.push(ticket);
        }
        (answered, may_have_more)
    }

    /// All non-blocking polls of the topic. When the store fails, they have waited for it as long as the first batch;
    /// another attempt could keep them waiting for as long again.
    fn non_blocking(&self) -> WaiterBatch {
        let table = self.waiters.lock();
        let of_topic = table.by_topic.get(&self.outlet.topic).filter(|of_topic| of_topic.non_blocking > 0);
        let waiters = of_topic.into_iter().flat_map(|of_topic| &of_topic.waiters);
        let non_blocking = waiters.filter(|(_, waiter)| !waiter.request.blocking);
        non_blocking.map(|(ticket, waiter)| (*ticket, waiter.clone())).collect()
    }

    async fn reserve(
        &self,
        batch: &WaiterBatch,
        wait: Wait,
        config: &TopicConfig,
    ) -> Result<Vec<Reservation>> {
        let store = &self.waiters.return_context.store;
        if self.waiters.pauses.stops_delivery(&self.outlet.topic, config) {
            return Ok(Vec::new());
        }
        let requests = batch.iter().map(|(_, waiter)| &waiter.request);
        let claims: Vec<Claim> =
            requests.flat_map(|request| std::iter::repeat_n(request.claim.clone(), request.jobs)).collect();
        Ok(store.reserve(&self.outlet, &claims, wait).await?)
    }
}

impl Drop for Dispatch {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // Only the dispatch answers non-blocking polls, and the others have missed announcements that came during it.
        let failed = self.waiters.lock().by_topic.remove(&self.outlet.topic).unwrap_or_default();
        let error = Error::Unavailable("the search for ready jobs failed".to_owned());
        failed.waiters.values().for_each(|waiter| waiter.answer(Err(error.clone())));
    }
}
