//! A server of a Cluster that hangs: jobs on the other servers are not affected.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use linger::{
    clock::{Clock, SystemClock},
    job::JobId,
    metrics::Metrics,
    store::{
        AddJob, Reservation, Store,
        redis::{self, Mode, Options, TimeSource},
    },
};

use super::{owner, shard};
use crate::harness::{cluster::Cluster, jobs::*, stores::Recorder, wait::TimeLimit};

const JOBS: usize = 320;
/// How long a call is retried by default. Reserved jobs must not wait for that long.
const RETRY_FOR: Duration = Duration::from_secs(5);

/// A store on a Cluster that has ready jobs on every server, one of which can hang.
struct Fixture {
    cluster: Cluster,
    store: Arc<dyn Store>,
    hung: usize,
    /// The shards of the other servers.
    healthy: BTreeSet<u64>,
    /// The jobs that were delivered.
    delivered: BTreeSet<JobId>,
    time_limit: TimeLimit,
}

impl Fixture {
    async fn new() -> Self {
        // The timeout is so long that the Cluster does not consider the server failed during the test.
        let cluster = Cluster::start(60_000);
        let options = Options { mode: Mode::Cluster(cluster.nodes()), ..Options::default() };
        assert_eq!(options.retry_for, RETRY_FOR);
        let listener = Arc::new(Recorder::default());
        let connected = redis::connect(options, TimeSource::Server, listener, Metrics::new().engine).await;
        let store = connected.expect("connects");
        let jobs: Vec<AddJob> = (0..JOBS).map(|n| job(&format!("job-{n}"))).collect();
        store.add(jobs).await.expect("adds");
        // The first reserve of a process begins with shard 0.
        let first = owner(&cluster, 0);
        let hung = cluster.primaries(0).into_iter().find(|server| *server != first);
        let hung = hung.expect("there are three primaries");
        let healthy = (0..16).filter(|shard| owner(&cluster, *shard) != hung).collect();
        let (delivered, time_limit) = (BTreeSet::new(), TimeLimit::new());
        Self { cluster, store, hung, healthy, delivered, time_limit }
    }

    /// Reserves jobs. No call may wait for a server that hangs.
    async fn reserve(&self, claims: &[Claim]) -> Vec<Reservation> {
        let clock = SystemClock::new();
        let began_us = clock.now_micros();
        let reserved = self.store.reserve(&plain("t"), claims, Wait::No).await.expect("reserves");
        let took = Duration::from_micros((clock.now_micros() - began_us).unsigned_abs());
        assert!(took < RETRY_FOR, "the pop waited for the hung server: {took:?}");
        reserved
    }

    /// Whether every healthy shard has delivered a job.
    fn every_healthy_shard_has_delivered(&self) -> bool {
        self.healthy.iter().all(|of| self.delivered.iter().any(|id| shard(id) == *of))
    }

    /// Pops and finishes jobs until every healthy shard has delivered one. A healthy server that is slow for a moment, on
    /// a busy machine, delivers its jobs to the next pop.
    async fn finish_jobs_of_every_healthy_shard(&mut self, claims: &[Claim]) {
        while !self.every_healthy_shard_has_delivered() {
            self.time_limit.check(|| format!("{} of {JOBS}", self.delivered.len()));
            for Reservation { job, receipt, .. } in self.reserve(claims).await {
                let done = self.store.finish(ALL, finish(&job.id, &receipt)).await.expect("finishes");
                assert_eq!(one(done), finished());
                assert!(self.delivered.insert(job.id));
            }
        }
    }

    /// Pops the jobs that were not delivered. Those that arrived too late are returned uncounted.
    async fn pop_the_rest(&mut self) {
        while self.delivered.len() < JOBS {
            self.time_limit.check(|| format!("{} of {JOBS}", self.delivered.len()));
            self.time_limit.pause().await;
            let claims = vec![claim_for(ttr(3_600)); JOBS];
            for reserved in self.store.reserve(&plain("t"), &claims, Wait::No).await.expect("reserves") {
                assert_eq!(reserved.job.attempts, 1, "a job that arrived too late was returned uncounted");
                assert!(self.delivered.insert(reserved.job.id));
            }
        }
    }
}

/// Asserts that pops with these claims do not wait for a server that hangs, and that none of its jobs is lost.
async fn pop_with_a_hung_server(claims: &[Claim]) {
    let mut fixture = Fixture::new().await;
    fixture.cluster.servers[fixture.hung].pause();
    fixture.finish_jobs_of_every_healthy_shard(claims).await;
    let is_of_healthy = |id: &JobId| fixture.healthy.contains(&shard(id));
    assert!(fixture.delivered.iter().all(is_of_healthy), "the hung server delivered a job");
    fixture.cluster.servers[fixture.hung].resume();
    fixture.pop_the_rest().await;
    fixture.store.close().await.expect("closes");
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
