//! The Redis engine behind Sentinel, whose primary is killed, stopped and isolated under load, through the real program. No
//! acknowledged change is lost that replicas had to receive; without replicas, the test prints how much was lost.
//!
//! `LINGER_PROVE_FAILOVERS` sets the number of failovers of each kind.

mod durable;
mod fitness;
mod partition;

use std::sync::Arc;

use crate::{
    harness::{process::Server, redis::fresh_prefix, resp::until, sentinel::Sentinels},
    load::{Plan, Report, run, setting},
};

/// The number of jobs that must be added before the next fault.
const ADDS_BETWEEN: usize = 50;
/// Every replica must receive a change. If one of two were enough, Sentinel might promote the other one, because it
/// compares offsets from reports that may be ten seconds old.
const EVERY_REPLICA: &str = "wait_replicas = 2\n";
/// Makes a server refuse writes that no replica would receive.
const REFUSE_WITHOUT_REPLICAS: [&str; 4] = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"];

/// A load behind Sentinel during which `fault` takes the primary away `times` times. It returns once another server was
/// promoted.
async fn load_with_failovers(
    times: u64,
    arguments: &[&str],
    settings: &str,
    fault: fn(&Sentinels, usize),
) -> Report {
    let sentinels = Arc::new(Sentinels::start(arguments));
    let directory = tempfile::tempdir().expect("a directory");
    let settings = format!("{}{settings}", sentinels.settings(&fresh_prefix()));
    std::fs::write(directory.path().join("settings.toml"), settings).expect("writes");
    let server = Server::serve(&["--config", "settings.toml"], &[], directory.path());
    run(Plan::light(), &[server.address], async |run| {
        for number in 1..=times {
            run.wait_for_adds(ADDS_BETWEEN).await;
            let shared = sentinels.clone();
            let lost = tokio::task::spawn_blocking(move || {
                let primary = shared.primary();
                fault(&shared, primary);
                shared.wait_until_healthy();
            });
            lost.await.expect("another server takes over");
            println!("failover {number}: {} acknowledged, {} open", run.acknowledged(), run.open_jobs());
        }
    })
    .await
}

fn wait_until_another_took_over(sentinels: &Sentinels, primary: usize) {
    assert!(until(|| sentinels.primary() != primary), "no server took over from {primary}");
}

/// Kills the primary, and starts it again once another server was promoted.
fn kill(sentinels: &Sentinels, primary: usize) {
    sentinels.servers[primary].kill();
    wait_until_another_took_over(sentinels, primary);
    sentinels.servers[primary].restart();
}

/// Stops the primary until another server was promoted, then lets it continue.
fn pause(sentinels: &Sentinels, primary: usize) {
    sentinels.servers[primary].pause();
    wait_until_another_took_over(sentinels, primary);
    sentinels.servers[primary].resume();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_loses_no_change_that_replicas_had_to_receive() {
    let times = setting("LINGER_PROVE_FAILOVERS", 1);
    let report = load_with_failovers(times, &REFUSE_WITHOUT_REPLICAS, EVERY_REPLICA, kill).await;
    report.print("sentinel_kills_with_wait", times);
    report.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_primary_that_continues_loses_no_change_that_replicas_had_to_receive() {
    let times = setting("LINGER_PROVE_FAILOVERS", 1);
    let report = load_with_failovers(times, &REFUSE_WITHOUT_REPLICAS, EVERY_REPLICA, pause).await;
    report.print("sentinel_pauses_with_wait", times);
    report.assert_clean();
}
