//! What requests about schedules are refused, each with what to do instead.

use linger::{
    job::ScheduleName,
    queue::MAX_TEMPLATE,
    store::{ScheduleChange, ScheduleContent, ScheduleStore},
};
use serde_json::{Value, json};

use super::on_every_engine;
use crate::harness::{
    api::{Api, error_locations, text},
    stores::Engine,
};

on_every_engine!(
    a_null_is_a_field_that_is_left_out;
    every_fault_of_a_schedule_has_its_place_and_its_remedy,
    every_fault_of_its_job_has_its_place_and_its_remedy,
    names_of_other_schedulers_are_explained,
    a_job_of_a_schedule_has_a_limit,
    the_ids_of_runs_are_reserved,
    a_run_has_an_id_or_nothing,
);

/// Asserts that a PUT is refused as a whole, with one fault.
async fn assert_refused(api: &Api, body: &str, code: &str, location: &str, remedy: &str) {
    let problem = api.send("PUT", "/schedules/s", body).await.expect_problem(422, code);
    assert_eq!(error_locations(&problem), [location], "{body}: {problem}");
    assert!(text(&problem["detail"]).contains(remedy), "{body}: {problem}");
    api.get("/schedules/s").await.expect_problem(404, "schedule_not_found");
}

async fn every_fault_of_a_schedule_has_its_place_and_its_remedy(engine: Engine) {
    let api = Api::new(engine).await;
    for (fields, place, remedy) in [
        (r#""cron":"0 0 30 2 *""#, "/cron", "never matches"),
        (r#""cron":"0 0 1 1 * 2027""#, "/cron", "leave it out, and set start and end"),
        (r#""cron":"0 9 ? * MON-FRI *""#, "/cron", "must not have a year"),
        (r#""cron":"0 9 * *""#, "/cron", "5 fields"),
        (r#""cron":"0 25 * * *""#, "/cron", "0-23"),
        (r#""cron":"@every 5m""#, "/cron", "set every instead"),
        (r#""cron":"TZ=UTC 0 9 * * *""#, "/cron", "set time_zone instead"),
        (r#""cron":9"#, "/cron", "string"),
        (r#""cron":"@daily","time_zone":"Europe/Berln""#, "/time_zone", "did you mean Europe/Berlin?"),
        (r#""cron":"@daily","time_zone":"Mars/Olympus""#, "/time_zone", "\"Europe/Berlin\", or \"UTC\""),
        (r#""every":"1h","time_zone":"UTC""#, "/time_zone", "leave it out, or use cron"),
        (r#""cron":"@daily","every":"1h""#, "/every", "leave one of them out"),
        (r#""every":0.5"#, "/every", "between 1 s and 10 years"),
        (r#""every":"11y""#, "/every", "must be"),
        (r#""overlap":"skip""#, "/cron", "or set every"),
        (r#""every":"1h","missed":"all""#, "/missed", "unless overlap is \"allow\""),
        (r#""every":"1h","missed":"some""#, "/missed", "\"one\", \"all\", \"none\""),
        (r#""every":"1h","overlap":"forbid""#, "/overlap", "\"skip\", \"allow\", \"replace\""),
        (r#""every":"1h","missed_within":"5s""#, "/missed_within", "at least 1 minute"),
        (r#""every":"1h","missed":"none","missed_within":"5m""#, "/missed_within", "leave it out"),
        (r#""every":"1h","jitter":"61m""#, "/jitter", "at most the time between two runs, 3600 s"),
        (
            r#""every":"1h","start":"2026-12-01T00:00:00Z","end":"2026-11-01T00:00:00Z""#,
            "/end",
            "before start",
        ),
        (r#""every":"1h","start":"tomorrow""#, "/start", "RFC 3339"),
        (r#""every":"1h","topic":"t""#, "/topic", "belongs in job"),
        (r#""every":"1h","name":"s""#, "/name", "the last part of the path"),
        (r#""every":"1h","crom":"@daily""#, "/crom", "did you mean cron?"),
    ] {
        let body = format!(r#"{{{fields},"job":{{"topic":"t"}}}}"#);
        assert_refused(&api, &body, "invalid_request", place, remedy).await;
    }
    assert_refused(&api, r#"{"every":"1h"}"#, "invalid_request", "/job", "is required").await;
    assert_refused(&api, "[]", "invalid_request", "", "JSON object").await;
    let all = r#"{"every":"x","overlap":1,"missed":2,"job":3}"#;
    let problem = api.send("PUT", "/schedules/s", all).await.expect_problem(422, "invalid_request");
    assert_eq!(error_locations(&problem), ["/every", "/overlap", "/missed"], "all at once: {problem}");
    for name in ["a%2Fb", "a%20b", "..", &"x".repeat(201)] {
        let call =
            api.call("PUT", &format!("/schedules/{name}")).json(r#"{"every":"1h","job":{"topic":"t"}}"#);
        call.send().await.expect_problem(400, "invalid_parameter");
    }
}

async fn every_fault_of_its_job_has_its_place_and_its_remedy(engine: Engine) {
    let api = Api::new(engine).await;
    let about = "the schedule says when its jobs are due";
    for (job, code, place, remedy) in [
        (r#"{"topic":"t","id":"a"}"#, "invalid_job", "/job/id", "leave it out"),
        (r#"{"topic":"t","delay":5}"#, "invalid_job", "/job/delay", about),
        (r#"{"topic":"t","at":"2030-01-01T00:00:00Z"}"#, "invalid_job", "/job/at", about),
        (r#"{"topic":"t","expire":"2030-01-01T00:00:00Z"}"#, "invalid_request", "/job/expire", "a duration"),
        (r#"{"body":1}"#, "invalid_job", "/job/topic", "is required"),
        (r#"{"topic":"a b"}"#, "invalid_job", "/job/topic", "A-Z"),
        (r#"{"topic":"t","ttr":0}"#, "invalid_job", "/job/ttr", "between"),
        (r#"{"topic":"t","retry":["x"]}"#, "invalid_job", "/job/retry/0", "seconds"),
        (r#"{"topic":"t","callback":{"url":"x"}}"#, "invalid_job", "/job/callback/url", "not a URL"),
        (r#"{"topic":"t","payload":1}"#, "invalid_job", "/job/payload", "did you mean body?"),
        ("3", "invalid_request", "/job", "JSON object"),
    ] {
        let body = format!(r#"{{"every":"1h","job":{job}}}"#);
        assert_refused(&api, &body, code, place, remedy).await;
    }
}

async fn names_of_other_schedulers_are_explained(engine: Engine) {
    let api = Api::new(engine).await;
    for (name, meant) in [
        ("schedule", "did you mean cron?"),
        ("tz", "did you mean time_zone?"),
        ("timezone", "did you mean time_zone?"),
        ("startDate", "did you mean start?"),
        ("concurrencyPolicy", "did you mean overlap?"),
        ("startingDeadlineSeconds", "did you mean missed_within?"),
        ("payload", "did you mean job?"),
    ] {
        let body = format!(r#"{{"cron":"@daily","{name}":"x","job":{{"topic":"t"}}}}"#);
        assert_refused(&api, &body, "invalid_request", &format!("/{name}"), meant).await;
    }
    let job = r#"{"topic":"t","cron":"@daily"}"#;
    let problem = api.send("POST", "/jobs", job).await.expect_problem(422, "invalid_job");
    assert!(text(&problem["detail"]).contains("PUT /schedules/{name}"), "{problem}");
    let problem = api.post("/schedules").await.expect_problem(405, "method_not_allowed");
    assert!(text(&problem["detail"]).contains("PUT /schedules/{name}"), "{problem}");
}

async fn a_job_of_a_schedule_has_a_limit(engine: Engine) {
    let api = Api::new(engine).await;
    let body = |len: usize| {
        let job = r#"{"topic":"t","body":""}"#;
        let job = job.replace("\"\"", &format!("\"{}\"", "x".repeat(len - job.len())));
        format!(r#"{{"every":"1h","job":{job}}}"#)
    };
    assert_refused(&api, &body(MAX_TEMPLATE + 1), "invalid_request", "/job", "at most 65536 bytes").await;
    api.send("PUT", "/schedules/s", &body(MAX_TEMPLATE)).await.expect(201);
    api.post("/schedules/s/run").await.expect(201);
}

async fn a_null_is_a_field_that_is_left_out(engine: Engine) {
    let api = Api::new(engine).await;
    let nulls = r#"{"cron":null,"every":"1h","time_zone":null,"start":null,"end":null,"jitter":null,"overlap":null,
        "missed":null,"missed_within":null,"job":{"topic":"t","id":null,"ttr":null,"callback":{"url":"http://a.example/",
        "headers":null},"body":null}}"#;
    let call = api.call("PUT", "/schedules/s").json(nulls).without_contract_check();
    call.send().await.expect(201);
    let shown = api.get("/schedules/s").await.expect(200).json();
    let expected = json!({"topic": "t", "callback": {"url": "http://a.example/"}, "body": null});
    assert_eq!((&shown["job"], &shown["overlap"]), (&expected, &json!("skip")));
    api.send("POST", "/schedules/s/run", "null").await.expect(201);
}

async fn the_ids_of_runs_are_reserved(engine: Engine) {
    let api = Api::new(engine).await;
    for prefix in ["cron:", "run:"] {
        let job = format!(r#"{{"topic":"t","id":"{prefix}a"}}"#);
        let problem = api.send("POST", "/jobs", &job).await.expect_problem(422, "invalid_job");
        assert_eq!(error_locations(&problem), ["/id"]);
        assert!(text(&problem["detail"]).contains(prefix), "{problem}");
        let jobs = format!(r#"{{"jobs":[{job},{{"topic":"t","id":"a{prefix}"}}]}}"#);
        let results = api.send("POST", "/batch/jobs", &jobs).await.expect(200).json();
        let statuses: Vec<Value> = (0..2).map(|n| results["results"][n]["status"].clone()).collect();
        assert_eq!(statuses, [422, 201], "{results}");
    }
}

async fn a_run_has_an_id_or_nothing(engine: Engine) {
    let api = Api::new(engine).await;
    api.send("PUT", "/schedules/s", r#"{"every":"1h","job":{"topic":"t"}}"#).await.expect(201);
    for (body, place) in [(r#"{"id":"a b"}"#, "/id"), (r#"{"id":""}"#, "/id"), (r#"{"delay":5}"#, "/delay")] {
        let problem = api.send("POST", "/schedules/s/run", body).await.expect_problem(422, "invalid_request");
        assert_eq!(error_locations(&problem), [place], "{body}");
    }
}

#[tokio::test]
async fn there_are_at_most_ten_thousand_schedules() {
    let api = Api::new(Engine::Naive).await;
    let change = |n: usize| ScheduleChange {
        name: ScheduleName::parse(&format!("n{n}")).expect("a name"),
        expected: None,
        content: Some(ScheduleContent { next: None, text: "?".into() }),
        run: None,
    };
    api.store.change_schedules((0..10_000).map(change).collect()).await.expect("stores");
    let schedule = r#"{"every":"1h","job":{"topic":"t"}}"#;
    let problem =
        api.send("PUT", "/schedules/one-more", schedule).await.expect_problem(409, "too_many_schedules");
    assert!(text(&problem["detail"]).contains("10000"), "{problem}");
    api.send("PUT", "/schedules/n7", schedule).await.expect(201);
    api.delete("/schedules/n8").await.expect(204);
    api.send("PUT", "/schedules/one-more", schedule).await.expect(201);
}
