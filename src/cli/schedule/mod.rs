//! `linger schedule`: makes, shows, changes and runs recurring jobs. `put.rs` has the definition of one, `text.rs` how schedules
//! look as text.

mod put;
mod text;

use std::{collections::BTreeMap, process::ExitCode};

use clap::{Args, Subcommand};
use linger_client::{ClockChange, Request, Schedule, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use put::PutArgs;

use super::{
    add::print_added,
    exit::{Exit, Failure},
    help,
    jobs::for_each,
    session::{ChangeArgs, ReadArgs, Session},
    terminal,
    text::table,
};
use crate::job::JobId;

/// Most schedules of a page.
const PAGE: usize = 100;

/// The members of a schedule that are no part of its definition.
const STATE_MEMBERS: [&str; 8] = ["name", "revision", "state", "next", "last", "last_job", "waiting", "runs"];

/// The commands of `linger schedule`.
#[derive(Debug, Subcommand)]
pub(super) enum ScheduleCommand {
    /// Make a schedule, or replace the definition of one
    #[command(aliases = ["set", "add", "create"], after_help = help::SCHEDULE_PUT)]
    Put(Box<PutArgs>),
    /// List the schedules
    #[command(alias = "ls", after_help = help::CALLS)]
    List(ScheduleListArgs),
    /// Show a schedule
    #[command(alias = "show", after_help = help::CALLS)]
    Get(ScheduleGetArgs),
    /// Show when a schedule runs next
    #[command(after_help = help::CALLS)]
    Next(ScheduleNextArgs),
    /// Stop the runs of a schedule until it is resumed
    #[command(after_help = help::CALLS)]
    Pause(ScheduleNameArgs),
    /// Resume a schedule, without the runs that it would have had meanwhile
    #[command(after_help = help::CALLS)]
    Resume(ScheduleNameArgs),
    /// Add a job of a schedule now; the schedule does not change
    #[command(after_help = help::CALLS)]
    Run(RunArgs),
    /// Delete schedules; the jobs of their runs stay
    #[command(aliases = ["rm", "remove"], after_help = help::CALLS)]
    Delete(ScheduleDeleteArgs),
}

/// Arguments of `linger schedule list`.
#[derive(Debug, Args)]
pub(super) struct ScheduleListArgs {
    #[command(flatten)]
    read: ReadArgs,
}

/// Arguments of `linger schedule get`.
#[derive(Debug, Args)]
pub(super) struct ScheduleGetArgs {
    /// Name of the schedule
    name: String,
    /// Print only the definition, as JSON that `linger schedule put` takes; values of headers are hidden: give them again
    #[arg(long)]
    definition: bool,
    #[command(flatten)]
    read: ReadArgs,
}

/// Arguments of `linger schedule next`.
#[derive(Debug, Args)]
pub(super) struct ScheduleNextArgs {
    /// Name of the schedule
    name: String,
    /// Most runs
    #[arg(long, value_name = "COUNT", default_value = "10")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1_000))]
    count: u16,
    #[command(flatten)]
    read: ReadArgs,
}

/// Arguments of `linger schedule pause` and `linger schedule resume`.
#[derive(Debug, Args)]
pub(super) struct ScheduleNameArgs {
    /// Name of the schedule
    name: String,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Arguments of `linger schedule run`.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Name of the schedule
    name: String,
    /// Id of the run: a second run with the same id adds nothing; the job's id is run:NAME:ID [default: a new one]
    #[arg(long)]
    id: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Arguments of `linger schedule delete`.
#[derive(Debug, Args)]
pub(super) struct ScheduleDeleteArgs {
    /// Names of the schedules
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Runs the command.
pub(super) fn run(command: &ScheduleCommand) -> ExitCode {
    match command {
        ScheduleCommand::Put(arguments) => put::run(arguments),
        ScheduleCommand::List(ScheduleListArgs { read }) => read.run("schedule list", list),
        ScheduleCommand::Get(ScheduleGetArgs { name, definition, read }) => {
            read.run("schedule get", async |session| get(session, name, *definition).await)
        }
        ScheduleCommand::Next(ScheduleNextArgs { name, count, read }) => {
            read.run("schedule next", async |session| next(session, name, *count).await)
        }
        ScheduleCommand::Pause(arguments) => {
            arguments.change("schedule pause", Request::pause_schedule, "pause")
        }
        ScheduleCommand::Resume(arguments) => {
            arguments.change("schedule resume", Request::resume_schedule, "resume")
        }
        ScheduleCommand::Run(RunArgs { name, id, change }) => change.run("schedule run", async |session| {
            session.confirm_change(&format!("run schedule {name}"))?;
            let id = id.clone().unwrap_or_else(|| JobId::generate().to_string());
            print_added(session, &session.call(&Request::run_schedule(name, &id)).await?)
        }),
        ScheduleCommand::Delete(ScheduleDeleteArgs { names, change }) => {
            change.run("schedule delete", async |session| delete(session, names).await)
        }
    }
}

async fn list(session: &Session) -> Result<Exit, Failure> {
    #[derive(Deserialize)]
    struct Page {
        schedules: Vec<Box<RawValue>>,
        next_cursor: Option<String>,
    }
    let mut rows = vec![text::HEADING.map(str::to_owned).to_vec()];
    let mut cursor: Option<String> = None;
    loop {
        let response = session.call(&Request::schedules(PAGE, cursor.as_deref())).await?;
        let page: Page = session.read(&response)?;
        for schedule in &page.schedules {
            let read: Schedule = session.part(schedule)?;
            match session.output.is_text() {
                true => rows.push(text::row(&session.wording(), &read)),
                false => session.output.print(String::new, schedule.get())?,
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() || session.output.is_closed() {
            break;
        }
    }
    if session.output.is_text() {
        session.output.print(|| terminal::fitted(&table(&rows)), "")?;
    }
    Ok(Exit::Done)
}

async fn get(session: &Session, name: &str, only_definition: bool) -> Result<Exit, Failure> {
    let response = session.call(&Request::schedule(name)).await?;
    if only_definition {
        session.read::<Schedule>(&response)?;
        let mut members: BTreeMap<String, Box<RawValue>> = session.read(&response)?;
        members.retain(|member, _| !STATE_MEMBERS.contains(&member.as_str()));
        let definition = serde_json::to_string(&members).expect("the server's JSON is JSON");
        session.output.write(format!("{definition}\n").as_bytes())?;
    } else {
        session.print(&response, |schedule: Schedule| text::details(&session.wording(), &schedule))?;
    }
    Ok(Exit::Done)
}

async fn next(session: &Session, name: &str, count: u16) -> Result<Exit, Failure> {
    #[derive(Deserialize)]
    struct Next {
        next: Vec<Timestamp>,
        #[serde(default)]
        clock_changes: Vec<ClockChange>,
    }
    let response = session.call(&Request::next_runs(name, count.into())).await?;
    session.print(&response, |Next { next, clock_changes }| {
        text::runs(&session.wording(), &next, &clock_changes)
    })?;
    Ok(Exit::Done)
}

impl ScheduleNameArgs {
    fn change(&self, command: &'static str, request: fn(&str) -> Request, verb: &str) -> ExitCode {
        let Self { name, change } = self;
        change.run(command, async |session| {
            session.confirm_change(&format!("{verb} schedule {name}"))?;
            let response = session.call(&request(name)).await?;
            session.print(&response, |schedule: Schedule| text::line(&session.wording(), &schedule))?;
            Ok(Exit::Done)
        })
    }
}

async fn delete(session: &Session, names: &[String]) -> Result<Exit, Failure> {
    session.confirm_change(&format!("delete schedule {}", names.join(", ")))?;
    for_each(session, names, async |name| {
        let response = session.call(&Request::delete_schedule(name)).await?;
        session.print_done_to(response, ("name", name), "deleted")
    })
    .await
}
