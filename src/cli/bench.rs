//! `linger bench`: its arguments, what of them makes sense together, and the handing over.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, builder::RangedU64ValueParser};

use super::{WRONG, args::Settings, complain, health, print, with_settings};
use crate::bench::{self, DelayPattern, Failure, Load, Outcome, Plan, Scenario, TOKEN_VARIABLE, Target};

/// Shown below the help of the command.
pub(super) const EXAMPLES: &str = "\
Without --url it measures a server of its own, a new one for each scenario: this program, on a free loopback port, with
a data directory that is made where --data-dir says, or among the temporary files, and removed again. --config, --store and --redis-url
are passed on to it. Mind that temporary files may be kept in memory, where syncs cost nothing.

With --url it drives a running server, over plain HTTP. It works in topics of its own (bench-...), which it deletes
at the end; the token, if one is needed, must allow add, work, read and admin for them.

CPU and memory are those of the Linger process alone, and seen on Linux only. CPU us/job is microseconds of processor
time. Jobs are lost when they were taken and never came, doubled when they came twice within one reservation, early
when they came before the moment of their add plus their delay. The exit code is 1 if there was one of them.

Compare figures of one machine only, and state the pattern of delays with them.

Examples:
  linger bench                                          each scenario in a short form
  linger bench throughput --batch 100 --jobs 200000
  linger bench lateness --rate 4000 --seconds 60 --delay random
  linger bench parked --connections 10000
  linger bench --store redis --redis-url redis://127.0.0.1:6379
  linger bench burst --url http://127.0.0.1:9277 --pid \"$(pidof linger)\" --json";

fn at_most(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

/// What `linger bench` is told.
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
    /// Process of the server at --url, where it runs on this machine: shows its CPU and memory
    #[arg(long, requires = "url", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// How many jobs [default: depends on the scenario]
    #[arg(long, value_parser = at_most(10_000_000))]
    jobs: Option<usize>,
    /// How many connections, each with one request at a time [default: 64, parked 1000]
    #[arg(long, value_parser = at_most(50_000))]
    connections: Option<usize>,
    /// Jobs in a request, up to 1000: throughput, backlog, burst [default: 1, backlog 100]
    #[arg(long, value_parser = at_most(1_000))]
    batch: Option<usize>,
    /// Size of a job's body in bytes
    #[arg(long, default_value = "256", value_parser = RangedU64ValueParser::<usize>::new().range(2..=1_048_576))]
    body_bytes: usize,
    /// Jobs added per second: lateness [default: 1000]
    #[arg(long, value_parser = at_most(1_000_000))]
    rate: Option<usize>,
    /// How long: lateness adds, parked polls rest, jobs of the burst lie ahead (2 at least)
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: Option<u64>,
    /// Pattern of the delays: throughput, lateness, backlog [default: constant]
    #[arg(long, value_enum)]
    delay: Option<DelayPattern>,
    /// Print one JSON document instead of the table
    #[arg(long)]
    json: bool,
}

/// Runs a bench.
pub(super) fn run(arguments: BenchArgs, settings: &Settings) -> ExitCode {
    if let Err(wrong) = arguments.check(settings) {
        complain(&wrong);
        return ExitCode::from(WRONG);
    }
    let go_on = |target| {
        let json = arguments.json;
        tell(&bench::run(&arguments.plan(target)), json)
    };
    let Some(url) = &arguments.url else {
        return with_settings(settings, WRONG, |loaded| {
            if loaded.config.tls.is_some() {
                complain(
                    &"tls.certificate: a bench speaks plain HTTP, and cannot measure a server that does not",
                );
                return ExitCode::from(WRONG);
            }
            go_on(own(settings))
        });
    };
    match health::asked(url) {
        Some(asked) if !asked.secure => {
            go_on(Target::Running { authority: asked.authority, pid: arguments.pid })
        }
        Some(_) => {
            complain(&"--url: a bench speaks plain HTTP; ask the server behind the TLS");
            ExitCode::from(WRONG)
        }
        None => {
            complain(&format_args!("--url: {url:?} must be like http://127.0.0.1:9277"));
            ExitCode::from(WRONG)
        }
    }
}

/// A server of the bench's own with these settings.
fn own(settings: &Settings) -> Target {
    let config = settings.config.iter().flat_map(|file| [OsString::from("--config"), file.into()]);
    let passed_on =
        settings.flags().into_iter().filter(|flag| !matches!(flag.name, "--listen" | "--data-dir"));
    let flags = passed_on.flat_map(|flag| [OsString::from(flag.name), flag.value.into()]);
    let parent = settings.data_dir.as_ref().map_or_else(std::env::temp_dir, PathBuf::from);
    Target::Own { settings: config.chain(flags).collect(), parent }
}

impl BenchArgs {
    /// What cannot be meant, in words.
    fn check(&self, settings: &Settings) -> Result<(), String> {
        if settings.listen.is_some() {
            return Err("--listen: a bench's own server takes a free loopback port".to_owned());
        }
        if self.url.is_some() && (settings.config.is_some() || !settings.flags().is_empty()) {
            return Err("--url: settings cannot be given to a server that runs already".to_owned());
        }
        if let Some(pid) = self.pid
            && !Path::new("/proc").join(pid.to_string()).is_dir()
        {
            return Err(format!("--pid: there is no process {pid} to be seen in /proc"));
        }
        let is_for = |which: &[Scenario]| self.scenario == Scenario::All || which.contains(&self.scenario);
        let (throughput, lateness, parked) = (Scenario::Throughput, Scenario::Lateness, Scenario::Parked);
        let (backlog, burst) = (Scenario::Backlog, Scenario::Burst);
        for (name, is_given, scenarios) in [
            ("--batch", self.batch.is_some(), &[throughput, backlog, burst][..]),
            ("--rate", self.rate.is_some(), &[lateness]),
            ("--seconds", self.seconds.is_some(), &[lateness, parked, burst]),
            ("--delay", self.delay.is_some(), &[throughput, lateness, backlog]),
        ] {
            if is_given && !is_for(scenarios) {
                return Err(format!("{name} means nothing to this scenario"));
            }
        }
        Ok(())
    }

    fn plan(&self, target: Target) -> Plan {
        let named = || std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
        Plan {
            scenario: self.scenario,
            load: Load {
                jobs: self.jobs,
                connections: self.connections,
                batch: self.batch,
                seconds: self.seconds,
                rate: self.rate.unwrap_or(1_000),
                body_bytes: self.body_bytes,
                delay: self.delay.unwrap_or(DelayPattern::Constant),
            },
            target,
            token: self.token.clone().or_else(named),
        }
    }
}

/// Prints what was measured, and says on stderr what went wrong.
fn tell(Outcome { report, failures }: &Outcome, json: bool) -> ExitCode {
    let said: Vec<_> = failures.iter().map(ToString::to_string).collect();
    let failure = (!said.is_empty()).then(|| said.join("; "));
    let printed = print(&if json { report.json(failure.as_deref()) } else { report.table() });
    for failure in failures {
        complain(failure);
    }
    let stopped = failures.iter().find_map(|failure| match failure {
        Failure::Stopped(asked) => Some(asked.exit_code()),
        Failure::Refused { .. }
        | Failure::Broken { .. }
        | Failure::Silent { .. }
        | Failure::Stalled { .. }
        | Failure::Unfit(_) => None,
    });
    match stopped {
        Some(code) => ExitCode::from(code),
        None if failures.is_empty() && report.is_sound() => printed,
        None => ExitCode::FAILURE,
    }
}
