//! The log of the real program: its levels, and a log that no process reads.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::{ChildStderr, Command, Stdio},
    time::Duration,
};

use linger::auth::{Scope, token_entry};
use rustix::{io::ioctl_fionread, process::Signal};

use crate::harness::{
    blocking_http::call_with,
    process::{Server, linger, linger_under, run, stderr},
    redis::free_port,
    wait::TimeLimit,
};

/// The capacity of a pipe on Linux.
const PIPE_BYTES: usize = 65_536;

/// A server whose log no process reads.
fn serve_with_unread_log(mut command: Command) -> (Server, ChildStderr) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("linger starts");
    let log = child.stderr.take().expect("piped");
    (Server::from_child(child), log)
}

fn unread_bytes(log: &ChildStderr) -> u64 {
    ioctl_fionread(log).expect("a pipe")
}

/// Calls the server from many threads until `log` is full, which means that its size no longer grows.
fn fill_log(server: &Server, log: &ChildStderr, calls: usize, method: &str, path: &str, body: &str) {
    let (time_limit, address) = (TimeLimit::new(), server.address);
    let mut before = 0;
    while before < PIPE_BYTES as u64 / 2 || unread_bytes(log) > before {
        before = unread_bytes(log);
        time_limit.check(|| format!("{before} bytes in the log"));
        time_limit.pause_thread();
        call_at_once(address, calls, method, path, body);
    }
}

/// Calls the server from many threads.
fn call_at_once(address: SocketAddr, calls: usize, method: &str, path: &str, body: &str) {
    // A long request id makes a long line.
    let headers = format!("X-Request-Id: {}\r\n", "x".repeat(128));
    std::thread::scope(|scope| {
        for _ in 0..calls {
            scope.spawn(|| call_with(address, method, path, &headers, body));
        }
    });
}

/// Asserts that the server answers within a generous time.
fn assert_alive(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("can be set");
    stream.write_all(b"GET /livez HTTP/1.0\r\n\r\n").expect("is taken");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("is answered");
    assert!(response.starts_with("HTTP/1.0 200 "), "{response}");
}

#[test]
fn fault_an_unread_log_stops_nothing_with_default_settings() {
    let directory = tempfile::tempdir().expect("a directory");
    // At each SIGHUP, the log names the file that cannot be used; a long name makes a long line.
    let folder = vec!["x".repeat(200); 8].join("/");
    std::fs::create_dir_all(directory.path().join(&folder)).expect("can be made");
    let tokens = format!("{folder}/tokens.toml");
    let entry = token_entry("a", "one", &[Scope::Read], &[]);
    std::fs::write(directory.path().join(&tokens), entry).expect("can be written");
    let mut command = linger(&["--listen", "127.0.0.1:0"], directory.path());
    command.env("LINGER__AUTH__TOKENS_FILE", &tokens);
    let (mut server, log) = serve_with_unread_log(command);
    std::fs::write(directory.path().join(&tokens), "broken").expect("can be written");
    let (time_limit, mut before, mut same) = (TimeLimit::new(), 0, 0);
    while before < PIPE_BYTES as u64 / 4 || same < 100 {
        time_limit.check(|| format!("{before} bytes in the log"));
        time_limit.pause_thread();
        server.signal(Signal::HUP);
        assert_alive(server.address);
        let now = unread_bytes(&log);
        same = if now == before { same + 1 } else { 0 };
        before = now;
    }
    server.signal(Signal::TERM);
    let time_limit = TimeLimit::new();
    while !server.has_ended() {
        time_limit.check(|| "the server does not end".to_owned());
        time_limit.pause_thread();
    }
    assert_eq!(server.wait().0.code(), Some(0));
}

#[test]
fn dropped_lines_are_counted_and_reported_once_the_log_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = linger(&["--listen", "127.0.0.1:0"], directory.path());
    command.env("RUST_LOG", "debug");
    let (server, mut log) = serve_with_unread_log(command);
    fill_log(&server, &log, 20, "GET", "/livez", "");
    let time_limit = TimeLimit::new();
    while server.metric("linger_log_lines_dropped_total").is_none_or(|dropped| dropped < 10.0) {
        time_limit.check(|| "no line was dropped".to_owned());
        call_at_once(server.address, 100, "GET", "/livez", "");
    }
    let mut read = String::new();
    while !read.contains("log lines were dropped") {
        let mut part = [0; 4_096];
        let len = log.read(&mut part).expect("is read");
        assert!(len > 0, "the log ended: {read}");
        read.push_str(std::str::from_utf8(&part[..len]).expect("text"));
    }
    let line = read.lines().find(|line| line.contains("log lines were dropped")).expect("the line exists");
    assert!(line.contains("\"level\":\"WARN\""), "{line}");
    // A log that is unread again delays the shutdown by no more than a second, and the shutdown succeeds.
    fill_log(&server, &log, 20, "GET", "/livez", "");
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn a_full_stdout_and_stderr_do_not_hold_up_a_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(&[b'x'; PIPE_BYTES]).expect("a pipe holds that much");
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut command = linger(&["--listen", &address.to_string()], directory.path());
    let (out, err) = (writer.try_clone().expect("a file"), writer);
    let mut child = command.stdout(out).stderr(err).spawn().expect("linger starts");
    let time_limit = TimeLimit::new();
    while TcpStream::connect(address).is_err() {
        time_limit.check(|| "the server does not listen".to_owned());
        time_limit.pause_thread();
    }
    assert_alive(address);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM).expect("linger runs");
    assert_eq!(child.wait().expect("linger ends").code(), Some(0));
    drop(reader);
}

#[test]
fn a_low_limit_on_open_files_is_a_warning_only_if_more_connections_are_configured() {
    for (variables, level) in [(&[][..], "INFO"), (&[("LINGER__SERVER__MAX_CONNECTIONS", "90000")], "WARN")] {
        let directory = tempfile::tempdir().expect("a directory");
        let limited = ["sh", "-c", r#"ulimit -n 600 && exec "$0" "$@""#];
        let mut command = linger_under(&limited, &["--listen", "127.0.0.1:0"], directory.path());
        command.envs(variables.iter().copied());
        let server = Server::spawn(command);
        server.wait_for_log("leaves room for fewer than server.max_connections");
        server.wait_for_log("listening");
        let log = server.log();
        let line = log.lines().find(|line| line.contains("leaves room")).expect("the line exists");
        assert!(line.contains(&format!("\"level\":\"{level}\"")), "{line}");
    }
}

#[test]
fn the_last_lines_are_written_before_the_process_ends() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = Server::serve(&[], &[], directory.path());
    server.signal(Signal::TERM);
    server.wait();
    let last = server.log().lines().last().map(str::to_owned).expect("a line");
    assert!(last.contains("\"message\":\"stopped\""), "{last}");
}

#[test]
fn fault_a_wrong_level_is_refused_and_does_not_turn_the_log_off() {
    for (variable, key) in
        [("LINGER__LOG__LEVEL", "log.level"), ("RUST_LOG", "environment variable RUST_LOG")]
    {
        for (level, part) in
            [("warning", "did you mean warn?"), ("verbose", "which are error, warn"), ("wat=foo", "\"foo\"")]
        {
            for (words, code) in [(&["config", "check"][..], 1), (&["--listen", "127.0.0.1:0"], 2)] {
                let directory = tempfile::tempdir().expect("a directory");
                let output =
                    linger(words, directory.path()).env(variable, level).output().expect("linger runs");
                let message = stderr(&output);
                assert_eq!(output.status.code(), Some(code), "{words:?} {level}: {message}");
                assert!(message.contains(key) && message.contains(part), "{words:?} {level}: {message}");
            }
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    assert!(run(&["config", "check"], directory.path()).status.success());
}

/// The variable is often set for other programs, and a health check must not fail because of it.
#[test]
fn commands_that_do_not_log_ignore_a_wrong_rust_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    let url = server.url();
    let address = url.trim_start_matches("http://");
    for words in [&["config", "show"][..], &["health"]] {
        let mut command = linger(words, directory.path());
        let output = command
            .env("RUST_LOG", "warning")
            .env("LINGER__SERVER__LISTEN", address)
            .output()
            .expect("linger runs");
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    }
}
