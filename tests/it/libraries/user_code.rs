//! Handlers and hooks that fail: they can do nothing to a worker but fail their own job.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Language, Program, Site, events, heartbeats::LASTING, in_each_language};
use crate::examples::scripted::ScriptedServer;

in_each_language! {
    whatever_a_handler_does_ends_its_own_job_alone,
    a_handler_may_change_the_job_that_it_is_given,
    a_hook_that_fails_keeps_no_report,
    a_hook_that_fails_keeps_no_handler_from_its_stop,
    a_hook_that_fails_keeps_the_worker_from_no_poll,
    heartbeats_go_on_while_a_hook_runs,
    a_failure_is_logged_with_its_stack,
}

/// Starts a worker whose hook fails, waits or is the default one.
fn worker(language: Language, url: &str, hook: &str) -> Program {
    Program::start(language, url, &["worker", "1", "0", "0", hook])
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

/// An error whose text cannot be read, and ends of the handler's thread.
fn whatever_a_handler_does_ends_its_own_job_alone(language: Language) {
    let site = Site::new();
    let bodies = ["silent", "exit", "nothing"];
    for body in bodies.into_iter().chain(["done"]) {
        site.add(body, body, json!({}));
    }
    let worker = Program::worker(language, &site.server.url());
    // The last of them.
    site.server.wait_for_state("done", &json!(null));
    for id in bodies {
        let job = site.server.job(id);
        assert!(job["state"] == "delayed" && is_text(&job["reason"]), "{job}");
    }
    let lines = worker.stop();
    assert_eq!(events(&lines), bodies.map(|id| format!("failed {id}")));
}

/// The worker reports the job that it has reserved.
fn a_handler_may_change_the_job_that_it_is_given(language: Language) {
    let site = Site::new();
    site.add("a", "change", json!({}));
    let worker = Program::worker(language, &site.server.url());
    site.server.wait_for_state("a", &json!(null));
    let lines = worker.stop();
    assert_eq!(events(&lines), [""; 0], "{lines:#?}");
}

fn a_hook_that_fails_keeps_no_report(language: Language) {
    let site = Site::new();
    site.add("a", "fail", json!({}));
    site.add("b", "done", json!({}));
    let mut worker = worker(language, &site.server.url(), "raise");
    site.server.wait_for_state("b", &json!(null));
    assert_eq!(site.server.job("a")["state"], "delayed");
    worker.signal(Signal::TERM);
    assert_eq!(events(&worker.ends()), ["failed a"]);
    let log = worker.errors();
    assert!(log.contains("the hook is broken") && log.contains("failed at failed"), "{log}");
}

fn a_hook_that_fails_keeps_no_handler_from_its_stop(language: Language) {
    let site = Site::new();
    site.add("a", "wait", json!({ "ttr": LASTING }));
    let mut worker = worker(language, &site.server.url(), "raise");
    worker.wait_for(&json!({ "runs": "a" }));
    assert_eq!(site.server.call("DELETE", "/jobs/a", "").status, 204);
    worker.wait_for(&json!({ "told": "a" }));
    worker.send("a");
    site.add("b", "done", json!({}));
    site.server.wait_for_state("b", &json!(null));
    let lines = worker.stop();
    assert_eq!(events(&lines), ["lost a"], "{lines:#?}");
}

fn a_hook_that_fails_keeps_the_worker_from_no_poll(language: Language) {
    let server = ScriptedServer::new();
    let worker = worker(language, &server.url(), "raise");
    server.next().close();
    server.next().respond(200, r#"{"jobs":[]}"#);
    let poll = server.next();
    assert_eq!(poll.line, "POST /batch/pop");
    let lines = worker.stop();
    assert_eq!(events(&lines), ["away -", "back -"], "{lines:#?}");
}

/// The job is released only then, within its reservation.
fn heartbeats_go_on_while_a_hook_runs(language: Language) {
    let site = Site::new();
    site.add("a", "fail", json!({ "ttr": LASTING }));
    let mut worker = worker(language, &site.server.url(), "wait");
    worker.wait_for(&json!({ "event": "failed", "id": "a" }));
    // Four thirds of its TTR.
    site.server.wait_for_renewals("a", 4);
    worker.send("a");
    site.server.wait_for_state("a", &json!("delayed"));
    let job = site.server.job("a");
    assert!(job["attempts"] == 1 && is_text(&job["reason"]), "{job}");
    let lines = worker.stop();
    assert_eq!(events(&lines), ["failed a"], "{lines:#?}");
}

/// In Go an error has no stack, but a panic has.
fn a_failure_is_logged_with_its_stack(language: Language) {
    let site = Site::new();
    for body in ["fail", "panic"] {
        site.add(body, body, json!({}));
    }
    let mut worker = worker(language, &site.server.url(), "none");
    site.server.wait_for_state("panic", &json!("delayed"));
    worker.signal(Signal::TERM);
    worker.ends();
    let log = worker.errors();
    let expected: &[&str] = match language {
        Language::Go => {
            &["job fail failed: psp timeout", "job panic failed: panic: psp broken", "main.endOddly("]
        }
        Language::Python => &[
            "job fail failed: KeyError: 'psp timeout'",
            "job panic failed: SystemExit: psp broken",
            "Traceback (most recent call last)",
            "in end_oddly",
        ],
    };
    assert!(expected.iter().all(|text| log.contains(text)), "{log}");
}
