//! Failovers under load: by an operator's command, and after `kill -9`.

use std::sync::Arc;

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{run_blocking, serve};
use crate::{
    harness::{cluster::Cluster, redis::fresh_prefix, resp::until},
    load::{Plan, Report, run, setting},
};

/// After how long without a reply the servers of a Cluster consider each other failed, in milliseconds, where a server
/// is killed.
const NODE_TIMEOUT_MS: u32 = 2_000;
/// The default of Redis, for handovers by command. With a shorter timeout a server that a busy machine holds up would
/// fail over by itself, and lose what its replica does not have.
const DEFAULT_NODE_TIMEOUT_MS: u32 = 15_000;

/// The number of jobs that must be added before the next fault.
const ADDS_BETWEEN: usize = 50;

/// A load on a Cluster of its own, with these settings, during which `fault` makes a primary fail over `times` times. Its
/// second argument is a random number to choose the primary.
async fn load_with_failovers(
    times: u64,
    node_timeout_ms: u32,
    settings: &str,
    fault: fn(&Cluster, usize),
) -> Report {
    let cluster = Arc::new(Cluster::start(node_timeout_ms));
    let (directory, prefix) = (tempfile::tempdir().expect("a directory"), fresh_prefix());
    let server = serve(&cluster, &prefix, settings, directory.path());
    let channel = format!("{{{prefix}}}:ready");
    run(Plan::light(), &[server.address], async |run| {
        let mut random = StdRng::seed_from_u64(run.plan.seed + 4_000);
        for number in 1..=times {
            run.wait_for_adds(ADDS_BETWEEN).await;
            let (choice, channel) = (random.random_range(0..3), channel.clone());
            run_blocking(&cluster, move |cluster| {
                fault(cluster, choice);
                let is_subscribed = || cluster.subscribers(&channel).iter().sum::<i64>() == 1;
                assert!(
                    until(is_subscribed),
                    "the server is not subscribed to the announcements: {:?}",
                    cluster.subscribers(&channel)
                );
            })
            .await;
            println!("failover {number}: {} acknowledged, {} open", run.acknowledged(), run.open_jobs());
        }
    })
    .await
}

/// How often the command to take over is sent. A replica that cannot take over within five seconds, as on a very busy
/// machine, gives up (Redis, CLUSTER FAILOVER).
const ATTEMPTS: usize = 3;

/// Makes a replica take over from its primary, which first sends it all changes.
fn fail_over(cluster: &Cluster, choice: usize) {
    let all = 0..cluster.servers.len();
    let primaries = cluster.primaries(0);
    let replica = all.filter(|n| !primaries.contains(n)).nth(choice).expect("there are three replicas");
    let fails_over = |_| {
        cluster.node(replica).call(&["CLUSTER", "FAILOVER"]);
        until(|| cluster.primaries(replica).contains(&replica))
    };
    assert!((0..ATTEMPTS).any(fails_over), "{replica} did not take over");
    cluster.wait_until_healthy();
}

/// Kills a primary, and starts it again once its replica has taken over.
fn kill(cluster: &Cluster, choice: usize) {
    let victim = cluster.primaries(0)[choice];
    let other = (victim + 1) % cluster.servers.len();
    cluster.servers[victim].kill();
    assert!(until(|| !cluster.primaries(other).contains(&victim)), "no replica took over from {victim}");
    cluster.servers[victim].restart();
    cluster.wait_until_healthy();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failovers_by_command_lose_and_double_no_job() {
    let times = setting("LINGER_PROVE_FAILOVERS", 3);
    let report = load_with_failovers(times, DEFAULT_NODE_TIMEOUT_MS, "", fail_over).await;
    report.print("cluster_failovers", times);
    report.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_primaries_lose_no_change_that_a_replica_acknowledged() {
    let times = setting("LINGER_PROVE_FAILOVERS", 1);
    let report = load_with_failovers(times, NODE_TIMEOUT_MS, "wait_replicas = 1\n", kill).await;
    report.print("cluster_kills_with_wait", times);
    report.assert_clean();
}
