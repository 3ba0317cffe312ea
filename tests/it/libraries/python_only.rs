//! What only the library for Python has: workers that are run wrongly, and `with` blocks.

use rustix::process::Signal;
use serde_json::json;

use super::{Language, Program, Site, events};

#[test]
fn a_worker_that_is_run_wrongly_says_so() {
    let site = Site::new();
    let mut program = Program::start(Language::Python, &site.server.url(), &["misuse"]);
    let in_a_thread = program.wait_for(&json!({ "misuse": "in a thread" }));
    let text = in_a_thread["text"].as_str().unwrap_or_default();
    assert!(text.contains("run()") && text.contains("stop()"), "{in_a_thread}");
    site.server.wait_for_parked_polls(1);
    program.send("it polls");
    let lines = program.ends();
    let again = |what| json!({ "misuse": what, "text": "a worker runs once; make another Worker" });
    assert_eq!(lines[1..], ["in a child", "while it runs", "after it ran"].map(again));
}

/// The job would otherwise be finished although nothing was done.
#[test]
fn a_handler_that_returns_a_coroutine_has_failed() {
    let site = Site::new();
    site.add("a", "coroutine", json!({}));
    let worker = Program::worker(Language::Python, &site.server.url());
    site.server.wait_for_state("a", &json!("delayed"));
    let reason = site.server.job("a")["reason"].take();
    assert!(reason.as_str().is_some_and(|reason| reason.contains("which nothing runs")), "{reason}");
    let lines = worker.stop();
    assert_eq!(events(&lines), ["failed a"], "{lines:#?}");
}

#[test]
fn without_threads_for_heartbeats_a_handler_is_told_in_time() {
    let site = Site::new();
    site.add("a", "wait", json!({}));
    let mut worker =
        Program::start(Language::Python, &site.server.url(), &["without-threads", "_touch", "1", "9000"]);
    worker.wait_for(&json!({ "told": "a" }));
    worker.send("a");
    worker.wait_for(&json!({ "returns": "a" }));
    let lines = worker.stop();
    assert_eq!(events(&lines)[0], "lost a");
}

/// The first job has its thread. The handler of the second one, or all of it, gets none.
#[test]
fn a_job_without_a_thread_is_given_back_and_disturbs_no_other() {
    for target in ["_attempt", "_handle"] {
        let site = Site::new();
        site.add("a", "wait", json!({}));
        let mut worker =
            Program::start(Language::Python, &site.server.url(), &["without-threads", target, "2", "0"]);
        worker.wait_for(&json!({ "runs": "a" }));
        site.add("b", "", json!({}));
        site.server.wait_for_state("b", &json!("delayed"));
        let reason = site.server.job("b")["reason"].take();
        let expected = "the job could not be started: RuntimeError";
        assert!(reason.as_str().is_some_and(|reason| reason.starts_with(expected)), "{target}: {reason}");
        worker.signal(Signal::TERM);
        worker.send("a");
        assert_eq!(events(&worker.ends()), ["failed b"], "{target}");
        assert!(site.server.job("a").is_null(), "{target}: it is drained");
    }
}

#[test]
fn an_end_behind_the_last_reports_is_sent_once_more() {
    let site = Site::new();
    site.add("a", "wait", json!({}));
    let mut worker = Program::start(Language::Python, &site.server.url(), &["short-reports"]);
    worker.wait_for(&json!({ "runs": "a" }));
    worker.signal(Signal::TERM);
    // The poll, then the reports.
    worker.wait_for_number(2, &json!({ "cut": true }));
    worker.send("a");
    assert_eq!(events(&worker.ends()), [""; 0]);
    assert_eq!(site.server.job("a")["state"], "ready");
}

#[test]
fn the_end_of_a_with_block_closes_the_connections() {
    let site = Site::new();
    let mut program = Program::start(Language::Python, &site.server.url(), &["with"]);
    assert_eq!(program.ends(), [json!({ "idle": 0 })]);
}
