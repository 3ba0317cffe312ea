//! A primary that is isolated from the others while clients still reach it through a server on its host, so that there are
//! two primaries at a time. If replicas must acknowledge, no acknowledged change is lost. Otherwise only changes made at the
//! isolated primary are, and the test prints how many.

use std::{collections::HashSet, sync::Arc, time::Duration};

use linger::clock::{Clock, SystemClock};

use super::{EVERY_REPLICA, REFUSE_WITHOUT_REPLICAS};
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

/// The number of jobs that must be added before the next step.
const ADDS_BETWEEN: usize = 50;
/// The number of calls, with any outcome, while there may be two primaries.
const CALLS_MEANWHILE: usize = 40;
/// The greatest age of an acknowledged change that no replica has received, if none must acknowledge it, also on a machine that
/// stands still.
const REPLICATION: Duration = Duration::from_secs(3);

/// The jobs with an acknowledged change in a part of the history.
type ChangedJobs = HashSet<String>;

/// Runs `test` on a thread whose sockets and children are in a network of its own. Reports if the machine allows no such
/// network.
fn run_on_network(what: &str, test: impl AsyncFnOnce(Arc<Network>) + Send + 'static) {
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

/// A load through two servers, the first of which runs on the primary's host, while the primary is isolated repeatedly. Also
/// returns the jobs with an acknowledged change while there may have been two primaries.
async fn load_with_partitions(
    network: Arc<Network>,
    arguments: &[&str],
    settings: &str,
) -> (Report, ChangedJobs) {
    let hosts: [Launch; COUNT] = std::array::from_fn(|host| Launch {
        before: network.command_prefix(host),
        host: Network::address(host),
        ..Launch::new(&[])
    });
    let arguments: Vec<&str> = arguments.iter().copied().chain(["--protected-mode", "no"]).collect();
    let sentinels = Arc::new(Sentinels::start_at(&hosts, &arguments));
    let directory = tempfile::tempdir().expect("a directory");
    let settings =
        format!("{}{settings}[auth]\nallow_anonymous = true\n", sentinels.settings(&fresh_prefix()));
    std::fs::write(directory.path().join("settings.toml"), settings).expect("writes");
    let servers: Vec<Server> = (0..2).map(|host| serve(&network, host, directory.path())).collect();
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    let mut changed = ChangedJobs::new();
    let report = run(Plan::light(), &addresses, async |run| {
        for number in 1..=setting("LINGER_PROVE_FAILOVERS", 1) {
            changed.extend(isolate_primary(run, &network, &sentinels).await);
            println!("partition {number}: {} acknowledged, {} changed", run.acknowledged(), changed.len());
        }
    })
    .await;
    (report, changed)
}

fn serve(network: &Network, host: usize, directory: &std::path::Path) -> Server {
    let (wrapper, listen) = (network.command_prefix(host), format!("{}:0", Network::address(host)));
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    let arguments = ["serve", "--listen", &listen, "--config", "settings.toml"];
    Server::spawn(linger_under(&wrapper, &arguments, directory))
}

/// Isolates the primary, and reconnects it once another server was promoted and clients have called both.
async fn isolate_primary(run: &Run, network: &Arc<Network>, sentinels: &Arc<Sentinels>) -> ChangedJobs {
    run.wait_for_adds(ADDS_BETWEEN).await;
    let began = run.history.events().len();
    SystemClock::new().sleep(REPLICATION).await;
    let isolated = run_blocking(sentinels, |sentinels| sentinels.primary()).await;
    network.isolate(isolated);
    run_blocking(sentinels, move |sentinels| {
        assert!(until(|| sentinels.primary() != isolated), "no server took over from {isolated}");
    })
    .await;
    run.wait_for_calls(CALLS_MEANWHILE).await;
    network.reconnect(isolated);
    run_blocking(sentinels, Sentinels::wait_until_healthy).await;
    run.history.events()[began..].iter().filter(|event| event.done()).map(|event| event.job.clone()).collect()
}

async fn run_blocking<T: Send + 'static>(
    sentinels: &Arc<Sentinels>,
    work: impl FnOnce(&Sentinels) -> T + Send + 'static,
) -> T {
    let sentinels = sentinels.clone();
    tokio::task::spawn_blocking(move || work(&sentinels)).await.expect("does not panic")
}

#[test]
fn an_isolated_primary_loses_no_change_that_replicas_had_to_receive() {
    run_on_network("sentinel_partition_with_wait", async |network| {
        let (report, _) = load_with_partitions(network, &REFUSE_WITHOUT_REPLICAS, EVERY_REPLICA).await;
        report.print("sentinel_partition_with_wait", setting("LINGER_PROVE_FAILOVERS", 1));
        report.assert_clean();
    });
}

#[test]
fn an_isolated_primary_loses_at_most_its_own_changes_meanwhile() {
    run_on_network("sentinel_partition_unguarded", async |network| {
        let (report, changed) = load_with_partitions(network, &[], "").await;
        let verdict = &report.verdict;
        println!(
            "proof: what=sentinel_partition_unguarded control=may_be_lost runs=1 admitted_faults={} admitted_jobs={} in_the_window={} \
             lost_in_the_window={} broken_in_the_window={}",
            setting("LINGER_PROVE_FAILOVERS", 1),
            verdict.acknowledged,
            changed.len(),
            verdict.count(Law::NothingLost),
            verdict.violations.len(),
        );
        let outside: Vec<_> = verdict
            .violations
            .iter()
            .filter(|violation| violation.law != Law::Counts && !changed.contains(&violation.job))
            .collect();
        assert!(outside.is_empty(), "violations before or after the partition: {outside:#?}");
    });
}
