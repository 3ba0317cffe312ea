//! The calls about schedules.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Language, Program, Site, calls::problem, in_each_language};
use crate::{
    examples::scripted::ScriptedServer,
    harness::{
        proxy::{Fate, Proxy},
        wait::TimeLimit,
    },
};

in_each_language! {
    every_call_about_a_schedule_works,
    changes_whose_answers_are_lost_are_sent_again,
    a_page_of_schedules_is_read_when_it_is_needed,
    an_error_ends_a_list_of_schedules,
}

/// Makes a schedule by this name whose runs cannot be added. Returns once one of them waits.
fn have_a_run_wait(site: &Site, name: &str) {
    assert_eq!(site.server.call("POST", "/topics/closed/pause", r#"{"intake":true}"#).status, 200);
    let path = format!("/schedules/{name}");
    assert_eq!(site.server.call("PUT", &path, r#"{"every":"1s","job":{"topic":"closed"}}"#).status, 201);
    let time_limit = TimeLimit::new();
    while site.server.call("GET", &path, "").json()["waiting"].is_null() {
        time_limit.check(|| "no run waits".to_owned());
        time_limit.pause_thread();
    }
}

fn every_call_about_a_schedule_works(language: Language) {
    let site = Site::new();
    let mut program = Program::start(language, &site.server.url(), &["schedules"]);
    program.wait_for(&json!({ "differ": true }));
    have_a_run_wait(&site, "waiting");
    program.send("go on");
    let mut lines = program.ends();
    let job = lines[3].as_object_mut().expect("an object").remove("job").unwrap_or_default();
    assert!(
        job.as_str().is_some_and(|job| job.ends_with(r#","body":{"n":  1e400}}"#)),
        "as it was given: {job}"
    );
    let put = |created: bool, revision: u32, state: &str| json!({ "created": created, "revision": revision, "state": state });
    let run = |replayed: bool| {
        let id = "run:nightly:report:incident-7";
        json!({ "id": id, "state": "ready", "replayed": replayed, "body": r#"{"n":  1e400}"# })
    };
    let whole = json!({
        "name": "nightly:report", "cron": "30 2 * * *", "time_zone": "Europe/Berlin", "every": 0,
        "start": "2099-03-28T00:00:00.000Z", "end": "2099-06-28T00:00:00.000Z", "jitter": 300, "overlap": "allow",
        "missed": "all", "missed_within": 3600, "last": null, "last_job": "", "fired": 0, "waiting": "",
        "waiting_since": null,
        "next": ["2099-03-28T01:30:00.000Z", "2099-03-29T01:00:00.000Z", "2099-03-30T00:30:00.000Z"],
    });
    let expected = [
        json!({ "missing": true }),
        put(true, 1, "active"),
        put(false, 1, "active"),
        whole,
        // With the job as the server shows it.
        put(false, 1, "active"),
        json!({ "other": "revision_differs", "none": "revision_differs" }),
        put(false, 2, "active"),
        json!({ "cron": "", "every": 90.5, "jitter": 0 }),
        json!({ "next": ["2099-03-28T00:00:00.000Z", "2099-03-28T00:01:30.500Z"], "ten": 10 }),
        put(false, 3, "paused"),
        put(false, 4, "active"),
        run(false),
        run(true),
        json!({ "generated": [true, true], "differ": true }),
        json!({ "waiting": "intake_paused", "since": true, "last": false }),
        json!({ "deleted": [true, false] }),
        json!({ "refused": "invalid_request", "gone": "schedule_not_found" }),
    ];
    let folder = lines.pop().expect("the last one");
    let text = folder["folder"].as_str().unwrap_or_default();
    assert!(text.contains("a name must not be"), "{folder}");
    for (line, expected) in lines.iter().zip(&expected) {
        assert!(is_equal(line, expected), "{line}\n{expected}");
    }
    assert_eq!(lines.len(), expected.len());
    let jobs = site.server.call("GET", "/topics/reports", "").json()["counts"].take();
    assert_eq!(jobs["ready"], 3, "the runs by hand, of which one was repeated");
}

/// Whether two lines are equal, whether or not a number is written as a float.
fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(name, value)| b.get(name).is_some_and(|b| is_equal(value, b)))
        }
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

/// Each of them loses its first answer.
fn changes_whose_answers_are_lost_are_sent_again(language: Language) {
    let site = Site::new();
    let proxy = Proxy::start(site.server.address);
    let mut seen = HashSet::new();
    proxy.decide(move |request| {
        let text = String::from_utf8_lossy(request);
        // A body may arrive by itself. The heads of the two puts differ by their revisions, those of the two runs by their lengths.
        let head =
            text.split_once("\r\n\r\n").map(|(head, _)| head).filter(|head| head.contains(" HTTP/1.1\r\n"));
        if head.is_some_and(|head| seen.insert(head.to_owned())) { Fate::ResponseLost } else { Fate::Served }
    });
    let lines = Program::start(language, &proxy.url(), &["schedules-again"]).ends();
    assert_eq!(
        lines,
        [
            json!({ "put": false }),
            json!({ "paused": "paused" }),
            json!({ "resumed": "active" }),
            json!({ "runs": [true, true] }),
            json!({ "code": "revision_differs", "repeated": true }),
            json!({ "deleted": true }),
        ]
    );
    assert_eq!(proxy.lost(), 7);
    assert_eq!(
        site.server.call("GET", "/topics/reports", "").json()["counts"]["ready"],
        2,
        "a job for each run"
    );
}

fn a_page_of_schedules_is_read_when_it_is_needed(language: Language) {
    let site = Site::new();
    let names: Vec<_> = (0..101).map(|number| format!("s{number:03}")).collect();
    for name in &names {
        let put = r#"{"cron":"@daily","job":{"topic":"t"}}"#;
        assert_eq!(site.server.call("PUT", &format!("/schedules/{name}"), put).status, 201);
    }
    let pages = || {
        let of = r#"linger_http_requests_total{route="/schedules",method="GET",status="200"}"#;
        site.server.metric(of)
    };
    let mut program = Program::start(language, &site.server.url(), &["list-schedules"]);
    program.wait_for(&json!({ "name": "s000" }));
    assert_eq!(pages(), Some(1.0));
    program.send("go on");
    let lines = program.ends();
    let expected: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
    assert_eq!(lines, expected);
    assert_eq!(pages(), Some(2.0));
}

fn an_error_ends_a_list_of_schedules(language: Language) {
    let server = ScriptedServer::new();
    let mut program = Program::start(language, &server.url(), &["list-schedules"]);
    let schedule = json!({
        "name": "a", "every": 3600, "overlap": "skip", "missed": "one", "job": { "topic": "t" }, "revision": 1,
        "state": "active", "next": [], "runs": { "fired": 0, "overlap": 0, "missed": 0 },
    });
    let first = server.next();
    assert_eq!(first.line, "GET /schedules");
    first.respond(200, &json!({ "schedules": [schedule], "next_cursor": "x&y" }).to_string());
    program.send("go on");
    let second = server.next();
    assert_eq!(second.line, "GET /schedules?cursor=x%26y");
    // A page without schedules need not be the last one.
    second.respond(200, &json!({ "schedules": [], "next_cursor": "z" }).to_string());
    let third = server.next();
    assert_eq!(third.line, "GET /schedules?cursor=z");
    third.respond(401, &problem(401, "unauthorized"));
    assert_eq!(program.ends(), [json!({ "name": "a" }), json!({ "code": "unauthorized" })]);
    assert!(server.receives_nothing_more());
}
