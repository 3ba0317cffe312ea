//! Measures a Linger server as its clients see it: the library behind `linger bench`. Owns the order of the
//! scenarios, and the cleaning up; knows nothing of the server's insides.
//!
//! `plan` says what to do, `work` and `steps` what scenarios share, `calls` speaks with the server, `ledger` judges
//! which jobs are lost, doubled or early, `report` writes it down. The programs below `bin/` drive other servers
//! with the same [`Watch`] and [`Times`]; `scripts/bench` runs them.
//!
//! One thread runs one task per connection; each has one connection of the client library, which never repeats a
//! call. The scenarios (`throughput`, `lateness`, `parked`, `backlog`, `burst`, `callbacks`, `schedules`) are made of
//! the steps in `steps`, which adds and drains. `views` and `bulk` are the scenario `look`, and `viewers` puts open
//! dashboards beside `lateness`. `receiver` is the endpoint that `callbacks` has called. A step without progress
//! for 30 s fails (`progress`). If the bench starts the server (`server`), each scenario gets a new one, because
//! memory and disk that one scenario leaves behind would be counted in the next.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod backlog;
mod bulk;
mod burst;
mod callbacks;
mod calls;
mod failure;
mod lateness;
mod ledger;
mod look_rows;
mod now;
mod parked;
mod plan;
mod progress;
mod receiver;
mod report;
mod rest;
mod schedules;
mod server;
mod signals;
mod steps;
mod throughput;
mod times;
mod viewers;
mod views;
mod watch;
mod work;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub use failure::Failure;
pub use ledger::{Delivery, Ledger, Tally, Totals};
pub use now::now_us;
pub use plan::{DelayPattern, Load, Plan, Scenario, TOKEN_VARIABLE, Target};
pub use report::Report;
pub use signals::StopSignal;
pub use times::{Percentiles, Times};
pub use watch::{Sample, Watch};

use calls::{Connection, find_server};
use server::OwnServer;
use signals::Signals;
use work::Bench;

/// Files that a bench has open beside the connections of a scenario.
const OTHER_FILES: usize = 64;

/// The result of a bench.
#[derive(Debug)]
pub struct Outcome {
    /// What was measured, all of it if there is no failure.
    pub report: Report,
    /// Why it ended before its time, or left something behind.
    pub failures: Vec<Failure>,
}

/// Runs a plan, and cleans up after it.
#[must_use]
pub fn run(plan: &Plan) -> Outcome {
    let failed = |failure| Outcome { report: Report::default(), failures: vec![failure] };
    if let Err(failure) = raise_file_limit(plan) {
        return failed(failure);
    }
    // One thread: it is enough for any rate that one server answers, and leaves the others to the server.
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(drive(plan)),
        Err(error) => failed(error.into()),
    }
}

/// Raises the limit of open files to what the connections need.
fn raise_file_limit(plan: &Plan) -> Result<(), Failure> {
    let wanted = u64::try_from(most_connections(plan).saturating_add(OTHER_FILES)).unwrap_or(u64::MAX);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|soft| soft >= wanted) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|hard| hard < wanted) {
        let hard = limit.maximum.unwrap_or_default();
        return Err(Failure::Unfit(format!(
            "{wanted} open files are needed, and the limit (ulimit -Hn) is {hard}: use fewer --connections"
        )));
    }
    let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).map_err(|error| Failure::Unfit(format!("open files: {error}")))
}

/// Most connections that are open at a time.
fn most_connections(plan: &Plan) -> usize {
    let (usual, parked) = (plan.load.connections(), plan.load.parked());
    // Lateness has adders beside as many pollers, and viewers.
    let late = usual.saturating_mul(2).saturating_add(plan.load.viewers.unwrap_or(0));
    match plan.scenario {
        Scenario::Throughput | Scenario::Backlog | Scenario::Burst | Scenario::Look | Scenario::Schedules => {
            usual
        }
        Scenario::Lateness => late,
        Scenario::Parked => parked,
        // Beside adders and pollers, both ends of the calls and of the bare client's connections.
        Scenario::Callbacks => late.saturating_add(callbacks::CONNECTIONS),
        Scenario::All => late.max(parked),
    }
}

async fn drive(plan: &Plan) -> Outcome {
    let mut all = Outcome { report: Report::default(), failures: Vec::new() };
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return Outcome { failures: vec![error.into()], ..all },
    };
    for round in rounds(plan) {
        let Outcome { report, failures } = drive_round(plan, &round, &mut signals).await;
        all.report.merge(report);
        all.failures.extend(failures);
        if !all.failures.is_empty() {
            break;
        }
    }
    all
}

/// Groups the scenarios by the server that they share. Each gets a server of its own where the bench starts
/// them, because memory and disk that one scenario left behind would be counted in the next.
fn rounds(plan: &Plan) -> Vec<Vec<Scenario>> {
    use Scenario::{All, Backlog, Burst, Callbacks, Lateness, Look, Parked, Schedules, Throughput};
    let scenarios = match plan.scenario {
        All => vec![Throughput, Lateness, Parked, Backlog, Burst],
        Throughput | Lateness | Parked | Backlog | Burst | Look | Callbacks | Schedules => {
            vec![plan.scenario]
        }
    };
    match plan.target {
        Target::Running { .. } => vec![scenarios],
        Target::Own { .. } => scenarios.into_iter().map(|scenario| vec![scenario]).collect(),
    }
}

async fn drive_round(plan: &Plan, round: &[Scenario], signals: &mut Signals) -> Outcome {
    let (mut failures, started) = (Vec::new(), OnceLock::new());
    let mut own = match &plan.target {
        Target::Running { .. } => None,
        Target::Own { settings, parent } => match OwnServer::spawn(settings, parent) {
            Ok(own) => Some(own),
            Err(failure) => return Outcome { report: Report::default(), failures: vec![failure] },
        },
    };
    let ended = tokio::select! {
        biased;
        signal = signals.next() => Err(Failure::Stopped(signal)),
        ended = measure(plan, round, own.as_mut(), &started) => ended,
    };
    failures.extend(ended.err());
    failures.extend(own.as_mut().and_then(OwnServer::ended).map(Failure::Unfit));

    if let Some(bench) = started.get() {
        bench.progress.clear();
        // The directory of our own server goes as a whole; topics in a Redis, or elsewhere, do not.
        let is_gone_anyway = own.is_some() && bench.watch.directory.is_some();
        if !is_gone_anyway {
            let cleaned = tokio::select! {
                cleaned = bench.clean_up() => cleaned,
                signal = signals.next() => Err(Failure::Stopped(signal)),
            };
            failures.extend(cleaned.err());
        }
    }
    if let Some(own) = own {
        let is_hurried = matches!(failures.last(), Some(Failure::Stopped(_))) && failures.len() > 1;
        let stopped = if is_hurried { own.kill().await } else { own.stop().await };
        failures.extend(stopped.err());
    }
    let report = started.get().map(|bench| bench.take_report()).unwrap_or_default();
    Outcome { report, failures }
}

/// Finds the server and runs the scenarios. What is to be cleaned up afterwards is put into `started` at once.
async fn measure(
    plan: &Plan,
    round: &[Scenario],
    own: Option<&mut OwnServer>,
    started: &OnceLock<Arc<Bench>>,
) -> Result<(), Failure> {
    let (authority, pids, own_data) = match (&plan.target, own) {
        (Target::Running { authority, pids }, _) => (authority.clone(), pids.clone(), None),
        (Target::Own { .. }, Some(own)) => {
            (own.listens().await?, own.pid().into_iter().collect(), Some(own.data()))
        }
        (Target::Own { .. }, None) => return Err(Failure::Unfit("no server was started".to_owned())),
    };
    let server = find_server(&authority, plan.token.as_deref()).await?;
    let version = Connection::new(&server).version().await?;
    let is_embedded = version.engine == "embedded";
    let mut report = Report::default();
    let measured = report.server(format!("http://{authority}"), version);
    measured.own = own_data.is_some();
    let parent = own_data.as_ref().filter(|_| is_embedded).and_then(|data| data.ancestors().nth(2));
    measured.directory = parent.map(|parent| parent.display().to_string());
    measured.connections = plan.load.connections();
    measured.body_bytes = plan.load.body_bytes;
    let watch = Watch { pids, directory: own_data.filter(|_| is_embedded) };
    let bench = Arc::new(Bench::new(server, plan.load.clone(), watch, report));
    run_scenarios(plan.scenario, round, started.get_or_init(|| bench)).await
}

/// The scenarios of a round, in a short form where all were asked for.
async fn run_scenarios(scenario: Scenario, round: &[Scenario], bench: &Arc<Bench>) -> Result<(), Failure> {
    let load = &bench.load;
    let jobs = |alone, short| load.jobs.unwrap_or(if scenario == Scenario::All { short } else { alone });
    let seconds =
        |alone, short| load.seconds.unwrap_or(if scenario == Scenario::All { short } else { alone });
    let is_wanted = |which| round.contains(&which);
    if is_wanted(Scenario::Throughput) {
        let batch = if scenario == Scenario::All { 1 } else { load.batch.unwrap_or(1) };
        throughput::run(bench, jobs(50_000, 10_000), batch).await?;
        if scenario == Scenario::All && load.batch() > 1 {
            throughput::run(bench, jobs(50_000, 50_000), load.batch()).await?;
        }
    }
    if is_wanted(Scenario::Lateness) {
        let time = Duration::from_secs(seconds(30, 10));
        let in_that_time = load.rate.saturating_mul(usize::try_from(time.as_secs()).unwrap_or(usize::MAX));
        let jobs = load.jobs.unwrap_or(in_that_time);
        match load.viewers {
            Some(viewers) => viewers::run(bench, jobs, load.rate, viewers, time).await?,
            None => drop(lateness::run(bench, "lateness", jobs, load.rate).await?),
        }
    }
    if is_wanted(Scenario::Parked) {
        let rest = Duration::from_secs(seconds(10, 3));
        parked::run(bench, load.parked(), rest, jobs(1_000, 200)).await?;
    }
    if is_wanted(Scenario::Backlog) {
        backlog::run(bench, jobs(1_000_000, 100_000), load.batch()).await?;
        if round.len() > 1 {
            // The jobs would slow down the next scenario.
            bench.clean_up().await?;
        }
    }
    if is_wanted(Scenario::Burst) {
        let jobs = jobs(100_000, 10_000);
        // Enough time to add them all even on a slow disk.
        let lead = load.seconds.unwrap_or(3 + u64::try_from(jobs / 4_000).unwrap_or(0));
        burst::run(bench, jobs, load.batch.unwrap_or(1), Duration::from_secs(lead.max(2))).await?;
    }
    if is_wanted(Scenario::Look) {
        views::run(bench, jobs(1_000_000, 100_000), load.batch()).await?;
    }
    if is_wanted(Scenario::Callbacks) {
        callbacks::run(bench, &callbacks::Sizes::new(load)).await?;
    }
    if is_wanted(Scenario::Schedules) {
        schedules::run(bench, load.schedules, load.due_schedules(), load.batch.unwrap_or(1)).await?;
    }
    Ok(())
}
