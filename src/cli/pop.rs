//! `linger pop`: reserves jobs and prints them. A job that could not be printed is given back.
//!
//! It repeats a pop whose answer was lost: the job of the lost answer comes back after its TTR either way. With
//! `--finish` it waits until the reader of a pipe has taken a line (`pipe.rs`) before it finishes that job, because
//! bytes that are left in a pipe are lost when its reader goes.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use linger_client::{Due, PopRequest, ReleaseRequest, Repeat, Request, ReservedJob};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    exit::{Exit, Failure, one_line},
    pipe,
    session::{ChangeArgs, Session},
    text::{Wording, span},
};
use crate::job::parse_duration;

/// Longest wait of one poll. A longer one consists of several.
const LONGEST_POLL: Duration = Duration::from_secs(20);

/// Arguments of `linger pop`.
#[derive(Debug, Args)]
pub(super) struct PopArgs {
    /// Topics, the most urgent first
    #[arg(required = true, value_name = "TOPIC")]
    topics: Vec<String>,
    /// How long to wait for the first job
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    wait: Duration,
    /// How long the jobs are reserved [default: each job's own TTR]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttr: Option<Duration>,
    /// Most jobs
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    max: u16,
    /// Finish each job once it is printed; otherwise it stays reserved until it is finished or its TTR ends
    #[arg(long)]
    finish: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// A reserved job, and its JSON as the server sent it.
struct Popped {
    job: ReservedJob,
    json: Box<RawValue>,
}

/// Runs the command.
pub(super) fn run(arguments: &PopArgs) -> ExitCode {
    arguments.change.run("pop", async |session| pop(session, arguments).await)
}

async fn pop(session: &Session, arguments: &PopArgs) -> Result<Exit, Failure> {
    session.confirm_change(&format!("pop jobs of {}", arguments.topics.join(", ")))?;
    let popped = poll(session, arguments).await?;
    if popped.is_empty() {
        if pipe::is_closed() {
            return Ok(Exit::Done);
        }
        session.output.say(&"no job is due");
        return Ok(Exit::Absent);
    }
    let mut exits = Vec::new();
    let mut left = popped.into_iter();
    while let Some(next) = left.next() {
        match session.until_stopped(deliver(session, arguments, &next)).await {
            Ok(Some(exit)) => exits.push(exit),
            Ok(None) => {
                give_back(session, std::iter::once(next).chain(left)).await?;
                break;
            }
            Err(failure) => {
                give_back(session, std::iter::once(next).chain(left)).await?;
                return Err(failure);
            }
        }
    }
    Ok(Exit::of_all(exits))
}

/// Polls until there are jobs or the wait is over; none also once the reader of stdout has gone.
async fn poll(session: &Session, arguments: &PopArgs) -> Result<Vec<Popped>, Failure> {
    let topics: Vec<_> = arguments.topics.iter().map(String::as_str).collect();
    let wait_us = u64::try_from(arguments.wait.as_micros()).unwrap_or(u64::MAX);
    let end_us = session.clock.now_micros().saturating_add_unsigned(wait_us);
    session.clean_up_on_signal(|| {});
    loop {
        let left = end_us.saturating_sub(session.clock.now_micros()).max(0);
        let left = Duration::from_micros(left.unsigned_abs());
        if pipe::is_closed() {
            return Ok(Vec::new());
        }
        let (wait, ttr, max) = (left.min(LONGEST_POLL), arguments.ttr, usize::from(arguments.max));
        let request = PopRequest { wait, ttr, max, worker: None };
        // Jobs that a lost answer reserved come back after their TTR, whether the pop is repeated or not.
        let request = Request::pop_batch(&topics, &request).repeat(Repeat::Safe);
        let popped = session.until_stopped(reserve(session, &request)).await?;
        if !popped.is_empty() || left <= LONGEST_POLL {
            return Ok(popped);
        }
    }
}

async fn reserve(session: &Session, request: &Request) -> Result<Vec<Popped>, Failure> {
    #[derive(Deserialize)]
    struct Reserved {
        jobs: Vec<Box<RawValue>>,
    }
    let response = session.call(request).await?;
    let reserved: Reserved = session.read(&response)?;
    let popped = |json: Box<RawValue>| Ok(Popped { job: session.part(&json)?, json });
    reserved.jobs.into_iter().map(popped).collect()
}

/// Prints a job, and finishes it if that was asked for. None if the reader of stdout has gone before it read the job.
async fn deliver(session: &Session, arguments: &PopArgs, popped: &Popped) -> Result<Option<Exit>, Failure> {
    let Popped { job, json } = popped;
    session.output.print(|| line(&session.wording(), job), json.get())?;
    if session.output.is_closed() {
        return Ok(None);
    }
    if !arguments.finish {
        return Ok(Some(Exit::Done));
    }
    // What is in a pipe is lost if its reader goes.
    let since_due = Duration::try_from(job.reserved_until.duration_since(job.due_at)).unwrap_or_default();
    if !pipe::is_read(&*session.clock, since_due.saturating_sub(job.late)).await {
        return Ok(None);
    }
    let finish = Request::finish(&job.id, Some(&job.receipt));
    let finished = session.call(&finish).await.and_then(|response| Ok(response.done()?));
    let failed =
        finished.err().map(|failure| failure.about(&format!("{} is printed, but not finished", job.id)));
    Ok(Some(failed.map_or(Exit::Done, |failure| session.output.fail(&failure))))
}

fn line(wording: &Wording, job: &ReservedJob) -> String {
    let attempt = match job.max_attempts {
        0 => format!("attempt {}", job.attempt),
        most => format!("attempt {} of {most}", job.attempt),
    };
    let (late, until) = (span(job.late), wording.moment(job.reserved_until));
    format!(
        "{}  {attempt}  {late} late  until {until}  receipt {}\n{}",
        job.id,
        job.receipt,
        one_line(job.body.get())
    )
}

/// Releases jobs that the reader of stdout has not read, unless they are no longer reserved. If a release fails, its
/// job and those after it come back after their TTR.
async fn give_back(session: &Session, jobs: impl Iterator<Item = Popped>) -> Result<(), Failure> {
    let release =
        ReleaseRequest { due: Some(Due::Delay(Duration::ZERO)), reason: Some("not printed".to_owned()) };
    for Popped { job, .. } in jobs {
        let released = session.call(&Request::release(&job.id, &job.receipt, &release)).await;
        match released {
            Err(failure) if !matches!(failure.exit, Exit::Absent | Exit::Conflict) => {
                return Err(failure.about(&format!("{} comes back after its TTR", job.id)));
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}
