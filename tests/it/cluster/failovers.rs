//! Primaries that change under load: by an operator's command, and by `kill -9`.

use std::sync::Arc;

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{aside, serve};
use crate::{
    harness::{cluster::Cluster, redis::fresh_prefix, resp::until},
    load::{Plan, Report, run, setting},
};

/// After how long without a word the servers of a Cluster give each other up, in milliseconds.
const NODE_TIMEOUT_MS: u32 = 2_000;

/// Jobs that must get through before the next fault.
const ADDS_BETWEEN: usize = 200;

/// A load on a Cluster of its own, with these settings, that loses its primaries so often by `fault`,
/// which is handed a random number to choose one.
async fn failovers(times: u64, settings: &str, fault: fn(&Cluster, usize)) -> Report {
    let cluster = Arc::new(Cluster::start(NODE_TIMEOUT_MS));
    let (home, prefix) = (tempfile::tempdir().expect("a directory"), fresh_prefix());
    let server = serve(&cluster, &prefix, settings, home.path());
    let channel = format!("{{{prefix}}}:ready");
    run(Plan::light(), &[server.address], async |run| {
        let mut random = StdRng::seed_from_u64(run.plan.seed + 4_000);
        for number in 1..=times {
            run.progress(ADDS_BETWEEN).await;
            let (lot, channel) = (random.random_range(0..3), channel.clone());
            aside(&cluster, move |cluster| {
                fault(cluster, lot);
                let listens = || cluster.subscribers(&channel).iter().sum::<i64>() == 1;
                assert!(until(listens), "announcements are heard again: {:?}", cluster.subscribers(&channel));
            })
            .await;
            println!("failover {number}: {} acknowledged, {} on their way", run.acknowledged(), run.open());
        }
    })
    .await
}

/// How often a replica is told to take over. One that cannot within five seconds, as on a machine that stands
/// still, forgets about it (Redis, CLUSTER FAILOVER).
const ORDERS: usize = 3;

/// Has a replica take over from its primary, which hands over what it has.
fn hand_over(cluster: &Cluster, lot: usize) {
    let all = 0..cluster.servers.len();
    let primaries = cluster.primaries(0);
    let replica = all.filter(|n| !primaries.contains(n)).nth(lot).expect("there are three");
    let takes_over = |_| {
        cluster.node(replica).call(&["CLUSTER", "FAILOVER"]);
        until(|| cluster.primaries(replica).contains(&replica))
    };
    assert!((0..ORDERS).any(takes_over), "{replica} took over");
    cluster.wait_until_healthy();
}

/// Kills a primary, and starts it again once its replica has taken over.
fn kill(cluster: &Cluster, lot: usize) {
    let victim = cluster.primaries(0)[lot];
    let asked = (victim + 1) % cluster.servers.len();
    cluster.servers[victim].kill();
    assert!(until(|| !cluster.primaries(asked).contains(&victim)), "another took over from {victim}");
    cluster.servers[victim].restart();
    cluster.wait_until_healthy();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn primaries_that_hand_over_under_load_lose_and_double_nothing() {
    let times = setting("LINGER_PROVE_FAILOVERS", 3);
    let report = failovers(times, "", hand_over).await;
    report.print("cluster_failovers", times);
    report.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_primaries_lose_nothing_that_a_replica_had_to_receive() {
    let times = setting("LINGER_PROVE_FAILOVERS", 1);
    let report = failovers(times, "wait_replicas = 1\n", kill).await;
    report.print("cluster_kills_with_wait", times);
    report.assert_clean();
}
