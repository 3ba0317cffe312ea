//! Engines to test: each on a manual clock, with a listener that records.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use linger::{
    clock::{Clock, ManualClock},
    job::{Outlet, Timestamp},
    metrics::Metrics,
    store::{Listener, Move, Store, embedded, redis},
};

use super::{cluster, naive::Naive, redis as redis_server};

/// The engine to test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The naive model in memory, by which the suite itself is checked.
    Naive,
    Embedded,
    Redis,
    /// The Redis engine on a Cluster.
    Cluster,
}

/// A listener that records its notifications.
#[derive(Debug, Default)]
pub struct Recorder {
    ready: Mutex<Vec<Outlet>>,
    due_in: Mutex<Vec<Duration>>,
    watched: AtomicUsize,
}

impl Recorder {
    /// Outlets announced since the last call.
    pub fn take_ready(&self) -> Vec<Outlet> {
        std::mem::take(&mut self.ready.lock().expect("not poisoned"))
    }

    /// How often it was notified of viewers since the last call.
    pub fn take_watched(&self) -> usize {
        self.watched.swap(0, Ordering::Relaxed)
    }

    /// Deadlines announced since the last call.
    pub fn take_due_in(&self) -> Vec<Duration> {
        std::mem::take(&mut self.due_in.lock().expect("not poisoned"))
    }
}

impl Listener for Recorder {
    fn ready(&self, outlet: &Outlet) {
        self.ready.lock().expect("not poisoned").push(outlet.clone());
    }

    fn due_in(&self, after: Duration) {
        self.due_in.lock().expect("not poisoned").push(after);
    }

    fn promoted(&self, _: &[Move]) {}

    fn watched(&self) {
        self.watched.fetch_add(1, Ordering::Relaxed);
    }
}

/// Settings that differ from an engine's defaults.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub dead_retention: Option<Duration>,
    /// Most ids that are remembered.
    pub dedup_max: Option<u64>,
    /// Number of shards of a Redis.
    pub shards: Option<u16>,
    /// Whether the embedded engine promotes by itself; otherwise the case decides when jobs are promoted.
    pub promotes_by_itself: bool,
}

/// An engine under test.
pub struct StoreFixture {
    pub store: Arc<dyn Store>,
    /// More engines on the same data, each as another process would have it.
    others: Vec<Arc<dyn Store>>,
    /// The same store, for the verification after the case.
    verified_store: Arc<Mutex<Arc<dyn Store>>>,
    pub clock: Arc<ManualClock>,
    pub notifications: Arc<Recorder>,
    data: Data,
    settings: Settings,
}

/// Where an engine stores its data. It outlives the engine, so that the engine can be opened again.
#[derive(Clone)]
enum Data {
    Naive(Arc<Naive>),
    Directory(Arc<tempfile::TempDir>),
    Prefix(redis::Mode, String),
}

/// The moment at which every test begins.
pub const START: &str = "2026-11-21T05:40:00.000Z";

impl StoreFixture {
    pub async fn new(engine: Engine) -> Self {
        Self::with(engine, Settings::default()).await
    }

    pub async fn with(engine: Engine, settings: Settings) -> Self {
        let clock = ManualClock::new(Timestamp::parse(START).expect("START is a timestamp"));
        let notifications = Arc::new(Recorder::default());
        let listener: Arc<dyn Listener> = notifications.clone();
        let data = new_data(engine, &settings, &clock, &listener);
        let store = open(&data, &settings, &clock, &listener).await;
        let verified_store = Arc::new(Mutex::new(store.clone()));
        Self { store, others: Vec::new(), verified_store, clock, notifications, data, settings }
    }

    /// Runs a case on a new engine, and verifies the engine afterwards.
    pub async fn run<F: Future<Output = ()>>(engine: Engine, case: impl FnOnce(Self) -> F) {
        Self::run_with(engine, Settings::default(), case).await;
    }

    /// Like [`run`](Self::run), with settings.
    pub async fn run_with<F: Future<Output = ()>>(
        engine: Engine,
        settings: Settings,
        case: impl FnOnce(Self) -> F,
    ) {
        let fixture = Self::with(engine, settings).await;
        let (verified_store, _data) = (fixture.verified_store.clone(), fixture.data.clone());
        case(fixture).await;
        let store = verified_store.lock().expect("not poisoned").clone();
        assert_verified(&*store).await;
    }

    /// Verifies the engine.
    pub async fn verify(&self) {
        assert_verified(&*self.store).await;
    }

    /// Closes the engine and opens it again on the same data.
    pub async fn reopen(&mut self) {
        self.verify().await;
        self.store.close().await.expect("closes");
        self.open().await;
    }

    /// Leaves the engine as a crash does, and opens it on what the crash leaves: the files of the embedded engine as
    /// they are while it is open. On Redis only the process is lost.
    pub async fn crash(&mut self) {
        if let Data::Directory(directory) = &self.data {
            let copy = tempfile::tempdir().expect("a directory");
            for name in ["linger.db", "linger.db-wal"] {
                std::fs::copy(directory.path().join(name), copy.path().join(name)).expect("copies");
            }
            self.data = Data::Directory(Arc::new(copy));
        }
        self.open().await;
    }

    /// Puts an engine that is opened now in the place of the present one.
    async fn open(&mut self) {
        self.store = self.opened().await;
        *self.verified_store.lock().expect("not poisoned") = self.store.clone();
    }

    async fn opened(&self) -> Arc<dyn Store> {
        let listener: Arc<dyn Listener> = self.notifications.clone();
        open(&self.data, &self.settings, &self.clock, &listener).await
    }

    /// Opens more engines on the same data, if other processes may use it, too.
    pub async fn open_others(&mut self, count: usize) {
        if matches!(self.data, Data::Prefix(..)) {
            for _ in 0..count {
                self.others.push(self.opened().await);
            }
        }
    }

    /// Uses another of the engines: the same one for the same `choice`.
    pub fn switch(&mut self, choice: usize) {
        let index = choice % (self.others.len() + 1);
        if let Some(other) = self.others.get_mut(index) {
            std::mem::swap(&mut self.store, other);
        }
    }

    /// Every engine on the data.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Store>> {
        std::iter::once(&self.store).chain(&self.others)
    }

    /// Advances the clock and promotes every due job.
    pub async fn advance_and_promote(&self, time: Duration) {
        self.clock.advance(time);
        super::jobs::promote(&*self.store).await;
    }

    /// Whether the engine may announce a topic with ready jobs again without a change, as the sweep of Redis does.
    pub fn repeats_announcements(&self) -> bool {
        matches!(self.data, Data::Prefix(..))
    }

    /// Whether a list has ready jobs exactly in the order of their due times. Redis has them in the order in which they
    /// became ready, shard by shard.
    pub fn orders_ready_jobs(&self) -> bool {
        !matches!(self.data, Data::Prefix(..))
    }

    /// Whether the engine knows after a start when jobs became ready.
    pub fn keeps_ready_times(&self) -> bool {
        !matches!(self.data, Data::Directory(..))
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// Asserts that a verification finds no fault.
async fn assert_verified(store: &dyn Store) {
    let found = store.verify().await.expect("the store is verified");
    assert_eq!(found.faults, [""; 0], "{found:?}");
}

/// An engine that notifies the caller's listener, with its data.
pub struct Opened {
    pub store: Arc<dyn Store>,
    _data: Data,
}

impl Opened {
    pub async fn new(
        engine: Engine,
        settings: Settings,
        clock: &Arc<ManualClock>,
        listener: Arc<dyn Listener>,
    ) -> Self {
        let data = new_data(engine, &settings, clock, &listener);
        Self { store: open(&data, &settings, clock, &listener).await, _data: data }
    }
}

fn new_data(
    engine: Engine,
    settings: &Settings,
    clock: &Arc<ManualClock>,
    listener: &Arc<dyn Listener>,
) -> Data {
    match engine {
        Engine::Naive => Data::Naive(Naive::new(clock.clone(), listener.clone(), settings.dead_retention)),
        Engine::Embedded => Data::Directory(Arc::new(tempfile::tempdir().expect("a directory"))),
        Engine::Redis => {
            let mode = redis::Options::new(&redis_server::shared().url()).mode;
            Data::Prefix(mode, redis_server::fresh_prefix())
        }
        Engine::Cluster => {
            let mode = redis::Mode::Cluster(cluster::shared().nodes());
            Data::Prefix(mode, redis_server::fresh_prefix())
        }
    }
}

async fn open(
    data: &Data,
    settings: &Settings,
    clock: &Arc<ManualClock>,
    listener: &Arc<dyn Listener>,
) -> Arc<dyn Store> {
    let metrics = Metrics::new().engine;
    match data {
        Data::Naive(naive) => naive.clone(),
        Data::Directory(directory) => {
            let mut options = embedded::Options::new(directory.path());
            options.dead_retention = settings.dead_retention;
            options.dedup_max = settings.dedup_max.unwrap_or(options.dedup_max);
            // Thousands of cases need not wait for the disk, because crash safety has tests of its own.
            options.durability = embedded::Durability::Os;
            options.promotes_by_itself = settings.promotes_by_itself;
            embedded::open(options, clock.clone(), listener.clone(), metrics).await.expect("opens")
        }
        Data::Prefix(mode, prefix) => {
            let mut options = redis::Options { mode: mode.clone(), ..redis::Options::default() };
            // Every server counts as prompt, even on a slow machine, because the laws apply to servers that answer.
            options.prompt_timeout = std::time::Duration::from_secs(60);
            options.prefix.clone_from(prefix);
            options.shards = settings.shards;
            options.dead_retention = settings.dead_retention;
            options.dedup_max = settings.dedup_max.unwrap_or(options.dedup_max);
            let time = redis::TimeSource::Manual(clock.clone());
            redis::connect(options, time, listener.clone(), metrics).await.expect("connects")
        }
    }
}
