//! Loads through the real program: producers and workers do everything that clients may do while faults happen, and the
//! history checker judges the result.
//!
//! The normal run is short. `LINGER_LOAD_JOBS` sets the number of jobs, `LINGER_LOAD_SECONDS` the range of their delays,
//! `LINGER_PROVE_KILLS` how often a process is killed during a load, and `LINGER_LOAD_SEED` the random
//! choices of the clients.

mod caller;
mod clients;
mod final_state;
mod job;
mod old_clients;
mod plan;
mod run;

use std::{path::Path, time::Duration};

use linger::clock::{Clock, SystemClock};
use rand::{RngExt, SeedableRng, rngs::StdRng};

pub use caller::{Caller, call_until_known};
pub use final_state::{counts, read_final_state};
use old_clients::{OldAddresses, OldClients, TRIES};
pub use plan::{Plan, Report, setting};
use run::TOPIC;
pub use run::{Run, run};

use crate::harness::{
    dialect::address_of,
    process::{self, Server},
    redis::{fresh_prefix, shared},
};

/// Kills in one load. More kills need more loads, each of which is checked to its end.
const KILLS_PER_LOAD: u64 = 20;
const KILLS_BESIDE_OLD_CLIENTS: u64 = 5;

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

/// Old and new clients share jobs while the server is killed.
async fn load_with_old_clients(arguments: &[&str], settings: &str) {
    let home = tempfile::tempdir().expect("a directory");
    let write_settings = |lmstfy: &str, ouqiang: &str| {
        let dialects = format!(
            "[compat.lmstfy]\nlisten = \"{lmstfy}\"\n[compat.ouqiang]\nlisten = \"{ouqiang}\"\nmax_wait = \"1s\"\n"
        );
        std::fs::write(home.path().join("settings.toml"), format!("{settings}{dialects}")).expect("writes");
    };
    write_settings("127.0.0.1:0", "127.0.0.1:0");
    let arguments = [&["--config", "settings.toml"], arguments].concat();
    let mut server = start("127.0.0.1:0", &arguments, home.path());
    let addresses = OldAddresses {
        lmstfy: address_of(&server, "listening for clients of lmstfy"),
        ouqiang: address_of(&server, "listening for clients of ouqiang/delay-queue"),
    };
    write_settings(&addresses.lmstfy.to_string(), &addresses.ouqiang.to_string());
    let native = server.address;
    let kills = setting("LINGER_PROVE_KILLS", KILLS_BESIDE_OLD_CLIENTS);
    let plan = Plan { jobs: 300, clients: 4, most_attempts: TRIES, ..Plan::from_environment() };
    // The TTR of lmstfy's jobs and the limit of ouqiang's: their adds have none.
    let settings = format!("{{\"ttr\":{},\"max_attempts\":{TRIES}}}", plan.ttr);
    assert_eq!(server.call("PUT", &format!("/topics/{TOPIC}"), &settings).status, 200);
    let report = run(plan, &[native], async |run| {
        let mut random = StdRng::seed_from_u64(run.plan.seed + 2_000);
        let kill = async {
            for _ in 0..kills {
                run.wait_for_adds(random.random_range(20..100)).await;
                server.kill();
                server = start(&native.to_string(), &arguments, home.path());
            }
        };
        OldClients::new(run, addresses).work_during(kill).await;
    })
    .await;
    report.print("old_clients", kills);
    report.assert_clean();
    server.kill();
    assert_verified(&arguments, home.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_and_new_clients_lose_nothing_while_the_embedded_engine_is_killed() {
    load_with_old_clients(&[], "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_and_new_clients_lose_nothing_while_a_process_on_redis_is_killed() {
    let settings = format!("[redis]\nprefix = \"{}\"\n", fresh_prefix());
    let url = shared().url();
    load_with_old_clients(&["--store", "redis", "--redis-url", &url], &settings).await;
}

/// Asserts that `linger verify` finds no fault in the store.
pub fn assert_verified(arguments: &[&str], home: &Path) {
    let verified = process::run(&[&["verify"], arguments].concat(), home);
    assert!(verified.status.success(), "{}{}", process::stdout(&verified), process::stderr(&verified));
}
