//! Replies that are cut off: the change happens once, and its caller gets the true outcome.

use linger::{
    job::{Due, State},
    store::{Added, FinishJob, Patch, Refusal, Release, Reservation, Steps, redis::Options},
};

use super::{
    Process, Raw, options,
    proxy::{Fault, Proxy},
};
use crate::harness::{jobs::*, redis::shared};

/// A process whose connection to the shared server can be cut.
async fn behind_a_proxy() -> (Process, Proxy) {
    let proxy = Proxy::start(shared().port).await;
    let options = Options { mode: proxy.mode(), ..options() };
    (Process::start(&options).await, proxy)
}

async fn reserved(process: &Process) -> Reservation {
    add(process.store(), job("victim")).await;
    reserve(process.store()).await
}

#[tokio::test]
async fn an_add_whose_reply_was_cut_off_is_reported_as_new_and_done_once() {
    let (process, proxy) = behind_a_proxy().await;
    for cuts in [1, 3] {
        let name = format!("victim-{cuts}");
        proxy.cut_replies(&name, cuts);
        let added = add_any(process.store(), job(&name)).await;
        assert!(proxy.all_faults_happened());
        assert!(matches!(added, Ok(Added::Created(_))), "{added:?}");
        assert_eq!(reserve(process.store()).await.job.attempts, 1);
        assert_eq!(reserve_any(process.store()).await, None, "it was added once");
        assert!(matches!(add_any(process.store(), job(&name)).await, Ok(Added::Replayed(_))));
    }
}

#[tokio::test]
async fn an_add_that_is_resent_does_not_bring_a_finished_job_back() {
    let proxy = Proxy::start(shared().port).await;
    let options = linger::store::redis::Options { retry_for: seconds(60), ..options() };
    let behind = Options { mode: proxy.mode(), ..options.clone() };
    let (process, other) = (Process::start(&behind).await, Process::start(&options).await);
    proxy.learn_background().await;
    proxy.arm_then(Fault::CutAfter, Fault::CutBefore);
    let store = process.store.clone();
    let adding = tokio::spawn(async move { store.add(vec![job("a")]).await });
    other.wait_for_ready_event("t").await;
    let held = reserve(other.store()).await;
    other.store.finish(ALL, finish(&held.job.id, &held.receipt)).await.expect("finishes");
    proxy.disarm();
    let added = one(adding.await.expect("does not panic").expect("adds"));
    assert!(matches!(added, Ok(Added::Created(_))), "{added:?}");
    assert_eq!(other.store.topic(&topic("t")).await.expect("reads"), None);
}

#[tokio::test]
async fn a_reservation_whose_reply_was_cut_off_reaches_its_caller() {
    let (process, proxy) = behind_a_proxy().await;
    for name in ["a", "b", "c"] {
        add(process.store(), job(name)).await;
    }
    proxy.cut_replies("ready:t", 2);
    let got = process.store.reserve(&plain("t"), &claims(2), Wait::No).await.expect("reserves");
    assert!(proxy.all_faults_happened());
    assert_eq!(got.len(), 2);
    let stats = process.store.topic(&topic("t")).await.expect("reads").expect("is there");
    assert_eq!((stats.ready, stats.reserved), (1, 2), "every reservation has reached its caller");
    for reservation in got {
        assert_eq!(reservation.job.attempts, 1);
        let done = process.store.finish(ALL, finish(&reservation.job.id, &reservation.receipt)).await;
        assert!(one(done.expect("answers")).is_ok());
    }
}

#[tokio::test]
async fn a_finish_whose_reply_was_cut_off_is_done() {
    let (process, proxy) = behind_a_proxy().await;
    let held = reserved(&process).await;
    proxy.cut_replies("victim", 2);
    let request = vec![
        FinishJob { id: id("victim"), receipt: Some(held.receipt) },
        FinishJob { id: id("unknown"), receipt: None },
    ];
    let done = process.store.finish(ALL, request.clone()).await.expect("answers");
    assert!(proxy.all_faults_happened());
    assert_eq!(done, [finished(), Err(Refusal::Gone)]);
    let again = process.store.finish(ALL, request).await.expect("answers");
    assert_eq!(again, [Err(Refusal::Gone), Err(Refusal::Gone)], "a client's own repeat is another call");
}

#[tokio::test]
async fn a_delete_whose_reply_was_cut_off_is_done() {
    let (process, proxy) = behind_a_proxy().await;
    for (name, wait, marker) in [("victim-1", 5, "victim-1"), ("victim-2", 0, ":ready:t")] {
        add(process.store(), delayed(name, seconds(wait))).await;
        proxy.cut_replies(marker, 1);
        let outcomes =
            process.store.delete(ALL, vec![id(name)], DeleteRule::AnyState).await.expect("answers");
        assert!(proxy.all_faults_happened());
        assert_eq!(outcomes, [deleted(if wait > 0 { State::Delayed } else { State::Ready })]);
    }
    assert_eq!(process.store.topic(&topic("t")).await.expect("reads"), None);
    reserved(&process).await;
    proxy.cut_replies("victim", 1);
    let spared = process.store.delete(ALL, vec![id("victim")], DeleteRule::UnlessReserved).await;
    assert!(proxy.all_faults_happened());
    assert_eq!(spared.expect("answers"), [Err(Refusal::InState(State::Reserved))]);
}

#[tokio::test]
async fn the_listener_is_notified_after_a_call_whose_reply_was_cut_off() {
    let (process, proxy) = behind_a_proxy().await;
    // After this the process is subscribed. The sweep would make up for an announcement that it missed before.
    proxy.learn_background().await;
    add(process.store(), delayed("late", seconds(1))).await;
    process.clock.advance(seconds(1));
    // Only the script that promotes the job has the key of the list.
    proxy.cut_replies(":ready:t", 1);
    let promoted = process.store.promote(10).await.expect("answers");
    assert!(proxy.all_faults_happened());
    assert_eq!(promoted.moves, [], "the second run found the job promoted");
    process.wait_for_ready_event("t").await;
}

#[tokio::test]
async fn a_release_whose_reply_was_cut_off_happens_once() {
    let (process, proxy) = behind_a_proxy().await;
    let held = reserved(&process).await;
    proxy.cut_replies("victim", 1);
    let release = Release { due: Some(after(seconds(5))), reason: None };
    let back =
        process.store.release(ALL, &id("victim"), &held.receipt, release.clone()).await.expect("answers");
    assert!(proxy.all_faults_happened());
    assert_eq!(back.expect("is held").state(), State::Delayed);
    let late = process.store.release(ALL, &id("victim"), &held.receipt, release).await.expect("answers");
    assert!(late.is_err(), "a client's own repeat has lost the reservation");
}

/// The answer would say that the caller holds a job that another one has.
#[tokio::test]
async fn a_touch_that_is_resent_after_its_reservation_ended_is_refused() {
    let proxy = Proxy::start(shared().port).await;
    let options = Options { retry_for: seconds(60), ..options() };
    let process = Process::start(&Options { mode: proxy.mode(), ..options.clone() }).await;
    let other = Process::with_clock_of(&process, &options).await;
    let held = reserved(&process).await;
    proxy.arm_marked_then("victim", Fault::CutAfter, Fault::CutBefore);
    let (store, receipt) = (process.store.clone(), held.receipt);
    let touching = tokio::spawn(async move { store.touch(ALL, &id("victim"), &receipt, Some(ttr(2))).await });
    proxy.until_seen(2).await;
    process.clock.advance(seconds(2));
    promote(other.store()).await;
    assert_eq!(reserve(other.store()).await.job.attempts, 2);
    proxy.disarm();
    let touched = touching.await.expect("does not panic").expect("answers");
    assert_eq!(touched, Err(Refusal::Lost));
}

#[tokio::test]
async fn the_other_steps_happen_once_too() {
    let (process, proxy) = behind_a_proxy().await;
    let store = process.store();
    let held = reserved(&process).await;
    proxy.cut_replies("victim", 1);
    let touched = store.touch(ALL, &id("victim"), &held.receipt, Some(ttr(90))).await.expect("answers");
    assert_eq!(touched.expect("is held").reserved_until(), Some(held.job.due_at.after(seconds(90))));
    // A first call reads the topic of the job; the call that makes the change has the keys of the topic.
    proxy.cut_replies(":dead:t", 2);
    let dead = store.bury(ALL, &id("victim"), &held.receipt, None).await.expect("answers").expect("is held");
    assert_eq!(dead.state(), State::Dead);
    proxy.cut_replies(":dead:t", 2);
    let Ok(back) = store.requeue(ALL, &id("victim"), after(seconds(9)), None).await.expect("answers") else {
        panic!("it was dead")
    };
    assert_eq!((back.state(), back.attempts), (State::Delayed, 0));
    proxy.cut_replies(":dead:t", 2);
    let now = Patch { due: Some(Due::After(delay(seconds(0)))), ..Patch::default() };
    let Ok(ready) = store.patch(ALL, &id("victim"), now, None).await.expect("answers") else {
        panic!("it was delayed")
    };
    assert_eq!(ready.state(), State::Ready);
    assert!(proxy.all_faults_happened());
    assert_eq!(reserve(store).await.job.attempts, 1);
    assert_eq!(reserve_any(store).await, None);
}

#[tokio::test]
async fn a_server_that_lost_its_scripts_and_connections_is_used_again() {
    // A server of its own, because other tests use the scripts and connections of the shared one.
    let server = crate::harness::redis::RedisServer::start();
    let process = Process::start(&linger::store::redis::Options::new(&server.url())).await;
    let raw = Raw::connect(&server.url()).await;
    add(process.store(), job("a")).await;
    raw.send(&["SCRIPT", "FLUSH"]).await;
    let held = reserve(process.store()).await;
    raw.send(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    let done = process.store.finish(ALL, finish(&held.job.id, &held.receipt)).await.expect("answers");
    assert_eq!(done, [finished()]);
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_an_error_in_time_and_so_is_a_closed_engine() {
    let server = crate::harness::redis::RedisServer::start();
    let mut options = linger::store::redis::Options::new(&server.url());
    options.retry_for = millis(200);
    let process = Process::start(&options).await;
    let raw = Raw::connect(&server.url()).await;
    raw.send(&["CLIENT", "PAUSE", "100000", "ALL"]).await;
    let error = process.store.get(ALL, &id("a")).await.expect_err("the server does not answer");
    assert!(matches!(error, linger::store::Error::Unavailable(_)), "{error:?}");
    assert!(process.store.check().await.is_err());
    process.store().close().await.expect("closes");
    assert!(process.store.get(ALL, &id("a")).await.is_err());
}

/// On one thread: a call that failed at once, again and again, would keep it from the task that reopens the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_caller_that_repeats_at_once_does_not_keep_a_lost_connection_from_being_reopened() {
    let proxy = Proxy::start(shared().port).await;
    let options = Options {
        mode: proxy.mode(),
        // Short, because the test waits for it often; a busy machine holds the shared server up for some of it.
        command_timeout: millis(500),
        unresponsive_timeout: millis(500),
        ..options()
    };
    let process = Process::start(&options).await;
    proxy.learn_background().await;
    let calling = tokio::spawn(async move {
        for fault in [Fault::SilentAfter, Fault::SilentBefore, Fault::CutAfter].repeat(4) {
            proxy.arm(0, 1, fault);
            let mut failures = 0;
            while let Err(error) = process.store.check().await {
                failures += 1;
                assert!(failures < 100_000, "{fault:?}: {error}");
            }
            assert!(failures > 0, "{fault:?}: the fault happened");
        }
    });
    calling.await.expect("the connection is reopened");
}
