//! Exports and backups that are ended half-way: nothing is left of them.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::harness::{
    not_here::not_run_here,
    process::{Server, linger, linger_under, wait_for_exit},
    wait::TimeLimit,
};

/// A Redis that never answers, and the configuration of a store in it.
fn silent_redis(directory: &Path) -> TcpListener {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = silent.local_addr().expect("has an address");
    let toml = format!("[store]\nengine = 'redis'\n[redis]\nurl = 'redis://{address}'\n");
    fs::write(directory.join("redis.toml"), toml).expect("writes");
    silent
}

/// An export that waits for a silent Redis, after it has made its file.
struct WaitingExport {
    process: Child,
    /// Held open, so that the export waits and does not fail.
    _connection: TcpStream,
}

impl WaitingExport {
    fn start(silent: &TcpListener, mut command: Command) -> Self {
        let process = command.spawn().expect("starts");
        let (connection, _) = silent.accept().expect("the export connects");
        Self { process, _connection: connection }
    }

    fn end(self, signal: Signal) -> Option<i32> {
        end(self.process, signal)
    }
}

/// Sends `signal` to a process, and returns its exit code.
fn end(mut process: Child, signal: Signal) -> Option<i32> {
    kill_process(Pid::from_child(&process), signal).expect("it runs");
    wait_for_exit(&mut process).code()
}

/// The names of files that a transfer has made.
fn made(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("is there");
    let names = entries.map(|entry| entry.expect("reads").file_name().into_string().expect("is text"));
    names.filter(|name| name.contains("partial") || name.contains("jobs")).collect()
}

const EXPORT: [&str; 4] = ["export", "jobs.export", "--config", "redis.toml"];

#[test]
fn nothing_is_left_of_an_export_that_is_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let silent = silent_redis(path);
    for (signal, code) in [(Signal::TERM, Some(143)), (Signal::INT, Some(130)), (Signal::KILL, None)] {
        let export = WaitingExport::start(&silent, linger(&EXPORT, path));
        assert_eq!(export.end(signal), code, "{signal:?}");
        assert_eq!(made(path), [""; 0], "{signal:?}");
    }
}

#[test]
fn nothing_is_left_of_an_export_that_is_ended_where_each_file_has_a_name() {
    if !geteuid().is_root() {
        return not_run_here("export_without_proc", "mounting needs root");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let silent = silent_redis(path);
    // A file can get its name later only through /proc.
    let hidden = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh"];
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let export = WaitingExport::start(&silent, linger_under(&hidden, &EXPORT, path));
        let [partial] = &made(path)[..] else { panic!("{:?}", made(path)) };
        assert!(partial.starts_with("jobs.export.") && partial.ends_with(".partial"), "{partial}");
        assert_eq!(export.end(signal), Some(code));
        assert_eq!(made(path), [""; 0], "{signal:?}");
    }
}

#[test]
fn an_export_gets_its_name_also_where_each_file_has_one() {
    if !geteuid().is_root() {
        return not_run_here("export_without_proc", "mounting needs root");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    let added = server.call("POST", "/jobs", r#"{"topic":"t","id":"a","delay":60}"#);
    assert_eq!(added.status, 201);
    let hidden = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh"];
    let mut child =
        linger_under(&hidden, &["export", "jobs.export"], directory.path()).spawn().expect("starts");
    assert!(wait_for_exit(&mut child).success());
    assert_eq!(made(directory.path()), ["jobs.export"]);
    linger::transfer::check(&directory.path().join("jobs.export"), false).expect("is whole");
}

#[test]
fn nothing_is_left_of_a_backup_that_is_ended() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let server = Server::serve(&[], &[], path);
    // More than a pipe holds.
    for n in 0..5 {
        let job = format!(r#"{{"topic":"t","id":"{n}","delay":60,"body":"{}"}}"#, "x".repeat(100_000));
        assert_eq!(server.call("POST", "/jobs", &job).status, 201);
    }
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut command = linger(&["backup", "-"], path);
        let mut backup = command.stdout(Stdio::piped()).spawn().expect("starts");
        let stdout = backup.stdout.take().expect("piped");
        let limit = TimeLimit::new();
        while rustix::io::ioctl_fionread(&stdout).expect("is a pipe") == 0 {
            limit.check(|| "nothing was written".to_owned());
            limit.pause_thread();
        }
        assert_eq!(made(&path.join("data")).len(), 1, "the copy is made in a file first");
        assert_eq!(end(backup, signal), Some(code));
        assert_eq!(made(&path.join("data")), [""; 0], "{signal:?}");
    }
    assert!(server.stop().success());
}

#[test]
fn an_export_for_a_closed_pipe_fails() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    for n in 0..40 {
        let job = format!(r#"{{"topic":"t","id":"{n}","delay":60,"body":"{}"}}"#, "x".repeat(10_000));
        assert_eq!(server.call("POST", "/jobs", &job).status, 201);
    }
    let mut command = linger(&["export", "-"], directory.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    drop(child.stdout.take());
    let errors = std::io::read_to_string(child.stderr.take().expect("piped")).expect("is text");
    assert_eq!(wait_for_exit(&mut child).code(), Some(1), "{errors}");
    assert!(errors.contains("stdout: Broken pipe"), "{errors}");
    assert!(!errors.contains("40 jobs"), "{errors}");
}
