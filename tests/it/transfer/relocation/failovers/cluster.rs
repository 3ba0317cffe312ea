//! Failovers in a Cluster: of the server with the mark of the move, and of one that has only jobs.

use std::net::SocketAddr;

use super::{
    JOBS, LAST, Middle, Mover, OTHER_JOBS, Producer, REPLACED_AFTER_MS, SOURCE, Setup, assert_explained,
    assert_moved_whole, fill, standalone,
};
use crate::harness::{
    cluster::Cluster,
    redis::{fresh_prefix, shared},
    resp::until,
};

/// The only replica must receive a change before it is acknowledged, so that no failover loses it.
const EVERY_REPLICA: &str = "wait_replicas = 1\nwait_timeout = '3s'\n";

/// The primary with the mark of the move.
fn primary_with_mark(cluster: &Cluster, prefix: &str) -> usize {
    let slot = cluster.node(0).call(&["CLUSTER", "KEYSLOT", &format!("{{{prefix}}}:meta")]).int();
    cluster.owner_of(u16::try_from(slot).expect("a slot"), 0)
}

/// A primary without it.
fn primary_without_mark(cluster: &Cluster, prefix: &str) -> usize {
    let with_mark = primary_with_mark(cluster, prefix);
    cluster.primaries(0).into_iter().find(|primary| *primary != with_mark).expect("there are three primaries")
}

/// The addresses of all primaries.
fn primaries(cluster: &Cluster) -> Vec<SocketAddr> {
    cluster.primaries(0).into_iter().map(|primary| cluster.servers[primary].address()).collect()
}

/// Kills a primary while a mover is in the middle, and waits for the end of the run.
fn fail_over(mover: Mover, cluster: &Cluster, primary: usize, middle: &Middle<'_>) {
    mover.suspend_in(middle);
    cluster.servers[primary].kill();
    mover.resume();
    cluster.set_node_timeout(REPLACED_AFTER_MS[0]);
    let other = (primary + 1) % cluster.servers.len();
    assert!(until(|| !cluster.primaries(other).contains(&primary)), "no replica took over from {primary}");
    cluster.set_node_timeout(REPLACED_AFTER_MS[1]);
    assert_explained(mover.wait());
    cluster.servers[primary].restart();
    cluster.wait_until_healthy();
}

#[test]
fn a_cluster_that_fails_over_during_each_run_is_moved_whole() {
    let (cluster, prefix) = (Cluster::start(REPLACED_AFTER_MS[1]), fresh_prefix());
    let (proxy, target, target_prefix) = standalone();
    let setup = Setup::new(&(cluster.settings(&prefix) + EVERY_REPLICA), &target);
    let server = setup.serve(SOURCE);
    fill(&server, "job", JOBS);
    let producer = Producer::start(&server);
    let middle = || Middle::plan(&proxy, vec![shared().address()], &target_prefix);
    let in_middle = middle();
    fail_over(setup.start(&[]), &cluster, primary_with_mark(&cluster, &prefix), &in_middle);
    fill(&server, "more", JOBS);
    let in_middle = middle();
    fail_over(setup.start(&LAST), &cluster, primary_without_mark(&cluster, &prefix), &in_middle);
    setup.run(&LAST);
    assert_moved_whole(&setup, server, producer);
}

#[test]
fn a_cluster_that_fails_over_during_each_run_receives_all_jobs() {
    let (cluster, prefix) = (Cluster::start(REPLACED_AFTER_MS[1]), fresh_prefix());
    let (proxy, source, _) = standalone();
    let setup = Setup::new(&source, &cluster.settings(&prefix));
    let server = setup.serve(SOURCE);
    fill(&server, "job", JOBS);
    let middle = || Middle::plan(&proxy, primaries(&cluster), &prefix);
    let in_middle = middle();
    fail_over(setup.start(&[]), &cluster, primary_without_mark(&cluster, &prefix), &in_middle);
    fill(&server, "more", JOBS);
    assert!(server.stop().success());
    let content = setup.content(SOURCE);
    assert_eq!(content.jobs.len(), 2 * (JOBS + OTHER_JOBS));
    let in_middle = middle();
    fail_over(setup.start(&LAST), &cluster, primary_with_mark(&cluster, &prefix), &in_middle);
    setup.run(&LAST);
    setup.assert_moved(&content);
}
