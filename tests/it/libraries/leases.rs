//! Heartbeats, and reservations that are lost.

use rustix::process::Signal;
use serde_json::json;

use super::{Language, Program, Site, events, heartbeats::LASTING, in_each_language};
use crate::harness::{process_stats::is_stopped, proxy::Proxy, wait::TimeLimit};

in_each_language! {
    heartbeats_keep_a_job_for_longer_than_its_ttr,
    heartbeats_go_with_every_setting_at_its_default,
    the_worker_may_choose_the_ttr,
    a_cancelled_job_stops_its_handler,
    a_partition_stops_the_handler_before_another_one_has_the_job,
    a_handler_whose_job_timed_out_goes_on_and_finishes_it,
    a_handler_is_told_once_its_job_that_timed_out_is_changed,
    each_of_two_jobs_that_timed_out_has_an_answer_of_its_own,
    a_job_that_came_while_the_worker_was_suspended_is_not_started,
    a_heartbeat_whose_answer_is_lost_is_sent_again,
}

/// The settings of the worker are the default ones; the TTR is the job's own.
fn heartbeats_keep_a_job_for_longer_than_its_ttr(language: Language) {
    let site = Site::new();
    site.add("a", "wait", json!({ "ttr": LASTING }));
    let mut worker = Program::worker(language, &site.server.url());
    worker.wait_for(&json!({ "runs": "a" }));
    // Six thirds of its TTR.
    site.server.wait_for_renewals("a", 6);
    assert_eq!(site.server.job("a")["attempts"], 1);
    worker.send("a");
    site.server.wait_for_state("a", &json!(null));
    let events: Vec<_> = worker.stop().into_iter().filter(|line| line["event"].is_string()).collect();
    assert_eq!(events, [json!(null); 0]);
}

/// The settings of the job, too: its TTR is a minute, and the heartbeat comes after 20 seconds.
fn heartbeats_go_with_every_setting_at_its_default(language: Language) {
    let site = Site::new();
    let mut worker = Program::worker(language, &site.server.url());
    site.server.wait_for_parked_polls(1);
    site.add("a", "wait", json!({}));
    worker.wait_for(&json!({ "runs": "a" }));
    site.server.wait_for_renewals("a", 1);
    worker.send("a");
    site.server.wait_for_state("a", &json!(null));
    worker.stop();
}

/// Of all its jobs, whose heartbeats share calls.
fn the_worker_may_choose_the_ttr(language: Language) {
    let site = Site::new();
    for id in ["a", "b"] {
        site.add(id, "wait", json!({ "ttr": "1h" }));
    }
    let mut worker =
        Program::start(language, &site.server.url(), &["worker", "2", &(LASTING * 1_000).to_string()]);
    for id in ["a", "b"] {
        worker.wait_for(&json!({ "runs": id }));
    }
    site.server.wait_for_renewals("a", 3);
    for id in ["a", "b"] {
        assert_eq!(site.server.job(id)["attempts"], 1);
    }
    let touches = |route| {
        let of = format!(r#"linger_http_requests_total{{route="{route}",method="POST",status="200"}}"#);
        site.server.metric(&of)
    };
    assert_eq!(touches("/jobs/{id}/touch"), None);
    assert!(touches("/batch/touch") >= Some(3.0));
    // The heartbeats were for seconds, and not for an hour.
    worker.signal(Signal::KILL);
    worker.wait();
    for id in ["a", "b"] {
        site.server.wait_for_state(id, &json!("delayed"));
    }
}

fn a_cancelled_job_stops_its_handler(language: Language) {
    let site = Site::new();
    site.add("a", "wait", json!({ "ttr": LASTING }));
    let mut worker = Program::worker(language, &site.server.url());
    worker.wait_for(&json!({ "runs": "a" }));
    assert_eq!(site.server.call("DELETE", "/jobs/a", "").status, 204);
    let lost = worker.wait_for(&json!({ "event": "lost", "id": "a" }));
    assert_eq!(lost["error"]["code"], "job_not_found");
    worker.wait_for(&json!({ "told": "a" }));
    // A new job of this name is another one's work. The handler returns, and nothing is reported.
    site.add("a", "", json!({ "delay": "1h" }));
    worker.send("a");
    site.add("b", "", json!({}));
    site.server.wait_for_state("b", &json!(null));
    assert_eq!(site.server.job("a")["state"], "delayed");
    let events: Vec<_> = worker.stop().into_iter().filter(|line| line["event"].is_string()).collect();
    assert_eq!(events.len(), 1, "{events:#?}");
}

fn a_partition_stops_the_handler_before_another_one_has_the_job(language: Language) {
    let site = Site::new();
    let proxy = Proxy::start(site.server.address);
    // Nine tenths of it end two seconds before the rest.
    site.add("a", "wait", json!({ "ttr": 20, "retry": [0] }));
    let mut cut_off = Program::worker(language, &proxy.url());
    cut_off.wait_for(&json!({ "runs": "a" }));
    proxy.cut();
    // Nothing renews it any more.
    let until = site.server.job("a")["reserved_until"].take();
    let told = cut_off.wait_for(&json!({ "told": "a" }));
    assert!(told["at"].as_str() < until.as_str(), "others could have had the job: {told} {until}");
    cut_off.wait_for(&json!({ "event": "lost", "id": "a" }));
    let mut other = Program::worker(language, &site.server.url());
    other.wait_for(&json!({ "runs": "a" }));
    cut_off.send("a");
    cut_off.wait_for(&json!({ "event": "away" }));
    proxy.heal();
    cut_off.wait_for(&json!({ "event": "back" }));
    assert_eq!(site.server.job("a")["attempts"], 2);
    other.send("a");
    site.server.wait_for_state("a", &json!(null));
    other.stop();
    cut_off.stop();
}

/// Stops a program; returns once all its threads have stopped.
fn suspend(program: &Program) {
    program.signal(Signal::STOP);
    let time_limit = TimeLimit::new();
    while !is_stopped(program.child.id()) {
        time_limit.check(|| "a thread still runs".to_owned());
        time_limit.pause_thread();
    }
}

/// Starts a worker, suspends it until its jobs have timed out, and has it ask the server since by these calls. The TTR is longer
/// than a machine stands still before the worker is suspended.
fn time_out(site: &Site, language: Language, ids: &[&str], route: &str, status: u16) -> Program {
    ids.iter().for_each(|id| site.add(id, "wait", json!({ "ttr": 4, "retry": ["1h"] })));
    let worker = Program::start(language, &site.server.url(), &["worker", &ids.len().to_string()]);
    ids.iter().for_each(|id| drop(worker.wait_for(&json!({ "runs": id }))));
    suspend(&worker);
    ids.iter().for_each(|id| site.server.wait_for_state(id, &json!("delayed")));
    let series = format!(r#"linger_http_requests_total{{route="{route}",method="POST",status="{status}"}}"#);
    let calls = || site.server.metric(&series).unwrap_or(0.0);
    let before = calls();
    // A server that says nothing of the jobs for a tenth of their TTR counts as away.
    site.server.wait_until_it_begins_changes();
    worker.signal(Signal::CONT);
    // The answer to the first heartbeat has been read when the second one is there.
    let time_limit = TimeLimit::new();
    while calls() < before + 2.0 {
        time_limit.check(|| "no heartbeat was answered".to_owned());
        time_limit.pause_thread();
    }
    worker
}

fn time_out_one(site: &Site, language: Language) -> Program {
    time_out(site, language, &["a"], "/jobs/{id}/touch", 409)
}

fn a_handler_whose_job_timed_out_goes_on_and_finishes_it(language: Language) {
    let site = Site::new();
    let mut worker = time_out_one(&site, language);
    worker.send("a");
    site.server.wait_for_state("a", &json!(null));
    site.server.wait_for_metric("linger_jobs_finished_late_total{topic=\"t\"}", 1.0);
    let events: Vec<_> = worker.stop().into_iter().filter(|line| line["event"].is_string()).collect();
    assert_eq!(events, [json!(null); 0]);
}

fn a_handler_is_told_once_its_job_that_timed_out_is_changed(language: Language) {
    let site = Site::new();
    let mut worker = time_out_one(&site, language);
    assert_eq!(site.server.call("PATCH", "/jobs/a", r#"{"ttr":60}"#).status, 200);
    worker.wait_for(&json!({ "event": "lost", "id": "a" }));
    worker.wait_for(&json!({ "told": "a" }));
    worker.send("a");
    worker.wait_for(&json!({ "returns": "a" }));
    worker.stop();
    assert_eq!(site.server.job("a")["state"], "delayed");
}

/// Their heartbeats share calls.
fn each_of_two_jobs_that_timed_out_has_an_answer_of_its_own(language: Language) {
    let site = Site::new();
    let mut worker = time_out(&site, language, &["a", "b"], "/batch/touch", 200);
    assert_eq!(site.server.call("PATCH", "/jobs/a", r#"{"ttr":60}"#).status, 200);
    worker.wait_for(&json!({ "told": "a" }));
    worker.send("b");
    site.server.wait_for_state("b", &json!(null));
    site.server.wait_for_metric("linger_jobs_finished_late_total{topic=\"t\"}", 1.0);
    worker.send("a");
    worker.wait_for(&json!({ "returns": "a" }));
    let lines = worker.stop();
    assert_eq!(events(&lines), ["lost a"], "{lines:#?}");
}

fn a_job_that_came_while_the_worker_was_suspended_is_not_started(language: Language) {
    let site = Site::new();
    let worker = Program::worker(language, &site.server.url());
    site.server.wait_for_parked_polls(1);
    suspend(&worker);
    site.add("a", "", json!({ "ttr": 1 }));
    // The suspended worker had it for a second.
    site.server.wait_for_state("a", &json!("delayed"));
    worker.signal(Signal::CONT);
    worker.wait_for(&json!({ "event": "lost", "id": "a" }));
    let lines = worker.stop();
    assert!(lines.iter().all(|line| line["runs"].is_null()), "{lines:#?}");
    assert_eq!(site.server.job("a")["attempts"], 1);
}

fn a_heartbeat_whose_answer_is_lost_is_sent_again(language: Language) {
    let site = Site::new();
    let proxy = Proxy::start(site.server.address);
    site.add("a", "wait", json!({ "ttr": 15 }));
    let mut worker = Program::worker(language, &proxy.url());
    worker.wait_for(&json!({ "runs": "a" }));
    proxy.lose_response("/touch");
    // The one whose answer was lost, and the one after it.
    site.server.wait_for_renewals("a", 2);
    assert_eq!(proxy.lost(), 1);
    worker.send("a");
    site.server.wait_for_state("a", &json!(null));
    let events: Vec<_> = worker.stop().into_iter().filter(|line| line["event"] == "lost").collect();
    assert_eq!(events, [json!(null); 0]);
}
