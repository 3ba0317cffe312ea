//! Reservations in the reply of `scripts/reserve.lua`. Knows no call.

use std::time::Duration;

use super::record;
use crate::{
    job::{JobId, Receipt, Timestamp},
    store::{Reservation, Result, redis::reply::Reply},
};

/// Reads `id, record, ms since ready` until the reply ends. `now` is the server's time of the reservation. The reply does not
/// say which claims the jobs are for: [`assign_claims`] does.
pub fn decode_reservations(mut reply: Reply, now: Timestamp) -> Result<Vec<Reservation>> {
    let mut granted = Vec::with_capacity(reply.len() / 3);
    while !reply.is_empty() {
        let id: JobId = reply.name()?;
        let raw = reply.bytes()?;
        let waited = Duration::from_millis(reply.count()?);
        let Some((job, Some(receipt))) = record::decode_with_receipt(&id, &raw) else {
            // Deliver the other jobs. This one becomes ready again after its TTR, until its attempts are used up.
            tracing::error!(%id, "cannot read the record of a reserved job");
            continue;
        };
        let (claim, late) = (granted.len(), now.since(job.due_at));
        granted.push(Reservation { claim, job, receipt: Receipt::from_bytes(receipt), late, waited });
    }
    Ok(granted)
}

/// Finds the claim of each job by its receipt; `receipts` has one per claim, in order. The order of the jobs is not
/// enough, because the reply to a repeated call lacks those that are no longer reserved. Removes jobs with other
/// receipts, whose reservations end by their TTR.
pub fn assign_claims(granted: &mut Vec<Reservation>, receipts: &[u8]) {
    let mut claims = receipts.chunks_exact(Receipt::BYTES).enumerate();
    granted.retain_mut(|grant| match claims.find(|(_, receipt)| receipt == grant.receipt.as_bytes()) {
        Some((claim, _)) => {
            grant.claim = claim;
            true
        }
        None => {
            tracing::error!(id = %grant.job.id, "a reserved job has an unknown receipt");
            false
        }
    });
}
