//! The outcome of a job, by the end of its command: each row of the table in `docs/work.md`.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::{Value, json};

use super::{Site, Worker, on_each_engine};
use crate::harness::process::{linger, linger_under, run_to_end, stderr};

on_each_engine! {
    a_job_ends_as_the_exit_code_of_its_command_says,
    a_worker_whose_command_cannot_be_run_uses_up_no_attempts,
    a_command_over_its_time_is_killed_with_all_it_started,
}

/// Each command does what the body of its job says.
const OBEY: &str = "read -r line; eval \"$line\"";

fn a_job_ends_as_the_exit_code_of_its_command_says(site: &Site) {
    let long = "x".repeat(2_000);
    let said = |state: &str, reason: &str| json!({ "state": state, "reason": reason });
    let cases = [
        ("done", "exit 0".to_owned(), json!({ "state": null })),
        ("buried", "echo no such order >&2; exit 65".to_owned(), said("dead", "exit 65: no such order")),
        (
            "failed",
            "echo a >&2; echo psp timeout >&2; echo out; exit 1".to_owned(),
            said("delayed", "exit 1: psp timeout"),
        ),
        ("silent", "exit 3".to_owned(), said("delayed", "exit 3")),
        ("killed", "kill -9 $$".to_owned(), said("delayed", "killed by signal 9")),
        (
            "long",
            format!("printf '{long}' >&2; exit 1"),
            said("delayed", &format!("exit 1: {}", &long[..1_016])),
        ),
    ];
    for (id, line, _) in &cases {
        site.add(id, json!({ "body": line }));
    }
    let mut worker = site.worker(&["--raw", "-j", "3", "--until-empty"], OBEY);
    worker.ends_with(0);
    for (id, _, expected) in cases {
        let job = site.server.job(id);
        let found = if job.is_null() {
            json!({ "state": null })
        } else {
            json!({ "state": job["state"], "reason": job["reason"] })
        };
        assert_eq!(found, expected, "{id}");
    }
    let by = site.server.job("failed")["history"][0]["by"].clone();
    let name = by.as_str().and_then(|by| by.rsplit_once(':')).expect("a host and a process id");
    assert_eq!(name.1, worker.child.id().to_string());
}

/// As some supervisors do. The system would collect the commands by itself, and their exit codes.
#[test]
fn a_parent_that_ignores_the_ends_of_its_children_hides_no_exit_code() {
    let site = Site::new(super::Engine::Embedded);
    for (id, body) in [("done", "exit 0"), ("failed", "exit 1")] {
        site.add(id, json!({ "body": body, "retry": ["1h"] }));
    }
    let words = ["work", "t", "--raw", "--until-empty", "--exec", OBEY];
    let mut worker = linger_under(&["env", "--ignore-signal=CHLD"], &words, site.path());
    worker.env("LINGER_URL", site.server.url());
    let ended = run_to_end(worker);
    assert!(ended.status.success(), "{}", stderr(&ended));
    assert!(site.server.job("done").is_null(), "{}", stderr(&ended));
    let failed = site.server.job("failed");
    assert_eq!((&failed["state"], &failed["reason"]), (&json!("delayed"), &json!("exit 1")), "{failed}");
}

#[test]
fn the_worker_may_choose_which_exit_codes_bury_when_to_retry_and_what_to_tell() {
    let site = Site::new(super::Engine::Embedded);
    site.add("buried", json!({ "body": "echo secret >&2; exit 3" }));
    site.add("failed", json!({ "body": "echo secret >&2; exit 65", "retry": ["1h"] }));
    let flags = ["--raw", "--until-empty", "--bury-on", "3,4", "--retry-delay", "90s", "--no-reason"];
    site.worker(&flags, OBEY).ends_with(0);
    let (buried, failed) = (site.server.job("buried"), site.server.job("failed"));
    assert_eq!((&buried["state"], &buried["reason"]), (&json!("dead"), &json!("buried")), "{buried}");
    let [released, due] = [&failed["history"][0]["at"], &failed["due_at"]].map(|moment| {
        moment.as_str().and_then(|text| text.parse::<linger_client::Timestamp>().ok()).expect("a moment")
    });
    let wait = due.duration_since(released).as_secs();
    assert!((90..100).contains(&wait), "{failed}");
    assert_eq!(failed["reason"], Value::Null);
}

fn a_worker_whose_command_cannot_be_run_uses_up_no_attempts(site: &Site) {
    fs::write(site.path().join("broken"), "#!/no/such/shell\n").expect("can be written");
    fs::set_permissions(site.path().join("broken"), fs::Permissions::from_mode(0o700)).expect("can be set");
    let url = site.server.url();
    for (id, command, reason) in [
        ("a", &["--exec", "exit 127"][..], "exit 127"),
        ("b", &["--exec", "exit 126"], "exit 126"),
        ("c", &["--", "./broken"], "cannot start ./broken: "),
    ] {
        site.add(id, json!({ "retry": ["1h"] }));
        site.add("next", json!({}));
        let mut worker = Worker::start(&[&["t"], command].concat(), &[("LINGER_URL", &url)], site.path());
        worker.ends_with(1);
        // On Redis, the order of both is not promised.
        let (first, other) = if site.server.job(id)["attempts"] == 1 { (id, "next") } else { ("next", id) };
        let job = site.server.job(first);
        assert_eq!((&job["state"], &job["attempts"]), (&json!("delayed"), &json!(1)), "{job}");
        assert!(job["reason"].as_str().is_some_and(|found| found.starts_with(reason)), "{job}");
        let left = site.server.job(other);
        assert_eq!((&left["state"], &left["attempts"]), (&json!("ready"), &json!(0)), "{left}");
        assert!(worker.errors().contains("the command cannot be run"), "{}", worker.errors());
        for id in [id, "next"] {
            assert_eq!(site.server.call("DELETE", &format!("/jobs/{id}"), "").status, 204);
        }
    }
}

#[test]
fn a_worker_without_its_program_takes_no_job() {
    let site = Site::new(super::Engine::Embedded);
    fs::write(site.path().join("forbidden"), "#!/bin/sh\n").expect("can be written");
    fs::set_permissions(site.path().join("forbidden"), fs::Permissions::from_mode(0o600))
        .expect("can be set");
    site.add("a", json!({}));
    let url = site.server.url();
    for (program, why) in [
        ("./missing", "there is no program ./missing"),
        ("./forbidden", "./forbidden may not be executed"),
        ("no-such-program", "no directory of PATH has the program no-such-program"),
    ] {
        let mut worker = Worker::start(&["t", "--", program], &[("LINGER_URL", &url)], site.path());
        worker.ends_with(1);
        assert!(worker.errors().contains(why), "{}", worker.errors());
        let job = site.server.job("a");
        assert_eq!((&job["state"], &job["attempts"]), (&json!("ready"), &json!(0)), "{job}");
    }
}

#[test]
fn a_worker_without_a_path_finds_the_programs_of_the_system() {
    let site = Site::new(super::Engine::Embedded);
    site.add("a", json!({}));
    let url = site.server.url();
    let mut command = linger(&["work", "t", "--until-empty", "--url", &url, "--", "true"], site.path());
    command.env_remove("PATH");
    let ended = run_to_end(command);
    assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
    assert_eq!(site.server.call("GET", "/jobs/a", "").status, 404);
}

fn a_command_over_its_time_is_killed_with_all_it_started(site: &Site) {
    // Both ignore SIGTERM, and the second has no pipe of the worker's.
    let line = "trap '' TERM; sleep 1000 </dev/null >/dev/null 2>&1 & echo other $!; echo self $$; \
                echo stuck >&2; while :; do wait; done";
    site.add("a", json!({}));
    // Until then it has started all, also on a machine that stands still.
    let worker = site.worker(&["--timeout", "3s", "--kill-after", "200ms"], line);
    let processes = [worker.wait_for_pid("self"), worker.wait_for_pid("other")];
    worker.wait_for(&json!({ "event": "release", "id": "a", "reason": "timed out after 3s: stuck" }));
    processes.iter().for_each(super::Process::wait_until_gone);
    assert_eq!(site.server.job("a")["state"], "delayed");
    worker.stop();
}

#[test]
fn a_job_whose_command_exits_0_after_its_time_is_released() {
    let site = Site::new(super::Engine::Embedded);
    site.add("a", json!({}));
    let line = "trap 'exit 0' TERM; echo runs; sleep 1000 & wait";
    let worker = site.worker(&["--timeout", "100ms"], line);
    worker.wait_for(&json!({ "event": "release", "id": "a", "reason": "timed out after 100ms" }));
    worker.stop();
}

#[test]
fn what_a_failed_command_left_behind_is_killed_and_what_a_successful_one_left_goes_on() {
    let site = Site::new(super::Engine::Embedded);
    for (id, code, stays) in [("failed", 1, false), ("done", 0, true)] {
        site.add(id, json!({}));
        let line = format!("sleep 1000 >/dev/null 2>&1 & echo other $!; exit {code}");
        let mut worker = site.worker(&["--max-jobs", "1"], &line);
        worker.ends_with(0);
        let other = worker.wait_for_pid("other");
        if stays {
            assert!(other.runs());
        } else {
            other.wait_until_gone();
        }
    }
}
