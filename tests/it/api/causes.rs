//! Why the jobs of a topic wait.

use serde_json::{Value, json};

use super::{
    calling::{self, Endpoint, job_in, set_url},
    on_every_engine,
};
use crate::harness::{
    api::{Api, text},
    jobs::seconds,
    stores::Engine,
};

on_every_engine!(
    the_cause_is_what_workers_do,
    a_pause_is_the_cause_before_anything_else,
    a_callback_that_fails_is_the_cause,
    a_callback_that_was_removed_is_no_cause,
);

/// The cause, once what other processes do is known, which takes three seconds.
async fn cause(api: &Api) -> Value {
    api.get("/topics/t").await.expect(200);
    api.clock.advance(seconds(3));
    let listed = api.get("/topics").await.expect(200).json()["topics"][0]["cause"].clone();
    assert_eq!(api.get("/topics/t").await.expect(200).json()["cause"], listed, "the list says the same");
    listed
}

async fn the_cause_is_what_workers_do(engine: Engine) {
    let api = Api::new(engine).await;
    api.send("PUT", "/topics/t", r#"{"ttr":"5m"}"#).await.expect(200);
    assert_eq!(cause(&api).await, Value::Null, "no job waits");
    for id in ["a", "b", "c"] {
        api.add(&format!(r#"{{"topic":"t","id":"{id}"}}"#)).await;
    }
    assert_eq!(cause(&api).await, json!({"kind": "no_worker"}));
    let first = api.pop("t").await;
    let finish = format!("/jobs/a/finish?receipt={}", text(&first["receipt"]));
    assert_eq!(cause(&api).await, json!({"kind": "backlog", "added": 3, "finished": 0}));
    api.clock.advance(seconds(70));
    let busy = |since: &str| json!({"kind": "workers_busy", "reserved": 1, "since": since});
    assert_eq!(cause(&api).await, busy("2026-11-21T05:40:06.000Z"), "it has just taken one");
    let touch = format!(r#"{{"receipt":"{}","ttr":"20m"}}"#, text(&first["receipt"]));
    let touched = api.send("POST", "/jobs/a/touch", &touch).await.expect(200).json();
    assert_eq!(cause(&api).await, busy("2026-11-21T05:41:22.000Z"));
    api.clock.advance(seconds(300));
    let silent = cause(&api).await;
    assert_eq!((&silent["kind"], &silent["reserved"]), (&json!("workers_silent"), &json!(1)));
    assert_eq!(silent["since"], "2026-11-21T05:41:22.000Z", "that was the touch: {touched}");
    api.post(&finish).await.expect(204);
    assert_eq!(cause(&api).await, json!({"kind": "no_worker"}), "the job that the worker had is done");
    api.get("/topics/t/pop").await.expect(200);
    let done = cause(&api).await;
    assert_eq!(done, json!({"kind": "backlog", "added": 0, "finished": 1, "empty_in": 60}), "a job a minute");
}

async fn a_pause_is_the_cause_before_anything_else(engine: Engine) {
    let api = Api::new(engine).await;
    let pause = async |body: &str| {
        api.send("POST", "/topics/t/pause", body).await.expect(200);
    };
    pause(r#"{"intake":true}"#).await;
    assert_eq!(cause(&api).await["kind"], "intake_paused");
    pause(r#"{"delivery":true,"reason":"the bank is down","until":"1h"}"#).await;
    let paused = cause(&api).await;
    let expected = json!({
        "kind": "delivery_paused", "since": "2026-11-21T05:40:03.000Z", "reason": "the bank is down",
        "until": "2026-11-21T06:40:03.000Z",
    });
    assert_eq!(paused, expected);
}

async fn a_callback_that_fails_is_the_cause(engine: Engine) {
    // The first says that the endpoint is overloaded, the second only that this job failed.
    for (status, answer) in [(503, "http_503"), (500, "http_500")] {
        assert_cause_until_a_call_works(engine, status, answer).await;
    }
}

async fn assert_cause_until_a_call_works(engine: Engine, status: u16, answer: &str) {
    let api = calling::api(engine).await;
    let endpoint = Endpoint::start(vec![(status, vec![], "")]).await;
    set_url(&api, Some(&endpoint.url)).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    endpoint.received(1).await;
    job_in(&api, "a", "delayed").await;
    let failing = cause(&api).await;
    assert_eq!((&failing["kind"], &failing["answer"]), (&json!("callback_fails"), &json!(answer)));
    assert_eq!(failing["at"], "2026-11-21T05:40:00.000Z");
    assert!(endpoint.url.starts_with(text(&failing["host"])), "{failing}");
    api.clock.advance(seconds(15));
    endpoint.received(1).await;
    job_in(&api, "a", "gone").await;
    assert_eq!(cause(&api).await, Value::Null);
}

async fn a_callback_that_was_removed_is_no_cause(engine: Engine) {
    let api = calling::api(engine).await;
    let endpoint = Endpoint::start(vec![(500, vec![], "")]).await;
    set_url(&api, Some(&endpoint.url)).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    endpoint.received(1).await;
    job_in(&api, "a", "delayed").await;
    assert_eq!(cause(&api).await["kind"], "callback_fails");
    set_url(&api, None).await;
    assert_eq!(cause(&api).await, Value::Null, "its job is delayed");
    api.advance_and_promote(seconds(15)).await;
    assert_eq!(cause(&api).await, json!({"kind": "no_worker"}));
}
