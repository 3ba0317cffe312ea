//! The queue itself: its parts, its background tasks and its shutdown. `jobs`, `topics` and `pop` add the operations.

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    bulk::{Operations, purges::Purges},
    callbacks::outlet_listener::OutletListener,
    ended::EndedJobs,
    error::Result,
    health::StoreHealth,
    limits::Limits,
    pop::{delivery::ReturnContext, pauses::Pauses, pollers::Pollers, waiters::Waiters},
    timer::Timer,
    views::{
        Timelines, process_activity::OwnActivity, processes::Processes, read_permits::ReadPermits,
        scrape::StoreScrape, sorted_topics::SortedTopics,
    },
};
use crate::{
    clock::Clock,
    job::{Outlet, Topic},
    messages::failure_log::FailureLog,
    metrics::QueueMetrics,
    store::{Degraded, EngineInfo, Listener, Metered, Move, Store},
    traces::Tracer,
};

/// One delay queue over one store, shared by all its users.
#[derive(Debug)]
pub struct Queue {
    pub(super) store: Arc<dyn Store>,
    pub(super) waiters: Arc<Waiters>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) limits: Limits,
    pub(super) metrics: QueueMetrics,
    pub(super) outlet_listener: Arc<OnceLock<Arc<dyn OutletListener>>>,
    pub(super) tracer: Arc<OnceLock<Tracer>>,
    health: StoreHealth,
    timer: Timer,
    scrape: StoreScrape,
    pub(super) timelines: Timelines,
    pub(super) sorted_topics: Arc<SortedTopics>,
    pub(super) read_permits: Arc<ReadPermits>,
    pub(super) scan_permits: ReadPermits,
    pub(super) operations: Arc<Operations>,
    pub(super) purges: Arc<Purges>,
    pub(super) ended: Arc<EndedJobs>,
    pub(super) processes: Arc<Processes>,
    pub(super) pauses: Arc<Pauses>,
    pub(super) pollers: Arc<Pollers>,
    /// Wakes the runner of schedules when this process has changed one.
    pub(super) schedule_changed: Notify,
    pub(super) unreadable_schedules: FailureLog,
    pub(super) audit_failures: FailureLog,
    /// The store's clock when the runner of schedules last read it, in milliseconds; before that, and while they are to be
    /// reviewed, the latest moment there is.
    pub(super) schedules_reviewed_at: AtomicI64,
    draining: AtomicBool,
    tasks: TaskTracker,
}

/// The listener to open a store with, before the queue exists. Events that arrive earlier are dropped, since there are
/// no waiting polls yet.
#[derive(Debug, Default)]
pub struct StoreEvents {
    queue: OnceLock<Weak<Queue>>,
}

impl StoreEvents {
    fn queue(&self) -> Option<Arc<Queue>> {
        self.queue.get().and_then(Weak::upgrade)
    }
}

impl Listener for StoreEvents {
    fn ready(&self, outlet: &Outlet) {
        if let Some(queue) = self.queue() {
            queue.outlet_ready(outlet);
        }
    }

    fn topic_changed(&self, topic: &Topic) {
        if let Some(queue) = self.queue() {
            queue.topic_changed(topic);
        }
    }

    fn due_in(&self, after: Duration) {
        if let Some(queue) = self.queue() {
            queue.timer.due_in(after);
        }
    }

    fn promoted(&self, moves: &[Move]) {
        if let Some(queue) = self.queue() {
            queue.timer.count(moves);
        }
    }

    fn watched(&self) {
        if let Some(queue) = self.queue() {
            queue.processes.watched();
        }
    }
}

impl Queue {
    /// A queue over `store`, which was opened with `events`. Must be called within a tokio runtime. Run
    /// [`run_timer`](Self::run_timer) and [`watch_store`](Self::watch_store) beside it.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        events: &StoreEvents,
        clock: Arc<dyn Clock>,
        limits: Limits,
        metrics: QueueMetrics,
    ) -> Arc<Self> {
        limits.publish(&metrics);
        let reader = clock.clone();
        metrics.recent.set_clock(move || reader.now_micros());
        let operation_failed = Arc::default();
        let metered = Metered::new(store, clock.clone(), metrics.clone(), Arc::clone(&operation_failed));
        let store: Arc<dyn Store> = Arc::new(metered);
        let (tasks, tracer) = (TaskTracker::new(), Arc::<OnceLock<Tracer>>::default());
        let return_context = Arc::new(ReturnContext {
            store: store.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
            tasks: tasks.clone(),
            runtime: tokio::runtime::Handle::current(),
            tracer: tracer.clone(),
        });
        let read_permits = Arc::new(ReadPermits::of_looks(clock.clone(), limits.max_looks));
        let sorted_topics = Arc::new(SortedTopics::new(store.clone(), clock.clone(), read_permits.clone()));
        let timelines =
            Timelines::new(store.clone(), clock.clone(), read_permits.clone(), sorted_topics.clone());
        let ended = Arc::<EndedJobs>::default();
        let pauses = Pauses::new(store.clone(), clock.clone(), tasks.clone());
        let (pollers, outlet_listener) = (Pollers::new(clock.clone()), Arc::<OnceLock<_>>::default());
        let operations =
            Operations::new(store.clone(), clock.clone(), metrics.clone(), ended.clone(), tasks.clone());
        let activity = OwnActivity {
            pollers: pollers.clone(),
            outlet_listener: outlet_listener.clone(),
            operations: operations.clone(),
        };
        let queue = Arc::new(Self {
            waiters: Waiters::new(return_context, pauses.clone(), limits.max_waiting),
            pauses,
            health: StoreHealth::new(store.clone(), clock.clone(), metrics.clone(), operation_failed),
            timer: Timer::new(store.clone(), clock.clone(), metrics.clone(), ended.clone()),
            scrape: StoreScrape::new(store.clone(), clock.clone(), metrics.clone()),
            timelines,
            sorted_topics,
            operations,
            purges: Purges::new(store.clone(), metrics.clone(), tasks.clone()),
            processes: Processes::new(store.clone(), clock.clone(), metrics.clone(), tasks.clone(), activity),
            read_permits,
            scan_permits: ReadPermits::of_scans(clock.clone()),
            outlet_listener,
            pollers,
            tracer,
            ended,
            schedule_changed: Notify::new(),
            unreadable_schedules: FailureLog::default(),
            audit_failures: FailureLog::default(),
            schedules_reviewed_at: AtomicI64::new(i64::MAX),
            draining: AtomicBool::new(false),
            store,
            clock,
            limits,
            metrics,
            tasks,
        });
        // A second queue with the same events would be a mistake of the caller; the first one stays.
        let _ = events.queue.set(Arc::downgrade(&queue));
        queue
    }

    /// Makes delayed jobs ready, ends reservations and deletes dead letters past their retention, until `stop`. After an error of
    /// the store it tries again, after a pause that doubles up to 2 s.
    pub async fn run_timer(&self, stop: CancellationToken) {
        self.timer.run(&self.health, stop).await;
    }

    /// Promotes everything that is due now: what the timer does, for tests with a manual clock.
    ///
    /// # Errors
    /// The store's.
    pub async fn promote_due(&self) -> Result<()> {
        while self.timer.promote().await?.more {}
        Ok(())
    }

    /// Keeps [`store_state`](Self::store_state) up to date until `stop`. Logs when the store becomes unavailable, at
    /// most once a minute while it is, and when it is available again.
    pub async fn watch_store(&self, stop: CancellationToken) {
        self.health.watch(stop).await;
    }

    /// Checks whether the store can take a write: what [`watch_store`](Self::watch_store) does, for tests with a manual
    /// clock.
    pub async fn check_store(&self) {
        self.health.check().await;
    }

    /// Whether the store can take a write, as of the last check. Never waits.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn store_state(&self) -> Result<()> {
        self.health.failure().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Which parts of the store do not work although it takes writes, as of the last check. Never waits.
    #[must_use]
    pub fn degraded(&self) -> Vec<Degraded> {
        self.store.degraded()
    }

    /// Reads the store and the waiting polls into the metrics; the store only if that was not done a moment ago.
    ///
    /// # Errors
    /// The store's, at once where it is known to be unavailable. The metrics of jobs are then absent rather than old.
    pub async fn refresh_metrics(&self) -> Result<()> {
        let parked = self.waiters.parked_by_topic();
        self.metrics.set_parked_polls(parked.iter().map(|(topic, polls)| (topic.as_str(), *polls)));
        if let Some(listener) = self.outlet_listener.get() {
            listener.publish_figures();
        }
        self.scrape.refresh(&self.health).await
    }

    /// Announces the shutdown, so that load balancers send no new clients. Every operation still works.
    pub fn announce_shutdown(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Begins the shutdown: waiting polls are answered with nothing and new ones are refused, bulk operations and
    /// purges stop. Calls that do not wait still work.
    pub fn drain(&self) {
        self.operations.stop_all();
        self.purges.stop_all();
        self.processes.stop();
        self.pauses.stop();
        self.waiters.close();
    }

    /// Whether [`announce_shutdown`](Self::announce_shutdown) or [`drain`](Self::drain) was called.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed) || self.waiters.is_closed()
    }

    /// Waits until dropped deliveries have returned their jobs, then flushes and closes the store.
    ///
    /// # Errors
    /// When the store could not flush.
    pub async fn close(&self) -> Result<()> {
        self.drain();
        self.tasks.close();
        self.tasks.wait().await;
        Ok(self.store.close().await?)
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Name, version and durability of the engine.
    #[must_use]
    pub fn info(&self) -> EngineInfo {
        self.store.info()
    }

    /// Number of polls that are waiting for a job.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiters.waiting()
    }
}
