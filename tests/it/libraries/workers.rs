//! Workers and the outcomes of their jobs: errors of handlers, the end of a worker, and servers that are away.

use rustix::process::Signal;
use serde_json::json;

use super::{Language, Program, Site, calls::problem, events, in_each_language};
use crate::{
    examples::scripted::ScriptedServer,
    harness::{process::Server, proxy::Proxy, wait::TimeLimit},
};

in_each_language! {
    an_error_of_a_handler_releases_its_job_with_the_reason,
    a_handler_goes_on_from_the_note_of_the_attempt_before,
    an_end_whose_answer_is_lost_is_sent_again,
    an_end_that_comes_too_late_is_told,
    jobs_run_beside_each_other,
    a_drain_ends_running_handlers_and_takes_no_more_jobs,
    a_drain_that_is_over_gives_the_jobs_back,
    a_worker_goes_on_after_the_server_was_away,
    a_worker_without_a_server_ends_all_the_same,
    a_wrong_token_ends_the_worker,
    a_poll_that_was_not_begun_is_sent_again,
}

fn an_error_of_a_handler_releases_its_job_with_the_reason(language: Language) {
    let site = Site::new();
    for body in ["fail", "panic", "bury", "done"] {
        site.add(body, body, json!({}));
    }
    let worker = Program::worker(language, &site.server.url());
    // The last of them.
    site.server.wait_for_state("done", &json!(null));
    let found = ["fail", "panic", "bury"].map(|id| site.server.job(id));
    assert_eq!(found.each_ref().map(|job| &job["state"]), ["delayed", "delayed", "dead"]);
    let reasons = match language {
        Language::Go => ["psp timeout", "panic: psp broken", "no such order"],
        Language::Python => ["KeyError: 'psp timeout'", "SystemExit: psp broken", "no such order"],
    };
    assert_eq!(found.each_ref().map(|job| &job["reason"]), reasons);
    assert!(site.server.job("done").is_null());
    let lines = worker.stop();
    assert_eq!(events(&lines), ["failed fail", "failed panic"]);
    assert_eq!(lines.iter().filter(|line| line["returns"].is_string()).count(), 1);
}

fn a_handler_goes_on_from_the_note_of_the_attempt_before(language: Language) {
    let site = Site::new();
    site.add("a", "note", json!({ "ttr": 60, "retry": [0] }));
    let mut worker = Program::start(language, &site.server.url(), &["worker", "1", "3600000"]);
    worker.wait_for(&json!({ "noted": "a" }));
    let job = site.server.job("a");
    assert_eq!((&job["state"], &job["note"]), (&json!("reserved"), &json!("resume at 41,200")));
    let hour = |name: &str| job[name].as_str().expect("is a moment")[..13].to_owned();
    assert_ne!(hour("reserved_at"), hour("reserved_until"), "for the TTR of the worker: {job}");
    worker.send("a");
    worker.wait_for(&json!({ "resumes": "a", "note": "resume at 41,200" }));
    site.server.wait_for_state("a", &json!(null));
    let lines = worker.stop();
    assert_eq!(events(&lines), ["failed a"]);
}

fn an_end_whose_answer_is_lost_is_sent_again(language: Language) {
    let site = Site::new();
    for (id, end) in [("done", "finish"), ("fail", "release"), ("bury", "bury")] {
        let proxy = Proxy::start(site.server.address);
        proxy.lose_response(end);
        site.add(id, id, json!({}));
        let worker = Program::worker(language, &proxy.url());
        worker.wait_for(&json!({ "runs": id }));
        let time_limit = TimeLimit::new();
        while proxy.lost() == 0 {
            time_limit.check(|| format!("{end}: {:#?}", worker.lines()));
            time_limit.pause_thread();
        }
        let expected: &[&str] = if id == "fail" { &["failed fail"] } else { &[] };
        let lines = worker.stop();
        assert_eq!(events(&lines), expected, "{end}: {lines:#?}");
    }
    let states = ["done", "fail", "bury"].map(|id| site.server.job(id)["state"].clone());
    assert_eq!(states, [json!(null), json!("delayed"), json!("dead")]);
}

/// Another client has the job by then. The first heartbeat, which would notice, is due only after 20 seconds.
fn an_end_that_comes_too_late_is_told(language: Language) {
    let site = Site::new();
    site.add("a", "wait", json!({}));
    let mut worker = Program::worker(language, &site.server.url());
    let receipt = worker.wait_for(&json!({ "runs": "a" }))["receipt"].take();
    let release = json!({ "receipt": receipt, "delay": 0 }).to_string();
    assert_eq!(site.server.call("POST", "/jobs/a/release", &release).status, 200);
    let other = site.server.call("GET", "/topics/t/pop", "").json();
    worker.send("a");
    let late = worker.wait_for(&json!({ "event": "late", "id": "a" }));
    assert_eq!((&late["error"]["status"], &late["error"]["code"]), (&json!(409), &json!("lease_lost")));
    let finish = format!("/jobs/a/finish?receipt={}", other["receipt"].as_str().expect("is reserved"));
    assert_eq!(site.server.call("POST", &finish, "").status, 204);
    let lines = worker.stop();
    assert_eq!(events(&lines), ["late a"], "{lines:#?}");
}

fn jobs_run_beside_each_other(language: Language) {
    let site = Site::new();
    for id in ["a", "b", "c"] {
        site.add(id, "wait", json!({}));
    }
    let mut worker = Program::start(language, &site.server.url(), &["worker", "2"]);
    for id in ["a", "b"] {
        worker.wait_for(&json!({ "runs": id }));
    }
    assert_eq!(site.counts(), json!({ "delayed": 0, "ready": 1, "reserved": 2, "dead": 0 }));
    worker.send("b");
    worker.wait_for(&json!({ "runs": "c" }));
    ["a", "c"].into_iter().for_each(|id| worker.send(id));
    site.server.wait_for_state("a", &json!(null));
    site.server.wait_for_state("c", &json!(null));
    let lines = worker.stop();
    assert_eq!(events(&lines), [""; 0], "{lines:#?}");
}

fn a_drain_ends_running_handlers_and_takes_no_more_jobs(language: Language) {
    let site = Site::new();
    for id in ["a", "b"] {
        site.add(id, "wait", json!({}));
    }
    let mut worker = Program::start(language, &site.server.url(), &["worker", "3"]);
    for id in ["a", "b"] {
        worker.wait_for(&json!({ "runs": id }));
    }
    site.server.wait_for_parked_polls(1);
    worker.signal(Signal::TERM);
    site.server.wait_for_parked_polls(0);
    // One for a and b. The next poll was dropped, and did not come to its end.
    let answered = r#"linger_http_requests_total{route="/batch/pop",method="POST",status="200"}"#;
    assert_eq!(site.server.metric(answered), Some(1.0));
    site.add("c", "", json!({}));
    for id in ["a", "b"] {
        worker.send(id);
        worker.wait_for(&json!({ "returns": id }));
    }
    let lines = worker.ends();
    assert_eq!((events(&lines), lines.last()), (vec![], Some(&json!({ "ended": null }))));
    assert!(lines.iter().all(|line| line["told"].is_null()), "{lines:#?}");
    assert!(site.server.job("a").is_null() && site.server.job("b").is_null());
    let left = site.server.job("c");
    assert_eq!((&left["state"], &left["attempts"]), (&json!("ready"), &json!(0)), "{left}");
}

fn a_drain_that_is_over_gives_the_jobs_back(language: Language) {
    let site = Site::new();
    site.add("a", "wait", json!({}));
    let mut worker = Program::start(language, &site.server.url(), &["worker", "1", "0", "1"]);
    worker.wait_for(&json!({ "runs": "a" }));
    worker.signal(Signal::TERM);
    worker.wait_for(&json!({ "told": "a" }));
    assert_eq!(site.server.job("a")["state"], "reserved", "the handler still runs");
    // It returns without an error, which does not count any more.
    worker.send("a");
    assert_eq!(events(&worker.ends()), [""; 0]);
    let back = site.server.job("a");
    assert_eq!((&back["state"], &back["reason"]), (&json!("ready"), &json!("the worker ended")), "{back}");
}

fn a_worker_goes_on_after_the_server_was_away(language: Language) {
    let mut site = Site::new();
    for id in ["a", "b"] {
        site.add(id, "wait", json!({ "ttr": "10m" }));
    }
    let mut worker = Program::start(language, &site.server.url(), &["worker", "3"]);
    for id in ["a", "b"] {
        worker.wait_for(&json!({ "runs": id }));
    }
    site.server.kill();
    worker.send("a");
    worker.wait_for(&json!({ "returns": "a" }));
    worker.wait_for(&json!({ "event": "away" }));
    let listen = site.server.address.to_string();
    site.server = Server::start(&["serve", "--listen", &listen], site.directory.path());
    worker.wait_for(&json!({ "event": "back" }));
    site.server.wait_for_state("a", &json!(null));
    worker.send("b");
    site.server.wait_for_state("b", &json!(null));
    site.add("c", "", json!({}));
    site.server.wait_for_state("c", &json!(null));
    let lines = worker.stop();
    assert_eq!(events(&lines), ["away -", "back -"], "{lines:#?}");
}

/// The end of its job cannot be reported. The job comes back when its TTR ends.
fn a_worker_without_a_server_ends_all_the_same(language: Language) {
    let mut site = Site::new();
    site.add("a", "wait", json!({ "ttr": "10m" }));
    let mut worker = Program::start(language, &site.server.url(), &["worker", "1", "0", "1"]);
    worker.wait_for(&json!({ "runs": "a" }));
    site.server.kill();
    worker.send("a");
    worker.wait_for(&json!({ "returns": "a" }));
    worker.signal(Signal::TERM);
    assert_eq!(events(&worker.ends()), ["unanswered a"]);
}

fn a_wrong_token_ends_the_worker(language: Language) {
    let directory = tempfile::tempdir().expect("a directory");
    let entry = linger::auth::token_entry("other", "another-token", &[linger::auth::Scope::Admin], &[]);
    std::fs::write(directory.path().join("tokens.toml"), entry).expect("can be written");
    let server = Server::serve(&[], &[("LINGER__AUTH__TOKENS_FILE", "tokens.toml")], directory.path());
    let mut worker = Program::worker(language, &server.url());
    let ended = worker.ends().remove(0)["ended"].take();
    assert_eq!((&ended["status"], &ended["code"]), (&json!(401), &json!("unauthorized")), "{ended}");
}

/// A server that was paused is not away: it has answered.
fn a_poll_that_was_not_begun_is_sent_again(language: Language) {
    let server = ScriptedServer::new();
    let worker = Program::worker(language, &server.url());
    server.next().respond(503, &problem(503, "not_begun"));
    let poll = server.next();
    assert_eq!(poll.line, "POST /batch/pop");
    let lines = worker.stop();
    assert_eq!(events(&lines), [""; 0], "{lines:#?}");
}
