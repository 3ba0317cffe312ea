//! Two processes under load while their Redis is killed and started again, forgets its scripts, drops its
//! connections, hangs and is stopped: nothing is lost.
//!
//! `LINGER_PROVE_REDIS_STORMS` sets how many such storms there are.

use std::time::Duration;

use linger::{
    clock::{Clock, SystemClock},
    store::redis::Options,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{Process, Raw};
use crate::{
    checker::Law,
    harness::{process::Server, redis::RedisServer},
    load::{Plan, Report, run, setting},
};

/// Storms in one load; more come in rounds of their own, each checked to the end.
const STORMS_A_ROUND: u64 = 10;

#[derive(Debug, Clone, Copy)]
enum Storm {
    Kill,
    FlushScripts,
    DropConnections,
    Hang,
    Stop,
}

const STORMS: [Storm; 5] =
    [Storm::Kill, Storm::FlushScripts, Storm::DropConnections, Storm::Hang, Storm::Stop];

async fn strike(storm: Storm, redis: &RedisServer) {
    let sent = async |words: &[&str]| drop(Raw::connect(&redis.url()).await.send(words).await);
    match storm {
        Storm::Kill => tokio::task::block_in_place(|| redis.restart()),
        Storm::FlushScripts => sent(&["SCRIPT", "FLUSH"]).await,
        Storm::DropConnections => sent(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await,
        Storm::Hang => sent(&["DEBUG", "SLEEP", "0.5"]).await,
        Storm::Stop => {
            redis.pause();
            SystemClock::new().sleep(Duration::from_millis(500)).await;
            redis.resume();
        }
    }
}

/// A load on two processes with these storms in turn; what it came to, and what verification found after.
async fn storms(redis: &RedisServer, count: u64, kinds: &[Storm]) -> (Report, Vec<String>) {
    let home = tempfile::tempdir().expect("a directory");
    let url = redis.url();
    let words = ["--store", "redis", "--redis-url", &url];
    let servers = [(); 2].map(|()| Server::serve(&words, &[], home.path()));
    let plan = Plan { jobs: Plan::from_environment().jobs / 2, clients: 4, ..Plan::from_environment() };
    let report = run(plan, &servers.each_ref().map(|server| server.address), async |run| {
        let mut random = StdRng::seed_from_u64(run.plan.seed + 3_000);
        for (_, storm) in (0..count).zip(kinds.iter().cycle()) {
            SystemClock::new().sleep(Duration::from_millis(random.random_range(20..600))).await;
            strike(*storm, redis).await;
        }
    })
    .await;
    let process = Process::start(&Options::new(&url)).await;
    (report, process.store.verify().await.expect("verifies").faults)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_with_many_faults_loses_nothing_that_it_acknowledged() {
    let mut left = setting("LINGER_PROVE_REDIS_STORMS", STORMS_A_ROUND);
    while left > 0 {
        let count = left.min(STORMS_A_ROUND);
        let always = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
        let redis = RedisServer::start_with(&always);
        let (report, faults) = storms(&redis, count, &STORMS).await;
        report.print("storms_redis", count);
        report.assert_clean();
        assert_eq!(faults, Vec::<String>::new());
        left -= count;
    }
}

/// What this setting loses is admitted, so it is only told; but what is left is sound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_syncs_every_second_is_consistent_after_kills() {
    let count = setting("LINGER_PROVE_REDIS_STORMS", 5).min(STORMS_A_ROUND);
    let every_second = ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"];
    let redis = RedisServer::start_with(&every_second);
    let (report, faults) = storms(&redis, count, &[Storm::Kill]).await;
    let undone = report.verdict.violations.len();
    // What Redis forgot may be undone; nothing makes a job early or out of nothing.
    assert_eq!([Law::NeverEarly, Law::NothingInvented].map(|law| report.verdict.count(law)), [0, 0]);
    println!(
        "proof: what=kill_redis_everysec runs=1 admitted_faults={count} admitted_jobs={} undone={undone} violations={}",
        report.verdict.acknowledged,
        faults.len(),
    );
    assert!(report.came_to_rest, "the load did not come to rest");
    assert_eq!(faults, Vec::<String>::new());
}
