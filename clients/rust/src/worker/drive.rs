//! Drives one attempt: asks for its heartbeats, has the host run the job, and reports how it ended.

use std::{pin::Pin, sync::Arc};

use tokio::sync::{mpsc, oneshot, watch};

use super::{
    attempt::{Attempt, Step},
    drain::Stop,
    heartbeats::{Heartbeat, Wanted},
    host::{Event, Host, Outcome, Urgency},
    moment::BootTime,
    outcome::{Ended, Verdict},
    report::report,
    shared::{Shared, some, wait_beyond, wait_until},
};
use crate::{error::Error, model::ReservedJob};

/// What the worker has to know of an attempt that is over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AttemptEnd {
    /// The next job can come.
    Over,
    /// No job can be done here.
    Broken(String),
    /// The worker ended before the server had answered.
    Unreported,
}

/// Sees a job, popped by a call that was sent at `sent`, to its end.
pub(crate) async fn drive<H: Host>(
    shared: Arc<Shared<H>>,
    job: Arc<ReservedJob>,
    sent: BootTime,
    heartbeats: mpsc::UnboundedSender<Wanted>,
    mut stop: watch::Receiver<Stop>,
) -> AttemptEnd {
    let length = shared.options.ttr.unwrap_or(job.ttr);
    let mut attempt = Attempt::new(length, sent, BootTime::now(), shared.options.limits);
    let run = run(&shared, &job, &mut attempt, &heartbeats, &mut stop).await;
    let Ok((ended, started)) = run else { return AttemptEnd::Unreported };
    let took = started.map(|started| started.until(BootTime::now()));
    if let Some(wanted) = attempt.report(ended.as_ref()) {
        let outcome = report(&shared, &job, &wanted, &mut stop).await;
        shared.host.event(Event::Ended { job: &job, report: &wanted, outcome: &outcome, took });
        if matches!(outcome, Outcome::Unanswered) {
            return AttemptEnd::Unreported;
        }
    } else if let Some(release) = attempt.gives_way() {
        // Not one of the worker's ends: the host knows that the job is lost. Once the reservation has ended, there is nothing to
        // release.
        tokio::select! {
            _ = report(&shared, &job, &release, &mut stop) => {}
            () = wait_beyond(attempt.lease().last_moment()) => {}
        }
    }
    match ended {
        Some(Ended { verdict: Verdict::Broken, what, detail }) => {
            AttemptEnd::Broken(super::outcome::reason(&what, detail.as_deref()))
        }
        Some(_) | None => AttemptEnd::Over,
    }
}

/// The worker waits for an attempt no longer.
struct Abandoned;

/// Runs a job until it ends. Returns how it ended and when it started, or nothing of a job that was not started.
async fn run<H: Host>(
    shared: &Shared<H>,
    job: &Arc<ReservedJob>,
    attempt: &mut Attempt,
    heartbeats: &mpsc::UnboundedSender<Wanted>,
    stop: &mut watch::Receiver<Stop>,
) -> Result<(Option<Ended>, Option<BootTime>), Abandoned> {
    let urgency = watch::Sender::new(Urgency::None);
    let mut run: Option<Pin<Box<dyn Future<Output = Ended> + '_>>> = None;
    let mut heartbeat: Option<oneshot::Receiver<Heartbeat>> = None;
    let mut started = None;
    let mut told = None;
    loop {
        let now = BootTime::now();
        attempt.stop(*stop.borrow_and_update(), now);
        let until = match attempt.next(now) {
            Step::Start => {
                shared.host.event(Event::Started(job));
                started = Some(now);
                run = Some(Box::pin(shared.host.run(job.clone(), urgency.subscribe())));
                continue;
            }
            Step::Skip => {
                lost(shared, job, attempt, &mut told, None);
                return Ok((None, None));
            }
            Step::AskForHeartbeat(time) => {
                let (wanted, answer) = Wanted::new(job.clone(), time, attempt.lease().heartbeat_limit());
                // Fails if the heartbeats have ended; then there is no answer either.
                let _ = heartbeats.send(wanted);
                heartbeat = Some(answer);
                continue;
            }
            Step::Terminate => {
                lost(shared, job, attempt, &mut told, None);
                urgency.send_replace(Urgency::Terminate);
                continue;
            }
            Step::Kill => {
                urgency.send_replace(Urgency::Kill);
                continue;
            }
            Step::Abandon => return Err(Abandoned),
            Step::Wait(until) => until,
        };
        heartbeat = heartbeat.filter(|_| attempt.is_worth_a_heartbeat());
        tokio::select! {
            biased;
            ended = some(&mut run) => return Ok((Some(ended), started)),
            answer = some(&mut heartbeat) => {
                heartbeat = None;
                match answer.unwrap_or(Heartbeat::Failed) {
                    Heartbeat::Renewed(sent) => attempt.heartbeat_succeeded(sent),
                    Heartbeat::Failed => attempt.heartbeat_failed(BootTime::now()),
                    Heartbeat::Gone(error) => {
                        end_lease(attempt, &error, BootTime::now());
                        lost(shared, job, attempt, &mut told, Some(&error));
                    }
                    Heartbeat::TimedOut(error) => {
                        attempt.lease_timed_out(BootTime::now());
                        lost(shared, job, attempt, &mut told, Some(&error));
                    }
                }
            }
            Ok(()) = stop.changed() => {}
            () = wait_until(until) => {}
        }
    }
}

/// A heartbeat was refused, because the reservation is gone or is one of an older version.
fn end_lease(attempt: &mut Attempt, error: &Error, now: BootTime) {
    if error.refusal().is_some_and(|refusal| refusal.code == "job_replaced") {
        attempt.job_was_replaced(now);
    } else {
        attempt.lease_is_gone(now);
    }
}

/// Tells the host that the lease is lost, if it is: once that the job goes on all the same, once that it does not.
fn lost<H: Host>(
    shared: &Shared<H>,
    job: &ReservedJob,
    attempt: &Attempt,
    told: &mut Option<bool>,
    refusal: Option<&Error>,
) {
    let is_kept = !attempt.is_lost();
    if (!is_kept || refusal.is_some()) && *told != Some(is_kept) {
        *told = Some(is_kept);
        shared.host.event(Event::Lost { job, refusal, is_kept });
    }
}
