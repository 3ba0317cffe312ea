//! Tokens: the worker reads its own again when it is refused, and ends when that does not help.

use std::{fs, path::Path};

use linger::auth::{Scope, token_entry};
use rustix::process::Signal;
use serde_json::json;

use super::Worker;
use crate::harness::{
    blocking_http::{call_with, call_with_until_begun},
    process::Server,
    wait::TimeLimit,
};

const ADMIN: &str = "admin-token";

/// A server that knows the admin's token and one of workers.
fn serve(directory: &Path) -> Server {
    fs::write(directory.join("token"), "first-token\n").expect("can be written");
    allow(directory, "first-token");
    Server::serve(&[], &[("LINGER__AUTH__TOKENS_FILE", "tokens.toml")], directory)
}

/// Has the server's file allow this worker's token alone.
fn allow(directory: &Path, token: &str) {
    let entries = token_entry("admin", ADMIN, &[Scope::Admin], &[])
        + "\n"
        + &token_entry("worker", token, &[Scope::Work], &[]);
    fs::write(directory.join("tokens.toml"), entries).expect("can be written");
}

fn status(server: &Server, token: &str, method: &str, path: &str, body: &str) -> u16 {
    let header = format!("Authorization: Bearer {token}\r\n");
    call_with_until_begun(server.address, method, path, &header, body).expect("the server answers").status
}

fn add(server: &Server, id: &str) {
    let job = json!({ "topic": "t", "id": id }).to_string();
    assert_eq!(status(server, ADMIN, "POST", "/jobs", &job), 201);
}

/// Has the server read its tokens again; waits until it has.
fn reload(server: &Server, new: &str) {
    server.signal(Signal::HUP);
    let time_limit = TimeLimit::new();
    while status(server, new, "GET", "/topics/t/pop", "") == 401 {
        time_limit.check(|| format!("{new} is unknown"));
        time_limit.pause_thread();
    }
}

/// Waits until the worker's poll is parked.
#[track_caller]
fn wait_for_poll(server: &Server) {
    let header = format!("Authorization: Bearer {ADMIN}\r\n");
    let time_limit = TimeLimit::new();
    loop {
        let page =
            call_with(server.address, "GET", "/metrics", &header, "").expect("the server answers").body;
        if page.lines().any(|line| line == "linger_parked_polls 1") {
            return;
        }
        time_limit.check(|| page.clone());
        time_limit.pause_thread();
    }
}

fn worker(server: &Server, flags: &[&str], directory: &Path) -> Worker {
    let url = server.url();
    let arguments = ["t", "--token-file", "token", "--url", &url, "--exec", "true"];
    Worker::start(&[&arguments[..], flags].concat(), &[], directory)
}

#[test]
fn a_refused_worker_reads_its_token_once_more_and_then_ends() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let server = serve(directory);
    let mut worker = worker(&server, &[], directory);
    add(&server, "a");
    worker.wait_for(&json!({ "event": "finish", "id": "a" }));
    wait_for_poll(&server);
    fs::write(directory.join("token"), "second-token\n").expect("can be written");
    allow(directory, "second-token");
    reload(&server, "second-token");
    // The parked poll was allowed when it came; the finish is not, until the token is read again.
    for id in ["b", "c"] {
        add(&server, id);
        worker.wait_for(&json!({ "event": "finish", "id": id, "outcome": "accepted" }));
    }
    wait_for_poll(&server);
    allow(directory, "third-token");
    reload(&server, "third-token");
    add(&server, "d");
    worker.ends_with(5);
    worker.wait_for(&json!({ "event": "finish", "id": "d", "outcome": "refused" }));
    assert!(worker.errors().contains("401"), "{}", worker.errors());
}

#[test]
fn a_worker_reads_its_token_again_at_sighup() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let server = serve(directory);
    let worker = worker(&server, &[], directory);
    wait_for_poll(&server);
    fs::remove_file(directory.join("token")).expect("is there");
    worker.signal(Signal::HUP);
    worker.wait_for(&json!({ "event": "token" }));
    // It goes on with the token that it has.
    add(&server, "a");
    worker.wait_for(&json!({ "event": "finish", "id": "a", "outcome": "accepted" }));
    fs::write(directory.join("token"), "second-token\n").expect("can be written");
    worker.signal(Signal::HUP);
    worker.wait_for(&json!({ "event": "token", "read": true }));
    allow(directory, "second-token");
    reload(&server, "second-token");
    fs::remove_file(directory.join("token")).expect("is there");
    // With a token that it could not read at a refusal.
    add(&server, "b");
    worker.wait_for(&json!({ "event": "finish", "id": "b", "outcome": "accepted" }));
    worker.stop();
}

#[test]
fn a_token_without_the_scope_ends_the_worker() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let server = serve(directory);
    let entry = token_entry("adder", "first-token", &[Scope::Add], &[]);
    fs::write(directory.join("tokens.toml"), entry).expect("can be written");
    server.signal(Signal::HUP);
    let time_limit = TimeLimit::new();
    while status(&server, "first-token", "GET", "/topics/t/pop", "") != 403 {
        time_limit.check(|| "the token still may pop".to_owned());
        time_limit.pause_thread();
    }
    let mut worker = worker(&server, &["--until-empty"], directory);
    worker.ends_with(5);
}
