//! A Redis server that is killed and restarted.

use linger::store::{Added, redis::Options};

use super::Process;
use crate::harness::{jobs::*, redis::RedisServer};

#[tokio::test]
async fn acknowledged_changes_under_aof_always_survive_a_kill_and_the_process_continues() {
    let server = RedisServer::start_with(&["--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
    let process = Process::start(&Options::new(&server.url())).await;
    let store = process.store();
    add(store, job("held")).await;
    let held = reserve(store).await;
    add(store, job("ready")).await;
    server.restart();
    assert!(matches!(add_any(store, job("ready")).await, Ok(Added::Replayed(_))));
    let done = store.finish(ALL, finish(&held.job.id, &held.receipt)).await.expect("finishes");
    assert_eq!(done, [finished()]);
    assert_eq!(reserve(store).await.job.id, id("ready"));
}
