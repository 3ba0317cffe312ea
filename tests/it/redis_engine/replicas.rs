//! Changes that wait for replicas. If too few replicas acknowledge a change, the caller gets an error, and a pop
//! cancels its reservations.

use linger::{
    job::State,
    store::{Added, Error, redis::Options},
};

use super::{Process, Raw};
use crate::harness::{jobs::*, redis::RedisServer};

/// A primary, its replica, and a process that waits for it.
async fn with_a_replica() -> (RedisServer, RedisServer, Process) {
    let primary = RedisServer::start_with(&["--save", "", "--repl-diskless-sync-delay", "0"]);
    let port = primary.port.to_string();
    let replica = RedisServer::start_with(&["--save", "", "--replicaof", &format!("127.0.0.1 {port}")]);
    let options = Options { wait_replicas: 1, wait_timeout: seconds(2), ..Options::new(&primary.url()) };
    let process = Process::start(&options).await;
    // At first a new replica acknowledges only once a second.
    let warm = || vec![linger::store::AddJob { topic: topic("warm"), ..delayed("warm", seconds(1)) }];
    while process.store.add(warm()).await.is_err() {}
    (primary, replica, process)
}

#[tokio::test]
async fn a_change_is_acknowledged_once_the_replica_has_it() {
    let (_primary, replica, process) = with_a_replica().await;
    assert!(process.store().info().durability.ends_with("1 replicas"));
    add(process.store(), job("a")).await;
    let jobs = format!("{}:jobs", super::tag(&Options::new("redis://x"), &id("a")));
    let there = Raw::connect(&replica.url()).await.send(&["HEXISTS", &jobs, "a"]).await;
    assert_eq!(there.as_u64(), Some(1));
    let held = reserve(process.store()).await;
    process.store.finish(ALL, finish(&held.job.id, &held.receipt)).await.expect("finishes");
}

#[tokio::test]
async fn too_few_replicas_are_reported_and_a_repeat_is_safe() {
    let (_primary, replica, process) = with_a_replica().await;
    let store = process.store();
    add(store, job("before")).await;
    replica.pause();
    let short = store.add(vec![job("a")]).await;
    assert!(matches!(short, Err(Error::NotDurable(_))), "{short:?}");
    let repeat = store.add(vec![job("a")]).await;
    assert!(
        matches!(repeat, Err(Error::NotDurable(_))),
        "a repeat that writes nothing waits too: {repeat:?}"
    );
    let popped = store.reserve(&plain("t"), &claims(1), Wait::No).await;
    assert!(matches!(popped, Err(Error::NotDurable(_))), "{popped:?}");
    for name in ["before", "a"] {
        let job = store.get(ALL, &id(name)).await.expect("gets").expect("is there");
        assert_eq!((job.state, job.attempts), (State::Ready, 0), "cancelled, and no attempt counted");
    }
    replica.resume();
    let mut added = store.add(vec![job("a")]).await;
    while matches!(added, Err(Error::NotDurable(_))) {
        added = store.add(vec![job("a")]).await;
    }
    assert!(matches!(one(added.expect("the replica is back")), Added::Replayed(_)));
}
