//! The jobs of one busy topic are spread over every server of a Cluster.

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
    wait::TimeLimit,
};

const JOBS: usize = 3_000;

/// An engine with the default settings. The prefix and the number of shards determine which server has which shard.
async fn connect_with_defaults(cluster: &Cluster) -> Arc<dyn Store> {
    let mode = Mode::Cluster(cluster.nodes());
    let options = Options { mode, ..Options::default() };
    let listener = Arc::new(Recorder::default());
    redis::connect(options, TimeSource::Server, listener, Metrics::new().engine).await.expect("connects")
}

/// The number of jobs that each primary has under the default prefix.
fn jobs_per_server(cluster: &Cluster) -> Vec<usize> {
    let jobs_on = |server: usize| {
        let mut node = cluster.node(server);
        let mut jobs_of_shard = |shard: u16| match node.send(&["HLEN", &format!("{{linger:{shard}}}:jobs")]) {
            Ok(Reply::Int(count)) => usize::try_from(count).expect("a count"),
            Ok(Reply::Error(moved)) if moved.starts_with("MOVED") => 0,
            other => panic!("{other:?}"),
        };
        (0..16).map(&mut jobs_of_shard).sum()
    };
    cluster.primaries(0).into_iter().map(jobs_on).collect()
}

#[tokio::test]
async fn the_jobs_of_one_busy_topic_are_spread_over_all_servers() {
    let cluster = shared();
    let store = connect_with_defaults(cluster).await;
    let slot = cluster.node(0).call(&["CLUSTER", "KEYSLOT", "linger"]).int();
    let owner = cluster.owner_of(u16::try_from(slot).expect("a slot"), 0);
    assert_eq!(cluster.node(owner).call(&["HGET", "{linger}:meta", "shards"]).text(), "16");
    let jobs: Vec<AddJob> = (0..JOBS).map(|n| job(&format!("hot-{n}"))).collect();
    for jobs in jobs.chunks(500) {
        store.add(jobs.to_vec()).await.expect("adds");
    }
    let jobs_per_server = jobs_per_server(cluster);
    let counts: Vec<String> = jobs_per_server.iter().map(ToString::to_string).collect();
    println!("proof: what=cluster_spread jobs={JOBS} by_server={}", counts.join("/"));
    assert_eq!((jobs_per_server.len(), jobs_per_server.iter().sum::<usize>()), (3, JOBS));
    // A fair share is a third. Of 16 shards, none of three servers has fewer than three.
    assert!(jobs_per_server.iter().all(|count| *count >= JOBS / 8), "{jobs_per_server:?}");
    // A pop waits for slow servers only for a moment, and other tests use this Cluster.
    let (mut popped, time_limit) = (0, TimeLimit::new());
    while popped < JOBS {
        popped += store.reserve(&plain("t"), &claims(500), Wait::No).await.expect("reserves").len();
        time_limit.check(|| format!("only {popped} were found"));
    }
    store.close().await.expect("closes");
}
