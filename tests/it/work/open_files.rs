//! Open files: a worker needs some for each command, whatever the limit of its shell is.

use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use serde_json::json;

use super::{Engine, Site, Worker};
use crate::harness::process::{linger_under, run_to_end, stderr};

/// A worker whose shell sets limits first.
fn worker_under(site: &Site, limits: &str, flags: &[&str], line: &str) -> std::process::Command {
    let shell = format!("{limits}; exec \"$@\"");
    let words = [&["work", "t", "--exec", line], flags].concat();
    let mut command = linger_under(&["sh", "-c", &shell, "sh"], &words, site.path());
    command.env("LINGER_URL", site.server.url());
    command
}

#[test]
fn more_commands_run_than_the_soft_limit_permits_and_they_get_that_limit() {
    let site = Site::new(Engine::Embedded);
    for id in 0..50 {
        site.add(&id.to_string(), json!({}));
    }
    let line = "cat >/dev/null; echo limit $(ulimit -n); exec sleep 1000";
    let flags = ["-j", "50", "--drain", "0s"];
    let worker = Worker::spawn(worker_under(&site, "ulimit -Sn 64", &flags, line));
    worker.wait_for_number(50, &json!({ "line": "limit 64" }));
    assert_eq!(site.server.call("GET", "/topics/t", "").json()["counts"]["reserved"], 50);
    worker.stop();
}

#[test]
fn more_commands_than_the_hard_limit_permits_are_refused() {
    let site = Site::new(Engine::Embedded);
    let output = run_to_end(worker_under(&site, "ulimit -n 64", &["-j", "50"], "true"));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let expected = "--parallel 50 needs 232 open files, and the limit (ulimit -Hn) is 64";
    assert!(stderr(&output).contains(expected), "{output:?}");
}

#[test]
fn a_job_whose_command_cannot_be_started_for_now_is_given_back_and_the_worker_goes_on() {
    let site = Site::new(Engine::Embedded);
    let worker = site.worker(&["--retry-delay", "0s"], "true");
    site.server.wait_for_parked_polls(1);
    // There is no room for the pipes of a command.
    let before = getrlimit(Resource::Nofile);
    let none = Rlimit { current: Some(3), maximum: before.maximum };
    prlimit(Some(worker.pid()), Resource::Nofile, none).expect("the worker runs");
    site.add("a", json!({ "max_attempts": 0 }));
    let released = worker.wait_for(&json!({ "event": "release", "id": "a", "outcome": "accepted" }));
    let reason = released["reason"].as_str().expect("has a reason");
    assert!(reason.starts_with("cannot start /bin/sh: Too many open files"), "{reason}");
    prlimit(Some(worker.pid()), Resource::Nofile, before).expect("the worker runs");
    worker.wait_for(&json!({ "event": "finish", "id": "a", "outcome": "accepted" }));
    worker.stop();
}
