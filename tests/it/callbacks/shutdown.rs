//! The end of a server in the middle of calls, with the default settings.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    Home,
    behavior::{add, call, wait_until_gone},
    now, on_both_engines,
};
use crate::harness::receiver::{Answer, Receiver};

/// `server.shutdown_grace` by default, in seconds.
const SHUTDOWN_GRACE: u64 = 10;

on_both_engines! {
    a_call_that_a_kill_cut_off_is_repeated_after_its_ttr,
    a_shutdown_waits_for_answers_and_leaves_silent_endpoints_their_reservations,
}

async fn a_call_that_a_kill_cut_off_is_repeated_after_its_ttr(home: Home) {
    let mut server = home.start();
    let receiver = Receiver::start(1, |call| match call.attempt() {
        1 => Answer::Silence,
        _ => Answer::Status(204),
    })
    .await;
    // Long enough that the kill comes before it ends.
    let callback = json!({ "url": receiver.url(0, "/"), "timeout": "5s" });
    add(
        &server,
        json!({"topic": "t", "id": "a", "ttr": 1, "body": 1, "retry": ["1s"], "callback": callback}),
    );
    receiver.wait_for_calls_of("a", 1).await;
    server.kill();
    let server = home.start();
    let job = call(&server, "GET", "/jobs/a", &Value::Null, 200);
    assert_eq!((&job["state"], &job["attempts"], &job["ttr"]), (&json!("reserved"), &json!(1), &json!(15)));
    let calls = receiver.wait_for_calls_of("a", 2).await;
    wait_until_gone(&server, "a").await;
    assert_eq!(calls[1].attempt(), 2);
    assert_eq!(calls[0].header("webhook-id"), calls[1].header("webhook-id"));
    assert_ne!(calls[0].receipt(), calls[1].receipt());
    // The TTR is the timeout and 10 s; then the step follows.
    let between = calls[1].due - calls[0].due;
    assert!(between >= Duration::from_millis(15_990), "{between:?}");
    assert_eq!(receiver.calls().len(), 2);
}

async fn a_shutdown_waits_for_answers_and_leaves_silent_endpoints_their_reservations(home: Home) {
    let mut server = home.start();
    let receiver = Receiver::start(1, |call| match call.job() {
        "slow" => Answer::WhenOpen(204),
        "refused" => Answer::WhenOpen(500),
        "first" => Answer::Status(204),
        _ => Answer::Silence,
    })
    .await;
    let callback = json!({ "url": receiver.url(0, "/") });
    // Until an endpoint has answered, it is called once at a time.
    add(&server, json!({"topic": "t", "id": "first", "callback": callback}));
    wait_until_gone(&server, "first").await;
    for id in ["slow", "refused", "silent"] {
        add(&server, json!({"topic": "t", "id": id, "retry": ["1h"], "callback": callback}));
        receiver.wait_for_calls_of(id, 1).await;
    }
    let stopped: Instant = now();
    server.signal(Signal::TERM);
    server.wait_for_log("shutting down");
    receiver.open_gate();
    assert_eq!(server.wait().0.code(), Some(0), "{}", server.log());
    assert!(stopped.elapsed().as_secs() < SHUTDOWN_GRACE, "{:?}", stopped.elapsed());
    let server = home.start();
    call(&server, "GET", "/jobs/slow", &Value::Null, 404);
    let refused = call(&server, "GET", "/jobs/refused", &Value::Null, 200);
    assert_eq!((&refused["state"], &refused["attempts"]), (&json!("delayed"), &json!(1)), "{refused}");
    let silent = call(&server, "GET", "/jobs/silent", &Value::Null, 200);
    assert_eq!((&silent["state"], &silent["attempts"]), (&json!("reserved"), &json!(1)), "{silent}");
    assert_eq!(receiver.calls().len(), 4);
}
