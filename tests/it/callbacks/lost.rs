//! Calls whose job is no longer theirs when they end, or cannot be settled at first, on real servers.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    Home,
    behavior::{add, call, callbacks_total, wait_for_callbacks, wait_until_gone},
    on_both_engines,
};
use crate::harness::{
    process::Server,
    receiver::{Answer, Receiver},
    redis::RedisServer,
    wait::TimeLimit,
};

on_both_engines! { a_job_that_its_receipt_finished_during_its_call_is_not_called_again }

async fn a_job_that_its_receipt_finished_during_its_call_is_not_called_again(home: Home) {
    let server = home.start();
    let receiver = Receiver::start(1, |call| match call.job() {
        "taken" => Answer::WhenOpen(204),
        "refused" => Answer::WhenOpen(500),
        _ => Answer::Status(204),
    })
    .await;
    let callback = json!({ "url": receiver.url(0, "/") });
    // Each of a topic of its own: a topic calls an endpoint that has never answered once at a time.
    for id in ["taken", "refused"] {
        add(&server, json!({"topic": id, "id": id, "retry": [0], "callback": callback}));
        let calls = receiver.wait_for_calls_of(id, 1).await;
        let path = format!("/jobs/{id}/finish?receipt={}", calls[0].receipt());
        call(&server, "POST", &path, &Value::Null, 204);
    }
    receiver.open_gate();
    for topic in ["taken", "refused"] {
        wait_for_callbacks(&server, topic, "lost", 1.0).await;
        let later = format!("later-{topic}");
        add(&server, json!({"topic": topic, "id": later, "callback": callback}));
        receiver.wait_for_calls_of(&later, 1).await;
        wait_until_gone(&server, &later).await;
        assert_eq!(receiver.calls_of(topic).len(), 1);
        wait_until_gone(&server, topic).await;
        assert_eq!(callbacks_total(&server, topic, "lost"), 1.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_was_frozen_past_the_ttr_does_not_finish_the_job_of_another_call() {
    let home = Home::redis();
    let frozen = home.start();
    let receiver = Receiver::start(1, |call| match call.attempt() {
        1 => Answer::WhenOpen(204),
        _ => Answer::Hold(Duration::from_secs(600)),
    })
    .await;
    // Long enough to freeze the process before the call ends; the reservation lasts for 10 s more.
    let callback = json!({ "url": receiver.url(0, "/"), "timeout": "5s" });
    add(&frozen, json!({"topic": "t", "id": "a", "ttr": 1, "retry": [0], "callback": callback}));
    receiver.wait_for_calls_of("a", 1).await;
    frozen.suspend();
    let other = home.start();
    let second = receiver.wait_for_calls_of("a", 2).await.remove(1);
    wait_for_callbacks(&other, "t", "held", 1.0).await;
    receiver.open_gate();
    let time_limit = TimeLimit::new();
    while receiver.calls_of("a")[0].answered.is_none() {
        time_limit.check(|| "the first call is not answered".to_owned());
        time_limit.pause().await;
    }
    frozen.signal(Signal::CONT);
    wait_for_callbacks(&frozen, "t", "lost", 1.0).await;
    let job = call(&other, "GET", "/jobs/a", &Value::Null, 200);
    assert_eq!((&job["state"], &job["attempts"]), (&json!("reserved"), &json!(2)), "{job}");
    call(&other, "POST", &format!("/jobs/a/finish?receipt={}", second.receipt()), &Value::Null, 204);
    wait_until_gone(&frozen, "a").await;
    assert_eq!(receiver.calls().len(), 2);
    assert_eq!([&frozen, &other].map(|server| callbacks_total(server, "t", "ok")), [0.0, 0.0]);
}

/// Waits until an operation of the store has failed.
async fn wait_for_failed(server: &Server, operation: &str) {
    let name = format!(
        "linger_store_operation_duration_seconds_count{{operation=\"{operation}\",outcome=\"error\"}}"
    );
    let time_limit = TimeLimit::new();
    while server.metric(&name).is_none() {
        time_limit.check(|| format!("no {operation} has failed: {}", server.log()));
        time_limit.pause().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_settled_once_a_redis_that_went_away_during_them_is_back() {
    let directory = tempfile::tempdir().expect("a directory");
    // It has every job again after it was killed.
    let redis = RedisServer::start_with(&["--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
    let server = Server::serve(&["--store", "redis", "--redis-url", &redis.url()], &[], directory.path());
    let receiver = Receiver::start(1, |call| match call.job() {
        "finish" => Answer::WhenOpen(204),
        "release" => Answer::WhenOpen(500),
        _ => Answer::WhenOpen(410),
    })
    .await;
    let operations = ["finish", "release", "bury"];
    // Each job is of a topic of its own: a topic calls an endpoint that has never answered once at a time.
    for id in operations {
        let callback = json!({ "url": receiver.url(0, "/") });
        add(&server, json!({"topic": id, "id": id, "retry": ["1h"], "callback": callback}));
        receiver.wait_for_calls_of(id, 1).await;
    }
    redis.kill();
    receiver.open_gate();
    for operation in operations {
        wait_for_failed(&server, operation).await;
    }
    redis.restart();
    for (topic, result) in operations.into_iter().zip(["ok", "failed", "refused"]) {
        wait_for_callbacks(&server, topic, result, 1.0).await;
    }
    wait_until_gone(&server, "finish").await;
    for (id, state) in [("release", "delayed"), ("bury", "dead")] {
        let job = call(&server, "GET", &format!("/jobs/{id}"), &Value::Null, 200);
        assert_eq!((&job["state"], &job["attempts"]), (&json!(state), &json!(1)), "{job}");
    }
    assert_eq!(operations.map(|topic| callbacks_total(&server, topic, "lost")), [0.0; 3]);
    assert_eq!(receiver.calls().len(), 3);
}
