//! The arguments of `linger work`.

use std::{ffi::OsString, time::Duration};

use clap::{Args, ValueEnum, builder::RangedU64ValueParser};
use linger_client::worker::{Limits, OnLost, WorkerOptions};
use rustix::process::Rlimit;

use super::command::CommandLine;
use crate::{
    cli::{connection::ServerArgs, output::FormArgs},
    job::parse_duration,
};

/// How long one pop waits for a job: as long as the usual lease has until its first heartbeat.
const WAIT: Duration = Duration::from_secs(20);

/// Most jobs at a time, which is also the most that one pop can return.
const MAX_PARALLEL: u64 = 1_000;

/// Arguments of `linger work`.
#[derive(Debug, Args)]
pub(in crate::cli) struct WorkArgs {
    /// Topics to take jobs from, the most urgent first
    #[arg(value_name = "TOPIC", required = true)]
    topics: Vec<String>,
    /// How many jobs to run at a time
    #[arg(long, short = 'j', value_name = "N", default_value = "1")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=MAX_PARALLEL))]
    parallel: usize,
    /// How long a reservation lasts unless a heartbeat extends it, 1 s to 30 days [default: each job's own TTR]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttr: Option<Duration>,
    /// How long a command may run
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    timeout: Duration,
    /// How long after SIGTERM a command is killed
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    kill_after: Duration,
    /// How long running commands have when the worker ends
    #[arg(long, value_name = "DURATION", default_value = "25s", value_parser = parse_duration)]
    drain: Duration,
    /// Exit codes by which a command says that its job can never be done; may be repeated
    #[arg(long, value_name = "CODE", default_value = "65", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=125))]
    bury_on: Vec<u8>,
    /// When to try a failed job again [default: by its retry list]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    retry_delay: Option<Duration>,
    /// What to do with a command whose reservation is lost
    #[arg(long, value_enum, default_value = "kill")]
    on_lost: Lost,
    /// Give the command the text of a body that is a JSON string, without its quotes
    #[arg(long)]
    raw: bool,
    /// End once no job is ready
    #[arg(long)]
    until_empty: bool,
    /// End after so many jobs
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    max_jobs: Option<usize>,
    /// End with exit code 6 when the server has been away for so long [default: never]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    give_up: Option<Duration>,
    /// Do not tell the server why a job failed
    #[arg(long)]
    no_reason: bool,
    /// Run this line by /bin/sh -c, in place of PROGRAM
    #[arg(long, value_name = "LINE", conflicts_with = "command")]
    exec: Option<OsString>,
    /// Program to run for each job, and its arguments
    #[arg(value_name = "PROGRAM", last = true, required_unless_present = "exec")]
    command: Vec<OsString>,
    /// Ask nothing
    #[arg(long, help_heading = "Connection")]
    pub yes: bool,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub form: FormArgs,
}

/// What to do with a command whose reservation is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lost {
    /// End it, before another worker can have its job
    Kill,
    /// Let it end, and try to finish its job
    Keep,
}

impl WorkArgs {
    /// What the worker takes, and how it treats it.
    pub fn options(&self, name: String) -> WorkerOptions {
        let on_lost = match self.on_lost {
            Lost::Kill => OnLost::Kill,
            Lost::Keep => OnLost::Keep,
        };
        WorkerOptions {
            topics: self.topics.clone(),
            name,
            parallel: self.parallel,
            ttr: self.ttr,
            limits: Limits { timeout: self.timeout, kill_after: self.kill_after, on_lost },
            drain: self.drain,
            retry_delay: self.retry_delay,
            sends_reasons: !self.no_reason,
            until_empty: self.until_empty,
            max_jobs: self.max_jobs,
            give_up: self.give_up,
            wait: WAIT,
        }
    }

    /// The command to run for each job, with this limit of open files.
    pub(super) fn command_line(&self, open_files: Rlimit) -> CommandLine {
        let words = match &self.exec {
            Some(line) => ["/bin/sh".into(), "-c".into(), line.clone()].into(),
            None => self.command.clone(),
        };
        CommandLine { words, bury_on: self.bury_on.clone(), is_raw: self.raw, open_files }
    }

    /// What is asked before a profile's server is changed.
    pub fn change(&self) -> String {
        format!("take jobs of {}", self.topics.join(", "))
    }

    /// Most jobs at a time.
    pub fn parallel(&self) -> usize {
        self.parallel
    }
}
