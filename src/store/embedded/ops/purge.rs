//! Deleting all jobs of a topic, in slices.
//!
//! The walk goes over the tables of ids, not over the records: a job that is released, rescheduled or requeued
//! meanwhile changes its key but never its place among the ids, so none slips past.

use super::write_txn::WriteTxn;
use crate::{
    job::Topic,
    store::{PurgeCursor, PurgeSlice, embedded::rows::db::SqlResult},
};

/// Most ids looked at in one slice, about: a few milliseconds of the writer's time.
const MAX_INDEX_READS: usize = 200_000;

/// See [`crate::store::Store::purge`]. The cursor is the number of the table to look at next.
pub(in crate::store::embedded) fn purge(
    txn: &mut WriteTxn<'_>,
    topic: &Topic,
    cursor: Option<&PurgeCursor>,
    limit: usize,
) -> SqlResult<PurgeSlice> {
    let over = PurgeSlice { deleted: 0, next: None };
    let Some(topic) = txn.memory.topics().find(topic.as_str()) else { return Ok(over) };
    let mut shard = cursor.and_then(|cursor| cursor.0.parse().ok()).unwrap_or(0);
    let (mut reads, mut found) = (0, Vec::new());
    let next = loop {
        let Some(jobs) = txn.memory.job_index().in_shard(shard) else { break None };
        let room = limit.max(1) - found.len();
        let mut of_topic = jobs.inspect(|_| reads += 1).filter(|(_, job_ref)| job_ref.topic == topic);
        found.extend(of_topic.by_ref().take(room));
        if of_topic.next().is_some() {
            break Some(shard);
        }
        shard += 1;
        if reads >= MAX_INDEX_READS {
            break Some(shard);
        }
    };
    // In order of their place on disk, so that neighbours go together.
    found.sort_by_key(|(_, job_ref)| (job_ref.dead, job_ref.key));
    for (hash, job_ref) in &found {
        txn.remove(*hash, *job_ref)?;
    }
    let next = next.map(|shard| PurgeCursor(shard.to_string()));
    Ok(PurgeSlice { deleted: found.len(), next })
}
