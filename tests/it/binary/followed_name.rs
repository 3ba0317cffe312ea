//! The real program at the name of a Redis that leads to another one after a while, as a managed service, a virtual address or
//! an operator's mistake has it.

use std::path::Path;

use crate::harness::{
    process::Server,
    proxy::{Fate, Proxy},
    redis::RedisServer,
    resp::Resp,
    wait::TimeLimit,
};

/// A server with the default settings at this address.
fn serve(address: std::net::SocketAddr, directory: &Path) -> Server {
    Server::serve(&["--store", "redis", "--redis-url", &format!("redis://{address}")], &[], directory)
}

fn send(to: &RedisServer, words: &[&str]) {
    Resp::connect(to.address()).expect("connects").call(words);
}

fn become_replica(server: &RedisServer, of: &RedisServer) {
    let (host, port) = (of.address().ip().to_string(), of.address().port().to_string());
    send(server, &["REPLICAOF", &host, &port]);
}

fn wait_until_replicated(to: &RedisServer) {
    let mut connection = Resp::connect(to.address()).expect("connects");
    let limit = TimeLimit::new();
    loop {
        let info = format!("{:?}", connection.call(&["INFO", "replication"]));
        if info.contains("master_link_status:up") {
            return;
        }
        limit.check(|| info);
        limit.pause_thread();
    }
}

/// The demoted server goes on, and keeps its connections.
#[test]
fn a_name_that_leads_to_the_new_primary_is_followed() {
    let directory = tempfile::tempdir().expect("a directory");
    let quick = ["--repl-diskless-sync-delay", "0"];
    let (old, new) = (RedisServer::start_with(&quick), RedisServer::start());
    let name = Proxy::start(old.address());
    let linger = serve(name.address, directory.path());
    assert_eq!(linger.call("POST", "/jobs", r#"{"topic":"t","id":"a","delay":3600}"#).status, 201);
    become_replica(&new, &old);
    wait_until_replicated(&new);
    send(&new, &["REPLICAOF", "NO", "ONE"]);
    become_replica(&old, &new);
    linger.wait_until_unready();
    assert!(linger.call("GET", "/readyz", "").body.contains("replica"));
    name.lead_to(new.address());
    linger.wait_until_ready();
    assert_eq!(linger.call("GET", "/jobs/a", "").status, 200);
    assert_eq!(linger.call("POST", "/jobs", r#"{"topic":"t","id":"b"}"#).status, 201);
}

/// An add has reached its store, but its reply is lost, and its next attempt would reach another store.
#[test]
fn a_call_that_is_repeated_changes_no_other_store() {
    let directories = [(); 3].map(|()| tempfile::tempdir().expect("a directory"));
    let (own, other) = (RedisServer::start(), RedisServer::start());
    drop(serve(other.address(), directories[0].path()));
    let name = Proxy::start(own.address());
    let linger = serve(name.address, directories[1].path());
    name.lead_to(other.address());
    let mut is_over = false;
    name.decide(move |request| {
        let is_meant = !is_over && request.windows(8).any(|bytes| bytes == b"repeated");
        is_over |= is_meant;
        if is_meant { Fate::ResponseLost } else { Fate::Served }
    });
    let added = linger.call("POST", "/jobs", r#"{"topic":"t","id":"repeated","delay":3600}"#);
    assert_eq!((added.status, name.lost()), (503, 1), "{added:?}");
    linger.wait_until_unready();
    let at_other = serve(other.address(), directories[2].path());
    assert_eq!(at_other.call("GET", "/jobs/repeated", "").status, 404);
}
