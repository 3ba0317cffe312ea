//! `linger bench`: its arguments, the checks of their combination, and the call of the bench.

use std::{path::Path, process::ExitCode};

use clap::{Args, builder::RangedU64ValueParser};
use linger_bench::{DelayPattern, Failure, Load, Outcome, Plan, Scenario, TOKEN_VARIABLE, Target};
use linger_client::ServerUrl;

use super::{
    exit::USAGE_ERROR,
    load::with_config,
    output::{print, print_error, usage_error},
    settings::{DirectoryFlag, EngineFlags, FileFlag, Settings},
};
use crate::config::Purpose;

fn at_most(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

/// Arguments of `linger bench`.
#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    /// What to measure
    #[arg(value_enum, default_value = "all")]
    scenario: Scenario,
    /// Running server to drive instead of one of its own, such as http://127.0.0.1:9277
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Token to send; better in the variable LINGER_BENCH_TOKEN, since other users see the list of processes
    #[arg(long)]
    token: Option<String>,
    /// Process of the server at --url, where it runs on this machine: shows its CPU and memory; for several, such as its
    /// Redis, repeat the flag
    #[arg(long, requires = "url", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Vec<u32>,
    /// How many jobs; with schedules, how many of them run at the same moments [default: depends on the scenario]
    #[arg(long, value_parser = at_most(10_000_000))]
    jobs: Option<usize>,
    /// How many connections, each with one request at a time [default: 64, parked 1000]
    #[arg(long, value_parser = at_most(50_000))]
    connections: Option<usize>,
    /// Jobs in a request, up to 1000: throughput, backlog, burst, look, schedules [default: 1, backlog and look 100]
    #[arg(long, value_parser = at_most(1_000))]
    batch: Option<usize>,
    /// Size of a job's body in bytes
    #[arg(long, default_value = "256", value_parser = RangedU64ValueParser::<usize>::new().range(2..=1_048_576))]
    body_bytes: usize,
    /// Jobs added per second: lateness, callbacks [default: 1000]
    #[arg(long, value_parser = at_most(1_000_000))]
    rate: Option<usize>,
    /// How long: lateness and callbacks add, parked polls rest, jobs of the burst lie ahead (2 at least)
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: Option<u64>,
    /// How many schedules there are, most of which run only once a day: schedules [default: 10000]
    #[arg(long, value_parser = at_most(10_000))]
    schedules: Option<usize>,
    /// Measures again beside so many viewers that poll like the dashboard, and their CPU: lateness
    #[arg(long, value_parser = at_most(1_000))]
    viewers: Option<usize>,
    /// Pattern of the delays: throughput, lateness, backlog, callbacks [default: constant]
    #[arg(long, value_enum)]
    delay: Option<DelayPattern>,
    /// Print one JSON document instead of the table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: FileFlag,
    #[command(flatten)]
    directory: DirectoryFlag,
    #[command(flatten)]
    engine: EngineFlags,
}

/// Runs a bench.
pub(super) fn run(arguments: &BenchArgs, settings: &Settings) -> ExitCode {
    if let Err(error) = arguments.check(settings) {
        return usage_error(&error);
    }
    let run = |target| report(&linger_bench::run(&arguments.plan(target)), arguments.json);
    let Some(url) = &arguments.url else {
        return with_config(settings, Purpose::Use, USAGE_ERROR, |loaded| {
            if loaded.config.tls.is_some() {
                return usage_error(
                    &"tls.certificate: the bench speaks plain HTTP and cannot measure a server with TLS",
                );
            }
            run(own_server(settings))
        });
    };
    match url.parse::<ServerUrl>() {
        Ok(url) if !url.is_secure() => {
            run(Target::Running { authority: url.authority().to_owned(), pids: arguments.pid.clone() })
        }
        Ok(_) => usage_error(&"--url: the bench speaks plain HTTP; name a server without TLS"),
        Err(_) => usage_error(&format_args!("--url: {url:?} must be like http://127.0.0.1:9277")),
    }
}

/// A server that the bench starts with these settings.
fn own_server(settings: &Settings) -> Target {
    let parent = settings.data_dir().unwrap_or_else(std::env::temp_dir);
    Target::Own { settings: settings.file_and_engine_arguments(), parent }
}

impl BenchArgs {
    /// The settings among the arguments.
    pub fn settings(&self) -> Settings {
        Settings::for_store(&self.file, &self.directory, &self.engine)
    }

    /// Refuses combinations without a meaning.
    fn check(&self, settings: &Settings) -> Result<(), String> {
        if self.url.is_some() && (settings.config_file().is_some() || !settings.flags().is_empty()) {
            return Err("--url: a running server takes no settings".to_owned());
        }
        let is_there = |pid: &&u32| Path::new("/proc").join(pid.to_string()).is_dir();
        if let Some(pid) = self.pid.iter().find(|pid| !is_there(pid)) {
            return Err(format!("--pid: there is no process {pid} in /proc"));
        }
        let is_for = |which: &[Scenario]| self.scenario == Scenario::All || which.contains(&self.scenario);
        let (throughput, lateness, parked) = (Scenario::Throughput, Scenario::Lateness, Scenario::Parked);
        let (backlog, burst, look) = (Scenario::Backlog, Scenario::Burst, Scenario::Look);
        let (callbacks, schedules) = (Scenario::Callbacks, Scenario::Schedules);
        for (name, is_given, scenarios) in [
            ("--batch", self.batch.is_some(), &[throughput, backlog, burst, look, schedules][..]),
            ("--rate", self.rate.is_some(), &[lateness, callbacks]),
            ("--seconds", self.seconds.is_some(), &[lateness, parked, burst, callbacks]),
            ("--schedules", self.schedules.is_some(), &[schedules]),
            ("--viewers", self.viewers.is_some(), &[lateness]),
            ("--delay", self.delay.is_some(), &[throughput, lateness, backlog, callbacks]),
        ] {
            if is_given && !is_for(scenarios) {
                return Err(format!("{name} does not apply to this scenario"));
            }
        }
        let load = self.load();
        if self.scenario == schedules && load.due_schedules() > load.schedules {
            return Err(format!("--jobs: must not be more than the {} schedules", load.schedules));
        }
        Ok(())
    }

    fn plan(&self, target: Target) -> Plan {
        let named = || std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
        let token = self.token.clone().or_else(named);
        Plan { scenario: self.scenario, load: self.load(), target, token }
    }

    fn load(&self) -> Load {
        Load {
            jobs: self.jobs,
            connections: self.connections,
            batch: self.batch,
            seconds: self.seconds,
            rate: self.rate.unwrap_or(1_000),
            schedules: self.schedules.unwrap_or(10_000),
            viewers: self.viewers,
            body_bytes: self.body_bytes,
            delay: self.delay.unwrap_or(DelayPattern::Constant),
        }
    }
}

/// Prints the results, and failures on stderr.
fn report(Outcome { report, failures }: &Outcome, json: bool) -> ExitCode {
    let messages: Vec<_> = failures.iter().map(ToString::to_string).collect();
    let failure = (!messages.is_empty()).then(|| messages.join("; "));
    let printed = print(&if json { report.json(failure.as_deref()) } else { report.table() });
    for failure in failures {
        print_error(failure);
    }
    let stopped = failures.iter().find_map(|failure| match failure {
        Failure::Stopped(signal) => Some(signal.exit_code()),
        Failure::Call { .. } | Failure::Stalled { .. } | Failure::Unfit(_) => None,
    });
    match stopped {
        Some(code) => ExitCode::from(code),
        None if failures.is_empty() && report.is_sound() => printed,
        None => ExitCode::FAILURE,
    }
}
