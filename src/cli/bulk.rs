//! `linger bulk`: counts and changes all jobs that match a filter, and lists and stops such operations. Runs the operations of
//! other commands, too, with a line that says how far they are.

use std::{process::ExitCode, time::Duration};

use clap::{Args, Subcommand};
use linger_client::{JobSummary, JobsFilter, Request, Response, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    exit::{Exit, Failure},
    help,
    job_args::parse_moment,
    job_filter::{FilterArgs, ReasonArgs},
    job_list,
    progress::ProgressLine,
    session::{ChangeArgs, ReadArgs, Session},
    terminal,
    text::{Wording, counted, grouped},
};
use crate::{
    job::{OperationId, parse_duration},
    messages::printable::escape_line,
};

/// Most jobs that an operation changes.
pub(super) const MAX_BULK: u64 = 1_000_000_000;
/// Between two looks at an operation.
const PAUSE: Duration = Duration::from_millis(50);

const RESCHEDULE_USAGE: &str = "\
linger bulk reschedule <TOPIC>|--all-topics --delay|--at|--shift <WHEN>
       [OPTIONS]";

/// The commands of `linger bulk`.
#[derive(Debug, Subcommand)]
pub(super) enum BulkCommand {
    /// Give delayed or ready jobs another due time
    #[command(after_help = help::BULK, override_usage = RESCHEDULE_USAGE)]
    Reschedule(RescheduleAllArgs),
    /// Requeue dead letters: they are due again, and their attempts start anew
    #[command(after_help = help::BULK)]
    Requeue(RequeueAllArgs),
    /// Take reserved jobs back from their workers, such as those of a host that is gone
    #[command(after_help = help::BULK)]
    Revoke(RevokeAllArgs),
    /// Delete jobs
    #[command(after_help = help::BULK)]
    Delete(DeleteAllArgs),
    /// List the latest operations
    #[command(alias = "ls", after_help = help::CALLS)]
    List(OperationsArgs),
    /// Stop an operation; what it has changed stays changed
    #[command(after_help = help::CALLS)]
    Stop(StopArgs),
}

/// Which jobs, and how many of them.
#[derive(Debug, Args)]
struct WhichArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Jobs of all topics
    #[arg(long, required_unless_present = "topic", conflicts_with = "topic")]
    all_topics: bool,
    /// Only count them, and show the first ten
    #[arg(long)]
    dry_run: bool,
    /// Change at most so many [default: as many as match now]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=MAX_BULK))]
    limit: Option<u64>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Arguments of `linger bulk reschedule`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("due").required(true))]
pub(super) struct RescheduleAllArgs {
    /// When they are due, from now
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, group = "due")]
    delay: Option<Duration>,
    /// When they are due, such as '2026-12-01 09:00'
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment, group = "due")]
    at: Option<Timestamp>,
    /// How much later each is due, or earlier with a sign, such as -15m
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, group = "due")]
    shift: Option<String>,
    /// Spread them evenly over so long, beginning at the due time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "shift")]
    spread: Option<Duration>,
    #[command(flatten)]
    which: WhichArgs,
}

/// When the changed jobs are due.
#[derive(Debug, Args)]
struct DueArgs {
    /// When they are due, from now [default: at once]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "at")]
    delay: Option<Duration>,
    /// When they are due, such as '2026-12-01 09:00'
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment)]
    at: Option<Timestamp>,
    /// Spread them evenly over so long, beginning at the due time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    spread: Option<Duration>,
}

/// Arguments of `linger bulk requeue`.
#[derive(Debug, Args)]
pub(super) struct RequeueAllArgs {
    #[command(flatten)]
    due: DueArgs,
    #[command(flatten)]
    by: ReasonArgs,
    #[command(flatten)]
    which: WhichArgs,
}

/// Arguments of `linger bulk revoke`.
#[derive(Debug, Args)]
pub(super) struct RevokeAllArgs {
    #[command(flatten)]
    due: DueArgs,
    /// Why; it is kept with the jobs
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    which: WhichArgs,
}

/// Arguments of `linger bulk delete`.
#[derive(Debug, Args)]
pub(super) struct DeleteAllArgs {
    #[command(flatten)]
    by: ReasonArgs,
    #[command(flatten)]
    which: WhichArgs,
}

/// Arguments of `linger bulk list`.
#[derive(Debug, Args)]
pub(super) struct OperationsArgs {
    #[command(flatten)]
    read: ReadArgs,
}

/// Arguments of `linger bulk stop`.
#[derive(Debug, Args)]
pub(super) struct StopArgs {
    /// Id of the operation
    id: String,
    #[command(flatten)]
    change: ChangeArgs,
}

/// What an answer says of an operation.
#[derive(Deserialize)]
struct BulkAnswer {
    id: String,
    action: String,
    state: String,
    #[serde(default)]
    dry_run: bool,
    started_at: Timestamp,
    matched: u64,
    changed: u64,
    skipped: u64,
    error: Option<String>,
}

/// Runs the command.
pub(super) fn run(command: &BulkCommand) -> ExitCode {
    match command {
        BulkCommand::Reschedule(RescheduleAllArgs { which, delay, at, shift, spread }) => {
            let mut due = due_members(*delay, *at, *spread);
            due.extend(shift.as_ref().map(|shift| ("shift".to_owned(), json!(shift))));
            which.run("bulk reschedule", "reschedule", which.filter.filter(), due)
        }
        BulkCommand::Requeue(RequeueAllArgs { which, due, by }) => {
            let members = due_members(due.delay, due.at, due.spread);
            which.run("bulk requeue", "requeue", which.filter.filter_by(by), members)
        }
        BulkCommand::Revoke(RevokeAllArgs { which, due, reason }) => {
            let mut members = due_members(due.delay, due.at, due.spread);
            members.extend(reason.as_ref().map(|reason| ("reason".to_owned(), json!(reason))));
            which.run("bulk revoke", "revoke", which.filter.filter(), members)
        }
        BulkCommand::Delete(DeleteAllArgs { which, by }) => {
            which.run("bulk delete", "delete", which.filter.filter_by(by), Map::new())
        }
        BulkCommand::List(OperationsArgs { read }) => read.run("bulk list", list),
        BulkCommand::Stop(StopArgs { id, change }) => change.run("bulk stop", async |session| {
            session.confirm_change(&format!("stop the bulk operation {id}"))?;
            let response = session.call(&Request::stop_bulk(id)).await?;
            session.print(&response, |operation| line(&session.wording(), &operation))?;
            Ok(Exit::Done)
        }),
    }
}

/// The members that say when the jobs are due.
fn due_members(
    delay: Option<Duration>,
    at: Option<Timestamp>,
    spread: Option<Duration>,
) -> Map<String, Value> {
    let duration = |duration: Duration| json!(format!("{}ms", duration.as_millis()));
    let members = [
        ("delay", delay.map(duration)),
        ("at", at.map(|at| json!(format!("{at:.3}")))),
        ("spread", spread.map(duration)),
    ];
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

impl WhichArgs {
    fn run(
        &self,
        command: &'static str,
        action: &'static str,
        filter: JobsFilter,
        members: Map<String, Value>,
    ) -> ExitCode {
        self.change.run(command, async |session| self.act(session, command, action, filter, members).await)
    }

    async fn act(
        &self,
        session: &Session,
        command: &'static str,
        action: &'static str,
        filter: JobsFilter,
        members: Map<String, Value>,
    ) -> Result<Exit, Failure> {
        if action == "delete" && filter.state.is_none() {
            return Err(Failure::usage("add --state: jobs of one state are deleted at a time"));
        }
        let mut operation = members;
        operation.insert("action".to_owned(), json!(action));
        let mut filter = json!(filter);
        if self.all_topics {
            filter["all_topics"] = json!(true);
        }
        operation.insert("filter".to_owned(), filter);
        let counted_jobs = count(session, command, &operation).await?;
        // A script that lacks --yes fails whether or not there are jobs.
        if self.dry_run || (counted_jobs.matched == 0 && terminal::is_there()) {
            return counted_jobs.print(session);
        }
        let limit = self.limit.map_or(counted_jobs.matched, |limit| limit.min(counted_jobs.matched));
        let topic = self.filter.topic.as_deref();
        let change = format!("{action} {} of {}", counted(limit, "job"), topic.unwrap_or("all topics"));
        match action {
            "delete" => session.confirm_deletion(topic, async || Ok(change)).await?,
            _ => session.confirm_change(&change)?,
        }
        if limit == 0 {
            return counted_jobs.print(session);
        }
        operation.insert("limit".to_owned(), json!(limit));
        run_operation(session, command, operation).await
    }
}

/// What a dry run found.
struct Count {
    matched: u64,
    response: Response,
}

impl Count {
    fn print(&self, session: &Session) -> Result<Exit, Failure> {
        #[derive(Deserialize)]
        struct First {
            #[serde(default)]
            jobs: Vec<JobSummary>,
        }
        session.print(&self.response, |First { jobs }| {
            let wording = session.wording();
            let lines = jobs.iter().map(|job| terminal::fitted(&job_list::line(&wording, job)));
            let verb = if self.matched == 1 { "matches" } else { "match" };
            lines.chain([format!("{} {verb}", counted(self.matched, "job"))]).collect::<Vec<_>>().join("\n")
        })?;
        Ok(Exit::Done)
    }
}

/// Counts the jobs that an operation would change. A count that takes long is an operation itself.
async fn count(
    session: &Session,
    command: &'static str,
    operation: &Map<String, Value>,
) -> Result<Count, Failure> {
    #[derive(Deserialize)]
    struct Matched {
        matched: u64,
    }
    let response = session.call(&Request::start_bulk(operation)).await?;
    if response.status != 202 {
        return Ok(Count { matched: session.read::<Matched>(&response)?.matched, response });
    }
    let (ended, response) = wait(session, command, response).await?;
    match ended.state.as_str() {
        "done" => Ok(Count { matched: ended.matched, response }),
        _ => Err(ended.failure()),
    }
}

/// Starts an operation, and waits for its end. A repeat of the call is recognised by the operation's id.
pub(super) async fn run_operation(
    session: &Session,
    command: &'static str,
    mut operation: Map<String, Value>,
) -> Result<Exit, Failure> {
    operation.insert("dry_run".to_owned(), json!(false));
    operation.insert("id".to_owned(), json!(OperationId::generate().as_str()));
    let response = session.call(&Request::start_bulk(&operation)).await?;
    let (ended, response) = wait(session, command, response).await?;
    session.output.print(|| ended.outcome(), response.text()?)?;
    if ended.state == "done" { Ok(Exit::Done) } else { Err(ended.failure()) }
}

/// Waits for the end of an operation. Returns what the last answer said of it.
async fn wait(
    session: &Session,
    command: &'static str,
    mut response: Response,
) -> Result<(BulkAnswer, Response), Failure> {
    let (progress, mut known) = (ProgressLine::counting(command, "job"), 0);
    loop {
        let now: BulkAnswer = session.read(&response)?;
        if now.state != "running" {
            return Ok((now, response));
        }
        let seen = if now.dry_run { now.matched } else { now.changed };
        progress.add(seen.saturating_sub(known));
        known = known.max(seen);
        session.clock.sleep(PAUSE).await;
        response = session.call(&Request::bulk(&now.id)).await?;
    }
}

impl BulkAnswer {
    /// What it has done, in words.
    fn outcome(&self) -> String {
        let (verb, why) = match self.action.as_str() {
            "delete" => ("deleted", "changed meanwhile"),
            "requeue" => ("requeued", "changed meanwhile or have expired"),
            "revoke" => ("revoked", "changed meanwhile"),
            _ => ("rescheduled", "changed meanwhile"),
        };
        let skipped = match self.skipped {
            0 => String::new(),
            skipped => format!(", {skipped} {why}"),
        };
        format!("{} {verb}{skipped}", self.changed)
    }

    fn failure(&self) -> Failure {
        let reason = self.error.as_deref().map_or(String::new(), |error| format!(": {}", escape_line(error)));
        Failure::new(Exit::Failed, format!("the bulk operation {} is {}{reason}", self.id, self.state))
    }
}

/// An operation in a line: `9f86d0  running  1200 rescheduled  2m ago`.
fn line(wording: &Wording, operation: &BulkAnswer) -> String {
    let done = match operation.dry_run {
        true => format!("{} counted", grouped(operation.matched)),
        false => operation.outcome(),
    };
    let began = wording.distance(operation.started_at);
    [operation.id.as_str(), operation.state.as_str(), &done, &began].join("  ")
}

async fn list(session: &Session) -> Result<Exit, Failure> {
    #[derive(Deserialize)]
    struct BulkAnswers {
        operations: Vec<Box<RawValue>>,
    }
    let BulkAnswers { operations } = session.read(&session.call(&Request::bulk_operations()).await?)?;
    for operation in &operations {
        session.print_part(operation, |operation| terminal::fitted(&line(&session.wording(), &operation)))?;
    }
    Ok(Exit::Done)
}
