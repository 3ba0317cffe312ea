//! Moves with a failure or a pause at each call of either store.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use linger::{
    job::JobId,
    metrics::Metrics,
    store::{
        ClockOffsets, Error, JobRecord, Movable, MoveMark, MoveRole, Put, RecordReader, Result, Store,
        TopicRecord, redis,
    },
    transfer::Relocation,
};
use tokio::sync::Notify;

use super::{Moving, PAIRS, abandon, complete, content_of, copy, nothing_named};
use crate::harness::{
    jobs::*,
    redis::{fresh_prefix, shared},
    stores::{Engine, Recorder},
};

/// Calls of the source in a last pass that finds nothing to copy, up to the one that decides.
const SOURCE_CALLS_UNTIL_MOVED: usize = 6;

/// What happens to a call.
enum Disturbance {
    /// It fails and has no effect.
    FailsBefore,
    /// It fails after it took effect.
    FailsAfter,
    /// It waits until it is resumed.
    Halts { halted: Notify, resumed: Notify },
}

/// A store of which one call is disturbed.
struct Disturbed {
    inner: Arc<dyn Movable>,
    calls: AtomicUsize,
    /// The number of that call, from 1.
    at: usize,
    how: Disturbance,
}

impl Disturbed {
    fn new(inner: &Moving, at: usize, how: Disturbance) -> Self {
        Self { inner: inner.movable.clone(), calls: AtomicUsize::new(0), at, how }
    }

    /// Whether there were fewer calls.
    fn was_undisturbed(&self) -> bool {
        self.calls.load(Ordering::Relaxed) < self.at
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        if self.calls.fetch_add(1, Ordering::Relaxed) + 1 != self.at {
            return call.await;
        }
        match &self.how {
            Disturbance::FailsBefore => {}
            Disturbance::FailsAfter => drop(call.await?),
            Disturbance::Halts { halted, resumed } => {
                halted.notify_one();
                resumed.notified().await;
                return call.await;
            }
        }
        Err(Error::Unavailable("as the test demanded".to_owned()))
    }
}

#[async_trait]
impl Movable for Disturbed {
    fn store_id(&self) -> String {
        self.inner.store_id()
    }

    async fn clock_offsets(&self) -> Result<ClockOffsets> {
        self.inner.clock_offsets().await
    }

    async fn move_mark(&self) -> Result<Option<MoveMark>> {
        self.call(self.inner.move_mark()).await
    }

    async fn set_move_mark(&self, was: Option<&MoveMark>, mark: &MoveMark) -> Result<bool> {
        self.call(self.inner.set_move_mark(was, mark)).await
    }

    async fn set_fence(&self, number: u64, closed: bool) -> Result<bool> {
        self.call(self.inner.set_fence(number, closed)).await
    }

    async fn wait_for_replicas(&self) -> Result<()> {
        self.call(self.inner.wait_for_replicas()).await
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

/// A last pass fails at one call; then it is abandoned if that is possible, and completed by the next run. Returns whether
/// there were fewer calls.
async fn fail_at(at: usize, (from, to): (Engine, Engine), takes_effect: bool, of_source: bool) -> bool {
    let (source, content) = Moving::filled(from, 35).await;
    let target = Moving::new(to).await;
    let how = if takes_effect { Disturbance::FailsAfter } else { Disturbance::FailsBefore };
    let failing = Disturbed::new(if of_source { &source } else { &target }, at, how);
    let done = if of_source {
        complete(&source, &failing, &*target.movable).await
    } else {
        complete(&source, &*source.movable, &failing).await
    };
    let place = format!("{from:?} to {to:?}, call {at}, {takes_effect}, {of_source}");
    // The target has no mark before it is touched, and none on the embedded engine once it is open.
    let is_open = source.role().await == Some(MoveRole::Moved) && target.may_be_served().await;
    assert!(!(source.may_be_served().await && is_open), "{place}");
    if done.is_err() && abandon(&source).await.is_ok() {
        assert!(source.may_be_served().await, "{place}");
        assert_ne!(target.role().await, Some(MoveRole::Opened), "{place}");
    }
    complete(&source, &*source.movable, &*target.movable).await.expect("completes");
    assert_eq!(source.role().await, Some(MoveRole::Moved), "{place}");
    assert!(target.may_be_served().await, "{place}");
    assert!(content_of(&target).await == content, "{place}");
    failing.was_undisturbed()
}

#[tokio::test]
async fn a_failure_at_each_call_leaves_one_store_at_most_and_the_next_run_completes() {
    for pair in [(Engine::Embedded, Engine::Redis), (Engine::Redis, Engine::Embedded)] {
        for takes_effect in [false, true] {
            for of_source in [false, true] {
                let mut at = 1;
                while !fail_at(at, pair, takes_effect, of_source).await {
                    at += 1;
                }
                assert!(at > SOURCE_CALLS_UNTIL_MOVED, "{pair:?}: {at}");
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
        assert!(!abandon(&source).await.expect("is possible"), "nothing was closed");
        // The last call before the move is complete.
        let failing = Disturbed::new(&source, SOURCE_CALLS_UNTIL_MOVED, Disturbance::FailsBefore);
        complete(&source, &failing, &*target.movable).await.expect_err("fails");
        assert_eq!(
            (source.role().await, target.role().await),
            (Some(MoveRole::Source), Some(MoveRole::Target))
        );
        assert!(abandon(&source).await.expect("is possible"));
        assert!(source.may_be_served().await && !target.may_be_served().await);
        assert!(!abandon(&source).await.expect("is possible"), "it was open already");
        complete(&source, &*source.movable, &*target.movable).await.expect("completes");
        assert!(content_of(&target).await == content);
    }
}

/// A mover is halted before one of its calls; another one completes the move, and the target's servers add a job and delete
/// another. When the first mover goes on, it changes nothing more. Returns whether there were fewer calls.
async fn wake_late_at(at: usize, is_last: bool, at_target: bool) -> bool {
    let options = |prefix: String| redis::Options { prefix, ..redis::Options::new(&shared().url()) };
    let (from, to) = (options(fresh_prefix()), options(fresh_prefix()));
    let (source, _) = Moving::at(&from).await.fill(35).await;
    let (source_of_first, target_of_first) = (Moving::at(&from).await, Moving::at(&to).await);
    // A run that finds the target as an earlier pass left it does not look whether it is empty.
    copy(&source, &*Moving::at(&to).await.movable).await.expect("copies");
    let how = Disturbance::Halts { halted: Notify::new(), resumed: Notify::new() };
    let halting =
        Arc::new(Disturbed::new(if at_target { &target_of_first } else { &source_of_first }, at, how));
    let (first, place) = (halting.clone(), source.place());
    let mut run = tokio::spawn(async move {
        let from: &dyn Movable = if at_target { &*source_of_first.movable } else { &*first };
        let to: &dyn Movable = if at_target { &*first } else { &*target_of_first.movable };
        let relocation = Relocation::new(place, to, "target".to_owned()).expect("differ");
        if is_last {
            return relocation.complete(from, false, &mut nothing_named).await.map(drop);
        }
        let mark = from.move_mark().await.expect("reads");
        let clocks = from.clock_offsets().await.expect("reads");
        relocation.copy(mark.as_ref(), clocks, || from.records(), &mut nothing_named).await.map(drop)
    });
    let Disturbance::Halts { halted, resumed } = &halting.how else { unreachable!("it halts") };
    tokio::select! {
        () = halted.notified() => {}
        done = &mut run => {
            done.expect("does not panic").expect("was not disturbed");
            return true;
        }
    }
    let target = Moving::at(&to).await;
    complete(&source, &*source.movable, &*target.movable).await.expect("completes");
    let (listener, metrics) = (Arc::new(Recorder::default()), Metrics::new().engine);
    let server = redis::connect(to, redis::TimeSource::Server, listener, metrics).await.expect("connects");
    add(&*server, delayed("later", seconds(3600))).await;
    let gone = content_of(&target).await.1.swap_remove(0).job.id;
    Store::delete(&*server, ALL, vec![gone]).await.expect("deletes");
    let expected = content_of(&target).await;
    resumed.notify_one();
    let late = run.await.expect("does not panic");
    let place = format!("last {is_last}, target {at_target}, call {at}: {late:?}");
    assert!(content_of(&target).await == expected, "{place}");
    assert_eq!(source.role().await, Some(MoveRole::Moved), "{place}");
    assert_eq!(target.role().await, Some(MoveRole::Opened), "{place}");
    add(&*server, delayed("last", seconds(3600))).await;
    false
}

#[tokio::test]
async fn a_mover_that_wakes_late_changes_nothing() {
    for is_last in [false, true] {
        for at_target in [true, false] {
            let mut at = 1;
            while !wake_late_at(at, is_last, at_target).await {
                at += 1;
            }
            assert!(at > 2, "last {is_last}, target {at_target}: {at}");
        }
    }
}
