//! The real program on a Redis that is emptied or replaced: it refuses what it would otherwise do to an empty store, until the
//! data is back or an operator accepts the loss.

use rustix::process::Signal;

use crate::harness::{
    process::{Server, linger, run, stderr, stdout},
    redis::RedisServer,
    resp::{Resp, until},
    wait::TimeLimit,
};

const ADD: &str = r#"{"topic":"t","id":"new"}"#;
const ADD_OLD: &str = r#"{"topic":"t","id":"old","delay":"1h"}"#;

fn serve(redis: &RedisServer, directory: &tempfile::TempDir, variables: &[(&str, &str)]) -> Server {
    Server::serve(&["--store", "redis", "--redis-url", &redis.url()], variables, directory.path())
}

fn send(redis: &RedisServer, command: &[&str]) {
    Resp::connect(redis.address()).expect("connects").call(command);
}

fn accept(redis: &RedisServer, directory: &tempfile::TempDir) -> String {
    let accepted = run(&["store", "accept", "--redis-url", &redis.url()], directory.path());
    assert!(accepted.status.success(), "{}", stderr(&accepted));
    stdout(&accepted)
}

fn code(server: &Server, method: &str, path: &str, body: &str) -> (u16, String) {
    let answer = server.call(method, path, body);
    (answer.status, answer.json()["code"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn an_emptied_redis_is_refused_by_all_processes_until_the_loss_is_accepted() {
    let directory = tempfile::tempdir().expect("a directory");
    let redis = RedisServer::start();
    let [one, other] = [(); 2].map(|()| serve(&redis, &directory, &[]));
    assert_eq!(one.call("POST", "/jobs", ADD_OLD).status, 201);
    assert!(accept(&redis, &directory).contains("nothing to accept"), "the first start is no loss");
    assert_eq!(one.metric("linger_store_replaced"), Some(0.0));
    send(&redis, &["FLUSHALL"]);
    // Also before a process has noticed.
    let replaced = (503, "store_replaced".to_owned());
    for (method, path, body) in
        [("POST", "/jobs", ADD), ("DELETE", "/jobs/old", ""), ("PUT", "/topics/t", "{}")]
    {
        assert_eq!(code(&one, method, path, body), replaced, "{method} {path}");
    }
    for server in [&one, &other] {
        server.wait_until_unready();
        assert_eq!(code(server, "GET", "/readyz", ""), replaced);
        assert_eq!(code(server, "GET", "/jobs/old", ""), replaced, "404 would mean that it was done");
        assert_eq!(server.metric("linger_store_replaced"), Some(1.0));
        server.wait_for_log("the store was emptied or replaced");
    }
    // A start is no first one while others miss their store.
    let mut late =
        linger(&["serve", "--listen", "127.0.0.1:0", "--redis-url", &redis.url()], directory.path());
    late.env("LINGER__REDIS__START_TIMEOUT", "0s");
    let refused = Server::try_spawn(late).err().expect("it does not start");
    assert!(refused.log.contains("linger store accept"), "{}", refused.log);
    assert!(
        !refused.log.contains("durability of the Redis server"),
        "logged once it serves: {}",
        refused.log
    );
    let verified = run(&["verify", "--redis-url", &redis.url()], directory.path());
    assert!(!verified.status.success() && stderr(&verified).contains("linger store accept"), "{verified:?}");
    let accepted = accept(&redis, &directory);
    assert!(accepted.contains("accepted"), "{accepted}");
    for server in [&one, &other] {
        server.wait_until_ready();
        assert_eq!(server.metric("linger_store_replaced"), Some(0.0));
    }
    assert_eq!(one.call("POST", "/jobs", ADD).status, 201);
    assert_eq!(other.call("GET", "/jobs/new", "").status, 200);
    let third = serve(&redis, &directory, &[]);
    let answer = third.call("GET", "/jobs/new", "");
    assert_eq!(answer.status, 200, "{answer:?}\n{}", third.log());
    let log = one.log();
    assert_eq!(log.lines().filter(|line| line.contains("ERROR")).count(), 1, "{log}");
}

#[test]
fn a_store_whose_data_comes_back_needs_no_acceptance() {
    let directory = tempfile::tempdir().expect("a directory");
    let redis = RedisServer::start();
    let server = serve(&redis, &directory, &[]);
    assert_eq!(server.call("POST", "/jobs", ADD_OLD).status, 201);
    send(&redis, &["SAVE"]);
    send(&redis, &["FLUSHALL"]);
    server.wait_until_unready();
    redis.restart();
    server.wait_until_ready();
    assert_eq!(server.call("GET", "/jobs/old", "").status, 200);
    assert_eq!(server.call("POST", "/jobs", ADD).status, 201);
    assert!(accept(&redis, &directory).contains("nothing to accept"));
}

#[test]
fn a_redis_that_restarts_without_its_data_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let redis = RedisServer::start();
    let server = serve(&redis, &directory, &[]);
    assert_eq!(server.call("POST", "/jobs", ADD_OLD).status, 201);
    redis.restart();
    server.wait_for_metric("linger_store_replaced", 1.0);
    server.wait_until_unready();
    assert_eq!(code(&server, "POST", "/jobs", ADD), (503, "store_replaced".to_owned()));
    assert!(accept(&redis, &directory).contains("accepted"));
    server.wait_until_ready();
    assert_eq!(server.call("POST", "/jobs", ADD).status, 201);
}

/// A process that starts before any other has missed its store cannot know of the loss. It serves; the others do not join it.
#[test]
fn a_process_goes_on_with_the_new_store_of_another_only_once_that_is_accepted() {
    let directory = tempfile::tempdir().expect("a directory");
    let redis = RedisServer::start();
    let suspended = serve(&redis, &directory, &[]);
    assert_eq!(suspended.call("POST", "/jobs", ADD_OLD).status, 201);
    suspended.suspend();
    send(&redis, &["FLUSHALL"]);
    let first = serve(&redis, &directory, &[]);
    assert_eq!(first.call("POST", "/jobs", ADD).status, 201);
    suspended.signal(Signal::CONT);
    suspended.wait_for_metric("linger_store_replaced", 1.0);
    suspended.wait_until_unready();
    assert_eq!(code(&suspended, "GET", "/jobs/new", ""), (503, "store_replaced".to_owned()));
    assert!(accept(&redis, &directory).contains("accepted"));
    suspended.wait_until_ready();
    assert_eq!(suspended.call("GET", "/jobs/new", "").status, 200);
    let log = first.log();
    assert!(!log.contains("ERROR"), "it was never disturbed: {log}");
    assert!(accept(&redis, &directory).contains("nothing to accept"));
}

#[test]
fn the_store_of_others_is_refused_until_it_is_accepted() {
    let directory = tempfile::tempdir().expect("a directory");
    let [redis, others] = [(); 2].map(|()| RedisServer::start());
    let [server, of_others] = [&redis, &others].map(|redis| serve(redis, &directory, &[]));
    assert_eq!(of_others.call("POST", "/jobs", r#"{"topic":"t","id":"theirs","delay":"1h"}"#).status, 201);
    send(&redis, &["REPLICAOF", "127.0.0.1", &others.port.to_string()]);
    server.wait_until_unready();
    let mut resp = Resp::connect(redis.address()).expect("connects");
    assert!(until(|| resp.call(&["INFO", "replication"]).text().contains("link_status:up")));
    resp.call(&["REPLICAOF", "NO", "ONE"]);
    server.wait_for_metric("linger_store_replaced", 1.0);
    assert_eq!(code(&server, "POST", "/jobs", ADD), (503, "store_replaced".to_owned()));
    // It refuses calls a moment before it notes in Redis what it misses.
    assert!(until(|| accept(&redis, &directory).contains("accepted")));
    server.wait_until_ready();
    assert_eq!(server.call("GET", "/jobs/theirs", "").status, 200);
    assert_eq!(of_others.call("GET", "/readyz", "").status, 200, "their own Redis is as it was");
}

#[test]
fn with_accept_empty_a_process_goes_on_with_an_emptied_redis() {
    let directory = tempfile::tempdir().expect("a directory");
    let redis = RedisServer::start();
    let [server, other] =
        [(); 2].map(|()| serve(&redis, &directory, &[("LINGER__REDIS__ACCEPT_EMPTY", "true")]));
    assert_eq!(server.call("POST", "/jobs", ADD_OLD).status, 201);
    send(&redis, &["FLUSHALL"]);
    for server in [&server, &other] {
        server.wait_for_log("in place of what was lost");
    }
    let time_limit = TimeLimit::new();
    while server.call("POST", "/jobs", ADD).status != 201 {
        time_limit.check(|| server.log());
        time_limit.pause_thread();
    }
    assert_eq!(other.call("GET", "/jobs/new", "").status, 200);
    assert_eq!(server.call("GET", "/jobs/old", "").status, 404);
    for server in [server, other] {
        assert_eq!(server.metric("linger_store_replaced"), Some(0.0));
        assert!(!server.log().contains("ERROR"), "{}", server.log());
    }
}

#[test]
fn the_embedded_engine_has_no_loss_to_accept() {
    let directory = tempfile::tempdir().expect("a directory");
    let refused = run(&["store", "accept"], directory.path());
    assert!(!refused.status.success());
    assert!(stderr(&refused).contains("the embedded engine has nothing to accept"), "{}", stderr(&refused));
}
