//! A server of a Cluster that hangs: jobs on the other servers are not affected.

use std::{collections::BTreeSet, time::Duration};

use linger::{
    clock::{Clock, SystemClock},
    job::JobId,
    metrics::Metrics,
    store::{
        AddJob, Finished, Store,
        redis::{self, Mode, Options, TimeSource},
    },
};
use xxhash_rust::xxh3::xxh3_64;

use crate::harness::{cluster::Cluster, jobs::*, stores::Recorder, wait::TimeLimit};

const JOBS: usize = 320;
/// How long a call is retried by default. Reserved jobs must not wait for that long.
const RETRY_FOR: Duration = Duration::from_secs(5);

/// The server that owns a shard.
fn owner(cluster: &Cluster, shard: u64) -> usize {
    let slot = cluster.node(0).call(&["CLUSTER", "KEYSLOT", &format!("{{linger:{shard}}}")]).int();
    cluster.owner_of(u16::try_from(slot).expect("a slot"), 0)
}

fn shard(id: &JobId) -> u64 {
    xxh3_64(id.as_str().as_bytes()) % 16
}

/// Pops jobs while a server hangs, until every healthy shard has delivered some. Asserts that no pop waits for the hung server,
/// that no job is lost, and that jobs which arrived too late are returned uncounted.
async fn pop_with_a_hung_server(claims: &[Claim]) {
    // The timeout is so long that the Cluster does not consider the server failed during the test.
    let cluster = Cluster::start(60_000);
    let mode = Mode::Cluster(cluster.nodes());
    let options = Options { mode, ..Options::default() };
    assert_eq!(options.retry_for, RETRY_FOR);
    let listener = std::sync::Arc::new(Recorder::default());
    let connected = redis::connect(options, TimeSource::Server, listener, Metrics::new().engine).await;
    let store = connected.expect("connects");
    let jobs: Vec<AddJob> = (0..JOBS).map(|n| job(&format!("job-{n}"))).collect();
    store.add(jobs).await.expect("adds");
    // The first reserve of a process begins with shard 0.
    let first = owner(&cluster, 0);
    let hung =
        cluster.primaries(0).into_iter().find(|server| *server != first).expect("there are three primaries");
    let healthy: BTreeSet<u64> = (0..16).filter(|shard| owner(&cluster, *shard) != hung).collect();
    cluster.servers[hung].pause();
    let (clock, mut seen, time_limit) = (SystemClock::new(), BTreeSet::<JobId>::new(), TimeLimit::new());
    // A healthy server that is slow for a moment, on a busy machine, delivers its jobs to the next pop.
    let have_come = |seen: &BTreeSet<JobId>| healthy.iter().all(|of| seen.iter().any(|id| shard(id) == *of));
    while !have_come(&seen) {
        time_limit.check(|| format!("{} of {JOBS}", seen.len()));
        let began_us = clock.now_micros();
        let reserved = store.reserve(&plain("t"), claims, Wait::No).await.expect("reserves");
        let took = Duration::from_micros((clock.now_micros() - began_us).unsigned_abs());
        assert!(took < RETRY_FOR, "the pop waited for the hung server: {took:?}");
        for reserved in reserved {
            let finished =
                one(store.finish(ALL, finish(&reserved.job.id, &reserved.receipt)).await.expect("finishes"));
            assert_eq!(finished, Finished::Done { topic: topic("t") });
            assert!(seen.insert(reserved.job.id));
        }
    }
    assert!(seen.iter().all(|id| healthy.contains(&shard(id))), "the hung server delivered a job");
    cluster.servers[hung].resume();
    while seen.len() < JOBS {
        time_limit.check(|| format!("{} of {JOBS}", seen.len()));
        time_limit.pause().await;
        for reserved in
            store.reserve(&plain("t"), &vec![claim_for(ttr(3_600)); JOBS], Wait::No).await.expect("reserves")
        {
            assert_eq!(reserved.job.attempts, 1, "a job that arrived too late was returned uncounted");
            assert!(seen.insert(reserved.job.id));
        }
    }
    store.close().await.expect("closes");
}

/// The waiters of a topic have different names and TTRs.
#[tokio::test]
async fn a_hung_server_does_not_delay_the_jobs_of_the_others_for_different_claims() {
    let claims: Vec<Claim> = (0..JOBS).map(|n| claim_for(ttr(3_600 + n as u64 % 2))).collect();
    pop_with_a_hung_server(&claims).await;
}

#[tokio::test]
async fn a_hung_server_does_not_delay_the_jobs_of_the_others() {
    let claims = vec![claim_for(ttr(3_600)); JOBS];
    pop_with_a_hung_server(&claims).await;
}
