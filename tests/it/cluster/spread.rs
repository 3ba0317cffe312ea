//! One hot topic is the work of every server of a Cluster.

use std::sync::Arc;

use linger::{
    metrics::Metrics,
    store::{
        AddJob, Store,
        redis::{self, Mode, Options, TimeSource},
    },
};

use crate::harness::{
    cluster::{Cluster, shared},
    jobs::*,
    resp::Reply,
    stores::Recorder,
};

const JOBS: usize = 3_000;

/// An engine with everybody's defaults, prefix and number of shards included: where the shards lie
/// follows from these.
async fn by_default(cluster: &Cluster) -> Arc<dyn Store> {
    let mode = Mode::Cluster(cluster.nodes());
    let options = Options { mode, ..Options::default() };
    let listener = Arc::new(Recorder::default());
    redis::connect(options, TimeSource::Server, listener, Metrics::new().engine).await.expect("connects")
}

/// How many jobs lie on each primary under the default prefix.
fn stored(cluster: &Cluster) -> Vec<usize> {
    let on = |server: usize| {
        let mut node = cluster.node(server);
        let mut held = |shard: u16| match node.send(&["HLEN", &format!("{{linger:{shard}}}:jobs")]) {
            Ok(Reply::Int(count)) => usize::try_from(count).expect("a count"),
            Ok(Reply::Error(moved)) if moved.starts_with("MOVED") => 0,
            other => panic!("{other:?}"),
        };
        (0..16).map(&mut held).sum()
    };
    cluster.primaries(0).into_iter().map(on).collect()
}

#[tokio::test]
async fn the_jobs_of_one_hot_topic_are_spread_over_all_servers() {
    let cluster = shared();
    let store = by_default(cluster).await;
    let slot = cluster.node(0).call(&["CLUSTER", "KEYSLOT", "linger"]).int();
    let holder = cluster.owner_of(u16::try_from(slot).expect("a slot"), 0);
    assert_eq!(cluster.node(holder).call(&["HGET", "{linger}:meta", "shards"]).text(), "16");
    let jobs: Vec<AddJob> = (0..JOBS).map(|n| job(&format!("hot-{n}"))).collect();
    for jobs in jobs.chunks(500) {
        store.add(jobs.to_vec()).await.expect("adds");
    }
    let stored = stored(cluster);
    let figures: Vec<String> = stored.iter().map(ToString::to_string).collect();
    println!("proof: what=cluster_spread jobs={JOBS} by_server={}", figures.join("/"));
    assert_eq!((stored.len(), stored.iter().sum::<usize>()), (3, JOBS));
    // A fair share is a third; of 16 shards no server of three has fewer than three.
    assert!(stored.iter().all(|count| *count >= JOBS / 8), "{stored:?}");
    let mut popped = 0;
    while popped < JOBS {
        let held = store.reserve(&topic("t"), &[None; 500], Wait::No).await.expect("reserves");
        assert!(!held.is_empty(), "only {popped} were found");
        popped += held.len();
    }
    store.close().await.expect("closes");
}
