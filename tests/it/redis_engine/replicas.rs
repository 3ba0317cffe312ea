//! Changes that wait for replicas. If too few replicas acknowledge a change, the caller gets an error, and a pop
//! cancels its reservations.

use std::{sync::Arc, time::Duration};

use linger::{
    job::State,
    metrics::Metrics,
    store::{
        AddJob, Added, ArchiveContent, ArchiveKind, Error, Movable, Outcome, Store,
        redis::{self, Options},
    },
};

use super::{Process, Raw};
use crate::harness::{jobs::*, redis::RedisServer, stores::Recorder, wait::TimeLimit};

/// A primary, its replicas, and a process that waits for all of them, each time for up to `wait_timeout`.
async fn with_replicas(count: u8, wait_timeout: Duration) -> (RedisServer, Vec<RedisServer>, Process) {
    let primary = RedisServer::start_with(&["--save", "", "--repl-diskless-sync-delay", "0"]);
    let follow = format!("127.0.0.1 {}", primary.port);
    let replica = |_| RedisServer::start_with(&["--save", "", "--replicaof", &follow]);
    let replicas: Vec<_> = (0..count).map(replica).collect();
    let options = Options { wait_replicas: count, wait_timeout, ..Options::new(&primary.url()) };
    let process = Process::start(&options).await;
    add_durably(process.store(), AddJob { topic: topic("warm"), ..delayed("warm", seconds(1)) })
        .await
        .expect("is not refused");
    (primary, replicas, process)
}

/// Repeats an add until every replica has it: at first a new replica acknowledges only once a second.
async fn add_durably(store: &dyn Store, job: AddJob) -> Outcome<Added> {
    let time_limit = TimeLimit::new();
    loop {
        match store.add(vec![job.clone()]).await {
            Ok(added) => return one(added),
            Err(Error::NotDurable(why)) => time_limit.check(|| why.clone()),
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[tokio::test]
async fn a_change_is_acknowledged_once_the_replica_has_it() {
    // The test asserts nothing about the speed of the replica.
    let (_primary, replicas, process) = with_replicas(1, seconds(60)).await;
    assert!(process.store().info().durability.ends_with("1 replicas"));
    add(process.store(), job("a")).await;
    let jobs = format!("{}:jobs", super::tag(&Options::new("redis://x"), &id("a")));
    let there = Raw::connect(&replicas[0].url()).await.send(&["HEXISTS", &jobs, "a"]).await;
    assert_eq!(there.as_u64(), Some(1));
    let held = reserve(process.store()).await;
    process.store.finish(ALL, finish(&held.job.id, &held.receipt)).await.expect("finishes");
}

#[tokio::test]
async fn too_few_replicas_are_reported_and_a_repeat_is_safe() {
    let (_primary, replicas, process) = with_replicas(1, Options::default().wait_timeout).await;
    let store = process.store();
    add_durably(store, job("before")).await.expect("is not refused");
    replicas[0].pause();
    let short = store.add(vec![job("a")]).await;
    assert!(matches!(short, Err(Error::NotDurable(_))), "{short:?}");
    let repeat = store.add(vec![job("a")]).await;
    assert!(
        matches!(repeat, Err(Error::NotDurable(_))),
        "a repeat that writes nothing waits too: {repeat:?}"
    );
    let popped = store.reserve(&plain("t"), &claims(1), Wait::No).await;
    assert!(matches!(popped, Err(Error::NotDurable(_))), "{popped:?}");
    let record = ArchiveContent::new("text").expect("is short");
    let archived = store.archive().put(ArchiveKind::Call, "a", record).await;
    assert!(matches!(archived, Err(Error::NotDurable(_))), "{archived:?}");
    for name in ["before", "a"] {
        let job = store.get(ALL, &id(name)).await.expect("gets").expect("is there");
        assert_eq!((job.state(), job.attempts), (State::Ready, 0), "cancelled, and no attempt counted");
    }
    replicas[0].resume();
    assert!(matches!(add_durably(store, job("a")).await, Ok(Added::Replayed(_))));
}

#[tokio::test]
async fn one_of_two_replicas_is_too_few() {
    let (_primary, replicas, process) = with_replicas(2, Options::default().wait_timeout).await;
    replicas[1].pause();
    let short = process.store.add(vec![job("a")]).await;
    assert!(matches!(short, Err(Error::NotDurable(_))), "{short:?}");
    replicas[1].resume();
    assert!(matches!(add_durably(process.store(), job("a")).await, Ok(Added::Replayed(_))));
}

/// Where changes do not wait for replicas, the last pass of a move does, before it decides.
#[tokio::test]
async fn a_move_waits_until_the_replica_has_everything() {
    let (primary, replicas, process) = with_replicas(1, seconds(60)).await;
    process.store.close().await.expect("closes");
    let options = Options::new(&primary.url());
    let (listener, metrics) = (Arc::new(Recorder::default()), Metrics::new().engine);
    let mover = redis::open_offline(redis::OpenMode::Source, options.clone(), listener, metrics)
        .await
        .expect("connects");
    let (of_primary, of_replica) =
        (Raw::connect(&primary.url()).await, Raw::connect(&replicas[0].url()).await);
    replicas[0].pause();
    assert!(mover.set_fence(1, true).await.expect("closes"));
    let waiting = tokio::spawn(async move { mover.wait_for_replicas().await });
    let time_limit = TimeLimit::new();
    while !of_primary
        .send(&["CLIENT", "LIST"])
        .await
        .as_string()
        .is_some_and(|list| list.contains("cmd=wait"))
    {
        time_limit.check(|| "the mover does not wait for the replica".to_owned());
        time_limit.pause().await;
    }
    assert!(!waiting.is_finished());
    replicas[0].resume();
    waiting.await.expect("does not panic").expect("the replica catches up");
    let counts = format!("{{{}:0}}:counts", options.prefix);
    let fence = of_replica.send(&["HGET", &counts, "!"]).await.as_string().expect("is there");
    assert!(fence.starts_with("0000000000000001 m"), "{fence}");
}
