//! A bench that is stopped by a signal leaves no server, no directory, no topic and no schedule behind.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Child, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use super::{assert_empty, topics};
use crate::harness::{
    process::{Server, linger},
    wait::TimeLimit,
};

fn start(arguments: &[&str], directory: &Path) -> Child {
    let mut command = linger(&["bench"], directory);
    command.args(arguments).env("TMPDIR", directory).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("linger starts")
}

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a valid process id");
    kill_process(pid, signal).expect("the bench runs");
}

#[track_caller]
fn until(what: &str, condition: impl Fn() -> bool) {
    let time_limit = TimeLimit::new();
    while !condition() {
        time_limit.check(|| format!("waiting until {what}"));
        time_limit.pause_thread();
    }
}

/// The command lines of processes that contain this directory.
fn processes(directory: &Path) -> Vec<String> {
    let name = directory.to_str().expect("is text");
    let line = |entry: fs::DirEntry| {
        let line = String::from_utf8_lossy(&fs::read(entry.path().join("cmdline")).ok()?).replace('\0', " ");
        line.contains(name).then_some(line)
    };
    fs::read_dir("/proc").expect("Linux").flatten().filter_map(line).collect()
}

/// The size of the store of a bench's own server, or 0 if there is none.
fn stored(directory: &Path) -> u64 {
    let created = fs::read_dir(directory).expect("a directory").flatten().next();
    let store = created.and_then(|created| fs::read_dir(created.path().join("data")).ok());
    store
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|file| file.metadata().ok())
        .map(|file| file.size())
        .sum()
}

#[test]
fn its_own_server_and_its_directory_are_removed() {
    for (sent, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let directory = tempfile::tempdir().expect("a directory");
        let bench = start(&["backlog", "--jobs", "10000000"], directory.path());
        until("the bench has stored jobs", || stored(directory.path()) > 1 << 20);
        assert_eq!(processes(directory.path()).len(), 1);
        signal(&bench, sent);
        let output = bench.wait_with_output().expect("the bench ends");
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(
            message.contains(if code == 130 { "stopped by SIGINT" } else { "stopped by SIGTERM" }),
            "{message}"
        );
        assert!(processes(directory.path()).is_empty());
        assert_empty(directory.path());
    }
}

#[test]
fn schedules_of_a_running_server_are_deleted() {
    let (directory, store) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
    let server = Server::serve(&[], &[], store.path());
    // Every hour would also be due at the next full hour.
    let schedule = r#"{"every":"1h","start":"2099-01-01T00:00:00Z","job":{"topic":"theirs"}}"#;
    assert_eq!(server.call("PUT", "/schedules/theirs", schedule).status, 201);
    let schedules = || server.call("GET", "/schedules", "").json()["schedules"].clone();
    let count = || schedules().as_array().map_or(0, Vec::len);
    let bench = start(&["schedules", "--url", &server.url()], directory.path());
    until("the bench has put a schedule", || count() > 1);
    signal(&bench, Signal::INT);
    let output = bench.wait_with_output().expect("the bench ends");
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert_eq!(schedules()[0]["name"], "theirs");
    assert_eq!((count(), topics(&server)), (1, Vec::new()));
    assert!(server.stop().success());
}

#[test]
fn topics_of_a_running_server_are_deleted() {
    let (directory, store) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
    let server = Server::serve(&[], &[], store.path());
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"theirs","delay":"1h"}"#).status, 201);
    let bench = start(&["backlog", "--jobs", "10000000", "--url", &server.url()], directory.path());
    until("the bench has added a topic", || topics(&server).len() > 1);
    assert!(topics(&server)[0].starts_with("bench-"));
    signal(&bench, Signal::INT);
    let output = bench.wait_with_output().expect("the bench ends");
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert_eq!(topics(&server), ["theirs"]);
    assert!(server.stop().success());
}
