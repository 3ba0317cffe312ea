//! Reservations in the reply of `scripts/reserve.lua`. Knows no call.

use std::time::Duration;

use super::record;
use crate::{
    job::{JobId, Receipt, Timestamp},
    store::{Reservation, Result, redis::reply::Reply},
};

/// Reads `id, record, ms since ready` until the reply ends. `now` is the server's time of the reservation.
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
        let late = now.since(job.due_at);
        granted.push(Reservation { job, receipt: Receipt::from_bytes(receipt), late, waited });
    }
    Ok(granted)
}
