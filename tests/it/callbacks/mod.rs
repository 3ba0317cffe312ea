//! Callbacks from outside: real servers call a receiver, and its log is checked against the guarantees.
//!
//! The loads take their parameters from the same variables as those in `load`.

mod behavior;
mod hostile;
mod load;
mod log;
mod lost;
mod settings;
mod shutdown;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use hyper::Method;
use linger::clock::{Clock, SystemClock};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use self::load::{CallLoad, CallReport, HOOKS, OWN, run};
use crate::{
    harness::{
        process::Server,
        redis::{fresh_prefix, shared},
    },
    load::{Plan, assert_verified, setting},
};

/// Kills in the normal run, and in one load.
const KILLS: u64 = 5;
const KILLS_PER_LOAD: u64 = 20;
/// Processes on one Redis.
const PROCESSES: usize = 3;
/// Longer than the reservation of a call in these loads.
const STOP: Duration = Duration::from_secs(14);
/// The longest time between two faults while a process is frozen.
const MOST_BETWEEN_FAULTS: Duration = Duration::from_secs(1);
/// How often the topic's callback is changed, and the topic paused, during a load.
const CHANGES: u64 = 2;

fn plan() -> Plan {
    let jobs = usize::try_from(setting("LINGER_LOAD_JOBS", 1_000)).expect("fits");
    Plan { jobs, clients: 4, ..Plan::from_environment() }
}

/// Where servers keep their jobs: a directory, or a prefix on the shared Redis.
pub struct Home {
    directory: TempDir,
    /// Of every command on these jobs.
    arguments: &'static [&'static str],
}

impl Home {
    fn embedded() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory"), arguments: &[] }
    }

    /// In memory: these jobs are not there to test a disk, and the last syncs of a busy one may take longer than what silent
    /// calls leave of a shutdown's grace.
    fn embedded_in_memory() -> Self {
        Self { directory: tempfile::tempdir_in("/dev/shm").expect("a directory"), ..Self::embedded() }
    }

    fn redis() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let (url, prefix) = (shared().url(), fresh_prefix());
        let settings =
            format!("[store]\nengine = \"redis\"\n[redis]\nurl = \"{url}\"\nprefix = \"{prefix}\"\n");
        std::fs::write(directory.path().join("settings.toml"), settings).expect("writes");
        Self { directory, arguments: &["--config", "settings.toml"] }
    }

    /// Starts a server.
    fn start(&self) -> Server {
        self.start_with(&[])
    }

    /// Starts a server with additional environment variables.
    fn start_with(&self, variables: &[(&str, &str)]) -> Server {
        Server::serve(self.arguments, variables, self.directory.path())
    }

    /// Starts a server at the address of an earlier one.
    fn start_at(&self, address: SocketAddr) -> Server {
        let listen = address.to_string();
        Server::start(&[&["serve", "--listen", &listen], self.arguments].concat(), self.directory.path())
    }

    fn assert_verified(&self) {
        assert_verified(self.arguments, self.directory.path());
    }
}

/// Makes a test on each engine of every function named, which takes its [`Home`].
macro_rules! on_both_engines {
    ($($case:ident),+ $(,)?) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case($crate::callbacks::Home::embedded_in_memory()).await;
            })+
        }
        mod redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case($crate::callbacks::Home::redis()).await;
            })+
        }
    };
}
use on_both_engines;

on_both_engines! { changes_of_a_topics_callback_and_pauses_reach_the_jobs_that_wait }

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_job_of_a_load_on_the_embedded_engine_is_called() {
    let home = Home::embedded();
    let server = home.start();
    let load = run(plan(), &[server.address], async |_| {}).await;
    load.report.print("callbacks_embedded", 0);
    load.assert_clean();
    assert_eq!(repeated(&load), [""; 0]);
    assert!(server.stop().success());
    home.assert_verified();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_job_of_a_load_on_redis_is_called() {
    let home = Home::redis();
    let server = home.start();
    let load = run(plan(), &[server.address], async |_| {}).await;
    load.report.print("callbacks_redis", 0);
    load.assert_clean();
    // On a busy machine Redis may answer a finish after the end of the reservation, which the server then counts.
    let lost: f64 = [HOOKS, OWN].map(|topic| behavior::callbacks_total(&server, topic, "lost")).iter().sum();
    let again = repeated(&load);
    assert!(again.len() as f64 <= lost, "{lost} were lost: {again:?}");
    assert!(server.stop().success());
    home.assert_verified();
}

/// The jobs that were answered with 204 and called again all the same.
fn repeated(load: &CallReport) -> Vec<String> {
    let calls = load.receiver.calls();
    let once = calls.iter().filter(|call| call.job().starts_with("ok-"));
    once.filter(|call| call.attempt() > 1).map(|call| call.job().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_in_the_middle_of_calls_no_job_is_lost() {
    let mut kills = setting("LINGER_PROVE_KILLS", KILLS);
    while kills > 0 {
        let round = kills.min(KILLS_PER_LOAD);
        let home = Home::embedded();
        let mut server = home.start();
        let address = server.address;
        let load = run(Plan::light(), &[address], async |load| {
            let mut random = StdRng::seed_from_u64(load.plan.seed + 2_000);
            let most_between = load.plan.jobs / usize::try_from(round).expect("fits");
            for _ in 0..round {
                load.wait_for_calls(random.random_range(1..=most_between.max(1))).await;
                server.kill();
                server = home.start_at(address);
            }
        })
        .await;
        load.report.print("callbacks_kill_embedded", round);
        load.assert_clean();
        server.kill();
        home.assert_verified();
        kills -= round;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_stopped_and_frozen_three_processes_on_redis_lose_no_job() {
    let home = Home::redis();
    let mut servers: Vec<Server> = (0..PROCESSES).map(|_| home.start()).collect();
    let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
    let faults = setting("LINGER_PROVE_FLEET", 5);
    let load = run(Plan::light(), &addresses, async |load| {
        let (clock, mut random) = (SystemClock::new(), StdRng::seed_from_u64(load.plan.seed + 5_000));
        let mut left = faults;
        while left > 0 {
            load.wait_for_calls(random.random_range(1..100)).await;
            let frozen = random.random_range(0..PROCESSES);
            servers[frozen].signal(Signal::STOP);
            let thaw_us = clock.now_micros() + i64::try_from(STOP.as_micros()).expect("fits");
            // The others are killed and stopped in turn while this one is frozen.
            for fault in 1..left.min(6) {
                let other = (frozen + 1 + random.random_range(0..PROCESSES - 1)) % PROCESSES;
                // There may be none: every client may be waiting for the frozen process.
                tokio::select! {
                    () = load.wait_for_calls(random.random_range(1..50)) => {}
                    () = clock.sleep(MOST_BETWEEN_FAULTS) => {}
                }
                if fault % 2 == 0 {
                    servers[other].signal(Signal::TERM);
                    servers[other].wait();
                } else {
                    servers[other].kill();
                }
                servers[other] = home.start_at(addresses[other]);
            }
            left -= left.min(6);
            let frozen_for = thaw_us.saturating_sub(clock.now_micros()).max(0);
            // How long a process is frozen is part of the fault.
            clock.sleep(Duration::from_micros(frozen_for.unsigned_abs())).await;
            servers[frozen].signal(Signal::CONT);
        }
    })
    .await;
    load.report.print("callbacks_fleet", faults);
    load.assert_clean();
    home.assert_verified();
}

/// What was set for the topic between two moments.
struct Setting {
    from: Instant,
    to: Instant,
    /// The path of its URL, or `None` while it is paused.
    path: Option<String>,
}

async fn changes_of_a_topics_callback_and_pauses_reach_the_jobs_that_wait(home: Home) {
    let server = home.start();
    let (mut settings, changes) = (Vec::new(), setting("LINGER_PROVE_CHANGES", CHANGES));
    let load = run(Plan::light(), &[server.address], async |load| {
        for change in 0..changes {
            let path = format!("/hooks/{change}");
            load.set_path(&path).await;
            settings.push(during(Some(path), load).await);
            load.administer(Method::POST, "/pause", json!({"delivery": true})).await;
            settings.push(during(None, load).await);
            load.administer(Method::POST, "/resume", json!({"delivery": true})).await;
        }
    })
    .await;
    load.report.print("callbacks_changes", changes);
    load.assert_clean();
    let calls = load.receiver.calls();
    for call in calls.iter().filter(|call| call.header("linger-topic") == HOOKS) {
        // A call takes its URL from the settings at its beginning, which is known to a second.
        let Some(setting) = settings.iter().find(|s| s.from <= call.began && call.arrived <= s.to) else {
            continue;
        };
        let path = setting.path.as_ref().unwrap_or_else(|| panic!("called while paused: {call:?}"));
        assert!(call.target == *path || call.target == "/own", "not {path}: {call:?}");
    }
    assert!(settings.iter().filter(|setting| setting.path.is_none()).count() as u64 == changes);
}

/// Lets the load go on for longer than the whole second of a timestamp.
async fn during(path: Option<String>, load: &CallLoad) -> Setting {
    let from = now();
    SystemClock::new().sleep(Duration::from_millis(1_300)).await;
    load.wait_for_calls(1).await;
    Setting { from, to: now(), path }
}

#[expect(clippy::disallowed_methods, reason = "endpoints run in real time")]
fn now() -> Instant {
    Instant::now()
}
