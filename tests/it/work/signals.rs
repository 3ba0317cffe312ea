//! What signals to the worker do to it and to its commands.

use std::fs::File;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Engine, Process, Site, on_each_engine};
use crate::harness::wait::TimeLimit;

on_each_engine! {
    the_first_signal_lets_running_commands_end_and_pops_no_more,
    the_second_signal_ends_commands_and_gives_their_jobs_back_at_once,
}

fn the_first_signal_lets_running_commands_end_and_pops_no_more(site: &Site) {
    site.gate("gate");
    for signal in [Signal::TERM, Signal::INT] {
        site.add("a", json!({}));
        let mut worker = site.worker(&["-j", "2"], "echo runs; read -r _ <gate");
        worker.wait_for_line("runs");
        // The second place polls.
        site.server.wait_for_parked_polls(1);
        worker.signal(signal);
        let draining = worker.wait_for(&json!({ "event": "draining" }));
        assert_eq!((&draining["running"], &draining["limit"]), (&json!(1), &json!(25.0)), "{draining}");
        site.add("later", json!({}));
        site.open("gate");
        worker.ends_with(0);
        assert!(site.server.job("a").is_null());
        let later = site.server.job("later");
        assert_eq!((&later["state"], &later["attempts"]), (&json!("ready"), &json!(0)), "{later}");
        assert_eq!(site.server.call("DELETE", "/jobs/later", "").status, 204);
    }
}

fn the_second_signal_ends_commands_and_gives_their_jobs_back_at_once(site: &Site) {
    site.add("a", json!({ "retry": ["1h"] }));
    let line = "trap 'echo asked >&2; exit 0' TERM; echo self $$; sleep 1000 & wait";
    let mut worker = site.worker(&[], line);
    let command = worker.wait_for_pid("self");
    worker.signal(Signal::TERM);
    worker.wait_for(&json!({ "event": "draining" }));
    assert!(command.runs(), "it has 25 seconds");
    worker.signal(Signal::TERM);
    worker.ends_with(0);
    assert!(!command.runs());
    let job = site.server.job("a");
    let expected = (&json!("ready"), &json!("the worker ended: asked"));
    assert_eq!((&job["state"], &job["reason"]), expected, "{job}");
}

#[test]
fn the_third_signal_kills_commands() {
    let site = Site::new(Engine::Embedded);
    site.add("a", json!({}));
    // Not `sleep` alone: a signal just before the shell starts it would wait for its end.
    let line = "trap 'echo asked' TERM; echo self $$; while :; do sleep 1000 & wait; done";
    let mut worker = site.worker(&["--kill-after", "1h"], line);
    let command = worker.wait_for_pid("self");
    for (signal, seen) in [
        (Signal::INT, json!({ "event": "draining" })),
        (Signal::TERM, json!({ "line": "asked" })),
        (Signal::INT, json!({ "event": "release", "outcome": "accepted" })),
    ] {
        worker.signal(signal);
        worker.wait_for(&seen);
    }
    worker.ends_with(0);
    assert!(!command.runs());
    assert_eq!(site.server.job("a")["state"], "ready");
}

#[test]
fn commands_are_ended_and_killed_when_the_time_to_drain_is_over() {
    let site = Site::new(Engine::Embedded);
    site.add("a", json!({}));
    let line = "trap 'echo asked' TERM; sleep 1000 & echo other $!; echo self $$; while :; do wait; done";
    // A machine that stands still gives the command no time to answer.
    let mut worker = site.worker(&["--drain", "100ms", "--kill-after", "3s"], line);
    let processes = [worker.wait_for_pid("self"), worker.wait_for_pid("other")];
    worker.signal(Signal::TERM);
    worker.ends_with(0);
    worker.wait_for_line("asked");
    processes.iter().for_each(Process::wait_until_gone);
    let job = site.server.job("a");
    assert_eq!((&job["state"], &job["reason"]), (&json!("ready"), &json!("the worker ended")), "{job}");
}

#[test]
fn a_signal_ends_a_worker_whose_command_prints_fast() {
    // What it passes on after the signal: the rest of a pipe, many times as long in JSON. Unheard, it would be hundreds of MiB.
    const MOST_BYTES: u64 = 32 << 20;
    let site = Site::new(Engine::Embedded);
    site.add("a", json!({ "ttr": "1h" }));
    let output = File::create(site.path().join("output")).expect("can be made");
    let written = output.try_clone().expect("can be cloned");
    let len = || written.metadata().expect("is a file").len();
    let mut worker = site.worker_into(output, &["--drain", "0s"], "exec yes");
    let time_limit = TimeLimit::new();
    while len() < MOST_BYTES {
        time_limit.check(|| format!("{} bytes", len()));
        time_limit.pause_thread();
    }
    worker.signal(Signal::TERM);
    let before = len();
    worker.ends_with(0);
    let after = len() - before;
    println!("{after} bytes after the signal");
    assert!(after < MOST_BYTES, "{after} bytes after the signal");
    assert_eq!(site.server.job("a")["state"], "ready");
}

#[test]
fn a_signal_during_a_poll_ends_the_worker_at_once() {
    let site = Site::new(Engine::Embedded);
    let mut worker = site.worker(&[], "true");
    site.server.wait_for_parked_polls(1);
    worker.signal(Signal::TERM);
    worker.ends_with(0);
    site.server.wait_for_parked_polls(0);
    site.add("a", json!({}));
    assert_eq!(site.server.job("a")["attempts"], 0);
}

#[test]
fn a_stopped_command_still_ends_when_it_is_asked_to() {
    let site = Site::new(Engine::Embedded);
    site.add("a", json!({}));
    let line = "trap 'echo asked; exit 0' TERM; sleep 1000 & echo self $$; wait";
    // Until then the command is stopped, also on a machine that stands still.
    let mut worker = site.worker(&["--timeout", "3s", "--kill-after", "1h", "--max-jobs", "1"], line);
    let command = worker.wait_for_pid("self");
    rustix::process::kill_process(command.0, Signal::STOP).expect("it runs");
    worker.ends_with(0);
    worker.wait_for_line("asked");
    assert_eq!(site.server.job("a")["reason"], Value::from("timed out after 3s"));
}
