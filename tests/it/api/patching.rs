//! Rescheduling and changing a job in place.

use serde_json::json;

use super::on_every_engine;
use crate::harness::{
    api::{Api, error_locations},
    jobs::seconds,
    stores::Engine,
};

on_every_engine!(
    a_delay_of_zero_makes_the_job_ready,
    trap_rescheduled_earlier_or_later_it_is_delivered_once,
    everything_but_id_and_topic_can_be_changed,
    a_reserved_or_dead_job_is_not_changed,
    an_unknown_job_is_not_found,
    all_invalid_changes_are_reported_together,
);

async fn a_delay_of_zero_makes_the_job_ready(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","delay":"1h"}"#).await;
    let now = api.send("PATCH", "/jobs/a", r#"{"delay":0}"#).await.expect(200).json();
    assert_eq!(now["state"], "ready");
    assert_eq!(api.pop("t").await["id"], "a");
}

async fn trap_rescheduled_earlier_or_later_it_is_delivered_once(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"early","delay":100}"#).await;
    api.add(r#"{"topic":"t","id":"late","delay":10}"#).await;
    api.send("PATCH", "/jobs/early", r#"{"delay":5}"#).await.expect(200);
    api.send("PATCH", "/jobs/late", r#"{"at":"2026-11-21T05:41:00Z"}"#).await.expect(200);
    let mut delivered = Vec::new();
    for second in 1..=120 {
        api.advance_and_promote(seconds(1)).await;
        while let Ok(job) =
            serde_json::from_slice::<serde_json::Value>(&api.get("/topics/t/pop?ttr=1h").await.body)
        {
            delivered.push((second, job["id"].clone()));
        }
    }
    assert_eq!(delivered, [(5, json!("early")), (60, json!("late"))]);
}

async fn everything_but_id_and_topic_can_be_changed(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","delay":"1h"}"#).await;
    let change = r#"{"ttr":"2m","max_attempts":3,"retry":[1,2],"body":[1.0]}"#;
    let response = api.send("PATCH", "/jobs/a", change).await.expect(200);
    assert!(response.body.ends_with(b"\"body\":[1.0]}\n"));
    let job = response.json();
    assert_eq!((&job["ttr"], &job["max_attempts"], &job["retry"]), (&json!(120), &json!(3), &json!([1, 2])));
    assert_eq!(job["due_at"], "2026-11-21T06:40:00.000Z", "a field that is left out does not change");
    let cleared = api.send("PATCH", "/jobs/a", r#"{"retry":[]}"#).await.expect(200).json();
    assert!(cleared.get("retry").is_none());
}

async fn a_reserved_or_dead_job_is_not_changed(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    api.pop("t").await;
    api.send("PATCH", "/jobs/a", r#"{"delay":0}"#).await.expect_problem(409, "job_reserved");
    api.advance_and_promote(seconds(60)).await;
    api.bury("t").await;
    api.send("PATCH", "/jobs/a", r#"{"delay":0}"#).await.expect_problem(409, "job_dead");
    assert_eq!(api.get("/jobs/a").await.json()["state"], "dead");
}

async fn an_unknown_job_is_not_found(engine: Engine) {
    let api = Api::new(engine).await;
    api.send("PATCH", "/jobs/nobody", r#"{"delay":0}"#).await.expect_problem(404, "job_not_found");
}

async fn all_invalid_changes_are_reported_together(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","delay":"1h"}"#).await;
    let bad = r#"{"delay":-1,"at":"soon","ttr":0,"topic":"u","id":"b"}"#;
    let problem = api.send("PATCH", "/jobs/a", bad).await.expect_problem(422, "invalid_job");
    assert_eq!(error_locations(&problem), ["/at", "/delay", "/at", "/ttr", "/topic", "/id"]);
    let problem = api.send("PATCH", "/jobs/a", "{}").await.expect_problem(422, "invalid_job");
    assert_eq!(error_locations(&problem), [""], "a patch without fields is refused");
    assert_eq!(api.get("/jobs/a").await.json()["due_at"], "2026-11-21T06:40:00.000Z");
}
