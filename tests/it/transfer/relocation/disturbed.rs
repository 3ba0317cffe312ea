//! Moves with a failure or a pause at each call of either store.

use std::sync::Arc;

use linger::{
    metrics::Metrics,
    store::{AddJob, Added, Error, Movable, MoveRole, Steps, Store, redis},
    transfer::{Relocation, TransferError},
};
use tokio::{sync::Notify, task::JoinHandle};

use super::{
    Moving, PAIRS, abandon, complete, content_of, copy,
    disturbance::{Disturbance, Disturbed},
    nothing_named, place_on_redis,
};
use crate::harness::{
    jobs::*,
    stores::{Engine, Recorder},
    wait::TimeLimit,
};

/// Calls of the source in a last pass that finds nothing to copy, up to the one that decides.
const SOURCE_CALLS_UNTIL_MOVED: usize = 8;

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

/// A store that fails over may lose what was stored last: the move is not completed over that.
#[tokio::test]
async fn a_server_that_is_replaced_during_the_last_pass_ends_it() {
    for (from, to) in [(Engine::Embedded, Engine::Redis), (Engine::Redis, Engine::Embedded)] {
        for of_source in [false, true] {
            let (mut at, mut ended) = (1, 0);
            loop {
                let ((source, content), target) = (Moving::filled(from, 35).await, Moving::new(to).await);
                let replaced = Disturbed::new(
                    if of_source { &source } else { &target },
                    at,
                    Disturbance::ServerReplaced,
                );
                let through: &dyn Movable = if of_source { &replaced } else { &*source.movable };
                let to: &dyn Movable = if of_source { &*target.movable } else { &replaced };
                if let Err(why) = complete(&source, through, to).await {
                    assert!(why.to_string().contains("a server was replaced"), "{why}");
                    assert!(!source.may_be_served().await && !target.may_be_served().await);
                    complete(&source, &*source.movable, &*target.movable).await.expect("completes");
                    ended += 1;
                }
                assert_eq!(source.role().await, Some(MoveRole::Moved));
                assert!(content_of(&target).await == content);
                if replaced.was_undisturbed() {
                    break;
                }
                at += 1;
            }
            // From the call after the first look at the servers to the second one.
            assert!(ended >= 5, "{from:?} to {to:?}, {of_source}: {ended} of {at}");
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

/// A run of the command that is halted before one of its calls.
struct HaltedRun {
    run: JoinHandle<std::result::Result<(), TransferError>>,
    disturbed: Arc<Disturbed>,
}

impl HaltedRun {
    /// Starts a run between two stores on Redis. None if it ends without that call.
    async fn start(from: &redis::Options, to: &redis::Options, halt: Halt) -> Option<Self> {
        let (source, target) = (Moving::at(from).await, Moving::at(to).await);
        let how = Disturbance::Halts { halted: Notify::new(), resumed: Notify::new() };
        let disturbed =
            Arc::new(Disturbed::new(if halt.at_target { &target } else { &source }, halt.before_call, how));
        let halting = disturbed.clone();
        let mut run = tokio::spawn(async move {
            let from: &dyn Movable = if halt.at_target { &*source.movable } else { &*halting };
            let to: &dyn Movable = if halt.at_target { &*halting } else { &*target.movable };
            let relocation = Relocation::new(source.place(), to, "target".to_owned()).expect("differ");
            if halt.is_last {
                return relocation.complete(from, false, &mut nothing_named).await.map(drop);
            }
            let mark = from.move_mark().await.expect("reads");
            let clocks = from.clock_offsets().await.expect("reads");
            relocation.copy(mark.as_ref(), clocks, || from.records(), &mut nothing_named).await.map(drop)
        });
        let Disturbance::Halts { halted, .. } = &disturbed.how else { unreachable!("it halts") };
        tokio::select! {
            () = halted.notified() => {}
            done = &mut run => {
                done.expect("does not panic").expect("was not disturbed");
                return None;
            }
        }
        Some(Self { run, disturbed })
    }

    /// Lets it go on, to its end.
    async fn resume(self) -> std::result::Result<(), TransferError> {
        let Disturbance::Halts { resumed, .. } = &self.disturbed.how else { unreachable!("it halts") };
        resumed.notify_one();
        self.run.await.expect("does not panic")
    }
}

/// Where a run is halted.
#[derive(Debug, Clone, Copy)]
struct Halt {
    is_last: bool,
    at_target: bool,
    /// From 1.
    before_call: usize,
}

async fn server_at(place: redis::Options) -> Arc<dyn Store> {
    let (listener, metrics) = (Arc::new(Recorder::default()), Metrics::new().engine);
    redis::connect(place, redis::TimeSource::Server, listener, metrics).await.expect("connects")
}

/// Adds a job to a store that was given back. Its server may have seen that it was closed, and refuses calls by itself until it
/// looks again.
async fn add_once_served(server: &dyn Store, job: AddJob) {
    let limit = TimeLimit::new();
    loop {
        match server.add(vec![job.clone()]).await {
            Err(why @ Error::Refused { .. }) => limit.check(|| why.to_string()),
            added => return assert!(matches!(added.as_deref(), Ok([Ok(Added::Created(_))])), "{added:?}"),
        }
        limit.pause().await;
    }
}

/// A run is halted; another one completes the move, and the target's servers add a job and delete another. When the first one
/// goes on, it changes nothing more. Returns whether there were fewer calls.
async fn complete_meanwhile(halt: Halt) -> bool {
    let (from, to) = (place_on_redis(), place_on_redis());
    let (source, _) = Moving::at(&from).await.fill(35).await;
    // A run that finds the target as an earlier pass left it does not look whether it is empty.
    copy(&source, &*Moving::at(&to).await.movable).await.expect("copies");
    let Some(halted) = HaltedRun::start(&from, &to, halt).await else { return true };
    let target = Moving::at(&to).await;
    complete(&source, &*source.movable, &*target.movable).await.expect("completes");
    let server = server_at(to).await;
    add(&*server, delayed("later", seconds(3600))).await;
    let gone = content_of(&target).await.1.swap_remove(0).job.id;
    Steps::delete(&*server, ALL, vec![gone], DeleteRule::AnyState).await.expect("deletes");
    let expected = content_of(&target).await;
    let late = halted.resume().await;
    let place = format!("{halt:?}: {late:?}");
    assert!(content_of(&target).await == expected, "{place}");
    assert_eq!(source.role().await, Some(MoveRole::Moved), "{place}");
    assert_eq!(target.role().await, Some(MoveRole::Opened), "{place}");
    add(&*server, delayed("last", seconds(3600))).await;
    false
}

/// A last pass is halted; another run abandons the move if it is not complete, and the source's server adds a job. When the
/// first one goes on, either it completes the move with that job, or the source stays the one that is served. Returns whether
/// there were fewer calls.
async fn abandon_meanwhile(halt: Halt) -> bool {
    let (from, to) = (place_on_redis(), place_on_redis());
    let (source, _) = Moving::at(&from).await.fill(35).await;
    let server = server_at(from.clone()).await;
    copy(&source, &*Moving::at(&to).await.movable).await.expect("copies");
    let Some(halted) = HaltedRun::start(&from, &to, halt).await else { return true };
    let was_closed = abandon(&source).await;
    if was_closed.is_ok() {
        add_once_served(&*server, delayed("later", seconds(3600))).await;
    }
    let expected = content_of(&source).await;
    let late = halted.resume().await;
    let target = Moving::at(&to).await;
    let is_complete = target.role().await == Some(MoveRole::Opened);
    let place = format!("{halt:?}: {was_closed:?}, {late:?}");
    assert_eq!(late.is_ok(), is_complete, "{place}");
    assert_eq!(source.role().await == Some(MoveRole::Moved), is_complete, "{place}");
    assert!(content_of(if is_complete { &target } else { &source }).await == expected, "{place}");
    let last = delayed("last", seconds(3600));
    if is_complete {
        let added = Store::add(&*server, vec![last]).await;
        assert!(added.is_err(), "{place}: {added:?}");
    } else {
        add_once_served(&*server, last).await;
        let expected = content_of(&source).await;
        complete(&source, &*source.movable, &*target.movable).await.expect("completes");
        assert!(content_of(&target).await == expected, "{place}");
    }
    false
}

#[tokio::test]
async fn a_run_that_goes_on_after_another_one_completed_the_move_changes_nothing() {
    for is_last in [false, true] {
        for at_target in [true, false] {
            let mut before_call = 1;
            while !complete_meanwhile(Halt { is_last, at_target, before_call }).await {
                before_call += 1;
            }
            assert!(before_call > 2, "last {is_last}, target {at_target}: {before_call}");
        }
    }
}

#[tokio::test]
async fn a_run_that_goes_on_after_the_move_was_abandoned_leaves_one_store_that_is_served() {
    for at_target in [true, false] {
        let mut before_call = 1;
        while !abandon_meanwhile(Halt { is_last: true, at_target, before_call }).await {
            before_call += 1;
        }
        let least = if at_target { 2 } else { SOURCE_CALLS_UNTIL_MOVED };
        assert!(before_call > least, "target {at_target}: {before_call}");
    }
}
