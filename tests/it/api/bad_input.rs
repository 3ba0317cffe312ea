//! Invalid input: each request receives the error of the contract and changes nothing.

use super::on_every_engine;
use crate::harness::{
    api::{Api, Setup, error_locations},
    stores::Engine,
};
use linger::{http::HttpOptions, queue::Limits};

on_every_engine!(
    ;
    broken_json_is_refused,
    json_that_is_nested_too_deeply_is_refused,
    too_large_bodies_and_requests_are_refused,
    wrong_types_are_refused,
    invalid_utf8_is_refused,
    unknown_fields_are_refused,
    duplicate_fields_are_refused,
    invalid_empty_or_too_long_names_are_refused,
    invalid_durations_are_refused,
    delay_together_with_at_is_refused,
    wrong_methods_are_refused,
    wrong_content_types_are_refused,
    unknown_paths_are_not_found,
    unknown_parameters_are_refused,
    every_fault_of_a_job_is_reported_at_once,
    missing_bodies_are_refused,
    a_lone_surrogate_in_a_body_is_refused,
);

/// Asserts that the refused requests changed nothing.
async fn assert_unchanged(api: &Api) {
    assert_eq!(api.get("/topics").await.expect(200).body, "{\"topics\":[]}\n");
}

/// Asserts that a job is refused as invalid, and returns the locations of its faults.
async fn invalid_job(api: &Api, order: &str) -> Vec<String> {
    error_locations(&api.send("POST", "/jobs", order).await.expect_problem(422, "invalid_job"))
}

async fn broken_json_is_refused(engine: Engine) {
    let api = Api::new(engine).await;
    for broken in [
        "{",
        "}",
        "{\"topic\":\"t\"",
        "{\"topic\":\"t\"}}",
        "{'topic':'t'}",
        "{\"topic\":\"t\",}",
        "{\"topic\":\"t\",\"body\":}",
        "{\"topic\":\"t\",\"delay\":NaN}",
        "{\"topic\":\"t\",\"delay\":Infinity}",
        "{\"topic\":\"t\",\"delay\":01}",
        "{\"topic\":\"t\u{0}\"}",
        "{\"\\ud800\":1}",
        "\u{feff}{\"topic\":\"t\"}",
        "nonsense",
        " ",
    ] {
        api.send("POST", "/jobs", broken).await.expect_problem(400, "malformed_request");
        api.send("POST", "/batch/pop", broken).await.expect_problem(400, "malformed_request");
        api.send("POST", "/topics/t/pause", broken).await.expect_problem(400, "malformed_request");
    }
    assert_unchanged(&api).await;
}

async fn json_that_is_nested_too_deeply_is_refused(engine: Engine) {
    let api = Api::new(engine).await;
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let order = |depth: usize| format!(r#"{{"topic":"t","id":"a","body":{}}}"#, nested(depth));
    api.send("POST", "/jobs", &order(linger::job::MAX_DEPTH + 1))
        .await
        .expect_problem(400, "malformed_request");
    api.send("POST", "/jobs", &order(100_000)).await.expect_problem(400, "malformed_request");
    api.send("POST", "/jobs", &nested(100_000)).await.expect_problem(422, "invalid_job");
    let elsewhere = format!(r#"{{"topic":{}}}"#, nested(100_000));
    api.send("POST", "/jobs", &elsewhere).await.expect_problem(422, "invalid_job");
    assert_unchanged(&api).await;
    api.call("POST", "/jobs").json(&order(linger::job::MAX_DEPTH)).send().await.expect(201);
}

async fn too_large_bodies_and_requests_are_refused(engine: Engine) {
    let limits = Limits { max_body: 100, ..Limits::default() };
    let options = HttpOptions { max_request_bytes: 1_000, ..HttpOptions::default() };
    let api = Api::with(engine, Setup { limits, options, ..Setup::default() }).await;
    let order = |len: usize| format!(r#"{{"topic":"t","id":"a","body":"{}"}}"#, "x".repeat(len - 2));
    let problem = api.send("POST", "/jobs", &order(101)).await.expect_problem(413, "body_too_large");
    assert_eq!((&problem["limit"], &problem["got"]), (&100.into(), &101.into()));
    let too_large = api.send("POST", "/jobs", &order(1_000)).await;
    assert_eq!(too_large.header("connection"), "close", "the rest of it is not read");
    too_large.expect_problem(413, "body_too_large");
    assert_unchanged(&api).await;
    api.send("POST", "/jobs", &order(100)).await.expect(201);
    let patch = format!(r#"{{"body":"{}"}}"#, "x".repeat(99));
    api.send("PATCH", "/jobs/a", &patch).await.expect_problem(413, "body_too_large");
}

async fn wrong_types_are_refused(engine: Engine) {
    let api = Api::new(engine).await;
    for (field, wrong) in [
        ("topic", "1"),
        ("topic", "null"),
        ("topic", "[\"t\"]"),
        ("id", "7"),
        ("delay", "true"),
        ("delay", "{}"),
        ("at", "1700000000"),
        ("at", "\"tomorrow\""),
        ("at", "\"2026-11-21T06:10:00\""),
        ("ttr", "[60]"),
        ("max_attempts", "1.5"),
        ("max_attempts", "\"3\""),
        ("max_attempts", "-1"),
        ("max_attempts", "1000001"),
        ("retry", "15"),
        ("retry", "\"15s\""),
    ] {
        let topic = if field == "topic" { "" } else { "\"topic\":\"t\"," };
        let order = format!("{{{topic}\"{field}\":{wrong}}}");
        assert_eq!(invalid_job(&api, &order).await, [format!("/{field}")], "{order}");
    }
    for other in ["[]", "\"t\"", "1", "true", "null"] {
        assert_eq!(invalid_job(&api, other).await, [""], "the fault concerns the whole body");
    }
    assert_unchanged(&api).await;
}

async fn invalid_utf8_is_refused(engine: Engine) {
    let api = Api::new(engine).await;
    for bytes in [
        &b"{\"topic\":\"t\",\"body\":\"\xff\"}"[..],
        b"{\"topic\":\"\xc3\"}",
        b"{\"topic\":\"t\",\"\xed\xa0\x80\":1}",
        b"\xff\xfe{\x00}\x00",
    ] {
        let call = api.call("POST", "/jobs").header("content-type", "application/json").body(bytes);
        call.send().await.expect_problem(400, "malformed_request");
    }
    api.get("/jobs/%ff").await.expect_problem(400, "invalid_parameter");
    api.get("/topics/%C3/pop").await.expect_problem(400, "invalid_parameter");
    assert_unchanged(&api).await;
}

async fn unknown_fields_are_refused(engine: Engine) {
    let api = Api::new(engine).await;
    let order = r#"{"topic":"t","delays":"1h","Delay":1,"a/b~c":null}"#;
    assert_eq!(invalid_job(&api, order).await, ["/delays", "/Delay", "/a~1b~0c"]);
    for (method, target) in [
        ("PUT", "/topics/t"),
        ("POST", "/topics/t/pause"),
        ("POST", "/topics/t/dead/requeue"),
        ("POST", "/jobs/a/requeue"),
        ("POST", "/jobs/a/finish"),
    ] {
        let problem = api.send(method, target, r#"{"typo":1}"#).await.expect_problem(422, "invalid_request");
        assert_eq!(error_locations(&problem), ["/typo"], "{target}");
    }
    assert_unchanged(&api).await;
}

async fn duplicate_fields_are_refused(engine: Engine) {
    let api = Api::new(engine).await;
    let order = r#"{"topic":"t","delay":1,"delay":"1h","body":1,"body":2}"#;
    assert_eq!(invalid_job(&api, order).await, ["/delay", "/body"]);
    assert_unchanged(&api).await;
}

async fn invalid_empty_or_too_long_names_are_refused(engine: Engine) {
    let api = Api::new(engine).await;
    let (long_id, long_topic) = ("x".repeat(256), "x".repeat(129));
    for id in ["", "a b", "a/b", "é", "a{b}", "a\\u0000", ".", "..", "a%20", &long_id] {
        let order = format!(r#"{{"topic":"t","id":"{id}"}}"#);
        assert_eq!(invalid_job(&api, &order).await, ["/id"]);
    }
    for topic in ["", "a b", "a+b", "a@b", "a{b}", "..", "é", &long_topic] {
        let order = format!(r#"{{"topic":"{topic}"}}"#);
        assert_eq!(invalid_job(&api, &order).await, ["/topic"]);
    }
    for path in ["a%20b", "a%2Fb", "%C3%A9", "a%00", "%2E%2E", "a,b", &long_id] {
        let problem = api.get(&format!("/jobs/{path}")).await.expect_problem(400, "invalid_parameter");
        assert_eq!(error_locations(&problem), ["id"]);
        let problem = api.get(&format!("/topics/{path}/pop")).await.expect_problem(400, "invalid_parameter");
        assert_eq!(error_locations(&problem), ["topic"]);
    }
    assert_unchanged(&api).await;
}

async fn invalid_durations_are_refused(engine: Engine) {
    let api = Api::new(engine).await;
    for delay in [
        "-1",
        "-0.001",
        "1e999",
        "315576001",
        "\"-5s\"",
        "\"NaN\"",
        "\"Infinity\"",
        "\"1M\"",
        "\"1y\"",
        "\"soon\"",
        "\"\"",
        "\"5 s\"",
        "\"1s1h\"",
        "\"P1M\"",
        "\"99999999999999999999w\"",
        "\"1.5s30ms\"",
        "\"11y\"",
        "\"4000d\"",
    ] {
        let order = format!(r#"{{"topic":"t","delay":{delay}}}"#);
        assert_eq!(invalid_job(&api, &order).await, ["/delay"], "{delay}");
    }
    for ttr in ["0", "0.999", "2592000.001", "\"31d\"", "-1"] {
        let order = format!(r#"{{"topic":"t","ttr":{ttr}}}"#);
        assert_eq!(invalid_job(&api, &order).await, ["/ttr"]);
    }
    let steps = vec!["1"; 65].join(",");
    let order = format!(r#"{{"topic":"t","retry":[{steps}]}}"#);
    assert_eq!(invalid_job(&api, &order).await, ["/retry"]);
    let order = r#"{"topic":"t","retry":[1,"x",-1,"11y"]}"#;
    assert_eq!(invalid_job(&api, order).await, ["/retry/1", "/retry/2", "/retry/3"]);
    assert_unchanged(&api).await;
}

async fn delay_together_with_at_is_refused(engine: Engine) {
    let api = Api::new(engine).await;
    let order = r#"{"topic":"t","delay":1,"at":"2026-11-21T06:10:00Z"}"#;
    assert_eq!(invalid_job(&api, order).await, ["/at"]);
    let step = r#"{"receipt":"9f86d081884c7d659a2feaa0c55ad015","delay":1,"at":"2026-11-21T06:10:00Z","reason":"no"}"#;
    let problem = api.send("POST", "/jobs/a/release", step).await.expect_problem(422, "invalid_request");
    assert_eq!(error_locations(&problem), ["/at"]);
    let requeue = r#"{"delay":1,"at":"2026-11-21T06:10:00Z"}"#;
    let problem = api.send("POST", "/jobs/a/requeue", requeue).await.expect_problem(422, "invalid_request");
    assert_eq!(error_locations(&problem), ["/at"]);
    assert_unchanged(&api).await;
}

async fn wrong_methods_are_refused(engine: Engine) {
    let api = Api::new(engine).await;
    for (method, target, allow) in [
        ("PUT", "/jobs", "POST, GET, HEAD"),
        ("HEAD", "/jobs/a/touch", "POST"),
        ("PUT", "/jobs/a", "GET, HEAD, PATCH, DELETE"),
        ("GET", "/jobs/a/finish", "POST"),
        ("HEAD", "/jobs/a/finish", "POST"),
        ("DELETE", "/topics/t/pop", "GET, POST"),
        ("OPTIONS", "/topics/t/pop", "GET, POST"),
        ("GET", "/batch/pop", "POST"),
        ("POST", "/topics", "GET, HEAD"),
        ("PATCH", "/topics/t", "GET, HEAD, PUT, DELETE"),
        ("BREW", "/livez", "GET, HEAD"),
    ] {
        let response = api.call(method, target).send().await.expect(405);
        assert_eq!(response.header("allow"), allow, "{method} {target}");
        if method != "HEAD" {
            response.expect_problem(405, "method_not_allowed");
        }
    }
    for page in ["/livez", "/readyz", "/version", "/metrics", "/openapi.yaml", "/openapi.json", "/topics"] {
        let response = api.call("HEAD", page).send().await.expect(200);
        assert!(response.body.is_empty(), "{page}");
    }
}

async fn wrong_content_types_are_refused(engine: Engine) {
    let api = Api::new(engine).await;
    let order = br#"{"topic":"t","id":"a"}"#;
    for wrong in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=iso-8859-1",
        "application/xml",
        "",
    ] {
        let call = api.call("POST", "/jobs").header("content-type", wrong).body(order);
        call.send().await.expect_problem(415, "unsupported_media_type");
    }
    api.call("POST", "/jobs").body(order).send().await.expect_problem(415, "unsupported_media_type");
    let compressed = api.call("POST", "/jobs").header("content-type", "application/json");
    compressed
        .header("content-encoding", "gzip")
        .body(order)
        .send()
        .await
        .expect_problem(415, "unsupported_media_type");
    assert_unchanged(&api).await;
    let right =
        api.call("POST", "/jobs").header("content-type", "application/json; charset=UTF-8").body(order);
    right.send().await.expect(201);
    let merge = api.call("PATCH", "/jobs/a").header("content-type", "application/merge-patch+json");
    merge.body(br#"{"delay":5}"#).send().await.expect(200);
}

async fn unknown_paths_are_not_found(engine: Engine) {
    let api = Api::new(engine).await;
    for target in ["/", "/job", "/jobs/", "/jobs/a/", "/topics/t/pop/", "/batch", "/JOBS", "/jobs/a/b"] {
        api.get(target).await.expect_problem(404, "not_found");
    }
    api.send("POST", "/jobs/a/finished", "{}").await.expect_problem(404, "not_found");
    api.post("/jobs//finish").await.expect_problem(400, "invalid_parameter");
}

async fn unknown_parameters_are_refused(engine: Engine) {
    let api = Api::new(engine).await;
    for (method, target) in [
        ("GET", "/jobs/a?wait=1"),
        ("DELETE", "/jobs/a?confirm=a"),
        ("POST", "/jobs/a/finish?reciept=0123456789abcdef0123456789abcdef"),
        ("GET", "/topics?limits=1"),
        ("GET", "/topics/t?x"),
        ("DELETE", "/topics/t?confirm=t&force=1"),
        ("POST", "/topics/t/pause?delivery=true"),
        ("GET", "/topics/t/dead?topic=t"),
    ] {
        api.call(method, target).send().await.expect_problem(400, "invalid_parameter");
    }
    api.send("POST", "/jobs?delay=5", r#"{"topic":"t"}"#).await.expect_problem(400, "invalid_parameter");
    assert_unchanged(&api).await;
}

async fn every_fault_of_a_job_is_reported_at_once(engine: Engine) {
    let api = Api::new(engine).await;
    let order = r#"{"id":"a b","delay":-1,"ttr":"x","max_attempts":-1,"retry":[1,null],"extra":1}"#;
    let problem = api.send("POST", "/jobs", order).await.expect_problem(422, "invalid_job");
    let expected = ["/id", "/topic", "/delay", "/ttr", "/max_attempts", "/retry/1", "/extra"];
    assert_eq!(error_locations(&problem), expected);
    let many_fields: Vec<_> = (0..10_000).map(|n| format!("\"f{n}\":1")).collect();
    let problem = api
        .send("POST", "/jobs", &format!("{{{}}}", many_fields.join(",")))
        .await
        .expect_problem(422, "invalid_job");
    assert_eq!(error_locations(&problem), [""], "the response stays small");
}

async fn missing_bodies_are_refused(engine: Engine) {
    let api = Api::new(engine).await;
    for (method, target) in [
        ("POST", "/jobs"),
        ("PATCH", "/jobs/a"),
        ("POST", "/batch/jobs"),
        ("POST", "/batch/pop"),
        ("PUT", "/topics/t"),
    ] {
        api.call(method, target).send().await.expect_problem(400, "malformed_request");
    }
    assert_unchanged(&api).await;
    // If a body may be left out, an empty one of any type counts as left out.
    let form = "application/x-www-form-urlencoded";
    api.call("POST", "/topics/t/pause").header("content-type", form).send().await.expect(200);
}

/// JSON parsers of many languages refuse a lone surrogate, and with it the whole batch in which it is delivered.
async fn a_lone_surrogate_in_a_body_is_refused(engine: Engine) {
    let api = Api::new(engine).await;
    for (body, at) in [
        (r#""\ud800""#, "/body"),
        (r#""\uDFFF and more""#, "/body"),
        (r#"["\ud83d\ude00","\ud83d"]"#, "/body/1"),
        (r#"{"a":[1,{"b":"\ude00\ud83d"}]}"#, "/body/a/1/b"),
        (r#"{"ok":1,"\udc00":2}"#, "/body"),
        (r#"{"a/b":{"~":"\ud800x"}}"#, "/body/a~1b/~0"),
        (r#"["\\ud800","\\\ud800"]"#, "/body/1"),
        (r#"["\ud800\n"]"#, "/body/0"),
        (r#"["\ud800\u0041"]"#, "/body/0"),
    ] {
        let order = format!(r#"{{"topic":"t","id":"a","body":{body}}}"#);
        assert_eq!(invalid_job(&api, &order).await, [at], "{body}");
        let batch = format!(r#"{{"jobs":[{{"topic":"t"}},{order}]}}"#);
        let response = api.send("POST", "/batch/jobs", &batch).await.expect(200).json();
        assert_eq!(error_locations(&response["results"][1]["problem"]), [format!("/jobs/1{at}")], "{body}");
    }
    let whole = r#"["\ud83d\ude00","\uD83D\uDE00","\\ud800","\u0041","é"]"#;
    api.add(&format!(r#"{{"topic":"t","id":"a","body":{whole}}}"#)).await;
    let problem =
        api.send("PATCH", "/jobs/a", r#"{"body":"\udead"}"#).await.expect_problem(422, "invalid_job");
    assert_eq!(error_locations(&problem), ["/body"]);
}
