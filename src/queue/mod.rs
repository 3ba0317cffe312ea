//! The queue: what a delay queue does, above any engine and below any protocol.
//!
//! Validation of values is `job`'s, atomic steps are `store`'s; here are the limits, the parked polls,
//! the timer and the figures. Knows no HTTP and no JSON.

mod delivery;
mod error;
mod health;
mod jobs;
mod limits;
mod pop;
mod scrape;
mod timer;
mod topics;
mod waiters;

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio_util::task::TaskTracker;

pub use delivery::Delivery;
pub use error::Error;
pub use jobs::AddOutcome;
pub use limits::Limits;
pub use pop::Pop;
pub use topics::TopicView;

pub use crate::store::{
    DeadCursor, Degraded, EngineInfo, FinishJob, Patch, Release, Reservation, TopicConfig, TopicStats,
};
use crate::{
    clock::Clock,
    job::Topic,
    metrics::QueueMetrics,
    store::{Listener, Metered, Store},
};
use delivery::Giver;
use health::StoreHealth;
use timer::Nudge;
use waiters::Waiters;

/// Result of a queue operation.
pub type Result<T> = std::result::Result<T, Error>;

/// One delay queue over one store, shared by all who serve it.
#[derive(Debug)]
pub struct Queue {
    store: Arc<dyn Store>,
    waiters: Arc<Waiters>,
    nudge: Nudge,
    health: StoreHealth,
    clock: Arc<dyn Clock>,
    limits: Limits,
    metrics: QueueMetrics,
    /// Whether the end was announced.
    ending: AtomicBool,
    tasks: TaskTracker,
    reading: scrape::LastReading,
}

/// The listener to open a store with, before there is a queue; hints that come earlier are dropped,
/// since nobody waits yet.
#[derive(Debug, Default)]
pub struct Hints {
    queue: OnceLock<Weak<Queue>>,
}

impl Hints {
    fn queue(&self) -> Option<Arc<Queue>> {
        self.queue.get().and_then(Weak::upgrade)
    }
}

impl Listener for Hints {
    fn ready(&self, topic: &Topic) {
        if let Some(queue) = self.queue() {
            queue.waiters.hint(topic);
        }
    }

    fn due_in(&self, after: Duration) {
        if let Some(queue) = self.queue() {
            queue.nudge.due_in(&*queue.clock, after);
        }
    }
}

impl Queue {
    /// A queue over `store`, which was opened with `hints`. Call within a tokio runtime; run
    /// [`run_timer`](Self::run_timer) and [`watch_store`](Self::watch_store) beside it.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        hints: &Hints,
        clock: Arc<dyn Clock>,
        limits: Limits,
        metrics: QueueMetrics,
    ) -> Arc<Self> {
        limits.publish(&metrics);
        let health = StoreHealth::new();
        let metered = Metered::new(store, clock.clone(), metrics.clone(), health.failed());
        let store: Arc<dyn Store> = Arc::new(metered);
        let tasks = TaskTracker::new();
        let giver = Arc::new(Giver {
            store: store.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
            tasks: tasks.clone(),
            runtime: tokio::runtime::Handle::current(),
        });
        let queue = Arc::new(Self {
            store,
            waiters: Waiters::new(giver, limits.max_waiting),
            nudge: Nudge::new(),
            health,
            clock,
            limits,
            metrics,
            ending: AtomicBool::new(false),
            tasks,
            reading: scrape::LastReading::default(),
        });
        // A second queue on the same hints would be a mistake of the caller; the first one stays.
        let _ = hints.queue.set(Arc::downgrade(&queue));
        queue
    }

    /// Says that the end is near, so that load balancers send nobody new. Everything still works.
    pub fn announce_end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// Begins the end: every parked poll is answered with nothing, new ones are refused. Calls that
    /// do not wait still work.
    pub fn drain(&self) {
        self.waiters.close();
    }

    /// Whether [`announce_end`](Self::announce_end) or [`drain`](Self::drain) was called.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.ending.load(Ordering::Relaxed) || self.waiters.is_closed()
    }

    /// Waits until jobs on their way back are back, then flushes and closes the store.
    ///
    /// # Errors
    /// When the store could not flush.
    pub async fn close(&self) -> Result<()> {
        self.drain();
        self.tasks.close();
        self.tasks.wait().await;
        Ok(self.store.close().await?)
    }

    /// What of the store does not work at the moment although it takes writes, as of the last check. Never waits.
    #[must_use]
    pub fn degraded(&self) -> Vec<Degraded> {
        self.store.degraded()
    }

    /// The bounds in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How the engine presents itself.
    #[must_use]
    pub fn info(&self) -> EngineInfo {
        self.store.info()
    }

    /// Long polls parked at the moment.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiters.waiting()
    }
}
