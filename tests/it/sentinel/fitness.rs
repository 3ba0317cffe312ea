//! The requirements on a server and the durability that it reports are checked again when another server becomes the
//! primary or its settings change, and not only at the start.

use std::path::Path;

use super::wait_until_another_took_over;
use crate::harness::{
    process::Server,
    redis::fresh_prefix,
    resp::until,
    sentinel::{SERVICE, Sentinels, connect},
};

fn serve(sentinels: &Sentinels, prefix: &str, directory: &Path) -> Server {
    std::fs::write(directory.join("settings.toml"), sentinels.settings(prefix)).expect("writes");
    Server::serve(&["--config", "settings.toml"], &[], directory)
}

fn add(server: &Server) -> u16 {
    server.call("POST", "/jobs", r#"{"topic":"t","body":1}"#).status
}

/// Waits until the server logs this reason, and asserts that it refuses adds and becomes unready.
fn assert_refuses(server: &Server, why: &str) {
    server.wait_for_log(why);
    assert_eq!(add(server), 503, "{why}");
    assert!(readiness_becomes(server, 503), "{why}");
}

fn wait_until_serving(server: &Server) {
    assert!(until(|| add(server) == 201), "{}", server.log());
    assert!(readiness_becomes(server, 200), "{}", server.log());
}

/// Waits for the readiness, because it is determined in the background.
fn readiness_becomes(server: &Server, status: u16) -> bool {
    until(|| server.call("GET", "/readyz", "").status == status)
}

/// Makes another server take over. Returns its number.
fn fail_over(sentinels: &Sentinels) -> usize {
    let before = sentinels.primary();
    connect(&sentinels.sentinels[0]).call(&["SENTINEL", "FAILOVER", SERVICE]);
    wait_until_another_took_over(sentinels, before);
    sentinels.wait_until_healthy();
    sentinels.primary()
}

fn durability(server: &Server) -> String {
    server.call("GET", "/version", "").json()["durability"].as_str().expect("a string").to_owned()
}

#[test]
fn a_primary_that_evicts_is_not_used_after_a_failover_until_that_is_fixed() {
    let sentinels = Sentinels::start(&[]);
    let directory = tempfile::tempdir().expect("a directory");
    let server = serve(&sentinels, &fresh_prefix(), directory.path());
    assert_eq!(add(&server), 201);
    for replica in &sentinels.servers[1..] {
        connect(replica).call(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    }
    let primary = fail_over(&sentinels);
    assert_refuses(&server, "maxmemory-policy is allkeys-lru");
    connect(&sentinels.servers[primary]).call(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    wait_until_serving(&server);
    // The same if the policy is set while the server is in use.
    connect(&sentinels.servers[primary]).call(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    assert_refuses(&server, "maxmemory-policy is volatile-ttl");
}

#[test]
fn the_durability_of_the_current_primary_is_reported() {
    let sentinels = Sentinels::start(&["--appendonly", "no"]);
    let directory = tempfile::tempdir().expect("a directory");
    let server = serve(&sentinels, &fresh_prefix(), directory.path());
    assert_eq!(durability(&server), "none");
    for replica in &sentinels.servers[1..] {
        connect(replica).call(&["CONFIG", "SET", "appendonly", "yes"]);
        connect(replica).call(&["CONFIG", "SET", "appendfsync", "always"]);
    }
    fail_over(&sentinels);
    assert!(until(|| durability(&server) == "aof always"), "{}", durability(&server));
    let metrics = server.call("GET", "/metrics", "").body;
    let shown: Vec<&str> = metrics.lines().filter(|line| line.starts_with("linger_store_info{")).collect();
    assert!(matches!(shown[..], [one] if one.contains("durability=\"aof always\"")), "{shown:?}");
}

#[test]
fn nothing_is_acknowledged_while_another_layout_is_stored() {
    let sentinels = Sentinels::start(&[]);
    let (directory, prefix) = (tempfile::tempdir().expect("a directory"), fresh_prefix());
    let server = serve(&sentinels, &prefix, directory.path());
    assert_eq!(add(&server), 201);
    let primary = sentinels.primary();
    let meta = format!("{{{prefix}}}:meta");
    // The replicas contain another layout, as if another queue had stored it.
    for replica in (0..sentinels.servers.len()).filter(|n| *n != primary) {
        let mut node = connect(&sentinels.servers[replica]);
        node.call(&["CONFIG", "SET", "replica-read-only", "no"]);
        node.call(&["HSET", &meta, "shards", "7"]);
    }
    sentinels.servers[primary].pause();
    wait_until_another_took_over(&sentinels, primary);
    assert_refuses(&server, "redis.shards is stored as 7 in format 2");
    let promoted = sentinels.primary();
    connect(&sentinels.servers[promoted]).call(&["HSET", &meta, "shards", "1"]);
    wait_until_serving(&server);
    // The same if the layout is changed while the server is in use.
    connect(&sentinels.servers[promoted]).call(&["HSET", &meta, "shards", "9"]);
    assert_refuses(&server, "redis.shards is stored as 9 in format 2");
    sentinels.servers[primary].resume();
}
