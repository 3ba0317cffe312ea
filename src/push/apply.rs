//! Applies the outcome of a call to its job: finishes, releases, extends or buries it. Keeps trying while the store is away.

use std::time::Duration;

use super::outcome::Outcome;
use crate::{
    clock::Clock,
    job::TopicFilter,
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
            // An earlier attempt got no answer but did happen.
            Err(Error::JobNotFound | Error::LeaseLost) if may_have_happened => return result_of(outcome),
            Err(Error::JobNotFound | Error::LeaseLost | Error::NotReserved) => return CallResult::Lost,
            Err(error) if clock.now_micros() >= ends_us => {
                let (id, topic) = (&reservation.job.id, &reservation.job.topic);
                tracing::warn!(%id, %topic, %error, "cannot settle a job after its call; it returns as after a crash");
                return CallResult::Lost;
            }
            Err(error) => {
                may_have_happened |= matches!(error, Error::Unavailable(_) | Error::NotDurable(_));
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
            let release = Release { delay: Some(*retry_in), reason: Some(reason.clone()) };
            queue.release(scope, id, receipt, release).await.map(drop)
        }
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
