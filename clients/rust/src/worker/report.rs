//! Tells the server how a job ended, until it answers.

use tokio::sync::watch;

use super::{
    contact::{is_away, pause},
    drain::Stop,
    host::{Host, Outcome},
    moment::BootTime,
    outcome::Report,
    shared::{Shared, wait_beyond},
};
use crate::{
    client::Client,
    error::Error,
    model::{Job, ReleaseRequest, ReservedJob},
    new_job::Due,
};

/// Sends a report until the server answers it, or the worker waits for that no longer.
pub(crate) async fn report<H: Host>(
    shared: &Shared<H>,
    job: &ReservedJob,
    report: &Report,
    stop: &mut watch::Receiver<Stop>,
) -> Outcome {
    tokio::select! {
        biased;
        outcome = until_answered(shared, job, report) => outcome,
        _ = stop.wait_for(|stop| *stop == Stop::Abandon) => Outcome::Unanswered,
    }
}

async fn until_answered<H: Host>(shared: &Shared<H>, job: &ReservedJob, report: &Report) -> Outcome {
    let (mut failures, mut may_have_happened) = (0, false);
    loop {
        let answer = shared.call(report.name(), async |client| send(shared, client, job, report).await).await;
        let error = match answer {
            Ok(job) => return Outcome::Accepted(job.map(Box::new)),
            Err(error) => error,
        };
        if !is_away(&error) {
            return refused(report, error, may_have_happened);
        }
        may_have_happened |= error.may_have_happened();
        failures += 1;
        wait_beyond(BootTime::now() + pause(failures, &error, rand::random())).await;
    }
}

async fn send<H: Host>(
    shared: &Shared<H>,
    client: &Client,
    job: &ReservedJob,
    report: &Report,
) -> Result<Option<Job>, Error> {
    let (id, receipt) = (&job.id, &job.receipt);
    let reason = |reason: &String| shared.options.sends_reasons.then(|| reason.clone());
    match report {
        Report::Finish => client.finish(id, Some(receipt)).await.map(|()| None),
        Report::Bury { reason: why } => client.bury(id, receipt, reason(why).as_deref()).await.map(Some),
        Report::Release { delay, reason: why } => {
            let due = delay.or(shared.options.retry_delay).map(Due::Delay);
            client.release(id, receipt, &ReleaseRequest { due, reason: reason(why) }).await.map(Some)
        }
    }
}

/// What a refusal means: the job is gone, or in other hands.
fn refused(report: &Report, error: Error, may_have_happened: bool) -> Outcome {
    let status = error.refusal().map_or(0, |refusal| refusal.status);
    // After a reservation that has only timed out, nothing was reported.
    let may_have_happened = may_have_happened && error.refusal().is_none_or(|refusal| refusal.is_retaken);
    match (status, report) {
        // Gone is what a finish is for. What gave the job back before may be this worker's own first attempt.
        (404, Report::Finish) => Outcome::Accepted(None),
        (409, Report::Bury { .. } | Report::Release { .. }) if may_have_happened => Outcome::Accepted(None),
        (404 | 409, _) => Outcome::TooLate(error),
        _ => Outcome::Refused(error),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::error::Refusal;

    #[test]
    fn a_job_that_is_gone_was_finished_and_one_in_other_hands_comes_too_late() {
        let release = Report::Release { delay: None, reason: String::new() };
        let bury = Report::Bury { reason: String::new() };
        for (report, status, may_have_happened, expected) in [
            (&Report::Finish, 404, false, "accepted"),
            (&Report::Finish, 409, false, "late"),
            (&Report::Finish, 409, true, "late"),
            (&release, 404, false, "late"),
            (&release, 409, false, "late"),
            (&release, 409, true, "accepted"),
            (&bury, 409, true, "accepted"),
            (&bury, 422, false, "refused"),
            (&Report::Finish, 403, false, "refused"),
        ] {
            let refusal = Refusal::new(status, None, Bytes::new());
            let error = Error::Refused { call: "test", refusal: Box::new(refusal) };
            let found = match refused(report, error, may_have_happened) {
                Outcome::Accepted(_) => "accepted",
                Outcome::TooLate(_) => "late",
                Outcome::Refused(_) => "refused",
                Outcome::Unanswered => "unanswered",
            };
            assert_eq!(found, expected, "{report:?} {status} {may_have_happened}");
        }
    }
}
