//! A server that goes away while commands run, and answers that are lost.

use rustix::process::Signal;
use serde_json::json;

use super::{Engine, Site, Worker, on_each_engine};
use crate::{
    examples::scripted::ScriptedServer,
    harness::{process::Server, proxy::Proxy},
};

on_each_engine! {
    commands_run_on_while_the_server_restarts_and_their_ends_are_reported,
    a_finish_whose_answer_is_lost_is_sent_again,
    a_command_runs_on_while_the_server_is_stopped_and_its_end_is_reported,
}

fn commands_run_on_while_the_server_restarts_and_their_ends_are_reported(site: &Site) {
    for gate in ["done", "failed"] {
        site.gate(gate);
        site.add(gate, json!({ "retry": ["1h"] }));
    }
    let line = "echo runs; read -r _ <$LINGER_JOB_ID; echo over; test $LINGER_JOB_ID = done";
    let worker = site.worker(&["-j", "2"], line);
    worker.wait_for_number(2, &json!({ "line": "runs" }));
    site.server.signal(Signal::KILL);
    for gate in ["done", "failed"] {
        site.open(gate);
    }
    worker.wait_for(&json!({ "event": "away" }));
    let listen = site.server.address.to_string();
    let _again = Server::start(&["serve", "--listen", &listen], site.path());
    worker.wait_for(&json!({ "event": "back" }));
    worker.wait_for(&json!({ "event": "finish", "id": "done", "outcome": "accepted" }));
    worker
        .wait_for(&json!({ "event": "release", "id": "failed", "outcome": "accepted", "reason": "exit 1" }));
    assert!(site.server.job("done").is_null());
    assert_eq!(site.server.job("failed")["state"], "delayed");
    // It goes on.
    site.add("done", json!({}));
    site.open("done");
    worker.wait_for_number(2, &json!({ "event": "finish", "id": "done" }));
    worker.stop();
}

fn a_command_runs_on_while_the_server_is_stopped_and_its_end_is_reported(site: &Site) {
    site.gate("gate");
    // Its lease outlives the time that a call may take.
    site.add("a", json!({ "ttr": "10m" }));
    let worker = site.worker(&[], "echo runs; read -r _ <gate; echo over");
    worker.wait_for_line("runs");
    site.server.suspend();
    site.open("gate");
    worker.wait_for_line("over");
    let away = worker.wait_for(&json!({ "event": "away" }));
    assert!(away["reason"].as_str().expect("has a reason").contains("finish"), "{away}");
    site.server.signal(Signal::CONT);
    worker.wait_for(&json!({ "event": "back" }));
    worker.wait_for(&json!({ "event": "finish", "id": "a", "outcome": "accepted" }));
    assert!(site.server.job("a").is_null());
    worker.stop();
}

fn a_finish_whose_answer_is_lost_is_sent_again(site: &Site) {
    for (id, code, end) in [("done", 0, "finish"), ("failed", 1, "release"), ("buried", 65, "bury")] {
        let proxy = Proxy::start(site.server.address);
        proxy.lose_response(end);
        site.add(id, json!({ "retry": ["1h"] }));
        let mut worker = site.worker_at(&proxy.url(), &["--max-jobs", "1"], &format!("exit {code}"));
        worker.ends_with(0);
        worker.wait_for(&json!({ "event": end, "id": id, "outcome": "accepted" }));
        assert_eq!(proxy.lost(), 1);
    }
    let states = ["done", "failed", "buried"].map(|id| site.server.job(id)["state"].clone());
    assert_eq!(states, [json!(null), json!("delayed"), json!("dead")]);
}

#[test]
fn a_job_that_another_worker_has_by_now_is_too_late() {
    let site = Site::new(Engine::Embedded);
    site.gate("gate");
    // Longer than a machine stands still before the network is cut.
    site.add("a", json!({ "ttr": 4 }));
    let proxy = Proxy::start(site.server.address);
    let worker = site.worker_at(&proxy.url(), &["--on-lost", "keep"], "echo runs; read -r _ <gate");
    worker.wait_for_line("runs");
    proxy.cut();
    site.server.wait_for_state("a", &json!("ready"));
    assert_eq!(site.server.call("GET", "/topics/t/pop?ttr=1h", "").json()["attempt"], 2);
    site.open("gate");
    proxy.heal();
    let finish = worker.wait_for(&json!({ "event": "finish", "id": "a" }));
    assert_eq!(finish["outcome"], "too_late", "{finish}");
    worker.stop();
}

#[test]
fn a_worker_without_a_server_tries_on_until_it_is_to_give_up() {
    let directory = tempfile::tempdir().expect("a directory");
    // No process listens on port 1.
    let arguments = ["t", "--url", "http://127.0.0.1:1", "--until-empty", "--exec", "true"];
    let mut worker =
        Worker::start(&[&arguments[..], &["--give-up", "300ms"]].concat(), &[], directory.path());
    worker.ends_with(6);
    assert_eq!(worker.story(), ["away -", "draining -"]);
    assert!(worker.errors().contains("the server does not answer"), "{}", worker.errors());

    let mut worker = Worker::start(&arguments, &[], directory.path());
    worker.wait_for(&json!({ "event": "away" }));
    worker.signal(Signal::TERM);
    worker.ends_with(0);
}

/// It says that it has not begun the call.
#[test]
fn a_server_that_was_paused_is_asked_again_and_is_not_away() {
    let (directory, server) = (tempfile::tempdir().expect("a directory"), ScriptedServer::new());
    let arguments = ["t", "--url", &server.url(), "--exec", "true"];
    let mut worker = Worker::start(&arguments, &[], directory.path());
    let problem = json!({ "status": 503, "code": "not_begun", "detail": "it was paused" });
    server.next().respond(503, &problem.to_string());
    let poll = server.next();
    assert_eq!(poll.line, "POST /batch/pop");
    worker.signal(Signal::TERM);
    worker.ends_with(0);
    assert_eq!(worker.story(), ["draining -"]);
}

#[test]
fn a_worker_that_cannot_report_does_not_claim_an_orderly_end() {
    let site = Site::new(Engine::Embedded);
    site.gate("gate");
    site.add("a", json!({}));
    let mut worker = site.worker(&["--drain", "0s", "--kill-after", "0s"], "echo runs; read -r _ <gate");
    worker.wait_for_line("runs");
    site.server.signal(Signal::KILL);
    site.open("gate");
    worker.wait_for(&json!({ "event": "away" }));
    for _ in 0..3 {
        worker.signal(Signal::TERM);
    }
    worker.ends_with(6);
    worker.wait_for(&json!({ "event": "finish", "id": "a", "outcome": "unanswered" }));
    assert!(worker.errors().contains("may run again"), "{}", worker.errors());
}

#[test]
fn a_server_that_hands_out_no_jobs_ends_the_worker() {
    let site = Site::new(Engine::Embedded);
    for (flags, code) in [(&["--ttr", "1ms"][..], 2), (&["--url", "https://127.0.0.1:1"], 6)] {
        let mut worker = site.worker(&[flags, &["--give-up", "200ms"]].concat(), "true");
        worker.ends_with(code);
    }
    let url = site.server.url().replace("http:", "https:");
    let mut worker = site.worker(&["--url", &url], "true");
    worker.ends_with(2);
    assert!(worker.errors().contains("does not speak TLS"), "{}", worker.errors());
}
