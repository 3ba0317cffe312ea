//! Reserving ready jobs.

use super::write_txn::WriteTxn;
use crate::{
    job::{Actor, DueKind, Outlet, Receipt, State},
    store::{
        Claim, Reservation,
        embedded::{
            memory::{job_index::JobRef, job_state::MemoryState},
            rows::{
                codec::Lease,
                db::{SqlResult, Table},
                key::RowKey,
            },
        },
    },
};

/// Most jobs that one call passes over, so that other calls do not wait for long.
const MAX_PASSED_OVER: usize = 10_000;

/// See [`crate::store::Store::reserve`].
pub(crate) fn reserve(
    txn: &mut WriteTxn<'_>,
    outlet: &Outlet,
    claims: &[Claim],
) -> SqlResult<Vec<Reservation>> {
    let mut granted = Vec::new();
    let Some(outlet) = txn.memory.topics().find(outlet) else { return Ok(granted) };
    let mut passed_over = 0;
    while let Some(claim) = claims.get(granted.len()) {
        let Some((&key, &since)) = txn.memory.topics().get(outlet).ready.first_key_value() else { break };
        let has_expired = txn.memory.expiries().has_expired(key, |kind| txn.now_of(kind));
        if has_expired || is_to_come_again(txn, key) {
            if passed_over == MAX_PASSED_OVER {
                txn.announce_ready(outlet);
                break;
            }
            // It is delayed from here on. If it has expired, it is overdue, and the next promotion moves it.
            passed_over += 1;
            txn.change_state(JobRef { key, outlet, dead: false }, MemoryState::Delayed);
            continue;
        }
        let record = match txn.db.read(Table::Live, key)? {
            Ok(record) => record,
            Err(why) => {
                txn.set_aside(key, false, why)?;
                continue;
            }
        };
        let ttr = claim.ttr.unwrap_or(record.head.spec.ttr);
        let lease = Lease {
            deadline: txn.now.after(ttr.as_duration()),
            receipt: Receipt::generate(),
            attempts: record.head.attempts.saturating_add(1),
            since: txn.now.rounded_down,
            by: claim.by.as_ref().map_or("", Actor::as_str).into(),
        };
        granted.push(Reservation {
            claim: granted.len(),
            job: record.to_job(State::Reserved, Some(&lease), txn.wall_ahead_ms),
            receipt: lease.receipt.clone(),
            late: txn.now_of(record.head.due_kind()).rounded_down.since(record.head.due_at),
            waited: txn.now.rounded_down.since(since),
        });
        let before = txn.set_lease(JobRef { key, outlet, dead: false }, lease)?;
        debug_assert!(matches!(before, MemoryState::Ready { .. }));
    }
    Ok(granted)
}

/// Whether the moment of a job is still to come, because the machine's clock was set back since it came.
fn is_to_come_again(txn: &WriteTxn<'_>, key: RowKey) -> bool {
    key.kind() == DueKind::Moment && key.slot() > txn.wall_now().rounded_down
}
