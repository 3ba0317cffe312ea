//! Adds that replace a job: what is answered, and to whom.

use serde_json::json;

use super::on_every_engine;
use crate::harness::{api::Api, jobs::seconds, stores::Engine};

on_every_engine!(
    a_replaced_job_is_answered_whole,
    a_revision_orders_versions,
    the_items_of_a_batch_say_what_they_did,
    the_holder_of_an_older_version_is_told,
    a_paused_topic_refuses_a_replacement,
);

const FIRST: &str = r#"{"topic":"t","id":"a","delay":"10s","max_attempts":3,"body":1}"#;

async fn a_replaced_job_is_answered_whole(engine: Engine) {
    let api = Api::new(engine).await;
    let newer = r#"{"topic":"t","id":"a","delay":"1h","if_exists":"replace","body":2}"#;
    let created = api.send("POST", "/jobs", newer).await.expect(201);
    assert!(!created.headers.contains_key("linger-replaced"));
    api.delete("/jobs/a").await.expect(204);
    api.add(FIRST).await;
    let replaced = api.send("POST", "/jobs", newer).await.expect(200);
    assert_eq!(replaced.header("linger-replaced"), "true");
    assert!(
        !replaced.headers.contains_key("idempotent-replayed") && !replaced.headers.contains_key("location")
    );
    let job = replaced.json();
    assert_eq!(
        (&job["due_at"], &job["max_attempts"], &job["body"]),
        (&json!("2026-11-21T06:40:00.000Z"), &json!(16), &json!(2))
    );
    assert_eq!(job["history"][0]["kind"], "replaced");
    assert_eq!(api.get("/jobs/a").await.expect(200).json(), job);
    let metrics = api.get("/metrics").await.expect(200);
    let metrics = String::from_utf8_lossy(&metrics.body);
    assert!(metrics.contains("linger_jobs_replaced_total{topic=\"t\"} 1"), "{metrics}");
    for (kept, code) in
        [(FIRST, "job_exists"), (r#"{"topic":"u","id":"a","if_exists":"replace"}"#, "job_exists")]
    {
        api.send("POST", "/jobs", kept).await.expect_problem(409, code);
    }
}

async fn a_revision_orders_versions(engine: Engine) {
    let api = Api::new(engine).await;
    let version = |revision: u64, body: u32| {
        format!(r#"{{"topic":"t","id":"a","revision":{revision},"if_exists":"replace","body":{body}}}"#)
    };
    let highest = i64::MAX.unsigned_abs();
    let job = api.add(&version(5, 1)).await;
    assert_eq!(job["revision"], 5);
    let repeated = api.send("POST", "/jobs", &version(5, 2)).await.expect(200);
    assert_eq!((repeated.header("idempotent-replayed"), repeated.json()["body"].clone()), ("true", json!(1)));
    let problem = api.send("POST", "/jobs", &version(4, 3)).await.expect_problem(409, "stale_revision");
    assert_eq!(problem["revision"], 5);
    let replaced = api.send("POST", "/jobs", &version(highest, 4)).await.expect(200);
    assert_eq!(replaced.json()["revision"], highest);
    for (version, pointer) in [
        (r#"{"topic":"t","id":"a","revision":9223372036854775808}"#, "/revision"),
        (r#"{"topic":"t","id":"a","revision":-1}"#, "/revision"),
        (r#"{"topic":"t","id":"a","revision":"7"}"#, "/revision"),
        (r#"{"topic":"t","id":"a","if_exists":"update"}"#, "/if_exists"),
        (r#"{"topic":"t","if_exists":"replace"}"#, "/if_exists"),
    ] {
        let problem = api.send("POST", "/jobs", version).await.expect_problem(422, "invalid_job");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    let template = r#"{"every":"1h","job":{"topic":"t","if_exists":"replace","revision":1}}"#;
    let problem = api.send("PUT", "/schedules/s", template).await.expect_problem(422, "invalid_job");
    let pointers: Vec<_> = [0, 1].map(|n| problem["errors"][n]["pointer"].clone()).into();
    assert_eq!(pointers, [json!("/job/if_exists"), json!("/job/revision")]);
}

async fn the_items_of_a_batch_say_what_they_did(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(FIRST).await;
    let jobs = r#"{"jobs":[
        {"topic":"t","id":"a","revision":1,"if_exists":"replace"},
        {"topic":"t","id":"a","revision":1,"if_exists":"replace"},
        {"topic":"t","id":"a","revision":0,"if_exists":"replace"},
        {"topic":"t","id":"b"}]}"#;
    let results = api.send("POST", "/batch/jobs", jobs).await.expect(200).json()["results"].clone();
    assert_eq!(results[0], json!({ "status": 200, "id": "a", "replaced": true }));
    assert_eq!(results[1], json!({ "status": 200, "id": "a", "replayed": true }));
    assert_eq!((&results[2]["status"], &results[2]["problem"]["revision"]), (&json!(409), &json!(1)));
    assert_eq!(results[3], json!({ "status": 201, "id": "b" }));
}

async fn the_holder_of_an_older_version_is_told(engine: Engine) {
    let api = Api::new(engine).await;
    for end in ["finish", "release", "bury"] {
        api.add(r#"{"topic":"t","id":"a","body":1}"#).await;
        let held = api.pop("t").await;
        let with_receipt = format!(r#"{{"receipt":{}}}"#, held["receipt"]);
        let newer = r#"{"topic":"t","id":"a","if_exists":"replace","body":2}"#;
        let job = api.send("POST", "/jobs", newer).await.expect(200).json();
        assert_eq!(
            (&job["state"], &job["attempts"], &job["body"]),
            (&json!("reserved"), &json!(0), &json!(2))
        );
        api.get("/topics/t/pop").await.expect(204);
        api.send("POST", "/jobs/a/touch", &with_receipt).await.expect_problem(409, "job_replaced");
        let path = format!("/jobs/a/{end}");
        api.send("POST", &path, &with_receipt).await.expect_problem(409, "job_replaced");
        api.send("POST", &path, &with_receipt).await.expect_problem(409, "lease_lost");
        let next = api.pop("t").await;
        assert_eq!((&next["body"], &next["attempt"]), (&json!(2), &json!(1)), "{end}");
        api.delete("/jobs/a").await.expect(204);
    }
    let stats = api.get("/topics/t").await;
    assert_eq!(stats.status, 404, "no count includes them: {stats:?}");
}

async fn a_paused_topic_refuses_a_replacement(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","revision":1}"#).await;
    api.send("POST", "/topics/t/pause", r#"{"intake":true}"#).await.expect(200);
    let newer = r#"{"topic":"t","id":"a","revision":2,"if_exists":"replace"}"#;
    api.send("POST", "/jobs", newer).await.expect_problem(409, "intake_paused");
    let repeat = r#"{"topic":"t","id":"a","revision":1,"if_exists":"replace"}"#;
    api.send("POST", "/jobs", repeat).await.expect(200);
    api.advance_and_promote(seconds(1)).await;
    assert_eq!(api.get("/jobs/a").await.expect(200).json()["revision"], 1);
}
