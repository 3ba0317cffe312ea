//! Finishes after the TTR over HTTP: until when they count, what other calls say, and how they are counted.

use linger::queue::EndKind;
use serde_json::{Value, json};

use super::on_every_engine;
use crate::harness::{
    api::{Api, text},
    jobs::seconds,
    stores::Engine,
};

on_every_engine!(
    a_finish_after_the_ttr_is_counted_and_remembered,
    other_calls_after_the_ttr_say_whether_a_finish_would_count,
    a_changed_job_takes_no_late_finish,
    a_topic_may_refuse_late_finishes,
);

/// Adds job `a` with these members, pops it and has its TTR of 5 s end. Returns its receipt.
async fn time_out(api: &Api, members: &str) -> String {
    api.add(&format!(r#"{{"topic":"t","id":"a","ttr":5{members}}}"#)).await;
    let receipt = text(&api.pop("t").await["receipt"]).to_owned();
    api.advance_and_promote(seconds(5)).await;
    receipt
}

fn finish(receipt: &str) -> String {
    format!("/jobs/a/finish?receipt={receipt}")
}

async fn a_finish_after_the_ttr_is_counted_and_remembered(engine: Engine) {
    let api = Api::new(engine).await;
    for members in ["", r#","retry":[30]"#, r#","max_attempts":1"#] {
        let receipt = time_out(&api, members).await;
        api.post("/jobs/a/finish").await.expect_problem(409, "not_reserved");
        api.post(&finish(&receipt)).await.expect(204);
        for _ in 0..2 {
            let gone = api.post(&finish(&receipt)).await.expect_problem(404, "job_not_found");
            assert_eq!(gone["ended"]["how"], EndKind::FinishedLate.as_str());
            assert!(text(&gone["detail"]).contains("after its reservation had timed out"), "{gone}");
        }
        api.get("/topics/t").await.expect_problem(404, "topic_not_found");
    }
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    let in_time = text(&api.pop("t").await["receipt"]).to_owned();
    api.post(&finish(&in_time)).await.expect(204);
    let minute = api.get("/stats").await.expect(200).json()["minute"].take();
    assert_eq!((&minute["finished"], &minute["finished_late"]), (&json!(4), &json!(3)));
    let metrics = api.get("/metrics").await.expect(200);
    let metrics = String::from_utf8(metrics.body.to_vec()).expect("is text");
    assert!(metrics.contains("linger_jobs_finished_late_total{topic=\"t\"} 3\n"), "{metrics}");
}

/// What each call of a holder but a finish answers, single and in a batch.
async fn refusals(api: &Api, receipt: &str) -> Vec<Value> {
    let mut retaken = Vec::new();
    let body = format!(r#"{{"receipt":"{receipt}"}}"#);
    let batch = format!(r#"{{"jobs":[{{"id":"a","receipt":"{receipt}"}}]}}"#);
    for step in ["touch", "release", "bury"] {
        let mut problem =
            api.send("POST", &format!("/jobs/a/{step}"), &body).await.expect_problem(409, "lease_lost");
        retaken.push(problem["retaken"].take());
        let mut results = api.send("POST", &format!("/batch/{step}"), &batch).await.expect(200).json();
        let mut problem = results["results"][0]["problem"].take();
        assert_eq!(problem["code"], "lease_lost");
        retaken.push(problem["retaken"].take());
    }
    retaken
}

async fn other_calls_after_the_ttr_say_whether_a_finish_would_count(engine: Engine) {
    let api = Api::new(engine).await;
    let first = time_out(&api, "").await;
    let before = api.get("/jobs/a").await.json();
    assert_eq!(refusals(&api, &first).await, vec![json!(false); 6]);
    assert_eq!(api.get("/jobs/a").await.json(), before, "nothing changed");
    let second = api.pop("t").await;
    assert_eq!(refusals(&api, &first).await, vec![json!(true); 6]);
    let late = api.post(&finish(&first)).await.expect_problem(409, "lease_lost");
    assert_eq!(late["retaken"], true);
    let batch = format!(r#"{{"jobs":[{{"id":"a","receipt":"{first}"}}]}}"#);
    let results = api.send("POST", "/batch/finish", &batch).await.expect(200).json();
    assert_eq!(results["results"][0]["problem"]["retaken"], true);
    assert_eq!(api.get("/jobs/a").await.json()["attempts"], 2, "nothing changed");
    api.post(&finish(text(&second["receipt"]))).await.expect(204);
}

async fn a_changed_job_takes_no_late_finish(engine: Engine) {
    let api = Api::new(engine).await;
    for (members, method, path, change) in [
        ("", "PATCH", "/jobs/a", r#"{"body":2}"#),
        (r#","retry":[30]"#, "PATCH", "/jobs/a", r#"{"delay":0}"#),
        (r#","max_attempts":1"#, "POST", "/jobs/a/requeue", "{}"),
    ] {
        let receipt = time_out(&api, members).await;
        api.send(method, path, change).await.expect(200);
        let late = api.post(&finish(&receipt)).await.expect_problem(409, "lease_lost");
        assert_eq!(late["retaken"], true, "{change}");
        assert_eq!(refusals(&api, &receipt).await, vec![json!(true); 6], "{change}");
        api.delete("/jobs/a").await.expect(204);
    }
}

async fn a_topic_may_refuse_late_finishes(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"before","ttr":5}"#).await;
    let before = text(&api.pop("t").await["receipt"]).to_owned();
    let topic = api.send("PUT", "/topics/t", r#"{"late_finish":false}"#).await.expect(200).json();
    assert_eq!(topic["settings"], json!({ "require_receipt": false, "late_finish": false }));
    let receipt = time_out(&api, "").await;
    assert_eq!(refusals(&api, &receipt).await, vec![json!(true); 6]);
    let late = api.post(&finish(&receipt)).await.expect_problem(409, "lease_lost");
    assert_eq!(late["retaken"], true);
    let path = format!("/jobs/before/finish?receipt={before}");
    api.post(&path).await.expect(204);
    api.send("PUT", "/topics/t", r#"{"late_finish":true}"#).await.expect(200);
    api.post(&finish(&receipt)).await.expect_problem(409, "lease_lost");
}
