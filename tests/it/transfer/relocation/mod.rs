//! Moves of a store to another one: the steps on real engines, with a failure or a pause at each call, and `linger move` from
//! outside.

mod disturbance;
mod disturbed;
mod failovers;
mod program;
mod steps;

use std::sync::Arc;

use linger::{
    clock::{Clock, SystemClock},
    job::{JobState, State},
    metrics::Metrics,
    store::{
        JobRecord, Movable, MoveRole, ScheduleUpdates, Store, StoredSchedule, TopicRecord, TopicUpdates,
        embedded, redis,
    },
    transfer::{self, NamedStore, PassReport, Relocation, TransferError},
};
use tempfile::TempDir;

use super::records;
use crate::harness::{
    records::{all_records, all_schedules, remembered, schedules},
    redis::{fresh_prefix, shared},
    stores::{Engine, Recorder, StoreFixture},
};

const PAIRS: [(Engine, Engine); 4] = [
    (Engine::Embedded, Engine::Redis),
    (Engine::Redis, Engine::Embedded),
    (Engine::Embedded, Engine::Embedded),
    (Engine::Redis, Engine::Redis),
];

/// Topics, jobs and schedules.
type Content = (Vec<TopicRecord>, Vec<JobRecord>, Vec<StoredSchedule>);

/// What a store has. A job that waits counts as ready: its due time says when it is.
async fn content_of(store: &Moving) -> Content {
    let (topics, jobs) = all_records(&*store.store).await;
    (topics, as_ready(jobs), all_schedules(&*store.store).await)
}

fn as_ready(mut jobs: Vec<JobRecord>) -> Vec<JobRecord> {
    jobs.iter_mut()
        .filter(|job| job.job.state() == State::Delayed)
        .for_each(|job| job.job.state = JobState::Ready);
    jobs
}

/// A new place on Redis.
fn place_on_redis() -> redis::Options {
    redis::Options { prefix: fresh_prefix(), ..redis::Options::new(&shared().url()) }
}

/// A store that is open for a move.
struct Moving {
    store: Arc<dyn Store>,
    movable: Arc<dyn Movable>,
    _directory: Option<TempDir>,
}

impl Moving {
    async fn new(engine: Engine) -> Self {
        if engine == Engine::Redis {
            return Self::at(&place_on_redis()).await;
        }
        let listener = Arc::new(Recorder::default());
        let metrics = Metrics::new().engine;
        let directory = tempfile::tempdir().expect("a directory");
        let options =
            embedded::Options { to_move: true, ..embedded::Options::new(directory.path().join("data")) };
        let store = embedded::open(options, Arc::new(SystemClock::new()), listener, metrics).await;
        let store = store.expect("opens");
        Self { movable: store.clone(), store, _directory: Some(directory) }
    }

    /// Another process with a store on Redis.
    async fn at(options: &redis::Options) -> Self {
        let (listener, metrics) = (Arc::new(Recorder::default()), Metrics::new().engine);
        let store = redis::open_offline(redis::OpenMode::Target, options.clone(), listener, metrics)
            .await
            .expect("connects");
        Self { movable: store.clone(), store, _directory: None }
    }

    /// Filled with jobs in every state, as before the move began.
    async fn filled(engine: Engine, jobs: usize) -> (Self, Content) {
        Self::new(engine).await.fill(jobs).await
    }

    async fn fill(self, jobs: usize) -> (Self, Content) {
        let moving = self;
        let fixture = StoreFixture::new(Engine::Naive).await;
        let (topics, jobs) = records(&fixture, jobs);
        let schedules = schedules(&fixture);
        // A store that is open for a move takes changes only behind its fence.
        moving.set_fence(true).await;
        for topic in topics.clone() {
            moving.movable.replace_topic(topic).await.expect("replaces");
        }
        moving.movable.put(jobs.clone()).await.expect("puts");
        let stored = schedules.iter().map(|stored| (stored.name.clone(), Some(stored.content.clone())));
        moving.movable.replace_schedules(stored.collect()).await.expect("replaces");
        moving.movable.put_remembered(remembered(SystemClock::new().now())).await.expect("puts");
        moving.set_fence(false).await;
        (moving, (topics, as_ready(jobs), schedules))
    }

    async fn set_fence(&self, closed: bool) {
        assert!(self.movable.set_fence(0, closed).await.expect("answers"));
    }

    async fn role(&self) -> Option<MoveRole> {
        self.movable.move_mark().await.expect("reads").map(|mark| mark.role)
    }

    /// Whether a server may use it.
    async fn may_be_served(&self) -> bool {
        let mark = self.movable.move_mark().await.expect("reads");
        mark.and_then(|mark| mark.forbids()).is_none()
    }

    fn place(&self) -> NamedStore {
        NamedStore { id: self.movable.store_id(), name: "source".to_owned() }
    }
}

fn nothing_named(why: &str) {
    panic!("{why}");
}

async fn copy(source: &Moving, target: &dyn Movable) -> std::result::Result<PassReport, TransferError> {
    let relocation = Relocation::new(source.place(), target, "target".to_owned())?;
    let mark = source.movable.move_mark().await.expect("reads");
    let clocks = source.movable.clock_offsets().await.expect("reads");
    relocation.copy(mark.as_ref(), clocks, || source.movable.records(), &mut nothing_named).await
}

async fn complete(
    source: &Moving,
    through: &dyn Movable,
    target: &dyn Movable,
) -> std::result::Result<Option<PassReport>, TransferError> {
    let relocation = Relocation::new(source.place(), target, "target".to_owned())?;
    relocation.complete(through, false, &mut nothing_named).await
}

async fn abandon(source: &Moving) -> std::result::Result<bool, TransferError> {
    transfer::abandon(&*source.movable, "source").await
}
