//! A server of a Cluster that hangs: the jobs of the others go on.

use std::collections::BTreeSet;

use linger::{
    metrics::Metrics,
    store::{
        AddJob, Finished, Store,
        redis::{self, Mode, Options, TimeSource},
    },
};

use crate::harness::{cluster::Cluster, jobs::*, stores::Recorder, wait::Patience};

const JOBS: usize = 320;

#[tokio::test]
async fn a_batch_pop_does_not_let_its_reservations_run_out_for_a_server_that_hangs() {
    // Nobody gives the server up meanwhile.
    let cluster = Cluster::start(60_000);
    let mode = Mode::Cluster { urls: cluster.urls() };
    // Far longer than what is reserved is held.
    let options = Options { mode, retry_for: seconds(80), ..Options::new("") };
    let listener = std::sync::Arc::new(Recorder::default());
    let connected = redis::connect(options, TimeSource::Server, listener, Metrics::new().engine).await;
    let store = connected.expect("connects");
    let jobs: Vec<AddJob> = (0..JOBS).map(|n| job(&format!("job-{n}"))).collect();
    store.add(jobs).await.expect("adds");
    // A process's first reservation begins with shard 0.
    let slot = cluster.node(0).call(&["CLUSTER", "KEYSLOT", "{linger:0}"]).int();
    let first = cluster.holder_of(u16::try_from(slot).expect("a slot"), 0);
    let hung = cluster.primaries(0).into_iter().find(|server| *server != first).expect("there are three");
    cluster.servers[hung].pause();
    let held = store.reserve(&topic("t"), &[Some(ttr(20)); JOBS]).await.expect("reserves");
    assert!((1..JOBS).contains(&held.len()), "{} of {JOBS}", held.len());
    let mut seen = BTreeSet::new();
    for held in held {
        let finished = one(store.finish(finish(&held.job.id, &held.receipt)).await.expect("finishes"));
        assert_eq!(finished, Finished::Done { topic: topic("t") });
        seen.insert(held.job.id);
    }
    cluster.servers[hung].resume();
    let patience = Patience::new();
    while seen.len() < JOBS {
        patience.or_fail(|| format!("{} of {JOBS}", seen.len()));
        for held in store.reserve(&topic("t"), &[Some(ttr(3_600)); JOBS]).await.expect("reserves") {
            assert_eq!(held.job.attempts, 1, "what came too late was given back uncounted");
            assert!(seen.insert(held.job.id));
        }
    }
    store.close().await.expect("closes");
}
