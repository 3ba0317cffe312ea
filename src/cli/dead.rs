//! `linger dead`: lists dead letters, and requeues or deletes them.

use std::{process::ExitCode, time::Duration};

use clap::{Args, Subcommand};
use linger_client::{Due, Expire, Job, Request, Requeue, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    bulk::{self, MAX_BULK},
    exit::{Exit, Failure},
    help,
    job_args::{parse_expire, parse_moment},
    jobs::{change_job, for_each},
    session::{ChangeArgs, ReadArgs, Session},
    terminal,
    text::counted,
    topics::counts,
};
use crate::job::parse_duration;

/// Most dead letters of a page.
const PAGE: usize = 100;

/// How dead letters are chosen.
const SELECTION_USAGE: &str = "linger dead VERB [OPTIONS] <TOPIC> <ID>...|--all|--limit <COUNT>";

/// The commands of `linger dead`.
#[derive(Debug, Subcommand)]
pub(super) enum DeadCommand {
    /// List the dead letters of a topic, the oldest first
    #[command(alias = "list", after_help = help::CALLS)]
    Ls(ListArgs),
    /// Requeue dead letters: they are due again, and their attempts start anew
    #[command(after_help = help::CALLS, override_usage = SELECTION_USAGE.replace("VERB", "requeue"))]
    Requeue(RequeueArgs),
    /// Delete dead letters
    #[command(aliases = ["rm", "remove"], after_help = help::CALLS, override_usage = SELECTION_USAGE.replace("VERB", "delete"))]
    Delete(DeleteArgs),
}

/// Arguments of `linger dead ls`.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Name of the topic
    topic: String,
    /// Most dead letters; with --all there is no limit
    #[arg(long, value_name = "COUNT", default_value = "100", conflicts_with = "all")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// List all of them
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    read: ReadArgs,
}

/// Which dead letters to change.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
struct Selection {
    /// Name of the topic
    topic: String,
    /// Ids of dead letters
    #[arg(value_name = "ID", group = "which")]
    ids: Vec<String>,
    /// All dead letters of the topic
    #[arg(long, group = "which")]
    all: bool,
    /// The oldest dead letters of the topic, at most so many
    #[arg(long, value_name = "COUNT", group = "which")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=MAX_BULK))]
    limit: Option<u64>,
}

/// Arguments of `linger dead requeue`.
#[derive(Debug, Args)]
pub(super) struct RequeueArgs {
    #[command(flatten)]
    selection: Selection,
    /// When they are due, from now [default: at once]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "at")]
    delay: Option<Duration>,
    /// When they are due, such as 2027-01-01T08:00:00+01:00
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment)]
    at: Option<Timestamp>,
    /// Another expiry, which jobs whose expiry has passed need: a duration after they are due, or a moment
    #[arg(long, value_name = "DURATION|MOMENT", value_parser = parse_expire, conflicts_with = "clear_expire")]
    expire: Option<Expire>,
    /// They do not expire any more
    #[arg(long)]
    clear_expire: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Arguments of `linger dead delete`.
#[derive(Debug, Args)]
pub(super) struct DeleteArgs {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Runs the command.
pub(super) fn run(command: &DeadCommand) -> ExitCode {
    match command {
        DeadCommand::Ls(arguments) => {
            arguments.read.run("dead ls", async |session| list(session, arguments).await)
        }
        DeadCommand::Requeue(arguments) => {
            arguments.change.run("dead requeue", async |session| requeue(session, arguments).await)
        }
        DeadCommand::Delete(arguments) => {
            arguments.change.run("dead delete", async |session| delete(session, &arguments.selection).await)
        }
    }
}

async fn list(session: &Session, arguments: &ListArgs) -> Result<Exit, Failure> {
    #[derive(Deserialize)]
    struct Page {
        jobs: Vec<Box<RawValue>>,
        next_cursor: Option<String>,
    }
    let mut left = if arguments.all { u64::MAX } else { arguments.limit };
    let mut cursor = None;
    loop {
        let limit = usize::try_from(left).map_or(PAGE, |left| left.min(PAGE));
        let response = session.call(&Request::dead(&arguments.topic, limit, cursor.as_deref())).await?;
        let page: Page = session.read(&response)?;
        for job in &page.jobs {
            session.print_part(job, |job: Job| terminal::fitted(&session.wording().dead(&job)))?;
        }
        left = left.saturating_sub(page.jobs.len() as u64);
        cursor = page.next_cursor;
        if cursor.is_none() || left == 0 || session.output.is_closed() {
            return Ok(Exit::Done);
        }
    }
}

async fn requeue(session: &Session, arguments: &RequeueArgs) -> Result<Exit, Failure> {
    let RequeueArgs { selection, delay, at, expire, clear_expire, .. } = arguments;
    let due = delay.map(Due::Delay).or(at.map(Due::At));
    let requeue = Requeue { due, expire: *expire, clear_expire: *clear_expire };
    session.confirm_change(&format!("requeue dead letters of {}", selection.topic))?;
    if selection.ids.is_empty() {
        return bulk(session, "requeue", selection, requeue).await;
    }
    for_each(session, &selection.ids, async |id| {
        expect_in_topic(session, id, &selection.topic).await?;
        let request = Request::requeue(id, requeue);
        change_job(session, id, &request, |job| job.state != "dead").await.map(drop)
    })
    .await
}

async fn delete(session: &Session, selection: &Selection) -> Result<Exit, Failure> {
    let topic = &selection.topic;
    if selection.ids.is_empty() {
        let which = if selection.all { "all" } else { "the oldest" };
        let limit = selection.limit.unwrap_or(u64::MAX);
        let change = async || {
            let count = counted(counts(session, topic).await?.dead.min(limit), "job");
            Ok(format!("delete {which} dead letters of {topic} ({count})"))
        };
        session.confirm_deletion(Some(topic), change).await?;
        return bulk(session, "delete", selection, Requeue::default()).await;
    }
    session.confirm_change(&format!("delete dead letters of {topic}"))?;
    for_each(session, &selection.ids, async |id| {
        let job = expect_in_topic(session, id, topic).await?;
        if job.state != "dead" {
            let state = job.state;
            return Err(Failure::new(
                Exit::Conflict,
                format!("is no dead letter, but {state}; nothing was changed"),
            ));
        }
        let response = session.call(&Request::delete(id)).await?;
        session.print_done(response, id, "deleted")
    })
    .await
}

/// The job, which is of this topic; any other is as good as none.
async fn expect_in_topic(session: &Session, id: &str, topic: &str) -> Result<Job, Failure> {
    let response = session.call(&Request::job(id)).await?;
    let job: Job = session.read(&response)?;
    if job.topic == topic {
        return Ok(job);
    }
    Err(Failure::new(Exit::Absent, format!("{topic} has no such job; it is of {}", job.topic)))
}

/// Changes many dead letters by a bulk operation, and waits for its end.
async fn bulk(
    session: &Session,
    action: &str,
    selection: &Selection,
    requeue: Requeue,
) -> Result<Exit, Failure> {
    let mut operation = match json!(requeue) {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    operation.insert("action".to_owned(), json!(action));
    operation.insert("filter".to_owned(), json!({ "topic": selection.topic, "state": "dead" }));
    operation.insert("limit".to_owned(), json!(selection.limit.unwrap_or(MAX_BULK)));
    let command = if action == "delete" { "dead delete" } else { "dead requeue" };
    bulk::run_operation(session, command, operation).await
}
