//! A bench that is stopped on the way: no server, no directory and no topic stays behind.

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
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("is a process");
    kill_process(pid, signal).expect("it runs");
}

#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let time_limit = TimeLimit::new();
    while !is_so() {
        time_limit.check(|| format!("not yet {what}"));
        std::thread::yield_now();
    }
}

/// Processes whose command line names this directory.
fn processes(directory: &Path) -> Vec<String> {
    let name = directory.to_str().expect("is text");
    let line = |entry: fs::DirEntry| {
        let line = String::from_utf8_lossy(&fs::read(entry.path().join("cmdline")).ok()?).replace('\0', " ");
        line.contains(name).then_some(line)
    };
    fs::read_dir("/proc").expect("Linux").flatten().filter_map(line).collect()
}

/// Size of the store of a bench's own server; 0 while there is none.
fn stored(directory: &Path) -> u64 {
    let made = fs::read_dir(directory).expect("a directory").flatten().next();
    let store = made.and_then(|made| fs::read_dir(made.path().join("data")).ok());
    store
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|file| file.metadata().ok())
        .map(|file| file.size())
        .sum()
}

#[test]
fn a_server_of_its_own_goes_with_its_directory() {
    for (asked, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let directory = tempfile::tempdir().expect("a directory");
        let bench = start(&["backlog", "--jobs", "10000000"], directory.path());
        until("at work", || stored(directory.path()) > 1 << 20);
        assert_eq!(processes(directory.path()).len(), 1);
        signal(&bench, asked);
        let output = bench.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(
            said.contains(if code == 130 { "stopped by SIGINT" } else { "stopped by SIGTERM" }),
            "{said}"
        );
        assert!(processes(directory.path()).is_empty());
        assert_empty(directory.path());
    }
}

#[test]
fn topics_of_a_running_server_are_deleted() {
    let (directory, store) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
    let server = Server::serve(&[], &[], store.path());
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"theirs","delay":"1h"}"#).status, 201);
    let bench = start(&["backlog", "--jobs", "10000000", "--url", &server.url()], directory.path());
    until("a topic more", || topics(&server).len() > 1);
    assert!(topics(&server)[0].starts_with("bench-"));
    signal(&bench, Signal::INT);
    let output = bench.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert_eq!(topics(&server), ["theirs"]);
    assert!(server.stop().success());
}
