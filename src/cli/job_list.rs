//! `linger jobs`: lists jobs by state, topic, time, the beginnings of ids and reasons, and worker.

use std::process::ExitCode;

use clap::Args;
use linger_client::{JobSummary, Request};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    exit::{Exit, Failure},
    job_filter::{FilterArgs, ReasonArgs},
    session::{ReadArgs, Session},
    terminal,
    text::{Wording, counted},
};
use crate::messages::printable::escape_line;

/// Most jobs of a page.
const PAGE: usize = 200;

/// Arguments of `linger jobs`.
#[derive(Debug, Args)]
pub(super) struct JobsArgs {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    reason: ReasonArgs,
    /// The latest first [default: the earliest]
    #[arg(long)]
    latest: bool,
    /// Most jobs; with --all there is no limit
    #[arg(long, value_name = "COUNT", default_value = "100", conflicts_with = "all")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// List all of them
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    read: ReadArgs,
}

/// Runs the command.
pub(super) fn run(arguments: &JobsArgs) -> ExitCode {
    arguments.read.run("jobs", async |session| list(session, arguments).await)
}

async fn list(session: &Session, arguments: &JobsArgs) -> Result<Exit, Failure> {
    #[derive(Deserialize)]
    struct ListedPage {
        jobs: Vec<Box<RawValue>>,
        next_cursor: Option<String>,
    }
    let filter = arguments.filter.filter_by(&arguments.reason);
    let mut left = if arguments.all { u64::MAX } else { arguments.limit };
    let mut cursor: Option<String> = None;
    loop {
        let limit = usize::try_from(left).map_or(PAGE, |left| left.min(PAGE));
        let request = Request::jobs(&filter, arguments.latest, limit, cursor.as_deref());
        let page: ListedPage = session.read(&session.call(&request).await?)?;
        for job in &page.jobs {
            session.print_part(job, |job: JobSummary| terminal::fitted(&line(&session.wording(), &job)))?;
        }
        left = left.saturating_sub(page.jobs.len() as u64);
        cursor = page.next_cursor;
        if cursor.is_none() || left == 0 || session.output.is_closed() {
            return Ok(Exit::Done);
        }
    }
}

/// A job in a line: `mail  pay:77:ok  delayed  due in 30m (06:40:00)`.
pub(super) fn line(wording: &Wording, job: &JobSummary) -> String {
    let mut parts = vec![job.topic.clone(), job.id.clone(), job.state.clone()];
    match (job.reserved_until, job.dead_at) {
        (Some(until), _) => {
            parts.push(format!("until {}", wording.moment(until)));
            parts.extend(job.reserved_by.as_deref().map(|name| format!("by {}", escape_line(name))));
        }
        (_, Some(dead_at)) => {
            parts.push(format!("died {}", wording.distance(dead_at)));
            parts.push(counted(job.attempts, "attempt"));
            parts.extend(job.reason.as_deref().map(|reason| escape_line(reason).into_owned()));
        }
        _ => parts.push(wording.due(job.due_at)),
    }
    parts.join("  ")
}
