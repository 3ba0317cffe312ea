//! `linger schedule put`: the definition of a schedule, from flags or as a document.

use std::{process::ExitCode, time::Duration};

use clap::{Args, ValueEnum};
use linger_client::{Expire, Missed, NewJob, NewSchedule, Overlap, Recurrence, Request, Schedule, Timestamp};
use serde_json::value::{RawValue, to_raw_value};

use super::{
    super::{
        exit::{Exit, Failure},
        job_args::{JobArgs, OnExpiryArg, parse_moment},
        json_argument,
        session::{ChangeArgs, Session},
    },
    text,
};
use crate::job::parse_duration;

const PREVIEWED_RUNS: usize = 10;

const USAGE: &str = "\
linger schedule put <NAME> --cron|--every --topic [OPTIONS]
       linger schedule put <NAME> <JSON|@FILE|->";

/// Arguments of `linger schedule put`.
#[derive(Debug, Args)]
#[command(override_usage = USAGE)]
pub(in crate::cli) struct PutArgs {
    /// Name of the schedule
    name: String,
    /// In place of flags, the whole definition as PUT /schedules takes it: JSON, @FILE for that in a file, - for that on stdin
    #[arg(value_name = "JSON|@FILE|-", conflicts_with_all = ["DefinitionArgs", "JobArgs"])]
    definition: Option<String>,
    #[command(flatten)]
    flags: DefinitionArgs,
    #[command(flatten)]
    job: JobArgs,
    /// Only check the definition, and show the next ten runs of the schedule that it would make
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// The flags of a definition.
#[derive(Debug, Args)]
struct DefinitionArgs {
    /// When it runs: minute, hour, day of the month, month, day of the week; @daily and so on
    #[arg(long, value_name = "PATTERN", required_unless_present_any = ["every", "definition"])]
    cron: Option<String>,
    /// At which interval it runs, counted from --start, else from 1970
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "cron")]
    every: Option<Duration>,
    /// Time zone of the pattern, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", conflicts_with = "every")]
    time_zone: Option<String>,
    /// No run is before this moment, such as 2027-01-01T08:00:00+01:00
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment)]
    start: Option<Timestamp>,
    /// No run is after this moment
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment)]
    end: Option<Timestamp>,
    /// Spread the runs: each is due up to so long after its moment [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    jitter: Option<Duration>,
    /// What happens if the job of the previous run is not over [default: skip]
    #[arg(long, value_enum)]
    overlap: Option<OverlapArg>,
    /// Which of the runs take place that an outage has made late [default: one]
    #[arg(long, value_enum)]
    missed: Option<MissedArg>,
    /// How late they may be [default: any time; of --missed all 24h]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    missed_within: Option<Duration>,
    /// Topic of the job of each run
    #[arg(long, required_unless_present = "definition")]
    topic: Option<String>,
    /// Body of the job: a JSON value, @FILE for that in a file, - for that on stdin [default: null]
    #[arg(long, value_name = "JSON|@FILE|-", allow_negative_numbers = true)]
    body: Option<String>,
    /// The body is text, not JSON; the job gets it as a JSON string
    #[arg(long, requires = "body")]
    raw: bool,
    /// How long after it is due the job expires [default: the topic's, else never]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    expire: Option<Duration>,
    /// What happens then [default: the topic's, else dead]
    #[arg(long, value_enum, requires = "expire")]
    on_expiry: Option<OnExpiryArg>,
}

/// What happens if the job of the previous run is not over.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum OverlapArg {
    /// The run is left out
    Skip,
    /// The run takes place beside the other one
    Allow,
    /// The run takes the place of a job that waits; one that is reserved is left alone
    Replace,
}

impl From<OverlapArg> for Overlap {
    fn from(argument: OverlapArg) -> Self {
        match argument {
            OverlapArg::Skip => Self::Skip,
            OverlapArg::Allow => Self::Allow,
            OverlapArg::Replace => Self::Replace,
        }
    }
}

/// Which of the runs take place that an outage has made late.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum MissedArg {
    /// The latest
    One,
    /// All, at most 1,000; only with --overlap allow
    All,
    /// None
    None,
}

impl From<MissedArg> for Missed {
    fn from(argument: MissedArg) -> Self {
        match argument {
            MissedArg::One => Self::One,
            MissedArg::All => Self::All,
            MissedArg::None => Self::None,
        }
    }
}

/// Runs the command.
pub(super) fn run(arguments: &PutArgs) -> ExitCode {
    let PutArgs { name, dry_run, change, .. } = arguments;
    match arguments.definition() {
        Ok(definition) if *dry_run => {
            change.run("schedule put", async |session| preview(session, name, &definition).await)
        }
        Ok(definition) => change.run("schedule put", async |session| put(session, name, &definition).await),
        Err(failure) => change.fail("schedule put", &failure),
    }
}

async fn put(session: &Session, name: &str, definition: &RawValue) -> Result<Exit, Failure> {
    session.confirm_change(&format!("put schedule {name}"))?;
    let response = session.call(&Request::put_schedule(name, &definition, None)).await?;
    let note = if response.status == 201 { "  (new)" } else { "" };
    session.print(&response, |schedule: Schedule| {
        format!("{}{note}", text::line(&session.wording(), &schedule))
    })?;
    Ok(Exit::Done)
}

async fn preview(session: &Session, name: &str, definition: &RawValue) -> Result<Exit, Failure> {
    let response = session.call(&Request::preview_schedule(name, &definition, PREVIEWED_RUNS)).await?;
    session.print(&response, |schedule: Schedule| {
        text::runs(&session.wording(), &schedule.next, &schedule.clock_changes)
    })?;
    Ok(Exit::Done)
}

impl PutArgs {
    fn definition(&self) -> Result<Box<RawValue>, Failure> {
        if let Some(given) = &self.definition {
            return json_argument::json(given, "the definition");
        }
        let flags = &self.flags;
        if flags.body.is_none() {
            json_argument::expect_no_body_on_stdin(
                "stdin is read only if it is named: add --body - if it has the job's body, - if it has the whole \
                 definition, or --body null to send no body",
            )?;
        }
        let body = flags.body.as_deref().map(|body| json_argument::body(body, flags.raw)).transpose()?;
        let job = self.job.apply(NewJob {
            body,
            expire: flags.expire.map(Expire::After),
            on_expiry: flags.on_expiry.map(Into::into),
            ..NewJob::new(flags.topic.clone().unwrap_or_default())
        });
        let schedule = NewSchedule {
            start: flags.start,
            end: flags.end,
            jitter: flags.jitter,
            overlap: flags.overlap.map(Into::into),
            missed: flags.missed.map(Into::into),
            missed_within: flags.missed_within,
            ..NewSchedule::new(flags.recurrence(), job)
        };
        Ok(to_raw_value(&schedule).expect("a schedule holds nothing that JSON cannot express"))
    }
}

impl DefinitionArgs {
    fn recurrence(&self) -> Recurrence {
        match self.every {
            Some(every) => Recurrence::Every { every },
            None => Recurrence::Cron {
                cron: self.cron.clone().unwrap_or_default(),
                time_zone: self.time_zone.clone(),
            },
        }
    }
}
