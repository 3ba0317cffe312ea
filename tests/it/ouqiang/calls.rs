//! Every call that succeeds.

use serde_json::json;

use super::{DONE, Engine, Site, on_each_engine};

on_each_engine! {
    a_job_is_pushed_popped_and_finished,
    a_body_comes_back_byte_for_byte,
    a_push_replaces_the_job,
    a_push_during_a_reservation_survives_the_finish,
    earlier_topics_come_first,
    a_job_that_is_not_finished_comes_back,
    a_job_that_no_worker_has_is_finished_and_deleted,
    a_get_shows_a_job_in_any_state,
    a_pop_without_a_job_waits,
    any_method_is_answered,
}

const ORDER: &str = r#"{"topic":"order","id":"15702398321","delay":1,"ttr":120,"body":"{\"uid\": 10829378,\"created\": 1498657365 }"}"#;

/// The example of that server's own page, with the default settings.
fn a_job_is_pushed_popped_and_finished(engine: Engine) {
    let site = Site::new(engine);
    let pushed = site.send("POST", "/push", "", ORDER);
    assert_eq!(pushed.body, r#"{"code":0,"message":"添加成功","data":null}"#);
    assert!(pushed.head.contains("content-type: text/plain; charset=utf-8\r\n"), "{pushed:?}");
    let popped = r#"{"code":0,"message":"操作成功","data":{"id":"15702398321","body":"{\"uid\": 10829378,\"created\": 1498657365 }"}}"#;
    let answer = site.send("POST", "/pop", "", r#"{"topic":"order"}"#);
    assert_eq!(answer.body, popped);
    assert!(answer.head.contains("content-type: text/plain; charset=utf-8\r\n"), "{answer:?}");
    assert_eq!(site.server.job("15702398321")["state"], "reserved");
    assert_eq!(site.call("/finish", r#"{"id":"15702398321"}"#), DONE);
    assert_eq!(site.server.job("15702398321"), json!(null));
    for path in ["/finish", "/delete", "/get"] {
        assert_eq!(site.call(path, r#"{"id":"15702398321"}"#), DONE, "{path}");
    }
}

fn a_body_comes_back_byte_for_byte(engine: Engine) {
    let site = Site::new(engine);
    for (sent, answered) in [
        (
            r#""plain <text> & \u2028 \"quoted\" \u0001""#,
            r#""plain \u003ctext\u003e \u0026 \u2028 \"quoted\" \u0001""#,
        ),
        (r#"" [1,  2]\n""#, r#""[1,  2]""#),
        (r#""{\"linger:text\":\"a\"}""#, r#""{\"linger:text\":\"a\"}""#),
        (r#""\ud83d\ude00 \ud800""#, "\"😀 \u{fffd}\""),
        (r#""""#, r#""""#),
        ("null", r#""""#),
    ] {
        let push = format!(r#"{{"topic":"t","id":"a","delay":1,"ttr":60,"body":{sent}}}"#);
        assert_eq!(site.call("/push", push), super::ADDED);
        let expected = format!(r#"{{"code":0,"message":"操作成功","data":{{"id":"a","body":{answered}}}}}"#);
        assert_eq!(site.call("/pop", r#"{"topic":"t"}"#), expected);
        assert_eq!(site.call("/finish", r#"{"id":"a"}"#), DONE);
    }
    // A name that is none of ours.
    site.push("邮件 1", "a/b c", 60, "x");
    assert_eq!(site.pop("邮件 1"), json!({"id": "a/b c", "body": "x"}));
    assert_eq!(site.server.job("a=2Fb=20c")["topic"], ":E9:82:AE:E4:BB:B6:201");
    assert_eq!(site.call("/delete", r#"{"id":"a/b c"}"#), DONE);
    assert_eq!(site.server.job("a=2Fb=20c"), json!(null));
}

fn a_push_replaces_the_job(engine: Engine) {
    let site = Site::new(engine);
    let push = json!({"topic": "t", "id": "a", "delay": 3_600, "ttr": 60, "body": "old"});
    assert_eq!(site.call("/push", push.to_string()), super::ADDED);
    site.push("t", "a", 60, "new");
    assert_eq!(site.pop("t"), json!({"id": "a", "body": "new"}));
}

/// There, the finish of the older version would delete the newer one.
fn a_push_during_a_reservation_survives_the_finish(engine: Engine) {
    let site = Site::new(engine);
    site.push("t", "a", 60, "old");
    site.pop("t");
    site.push("t", "a", 60, "new");
    assert_eq!(site.call("/finish", r#"{"id":"a"}"#), DONE);
    assert_eq!(site.pop("t"), json!({"id": "a", "body": "new"}));
    assert_eq!(site.call("/finish", r#"{"id":"a"}"#), DONE);
    assert_eq!(site.server.job("a"), json!(null));
}

fn earlier_topics_come_first(engine: Engine) {
    let site = Site::new(engine);
    for topic in ["a", "b"] {
        site.push(topic, topic, 60, "");
    }
    for topic in ["a", "b"] {
        site.server.wait_for_state(topic, &"ready".into());
    }
    assert_eq!(site.pop(" c,b,a ")["id"], "b");
    assert_eq!(site.pop(" c,b,a ")["id"], "a");
}

fn a_job_that_is_not_finished_comes_back(engine: Engine) {
    let site = Site::new(engine);
    site.push("t", "a", 1, "x");
    let settings = r#"{"max_attempts":2}"#;
    site.native("PUT", "/topics/capped", settings, 200);
    site.push("capped", "b", 1, "x");
    assert_eq!(site.native("GET", "/jobs/a", "", 200)["max_attempts"], 0);
    assert_eq!(site.native("GET", "/jobs/b", "", 200)["max_attempts"], 2);
    for _ in 0..2 {
        assert_eq!(site.pop("t")["id"], "a");
        assert_eq!(site.pop("capped")["id"], "b");
    }
    site.server.wait_for_state("b", &"dead".into());
    assert_eq!(site.pop("t")["id"], "a");
}

fn a_job_that_no_worker_has_is_finished_and_deleted(engine: Engine) {
    let site = Site::new(engine);
    for path in ["/finish", "/delete"] {
        let push = json!({"topic": "t", "id": "a", "delay": 3_600, "ttr": 60});
        assert_eq!(site.call("/push", push.to_string()), super::ADDED);
        assert_eq!(site.server.job("a")["state"], "delayed");
        assert_eq!(site.call(path, r#"{"id":" a "}"#), DONE, "{path}");
        assert_eq!(site.server.job("a"), json!(null), "{path}");
    }
    // A delete does not ask who has the job.
    site.push("t", "a", 60, "");
    site.pop("t");
    assert_eq!(site.call("/delete", r#"{"id":"a"}"#), DONE);
    assert_eq!(site.server.job("a"), json!(null));
}

fn a_get_shows_a_job_in_any_state(engine: Engine) {
    let site = Site::new(engine);
    site.push("t", "a", 7, "[1]");
    let due = site.server.job("a")["due_at"].as_str().expect("a time").to_owned();
    let due_s = linger::job::Timestamp::parse(&due).expect("a time").as_millis() / 1_000;
    let expected = format!(
        r#"{{"code":0,"message":"操作成功","data":{{"topic":"t","id":"a","delay":{due_s},"ttr":7,"body":"[1]"}}}}"#
    );
    assert_eq!(site.call("/get", r#"{"id":"a"}"#), expected);
    site.pop("t");
    assert_eq!(site.call("/get", r#"{"id":"a"}"#), expected);
    // The longest delay is longer than any of the native API.
    let push = json!({"topic": "t", "id": "b", "delay": 1_u32 << 31, "ttr": 86_400, "body": ""});
    assert_eq!(site.call("/push", push.to_string()), super::ADDED);
    assert!(site.call("/get", r#"{"id":"b"}"#).contains(r#","ttr":86400,"body":""}}"#));
    assert!(site.server.job("b")["due_at"].as_str().is_some_and(|due| due.starts_with("209")));
}

/// Also where the native API waits for less.
fn a_pop_without_a_job_waits(engine: Engine) {
    let limits = [("LINGER__QUEUE__MAX_WAIT", "0s"), ("LINGER__COMPAT__OUQIANG__MAX_WAIT", "3s")];
    let site = Site::with(engine, &limits);
    site.push("t", "a", 60, "x");
    assert_eq!(site.pop("t")["id"], "a");
    assert_eq!(site.call("/pop", r#"{"topic":"t"}"#), DONE);
}

fn any_method_is_answered(engine: Engine) {
    let site = Site::new(engine);
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"] {
        assert_eq!(site.send(method, "/push?a=b", "", ORDER).body, super::ADDED, "{method}");
        assert_eq!(site.send(method, "/get", "", r#"{"id":"x"}"#).body, DONE, "{method}");
    }
    let head = site.send("HEAD", "/delete", "Content-Type: x/y\r\n", r#"{"id":"15702398321"}"#);
    assert!(head.head.starts_with("HTTP/1.1 200 ") && head.body.is_empty(), "{head:?}");
    assert_eq!(site.server.job("15702398321"), json!(null));
}
