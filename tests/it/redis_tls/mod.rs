//! The real program on a Redis that speaks TLS alone: standalone, behind Sentinel and as a Cluster.

mod commands;
mod refusals;
mod reloading;

use std::path::Path;

use crate::harness::{
    certificates::Authority,
    cluster::Cluster,
    process::Server,
    redis::{Launch, RedisServer, fresh_prefix},
    resp::until,
    sentinel::{COUNT, Sentinels},
};

/// Writes the configuration of a server on this Redis, with these lines besides.
fn configure(directory: &Path, url: &str, lines: &str) {
    let file = format!("[store]\nengine = 'redis'\n[redis]\nurl = '{url}'\n{lines}\n");
    std::fs::write(directory.join("linger.toml"), file).expect("writes");
}

/// Adds a job, pops it and finishes it.
#[track_caller]
fn deliver(server: &Server, id: &str) {
    let added = server.call("POST", "/jobs", &format!(r#"{{"topic":"t","id":"{id}","body":1}}"#));
    assert_eq!(added.status, 201, "{added:?}");
    let popped = server.call("GET", "/topics/t/pop?wait=30s", "").json();
    assert_eq!(popped["id"], id, "{popped}");
    let receipt = popped["receipt"].as_str().expect("a receipt");
    assert_eq!(server.call("POST", &format!("/jobs/{id}/finish?receipt={receipt}"), "").status, 204);
}

#[test]
fn jobs_are_delivered_over_tls_also_after_redis_was_away() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().expect("a directory"));
    let files = authority.issue(&["localhost", "127.0.0.1"]);
    let redis = RedisServer::start_with_tls(&files, &["--appendonly", "yes", "--appendfsync", "always"]);
    configure(directory.path(), &redis.url(), &format!("ca_file = '{}'", files.authority.display()));
    let server = Server::serve(&[], &[], directory.path());
    let engine = format!("engine redis (127.0.0.1:{}, TLS), durability aof always", redis.port);
    assert!(server.line.contains(&engine), "{}", server.line);
    deliver(&server, "first");
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"kept","id":"kept"}"#).status, 201);
    redis.kill();
    server.wait_until_unready();
    redis.restart();
    server.wait_until_ready();
    deliver(&server, "second");
    redis.pause();
    server.wait_until_unready();
    redis.resume();
    server.wait_until_ready();
    assert_eq!(server.call("GET", "/topics/kept/pop?wait=30s", "").json()["id"], "kept");
    assert_eq!(server.metric("linger_certificate_not_after_seconds{certificate=\"redis_client\"}"), None);
    assert!(server.stop().success());
}

/// The sentinels name addresses, for which the certificate is not.
#[test]
fn a_failover_behind_sentinel_is_followed_over_tls() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().expect("a directory"));
    let files = authority.issue(&["localhost"]);
    let places: [Launch; COUNT] =
        std::array::from_fn(|_| Launch { tls: Some(files.clone()), ..Launch::new(&[]) });
    let sentinels = Sentinels::start_at(&places, &[]);
    let tls = format!("ca_file = '{}'\nserver_name = 'localhost'\n", files.authority.display());
    let settings = format!("{}{tls}", sentinels.settings(&fresh_prefix()));
    std::fs::write(directory.path().join("linger.toml"), settings).expect("writes");
    let server = Server::serve(&[], &[], directory.path());
    deliver(&server, "first");
    let primary = sentinels.primary();
    sentinels.servers[primary].kill();
    assert!(until(|| sentinels.primary() != primary), "no server took over");
    // In another topic: the failover may have undone that the first job was finished.
    let add = || server.call("POST", "/jobs", r#"{"topic":"after","id":"after","body":1}"#).status;
    assert!(until(|| [200, 201].contains(&add())), "{}", server.log());
    assert_eq!(server.call("GET", "/topics/after/pop?wait=30s", "").json()["id"], "after");
    assert!(server.stop().success());
}

/// The servers announce the name for which their certificates are.
#[test]
fn a_cluster_is_used_over_tls() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().expect("a directory"));
    let files = authority.issue(&["localhost"]);
    let named = ["--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", "hostname"];
    let cluster = Cluster::launch(15_000, &named, |_, launch| Launch { tls: Some(files.clone()), ..launch });
    let nodes = [format!("rediss://localhost:{}", cluster.servers[0].port)];
    let settings = format!(
        "[store]\nengine = 'redis'\n[redis]\nmode = 'cluster'\nnodes = {nodes:?}\nca_file = '{}'\n",
        files.authority.display()
    );
    std::fs::write(directory.path().join("linger.toml"), settings).expect("writes");
    let server = Server::serve(&[], &[], directory.path());
    // Enough for every server to have some.
    for n in 0..30 {
        deliver(&server, &format!("job-{n}"));
    }
    // The keys that the engine keeps for each of its shards.
    for n in 0..3 {
        assert!(cluster.node(n).call(&["DBSIZE"]).int() > 0, "server {n} has no part of the store");
    }
    assert!(server.stop().success());
}
