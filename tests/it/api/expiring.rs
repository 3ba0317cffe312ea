//! Expiry over HTTP: the fields of requests, what answers show, and what is refused.

use linger::queue::EndKind;
use serde_json::{Value, json};

use super::on_every_engine;
use crate::harness::{
    api::{Api, error_locations, text},
    jobs::seconds,
    stores::Engine,
};

on_every_engine!(
    a_job_shows_when_it_expires_and_that_it_did,
    a_job_that_is_deleted_at_its_expiry_is_remembered,
    the_expiry_of_a_topic_is_that_of_its_later_jobs,
    a_patch_changes_and_clears_the_expiry,
    an_expired_dead_letter_is_requeued_only_on_purpose,
    a_bulk_requeue_skips_what_has_expired,
    wrong_expiries_are_refused,
    figures_count_expired_jobs,
);

/// The moment of the clock of each test at its start, and so many seconds later.
fn at(later: u32) -> String {
    format!("2026-11-21T05:{:02}:{:02}.000Z", 40 + later / 60, later % 60)
}

async fn a_job_shows_when_it_expires_and_that_it_did(engine: Engine) {
    let api = Api::new(engine).await;
    for (id, expire, moment) in [
        ("a", "90", at(100)),
        ("b", "\"1m30s\"", at(100)),
        ("c", &format!("\"{}\"", at(100)), at(100)),
        ("d", "\"2026-11-21T06:41:40+01:00\"", at(100)),
    ] {
        let job = api.add(&format!(r#"{{"topic":"t","id":"{id}","delay":10,"expire":{expire}}}"#)).await;
        assert_eq!((&job["expires_at"], &job["on_expiry"]), (&json!(moment), &json!("dead")), "{id}");
        assert_eq!(api.get(&format!("/jobs/{id}")).await.expect(200).json(), job);
    }
    let listed = api.get("/jobs?state=delayed&topic=t").await.expect(200).json();
    assert_eq!(listed["jobs"][0]["expires_at"], at(100));
    api.advance_and_promote(seconds(10)).await;
    assert_eq!(api.pop("t").await["expires_at"], at(100));
    api.advance_and_promote(seconds(90)).await;
    let dead = api.get("/topics/t/dead").await.expect(200).json();
    assert_eq!(dead["jobs"].as_array().map(Vec::len), Some(4), "a TTR of a minute ended meanwhile");
    for job in dead["jobs"].as_array().expect("a list") {
        assert_eq!((&job["reason"], &job["dead_at"]), (&json!("expired"), &json!(at(100))));
    }
    assert_eq!(api.post("/topics/t/pop").await.expect(204).body.len(), 0);
}

async fn a_job_that_is_deleted_at_its_expiry_is_remembered(engine: Engine) {
    let api = Api::new(engine).await;
    let job = api.add(r#"{"topic":"t","id":"a","expire":"5s","on_expiry":"delete"}"#).await;
    assert_eq!(job["on_expiry"], "delete");
    api.advance_and_promote(seconds(5)).await;
    let problem = api.get("/jobs/a").await.expect_problem(404, "job_not_found");
    assert_eq!(problem["ended"]["how"], EndKind::Expired.as_str());
    assert_eq!(problem["detail"], format!("this job expired and was deleted at {}", at(5)));
}

async fn the_expiry_of_a_topic_is_that_of_its_later_jobs(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"before"}"#).await;
    let settings = r#"{"expire":"1m","on_expiry":"delete"}"#;
    let topic = api.send("PUT", "/topics/t", settings).await.expect(200).json();
    assert_eq!(topic["settings"], json!({ "require_receipt": false, "expire": 60, "on_expiry": "delete" }));
    assert_eq!(api.get("/jobs/before").await.expect(200).json()["expires_at"], Value::Null);
    let job = api.add(r#"{"topic":"t","id":"a"}"#).await;
    assert_eq!((&job["expires_at"], &job["on_expiry"]), (&json!(at(60)), &json!("delete")));
    let own = api.add(r#"{"topic":"t","id":"b","expire":10}"#).await;
    assert_eq!((&own["expires_at"], &own["on_expiry"]), (&json!(at(10)), &json!("delete")));
    let both = api.add(r#"{"topic":"t","id":"c","expire":10,"on_expiry":"dead"}"#).await;
    assert_eq!((&both["expires_at"], &both["on_expiry"]), (&json!(at(10)), &json!("dead")));
}

async fn a_patch_changes_and_clears_the_expiry(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","delay":10}"#).await;
    let patch = async |body: &str| api.send("PATCH", "/jobs/a", body).await.expect(200).json();
    let patched = patch(r#"{"expire":"20s","on_expiry":"delete"}"#).await;
    assert_eq!((&patched["expires_at"], &patched["on_expiry"]), (&json!(at(30)), &json!("delete")));
    assert_eq!(patch(r#"{"delay":30}"#).await["expires_at"], at(50));
    let early = format!(r#"{{"expire":"{}"}}"#, at(29));
    let problem = api.send("PATCH", "/jobs/a", &early).await.expect_problem(422, "invalid_job");
    assert_eq!(error_locations(&problem), ["/expire"]);
    assert_eq!(patch(r#"{"clear_expire":true}"#).await["expires_at"], Value::Null);
    for (body, place) in [
        (r#"{"on_expiry":"dead"}"#, "/on_expiry"),
        (r#"{"expire":1,"clear_expire":true}"#, "/clear_expire"),
        (r#"{"expire":null}"#, "/expire"),
    ] {
        let problem = api.send("PATCH", "/jobs/a", body).await.expect_problem(422, "invalid_job");
        assert_eq!(error_locations(&problem), [place], "{body}");
    }
}

async fn an_expired_dead_letter_is_requeued_only_on_purpose(engine: Engine) {
    let api = Api::new(engine).await;
    for id in ["a", "b"] {
        api.add(&format!(r#"{{"topic":"t","id":"{id}","expire":5}}"#)).await;
    }
    api.advance_and_promote(seconds(5)).await;
    api.post("/jobs/a/requeue").await.expect_problem(409, "job_expired");
    let again = api.send("POST", "/jobs/a/requeue", r#"{"delay":10,"expire":5}"#).await.expect(200).json();
    assert_eq!((&again["state"], &again["expires_at"]), (&json!("delayed"), &json!(at(20))));
    let kept = api.send("POST", "/jobs/b/requeue", r#"{"clear_expire":true}"#).await.expect(200).json();
    assert_eq!((&kept["state"], &kept["expires_at"]), (&json!("ready"), &Value::Null));
}

async fn a_bulk_requeue_skips_what_has_expired(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"expired","expire":5}"#).await;
    api.advance_and_promote(seconds(5)).await;
    api.add(r#"{"topic":"t","id":"buried"}"#).await;
    api.bury("t").await;
    let requeued = api.post("/topics/t/dead/requeue").await.expect(200).json();
    assert_eq!(requeued, json!({ "requeued": 1, "skipped": 1 }));
    assert_eq!(api.get("/jobs/expired").await.expect(200).json()["state"], "dead");
    let bulk = async |more: &str| {
        let filter = r#""filter":{"topic":"t","state":"dead"}"#;
        let body = format!(r#"{{"action":"requeue",{filter},"dry_run":false,"limit":9{more}}}"#);
        let started = api.send("POST", "/bulk", &body).await.expect(202).json();
        let target = format!("/bulk/{}", text(&started["id"]));
        let mut limit = crate::harness::wait::StepLimit::new();
        loop {
            limit.step();
            let now = api.get(&target).await.expect(200).json();
            if now["state"] != "running" {
                return now;
            }
            tokio::task::yield_now().await;
        }
    };
    let skipped = bulk("").await;
    assert_eq!((&skipped["changed"], &skipped["skipped"]), (&json!(0), &json!(1)));
    let changed = bulk(r#","expire":"1m","on_expiry":"delete""#).await;
    assert_eq!((&changed["changed"], &changed["expire"]), (&json!(1), &json!(60)));
    let job = api.get("/jobs/expired").await.expect(200).json();
    assert_eq!((&job["expires_at"], &job["on_expiry"]), (&json!(at(65)), &json!("delete")));
    let request = r#"{"action":"delete","filter":{"topic":"t","state":"dead"},"expire":5}"#;
    api.send("POST", "/bulk", request).await.expect_problem(422, "invalid_request");
}

async fn wrong_expiries_are_refused(engine: Engine) {
    let api = Api::new(engine).await;
    for (fields, place) in [
        (r#""expire":"soon""#, "/expire"),
        (r#""expire":-1"#, "/expire"),
        (r#""expire":"11y""#, "/expire"),
        (r#""expire":"2026-13-01T00:00:00Z""#, "/expire"),
        (r#""expire":true"#, "/expire"),
        (r#""expire":5,"on_expiry":"bury""#, "/on_expiry"),
        (r#""on_expiry":"dead""#, "/on_expiry"),
        (r#""delay":"1h","expire":"2026-11-21T05:41:00Z""#, "/expire"),
        (r#""expire":"2026-11-21T05:39:59Z""#, "/expire"),
    ] {
        let body = format!(r#"{{"topic":"t","id":"a",{fields}}}"#);
        let problem = api.send("POST", "/jobs", &body).await.expect_problem(422, "invalid_job");
        assert_eq!(error_locations(&problem), [place], "{fields}");
    }
    let moment = r#"{"expire":"2026-11-22T05:40:00Z"}"#;
    let problem = api.send("PUT", "/topics/t", moment).await.expect_problem(422, "invalid_request");
    assert_eq!(error_locations(&problem), ["/expire"], "a topic has a duration");
    assert_eq!(api.get("/stats").await.expect(200).json()["minute"]["added"], 0);
}

async fn figures_count_expired_jobs(engine: Engine) {
    let api = Api::new(engine).await;
    for on_expiry in ["dead", "delete", "delete"] {
        api.add(&format!(r#"{{"topic":"t","expire":5,"on_expiry":"{on_expiry}"}}"#)).await;
    }
    api.advance_and_promote(seconds(5)).await;
    let minute = &api.get("/stats").await.expect(200).json()["minute"];
    assert_eq!((&minute["expired"], &minute["died"], &minute["deleted"]), (&json!(3), &json!(0), &json!(0)));
}
