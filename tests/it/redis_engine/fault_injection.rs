//! Fault injection under load: two processes use a Redis that is killed and restarted, loses its scripts and its
//! connections, hangs and is stopped. No acknowledged job is lost.
//!
//! `LINGER_PROVE_REDIS_FAULTS` sets the number of faults.

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

/// Faults in one load. More faults need further loads, each of which is checked.
const FAULTS_PER_LOAD: u64 = 10;

#[derive(Debug, Clone, Copy)]
enum ServerFault {
    Kill,
    FlushScripts,
    DropConnections,
    Hang,
    Stop,
}

const ALL_FAULTS: [ServerFault; 5] = [
    ServerFault::Kill,
    ServerFault::FlushScripts,
    ServerFault::DropConnections,
    ServerFault::Hang,
    ServerFault::Stop,
];

/// How long a server is stopped: most of the time for less than `redis.command_timeout`, and once for longer.
const STOPS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(3)];

async fn inject(fault: ServerFault, redis: &RedisServer, stop: Duration) {
    let send = async |words: &[&str]| drop(Raw::connect(&redis.url()).await.send(words).await);
    match fault {
        ServerFault::Kill => tokio::task::block_in_place(|| redis.restart()),
        ServerFault::FlushScripts => send(&["SCRIPT", "FLUSH"]).await,
        ServerFault::DropConnections => send(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await,
        ServerFault::Hang => send(&["DEBUG", "SLEEP", "0.5"]).await,
        ServerFault::Stop => {
            redis.pause();
            SystemClock::new().sleep(stop).await;
            redis.resume();
        }
    }
}

/// Runs a load on two processes while these kinds of faults are injected in turn. Returns the report of the load, and
/// what a verification found afterwards.
async fn load_with_faults(
    redis: &RedisServer,
    count: u64,
    kinds: &[ServerFault],
    changes: bool,
) -> (Report, Vec<String>) {
    let home = tempfile::tempdir().expect("a directory");
    let url = redis.url();
    let arguments = ["--store", "redis", "--redis-url", &url];
    let servers = [(); 2].map(|()| Server::serve(&arguments, &[], home.path()));
    let jobs = Plan::from_environment().jobs / 2;
    let plan = Plan { jobs, clients: 4, changes, ..Plan::from_environment() };
    let report = run(plan, &servers.each_ref().map(|server| server.address), async |run| {
        let mut random = StdRng::seed_from_u64(run.plan.seed + 3_000);
        for (number, fault) in (0..count).zip(kinds.iter().cycle()) {
            SystemClock::new().sleep(Duration::from_millis(random.random_range(20..600))).await;
            let is_first = number < kinds.len() as u64;
            inject(*fault, redis, STOPS[usize::from(is_first)]).await;
        }
    })
    .await;
    let process = Process::start(&Options::new(&url)).await;
    (report, process.store.verify().await.expect("verifies").faults)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_with_many_faults_loses_nothing_that_it_acknowledged() {
    let mut left = setting("LINGER_PROVE_REDIS_FAULTS", FAULTS_PER_LOAD);
    while left > 0 {
        let count = left.min(FAULTS_PER_LOAD);
        let always = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
        let redis = RedisServer::start_with(&always);
        let (report, faults) = load_with_faults(&redis, count, &ALL_FAULTS, true).await;
        report.print("storms_redis", count);
        report.assert_clean();
        assert_eq!(faults, Vec::<String>::new());
        left -= count;
    }
}

/// With this setting Redis may lose acknowledged changes, so losses are only reported. What remains must be consistent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_syncs_every_second_is_consistent_after_kills() {
    let count = setting("LINGER_PROVE_REDIS_FAULTS", 5).min(FAULTS_PER_LOAD);
    let every_second = ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"];
    let redis = RedisServer::start_with(&every_second);
    // A job whose change of the due time is lost would be early.
    let (report, faults) = load_with_faults(&redis, count, &[ServerFault::Kill], false).await;
    let undone = report.verdict.violations.len();
    // Changes that Redis lost may be undone, but no job may be early or invented.
    assert_eq!([Law::NeverEarly, Law::NothingInvented].map(|law| report.verdict.count(law)), [0, 0]);
    println!(
        "proof: what=kill_redis_everysec control=may_be_lost runs=1 admitted_faults={count} admitted_jobs={} undone={undone} \
         violations={}",
        report.verdict.acknowledged,
        faults.len(),
    );
    assert!(report.came_to_rest, "the load did not come to rest");
    assert_eq!(faults, Vec::<String>::new());
}
