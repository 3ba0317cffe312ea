//! A server of a Cluster that hangs: the jobs of the others go on.

use std::{collections::BTreeSet, time::Duration};

use linger::{
    clock::{Clock, SystemClock},
    job::{JobId, Ttr},
    metrics::Metrics,
    store::{
        AddJob, Finished, Store,
        redis::{self, Mode, Options, TimeSource},
    },
};
use xxhash_rust::xxh3::xxh3_64;

use crate::harness::{cluster::Cluster, jobs::*, stores::Recorder, wait::TimeLimit};

const JOBS: usize = 320;
/// How long a call is tried again by default: what is reserved must not wait for that.
const RETRY_FOR: Duration = Duration::from_secs(5);

/// Which server holds a shard.
fn holder(cluster: &Cluster, shard: u64) -> usize {
    let slot = cluster.node(0).call(&["CLUSTER", "KEYSLOT", &format!("{{linger:{shard}}}")]).int();
    cluster.owner_of(u16::try_from(slot).expect("a slot"), 0)
}

fn shard(id: &JobId) -> u64 {
    xxh3_64(id.as_str().as_bytes()) % 16
}

/// Pops all jobs at once while a server hangs; on which shards those were that came, and on which they
/// could have been, and how long it took. Nothing is lost, and what came too late is not counted.
async fn pop_beside_one_that_hangs(ttrs: &[Option<Ttr>]) -> (BTreeSet<u64>, BTreeSet<u64>, Duration) {
    // Nobody gives the server up meanwhile.
    let cluster = Cluster::start(60_000);
    let mode = Mode::Cluster(cluster.nodes());
    let options = Options { mode, ..Options::default() };
    assert_eq!(options.retry_for, RETRY_FOR);
    let listener = std::sync::Arc::new(Recorder::default());
    let connected = redis::connect(options, TimeSource::Server, listener, Metrics::new().engine).await;
    let store = connected.expect("connects");
    let jobs: Vec<AddJob> = (0..JOBS).map(|n| job(&format!("job-{n}"))).collect();
    store.add(jobs).await.expect("adds");
    // A process's first reservation begins with shard 0.
    let first = holder(&cluster, 0);
    let hung = cluster.primaries(0).into_iter().find(|server| *server != first).expect("there are three");
    let sound = (0..16).filter(|shard| holder(&cluster, *shard) != hung).collect();
    cluster.servers[hung].pause();
    let clock = SystemClock::new();
    let from_us = clock.now_micros();
    let held = store.reserve(&topic("t"), ttrs, Wait::No).await.expect("reserves");
    let took = Duration::from_micros((clock.now_micros() - from_us).unsigned_abs());
    assert!((1..JOBS).contains(&held.len()), "{} of {JOBS}", held.len());
    let came = held.iter().map(|held| shard(&held.job.id)).collect();
    let mut seen = BTreeSet::new();
    for held in held {
        let finished = one(store.finish(ALL, finish(&held.job.id, &held.receipt)).await.expect("finishes"));
        assert_eq!(finished, Finished::Done { topic: topic("t") });
        seen.insert(held.job.id);
    }
    cluster.servers[hung].resume();
    let time_limit = TimeLimit::new();
    while seen.len() < JOBS {
        time_limit.check(|| format!("{} of {JOBS}", seen.len()));
        for held in store.reserve(&topic("t"), &[Some(ttr(3_600)); JOBS], Wait::No).await.expect("reserves") {
            assert_eq!(held.job.attempts, 1, "what came too late was given back uncounted");
            assert!(seen.insert(held.job.id));
        }
    }
    store.close().await.expect("closes");
    (came, sound, took)
}

/// Shards are asked one after the other for those that are not alike.
#[tokio::test]
async fn a_batch_pop_does_not_wait_for_a_hung_server_until_its_reservations_end() {
    let ttrs: Vec<_> = (0..JOBS).map(|n| Some(ttr(20 + n as u64 % 2))).collect();
    pop_beside_one_that_hangs(&ttrs).await;
}

#[tokio::test]
async fn a_hung_server_does_not_delay_the_jobs_of_the_others() {
    let (came, sound, took) = pop_beside_one_that_hangs(&[Some(ttr(3_600)); JOBS]).await;
    assert_eq!(came, sound, "all that were asked and could answer");
    assert!(took < RETRY_FOR / 2, "{took:?}");
}
