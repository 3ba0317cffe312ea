//! Scans of a shard in several runs: a cursor of another server means nothing.

use linger::store::{PurgeCursor, Store, redis::Options};

use super::{Process, options};
use crate::harness::jobs::*;

const JOBS: usize = 1_000;

/// Purges the rest from a cursor. Returns how many jobs are left.
async fn left_by_purge(store: &dyn Store, cursor: String) -> u64 {
    purge_from(Some(PurgeCursor(cursor)), store, &topic("t"), 100).await.expect("purges");
    store.topic(&topic("t")).await.expect("reads").map_or(0, |stats| stats.ready)
}

#[tokio::test]
async fn a_purge_starts_over_when_its_server_was_replaced() {
    let process = Process::start(&Options { shards: Some(1), ..options() }).await;
    let store = process.store();
    let jobs: Vec<_> = (0..JOBS).map(|n| job(&format!("job-{n}"))).collect();
    for jobs in jobs.chunks(200) {
        store.add(jobs.to_vec()).await.expect("adds");
    }
    // A cursor somewhere in the shard: no job of this topic is there to be deleted.
    let slice = store.purge(&topic("other"), None, 100).await.expect("purges");
    let cursor = slice.next.expect("there is more").0;
    assert!(left_by_purge(store, cursor.clone()).await > 0, "the cursor leaves nothing out");
    let (shard, rest) = cursor.split_once(':').expect("a shard");
    let (server, at) = rest.split_once(':').expect("a server");
    let other: String = server.chars().rev().collect();
    assert_ne!(other, server);
    assert_eq!(left_by_purge(store, format!("{shard}:{other}:{at}")).await, 0);
}
