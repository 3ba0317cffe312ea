//! The command line as clap parses it. Values of settings are not checked here: a flag is one more source of settings,
//! so that its faults are listed with all others.

mod settings;
mod store;
#[cfg(test)]
mod tests;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind};
use clap_complete::Shell;

pub(super) use store::StoreCommand;
use store::{AcceptArgs, StoreArgs};

use super::{
    activity::{CallbacksArgs, WorkersArgs},
    add::AddArgs,
    audit::AuditArgs,
    bench::BenchArgs,
    bulk::BulkCommand,
    dead::DeadCommand,
    help,
    inspect::{StatsArgs, WhoamiArgs},
    job_list::JobsArgs,
    jobs::{BuryArgs, CancelArgs, FinishArgs, GetArgs, ReleaseArgs, RescheduleArgs, RevokeArgs, TouchArgs},
    pop::PopArgs,
    profile::ProfileCommand,
    schedule::ScheduleCommand,
    settings::{DirectoryFlag, EngineFlags, FileFlag, ListenFlag, Settings},
    timeline::TimelineArgs,
    tips,
    token::TokenCommand,
    top::TopArgs,
    topics::{TopicCommand, TopicsArgs},
    work::WorkArgs,
};
use crate::job::parse_duration;

/// The whole command line. Flags before the command mean the same as flags after it.
#[derive(Debug, Parser)]
#[command(name = "linger", version = env!("LINGER_VERSION"), about = help::ABOUT, after_help = help::MAIN)]
#[command(max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Serve the queue (also what happens without a command)
    Serve(Settings),
    /// Ask a running server whether it is ready: exit code 0 if it is, 1 if not
    #[command(after_help = help::HEALTH)]
    Health(HealthArgs),
    /// Check the whole store for consistency: exit code 0 if it is sound, 1 if not
    #[command(after_help = help::VERIFY)]
    Verify(VerifyArgs),
    /// Copy the embedded engine's store into one file, also while a server uses it
    #[command(after_help = help::BACKUP)]
    Backup(BackupArgs),
    /// Put a backup into the configured data directory, which must be empty or missing
    #[command(after_help = help::RESTORE)]
    Restore(BackupArgs),
    /// Accept a state of the store that the server takes for a mistake
    #[command(subcommand)]
    Store(StoreCommand),
    /// Write all jobs, schedules and settings into one file, which any engine can import, also while servers use the store
    #[command(after_help = help::EXPORT)]
    Export(ExportArgs),
    /// Put the jobs, schedules and settings of an export into the configured store
    #[command(after_help = help::IMPORT)]
    Import(ImportArgs),
    /// Move all jobs, schedules and settings of the configured store to another one
    #[command(after_help = help::MOVE)]
    Move(MoveArgs),
    /// Measure a server: throughput, lateness, parked polls, a backlog, a burst
    #[command(after_help = help::BENCH)]
    Bench(BenchArgs),
    /// Run a command for each job of some topics
    #[command(after_help = help::WORK)]
    Work(WorkArgs),
    /// Show or check the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Make, list and remove the tokens of clients
    #[command(subcommand)]
    Token(TokenCommand),
    /// Add a job, or many of them
    #[command(after_help = help::ADD)]
    Add(AddArgs),
    /// Reserve due jobs and print them
    #[command(after_help = help::POP)]
    Pop(PopArgs),
    /// Finish a reserved job: it is done and gone
    #[command(aliases = ["ack", "done"], after_help = help::CALLS)]
    Finish(FinishArgs),
    /// Give a reserved job back, for another attempt
    #[command(after_help = help::CALLS)]
    Release(ReleaseArgs),
    /// Take a job back from the worker that has it
    #[command(after_help = help::CALLS)]
    Revoke(RevokeArgs),
    /// Extend the reservation of a job
    #[command(after_help = help::CALLS)]
    Touch(TouchArgs),
    /// Make a reserved job a dead letter
    #[command(after_help = help::CALLS)]
    Bury(BuryArgs),
    /// Show a job
    #[command(after_help = help::CALLS)]
    Get(GetArgs),
    /// Change when a delayed or ready job is due
    #[command(after_help = help::CALLS)]
    Reschedule(RescheduleArgs),
    /// Delete jobs, by default also while workers have them
    #[command(aliases = ["delete", "rm"], after_help = help::CALLS)]
    Cancel(CancelArgs),
    /// List jobs by state, topic, time and the beginnings of ids and reasons
    #[command(after_help = help::CALLS)]
    Jobs(JobsArgs),
    /// Change all jobs that match a filter, or count them
    #[command(subcommand)]
    Bulk(BulkCommand),
    /// List, requeue or delete dead letters
    #[command(subcommand)]
    Dead(DeadCommand),
    /// List topics
    #[command(after_help = help::CALLS)]
    Topics(TopicsArgs),
    /// Show or change a topic
    #[command(subcommand)]
    Topic(TopicCommand),
    /// Make, show, change or run recurring jobs
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Show the endpoints that are called for a topic, or for all, and what failed there
    #[command(after_help = help::CALLS)]
    Callbacks(CallbacksArgs),
    /// Show the workers that poll for jobs or have reserved some
    #[command(after_help = help::CALLS)]
    Workers(WorkersArgs),
    /// Show who asked for which change, and what came of it
    #[command(after_help = help::CALLS)]
    Audit(AuditArgs),
    /// Show all jobs by state, and what happened to jobs lately
    #[command(after_help = help::CALLS)]
    Stats(StatsArgs),
    /// Show what the token may do
    #[command(after_help = help::CALLS)]
    Whoami(WhoamiArgs),
    /// Draw the delayed jobs by due time
    #[command(after_help = help::TIMELINE)]
    Timeline(TimelineArgs),
    /// Watch the topics and the figures of the queue
    #[command(after_help = help::TOP)]
    Top(TopArgs),
    /// Show or change the servers that commands call by a name
    #[command(subcommand, after_help = help::PROFILE)]
    Profile(ProfileCommand),
    /// Print the completions for a shell
    #[command(after_help = help::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Write the manual pages into a directory
    Man(ManArgs),
}

/// Arguments of `linger completions`.
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// Name of the shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Arguments of `linger man`.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// The directory, which is made if it is missing
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// The commands of `linger config`.
#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Print the settings in force as TOML, secrets redacted, each with its source
    Show(Settings),
    /// List every fault, also of the files that settings name: exit code 0 if there is none, 1 otherwise
    Check(Settings),
    /// Print the defaults as TOML, with the documentation of every key
    Default,
}

/// Arguments of `linger health`.
#[derive(Debug, Args)]
pub(super) struct HealthArgs {
    /// Server to ask, such as https://queue.internal (LINGER_URL) [default: the profile's, else as --local]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Profile whose server to ask (LINGER_PROFILE) [default: that of `linger profile use`]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Ask the server of this machine, at the configured address; implied by --config and --listen
    #[arg(long, conflicts_with_all = ["url", "profile"])]
    pub local: bool,
    /// How long to wait for the answer
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = parse_duration)]
    pub timeout: Duration,
    #[command(flatten)]
    file: FileFlag,
    #[command(flatten)]
    listen: ListenFlag,
}

/// Arguments of `linger verify`.
#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// A backup to verify instead of the configured store
    #[arg(value_name = "FILE")]
    pub backup: Option<PathBuf>,
    #[command(flatten)]
    file: FileFlag,
    #[command(flatten)]
    directory: DirectoryFlag,
    #[command(flatten)]
    engine: EngineFlags,
}

/// Arguments of `linger backup` and `linger restore`.
#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    /// The backup; - is stdout, or for `restore` stdin
    #[arg(value_name = "FILE")]
    pub backup: PathBuf,
    #[command(flatten)]
    file: FileFlag,
    #[command(flatten)]
    directory: DirectoryFlag,
}

/// Arguments of `linger export`.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The export; - is stdout
    #[arg(value_name = "FILE")]
    pub export: PathBuf,
    #[command(flatten)]
    file: FileFlag,
    #[command(flatten)]
    directory: DirectoryFlag,
    #[command(flatten)]
    engine: EngineFlags,
}

/// Arguments of `linger import`.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The export
    #[arg(value_name = "FILE")]
    pub export: PathBuf,
    /// Also import an export that was cut off, up to the cut
    #[arg(long)]
    pub partial: bool,
    #[command(flatten)]
    file: FileFlag,
    #[command(flatten)]
    directory: DirectoryFlag,
    #[command(flatten)]
    engine: EngineFlags,
}

/// Arguments of `linger move`.
#[derive(Debug, Args)]
pub(super) struct MoveArgs {
    /// The configuration of the new store's servers
    #[arg(long, value_name = "NEW.toml", required_unless_present = "abandon")]
    pub to: Option<PathBuf>,
    /// Complete the move, once the servers of the old store are stopped
    #[arg(long, conflicts_with = "abandon")]
    pub last: bool,
    /// With --last: leave records behind that cannot be read
    #[arg(long, requires = "last")]
    pub without_broken: bool,
    /// Give the move up: open the old store again
    #[arg(long, conflicts_with = "to")]
    pub abandon: bool,
    #[command(flatten)]
    file: FileFlag,
    #[command(flatten)]
    directory: DirectoryFlag,
    #[command(flatten)]
    engine: EngineFlags,
}

/// Parses a command line into a command and settings.
///
/// # Errors
/// What is wrong with it, or the help that was requested.
pub(super) fn parse(words: &[OsString]) -> Result<(Command, Settings), clap::Error> {
    let mut line = Cli::command();
    let matches = line.try_get_matches_from_mut(words).or_else(|mut error| {
        if tips::asks_for_version(&error, words) {
            return line.try_get_matches_from_mut(["linger", "--version"]);
        }
        tips::improve(&mut error, words);
        Err(error)
    })?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut line))?;
    let before = cli.settings;
    let Some(command) = cli.command else { return Ok((Command::Serve(Settings::default()), before)) };
    // Finds the command that was given, which can be nested as in `config show`.
    let (mut given, mut matched, mut name) = (&line, &matches, "linger".to_owned());
    while let Some((word, inner)) = matched.subcommand() {
        given = given.find_subcommand(word).expect("clap has found it");
        (matched, name) = (inner, format!("{name} {word}"));
    }
    let accepts =
        |flag: &&str| given.get_arguments().any(|known| known.get_long() == flag.strip_prefix("--"));
    if let Some(flag) = before.given_flags().into_iter().find(|flag| !accepts(flag)) {
        return Err(line.error(ErrorKind::UnknownArgument, format!("{flag} does not apply to `{name}`")));
    }
    let settings = command.settings().or(before);
    Ok((command, settings))
}

/// The description of the whole command line.
pub(super) fn description() -> clap::Command {
    Cli::command()
}

/// Whether an invalid command line is one of `linger health`.
pub(super) fn is_health(words: &[OsString]) -> bool {
    command_name(words).as_deref() == Some("health")
}

/// Whether the faults of an invalid command line are printed as problem documents. The bench has a `--json` of its own.
pub(super) fn wants_problems(words: &[OsString]) -> bool {
    words.iter().any(|word| word == "--json") && command_name(words).as_deref() != Some("bench")
}

/// The command of a command line that may be invalid.
fn command_name(words: &[OsString]) -> Option<String> {
    let matches = Cli::command().ignore_errors(true).try_get_matches_from(words);
    matches.ok().and_then(|matches| matches.subcommand_name().map(str::to_owned))
}
