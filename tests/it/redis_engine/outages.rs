//! Servers that run but cannot be used: a primary that became a replica, a server that loads its data, one that is
//! stopped, one whose clock steps. With the default settings.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use linger::{
    clock::{Clock, SystemClock},
    job::Due,
    store::{Added, Error, Outcome, Patch, Steps, Store, redis::Options},
};

use super::{
    Process, Raw, options,
    proxy::{Fault, Proxy},
};
use crate::harness::{
    jobs::*,
    redis::{RedisServer, free_port, shared},
    wait::TimeLimit,
};

/// Waits until `done` returns true.
async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let time_limit = TimeLimit::new();
    while !done().await {
        time_limit.check(|| format!("{what}: never"));
        time_limit.pause().await;
    }
}

fn is_unavailable<T: std::fmt::Debug>(answer: linger::store::Result<T>) {
    assert!(answer.as_ref().is_err_and(Error::is_unavailable), "{answer:?}");
}

async fn a_primary_that_becomes_a_replica_is_unavailable_until_it_is_promoted() {
    let server = RedisServer::start();
    let process = Process::start(&Options::new(&server.url())).await;
    let (store, raw) = (process.store(), Raw::connect(&server.url()).await);
    add(store, job("held")).await;
    let held = reserve(store).await;
    raw.send(&["REPLICAOF", "127.0.0.1", &free_port().to_string()]).await;
    let (added, ended, checked) = tokio::join!(
        store.add(vec![job("a")]),
        store.finish(ALL, finish(&held.job.id, &held.receipt)),
        async {
            store.promote(10).await.map(|promoted| assert_eq!(promoted.moves, [])).and(store.check().await)
        },
    );
    is_unavailable(added);
    is_unavailable(ended);
    is_unavailable(checked);
    raw.send(&["REPLICAOF", "NO", "ONE"]).await;
    until("writes again", async || store.check().await.is_ok()).await;
    let done = store.finish(ALL, finish(&held.job.id, &held.receipt)).await.expect("finishes");
    assert_eq!(one(done), finished());
    assert!(matches!(add_any(store, job("a")).await, Ok(Added::Created(_))));
}

/// Beside a load the time for a call ends in the middle of an attempt, which then has no answer.
async fn a_call_that_was_refused_keeps_the_reason_when_its_last_attempt_is_cut_off() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port).await;
    // One attempt may take all of the time, and the silence must not end the connection first.
    let (retry_for, unresponsive_timeout) = (seconds(2), seconds(30));
    let options = Options { mode: proxy.mode(), retry_for, unresponsive_timeout, ..options() };
    let process = Process::start(&Options { command_timeout: retry_for, ..options }).await;
    let raw = Raw::connect(&server.url()).await;
    raw.send(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    proxy.arm_marked_then("victim", Fault::Late(millis(20)), Fault::SilentBefore);
    let added = process.store.add(vec![job("victim")]).await;
    let (injected, _) = proxy.disarm();
    assert!(injected >= 2, "no attempt was cut off");
    assert_lacks_replicas(added);
}

/// Calls that wait for one in flight, too long to be made after it, have the reason from that one.
async fn calls_that_wait_for_a_refused_one_have_its_reason() {
    let server = RedisServer::start();
    let options = Options { shards: Some(1), ..Options::new(&server.url()) };
    let process = Process::start(&options).await;
    let raw = Raw::connect(&server.url()).await;
    raw.send(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    let adds = ["a", "b", "c"].map(|name| process.store().add(vec![job(name)]));
    futures_util::future::join_all(adds).await.into_iter().for_each(assert_lacks_replicas);
}

fn assert_lacks_replicas(added: linger::store::Result<Vec<Outcome<Added>>>) {
    assert!(matches!(&added, Err(Error::Refused { cause, .. }) if cause.contains("NOREPLICAS")), "{added:?}");
}

/// Sends a command on a new connection and returns the first bytes of the reply.
fn send_raw(port: u16, command: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut answer = [0; 64];
    let len = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..len]).into_owned())
}

async fn a_server_that_loads_its_file_is_unavailable_and_then_serves() {
    // Loading takes a second for each key, until that is changed; requests are processed after every kilobyte.
    let slow = ["--key-load-delay", "1000000", "--loading-process-events-interval-bytes", "1024"];
    let arguments = [&["--save", "", "--rdbcompression", "no"], &slow[..]].concat();
    let server = Arc::new(RedisServer::start_with(&arguments));
    let process = Process::start(&Options::new(&server.url())).await;
    let raw = Raw::connect(&server.url()).await;
    add(process.store(), job("a")).await;
    for number in 0..100 {
        raw.send(&["SET", &format!("ballast-{number}"), &"x".repeat(2_000)]).await;
    }
    raw.send(&["SAVE"]).await;
    let (starting, port) = (server.clone(), server.port);
    let started = tokio::task::spawn_blocking(move || starting.restart());
    until("loads", async || send_raw(port, "PING").is_ok_and(|answer| answer.starts_with("-LOADING"))).await;
    let a = id("a");
    let (got, added) = tokio::join!(process.store.get(ALL, &a), process.store.add(vec![job("b")]));
    is_unavailable(got);
    is_unavailable(added);
    until("loads without delay", async || {
        send_raw(port, "CONFIG SET key-load-delay 0").is_ok_and(|answer| answer == "+OK\r\n")
    })
    .await;
    started.await.expect("is ready");
    until("serves", async || process.store.check().await.is_ok()).await;
    assert!(matches!(add_any(process.store(), job("a")).await, Ok(Added::Replayed(_))));
}

async fn a_stopped_server_is_an_error_in_time_and_is_used_when_it_continues() {
    let server = RedisServer::start();
    let process = Process::start(&Options::new(&server.url())).await;
    let store = process.store();
    add(store, job("a")).await;
    let a = id("a");
    server.pause();
    let answers = async { tokio::join!(store.add(vec![job("b")]), store.get(ALL, &a), store.promote(1)) };
    let (added, got, promoted) = tokio::time::timeout(seconds(30), answers).await.expect("no call hangs");
    is_unavailable(added);
    is_unavailable(got);
    is_unavailable(promoted);
    server.resume();
    until("serves", async || store.check().await.is_ok()).await;
    add_any(store, job("b")).await.expect("is not refused");
    let held = store.reserve(&plain("t"), &claims(3), Wait::No).await.expect("reserves");
    assert_eq!(held.len(), 2, "each job exists once");
}

/// The cases run concurrently, because each waits for as long as a call is retried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_be_used_is_an_error_in_time_and_is_used_again() {
    // Boxed: all of them together are too large for a test's stack.
    tokio::join!(
        Box::pin(a_primary_that_becomes_a_replica_is_unavailable_until_it_is_promoted()),
        Box::pin(a_server_that_loads_its_file_is_unavailable_and_then_serves()),
        Box::pin(a_stopped_server_is_an_error_in_time_and_is_used_when_it_continues()),
        Box::pin(a_call_that_was_refused_keeps_the_reason_when_its_last_attempt_is_cut_off()),
        Box::pin(calls_that_wait_for_a_refused_one_have_its_reason()),
    );
}

#[tokio::test]
async fn a_step_of_the_servers_clock_is_counted_and_logged_once() {
    let proxy = Proxy::start(shared().port).await;
    let mode = proxy.mode();
    let process = Process::start(&Options { mode, ..options() }).await;
    proxy.learn_background().await;
    assert!(process.metrics.encode().contains("linger_store_clock_steps_total 0\n"));
    // After these scripts the engine has read the clock.
    until("reads the clock", async || proxy.background_seen() > 5).await;
    proxy.step_clock(3_600);
    until("is noticed", async || process.metrics.encode().contains("linger_store_clock_steps_total 1\n"))
        .await;
    let page = process.metrics.encode();
    let step = page.lines().find_map(|line| line.strip_prefix("linger_store_clock_step_seconds "));
    let step: f64 = step.expect("is shown").parse().expect("a number");
    assert!((3_590.0..3_610.0).contains(&step), "{step}");
}

/// Returns how long `step` on the job `victim` takes if the reply to its first call is late by most of `retry_for`, and
/// the second call gets no reply.
async fn duration_with_late_and_lost_replies<T: std::fmt::Debug>(
    step: impl AsyncFnOnce(&dyn Store) -> linger::store::Result<T>,
) -> Duration {
    let proxy = Proxy::start(shared().port).await;
    // The default `retry_for`; one attempt may take nearly all of it.
    let options = Options { mode: proxy.mode(), command_timeout: seconds(4), ..options() };
    let process = Process::start(&Options { unresponsive_timeout: seconds(30), ..options }).await;
    add(process.store(), job("victim")).await;
    proxy.learn_background().await;
    proxy.arm_then(Fault::Late(millis(3_500)), Fault::SilentBefore);
    let (clock, from_us) = (SystemClock::new(), SystemClock::new().now_micros());
    is_unavailable(step(process.store()).await);
    let took = Duration::from_micros((clock.now_micros() - from_us).unsigned_abs());
    let (injected, _) = proxy.disarm();
    assert!(injected >= 2, "the step made only one call");
    took
}

/// The first call reads the topic of the job, the second has the keys of the topic. Each with a time of its own, they would take
/// eight and a half seconds; together they take five, and longer where the machine stands still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_calls_of_one_step_share_its_time() {
    let bound = seconds(8);
    let (deleted, patched) = tokio::join!(
        duration_with_late_and_lost_replies(async |store| store
            .delete(ALL, vec![id("victim")], DeleteRule::AnyState)
            .await),
        duration_with_late_and_lost_replies(async |store| {
            let patch = Patch { due: Some(Due::After(delay(seconds(60)))), ..Patch::default() };
            store.patch(ALL, &id("victim"), patch, None).await
        }),
    );
    assert!(deleted < bound && patched < bound, "{deleted:?} {patched:?}");
}
