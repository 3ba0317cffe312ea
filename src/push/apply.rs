//! Applies the outcome of a call to its job: finishes, releases, extends or buries it. Keeps trying while the store is away.

use std::time::Duration;

use super::outcome::Outcome;
use crate::{
    clock::Clock,
    job::{Due, TopicFilter},
    metrics::CallResult,
    queue::{Error, FinishJob, Queue, Release, Reservation, Result},
};

/// First and longest pause before the next try.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Applies `outcome` to the job of `reservation`. Tries until it succeeds or the reservation ends at `ends_us`; then the job
/// returns as after a crash. Returns what became of the call.
pub(super) async fn apply_outcome(
    queue: &Queue,
    clock: &dyn Clock,
    reservation: &Reservation,
    ends_us: i64,
    outcome: &Outcome,
) -> CallResult {
    let (mut pause, mut may_have_happened) = (PAUSE.0, false);
    loop {
        match apply_once(queue, reservation, outcome).await {
            Ok(()) => return result_of(outcome),
            Err(error) if may_have_happened && shows_success(outcome, &error) => return result_of(outcome),
            Err(
                Error::JobNotFound
                | Error::JobEnded(_)
                | Error::LeaseLost { .. }
                | Error::JobReplaced
                | Error::NotReserved,
            ) => return CallResult::Lost,
            Err(error) if clock.now_micros() >= ends_us => {
                let (id, topic) = (&reservation.job.id, &reservation.job.topic);
                tracing::warn!(%id, %topic, %error, "cannot settle a job after its call; it returns as after a crash");
                return CallResult::Lost;
            }
            Err(error) => {
                may_have_happened |=
                    matches!(error, Error::Unavailable(_) | Error::Refused { .. } | Error::NotDurable(_));
                clock.sleep(pause).await;
                pause = (pause * 2).min(PAUSE.1);
            }
        }
    }
}

async fn apply_once(queue: &Queue, reservation: &Reservation, outcome: &Outcome) -> Result<()> {
    let (id, receipt) = (&reservation.job.id, &reservation.receipt);
    let scope = &TopicFilter::ALL;
    match outcome {
        Outcome::Finish => {
            let job = FinishJob { id: id.clone(), receipt: Some(receipt.clone()) };
            queue.finish(scope, job, reservation.job.holder().as_ref()).await
        }
        Outcome::Hold { ttr } => queue.touch(scope, id, receipt, Some(*ttr)).await.map(drop),
        Outcome::Bury { reason } => queue.bury(scope, id, receipt, Some(reason.clone())).await.map(drop),
        Outcome::Fail { reason, retry_in, .. } => {
            let release = Release { due: Some(Due::After(*retry_in)), reason: Some(reason.clone()) };
            queue.release(scope, id, receipt, release).await.map(drop)
        }
    }
}

/// Whether this refusal is what a repeat meets if an earlier attempt, which got no answer, did happen.
fn shows_success(outcome: &Outcome, error: &Error) -> bool {
    match outcome {
        Outcome::Finish => matches!(error, Error::JobNotFound | Error::JobEnded(_)),
        Outcome::Fail { .. } | Outcome::Bury { .. } => matches!(error, Error::LeaseLost { retaken: true }),
        Outcome::Hold { .. } => false,
    }
}

fn result_of(outcome: &Outcome) -> CallResult {
    match outcome {
        Outcome::Finish => CallResult::Ok,
        Outcome::Hold { .. } => CallResult::Held,
        Outcome::Bury { .. } => CallResult::Refused,
        Outcome::Fail { answered: true, .. } => CallResult::Failed,
        Outcome::Fail { answered: false, .. } => CallResult::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Delay, Reason, Ttr};

    #[test]
    fn a_refusal_shows_an_earlier_success_only_where_the_outcome_leads_to_it() {
        let reason = || Reason::new("http_500").expect("is short");
        let fail = Outcome::Fail {
            reason: reason(),
            retry_in: Delay::LONGEST,
            answered: true,
            overloaded: false,
            rest: None,
        };
        for (outcome, job_not_found, lease_lost) in [
            (Outcome::Finish, true, false),
            (fail, false, true),
            (Outcome::Bury { reason: reason() }, false, true),
            (Outcome::Hold { ttr: Ttr::DEFAULT }, false, false),
        ] {
            assert_eq!(shows_success(&outcome, &Error::JobNotFound), job_not_found, "{outcome:?}");
            let retaken = Error::LeaseLost { retaken: true };
            assert_eq!(shows_success(&outcome, &retaken), lease_lost, "{outcome:?}");
            let timed_out = Error::LeaseLost { retaken: false };
            assert!(!shows_success(&outcome, &timed_out), "{outcome:?}");
            assert!(!shows_success(&outcome, &Error::NotReserved), "{outcome:?}");
        }
    }
}
