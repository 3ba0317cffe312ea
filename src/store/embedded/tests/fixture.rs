//! The fixture of the tests: an engine in a directory of its own, on a manual clock.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use crate::{
    clock::ManualClock,
    job::{
        Attributes, Body, Delay, Due, Fingerprint, History, JobId, JobSpec, Outlet, Timestamp, Topic,
        TopicFilter,
    },
    metrics::Metrics,
    store::{
        AddJob, Added, Claim, FinishJob, IfExists, Listener, Move, Reservation, Store, Wait,
        embedded::{
            EmbeddedStore, OpenError, Options, open,
            rows::codec::{Record, RecordHead},
            tests::snapshot::assert_consistent,
        },
    },
};

pub use crate::store::DeleteRule;

/// The scope of a caller who may use every topic.
pub const ALL: &TopicFilter = &TopicFilter::ALL;
pub const START_MS: i64 = 1_800_000_000_000;

pub struct Fixture {
    pub dir: tempfile::TempDir,
    pub clock: Arc<ManualClock>,
    pub metrics: Metrics,
    pub options: Options,
}

#[derive(Debug, Default)]
pub struct NoopListener;

impl Listener for NoopListener {
    fn ready(&self, _: &Outlet) {}

    fn due_in(&self, _: Duration) {}

    fn promoted(&self, _: &[Move]) {}
}

impl Fixture {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut options = Options::new(dir.path());
        options.durability = crate::store::embedded::Durability::Os;
        (options.min_free_bytes, options.ballast_bytes) = (0, 0);
        options.promotes_by_itself = false;
        let clock = ManualClock::new(Timestamp::from_millis(START_MS));
        Self { dir, clock, metrics: Metrics::new(), options }
    }

    /// A fixture whose store wants 500 bytes free on its disk; and how many are free, at first 1,000.
    pub fn on_a_small_disk() -> (Self, Arc<AtomicU64>) {
        let (mut fixture, free) = (Self::new(), Arc::new(AtomicU64::new(1_000)));
        fixture.options.min_free_bytes = 500;
        fixture.options.free_space = Arc::new({
            let free = free.clone();
            move |_| Ok(free.load(Ordering::Relaxed))
        });
        (fixture, free)
    }

    pub async fn open(&self) -> Arc<EmbeddedStore> {
        self.try_open().await.expect("opens")
    }

    pub async fn try_open(&self) -> Result<Arc<EmbeddedStore>, OpenError> {
        open(self.options.clone(), self.clock.clone(), Arc::new(NoopListener), self.metrics.engine.clone())
            .await
    }

    /// The same files as a crash at this moment would leave them, in a directory of their own.
    pub fn crashed(&self) -> Self {
        let copy = Self::new();
        for name in ["linger.db", "linger.db-wal"] {
            std::fs::copy(self.dir.path().join(name), copy.dir.path().join(name)).expect("copies");
        }
        copy
    }

    pub fn set_aside(&self) -> u64 {
        let text = self.metrics.encode();
        let line = text.lines().find(|line| line.starts_with("linger_store_set_aside_total "));
        let count = line.and_then(|line| line.rsplit(' ').next()).expect("the figure is there");
        count.parse().expect("is a number")
    }
}

pub fn id(name: &str) -> JobId {
    JobId::parse(name).expect("valid")
}

pub fn topic(name: &str) -> Topic {
    Topic::parse(name).expect("valid")
}

pub fn after(delay: Duration) -> Due {
    Due::After(Delay::new(delay).expect("valid"))
}

pub fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A job of topic `t` that is ready at once.
pub fn job(name: &str) -> AddJob {
    AddJob {
        id: id(name),
        topic: topic("t"),
        due: Due::default(),
        spec: JobSpec { max_attempts: 0, ..JobSpec::default() },
        fingerprint: Fingerprint([1; 16]),
        is_paused: false,
        if_exists: IfExists::Keep,
        body: Body::from_stored(format!("\"body of {name}\"").into()),
    }
}

pub fn delayed(name: &str, wait: Duration) -> AddJob {
    AddJob { due: after(wait), ..job(name) }
}

/// Adds new jobs.
pub async fn add(store: &EmbeddedStore, jobs: impl IntoIterator<Item = AddJob>) {
    let added = store.add(jobs.into_iter().collect()).await.expect("adds");
    assert!(added.iter().all(|added| matches!(added, Ok(Added::Created(_)))), "{added:?}");
}

pub async fn reserve(store: &EmbeddedStore, most: usize) -> Vec<Reservation> {
    store
        .reserve(&Outlet::plain(topic("t")), &vec![Claim::default(); most], Wait::No)
        .await
        .expect("reserves")
}

pub fn names(reservations: &[Reservation]) -> Vec<&str> {
    reservations.iter().map(|reservation| reservation.job.id.as_str()).collect()
}

pub async fn finish(store: &EmbeddedStore, held: &Reservation) {
    let request = FinishJob { id: held.job.id.clone(), receipt: Some(held.receipt.clone()) };
    let finished = store.finish(ALL, vec![request]).await.expect("answers");
    assert!(matches!(finished[..], [Ok(_)]), "{finished:?}");
}

/// Asserts that memory and disk agree.
pub async fn consistent(store: &EmbeddedStore) {
    store
        .run(|txn| {
            assert!(!txn.db.in_transaction());
            assert_consistent(txn.memory, txn.db, txn.now);
            Ok(())
        })
        .await
        .expect("is consistent");
}

/// Blocks the writer until it is dropped, so that the calls made meanwhile become one group.
pub struct Gate {
    held: Mutex<Option<mpsc::Sender<()>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Gate {
    pub async fn close(store: &Arc<EmbeddedStore>) -> Self {
        let (open, opened) = mpsc::channel::<()>();
        let (enter, entered) = tokio::sync::oneshot::channel();
        let store = store.clone();
        let task = tokio::spawn(async move {
            let mut enter = Some(enter);
            let held = store.run(move |_| {
                let enter = enter.take().expect("runs once");
                enter.send(()).expect("`Gate::close` waits");
                // Returns when the sender is dropped.
                let _ = opened.recv();
                Ok(())
            });
            held.await.expect("answers");
        });
        entered.await.expect("the writer has come");
        Self { held: Mutex::new(Some(open)), task }
    }

    pub async fn open(self) {
        drop(self.held.lock().expect("not poisoned").take());
        self.task.await.expect("the writer went on");
    }
}

/// Runs SQL on the engine's own connection.
pub async fn sql(store: &EmbeddedStore, text: &str) {
    let text = text.to_owned();
    store.run(move |txn| txn.db.conn().execute_batch(&text)).await.expect("runs");
}

/// Length of a file of the store.
pub fn length(dir: &Path, name: &str) -> u64 {
    std::fs::metadata(dir.join(name)).expect("is there").len()
}

/// A record as `name`'s job would have it when it was added for `due_at`.
pub fn record(name: &str, due_at: Timestamp) -> Record {
    let job = job(name);
    let head = RecordHead {
        id: job.id,
        topic: job.topic,
        due_at,
        created_at: due_at,
        expires_at: None,
        spec: job.spec,
        attempts: 0,
        fingerprint: job.fingerprint,
        reason: None,
        dead_at: None,
        history: History::default(),
        host: None,
        other: Attributes::default(),
    };
    Record { head, body: job.body }
}
