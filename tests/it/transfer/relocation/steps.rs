//! The steps of a move on real engines, each call of which fails once.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use linger::{
    clock::SystemClock,
    job::{JobId, State},
    metrics::Metrics,
    store::{
        Error, JobRecord, Movable, MoveMark, MoveRole, Put, RecordReader, Result, Store, TopicRecord,
        embedded, redis,
    },
    transfer::{Passed, Place, Relocation, TransferError},
};
use tempfile::TempDir;

use super::super::records;
use crate::harness::{
    records::{all_records, record, topic_record},
    redis::{fresh_prefix, shared},
    stores::{Engine, Recorder, StoreFixture},
};

/// Topics and jobs.
type Content = (Vec<TopicRecord>, Vec<JobRecord>);

/// What a store has. A job that waits counts as ready: its due time says when it is.
async fn content_of(store: &Moving) -> Content {
    let (topics, jobs) = all_records(&*store.store).await;
    (topics, as_ready(jobs))
}

fn as_ready(mut jobs: Vec<JobRecord>) -> Vec<JobRecord> {
    jobs.iter_mut()
        .filter(|job| job.job.state == State::Delayed)
        .for_each(|job| job.job.state = State::Ready);
    jobs
}

/// A store that is open for a move.
struct Moving {
    store: Arc<dyn Store>,
    movable: Arc<dyn Movable>,
    _directory: Option<TempDir>,
}

impl Moving {
    async fn new(engine: Engine) -> Self {
        let listener = Arc::new(Recorder::default());
        let metrics = Metrics::new().engine;
        if engine == Engine::Embedded {
            let directory = tempfile::tempdir().expect("a directory");
            let options =
                embedded::Options { to_move: true, ..embedded::Options::new(directory.path().join("data")) };
            let store = embedded::open(options, Arc::new(SystemClock::new()), listener, metrics).await;
            let store = store.expect("opens");
            return Self { movable: store.clone(), store, _directory: Some(directory) };
        }
        let mut options = redis::Options::new(&shared().url());
        options.prefix = fresh_prefix();
        let store = redis::open_to_move(options, listener, metrics).await.expect("connects");
        Self { movable: store.clone(), store, _directory: None }
    }

    /// Filled with jobs in every state, as before the move began.
    async fn filled(engine: Engine, jobs: usize) -> (Self, Content) {
        let moving = Self::new(engine).await;
        let fixture = StoreFixture::new(Engine::Naive).await;
        let mut content = records(&fixture);
        content.1.truncate(jobs);
        // A store that is open for a move takes changes only behind its fence.
        moving.movable.set_fence(true).await.expect("closes");
        for topic in content.0.clone() {
            moving.movable.replace_topic(topic).await.expect("replaces");
        }
        moving.movable.put(content.1.clone()).await.expect("puts");
        moving.movable.set_fence(false).await.expect("opens");
        (moving, (content.0, as_ready(content.1)))
    }

    async fn role(&self) -> Option<MoveRole> {
        self.movable.move_mark().await.expect("reads").map(|mark| mark.role)
    }

    /// Whether a server may use it.
    async fn may_be_served(&self) -> bool {
        let mark = self.movable.move_mark().await.expect("reads");
        mark.and_then(|mark| mark.forbids()).is_none()
    }

    fn place(&self) -> Place {
        Place { id: self.movable.store_id(), name: "source".to_owned() }
    }
}

/// Fails the call whose number comes, before or after it took effect.
struct Failing {
    inner: Arc<dyn Movable>,
    calls: Arc<AtomicUsize>,
    fails_at: usize,
    takes_effect: bool,
}

impl Failing {
    async fn call<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        if self.calls.fetch_add(1, Ordering::Relaxed) + 1 != self.fails_at {
            return call.await;
        }
        if self.takes_effect {
            call.await?;
        }
        Err(Error::Unavailable("as the test demanded".to_owned()))
    }
}

#[async_trait]
impl Movable for Failing {
    fn store_id(&self) -> String {
        self.inner.store_id()
    }

    async fn move_mark(&self) -> Result<Option<MoveMark>> {
        self.call(self.inner.move_mark()).await
    }

    async fn set_move_mark(&self, was: Option<&MoveMark>, mark: Option<&MoveMark>) -> Result<bool> {
        self.call(self.inner.set_move_mark(was, mark)).await
    }

    async fn set_fence(&self, closed: bool) -> Result<()> {
        self.call(self.inner.set_fence(closed)).await
    }

    async fn records(&self) -> Result<Box<dyn RecordReader>> {
        self.call(self.inner.records()).await
    }

    async fn put(&self, jobs: Vec<JobRecord>) -> Result<Vec<Put>> {
        self.call(self.inner.put(jobs)).await
    }

    async fn delete(&self, ids: Vec<JobId>) -> Result<()> {
        self.call(self.inner.delete(ids)).await
    }

    async fn replace_topic(&self, topic: TopicRecord) -> Result<()> {
        self.call(self.inner.replace_topic(topic)).await
    }
}

fn nothing_named(why: &str) {
    panic!("{why}");
}

async fn copy(source: &Moving, target: &dyn Movable) -> std::result::Result<Passed, TransferError> {
    let relocation = Relocation::new(source.place(), target, "target".to_owned())?;
    relocation.copy(|| source.movable.records(), &mut nothing_named).await
}

async fn complete(
    source: &Moving,
    through: &dyn Movable,
    target: &dyn Movable,
) -> std::result::Result<Option<Passed>, TransferError> {
    let relocation = Relocation::new(source.place(), target, "target".to_owned())?;
    relocation.complete(through, &mut nothing_named).await
}

async fn abandon(source: &Moving, target: &dyn Movable) -> std::result::Result<(), TransferError> {
    Relocation::new(source.place(), target, "target".to_owned())?.abandon(&*source.movable).await
}

const PAIRS: [(Engine, Engine); 4] = [
    (Engine::Embedded, Engine::Redis),
    (Engine::Redis, Engine::Embedded),
    (Engine::Embedded, Engine::Embedded),
    (Engine::Redis, Engine::Redis),
];

#[tokio::test]
async fn every_engine_moves_to_every_other() {
    for (from, to) in PAIRS {
        let (source, (topics, mut jobs)) = Moving::filled(from, 700).await;
        let target = Moving::new(to).await;
        let first = copy(&source, &*target.movable).await.expect("copies");
        assert_eq!((first.jobs, first.topics, first.copied, first.deleted), (700, 2, 702, 0));
        assert!(copy(&source, &*target.movable).await.expect("copies").changed_nothing());
        // What the next pass finds: a job that is gone, one that changed, a new one, and other settings.
        source.movable.set_fence(true).await.expect("closes");
        let gone = jobs.remove(10);
        jobs[20].job.attempts += 1;
        let fixture = StoreFixture::new(Engine::Naive).await;
        jobs.push(record(&fixture, "new"));
        let changed = [jobs[20].clone(), jobs[699].clone()];
        source.movable.delete(vec![gone.job.id, changed[0].job.id.clone()]).await.expect("deletes");
        source.movable.put(changed.to_vec()).await.expect("puts");
        let paused = TopicRecord { topic: topics[1].topic.clone(), ..topic_record("other") };
        source.movable.replace_topic(paused.clone()).await.expect("replaces");
        source.movable.set_fence(false).await.expect("opens");
        let last = complete(&source, &*source.movable, &*target.movable).await.expect("completes");
        let last = last.expect("was not complete");
        assert_eq!((last.jobs, last.topics, last.copied, last.deleted), (700, 2, 3, 1), "{from:?} to {to:?}");
        assert_eq!(
            (source.role().await, target.role().await),
            (Some(MoveRole::Source), Some(MoveRole::Opened))
        );
        jobs.sort_by(|one, other| one.job.id.cmp(&other.job.id));
        assert!(content_of(&target).await == (vec![topics[0].clone(), paused], jobs), "{from:?} to {to:?}");
        target.store.verify().await.expect("reads");
        assert_eq!(complete(&source, &*source.movable, &*target.movable).await.expect("is complete"), None);
        assert!(matches!(abandon(&source, &*target.movable).await, Err(TransferError::Refused(_))));
    }
}

#[tokio::test]
async fn a_failure_at_each_step_leaves_one_store_at_most_and_the_next_run_completes() {
    for (from, to) in PAIRS {
        for takes_effect in [false, true] {
            for of_source in [false, true] {
                let mut fails_at = 1;
                loop {
                    let (source, content) = Moving::filled(from, 35).await;
                    let target = Moving::new(to).await;
                    let calls = Arc::new(AtomicUsize::new(0));
                    let failing = |inner: &Moving, fails: bool| Failing {
                        inner: inner.movable.clone(),
                        calls: if fails { calls.clone() } else { Arc::default() },
                        fails_at: if fails { fails_at } else { 0 },
                        takes_effect,
                    };
                    let (through, target_through) =
                        (failing(&source, of_source), failing(&target, !of_source));
                    let done = complete(&source, &through, &target_through).await;
                    let place = format!("{from:?} to {to:?}, call {fails_at}, {takes_effect}, {of_source}");
                    assert!(
                        !(source.may_be_served().await && target.role().await == Some(MoveRole::Opened)),
                        "{place}"
                    );
                    assert!(
                        !source.may_be_served().await
                            || !target.may_be_served().await
                            || target.role().await.is_none()
                    );
                    if done.is_err() && fails_at % 2 == 0 && abandon(&source, &*target.movable).await.is_ok()
                    {
                        assert!(source.may_be_served().await, "{place}");
                        assert!(!target.may_be_served().await || target.role().await.is_none(), "{place}");
                    }
                    complete(&source, &*source.movable, &*target.movable).await.expect("completes");
                    assert_eq!(target.role().await, Some(MoveRole::Opened), "{place}");
                    assert!(content_of(&target).await == content, "{place}");
                    if calls.load(Ordering::Relaxed) < fails_at {
                        break;
                    }
                    fails_at += 1;
                }
                assert!(fails_at > 2, "{from:?} to {to:?}: {fails_at}");
            }
        }
    }
}

#[tokio::test]
async fn an_abandoned_move_gives_the_source_back_and_may_begin_again() {
    for (from, to) in PAIRS {
        let (source, content) = Moving::filled(from, 35).await;
        let target = Moving::new(to).await;
        copy(&source, &*target.movable).await.expect("copies");
        abandon(&source, &*target.movable).await.expect("is possible");
        assert_eq!((source.role().await, target.role().await), (None, Some(MoveRole::Abandoned)));
        complete(&source, &*source.movable, &*target.movable).await.expect("completes");
        assert!(content_of(&target).await == content);
    }
}

#[tokio::test]
async fn only_an_empty_store_becomes_a_target_and_only_of_one_source() {
    for (from, to) in PAIRS {
        let (source, _) = Moving::filled(from, 35).await;
        let (full, content) = Moving::filled(to, 35).await;
        let refused = copy(&source, &*full.movable).await.expect_err("is not empty").to_string();
        assert_eq!(refused, "target is not empty; a move needs a new store");
        assert_eq!(full.role().await, None);
        assert!(content_of(&full).await == content);
        let target = Moving::new(to).await;
        copy(&source, &*target.movable).await.expect("copies");
        let refused = copy(&full, &*target.movable).await.expect_err("belongs to another").to_string();
        assert_eq!(refused, "target: it takes part in a move from source");
        let refused = copy(&source, &*source.movable).await.expect_err("is the same").to_string();
        assert_eq!(refused, "target is the source itself, or a copy of it");
    }
}

#[tokio::test]
async fn an_earlier_run_changes_nothing_once_a_later_one_has_begun() {
    let (source, _) = Moving::filled(Engine::Embedded, 35).await;
    let target = Moving::new(Engine::Redis).await;
    copy(&source, &*target.movable).await.expect("copies");
    // A second process with the same target.
    let mark = target.movable.move_mark().await.expect("reads").expect("is marked");
    let later = MoveMark { run: "later".to_owned(), ..mark.clone() };
    assert!(target.movable.set_move_mark(Some(&mark), Some(&later)).await.expect("sets"));
    let opening = mark.with_role(MoveRole::Opening);
    assert!(!target.movable.set_move_mark(Some(&mark), Some(&opening)).await.expect("compares"));
    assert_eq!(target.role().await, Some(MoveRole::Target));
}
