//! A primary that is cut off from the others while clients still reach it through a server on its side:
//! two primaries at a time. With replicas asked for, nothing acknowledged is lost; without, only what
//! was done at the wrong one is, and how much is told.

use std::{collections::HashSet, sync::Arc, time::Duration};

use linger::clock::{Clock, SystemClock};

use super::{CAREFUL, EVERY_REPLICA};
use crate::{
    checker::Law,
    harness::{
        network::Network,
        not_here::not_run_here,
        process::{Server, linger_under},
        redis::{Launch, fresh_prefix},
        resp::until,
        sentinel::{COUNT, Sentinels},
    },
    load::{Plan, Report, Run, run, setting},
};

/// Jobs that must get through before the next step.
const ADDS_BETWEEN: usize = 100;
/// Calls that clients make, answered well or not, while there may be two primaries.
const CALLS_MEANWHILE: usize = 40;
/// How old an acknowledged change may be that a replica has not heard of, without having been asked.
const REPLICATION: Duration = Duration::from_secs(1);

/// Jobs of which something was acknowledged in a stretch of the history.
type Touched = HashSet<String>;

/// Runs `test` on a thread whose sockets and children are in a network of its own; says so where there
/// can be none.
fn on_a_network(what: &str, test: impl AsyncFnOnce(Arc<Network>) + Send + 'static) {
    let network = match Network::new(COUNT) {
        Ok(network) => Arc::new(network),
        Err(why) => return not_run_here(what, &why),
    };
    let thread = std::thread::spawn(move || {
        network.enter();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime").block_on(test(network));
    });
    thread.join().expect("the test passes");
}

/// A load through two servers, the first beside the primary, which is cut off for a while so often. Also
/// tells of which jobs something was acknowledged when two may have been primaries.
async fn partitions(network: Arc<Network>, arguments: &[&str], settings: &str) -> (Report, Touched) {
    let places: [Launch; COUNT] = std::array::from_fn(|host| Launch {
        before: network.command_prefix(host),
        host: Network::address(host),
        ..Launch::new(&[])
    });
    let arguments: Vec<&str> = arguments.iter().copied().chain(["--protected-mode", "no"]).collect();
    let sentinels = Arc::new(Sentinels::start_at(&places, &arguments));
    let home = tempfile::tempdir().expect("a directory");
    let settings =
        format!("{}{settings}[auth]\nallow_anonymous = true\n", sentinels.settings(&fresh_prefix()));
    std::fs::write(home.path().join("settings.toml"), settings).expect("writes");
    let servers: Vec<Server> = (0..2).map(|host| serve(&network, host, home.path())).collect();
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    let mut touched = Touched::new();
    let report = run(Plan::light(), &addresses, async |run| {
        for number in 1..=setting("LINGER_PROVE_FAILOVERS", 1) {
            touched.extend(partition(run, &network, &sentinels).await);
            println!("partition {number}: {} acknowledged, {} touched", run.acknowledged(), touched.len());
        }
    })
    .await;
    (report, touched)
}

fn serve(network: &Network, host: usize, home: &std::path::Path) -> Server {
    let (wrapper, listen) = (network.command_prefix(host), format!("{}:0", Network::address(host)));
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    let arguments = ["serve", "--listen", &listen, "--config", "settings.toml"];
    Server::spawn(linger_under(&wrapper, &arguments, home))
}

/// Cuts the primary off, and heals it once another has its place and clients have tried both for a while.
async fn partition(run: &Run, network: &Arc<Network>, sentinels: &Arc<Sentinels>) -> Touched {
    run.progress(ADDS_BETWEEN).await;
    let began = run.history.events().len();
    SystemClock::new().sleep(REPLICATION).await;
    let victim = aside(sentinels, |sentinels| sentinels.primary()).await;
    network.isolate(victim);
    aside(sentinels, move |sentinels| {
        assert!(until(|| sentinels.primary() != victim), "another took over from {victim}");
    })
    .await;
    run.calls(CALLS_MEANWHILE).await;
    network.reconnect(victim);
    aside(sentinels, Sentinels::wait_until_healthy).await;
    run.history.events()[began..].iter().filter(|event| event.done()).map(|event| event.job.clone()).collect()
}

async fn aside<T: Send + 'static>(
    sentinels: &Arc<Sentinels>,
    work: impl FnOnce(&Sentinels) -> T + Send + 'static,
) -> T {
    let sentinels = sentinels.clone();
    tokio::task::spawn_blocking(move || work(&sentinels)).await.expect("does not panic")
}

#[test]
fn an_isolated_primary_loses_nothing_that_replicas_had_to_receive() {
    on_a_network("sentinel_partition_with_wait", async |network| {
        let (report, _) = partitions(network, &CAREFUL, EVERY_REPLICA).await;
        report.print("sentinel_partition_with_wait", setting("LINGER_PROVE_FAILOVERS", 1));
        report.assert_clean();
    });
}

#[test]
fn an_isolated_primary_loses_at_most_its_own_changes_meanwhile() {
    on_a_network("sentinel_partition_unguarded", async |network| {
        let (report, touched) = partitions(network, &[], "").await;
        let verdict = &report.verdict;
        println!(
            "proof: what=sentinel_partition_unguarded runs=1 admitted_faults={} admitted_jobs={} in_the_window={} \
             lost_in_the_window={} broken_in_the_window={}",
            setting("LINGER_PROVE_FAILOVERS", 1),
            verdict.acknowledged,
            touched.len(),
            verdict.count(Law::NothingLost),
            verdict.violations.len(),
        );
        let outside: Vec<_> = verdict
            .violations
            .iter()
            .filter(|violation| violation.law != Law::Counts && !touched.contains(&violation.job))
            .collect();
        assert!(outside.is_empty(), "outside of the window: {outside:#?}");
    });
}
