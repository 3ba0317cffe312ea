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

/// Between two polls if the first was answered early.
const EARLY_PAUSE: Duration = Duration::from_millis(200);

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
    /// Name of the worker, shown with the jobs [default: that of the token, or the address]
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    /// Most jobs
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    max: u16,
    /// Finish each job once it is printed; otherwise it stays reserved until it is finished or its TTR ends
    #[arg(long)]
    finish: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// A reserved job, its JSON as the server sent it, and when its reservation has ended.
struct Popped {
    job: ReservedJob,
    json: Box<RawValue>,
    until_us: i64,
}

/// Runs the command.
pub(super) fn run(arguments: &PopArgs) -> ExitCode {
    arguments.change.run("pop", async |session| pop(session, arguments).await)
}

async fn pop(session: &Session, arguments: &PopArgs) -> Result<Exit, Failure> {
    session.confirm_change(&format!("pop jobs of {}", arguments.topics.join(", ")))?;
    // A job that is finished once it is read is reserved only when the one before it is done with.
    let (rounds, batch) = if arguments.finish { (arguments.max, 1) } else { (1, arguments.max) };
    let mut exits = Vec::new();
    for round in 0..rounds {
        let wait = if round == 0 { arguments.wait } else { Duration::ZERO };
        let popped = poll(session, arguments, wait, batch.into()).await?;
        if popped.is_empty() && round == 0 && !pipe::is_closed() {
            session.output.say(&"no job is due");
            return Ok(Exit::Absent);
        }
        if popped.is_empty() || !deliver_all(session, arguments, popped, &mut exits).await? {
            break;
        }
    }
    Ok(Exit::of_all(exits))
}

/// Delivers jobs one after the other. False once the reader of stdout has gone: then the others are given back.
async fn deliver_all(
    session: &Session,
    arguments: &PopArgs,
    popped: Vec<Popped>,
    exits: &mut Vec<Exit>,
) -> Result<bool, Failure> {
    let mut left = popped.into_iter();
    while let Some(next) = left.next() {
        if session.clock.now_micros() >= next.until_us {
            let why = format!("{} is not printed: its reservation has ended", next.job.id);
            exits.push(session.output.fail(&Failure::new(Exit::Conflict, why)));
            continue;
        }
        match session.until_stopped(deliver(session, arguments, &next)).await {
            Ok(Some(exit)) => exits.push(exit),
            Ok(None) => {
                give_back(session, std::iter::once(next).chain(left)).await?;
                return Ok(false);
            }
            Err(failure) => {
                give_back(session, std::iter::once(next).chain(left)).await?;
                return Err(failure);
            }
        }
    }
    Ok(true)
}

/// Polls until there are jobs or the wait is over; none also once the reader of stdout has gone.
async fn poll(
    session: &Session,
    arguments: &PopArgs,
    wait: Duration,
    max: usize,
) -> Result<Vec<Popped>, Failure> {
    let topics: Vec<_> = arguments.topics.iter().map(String::as_str).collect();
    let wait_us = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
    let end_us = session.clock.now_micros().saturating_add_unsigned(wait_us);
    session.clean_up_on_signal(|| {});
    loop {
        let began_us = session.clock.now_micros();
        let left = Duration::from_micros(end_us.saturating_sub(began_us).max(0).unsigned_abs());
        if pipe::is_closed() {
            return Ok(Vec::new());
        }
        let wait = left.min(LONGEST_POLL);
        let request = PopRequest { wait, ttr: arguments.ttr, max, worker: arguments.worker.clone() };
        // Jobs that a lost answer reserved come back after their TTR, whether the pop is repeated or not.
        let request = Request::pop_batch(&topics, &request).repeat(Repeat::Safe);
        let popped = session.until_stopped(reserve(session, arguments, &request)).await?;
        let now_us = session.clock.now_micros();
        if !popped.is_empty() || now_us >= end_us {
            return Ok(popped);
        }
        // A server that shuts down, or that permits a shorter wait only, answers early.
        if u128::from(now_us.abs_diff(began_us)) < wait.as_micros() / 2 {
            let pause = async {
                session.clock.sleep(EARLY_PAUSE.min(left)).await;
                Ok(())
            };
            session.until_stopped(pause).await?;
        }
    }
}

async fn reserve(session: &Session, arguments: &PopArgs, request: &Request) -> Result<Vec<Popped>, Failure> {
    #[derive(Deserialize)]
    struct Reserved {
        jobs: Vec<Box<RawValue>>,
    }
    let response = session.call(request).await?;
    let answered_us = session.clock.now_micros();
    let reserved: Reserved = session.read(&response)?;
    let popped = |json: Box<RawValue>| {
        let job: ReservedJob = session.part(&json)?;
        let ttr = arguments.ttr.unwrap_or(job.ttr);
        let until_us = answered_us.saturating_add(i64::try_from(ttr.as_micros()).unwrap_or(i64::MAX));
        Ok(Popped { job, json, until_us })
    };
    reserved.jobs.into_iter().map(popped).collect()
}

/// Prints a job, and finishes it if that was asked for. None if the reader of stdout has gone before it read the job.
async fn deliver(session: &Session, arguments: &PopArgs, popped: &Popped) -> Result<Option<Exit>, Failure> {
    let Popped { job, json, .. } = popped;
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
