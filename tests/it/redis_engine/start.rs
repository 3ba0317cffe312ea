//! Starts: servers that are not fit to store jobs, the number of shards, and full memory.

use std::{io::Write, net::TcpListener};

use futures_util::future::join_all;
use linger::{
    metrics::Metrics,
    store::{
        Degraded, Error, Steps,
        redis::{self, ConnectError, Options},
    },
};

use super::{
    Process, Raw, SHARDS, options,
    proxy::{Fault, Proxy},
};
use crate::harness::{
    jobs::*,
    redis::{RedisServer, shared},
    wait::TimeLimit,
};

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
    let error = refusal(&Options { shards: Some(8), ..options.clone() }).await;
    let text = error.to_string();
    assert!(matches!(error, ConnectError::Layout { .. }), "{text}");
    assert!(text.contains("redis.shards = 1, and 8 is configured"), "{text}");
    Process::start(&Options { shards: Some(SHARDS), ..options }).await;
}

/// The number of shards that is stored under the prefix.
async fn stored_shards(raw: &Raw, options: &Options) -> String {
    let shards = raw.send(&["HGET", &format!("{{{}}}:meta", options.prefix), "shards"]).await;
    shards.as_string().expect("is stored")
}

#[tokio::test]
async fn the_stored_number_of_shards_is_used_when_none_is_configured() {
    let options = options();
    let raw = Raw::connect(&shared().url()).await;
    let first = Process::start(&Options { shards: Some(8), ..options.clone() }).await;
    let ids: Vec<String> = (0..40).map(|n| format!("job-{n}")).collect();
    first.store().add(ids.iter().map(|id| job(id)).collect()).await.expect("adds");
    let second = Process::with_clock_of(&first, &options).await;
    assert_eq!(stored_shards(&raw, &options).await, "8");
    for id in &ids {
        assert!(second.store().get(ALL, &self::id(id)).await.expect("gets").is_some(), "{id}");
    }
    let held = second.store().reserve(&plain("t"), &claims(50), Wait::No).await.expect("reserves");
    assert_eq!(held.len(), ids.len());
}

#[tokio::test]
async fn one_of_several_concurrent_starts_decides_the_number_of_shards() {
    let options = options();
    let raw = Raw::connect(&shared().url()).await;
    let numbers = [Some(7), None, Some(2), None, None];
    let each = numbers.map(|shards| Options { shards, ..options.clone() });
    let started = join_all(each.iter().map(Process::try_start)).await;
    let shards = stored_shards(&raw, &options).await;
    assert!(["1", "2", "7"].contains(&shards.as_str()), "{shards}");
    for (number, started) in numbers.into_iter().zip(&started) {
        let agrees = number.is_none_or(|number| number.to_string() == shards);
        assert_eq!(started.is_ok(), agrees, "{number:?} of {shards}: {:?}", started.as_ref().err());
    }
    let mut running = started.iter().flatten();
    let (one, other) = (running.next().expect("one"), running.next().expect("another"));
    let ids: Vec<String> = (0..40).map(|n| format!("job-{n}")).collect();
    one.store().add(ids.iter().map(|id| job(id)).collect()).await.expect("adds");
    for id in &ids {
        assert!(other.store().get(ALL, &self::id(id)).await.expect("gets").is_some(), "{id}");
    }
}

#[tokio::test]
async fn one_server_is_first_used_with_one_shard() {
    let options = options();
    Process::start(&options).await;
    assert_eq!(stored_shards(&Raw::connect(&shared().url()).await, &options).await, SHARDS.to_string());
}

/// The jobs are there, and a process that starts cannot tell over how many shards they are spread.
#[tokio::test]
async fn a_layout_that_is_lost_is_refused_until_it_is_accepted() {
    let options = options();
    let raw = Raw::connect(&shared().url()).await;
    let first = Process::start(&Options { shards: Some(8), ..options.clone() }).await;
    first.store().add(vec![job("a")]).await.expect("adds");
    let meta = format!("{{{}}}:meta", options.prefix);
    let seed = raw.send(&["HGET", &meta, "seed"]).await.into_bytes();
    assert_eq!(seed.as_ref().map(|seed| seed.len()), Some(16));
    raw.send(&["DEL", &meta]).await;
    let time_limit = TimeLimit::new();
    while !matches!(first.store().check().await, Err(Error::Replaced)) {
        time_limit.check(|| "it is not noticed".to_owned());
        time_limit.pause().await;
    }
    assert!(matches!(first.store().get(ALL, &id("a")).await, Err(Error::Replaced)));
    let error = refusal(&options).await;
    assert!(matches!(error, ConnectError::Replaced { .. }) && error.is_transient(), "{error}");
    let accept = async || redis::accept(options.clone(), Metrics::new().engine).await.expect("accepts");
    while !accept().await {
        time_limit.check(|| "the process does not miss it".to_owned());
        time_limit.pause().await;
    }
    assert_eq!(stored_shards(&raw, &options).await, "8");
    let again = raw.send(&["HGET", &meta, "seed"]).await.into_bytes();
    assert!(again.is_some() && again != seed, "another store, because the old one may come back");
    while first.store().check().await.is_err() {
        time_limit.check(|| "it is not used".to_owned());
        time_limit.pause().await;
    }
    let second = Process::with_clock_of(&first, &options).await;
    assert!(second.store().get(ALL, &id("a")).await.expect("gets").is_some());
    assert!(!accept().await, "there is nothing left to accept");
}

#[tokio::test]
async fn an_invalid_stored_number_of_shards_is_refused() {
    let raw = Raw::connect(&shared().url()).await;
    for odd in ["0", "257", "many"] {
        let options = options();
        raw.send(&["HSET", &format!("{{{}}}:meta", options.prefix), "format", "2", "shards", odd]).await;
        for shards in [None, Some(16)] {
            let error = refusal(&Options { shards, ..options.clone() }).await;
            let text = error.to_string();
            assert!(matches!(error, ConnectError::Layout { .. }), "{text}");
            assert!(text.contains(odd) && text.contains("between 1 and 256"), "{text}");
        }
    }
}

/// The first script of a process reads the layout. With the default settings; the starts wait at the same time.
#[tokio::test]
async fn a_start_survives_faults_of_its_first_script() {
    join_all(Fault::ALL.map(async |fault| {
        let proxy = Proxy::start(shared().port).await;
        proxy.arm(0, 1, fault);
        let process = Process::start(&Options { mode: proxy.mode(), ..options() }).await;
        assert_eq!(proxy.disarm().0, 1, "{fault:?} happened");
        add(process.store(), job("a")).await;
    }))
    .await;
}

#[tokio::test]
async fn a_start_survives_a_server_that_forgets_its_scripts() {
    let server = RedisServer::start();
    let options = Options::new(&server.url());
    let raw = Raw::connect(&server.url()).await;
    let forgetting = async {
        loop {
            raw.send(&["SCRIPT", "FLUSH"]).await;
        }
    };
    tokio::select! {
        process = Process::start(&options) => add(process.store(), job("a")).await,
        () = forgetting => unreachable!("goes on for ever"),
    };
}

#[tokio::test]
async fn an_unreachable_server_is_named_without_its_password() {
    let text = refusal(&Options::new("redis://user:hunter2@127.0.0.1:1")).await.to_string();
    assert_eq!(text, "cannot use Redis at redis://127.0.0.1:1: the connection failed: Connection refused");
    let server = RedisServer::start_with(&["--save", "", "--requirepass", "hunter2"]);
    let text = refusal(&Options::new(&server.url())).await.to_string();
    assert!(text.ends_with("it requires a password, and none is configured"), "{text}");
    let with_password = server.url().replace("redis://", "redis://:hunter2@");
    let process = Process::start(&Options::new(&with_password)).await;
    assert!(!format!("{:?}", process.store).contains("hunter2"));
}

/// A server that sends `line` on every connection, and nothing else.
fn fake_server(line: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("has an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.expect("accepts");
            // The client may have closed the connection.
            let _ = client.write_all(line.as_bytes());
        }
    });
    port
}

#[tokio::test]
async fn the_reason_why_a_server_cannot_be_used_is_a_sentence() {
    let denied =
        fake_server("-DENIED Redis is running in protected mode because protected mode is enabled\r\n");
    let password = RedisServer::start_with(&["--save", "", "--requirepass", "hunter2"]);
    let hidden = RedisServer::start_with(&["--save", "", "--rename-command", "HSCAN", ""]);
    let mute = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mute = mute.local_addr().map(|address| (address.port(), mute)).expect("has an address");
    let at = |port: u16| format!("redis://127.0.0.1:{port}");
    for (url, why) in [
        (at(denied), "it is in protected mode, so it only serves its own host"),
        (password.url().replace("://", "://:wrong@"), "it refuses the user name or password"),
        (hidden.url(), "it lacks required commands: hscan"),
        (at(mute.0), "in time"),
    ] {
        // Only the server that never answers is waited for.
        let connect_timeout = if why == "in time" { millis(300) } else { seconds(30) };
        let options = Options { connect_timeout, ..Options::new(&url) };
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
async fn a_full_memory_refuses_adds_and_allows_finishes() {
    let server = RedisServer::start();
    let process = Process::start(&Options::new(&server.url())).await;
    let store = process.store();
    add(store, job("a")).await;
    add(store, job("b")).await;
    let raw = Raw::connect(&server.url()).await;
    raw.send(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let refused = store.add(vec![job("c")]).await;
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    store.check().await.expect("what is there can be delivered and finished");
    let degraded = store.degraded();
    assert!(matches!(&degraded[..], [Degraded { part: "memory", .. }]), "{degraded:?}");
    assert_eq!(store.get(ALL, &id("c")).await.expect("gets"), None, "the refused job was not added");
    let held = reserve(store).await;
    let done = store.finish(ALL, finish(&held.job.id, &held.receipt)).await.expect("finishes");
    assert!(one(done).is_ok());
    let rest = if held.job.id == id("a") { id("b") } else { id("a") };
    assert!(one(store.delete(ALL, vec![rest], DeleteRule::AnyState).await.expect("deletes")).is_ok());
    assert_eq!(store.topic(&topic("t")).await.expect("reads"), None);
    raw.send(&["CONFIG", "SET", "maxmemory", "0"]).await;
    store.check().await.expect("there is room again");
    assert_eq!(store.degraded(), []);
    add(store, job("c")).await;
}
