//! What a command gets of its job, how many run at a time, and what is printed of them.

use std::fs;

use serde_json::{Value, json};

use super::{Engine, Site, Worker, on_each_engine};

on_each_engine! {
    as_many_commands_as_asked_for_run_at_a_time,
    a_worker_ends_after_its_number_of_jobs,
}

#[test]
fn the_body_reaches_stdin_byte_for_byte() {
    let site = Site::new(Engine::Embedded);
    let large = format!("[\"{}\"]", "x".repeat(200_000));
    let bodies = [r#"{"n":  1e400, "ü": "\u00fc" }"#, r#""text\nof a string""#, "null", large.as_str()];
    for (number, body) in bodies.iter().enumerate() {
        let job = format!(r#"{{"topic":"t","id":"{number}","body":{body}}}"#);
        assert_eq!(site.server.call("POST", "/jobs", &job).status, 201);
    }
    site.worker(&["--until-empty"], "cat >got-$LINGER_JOB_ID").ends_with(0);
    for (number, body) in bodies.iter().enumerate() {
        assert_eq!(site.read(&format!("got-{number}")), *body, "{number}");
    }
}

#[test]
fn a_raw_body_is_the_text_of_a_string() {
    let site = Site::new(Engine::Embedded);
    site.add("text", json!({ "body": "one\n\"two\" ü" }));
    site.add("object", json!({ "body": { "n": 1 } }));
    site.worker(&["--until-empty", "--raw"], "cat >got-$LINGER_JOB_ID").ends_with(0);
    assert_eq!(
        (site.read("got-text"), site.read("got-object")),
        ("one\n\"two\" ü".to_owned(), r#"{"n":1}"#.to_owned())
    );
}

#[test]
fn a_command_that_does_not_read_its_body_is_no_fault() {
    let site = Site::new(Engine::Embedded);
    // More than a pipe holds.
    site.add("a", json!({ "body": "x".repeat(200_000) }));
    let mut worker = site.worker(&["--until-empty"], "exec <&-; exit 0");
    worker.ends_with(0);
    assert_eq!(worker.story(), ["start a", "finish a", "draining -"]);
}

#[test]
fn a_command_knows_its_job_from_variables_and_has_no_token() {
    let site = Site::new(Engine::Embedded);
    site.add("a:1", json!({ "max_attempts": 5 }));
    fs::write(site.path().join("token"), "a-token\n").expect("can be written");
    let url = site.server.url();
    let variables = [
        ("LINGER_URL", url.as_str()),
        ("LINGER_TOKEN", "t0ken"),
        ("LINGER_TOKEN_FILE", "token"),
        ("OTHER", "stays"),
    ];
    let line = "env >variables; printf '%s\\n' \"$0\" \"$@\" >words";
    let arguments = ["t", "--until-empty", "--", "/bin/sh", "-c", line, "a b", "$(c)"];
    Worker::start(&arguments, &variables, site.path()).ends_with(0);
    assert_eq!(site.read("words"), "a b\n$(c)\n");
    let variables = site.read("variables");
    let value = |name: &str| variables.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    for (name, expected) in [
        ("LINGER_JOB_ID", "a:1"),
        ("LINGER_JOB_TOPIC", "t"),
        ("LINGER_JOB_ATTEMPT", "1"),
        ("LINGER_JOB_MAX_ATTEMPTS", "5"),
        ("LINGER_JOB_URL", &format!("{url}/jobs/a:1")),
        ("LINGER_URL", &url),
        ("OTHER", "stays"),
    ] {
        assert_eq!(value(name), Some(expected), "{name}");
    }
    for name in ["LINGER_JOB_CREATED_AT", "LINGER_JOB_DUE_AT"] {
        assert!(
            value(name).is_some_and(|moment| moment.parse::<linger_client::Timestamp>().is_ok()),
            "{name}"
        );
    }
    assert!(value("LINGER_JOB_LATE").is_some_and(|late| late.parse::<f64>().is_ok_and(|late| late >= 0.0)));
    assert!(value("LINGER_JOB_RECEIPT").is_some_and(|receipt| receipt.len() == 32));
    assert!(!variables.contains("oken") && !variables.contains("LINGER_TOKEN"), "{variables}");
}

#[test]
fn a_command_runs_in_the_trace_of_its_job_and_in_no_other() {
    const SPAN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let site = Site::new(Engine::Embedded);
    site.add("whole", json!({ "traceparent": SPAN, "tracestate": "a=1" }));
    site.add("bare", json!({ "traceparent": SPAN }));
    site.add("none", json!({}));
    let url = site.server.url();
    let variables = [("LINGER_URL", url.as_str()), ("TRACEPARENT", "the worker's"), ("TRACESTATE", "w=1")];
    let line = r#"echo "${TRACEPARENT-none} ${TRACESTATE-none}" >trace-$LINGER_JOB_ID"#;
    Worker::start(&["t", "--until-empty", "--exec", line], &variables, site.path()).ends_with(0);
    assert_eq!(site.read("trace-whole"), format!("{SPAN} a=1\n"));
    assert_eq!(site.read("trace-bare"), format!("{SPAN} none\n"));
    assert_eq!(site.read("trace-none"), "none none\n");
}

fn as_many_commands_as_asked_for_run_at_a_time(site: &Site) {
    for id in ["a", "b", "c", "d"] {
        site.add(id, json!({}));
        site.gate(id);
    }
    let worker = site.worker(&["-j", "3"], "echo runs; read -r _ <$LINGER_JOB_ID");
    for number in 1..=3 {
        worker.wait_for_number(number, &json!({ "line": "runs" }));
    }
    let started: Vec<Value> = worker.events().into_iter().filter(|event| event["event"] == "start").collect();
    assert_eq!(started.len(), 3, "{started:#?}");
    let waiting = ["a", "b", "c", "d"].into_iter().find(|id| site.server.job(id)["state"] == "ready");
    let waiting = waiting.expect("one has no place yet");
    let running: Vec<&str> = ["a", "b", "c", "d"].into_iter().filter(|id| *id != waiting).collect();
    site.open(running[0]);
    worker.wait_for(&json!({ "event": "start", "id": waiting }));
    for id in [running[1], running[2], waiting] {
        site.open(id);
    }
    worker.wait_for_number(4, &json!({ "event": "finish" }));
    worker.stop();
}

fn a_worker_ends_after_its_number_of_jobs(site: &Site) {
    for id in ["a", "b", "c"] {
        site.add(id, json!({}));
    }
    let mut worker = site.worker(&["--max-jobs", "2", "-j", "8"], "true");
    worker.ends_with(0);
    let left: Vec<&str> =
        ["a", "b", "c"].into_iter().filter(|id| site.server.job(id)["attempts"] == 0).collect();
    assert_eq!(left.len(), 1);
}

#[test]
fn the_most_urgent_topic_comes_first() {
    let site = Site::new(Engine::Embedded);
    site.add("late", json!({ "topic": "low" }));
    site.add("first", json!({ "topic": "high" }));
    let arguments = ["high", "low", "--until-empty", "--exec", "true"];
    let mut worker = Worker::start(&arguments, &[("LINGER_URL", &site.server.url())], site.path());
    worker.ends_with(0);
    assert_eq!(worker.story(), ["start first", "finish first", "start late", "finish late", "draining -"]);
}

#[test]
fn what_commands_print_passes_through_behind_their_jobs() {
    let site = Site::new(Engine::Embedded);
    site.add("a", json!({}));
    let mut worker = site.worker(&["--until-empty"], "echo one; printf 'no end' >&2; exit 1");
    worker.ends_with(0);
    let printed = |worker: &Worker, stream: &str| -> Vec<Value> {
        let events = worker.events().into_iter();
        events.filter(|event| event["event"] == stream).map(|event| event["line"].clone()).collect()
    };
    assert_eq!(
        (printed(&worker, "stdout"), printed(&worker, "stderr")),
        (vec![json!("one")], vec![json!("no end")])
    );
    let release = worker.wait_for(&json!({ "event": "release", "id": "a", "topic": "t", "attempt": 1 }));
    assert_eq!((&release["outcome"], &release["reason"]), (&json!("accepted"), &json!("exit 1: no end")));

    site.add("b", json!({}));
    let mut worker = site.worker(&["--until-empty", "--text"], "printf 'col\\033[31mour\\n'; exit 1");
    worker.ends_with(0);
    let lines: Vec<String> =
        worker.events().iter().map(|event| event["text"].as_str().unwrap_or_default().to_owned()).collect();
    let after = |line: &str| line.split_once("  ").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    assert!(after(&lines[0]).starts_with("b  start    attempt 1, "), "{lines:?}");
    assert_eq!(after(&lines[1]), "b  stdout   col\\u{1b}[31mour");
    assert!(after(&lines[2]).starts_with("b  release  exit 1 after "), "{lines:?}");
    assert!(lines[2].ends_with(", again in 1 s"), "{lines:?}");
}

#[test]
fn jobs_go_on_when_the_output_is_not_read() {
    let site = Site::new(Engine::Embedded);
    for id in ["a", "b"] {
        site.add(id, json!({}));
    }
    let mut command = crate::harness::process::linger(
        &["work", "t", "--until-empty", "--url", &site.server.url(), "--exec", "echo a line"],
        site.path(),
    );
    let (reading, writing) = std::io::pipe().expect("a pipe");
    drop(reading);
    let mut child = command.stdout(writing).spawn().expect("linger starts");
    assert!(crate::harness::process::wait_for_exit(&mut child).success());
    assert!(["a", "b"].iter().all(|id| site.server.job(id).is_null()));
}
