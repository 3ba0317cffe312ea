//! Four processes on one Redis, killed, stopped and started again at random under load.
//!
//! `LINGER_PROVE_FLEET` sets how many faults there are; with more than the usual few, stops last ten
//! seconds instead of two.

use std::{net::SocketAddr, path::Path, time::Duration};

use linger::clock::{Clock, SystemClock};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rustix::process::Signal;

use crate::{
    harness::{
        process::Server,
        redis::{fresh_prefix, shared},
    },
    load::{Plan, run, setting, verified},
};

const PROCESSES: usize = 4;
/// Faults in the normal run.
const FAULTS: u64 = 6;

fn start(listen: &str, home: &Path) -> Server {
    Server::start(&["serve", "--listen", listen, "--config", "settings.toml"], home)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_that_fall_at_random_keep_every_promise() {
    let faults = setting("LINGER_PROVE_FLEET", FAULTS);
    let stop = Duration::from_secs(if faults > FAULTS { 10 } else { 2 });
    let home = tempfile::tempdir().expect("a directory");
    let (url, prefix) = (shared().url(), fresh_prefix());
    let settings = format!("[store]\nengine = \"redis\"\n[redis]\nurl = \"{url}\"\nprefix = \"{prefix}\"\n");
    std::fs::write(home.path().join("settings.toml"), settings).expect("writes");
    let mut servers: Vec<Server> = (0..PROCESSES).map(|_| start("127.0.0.1:0", home.path())).collect();
    let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
    let (mut kills, mut stops, mut restarts) = (0, 0, 0);
    let report = run(Plan::light(), &addresses, async |run| {
        let (clock, mut random) = (SystemClock::new(), StdRng::seed_from_u64(run.plan.seed + 5_000));
        for number in 0..faults {
            clock.sleep(Duration::from_millis(random.random_range(100..600))).await;
            let at = random.random_range(0..PROCESSES);
            let listen = addresses[at].to_string();
            // Each kind in turn, so that the shortest run has all of them.
            match number % 3 {
                0 => {
                    servers[at].kill();
                    servers[at] = start(&listen, home.path());
                    kills += 1;
                }
                1 => {
                    servers[at].signal(Signal::STOP);
                    clock.sleep(stop).await;
                    servers[at].signal(Signal::CONT);
                    stops += 1;
                }
                _ => {
                    servers[at].signal(Signal::TERM);
                    servers[at].wait();
                    servers[at] = start(&listen, home.path());
                    restarts += 1;
                }
            }
        }
    })
    .await;
    println!("kills={kills} stops={stops} of {stop:?}, restarts={restarts}");
    report.print("fleet", faults);
    report.assert_clean();
    assert!(report.verdict.refused > 0, "nobody was late");
    verified(&["--config", "settings.toml"], home.path());
}
