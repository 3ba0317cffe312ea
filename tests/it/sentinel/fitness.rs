//! What a server must be and what it promises, looked at again when another one becomes the primary or its settings
//! change: a start is not the only moment that counts.

use std::path::Path;

use super::another_took_over;
use crate::harness::{
    process::Server,
    redis::fresh_prefix,
    resp::until,
    sentinel::{SERVICE, Sentinels, connect},
};

fn serve(sentinels: &Sentinels, prefix: &str, home: &Path) -> Server {
    std::fs::write(home.join("settings.toml"), sentinels.settings(prefix)).expect("writes");
    Server::serve(&["--config", "settings.toml"], &[], home)
}

fn add(server: &Server) -> u16 {
    server.call("POST", "/jobs", r#"{"topic":"t","body":1}"#).status
}

/// Waits until the server says that it does nothing and for this reason; then nothing is acknowledged.
fn refuses(server: &Server, why: &str) {
    server.wait_for_log(why);
    assert_eq!(add(server), 503, "{why}");
    assert!(readiness_becomes(server, 503), "{why}");
}

fn serves_again(server: &Server) {
    assert!(until(|| add(server) == 201), "{}", server.log());
    assert!(readiness_becomes(server, 200), "{}", server.log());
}

/// The store is asked for it in the background.
fn readiness_becomes(server: &Server, status: u16) -> bool {
    until(|| server.call("GET", "/readyz", "").status == status)
}

/// Has another server take over; its number.
fn hand_over(sentinels: &Sentinels) -> usize {
    let before = sentinels.primary();
    connect(&sentinels.sentinels[0]).call(&["SENTINEL", "FAILOVER", SERVICE]);
    another_took_over(sentinels, before);
    sentinels.wait_until_healthy();
    sentinels.primary()
}

fn durability(server: &Server) -> String {
    server.call("GET", "/version", "").json()["durability"].as_str().expect("a text").to_owned()
}

#[test]
fn a_primary_that_evicts_is_not_used_after_a_failover_until_that_is_fixed() {
    let sentinels = Sentinels::start(&[]);
    let home = tempfile::tempdir().expect("a directory");
    let server = serve(&sentinels, &fresh_prefix(), home.path());
    assert_eq!(add(&server), 201);
    for replica in &sentinels.servers[1..] {
        connect(replica).call(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    }
    let primary = hand_over(&sentinels);
    refuses(&server, "maxmemory-policy is allkeys-lru");
    connect(&sentinels.servers[primary]).call(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    serves_again(&server);
    // Nor when it is set while the server is in use.
    connect(&sentinels.servers[primary]).call(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    refuses(&server, "maxmemory-policy is volatile-ttl");
}

#[test]
fn the_durability_of_the_current_primary_is_reported() {
    let sentinels = Sentinels::start(&["--appendonly", "no"]);
    let home = tempfile::tempdir().expect("a directory");
    let server = serve(&sentinels, &fresh_prefix(), home.path());
    assert_eq!(durability(&server), "none");
    for replica in &sentinels.servers[1..] {
        connect(replica).call(&["CONFIG", "SET", "appendonly", "yes"]);
        connect(replica).call(&["CONFIG", "SET", "appendfsync", "always"]);
    }
    hand_over(&sentinels);
    assert!(until(|| durability(&server) == "aof always"), "{}", durability(&server));
    let figures = server.call("GET", "/metrics", "").body;
    let shown: Vec<&str> = figures.lines().filter(|line| line.starts_with("linger_store_info{")).collect();
    assert!(matches!(shown[..], [one] if one.contains("durability=\"aof always\"")), "{shown:?}");
}

#[test]
fn nothing_is_acknowledged_while_another_layout_is_stored() {
    let sentinels = Sentinels::start(&[]);
    let (home, prefix) = (tempfile::tempdir().expect("a directory"), fresh_prefix());
    let server = serve(&sentinels, &prefix, home.path());
    assert_eq!(add(&server), 201);
    let primary = sentinels.primary();
    let meta = format!("{{{prefix}}}:meta");
    // Cut off from its primary, a replica holds what another queue would have left there.
    for replica in (0..sentinels.servers.len()).filter(|n| *n != primary) {
        let mut node = connect(&sentinels.servers[replica]);
        node.call(&["CONFIG", "SET", "replica-read-only", "no"]);
        node.call(&["HSET", &meta, "shards", "7"]);
    }
    sentinels.servers[primary].pause();
    another_took_over(&sentinels, primary);
    refuses(&server, "7 shards in format 2 are stored");
    let now = sentinels.primary();
    connect(&sentinels.servers[now]).call(&["HSET", &meta, "shards", "4"]);
    serves_again(&server);
    // Nor when it is changed while the server is in use.
    connect(&sentinels.servers[now]).call(&["HSET", &meta, "shards", "9"]);
    refuses(&server, "9 shards in format 2 are stored");
    sentinels.servers[primary].resume();
}
