//! Answers that are not Linger's: the page of a proxy, a login, another service. No command takes one for the server's.

use serde_json::{Value, json};

use super::{Ended, command_in, ended, home};
use crate::{
    examples::scripted::ScriptedServer,
    harness::{process::linger, wait::join},
};

const PAGE: &str = "<html>\n  <p>Welcome to the hotel</p>\n</html>";

/// Another service has a code and a detail, too.
const OF_LOGIN: &str = r#"{"detail":"Given token not valid","code":"token_not_valid"}"#;

/// Runs a command whose calls are all answered like this.
fn answered(words: &[&str], (status, headers, body): (u16, &str, &str)) -> Ended {
    let (server, home) = (ScriptedServer::new(), home());
    let mut command = command_in(home.path(), words);
    command.env("LINGER_URL", server.url());
    let command = std::thread::spawn(move || ended(command));
    while !command.is_finished() {
        if let Some(call) = server.next_or_pause() {
            call.respond_with(status, headers, body);
        }
    }
    join("the command", command)
}

/// Every kind of command that calls a server, and its name in errors.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["add", "t", "1"], "add"),
    (&["pop", "t"], "pop"),
    (&["finish", "x"], "finish"),
    (&["release", "x", "--receipt", "9f"], "release"),
    (&["touch", "x", "--receipt", "9f"], "touch"),
    (&["bury", "x", "--receipt", "9f"], "bury"),
    (&["get", "x"], "get"),
    (&["get", "x", "--body"], "get"),
    (&["reschedule", "x", "--now"], "reschedule"),
    (&["cancel", "x"], "cancel: x"),
    (&["dead", "ls", "t"], "dead ls"),
    (&["dead", "requeue", "t", "--all"], "dead requeue"),
    (&["dead", "delete", "t", "x"], "dead delete: x"),
    (&["topics"], "topics"),
    (&["topic", "show", "t"], "topic show"),
    (&["topic", "set", "t", "--ttr", "5s"], "topic set"),
    (&["topic", "pause", "t"], "topic pause"),
    (&["topic", "purge", "t", "--yes"], "topic purge"),
    (&["schedule", "put", "s", "--every", "1h", "--topic", "t"], "schedule put"),
    (&["schedule", "list"], "schedule list"),
    (&["schedule", "get", "s"], "schedule get"),
    (&["schedule", "get", "s", "--definition"], "schedule get"),
    (&["schedule", "next", "s"], "schedule next"),
    (&["schedule", "pause", "s"], "schedule pause"),
    (&["schedule", "resume", "s"], "schedule resume"),
    (&["schedule", "run", "s"], "schedule run"),
    (&["schedule", "delete", "s"], "schedule delete: s"),
    (&["timeline"], "timeline"),
    (&["top"], "top"),
];

#[test]
fn the_page_of_a_proxy_is_no_success_of_any_command() {
    for (words, name) in COMMANDS {
        for form in ["--text", "--json"] {
            let ended = answered(&[words, &[form][..]].concat(), (200, "", PAGE));
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{words:?} {form}: {ended:?}");
            let expected = "the answer is not Linger's: 200 application/json: <html> <p>Welcome to the hotel";
            let begin = if form == "--text" {
                format!("linger: {name}: ")
            } else {
                r#"{"code":"failed","#.to_owned()
            };
            assert!(
                ended.stderr.starts_with(&begin) && ended.stderr.contains(expected),
                "{words:?}: {ended:?}"
            );
            assert_eq!(ended.stderr.lines().count(), 1, "{words:?}: {ended:?}");
        }
    }
}

#[test]
fn a_refusal_of_a_proxy_says_nothing_about_jobs_or_tokens() {
    let up = r#"{"status":"up"}"#;
    for (status, headers, body, expected) in [
        (302, "location: https://login.example/\r\n", PAGE, "302: a redirect to https://login.example/"),
        (401, "", PAGE, "401: <html>"),
        (403, "", r#"{"detail":"maintenance"}"#, "403: {\"detail\":\"maintenance\"}"),
        (404, "", PAGE, "404: <html>"),
        (401, "", OF_LOGIN, "401: {\"detail\":\"Given token not valid\""),
        (409, "", "", "409"),
        (413, "", PAGE, "413: <html>"),
        (200, "", up, "200 application/json: {\"status\":\"up\"}"),
        (204, "", "", "204"),
    ] {
        // A 204 is what a finish expects, and nothing tells whose it is.
        let words = if status == 204 { ["get", "x"] } else { ["finish", "x"] };
        let ended = answered(&words, (status, headers, body));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{status}: {ended:?}");
        let expected = format!("the answer is not Linger's: {expected}");
        assert!(ended.stderr.contains(&expected), "{status}: {ended:?}");
        let health = answered(&["health"], (status, headers, body));
        assert_eq!((health.code, health.stdout.as_str()), (Some(1), ""), "{status}: {health:?}");
        assert!(health.stderr.contains("(LINGER_URL) is not ready: "), "{status}: {health:?}");
    }
    let health = answered(&["health"], (200, "", r#"{"status":"ok"}"#));
    assert_eq!((health.code, health.stdout.as_str()), (Some(0), "ready\n"), "{health:?}");
}

/// A gateway under maintenance must not end a worker, and its page must not finish a job.
#[test]
fn a_worker_takes_no_answer_of_a_proxy_for_the_servers() {
    let (server, home) = (ScriptedServer::new(), home());
    let url = server.url();
    let words = ["work", "t", "--max-jobs", "1", "--json", "--url", &url, "--", "true"];
    let worker = std::thread::spawn({
        let command = linger(&words, home.path());
        move || ended(command)
    });
    let expect = |line: &str, status, headers: &str, body: &str| {
        let call = server.next();
        assert!(call.line.starts_with(line), "{}", call.line);
        call.respond_with(status, headers, body);
    };
    let job = json!({ "id": "a", "topic": "t", "state": "reserved", "created_at": "2026-11-21T05:40:00.000Z",
        "due_at": "2026-11-21T05:40:00.000Z", "ttr": 60, "attempts": 1, "max_attempts": 16, "receipt": "9f", "attempt": 1,
        "late": 0.004, "reserved_until": "2126-11-21T05:41:00.004Z", "body": null });
    for (status, body) in [(403, PAGE), (400, ""), (200, PAGE), (401, PAGE), (302, ""), (401, OF_LOGIN)] {
        expect("POST /batch/pop", status, "", body);
    }
    expect("POST /batch/pop", 200, "", &json!({ "jobs": [job] }).to_string());
    for (status, body) in [(200, PAGE), (404, PAGE), (409, PAGE), (401, PAGE), (302, ""), (401, OF_LOGIN)] {
        expect("POST /jobs/a/finish?receipt=9f", status, "", body);
    }
    expect("POST /jobs/a/finish?receipt=9f", 204, "", "");
    let ended = join("the worker", worker);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let events = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("is JSON"));
    let names: Vec<_> = events.map(|event| event["event"].as_str().expect("has one").to_owned()).collect();
    // Nothing is drained before the job has its answer.
    assert_eq!(names, ["away", "back", "draining", "start", "away", "back", "finish"], "{ended:?}");
    assert!(ended.stdout.contains(r#""outcome":"accepted""#), "{ended:?}");
}
