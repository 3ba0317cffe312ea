//! Handing out ready jobs.

use super::write_txn::Work;
use crate::{
    job::{Receipt, State, Topic, Ttr},
    store::{
        Reservation,
        embedded::{
            memory::{job_index::Located, state::Place},
            rows::{
                codec::Lease,
                records::{Sql, Table},
            },
        },
    },
};

/// See [`crate::store::Store::reserve`].
pub(in crate::store::embedded) fn reserve(
    work: &mut Work<'_>,
    topic: &Topic,
    ttrs: &[Option<Ttr>],
) -> Sql<Vec<Reservation>> {
    let mut granted = Vec::new();
    let Some(topic) = work.state.topics().find(topic.as_str()) else { return Ok(granted) };
    while granted.len() < ttrs.len() {
        let Some((&key, &since)) = work.state.topics().get(topic).ready.first_key_value() else { break };
        let record = match work.db.read(Table::Live, key)? {
            Ok(record) => record,
            Err(why) => {
                work.set_aside(key, false, why)?;
                continue;
            }
        };
        let ttr = ttrs[granted.len()].unwrap_or(record.head.ttr);
        let lease = Lease {
            deadline: work.now.after(ttr.as_duration()),
            receipt: Receipt::generate(),
            attempts: record.head.attempts.saturating_add(1),
        };
        granted.push(Reservation {
            job: record.to_job(State::Reserved, Some(&lease)),
            receipt: lease.receipt.clone(),
            late: work.now.down.since(record.head.due_at),
            waited: work.now.down.since(since),
        });
        let before = work.put_lease(Located { key, topic, dead: false }, lease)?;
        debug_assert!(matches!(before, Place::Ready { .. }));
    }
    Ok(granted)
}
