//! The queue above the engines: parked polls, the timer, deliveries that nobody takes, topic settings.
//!
//! On the naive model, so that only the queue is under test; the same paths run on the engines in
//! the API tests.

mod health;
mod polls;
mod rules;
mod scrape;

use std::{sync::Arc, time::Duration};

use linger::{
    clock::ManualClock,
    job::{Due, Job, NewJob, Timestamp},
    metrics::Metrics,
    queue::{Delivery, Error, FinishJob, Limits, Pop, Queue, StoreEvents},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::{
    failing::FailingStore,
    jobs::{ALL, body, delay, id, topic},
    naive::Naive,
    stores::START,
    wait::bounded,
};

/// A queue on the naive model with its timer running.
struct Bench {
    store: Arc<FailingStore>,
    queue: Arc<Queue>,
    clock: Arc<ManualClock>,
    metrics: Metrics,
    stop: CancellationToken,
    timer: JoinHandle<()>,
}

impl Bench {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let clock = ManualClock::new(Timestamp::parse(START).expect("a moment"));
        let (hints, metrics, stop) =
            (Arc::new(StoreEvents::default()), Metrics::new(), CancellationToken::new());
        let store = FailingStore::new(Naive::new(clock.clone(), hints.clone(), None));
        let queue = Queue::new(store.clone(), &hints, clock.clone(), limits, metrics.queue.clone());
        let timer = tokio::spawn({
            let (queue, stop) = (queue.clone(), stop.clone());
            async move { queue.run_timer(stop).await }
        });
        Self { store, queue, clock, metrics, stop, timer }
    }

    /// Watches the store in a task, until `stop`.
    fn watch_store(&self) -> JoinHandle<()> {
        let (queue, stop) = (self.queue.clone(), self.stop.clone());
        tokio::spawn(async move { queue.watch_store(stop).await })
    }

    async fn add(&self, name: &str, wait: Duration) -> Job {
        self.queue.add(new_job(name, wait)).await.expect("adds").job
    }

    /// A poll in a task of its own, parked by the time this returns.
    async fn park(&self, pop: Pop) -> JoinHandle<Result<Delivery, Error>> {
        let before = self.queue.waiting();
        let queue = self.queue.clone();
        let poll = tokio::spawn(async move { queue.pop(pop).await });
        self.until(|| self.queue.waiting() > before || poll.is_finished()).await;
        poll
    }

    /// Lets the other tasks run until `reached`.
    #[track_caller]
    fn until(&self, reached: impl Fn() -> bool) -> impl Future<Output = ()> {
        crate::harness::wait::until(reached)
    }

    async fn get(&self, name: &str) -> Job {
        self.queue.get(ALL, &id(name)).await.expect("is there")
    }

    async fn finish(&self, delivery: Delivery) {
        let jobs: Vec<_> = delivery
            .jobs()
            .iter()
            .map(|r| FinishJob { id: r.job.id.clone(), receipt: Some(r.receipt.clone()) })
            .collect();
        delivery.accept();
        for outcome in self.queue.finish_batch(ALL, jobs).await.expect("answers") {
            outcome.expect("finishes");
        }
    }

    async fn end(self) {
        self.stop.cancel();
        self.timer.await.expect("the timer ends");
        self.queue.close().await.expect("closes");
    }
}

fn new_job(name: &str, wait: Duration) -> NewJob {
    NewJob {
        id: Some(id(name)),
        topic: topic("t"),
        due: Due::After(delay(wait)),
        ttr: None,
        max_attempts: None,
        retry: None,
        body: body("1"),
    }
}

fn pop(wait: Duration) -> Pop {
    Pop { topics: vec![topic("t")], max: 1, wait, ttr: None }
}

/// What a parked poll is answered with; one that never is would hold up all tests.
async fn names(poll: JoinHandle<Result<Delivery, Error>>) -> Vec<String> {
    let ended = bounded("a parked poll's answer", poll).await;
    taken(ended.expect("the poll ends").expect("is answered"))
}

fn taken(delivery: Delivery) -> Vec<String> {
    let names = delivery.jobs().iter().map(|r| r.job.id.to_string()).collect();
    delivery.accept();
    names
}

const NOW: Duration = Duration::ZERO;
