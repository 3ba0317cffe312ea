//! Four processes on one Redis that are killed, stopped and restarted at random under load.
//!
//! `LINGER_PROVE_FLEET` sets the number of faults. With more than the usual few, a stop lasts ten seconds instead of two.

use std::{net::SocketAddr, path::Path, time::Duration};

use linger::clock::{Clock, SystemClock};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rustix::process::Signal;

use crate::{
    harness::{
        process::Server,
        redis::{fresh_prefix, shared},
    },
    load::{Plan, assert_verified, run, setting},
};

const PROCESSES: usize = 4;
/// The number of faults in the normal run.
const FAULTS: u64 = 6;

fn start(listen: &str, directory: &Path) -> Server {
    Server::start(&["serve", "--listen", listen, "--config", "settings.toml"], directory)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_with_random_faults_keep_every_promise() {
    let faults = setting("LINGER_PROVE_FLEET", FAULTS);
    let stop = Duration::from_secs(if faults > FAULTS { 10 } else { 2 });
    let directory = tempfile::tempdir().expect("a directory");
    let (url, prefix) = (shared().url(), fresh_prefix());
    let settings = format!("[store]\nengine = \"redis\"\n[redis]\nurl = \"{url}\"\nprefix = \"{prefix}\"\n");
    std::fs::write(directory.path().join("settings.toml"), settings).expect("writes");
    let mut servers: Vec<Server> = (0..PROCESSES).map(|_| start("127.0.0.1:0", directory.path())).collect();
    let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
    let (mut kills, mut stops, mut restarts) = (0, 0, 0);
    let report = run(Plan::light(), &addresses, async |run| {
        let (clock, mut random) = (SystemClock::new(), StdRng::seed_from_u64(run.plan.seed + 5_000));
        for number in 0..faults {
            clock.sleep(Duration::from_millis(random.random_range(100..600))).await;
            let index = random.random_range(0..PROCESSES);
            let listen = addresses[index].to_string();
            // Each kind of fault in turn, so that the shortest run has all of them.
            match number % 3 {
                0 => {
                    servers[index].kill();
                    servers[index] = start(&listen, directory.path());
                    kills += 1;
                }
                1 => {
                    servers[index].signal(Signal::STOP);
                    clock.sleep(stop).await;
                    servers[index].signal(Signal::CONT);
                    stops += 1;
                }
                _ => {
                    servers[index].signal(Signal::TERM);
                    servers[index].wait();
                    servers[index] = start(&listen, directory.path());
                    restarts += 1;
                }
            }
        }
    })
    .await;
    println!("kills={kills} stops={stops} of {stop:?}, restarts={restarts}");
    report.print("fleet", faults);
    report.assert_clean();
    let (refused, late) = (report.verdict.refused, report.verdict.late);
    assert!(refused + late > 0, "no call came after the end of its reservation");
    assert_verified(&["--config", "settings.toml"], directory.path());
}
