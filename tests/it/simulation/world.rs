//! The server of a run, without sockets and threads, and what its clients share.

use std::{
    sync::{
        Arc, LazyLock, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::Router;
use linger::{
    clock::{Clock, ManualClock},
    http::{self, App, Edge, HttpOptions},
    job::{Timestamp, TopicPause},
    metrics::Metrics,
    queue::{Limits, Queue, StoreEvents},
    store::Store,
};
use tokio_util::sync::CancellationToken;

use super::plan::{Faults, Plan};
use crate::{
    checker::{Action, Event, History, Outcome},
    harness::{failing::FailingStore, jobs, naive::Naive, stores::START},
};

/// How late a job may be without a fault: the timer counts the time to the next deadline from an answer that took no longer.
const PROMPT_MS: i64 = 10;

/// The default settings, read once.
static SETTINGS: LazyLock<(Limits, HttpOptions)> = LazyLock::new(Default::default);

/// A job that some client has begun to add.
#[derive(Debug, Clone)]
pub struct KnownJob {
    /// `None` until the server has chosen and shown it.
    pub id: Option<String>,
    pub topic: usize,
    /// The revision of the last add that was sent, or 0.
    pub revision: u64,
    /// Whether no add of it is being sent.
    pub is_added: bool,
}

/// A moment of the history.
#[derive(Debug, Clone, Copy)]
pub struct Moment(Duration);

/// What the clients of a run share.
pub struct World {
    pub plan: Plan,
    pub router: Router,
    pub queue: Arc<Queue>,
    pub clock: Arc<ManualClock>,
    pub store: Arc<FailingStore>,
    pub faults: Arc<Faults>,
    pub history: History,
    /// Held for reading while jobs are added, and for writing while a topic is purged.
    pub adding: tokio::sync::RwLock<()>,
    /// How many calls are in flight that do not wait for jobs.
    pub in_flight: AtomicUsize,
    naive: Arc<Naive>,
    jobs: Mutex<Vec<KnownJob>>,
    problems: Mutex<Vec<String>>,
    start_us: i64,
    ticks: AtomicU64,
    /// Before the faults begin and after they have ended.
    draining: AtomicBool,
    over: AtomicBool,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    pub fn new(plan: Plan) -> Arc<Self> {
        let clock = ManualClock::new(Timestamp::parse(START).expect("START is a timestamp"));
        let (events, metrics, stop) =
            (Arc::new(StoreEvents::default()), Metrics::new(), CancellationToken::new());
        let naive = Naive::new(clock.clone(), events.clone(), None);
        let (store, faults) = (FailingStore::new(naive.clone()), Arc::<Faults>::default());
        let (limits, options) = SETTINGS.clone();
        let queue = Queue::new(store.clone(), &events, clock.clone(), limits, metrics.queue.clone());
        tokio::spawn({
            let (queue, stop) = (queue.clone(), stop.clone());
            async move { queue.run_timer(stop).await }
        });
        let app = App::new(queue.clone(), Edge::new(clock.clone(), metrics, options));
        Arc::new(Self {
            plan,
            router: http::router(&app),
            queue,
            store,
            faults,
            history: History::new(),
            adding: tokio::sync::RwLock::default(),
            in_flight: AtomicUsize::default(),
            naive,
            jobs: Mutex::default(),
            problems: Mutex::default(),
            start_us: clock.now_micros(),
            clock,
            ticks: AtomicU64::default(),
            draining: true.into(),
            over: AtomicBool::default(),
            stop,
        })
    }

    /// The present moment, by the clock. Each is later than all before, so that calls are in order while the clock stands.
    pub fn now(&self) -> Moment {
        let passed_us = (self.clock.now_micros() - self.start_us).unsigned_abs();
        let tick = self.ticks.fetch_add(1, Ordering::Relaxed);
        Moment(Duration::from_micros(passed_us) + Duration::from_nanos(tick))
    }

    /// Records a call that ends now.
    pub fn record(&self, job: usize, sent: Moment, action: Action, outcome: Outcome) {
        let answered = self.now().0;
        self.history.push(Event { job: name(job), sent: sent.0, answered, action, outcome });
    }

    /// Begins a job, and returns its number.
    pub fn new_job(&self, topic: usize) -> usize {
        let mut jobs = self.jobs();
        jobs.push(KnownJob { id: None, topic, revision: 0, is_added: false });
        jobs.len() - 1
    }

    pub fn jobs(&self) -> MutexGuard<'_, Vec<KnownJob>> {
        self.jobs.lock().expect("not poisoned")
    }

    /// Reports what no client may see.
    pub fn report(&self, problem: String) {
        self.problems.lock().expect("not poisoned").push(problem);
    }

    pub fn problems(&self) -> Vec<String> {
        self.problems.lock().expect("not poisoned").clone()
    }

    /// Whether a topic is paused, past all faults.
    pub fn is_paused(&self, topic: usize) -> bool {
        self.naive.topic_config(&jobs::topic(topic_name(topic))).pause != TopicPause::default()
    }

    /// The numbers of jobs of a topic: those that are not dead, and the dead ones. Past all faults.
    pub async fn counts(&self, topic: usize) -> (u64, u64) {
        let stats = self.naive.topic(&jobs::topic(topic_name(topic))).await;
        let stats = stats.expect("the model does not fail").unwrap_or_default();
        (stats.delayed + stats.ready + stats.reserved, stats.dead)
    }

    /// What waits although nothing stands in its way: jobs for the timer, and polls for jobs that are ready.
    pub async fn missed(&self) -> Option<String> {
        let late_ms: Vec<i64> =
            self.naive.overdue_ms().into_iter().filter(|late| *late > PROMPT_MS).collect();
        if !late_ms.is_empty() {
            return Some(format!("jobs are past their deadlines, by milliseconds: {late_ms:?}"));
        }
        for topic in (0..self.plan.topics).map(topic_name) {
            let view = self.queue.topic(&jobs::topic(topic)).await.ok()?;
            if view.stats.ready > 0 && view.waiting > 0 {
                return Some(format!("{} polls of {topic} wait although jobs are ready", view.waiting));
            }
        }
        None
    }

    /// Every reservation that the store made for the queue reaches a client or is given back.
    pub fn check_reservations(&self) -> Result<(), String> {
        let mut granted = self.store.granted();
        for event in self.history.events().iter() {
            if let Action::Deliver { receipt, .. } = &event.action {
                granted.remove(receipt);
            }
        }
        match granted.len() {
            0 => Ok(()),
            lost => Err(format!("{lost} reservations neither reached a client nor were given back")),
        }
    }

    /// From now on calls of the store go wrong, and clients leave.
    pub fn begin_faults(&self, seed: u64) {
        self.draining.store(false, Ordering::Relaxed);
        self.store.choose_faults(Some(self.faults.choose(self.plan.clone(), seed)));
    }

    /// Ends all faults: the store works, and no client leaves any more.
    pub fn end_faults(&self) {
        self.store.choose_faults(None);
        self.faults.release_all();
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether no client leaves, and workers shall only finish jobs.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// The name of a job in the history, and its id if its producer chooses that.
pub fn name(job: usize) -> String {
    format!("job-{job}")
}

pub fn topic_name(number: usize) -> &'static str {
    ["orders", "mails"][number]
}
