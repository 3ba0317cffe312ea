//! The queue above the engines: parked polls, the timer, deliveries that no connection takes, topic settings.
//!
//! The store is the naive model, so that only the queue is under test. The API tests run the same paths on the engines.

mod bulk;
mod health;
mod polls;
mod purges;
mod rules;
mod scrapes;
mod stats;
mod timelines;

use std::{sync::Arc, time::Duration};

use linger::{
    clock::ManualClock,
    job::{Due, Job, NewJob, Timestamp},
    metrics::Metrics,
    queue::{AddOutcome, Delivery, Error, FinishJob, Limits, Pop, Queue, StoreEvents},
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

/// A queue on the naive model, with a running timer.
struct Fixture {
    store: Arc<FailingStore>,
    queue: Arc<Queue>,
    clock: Arc<ManualClock>,
    metrics: Metrics,
    stop: CancellationToken,
    timer: JoinHandle<()>,
}

impl Fixture {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let clock = ManualClock::new(Timestamp::parse(START).expect("START is a timestamp"));
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

    /// Runs the regular check of the store in a task until `stop` is cancelled.
    fn watch_store(&self) -> JoinHandle<()> {
        let (queue, stop) = (self.queue.clone(), self.stop.clone());
        tokio::spawn(async move { queue.watch_store(stop).await })
    }

    async fn add(&self, name: &str, wait: Duration) -> Job {
        match self.queue.add(ALL, new_job(name, wait), None).await.expect("adds") {
            AddOutcome::Created(job) => job,
            other => panic!("expected a new job, got {other:?}"),
        }
    }

    /// Starts a poll in a task of its own, and returns once it is parked.
    async fn park(&self, pop: Pop) -> JoinHandle<Result<Delivery, Error>> {
        let before = self.queue.waiting();
        let queue = self.queue.clone();
        let poll = tokio::spawn(async move { queue.pop(pop).await });
        self.until(|| self.queue.waiting() > before || poll.is_finished()).await;
        poll
    }

    /// Lets the other tasks run until `condition` is true.
    #[track_caller]
    fn until(&self, condition: impl Fn() -> bool) -> impl Future<Output = ()> {
        crate::harness::wait::until(condition)
    }

    async fn get(&self, name: &str) -> Job {
        self.queue.get(ALL, &id(name)).await.expect("the job exists")
    }

    async fn finish(&self, delivery: Delivery) {
        let jobs: Vec<_> = delivery
            .jobs()
            .iter()
            .map(|r| FinishJob { id: r.job.id.clone(), receipt: Some(r.receipt.clone()) })
            .collect();
        delivery.accept();
        for outcome in self.queue.finish_batch(ALL, jobs, None).await.expect("answers") {
            outcome.expect("finishes");
        }
    }

    async fn close(self) {
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
        expire: None,
        on_expiry: None,
        revision: None,
        replaces: false,
        callback: None,
        trace: None,
        body: body("1"),
    }
}

fn pop(wait: Duration) -> Pop {
    Pop { topics: vec![topic("t")], max: 1, wait, ttr: None, by: None, address: None }
}

/// What a parked poll receives. The wait is bounded, so that a poll without a response fails its test.
async fn delivery(poll: JoinHandle<Result<Delivery, Error>>) -> Delivery {
    let ended = bounded("a parked poll's answer", poll).await;
    ended.expect("the poll ends").expect("is answered")
}

/// The ids of the jobs that a parked poll receives.
async fn delivered_ids(poll: JoinHandle<Result<Delivery, Error>>) -> Vec<String> {
    accepted_ids(delivery(poll).await)
}

fn accepted_ids(delivery: Delivery) -> Vec<String> {
    let names = delivery.jobs().iter().map(|r| r.job.id.to_string()).collect();
    delivery.accept();
    names
}

const NOW: Duration = Duration::ZERO;
