//! Heartbeats, and the end of a command whose reservation is lost.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use super::{Site, Worker, on_each_engine};
use crate::{
    examples::scripted::ScriptedServer,
    harness::{process_stats::is_stopped, proxy::Proxy, wait::TimeLimit},
    libraries::heartbeats::{self, LASTING},
};

on_each_engine! {
    heartbeats_keep_a_job_for_longer_than_its_ttr,
    heartbeats_go_on_beside_a_command_that_prints_fast,
    a_cancelled_job_stops_its_command,
    a_command_whose_job_was_replaced_gives_way,
    a_partition_makes_no_second_holder,
    a_worker_that_was_stopped_ends_its_command_and_reports_nothing,
    a_late_heartbeat_ends_no_command_whose_job_nobody_else_has,
    a_command_that_timed_out_ends_once_its_job_is_changed,
    a_job_that_came_while_the_worker_was_stopped_is_not_started,
    the_job_of_a_killed_worker_comes_back,
}

/// The TTR of jobs that time out, in seconds: longer than a machine stands still before the test has stopped their worker.
const BRIEF: u32 = 4;

/// A command that holds a lock while it runs, and says so if another one has it.
const LOCKED: &str =
    "exec 9>lock; flock -n 9 || echo $LINGER_JOB_ATTEMPT >>overlaps; echo self $$; read -r _ <gate";

/// With the flags as they are by default; the TTR is the job's own.
fn heartbeats_keep_a_job_for_longer_than_its_ttr(site: &Site) {
    site.gate("gate");
    site.add("a", json!({ "ttr": LASTING }));
    let worker = site.worker(&[], LOCKED);
    let _running = worker.wait_for_pid("self");
    // Four thirds of its TTR.
    site.server.wait_for_renewals("a", 4);
    assert_eq!(site.server.job("a")["attempts"], 1);
    site.open("gate");
    worker.wait_for(&json!({ "event": "finish", "outcome": "accepted" }));
    assert!(site.server.job("a").is_null());
    worker.stop();
}

fn heartbeats_go_on_beside_a_command_that_prints_fast(site: &Site) {
    site.add("a", json!({ "ttr": LASTING }));
    let mut worker = site.worker_into(Stdio::null(), &["--drain", "0s"], "exec yes");
    site.server.wait_for_state("a", &json!("reserved"));
    // Four thirds of its TTR.
    site.server.wait_for_renewals("a", 4);
    assert_eq!(site.server.job("a")["attempts"], 1);
    worker.signal(Signal::TERM);
    worker.ends_with(0);
}

/// The newer version need not wait for the end of the TTR.
fn a_command_whose_job_was_replaced_gives_way(site: &Site) {
    site.add("a", json!({ "ttr": 6, "body": "older" }));
    let mut worker = site.worker(&["--drain", "0s"], "cat; echo; exec sleep 1000");
    worker.wait_for_line("\"older\"");
    let newer = json!({ "topic": "t", "id": "a", "body": "newer", "if_exists": "replace" });
    assert_eq!(site.server.call("POST", "/jobs", &newer.to_string()).status, 200);
    worker.wait_for(&json!({ "event": "lost", "id": "a" }));
    worker.wait_for_line("\"newer\"");
    assert_eq!(site.server.metric("linger_jobs_timed_out_total{topic=\"t\"}"), None);
    worker.signal(Signal::TERM);
    worker.ends_with(0);
}

/// The TTR is the jobs' own.
#[test]
fn heartbeats_of_many_jobs_share_calls_and_end_with_their_own_job() {
    let site = Site::new(super::Engine::Embedded);
    let ids = ["a", "b", "c", "d", "e", "f", "g", "h"];
    ids.into_iter().for_each(|id| site.add(id, json!({ "ttr": LASTING })));
    let line = "echo runs; exec sleep 1000";
    let mut worker = site.worker(&["-j", "8", "--drain", "0s"], line);
    worker.wait_for_number(8, &json!({ "line": "runs" }));
    site.server.wait_for_renewals("a", 1);
    assert_eq!(site.server.call("DELETE", "/jobs/c", "").status, 204);
    worker.wait_for(&json!({ "event": "lost", "id": "c" }));
    // With the one before, four thirds of their TTR.
    site.server.wait_for_renewals("a", 3);
    for id in ids.into_iter().filter(|id| *id != "c") {
        let job = site.server.job(id);
        assert_eq!((&job["state"], &job["attempts"]), (&json!("reserved"), &json!(1)), "{job}");
    }
    let touches = |route| {
        let of = format!(r#"linger_http_requests_total{{route="{route}",method="POST",status="200"}}"#);
        site.server.metric(&of)
    };
    assert_eq!(touches("/jobs/{id}/touch"), None);
    assert!(touches("/batch/touch") >= Some(4.0));
    worker.signal(Signal::TERM);
    worker.ends_with(0);
    assert_eq!(worker.story().iter().filter(|event| event.starts_with("lost")).count(), 1);
}

fn scripted_worker(server: &ScriptedServer, jobs: usize) -> (tempfile::TempDir, Worker) {
    let directory = tempfile::tempdir().expect("a directory");
    let url = server.url();
    let arguments =
        ["t", "--url", &url, "-j", &jobs.to_string(), "--drain", "0s", "--exec", "exec sleep 1000"];
    let worker = Worker::start(&arguments, &[], directory.path());
    (directory, worker)
}

/// Ends a worker whose server answers nothing more. Returns the lost jobs.
fn lost_jobs(mut worker: Worker) -> Vec<String> {
    for _ in 0..3 {
        worker.signal(Signal::TERM);
    }
    worker.ends_with(6);
    worker.story().into_iter().filter(|event| event.starts_with("lost")).collect()
}

#[test]
fn one_call_carries_the_heartbeats_of_fifty_jobs() {
    let server = ScriptedServer::new();
    let (_directory, worker) = scripted_worker(&server, heartbeats::MANY);
    heartbeats::answer_heartbeats_of_fifty(&server);
    assert_eq!(lost_jobs(worker), [format!("lost {}", heartbeats::LOST)], "the others live");
}

#[test]
fn heartbeats_go_alone_where_the_server_takes_no_batch() {
    let server = ScriptedServer::new();
    let (_directory, worker) = scripted_worker(&server, heartbeats::FEW);
    heartbeats::answer_single_heartbeats(&server);
    assert_eq!(lost_jobs(worker), [""; 0]);
}

#[test]
fn the_worker_may_choose_the_ttr() {
    let site = Site::new(super::Engine::Embedded);
    site.gate("gate");
    site.add("a", json!({ "ttr": "1h" }));
    let worker = site.worker(&["--ttr", &format!("{LASTING}s")], LOCKED);
    let _running = worker.wait_for_pid("self");
    site.server.wait_for_renewals("a", 2);
    site.open("gate");
    worker.wait_for(&json!({ "event": "finish", "outcome": "accepted" }));
    worker.stop();
}

fn a_cancelled_job_stops_its_command(site: &Site) {
    site.gate("gate");
    site.add("a", json!({ "ttr": LASTING }));
    let worker = site.worker(&[], "sleep 1000 & echo other $!; echo self $$; wait");
    let processes = [worker.wait_for_pid("self"), worker.wait_for_pid("other")];
    assert_eq!(site.server.call("DELETE", "/jobs/a", "").status, 204);
    worker.wait_for(&json!({ "event": "lost", "id": "a", "kept": false }));
    processes.iter().for_each(super::Process::wait_until_gone);
    worker.stop_with_story_of_jobs(&["start a", "lost a", "draining -"]);
}

#[test]
fn a_command_may_be_kept_when_its_job_is_cancelled() {
    let site = Site::new(super::Engine::Embedded);
    site.gate("gate");
    site.add("a", json!({ "ttr": LASTING }));
    let worker = site.worker(&["--on-lost", "keep"], LOCKED);
    let command = worker.wait_for_pid("self");
    assert_eq!(site.server.call("DELETE", "/jobs/a", "").status, 204);
    worker.wait_for(&json!({ "event": "lost", "id": "a", "kept": true }));
    assert!(command.runs());
    site.open("gate");
    // A finish that finds no job is done.
    worker.wait_for(&json!({ "event": "finish", "outcome": "accepted" }));
    worker.stop();
}

fn a_partition_makes_no_second_holder(site: &Site) {
    site.gate("gate");
    let proxy = Proxy::start(site.server.address);
    // Nine tenths of it end two seconds before the rest.
    site.add("a", json!({ "ttr": 20 }));
    let cut_off = site.worker_at(&proxy.url(), &[], LOCKED);
    let first = cut_off.wait_for_pid("self");
    proxy.cut();
    let other = site.worker(&[], LOCKED);
    cut_off.wait_for(&json!({ "event": "lost", "id": "a", "reason": "no heartbeat got through" }));
    first.wait_until_gone();
    let second = other.wait_for_pid("self");
    assert_ne!(first.0, second.0);
    site.open("gate");
    other.wait_for(&json!({ "event": "finish", "outcome": "accepted" }));
    assert_eq!(site.read("overlaps"), "", "two commands ran at the same time");
    cut_off.wait_for(&json!({ "event": "away" }));
    proxy.heal();
    cut_off.wait_for(&json!({ "event": "back" }));
    other.stop();
    cut_off.stop_with_story(&["start a", "away -", "lost a", "back -", "draining -"]);
}

/// Stops a worker; returns once all its threads have stopped.
pub(super) fn suspend(worker: &Worker) {
    worker.signal(Signal::STOP);
    let time_limit = TimeLimit::new();
    while !is_stopped(worker.child.id()) {
        time_limit.check(|| "a thread still runs".to_owned());
        time_limit.pause_thread();
    }
}

fn a_worker_that_was_stopped_ends_its_command_and_reports_nothing(site: &Site) {
    site.gate("gate");
    site.add("a", json!({ "ttr": BRIEF }));
    let stopped = site.worker(&[], "echo self $$; read -r _ <never");
    site.gate("never");
    let first = stopped.wait_for_pid("self");
    suspend(&stopped);
    let other = site.worker(&[], "echo self $$; read -r _ <gate");
    let _running = other.wait_for_pid("self");
    stopped.signal(Signal::CONT);
    stopped.wait_for(&json!({ "event": "lost", "id": "a" }));
    first.wait_until_gone();
    site.open("gate");
    other.wait_for(&json!({ "event": "finish", "outcome": "accepted" }));
    other.stop();
    stopped.stop_with_story_of_jobs(&["start a", "lost a", "draining -"]);
}

/// Starts a worker whose command runs until the gate opens, and stops it until the job has timed out.
fn time_out(site: &Site) -> (Worker, super::Process) {
    site.gate("gate");
    site.add("a", json!({ "ttr": BRIEF, "retry": ["1h"] }));
    let worker = site.worker(&[], "echo self $$; read -r _ <gate");
    let command = worker.wait_for_pid("self");
    suspend(&worker);
    site.server.wait_for_state("a", &json!("delayed"));
    // A server that says nothing of the job for a tenth of its TTR counts as away.
    site.server.wait_until_it_begins_changes();
    worker.signal(Signal::CONT);
    worker.wait_for(&json!({ "event": "lost", "id": "a", "kept": true }));
    (worker, command)
}

fn a_late_heartbeat_ends_no_command_whose_job_nobody_else_has(site: &Site) {
    let (worker, command) = time_out(site);
    assert!(command.runs());
    site.open("gate");
    worker.wait_for(&json!({ "event": "finish", "outcome": "accepted" }));
    let gone = site.server.call("GET", "/jobs/a", "");
    assert_eq!((gone.status, &gone.json()["ended"]["how"]), (404, &json!("finished_late")));
    worker.stop_with_story_of_jobs(&["start a", "lost a", "finish a", "draining -"]);
}

fn a_command_that_timed_out_ends_once_its_job_is_changed(site: &Site) {
    let (worker, command) = time_out(site);
    assert_eq!(site.server.call("PATCH", "/jobs/a", r#"{"ttr":60}"#).status, 200);
    worker.wait_for(&json!({ "event": "lost", "id": "a", "kept": false }));
    command.wait_until_gone();
    assert_eq!(site.server.job("a")["state"], "delayed");
    worker.stop_with_story_of_jobs(&["start a", "lost a", "lost a", "draining -"]);
}

fn a_job_that_came_while_the_worker_was_stopped_is_not_started(site: &Site) {
    let stopped = site.worker(&[], "true");
    site.server.wait_for_parked_polls(1);
    suspend(&stopped);
    site.add("a", json!({ "ttr": 1, "retry": ["1h"] }));
    // The stopped worker had it for a second.
    site.server.wait_for_state("a", &json!("delayed"));
    stopped.signal(Signal::CONT);
    stopped.wait_for(&json!({ "event": "lost", "id": "a" }));
    assert_eq!(site.server.job("a")["attempts"], 1);
    stopped.stop_with_story(&["lost a", "draining -"]);
}

fn the_job_of_a_killed_worker_comes_back(site: &Site) {
    site.gate("gate");
    site.add("a", json!({ "ttr": BRIEF }));
    let mut killed = site.worker(&[], "echo self $$; read -r _ <never");
    site.gate("never");
    let orphan = killed.wait_for_pid("self");
    killed.signal(Signal::KILL);
    killed.wait();
    let other = site.worker(&[], "echo self $$; read -r _ <gate");
    let _running = other.wait_for_pid("self");
    assert!(orphan.runs(), "its command lives on");
    site.open("gate");
    other.wait_for(&json!({ "event": "finish", "attempt": 2, "outcome": "accepted" }));
    other.stop();
}
