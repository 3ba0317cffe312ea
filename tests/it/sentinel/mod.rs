//! The Redis engine behind Sentinel, whose primary is killed and stopped under load, through the real
//! program. What was acknowledged is kept where replicas had to have it; elsewhere the loss is told.
//!
//! `LINGER_PROVE_FAILOVERS` sets how many primaries fall, in each way.

mod durable;
mod fitness;
mod partition;

use std::sync::Arc;

use crate::{
    harness::{process::Server, redis::fresh_prefix, resp::until, sentinel::Sentinels},
    load::{Plan, Report, run, setting},
};

/// Jobs that must get through before the next fault.
const ADDS_BETWEEN: usize = 100;
/// Every replica must have a change: were it one of two, Sentinel might promote the other, whose offset it
/// compares by reports of up to ten seconds ago.
const EVERY_REPLICA: &str = "wait_replicas = 2\n";
/// What has a server refuse writes that no replica would get.
const CAREFUL: [&str; 4] = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"];

/// A load behind Sentinel that loses its primary so often by `fault`, which is handed the primary and
/// returns once another has its place.
async fn failovers(times: u64, arguments: &[&str], settings: &str, fault: fn(&Sentinels, usize)) -> Report {
    let sentinels = Arc::new(Sentinels::start(arguments));
    let home = tempfile::tempdir().expect("a directory");
    let settings = format!("{}{settings}", sentinels.settings(&fresh_prefix()));
    std::fs::write(home.path().join("settings.toml"), settings).expect("writes");
    let server = Server::serve(&["--config", "settings.toml"], &[], home.path());
    run(Plan::light(), &[server.address], async |run| {
        for number in 1..=times {
            run.progress(ADDS_BETWEEN).await;
            let shared = sentinels.clone();
            let lost = tokio::task::spawn_blocking(move || {
                let primary = shared.primary();
                fault(&shared, primary);
                shared.wait_until_healthy();
            });
            lost.await.expect("another took over");
            println!("failover {number}: {} acknowledged, {} on their way", run.acknowledged(), run.open());
        }
    })
    .await
}

fn another_took_over(sentinels: &Sentinels, primary: usize) {
    assert!(until(|| sentinels.primary() != primary), "another took over from {primary}");
}

/// Kills the primary, and starts it again once another has its place.
fn kill(sentinels: &Sentinels, primary: usize) {
    sentinels.servers[primary].kill();
    another_took_over(sentinels, primary);
    sentinels.servers[primary].restart();
}

/// Stops the primary until another has its place; then it goes on as if nothing had been.
fn pause(sentinels: &Sentinels, primary: usize) {
    sentinels.servers[primary].pause();
    another_took_over(sentinels, primary);
    sentinels.servers[primary].resume();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_loses_nothing_that_replicas_had_to_receive() {
    let times = setting("LINGER_PROVE_FAILOVERS", 1);
    let report = failovers(times, &CAREFUL, EVERY_REPLICA, kill).await;
    report.print("sentinel_kills_with_wait", times);
    report.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_primary_that_continues_loses_nothing_that_replicas_had_to_receive() {
    let times = setting("LINGER_PROVE_FAILOVERS", 1);
    let report = failovers(times, &CAREFUL, EVERY_REPLICA, pause).await;
    report.print("sentinel_pauses_with_wait", times);
    report.assert_clean();
}
