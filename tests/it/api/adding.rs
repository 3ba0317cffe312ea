//! Adding a job: what comes back, repeats, conflicts, times, and the body's bytes.

use serde_json::json;

use super::on_every_engine;
use crate::harness::{
    api::{Api, text},
    jobs::{millis, seconds},
    stores::Engine,
};

on_every_engine!(
    the_example_of_the_contract,
    only_the_topic_is_needed,
    a_retried_add_returns_the_current_job,
    the_same_id_with_other_content_is_a_conflict,
    a_finished_or_deleted_id_is_free_again,
    every_form_of_a_duration_is_accepted,
    a_timestamp_may_be_given_instead_of_a_delay,
    the_body_survives_byte_for_byte,
    every_valid_id_can_be_requested_by_its_location,
    max_attempts_come_from_the_job_its_retry_list_or_the_default,
    a_delay_of_thirty_days_is_kept_to_the_millisecond,
    trap_times_are_compared_in_milliseconds,
    trap_deleted_and_added_again_is_delivered_once_at_the_new_time,
    a_paused_intake_refuses_adds,
);

async fn the_example_of_the_contract(engine: Engine) {
    let api = Api::new(engine).await;
    let order =
        r#"{"topic":"order-close","id":"orders:1001:close","delay":"30m","ttr":"60s","body":{"order":1001}}"#;
    let response = api.send("POST", "/jobs", order).await.expect(201);
    assert_eq!(response.header("location"), "/jobs/orders:1001:close");
    let expected = r#"{"id":"orders:1001:close","topic":"order-close","state":"delayed","created_at":"2026-11-21T05:40:00.000Z","due_at":"2026-11-21T06:10:00.000Z","ttr":60,"attempts":0,"max_attempts":16,"body":{"order":1001}}"#;
    assert_eq!(response.body, format!("{expected}\n"));
}

async fn only_the_topic_is_needed(engine: Engine) {
    let api = Api::new(engine).await;
    let job = api.add(r#"{"topic":"t"}"#).await;
    assert_eq!(job["state"], "ready");
    assert_eq!(job["ttr"], 60);
    assert_eq!(job["body"], json!(null));
    assert_eq!(text(&job["id"]).len(), 36, "the server generated a UUID: {job}");
}

async fn a_retried_add_returns_the_current_job(engine: Engine) {
    let api = Api::new(engine).await;
    let order = r#"{"topic":"t","id":"a","delay":"10s","body":{"n": 1}}"#;
    api.add(order).await;
    api.send("PATCH", "/jobs/a", r#"{"delay":"1h"}"#).await.expect(200);
    let repeated = api.send("POST", "/jobs", order).await.expect(200);
    assert_eq!(repeated.header("idempotent-replayed"), "true");
    assert!(!repeated.headers.contains_key("location"), "the repeat created no job");
    assert_eq!(
        repeated.json()["due_at"],
        "2026-11-21T06:40:00.000Z",
        "the job as it is now, not as it was added"
    );
    api.advance_and_promote(seconds(3_600)).await;
    api.pop("t").await;
    assert_eq!(api.send("POST", "/jobs", order).await.expect(200).json()["state"], "reserved");
    assert!(api.get("/topics/t/pop").await.expect(204).body.is_empty(), "the job was delivered once");
}

async fn the_same_id_with_other_content_is_a_conflict(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","delay":"10s","body":{"n":1}}"#).await;
    for other in [
        r#"{"topic":"u","id":"a","delay":"10s","body":{"n":1}}"#,
        r#"{"topic":"t","id":"a","delay":"11s","body":{"n":1}}"#,
        r#"{"topic":"t","id":"a","delay":"10s","body":{"n": 1}}"#,
        r#"{"topic":"t","id":"a","delay":"10s","ttr":61,"body":{"n":1}}"#,
        r#"{"topic":"t","id":"a","delay":"10s","max_attempts":16,"body":{"n":1}}"#,
    ] {
        let problem = api.send("POST", "/jobs", other).await.expect_problem(409, "job_exists");
        assert_eq!(problem["state"], "delayed");
        assert_eq!(problem["due_at"], "2026-11-21T05:40:10.000Z");
    }
    assert_eq!(api.get("/jobs/a").await.expect(200).json()["topic"], "t", "nothing changed");
}

async fn a_finished_or_deleted_id_is_free_again(engine: Engine) {
    let api = Api::new(engine).await;
    let order = r#"{"topic":"t","id":"a"}"#;
    api.add(order).await;
    api.delete("/jobs/a").await.expect(204);
    api.add(order).await;
    let job = api.pop("t").await;
    api.post(&format!("/jobs/a/finish?receipt={}", text(&job["receipt"]))).await.expect(204);
    api.add(order).await;
}

async fn every_form_of_a_duration_is_accepted(engine: Engine) {
    let api = Api::new(engine).await;
    for (delay, due_at) in [
        ("15", "2026-11-21T05:40:15.000Z"),
        ("0.25", "2026-11-21T05:40:00.250Z"),
        ("1e2", "2026-11-21T05:41:40.000Z"),
        ("\"15\"", "2026-11-21T05:40:15.000Z"),
        ("\"250ms\"", "2026-11-21T05:40:00.250Z"),
        ("\"3m\"", "2026-11-21T05:43:00.000Z"),
        ("\"1h30m\"", "2026-11-21T07:10:00.000Z"),
        ("\"7d\"", "2026-11-28T05:40:00.000Z"),
        ("\"2w\"", "2026-12-05T05:40:00.000Z"),
        ("\"PT15M\"", "2026-11-21T05:55:00.000Z"),
        ("\"1.5s\"", "2026-11-21T05:40:01.500Z"),
        ("\"1m0.5s\"", "2026-11-21T05:41:00.500Z"),
        ("\"1.5h\"", "2026-11-21T07:10:00.000Z"),
        ("\"1.5\u{b5}s\"", "2026-11-21T05:40:00.001Z"),
        ("315576000", "2036-11-20T17:40:00.000Z"),
    ] {
        let job = api.add(&format!(r#"{{"topic":"t","delay":{delay}}}"#)).await;
        assert_eq!(job["due_at"], due_at, "{delay}");
    }
}

async fn a_timestamp_may_be_given_instead_of_a_delay(engine: Engine) {
    let api = Api::new(engine).await;
    let later = api.add(r#"{"topic":"t","at":"2026-11-21T07:40:00.0001+01:00"}"#).await;
    assert_eq!(later["due_at"], "2026-11-21T06:40:00.001Z", "the timestamp is rounded up");
    assert_eq!(later["state"], "delayed");
    let past = api.add(r#"{"topic":"t","at":"2001-01-01T00:00:00Z"}"#).await;
    assert_eq!(past["state"], "ready", "a job that is due in the past is ready");
}

async fn the_body_survives_byte_for_byte(engine: Engine) {
    let api = Api::new(engine).await;
    for (n, body) in [
        r#"{"z":1,"a":2,"a":3,  "n":12345678901234567890123456789.1000}"#,
        "1e999",
        r#""\u00e9\/\ud83d\ude00 é""#,
        "[ ]",
        "null",
        "{\n\t\"deep\":[[[[[[]]]]]]\n}",
    ]
    .into_iter()
    .enumerate()
    {
        let order = format!("{{\"topic\":\"t{n}\",\"id\":\"{n}\",\"body\": {body} }}");
        let added = api.call("POST", "/jobs").json(&order).without_contract_check().send().await.expect(201);
        let read = api.call("GET", &format!("/jobs/{n}")).without_contract_check().send().await.expect(200);
        let popped =
            api.call("GET", &format!("/topics/t{n}/pop")).without_contract_check().send().await.expect(200);
        for response in [added.body, read.body, popped.body] {
            let sent = format!("\"body\":{body}}}\n");
            assert!(response.ends_with(sent.as_bytes()), "{body}: {}", String::from_utf8_lossy(&response));
        }
    }
}

async fn every_valid_id_can_be_requested_by_its_location(engine: Engine) {
    let api = Api::new(engine).await;
    let longest = "x".repeat(255);
    for id in ["AZaz09._~:@+=-", "...", "-", "a+b", "a@b:c", longest.as_str()] {
        let response =
            api.send("POST", "/jobs", &format!(r#"{{"topic":"t","id":"{id}"}}"#)).await.expect(201);
        let found = api.get(response.header("location")).await.expect(200).json();
        assert_eq!(found["id"], id);
        let escaped: String = id.bytes().map(|byte| format!("%{byte:02X}")).collect();
        api.delete(&format!("/jobs/{escaped}")).await.expect(204);
    }
}

async fn max_attempts_come_from_the_job_its_retry_list_or_the_default(engine: Engine) {
    let api = Api::new(engine).await;
    let listed = api.add(r#"{"topic":"t","retry":["15s",180,"PT10M"]}"#).await;
    assert_eq!(listed["max_attempts"], 4, "one attempt more than the retry list has entries");
    assert_eq!(listed["retry"], json!([15, 180, 600]));
    let unlimited = api.add(r#"{"topic":"t","retry":[1.5],"max_attempts":0}"#).await;
    assert_eq!(unlimited["max_attempts"], 0, "0 means no limit");
    let unlisted = api.add(r#"{"topic":"t","retry":[]}"#).await;
    assert_eq!(unlisted["max_attempts"], 16, "an empty list has no length that counts");
    assert!(unlisted.get("retry").is_none());
    api.send("PUT", "/topics/s", r#"{"retry":[60,60]}"#).await.expect(200);
    let of_topic = api.add(r#"{"topic":"s","id":"topic"}"#).await;
    assert_eq!((&of_topic["max_attempts"], &of_topic["retry"]), (&json!(3), &json!([60, 60])));
    // An empty list of the job's own is no list, in all that follows from one.
    let own = api.add(r#"{"topic":"s","id":"none","retry":[]}"#).await;
    assert_eq!((&own["max_attempts"], own.get("retry")), (&json!(16), None));
    api.send("PATCH", "/jobs/topic", r#"{"delay":"1h","retry":[]}"#).await.expect(200);
    let popped = api.pop("s").await;
    let release = format!(r#"{{"receipt":{}}}"#, popped["receipt"]);
    let released = api.send("POST", "/jobs/none/release", &release).await.expect(200).json();
    assert_eq!(released["due_at"], "2026-11-21T05:40:01.000Z", "the back-off of a job without a list");
    api.send("PUT", "/topics/s", r#"{"max_attempts":9,"retry":[60,60]}"#).await.expect(200);
    let both = api.add(r#"{"topic":"s","retry":[5]}"#).await;
    assert_eq!(both["max_attempts"], 2, "the job's own list comes before the topic's number");
    let capped = api.add(r#"{"topic":"s","retry":[]}"#).await;
    assert_eq!(capped["max_attempts"], 9);
}

async fn a_delay_of_thirty_days_is_kept_to_the_millisecond(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","delay":"30d"}"#).await;
    api.advance_and_promote(seconds(30 * 86_400) - millis(1)).await;
    api.get("/topics/t/pop").await.expect(204);
    assert_eq!(api.get("/jobs/a").await.json()["state"], "delayed");
    api.advance_and_promote(millis(1)).await;
    let job = api.pop("t").await;
    assert_eq!(job["due_at"], "2026-12-21T05:40:00.000Z");
    assert_eq!(job["late"], 0);
}

async fn trap_times_are_compared_in_milliseconds(engine: Engine) {
    let api = Api::new(engine).await;
    api.advance_and_promote(millis(900)).await;
    api.add(r#"{"topic":"t","delay":1}"#).await;
    // Seconds compared as whole numbers would fire 900 ms early.
    api.advance_and_promote(millis(999)).await;
    api.get("/topics/t/pop").await.expect(204);
    api.advance_and_promote(millis(6)).await;
    assert_eq!(api.pop("t").await["late"], 0.005);
}

async fn trap_deleted_and_added_again_is_delivered_once_at_the_new_time(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","delay":10}"#).await;
    api.delete("/jobs/a").await.expect(204);
    api.add(r#"{"topic":"t","id":"a","delay":20}"#).await;
    api.advance_and_promote(seconds(19)).await;
    api.get("/topics/t/pop").await.expect(204);
    api.advance_and_promote(seconds(1)).await;
    assert_eq!(api.pop("t").await["id"], "a");
    api.get("/topics/t/pop").await.expect(204);
}

async fn a_paused_intake_refuses_adds(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    api.send("POST", "/topics/t/pause", r#"{"intake":true}"#).await.expect(200);
    for (body, code) in [
        (r#"{"topic":"t"}"#, "intake_paused"),
        (r#"{"topic":"t","id":"b"}"#, "intake_paused"),
        (r#"{"topic":"t","id":"a","delay":5}"#, "job_exists"),
    ] {
        api.send("POST", "/jobs", body).await.expect_problem(409, code);
    }
    let repeat = api.send("POST", "/jobs", r#"{"topic":"t","id":"a"}"#).await.expect(200);
    assert_eq!(repeat.header("idempotent-replayed"), "true", "it was accepted before the pause");
    let batch = r#"{"jobs":[{"topic":"t","id":"a"},{"topic":"t","id":"b"},{"topic":"u","id":"c"}]}"#;
    let results = api.send("POST", "/batch/jobs", batch).await.expect(200).json();
    let results = results["results"].as_array().expect("a list").clone();
    assert_eq!(results.iter().map(|one| &one["status"]).collect::<Vec<_>>(), [200, 409, 201]);
    api.get("/jobs/b").await.expect_problem(404, "job_not_found");
    api.post("/topics/t/resume").await.expect(200);
    api.add(r#"{"topic":"t"}"#).await;
}
