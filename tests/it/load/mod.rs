//! Loads through the real program: producers and workers do everything that clients may do while faults happen, and the
//! history checker judges the result.
//!
//! The normal run is short. `LINGER_LOAD_JOBS` sets the number of jobs, `LINGER_LOAD_SECONDS` the range of their delays,
//! `LINGER_PROVE_KILLS` how often the embedded engine's process is killed during a load, and `LINGER_LOAD_SEED` the random
//! choices of the clients.

mod caller;
mod clients;
mod final_state;
mod job;
mod plan;
mod run;

use std::{path::Path, time::Duration};

use linger::clock::{Clock, SystemClock};
use rand::{RngExt, SeedableRng, rngs::StdRng};

pub use caller::{Caller, call_until_known};
pub use final_state::{counts, read_final_state};
pub use plan::{Plan, Report, setting};
pub use run::{Run, run};

use crate::harness::{
    process::{self, Server},
    redis::{fresh_prefix, shared},
};

/// Kills in one load. More kills need more loads, each of which is checked to its end.
const KILLS_PER_LOAD: u64 = 20;

fn start(listen: &str, arguments: &[&str], home: &Path) -> Server {
    let arguments: Vec<&str> =
        ["serve", "--listen", listen].into_iter().chain(arguments.iter().copied()).collect();
    Server::start(&arguments, home)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_on_the_embedded_engine_keeps_every_promise() {
    let home = tempfile::tempdir().expect("a directory");
    let server = start("127.0.0.1:0", &[], home.path());
    let report = run(Plan::from_environment(), &[server.address], async |_| {}).await;
    report.print("load_embedded", 0);
    report.assert_clean();
    assert!(server.stop().success());
    assert_verified(&[], home.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_on_redis_keeps_every_promise() {
    let home = tempfile::tempdir().expect("a directory");
    let settings = format!("[redis]\nprefix = \"{}\"\n", fresh_prefix());
    std::fs::write(home.path().join("settings.toml"), settings).expect("writes");
    let url = shared().url();
    let arguments = ["--config", "settings.toml", "--store", "redis", "--redis-url", &url];
    let server = start("127.0.0.1:0", &arguments, home.path());
    let report = run(Plan::from_environment(), &[server.address], async |_| {}).await;
    report.print("load_redis", 0);
    report.assert_clean();
    assert_verified(&arguments, home.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_under_load_the_embedded_engine_keeps_every_promise() {
    let mut kills = setting("LINGER_PROVE_KILLS", KILLS_PER_LOAD);
    while kills > 0 {
        let round = kills.min(KILLS_PER_LOAD);
        let report = load_with_kills(round).await;
        report.print("kill_embedded", round);
        report.assert_clean();
        kills -= round;
    }
}

/// A load during which the server is killed at random times, as often as `kills` says.
async fn load_with_kills(kills: u64) -> Report {
    let home = tempfile::tempdir().expect("a directory");
    let mut server = start("127.0.0.1:0", &[], home.path());
    let address = server.address;
    let report = run(Plan::from_environment(), &[address], async |run| {
        let mut random = StdRng::seed_from_u64(run.plan.seed + 2_000);
        for kill in 1..=kills {
            SystemClock::new().sleep(Duration::from_millis(random.random_range(20..600))).await;
            server.kill();
            server = start(&address.to_string(), &[], home.path());
            println!("kill {kill}: {} acknowledged, {} open", run.acknowledged(), run.open_jobs());
        }
    })
    .await;
    server.kill();
    assert_verified(&[], home.path());
    report
}

/// Asserts that `linger verify` finds no fault in the store.
pub fn assert_verified(arguments: &[&str], home: &Path) {
    let verified = process::run(&[&["verify"], arguments].concat(), home);
    assert!(verified.status.success(), "{}{}", process::stdout(&verified), process::stderr(&verified));
}
