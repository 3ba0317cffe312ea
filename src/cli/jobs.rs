//! The commands for single jobs: `finish`, `release`, `revoke`, `touch`, `bury`, `get`, `reschedule`, `cancel`.

use std::{io::IsTerminal, process::ExitCode, time::Duration};

use clap::Args;
use linger_client::{Due, Expire, Job, JobPatch, ReleaseRequest, Request, Timestamp, TouchRequest};

use super::{
    exit::{Exit, Failure},
    job_args::{parse_expire, parse_moment},
    session::{ChangeArgs, ReadArgs, Session},
};
use crate::job::parse_duration;

/// Arguments of `linger finish`.
#[derive(Debug, Args)]
pub(super) struct FinishArgs {
    /// Id of the job
    id: String,
    /// Receipt of the reservation; without it, the job is finished whichever client holds it
    #[arg(long)]
    receipt: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Arguments of `linger release`.
#[derive(Debug, Args)]
pub(super) struct ReleaseArgs {
    /// Id of the job
    id: String,
    /// Receipt of the reservation
    #[arg(long)]
    receipt: String,
    /// When it is due again, from now [default: by its list of waits]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "at")]
    delay: Option<Duration>,
    /// When it is due again, such as 2027-01-01T08:00:00+01:00
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment)]
    at: Option<Timestamp>,
    /// Why; shown with the job
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Arguments of `linger revoke`.
#[derive(Debug, Args)]
pub(super) struct RevokeArgs {
    /// Ids of the jobs
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// When they are due again, from now [default: at once]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "at")]
    delay: Option<Duration>,
    /// When they are due again, such as 2027-01-01T08:00:00+01:00
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment)]
    at: Option<Timestamp>,
    /// Why; shown with the jobs
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Arguments of `linger touch`.
#[derive(Debug, Args)]
pub(super) struct TouchArgs {
    /// Id of the job
    id: String,
    /// Receipt of the reservation
    #[arg(long)]
    receipt: String,
    /// How long the reservation lasts from now [default: the job's TTR]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttr: Option<Duration>,
    /// How far the work is; shown with the job, and given to its next attempt
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Arguments of `linger bury`.
#[derive(Debug, Args)]
pub(super) struct BuryArgs {
    /// Id of the job
    id: String,
    /// Receipt of the reservation
    #[arg(long)]
    receipt: String,
    /// Why; shown with the job
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Arguments of `linger get`.
#[derive(Debug, Args)]
pub(super) struct GetArgs {
    /// Id of the job
    id: String,
    /// Print the body alone, byte for byte
    #[arg(long)]
    body: bool,
    #[command(flatten)]
    read: ReadArgs,
}

/// Arguments of `linger reschedule`.
#[derive(Debug, Args)]
#[command(override_usage = "linger reschedule <ID> [--delay|--at|--now] [--expire|--clear-expire]")]
#[command(group = clap::ArgGroup::new("when"))]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub(super) struct RescheduleArgs {
    /// Id of the job
    id: String,
    /// When it is due, from now
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, groups = ["when", "what"])]
    delay: Option<Duration>,
    /// When it is due, such as 2027-01-01T08:00:00+01:00
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment, groups = ["when", "what"])]
    at: Option<Timestamp>,
    /// It is due at once
    #[arg(long, groups = ["when", "what"])]
    now: bool,
    /// Another expiry: a duration after it is due, or a moment
    #[arg(long, value_name = "DURATION|MOMENT", value_parser = parse_expire, group = "what")]
    #[arg(conflicts_with = "clear_expire")]
    expire: Option<Expire>,
    /// It does not expire any more
    #[arg(long, group = "what")]
    clear_expire: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Arguments of `linger cancel`.
#[derive(Debug, Args)]
pub(super) struct CancelArgs {
    /// Ids of the jobs
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Leave jobs that a worker holds
    #[arg(long)]
    unless_reserved: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Runs `linger finish`.
pub(super) fn finish(FinishArgs { id, receipt, change }: &FinishArgs) -> ExitCode {
    change.run("finish", async |session| {
        session.confirm_change(&format!("finish {id}"))?;
        let response = session.call(&Request::finish(id, receipt.as_deref())).await?;
        session.print_done(response, id, "finished").map(|()| Exit::Done)
    })
}

/// Runs `linger release`.
pub(super) fn release(arguments: &ReleaseArgs) -> ExitCode {
    let ReleaseArgs { id, receipt, delay, at, reason, change } = arguments;
    let due = delay.map(Due::Delay).or(at.map(Due::At));
    change.run("release", async |session| {
        session.confirm_change(&format!("release {id}"))?;
        let release = ReleaseRequest { due, reason: reason.clone() };
        change_job(session, id, &Request::release(id, receipt, &release), last_attempt_was("released")).await
    })
}

/// Runs `linger revoke`.
pub(super) fn revoke(arguments: &RevokeArgs) -> ExitCode {
    let RevokeArgs { ids, delay, at, reason, change } = arguments;
    let release = ReleaseRequest { due: delay.map(Due::Delay).or(at.map(Due::At)), reason: reason.clone() };
    change.run("revoke", async |session| {
        session.confirm_change(&format!("revoke {}", ids.join(", ")))?;
        for_each(session, ids, async |id| {
            // Of the attempt that is seen: a repeat takes the job from no other worker.
            let job: Job = session.read(&session.call(&Request::job(id)).await?)?;
            let attempt = Some(job.attempts).filter(|attempts| *attempts > 0);
            let request = Request::revoke(id, attempt, &release);
            change_job(session, id, &request, last_attempt_was("revoked")).await.map(drop)
        })
        .await
    })
}

/// Whether the last attempt of a job ended like this.
fn last_attempt_was(end: &str) -> impl FnOnce(&Job) -> bool {
    move |job| {
        let attempt = job.history.iter().rev().find(|entry| entry.kind == "attempt");
        attempt.is_some_and(|attempt| attempt.ended.as_deref() == Some(end))
    }
}

/// Runs `linger touch`.
pub(super) fn touch(TouchArgs { id, receipt, ttr, note, change }: &TouchArgs) -> ExitCode {
    change.run("touch", async |session| {
        session.confirm_change(&format!("touch {id}"))?;
        let touch = TouchRequest { ttr: *ttr, note: note.clone() };
        change_job(session, id, &Request::touch(id, receipt, touch), |_| false).await
    })
}

/// Runs `linger bury`.
pub(super) fn bury(BuryArgs { id, receipt, reason, change }: &BuryArgs) -> ExitCode {
    change.run("bury", async |session| {
        session.confirm_change(&format!("bury {id}"))?;
        let request = Request::bury(id, receipt, reason.as_deref());
        change_job(session, id, &request, |job| job.state == "dead").await
    })
}

/// Runs `linger get`.
pub(super) fn get(GetArgs { id, body, read }: &GetArgs) -> ExitCode {
    read.run("get", async |session| {
        let response = session.call(&Request::job(id)).await?;
        if *body {
            let job: Job = session.read(&response)?;
            session.output.write(job.body.get().as_bytes())?;
            if std::io::stdout().is_terminal() {
                session.output.write(b"\n")?;
            }
        } else {
            session.print(&response, |job: Job| session.wording().details(&job))?;
        }
        Ok(Exit::Done)
    })
}

/// Runs `linger reschedule`.
pub(super) fn reschedule(arguments: &RescheduleArgs) -> ExitCode {
    let RescheduleArgs { id, delay, at, now, expire, clear_expire, change } = arguments;
    let delay = if *now { Some(Duration::ZERO) } else { *delay };
    let due = delay.map(Due::Delay).or(at.map(Due::At));
    let patch = JobPatch { due, expire: *expire, clear_expire: *clear_expire, ..JobPatch::default() };
    change.run("reschedule", async |session| {
        session.confirm_change(&format!("reschedule {id}"))?;
        change_job(session, id, &Request::patch(id, &patch), |_| false).await
    })
}

/// Runs `linger cancel`.
pub(super) fn cancel(CancelArgs { ids, unless_reserved, change }: &CancelArgs) -> ExitCode {
    change.run("cancel", async |session| {
        session.confirm_change(&format!("cancel {}", ids.join(", ")))?;
        for_each(session, ids, async |id| {
            let request =
                if *unless_reserved { Request::delete_unless_reserved(id) } else { Request::delete(id) };
            let response = session.call(&request).await?;
            session.print_done(response, id, "cancelled")
        })
        .await
    })
}

/// Changes a job and prints it as it is then. A repeat may be refused for what a lost attempt did; `is_done` recognises
/// that.
pub(super) async fn change_job(
    session: &Session,
    id: &str,
    request: &Request,
    is_done: impl FnOnce(&Job) -> bool,
) -> Result<Exit, Failure> {
    match session.call(request).await {
        Ok(response) => session.print_job(&response)?,
        Err(failure) if failure.exit == Exit::Conflict && failure.is_after_attempt => {
            let response = session.call(&Request::job(id)).await?;
            if !is_done(&session.read(&response)?) {
                return Err(failure);
            }
            session.print_job(&response)?;
        }
        Err(failure) => return Err(failure),
    }
    Ok(Exit::Done)
}

/// Does something with each job, also after one of them failed. Stops if the server does not answer.
pub(super) async fn for_each(
    session: &Session,
    ids: &[String],
    mut step: impl AsyncFnMut(&str) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let mut exits = Vec::new();
    for id in ids {
        match step(id).await {
            Ok(()) => exits.push(Exit::Done),
            Err(failure) if failure.exit == Exit::NoAnswer => return Err(failure.about(id)),
            Err(failure) => exits.push(session.output.fail(&failure.about(id))),
        }
    }
    Ok(Exit::of_all(exits))
}
