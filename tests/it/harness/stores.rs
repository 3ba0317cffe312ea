//! Engines to test: each on a manual clock, with a listener that records.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use linger::{
    clock::{Clock, ManualClock},
    job::{Timestamp, Topic},
    metrics::Metrics,
    store::{Listener, Store, embedded, redis},
};

use super::{cluster, naive::Naive, redis as redis_server};

/// The engine to test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The naive model in memory, which checks the suite itself.
    Naive,
    Embedded,
    Redis,
    /// The Redis engine on a Cluster.
    Cluster,
}

/// A listener that records its notifications.
#[derive(Debug, Default)]
pub struct Recorder {
    ready: Mutex<Vec<Topic>>,
    due_in: Mutex<Vec<Duration>>,
}

impl Recorder {
    /// Topics announced since the last call.
    pub fn take_ready(&self) -> Vec<Topic> {
        std::mem::take(&mut self.ready.lock().expect("not poisoned"))
    }

    /// Deadlines announced since the last call.
    pub fn take_due_in(&self) -> Vec<Duration> {
        std::mem::take(&mut self.due_in.lock().expect("not poisoned"))
    }
}

impl Listener for Recorder {
    fn ready(&self, topic: &Topic) {
        self.ready.lock().expect("not poisoned").push(topic.clone());
    }

    fn due_in(&self, after: Duration) {
        self.due_in.lock().expect("not poisoned").push(after);
    }
}

/// Settings that differ from an engine's defaults.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub dead_retention: Option<Duration>,
}

/// An engine under test.
pub struct Bench {
    pub store: Arc<dyn Store>,
    /// The same store, for the verification after the case.
    last: Arc<Mutex<Arc<dyn Store>>>,
    pub clock: Arc<ManualClock>,
    pub heard: Arc<Recorder>,
    home: Home,
    settings: Settings,
}

/// Where an engine keeps its data; outlives the engine, so that it can be opened again.
#[derive(Clone)]
enum Home {
    Naive(Arc<Naive>),
    Directory(Arc<tempfile::TempDir>),
    Prefix(redis::Mode, String),
}

/// The moment at which every test begins.
pub const START: &str = "2026-11-21T05:40:00.000Z";

impl Bench {
    pub async fn new(engine: Engine) -> Self {
        Self::with(engine, Settings::default()).await
    }

    pub async fn with(engine: Engine, settings: Settings) -> Self {
        let clock = ManualClock::new(Timestamp::parse(START).expect("a moment"));
        let heard = Arc::new(Recorder::default());
        let listener: Arc<dyn Listener> = heard.clone();
        let home = home(engine, &settings, &clock, &listener);
        let store = open(&home, &settings, &clock, &listener).await;
        let last = Arc::new(Mutex::new(store.clone()));
        Self { store, last, clock, heard, home, settings }
    }

    /// Runs a case on a new engine, and verifies the engine afterwards.
    pub async fn run<F: Future<Output = ()>>(engine: Engine, case: impl FnOnce(Self) -> F) {
        Self::run_with(engine, Settings::default(), case).await;
    }

    /// The same with settings.
    pub async fn run_with<F: Future<Output = ()>>(
        engine: Engine,
        settings: Settings,
        case: impl FnOnce(Self) -> F,
    ) {
        let bench = Self::with(engine, settings).await;
        let (last, _home) = (bench.last.clone(), bench.home.clone());
        case(bench).await;
        let store = last.lock().expect("not poisoned").clone();
        verified(&*store).await;
    }

    /// Verifies the engine.
    pub async fn verify(&self) {
        verified(&*self.store).await;
    }

    /// Closes the engine and opens it again on the same data.
    pub async fn reopen(&mut self) {
        self.verify().await;
        self.store.close().await.expect("closes");
        let listener: Arc<dyn Listener> = self.heard.clone();
        self.store = open(&self.home, &self.settings, &self.clock, &listener).await;
        *self.last.lock().expect("not poisoned") = self.store.clone();
    }

    /// Advances the clock and promotes every due job.
    pub async fn pass(&self, time: Duration) {
        self.clock.advance(time);
        super::jobs::promote(&*self.store).await;
    }

    /// Whether the engine may announce a topic with ready jobs again without a change, as the sweep of Redis does.
    pub fn repeats_announcements(&self) -> bool {
        matches!(self.home, Home::Prefix(..))
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// Asserts that a verification finds nothing.
async fn verified(store: &dyn Store) {
    let found = store.verify().await.expect("reads");
    assert_eq!(found.faults, [""; 0], "{found:?}");
}

/// An engine opened for a listener of the caller's, with the place where it keeps its data.
pub struct Opened {
    pub store: Arc<dyn Store>,
    _home: Home,
}

impl Opened {
    pub async fn new(engine: Engine, clock: &Arc<ManualClock>, listener: Arc<dyn Listener>) -> Self {
        let settings = Settings::default();
        let home = home(engine, &settings, clock, &listener);
        Self { store: open(&home, &settings, clock, &listener).await, _home: home }
    }
}

fn home(engine: Engine, settings: &Settings, clock: &Arc<ManualClock>, heard: &Arc<dyn Listener>) -> Home {
    match engine {
        Engine::Naive => Home::Naive(Naive::new(clock.clone(), heard.clone(), settings.dead_retention)),
        Engine::Embedded => Home::Directory(Arc::new(tempfile::tempdir().expect("a directory"))),
        Engine::Redis => {
            let mode = redis::Options::new(&redis_server::shared().url()).mode;
            Home::Prefix(mode, redis_server::fresh_prefix())
        }
        Engine::Cluster => {
            let mode = redis::Mode::Cluster(cluster::shared().nodes());
            Home::Prefix(mode, redis_server::fresh_prefix())
        }
    }
}

async fn open(
    home: &Home,
    settings: &Settings,
    clock: &Arc<ManualClock>,
    heard: &Arc<dyn Listener>,
) -> Arc<dyn Store> {
    let metrics = Metrics::new().engine;
    match home {
        Home::Naive(naive) => naive.clone(),
        Home::Directory(directory) => {
            let mut options = embedded::Options::new(directory.path());
            options.dead_retention = settings.dead_retention;
            // Crash safety has tests of its own; here thousands of cases need not wait for the disk.
            options.durability = embedded::Durability::Os;
            embedded::open(options, clock.clone(), heard.clone(), metrics).await.expect("opens")
        }
        Home::Prefix(mode, prefix) => {
            let mut options = redis::Options { mode: mode.clone(), ..redis::Options::default() };
            // However slow the machine, every server counts as prompt: the laws hold for those that answer.
            options.prompt_timeout = std::time::Duration::from_secs(60);
            options.prefix.clone_from(prefix);
            options.dead_retention = settings.dead_retention;
            let time = redis::TimeSource::Manual(clock.clone());
            redis::connect(options, time, heard.clone(), metrics).await.expect("connects")
        }
    }
}
