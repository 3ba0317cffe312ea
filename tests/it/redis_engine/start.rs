//! Servers that are not fit to hold jobs, and memory that is full.

use std::{io::Write, net::TcpListener};

use linger::store::{
    Deleted, Error, Finished,
    redis::{ConnectError, Options},
};

use super::{Process, Raw, options};
use crate::harness::{jobs::*, redis::RedisServer};

async fn refusal(options: &Options) -> ConnectError {
    match Process::try_start(options).await {
        Ok(_) => panic!("it was accepted"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_server_that_evicts_is_refused() {
    let server = RedisServer::start_with(&["--save", "", "--maxmemory-policy", "allkeys-lru"]);
    let error = refusal(&Options::new(&server.url())).await;
    assert!(matches!(&error, ConnectError::Unfit { why, .. } if why.contains("noeviction")), "{error}");
}

#[tokio::test]
async fn a_replica_is_refused() {
    let primary = RedisServer::start();
    let port = primary.port;
    let server = RedisServer::start_with(&["--save", "", "--replicaof", &format!("127.0.0.1 {port}")]);
    let error = refusal(&Options::new(&server.url())).await;
    assert!(matches!(&error, ConnectError::Unfit { why, .. } if why.contains("primary")), "{error}");
}

#[tokio::test]
async fn another_number_of_shards_is_refused_and_named() {
    let options = options();
    Process::start(&options).await;
    let error = refusal(&Options { shards: 8, ..options.clone() }).await;
    let text = error.to_string();
    assert!(matches!(error, ConnectError::Layout { .. }), "{text}");
    assert!(text.contains("16 shards") && text.contains('8'), "{text}");
    Process::start(&options).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_without_its_password() {
    let mut options = Options::new("redis://user:hunter2@127.0.0.1:1");
    options.connect_timeout = millis(200);
    let text = refusal(&options).await.to_string();
    assert_eq!(text, "cannot use Redis at redis://127.0.0.1:1: the connection failed: Connection refused");
    let server = RedisServer::start_with(&["--save", "", "--requirepass", "hunter2"]);
    let text = refusal(&Options::new(&server.url())).await.to_string();
    assert!(text.ends_with("it asks for a password, and none is configured"), "{text}");
    let with_password = server.url().replace("redis://", "redis://:hunter2@");
    let process = Process::start(&Options::new(&with_password)).await;
    assert!(!format!("{:?}", process.store).contains("hunter2"));
}

/// Answers every connection with `line` and no more.
fn impostor(line: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("has an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.expect("accepts");
            // One that has gone already is no matter.
            let _ = client.write_all(line.as_bytes());
        }
    });
    port
}

#[tokio::test]
async fn why_a_server_cannot_be_used_is_said_in_words() {
    let denied = impostor("-DENIED Redis is running in protected mode because protected mode is enabled\r\n");
    let password = RedisServer::start_with(&["--save", "", "--requirepass", "hunter2"]);
    let hidden = RedisServer::start_with(&["--save", "", "--rename-command", "HSCAN", ""]);
    let mute = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mute = mute.local_addr().map(|address| (address.port(), mute)).expect("has an address");
    let at = |port: u16| format!("redis://127.0.0.1:{port}");
    for (url, why) in [
        (at(denied), "it is in protected mode, so it only serves its own host"),
        (password.url().replace("://", "://:wrong@"), "it refuses the user name or password"),
        (hidden.url(), "it lacks commands that are needed: hscan"),
        (at(mute.0), "in time"),
    ] {
        let options =
            Options { connect_timeout: millis(300), command_timeout: millis(300), ..Options::new(&url) };
        let text = refusal(&options).await.to_string();
        assert!(text.contains(why), "{text}");
        assert!(!text.contains("Error") && !text.contains('{') && !text.contains("wrong@"), "{text}");
    }
}

#[tokio::test]
async fn the_durability_of_the_server_is_published() {
    let class = async |arguments: &[&str]| {
        let server = RedisServer::start_with(arguments);
        let process = Process::start(&Options::new(&server.url())).await;
        let info = process.store().info();
        assert!(info.engine == "redis" && info.version.contains('.'), "{info:?}");
        info.durability
    };
    let aof = async |sync: &str| class(&["--save", "", "--appendonly", "yes", "--appendfsync", sync]).await;
    assert_eq!(aof("always").await, "aof always");
    assert_eq!(aof("everysec").await, "aof everysec");
    assert_eq!(aof("no").await, "aof no");
    assert_eq!(class(&["--save", "3600", "1"]).await, "snapshots only");
    assert_eq!(class(&["--save", ""]).await, "none");
}

#[tokio::test]
async fn a_full_memory_refuses_jobs_and_lets_them_go() {
    let server = RedisServer::start();
    let process = Process::start(&Options::new(&server.url())).await;
    let store = process.store();
    add(store, job("a")).await;
    add(store, job("b")).await;
    let raw = Raw::connect(&server.url()).await;
    raw.send(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let refused = store.add(vec![job("c")]).await;
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    assert!(matches!(store.check().await, Err(Error::Full(_))));
    assert_eq!(store.get(&id("c")).await.expect("gets"), None, "nothing of it happened");
    let held = reserve(store).await;
    let done = store.finish(finish(&held.job.id, &held.receipt)).await.expect("finishes");
    assert!(matches!(one(done), Finished::Done { .. }));
    let rest = if held.job.id == id("a") { id("b") } else { id("a") };
    assert!(matches!(one(store.delete(vec![rest]).await.expect("deletes")), Deleted::Done { .. }));
    assert_eq!(store.topic(&topic("t")).await.expect("reads"), None);
    raw.send(&["CONFIG", "SET", "maxmemory", "0"]).await;
    store.check().await.expect("there is room again");
    add(store, job("c")).await;
}
