//! `linger topics` and `linger topic`: lists topics, shows, pauses, resumes and purges one.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use linger_client::{
    Cause, Counts, NewPause, Paused, Request, Response, Topic, TopicCalls, TopicSort, TopicsRequest,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    cause::{cause_text, pause_text},
    exit::{Exit, Failure},
    help,
    job_args::parse_expire,
    session::{ChangeArgs, ReadArgs, Session},
    text::{counted, paused, span, table},
    topic_secret::{self, SecretCommand},
    topic_set::{self, SetArgs},
};
use crate::messages::printable::escape_line;

/// Most topics of a page.
const PAGE: usize = 1_000;

/// Arguments of `linger topics`.
#[derive(Debug, Args)]
pub(super) struct TopicsArgs {
    /// Only topics whose names begin so
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    #[command(flatten)]
    read: ReadArgs,
}

/// The commands of `linger topic`.
#[derive(Debug, Subcommand)]
pub(super) enum TopicCommand {
    /// Show the counts and settings of a topic
    #[command(after_help = help::CALLS)]
    Show(ShowArgs),
    /// Set what new jobs of a topic get if they say nothing else; what is left out stays
    #[command(after_help = help::TOPIC_SET, override_usage = "linger topic set <TOPIC> [OPTIONS]")]
    Set(SetArgs),
    /// Add, list and delete the secrets that sign the callbacks of a topic
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Stop the delivery of jobs, the intake of new ones, or both
    #[command(after_help = help::CALLS)]
    Pause(PauseArgs),
    /// Resume the delivery of jobs, the intake of new ones, or both
    #[command(after_help = help::CALLS)]
    Resume(ResumeArgs),
    /// Call the endpoints of a topic that rest because they failed, at once
    #[command(after_help = help::CALLS)]
    Call(CallArgs),
    /// Delete every job of a topic in every state; its settings stay
    #[command(after_help = help::CALLS)]
    Purge(PurgeArgs),
}

/// Arguments of `linger topic show`.
#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// Name of the topic
    topic: String,
    #[command(flatten)]
    read: ReadArgs,
}

/// What `linger topic pause` and `linger topic resume` are about.
#[derive(Debug, Args)]
struct OperationArgs {
    /// Name of the topic
    topic: String,
    /// Only the delivery of jobs [default: both]
    #[arg(long)]
    delivery: bool,
    /// Only the intake of new jobs [default: both]
    #[arg(long)]
    intake: bool,
}

/// Arguments of `linger topic pause`.
#[derive(Debug, Args)]
pub(super) struct PauseArgs {
    #[command(flatten)]
    operations: OperationArgs,
    /// Why; shown wherever the pause is
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// When the pause ends by itself: a moment (RFC 3339), or a duration from now, such as 30m [default: never]
    #[arg(long, value_name = "MOMENT", value_parser = checked_until)]
    until: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Arguments of `linger topic resume`.
#[derive(Debug, Args)]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    operations: OperationArgs,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Arguments of `linger topic call`.
#[derive(Debug, Args)]
pub(super) struct CallArgs {
    /// Name of the topic
    topic: String,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Arguments of `linger topic purge`.
#[derive(Debug, Args)]
pub(super) struct PurgeArgs {
    /// Name of the topic
    topic: String,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Runs `linger topics`.
pub(super) fn list(TopicsArgs { prefix, read }: &TopicsArgs) -> ExitCode {
    read.run("topics", async |session| {
        #[derive(Deserialize)]
        struct Page {
            topics: Vec<Box<RawValue>>,
            next_cursor: Option<String>,
        }
        let mut rows = vec![HEADING.map(str::to_owned).to_vec()];
        let mut cursor: Option<String> = None;
        loop {
            let request = TopicsRequest {
                prefix: prefix.as_deref(),
                sort: TopicSort::Name,
                limit: PAGE,
                cursor: cursor.as_deref(),
            };
            let response = session.call(&Request::topics(&request)).await?;
            let page: Page = session.read(&response)?;
            for topic in &page.topics {
                let read = session.part(topic)?;
                match session.output.is_text() {
                    true => rows.push(row(&read)),
                    false => session.output.print(String::new, topic.get())?,
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() || session.output.is_closed() {
                break;
            }
        }
        if session.output.is_text() {
            session.output.print(|| table(&rows), "")?;
        }
        Ok(Exit::Done)
    })
}

const HEADING: [&str; 7] = ["TOPIC", "DELAYED", "READY", "RESERVED", "DEAD", "POLLS", "PAUSED"];

fn row(topic: &Topic) -> Vec<String> {
    let counts = topic.counts;
    let numbers = [counts.delayed, counts.ready, counts.reserved, counts.dead];
    let polls = topic.polls.map_or("?".to_owned(), |polls| polls.to_string());
    let numbers = numbers.iter().map(u64::to_string).chain([polls]);
    [topic.topic.clone()].into_iter().chain(numbers).chain([paused(topic.paused).to_owned()]).collect()
}

/// Runs a command of `linger topic`.
pub(super) fn run(command: &TopicCommand) -> ExitCode {
    match command {
        TopicCommand::Show(ShowArgs { topic, read }) => read.run("topic show", async |session| {
            let response = session.call(&Request::topic(topic)).await?;
            print(session, &response)
        }),
        TopicCommand::Set(arguments) => arguments
            .change
            .run("topic set", async |session| print(session, &topic_set::set(session, arguments).await?)),
        TopicCommand::Secret(command) => topic_secret::run(command),
        TopicCommand::Pause(PauseArgs { operations, reason, until, change }) => {
            let pause =
                NewPause { paused: operations.paused(), reason: reason.clone(), until: until.clone() };
            let request = Request::pause(&operations.topic, &pause);
            change.run("topic pause", async |session| operations.change(session, "pause", &request).await)
        }
        TopicCommand::Resume(ResumeArgs { operations, change }) => {
            let request = Request::resume(&operations.topic, operations.paused());
            change.run("topic resume", async |session| operations.change(session, "resume", &request).await)
        }
        TopicCommand::Call(CallArgs { topic, change }) => {
            change.run("topic call", async |session| call_now(session, topic).await)
        }
        TopicCommand::Purge(PurgeArgs { topic, change }) => {
            change.run("topic purge", async |session| purge(session, topic).await)
        }
    }
}

fn print(session: &Session, response: &Response) -> Result<Exit, Failure> {
    session.print(response, |topic: Topic| details(session, &topic))?;
    Ok(Exit::Done)
}

fn details(session: &Session, topic: &Topic) -> String {
    let wording = session.wording();
    let mut lines = vec![table(&[HEADING.map(str::to_owned).to_vec(), row(topic)])];
    let mut line = |name: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("  {name:<17}{value}")));
    };
    line("next due", topic.next_due_at.map(|due_at| wording.due(due_at)));
    line("oldest ready", topic.oldest_overdue_at.map(|due_at| wording.due(due_at)));
    line("cause", topic.cause.as_ref().and_then(|cause| cause_text(&wording, cause)));
    // The pause of the delivery comes first among the causes.
    let is_cause = matches!(topic.cause, Some(Cause::IntakePaused(_)));
    let intake = topic.pauses.intake.as_ref().filter(|_| !is_cause);
    line("intake", intake.map(|pause| pause_text(&wording, pause)));
    let settings = &topic.settings;
    let steps = settings.retry.iter().copied().map(span).collect::<Vec<_>>().join(",");
    line("ttr", settings.ttr.map(span));
    line("retry", (!steps.is_empty()).then_some(steps));
    line("max-attempts", settings.max_attempts.map(|count| count.to_string()));
    line("require-receipt", settings.require_receipt.then(|| "true".to_owned()));
    line("late-finish", settings.late_finish.map(|allowed| allowed.to_string()));
    line("expire", settings.expire.map(span));
    line("on-expiry", settings.on_expiry.clone());
    line("dedup", settings.dedup.map(span));
    line("callback", settings.callback.as_ref().map(callback_text));
    lines.join("\n")
}

/// `POST https://a.example/hook, at most 20/s, 8 at a time, 30s for an answer`.
fn callback_text(callback: &TopicCalls) -> String {
    let url = callback.url.as_deref().map_or("those of its jobs".into(), escape_line);
    let method = callback.method.as_deref().or(callback.url.as_deref().map(|_| "POST"));
    let target = [method, Some(&*url)].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let rate = callback.rate.map(|rate| format!("at most {rate}/s"));
    let concurrency = callback.concurrency.map(|calls| format!("{calls} at a time"));
    let timeout = callback.timeout.map(|timeout| format!("{} for an answer", span(timeout)));
    [Some(target), rate, concurrency, timeout].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

impl OperationArgs {
    fn paused(&self) -> Paused {
        let both = !self.delivery && !self.intake;
        Paused { delivery: self.delivery || both, intake: self.intake || both }
    }

    async fn change(&self, session: &Session, verb: &str, request: &Request) -> Result<Exit, Failure> {
        session.confirm_change(&format!("{verb} {}", self.topic))?;
        let response = session.call(request).await?;
        print(session, &response)
    }
}

/// The server reads it by its own clock.
fn checked_until(text: &str) -> Result<String, String> {
    parse_expire(text).map(|_| text.to_owned())
}

async fn call_now(session: &Session, topic: &str) -> Result<Exit, Failure> {
    session.confirm_change(&format!("call the endpoints of {topic} now"))?;
    let response = session.call(&Request::call_now(topic)).await?;
    session.print_done_to(response, ("topic", topic), "its endpoints are called")?;
    Ok(Exit::Done)
}

async fn purge(session: &Session, topic: &str) -> Result<Exit, Failure> {
    #[derive(Deserialize)]
    struct Deleted {
        deleted: u64,
    }
    let change = async || {
        let Counts { delayed, ready, reserved, dead } = counts(session, topic).await?;
        Ok(format!("delete every job of {topic} ({})", counted(delayed + ready + reserved + dead, "job")))
    };
    session.confirm_deletion(Some(topic), change).await?;
    let response = session.call(&Request::purge(topic)).await?;
    session.print(&response, |Deleted { deleted }| format!("{} deleted", counted(deleted, "job")))?;
    Ok(Exit::Done)
}

/// The jobs of a topic by state; none of a topic that does not exist.
pub(super) async fn counts(session: &Session, topic: &str) -> Result<Counts, Failure> {
    match session.call(&Request::topic(topic)).await {
        Ok(response) => Ok(session.read::<Topic>(&response)?.counts),
        Err(failure) if failure.exit == Exit::Absent => Ok(Counts::default()),
        Err(failure) => Err(failure),
    }
}
