//! The texts of refusals: the first fault in `detail`, suggestions, and hints at other operations.

use serde_json::Value;

use super::on_every_engine;
use crate::harness::{
    api::{Api, Setup, error_locations, text},
    stores::Engine,
};
use linger::{job::Delay, queue::Limits};

on_every_engine!(
    the_error_for_a_taken_id_says_what_was_compared,
    every_json_response_ends_with_a_line_feed;
    the_detail_carries_the_first_fault,
    misspelt_fields_and_parameters_get_a_suggestion,
    a_count_on_a_pop_is_answered_with_a_hint_at_the_batch,
    the_error_names_a_byte_order_mark,
    the_error_names_the_limit_of_delays,
    the_limit_of_delays_can_be_set,
    the_error_shows_how_to_write_a_number_as_a_timestamp,
    the_error_names_the_bound_of_a_time,
    the_error_names_a_plus_in_a_query,
    the_error_names_a_superfluous_slash,
    the_error_for_an_unknown_path_names_the_right_one,
    the_error_for_a_list_of_jobs_names_the_batch,
);

async fn detail(api: &Api, method: &str, target: &str, body: &str) -> String {
    let response = api.send(method, target, body).await;
    assert!(response.status.is_client_error(), "{target} {body}");
    text(&response.json()["detail"]).to_owned()
}

fn first(problem: &Value) -> &str {
    text(&problem["errors"][0]["detail"])
}

async fn the_detail_carries_the_first_fault(engine: Engine) {
    let api = Api::new(engine).await;
    for (body, expected) in [
        (r#"{"body":1}"#, "/topic is required"),
        (r#"{"delay":-1,"ttr":0}"#, "/topic is required (and 2 more)"),
        (r#"{"topic":1}"#, "/topic must be a string"),
        ("7", "the body must be a JSON object"),
    ] {
        assert_eq!(detail(&api, "POST", "/jobs", body).await, expected);
    }
    assert_eq!(detail(&api, "POST", "/batch/pop", "{}").await, "/topics is required");
    let problem = api.get("/topics/t/pop?wait=-1&ttr=0").await.expect_problem(400, "invalid_parameter");
    assert_eq!(text(&problem["detail"]), "wait must be zero or more seconds (and 1 more)");
    let many: Vec<_> = (0..60).map(|n| format!("\"f{n}\":1")).collect();
    let body = format!("{{\"topic\":\"t\",{}}}", many.join(","));
    let problem = api.send("POST", "/jobs", &body).await.expect_problem(422, "invalid_job");
    assert_eq!(error_locations(&problem).len(), 32);
    assert!(text(&problem["detail"]).ends_with("(and 59 more)"), "{problem}");
}

async fn misspelt_fields_and_parameters_get_a_suggestion(engine: Engine) {
    let api = Api::new(engine).await;
    for (typo, meant) in [
        ("delays", "delay"),
        ("Delay", "delay"),
        ("maxAttempts", "max_attempts"),
        ("max-attempts", "max_attempts"),
        ("retrys", "retry"),
        ("boddy", "body"),
    ] {
        let body = format!(r#"{{"topic":"t","{typo}":1}}"#);
        let problem = api.send("POST", "/jobs", &body).await.expect_problem(422, "invalid_job");
        assert_eq!(first(&problem), format!("is not a field of this object; did you mean {meant}?"));
    }
    for (word, said) in [
        ("payload", "; did you mean body?"),
        ("queue", "; did you mean topic?"),
        ("run_at", "; did you mean at?"),
        ("delaySeconds", "; did you mean delay?"),
        ("visibilityTimeout", "; did you mean ttr?"),
        ("retries", "; did you mean max_attempts, which counts the first attempt as well?"),
        (
            "ttl",
            "; did you mean expire, after which the job is not delivered any more (ttr is how long a worker has it)?",
        ),
        ("overwrite", "; did you mean if_exists, which is \"keep\" or \"replace\"?"),
        ("version", "; did you mean revision, a whole number?"),
        (
            "priority",
            ": jobs have no priority; use one topic for each urgency, and pop the most urgent first",
        ),
    ] {
        let body = format!(r#"{{"topic":"t","{word}":1}}"#);
        let problem = api.send("POST", "/jobs", &body).await.expect_problem(422, "invalid_job");
        assert_eq!(first(&problem), format!("is not a field of this object{said}"));
    }
    let problem =
        api.send("POST", "/jobs", r#"{"topic":"t","xyzzy":1}"#).await.expect_problem(422, "invalid_job");
    let known = "id, topic, delay, at, ttr, max_attempts, retry, expire, on_expiry, revision, if_exists, \
                 callback, \
                 traceparent, tracestate, body";
    assert_eq!(first(&problem), format!("is not a field of this object; its fields are {known}"));
    for (target, meant) in [("/topics/t/pop?wiat=5", "wait"), ("/topics/t/pop?waits=5", "wait")] {
        let problem = api.get(target).await.expect_problem(400, "invalid_parameter");
        assert_eq!(first(&problem), format!("is not a parameter of this call; did you mean {meant}?"));
    }
    let problem = api.post("/jobs/a/finish?reciept=x").await.expect_problem(400, "invalid_parameter");
    assert_eq!(first(&problem), "is not a parameter of this call; did you mean receipt?");
    let problem = api.get("/jobs/a?wait=1").await.expect_problem(400, "invalid_parameter");
    assert_eq!(first(&problem), "is not a parameter of this call, which has none");
}

async fn a_count_on_a_pop_is_answered_with_a_hint_at_the_batch(engine: Engine) {
    let api = Api::new(engine).await;
    for name in ["count", "max", "limit"] {
        let problem =
            api.get(&format!("/topics/t/pop?{name}=10")).await.expect_problem(400, "invalid_parameter");
        assert_eq!(error_locations(&problem), [name]);
        assert!(first(&problem).contains("POST /batch/pop"), "{problem}");
    }
}

async fn the_error_names_a_byte_order_mark(engine: Engine) {
    let api = Api::new(engine).await;
    let problem = api.send("POST", "/jobs", "\u{feff}{\"topic\":\"t\"}").await;
    let problem = problem.expect_problem(400, "malformed_request");
    assert!(text(&problem["detail"]).contains("byte order mark"), "{problem}");
}

async fn the_error_names_the_limit_of_delays(engine: Engine) {
    let api = Api::new(engine).await;
    for delay in ["1e300", "1800000000", "\"11w9999999999d\"", "\"4000d\""] {
        let body = format!(r#"{{"topic":"t","delay":{delay}}}"#);
        let problem = api.send("POST", "/jobs", &body).await.expect_problem(422, "invalid_job");
        assert!(first(&problem).contains("10 years"), "{delay}: {problem}");
    }
    let problem =
        api.send("POST", "/jobs", r#"{"topic":"t","ttr":1e300}"#).await.expect_problem(422, "invalid_job");
    assert!(first(&problem).contains("30 days"), "{problem}");
    let problem = api.send("POST", "/jobs", r#"{"topic":"t","retry":[1,1e300]}"#).await;
    assert!(first(&problem.expect_problem(422, "invalid_job")).contains("10 years"));
}

async fn the_limit_of_delays_can_be_set(engine: Engine) {
    let max_delay = Delay::new(std::time::Duration::from_secs(7 * 86_400)).expect("a delay");
    let limits = Limits { max_delay, ..Limits::default() };
    let api = Api::with(engine, Setup { limits, ..Setup::default() }).await;
    // Half an hour in milliseconds: 20.8 days.
    let problem = api.send("POST", "/jobs", r#"{"topic":"t","delay":1800000}"#).await;
    let problem = problem.expect_problem(422, "invalid_job");
    let expected = "must be at most 604800 s (queue.max_delay); a number counts seconds, not milliseconds";
    assert_eq!(first(&problem), expected);
    api.add(r#"{"topic":"t","id":"a","delay":"7d"}"#).await;
    for (method, target, body, at) in [
        ("PATCH", "/jobs/a", r#"{"delay":"8d"}"#, "/delay"),
        ("POST", "/jobs", r#"{"topic":"t","retry":[1,"8d"]}"#, "/retry/1"),
        ("PUT", "/topics/t", r#"{"retry":["8d"]}"#, "/retry/0"),
        ("POST", "/jobs/a/requeue", r#"{"delay":"8d"}"#, "/delay"),
        (
            "POST",
            "/jobs/a/release",
            r#"{"receipt":"9f86d081884c7d659a2feaa0c55ad015","delay":"8d"}"#,
            "/delay",
        ),
    ] {
        let problem = api.send(method, target, body).await.expect(422).json();
        assert_eq!(error_locations(&problem), [at], "{target}");
        assert!(first(&problem).contains("queue.max_delay"), "{problem}");
    }
    // A timestamp cannot be confused with a number of milliseconds.
    api.add(r#"{"topic":"t","id":"b","at":"2027-11-21T06:10:00Z"}"#).await;
}

async fn the_error_shows_how_to_write_a_number_as_a_timestamp(engine: Engine) {
    let api = Api::new(engine).await;
    for number in ["1795240800", "1795240800000", "1795240800.0"] {
        let body = format!(r#"{{"topic":"t","at":{number}}}"#);
        let problem = api.send("POST", "/jobs", &body).await.expect_problem(422, "invalid_job");
        assert!(first(&problem).contains("\"2026-11-21T06:00:00.000Z\""), "{number}: {problem}");
    }
    for number in ["-1", "1e300", "true"] {
        let body = format!(r#"{{"topic":"t","at":{number}}}"#);
        let problem = api.send("POST", "/jobs", &body).await.expect_problem(422, "invalid_job");
        assert!(first(&problem).contains("RFC 3339"), "{number}: {problem}");
    }
}

async fn the_error_names_a_superfluous_slash(engine: Engine) {
    let api = Api::new(engine).await;
    for target in ["/topics/", "/topics/t/pop/", "/jobs/a/", "/livez/"] {
        let problem = api.get(target).await.expect_problem(404, "not_found");
        assert!(text(&problem["detail"]).contains("without the slash at its end"), "{problem}");
    }
    for target in ["//topics", "//topics/t/pop", "/topics//t/pop"] {
        let problem = api.get(target).await.expect_problem(404, "not_found");
        assert!(text(&problem["detail"]).contains("single slashes"), "{target}: {problem}");
    }
}

/// `routes` checks every such hint.
async fn the_error_for_an_unknown_path_names_the_right_one(engine: Engine) {
    let api = Api::new(engine).await;
    for (target, hint) in [
        ("/nowhere", "see /openapi.yaml"),
        ("/api/v1/jobs", "/jobs"),
        ("/healthz", "/livez and /readyz"),
        ("/topics/x/jobs?limit=1", "GET /jobs?topic="),
        ("/jobs/x/ack", "POST /jobs/{id}/finish"),
        ("/topics/x/stats", "GET /topics/{topic}"),
        ("/docs", "/openapi.json"),
    ] {
        assert!(detail(&api, "GET", target, "").await.contains(hint), "{target}");
    }
    let create = detail(&api, "POST", "/topics", "{}").await;
    assert!(create.starts_with("this path answers to GET, HEAD; ") && create.contains("PUT /topics/{topic}"));
}

async fn the_error_for_a_list_of_jobs_names_the_batch(engine: Engine) {
    let api = Api::new(engine).await;
    for (target, code) in [("/jobs", "invalid_job"), ("/batch/jobs", "invalid_request")] {
        let problem = api.send("POST", target, r#"[{"topic":"t"}]"#).await.expect_problem(422, code);
        assert!(first(&problem).ends_with(r#"several jobs go to POST /batch/jobs as {"jobs":[...]}"#));
    }
    let other = api.send("POST", "/batch/finish", "[]").await.expect_problem(422, "invalid_request");
    assert_eq!(first(&other), "must be a JSON object");
    api.send("POST", "/jobs", "[").await.expect_problem(400, "malformed_request");
}

async fn the_error_names_the_bound_of_a_time(engine: Engine) {
    let api = Api::new(engine).await;
    let range = "must be from 1970-01-01T00:00:00Z to 9999-12-30T21:59:59.999Z";
    for (at, said) in [
        ("9999-12-31T23:59:59Z", range),
        ("9999-12-30T22:00:00Z", range),
        ("0001-01-01T00:00:00Z", range),
        ("1969-12-31T23:59:59Z", range),
        ("2026-11-21T06:10:00+24:00", "must have an offset from -23:59 to +23:59"),
        ("2026-11-31T06:10:00Z", "is not in the calendar"),
        ("2026-11-21T06:10:00", "must be an RFC 3339 date and time with an offset"),
    ] {
        let problem = api.send("POST", "/jobs", &format!(r#"{{"topic":"t","at":"{at}"}}"#)).await;
        let problem = problem.expect_problem(422, "invalid_job");
        assert!(first(&problem).starts_with(said), "{at}: {problem}");
        let problem = api.get(&format!("/jobs?from={}", at.replace('+', "%2B"))).await;
        let problem = problem.expect_problem(400, "invalid_parameter");
        assert!(first(&problem).starts_with(said), "{at}: {problem}");
    }
    api.add(r#"{"topic":"t","at":"9999-12-30T21:59:59.999Z"}"#).await;
}

async fn the_error_names_a_plus_in_a_query(engine: Engine) {
    let api = Api::new(engine).await;
    for target in [
        "/jobs?from=2027-01-01T00:00:00+01:00",
        "/timeline?from=2027-01-01T00:00:00+01:00",
        "/jobs?id_prefix=a+b",
    ] {
        let problem = api.get(target).await.expect_problem(400, "invalid_parameter");
        assert_eq!(first(&problem), "has a \"+\", which means a space in a query: write it as %2B");
        // The check of the contract does not decode parameters.
        let escaped = api.call("GET", &target.replace('+', "%2B")).without_contract_check();
        escaped.send().await.expect(200);
    }
    api.call("GET", "/jobs?from=2027-01-01+00:00:00Z").without_contract_check().send().await.expect(200);
}

async fn the_error_for_a_taken_id_says_what_was_compared(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","delay":60,"body":{"a":1,"b":2}}"#).await;
    let other = r#"{"topic":"t","id":"a","delay":60,"body":{"b":2,"a":1}}"#;
    let problem = api.send("POST", "/jobs", other).await.expect_problem(409, "job_exists");
    assert!(text(&problem["detail"]).contains("body byte for byte"), "{problem}");
}

async fn every_json_response_ends_with_a_line_feed(engine: Engine) {
    let api = Api::new(engine).await;
    let added = api.send("POST", "/jobs", r#"{"topic":"t","id":"a","body":1}"#).await.expect(201);
    assert!(added.body.ends_with(b"\"body\":1}\n"), "{:?}", added.body);
    for target in ["/jobs/a", "/jobs/b", "/topics", "/topics/t", "/topics/t/dead", "/livez", "/version", "/x"]
    {
        let response = api.get(target).await;
        assert!(response.body.ends_with(b"}\n"), "{target}: {:?}", response.body);
    }
    assert!(api.get("/topics/t/pop").await.expect(200).body.ends_with(b"\"body\":1}\n"));
    let batch = api.send("POST", "/batch/pop", r#"{"topics":["t"]}"#).await.expect(200);
    assert_eq!(batch.body, "{\"jobs\":[]}\n");
}
