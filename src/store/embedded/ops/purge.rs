//! Deletes all jobs of a topic, in slices.
//!
//! It iterates over the job index, not over the records: a job that is released, rescheduled or requeued meanwhile
//! changes its key but never its table in the index, so none is missed.

use super::write_txn::WriteTxn;
use crate::{
    job::Topic,
    store::{
        PurgeCursor, PurgeSlice,
        embedded::{
            memory::{job_index::JobRef, topics::OutletNumber},
            rows::db::SqlResult,
        },
    },
};

/// About how many entries of the index one slice reads at most, which takes a few milliseconds.
const MAX_INDEX_READS: usize = 200_000;

/// See [`crate::store::Store::purge`]. The cursor is the number of the index's next table.
pub(crate) fn purge(
    txn: &mut WriteTxn<'_>,
    topic: &Topic,
    cursor: Option<&PurgeCursor>,
    limit: usize,
) -> SqlResult<PurgeSlice> {
    let finished = PurgeSlice { deleted: 0, next: None };
    let Some(plain) = txn.memory.topics().find_topic(topic.as_str()) else { return Ok(finished) };
    let mut outlets: Vec<OutletNumber> = txn.memory.topics().outlets_of(plain).map(|(ix, _)| ix).collect();
    outlets.sort_unstable();
    let mut shard = cursor.and_then(|cursor| cursor.0.parse().ok()).unwrap_or(0);
    let (mut reads, mut found) = (0, Vec::new());
    let next = loop {
        let Some(jobs) = txn.memory.job_index().in_shard(shard) else { break None };
        let left = limit.max(1) - found.len();
        let is_of_topic = |job_ref: JobRef| outlets.binary_search(&job_ref.outlet).is_ok();
        let mut of_topic = jobs.inspect(|_| reads += 1).filter(|(_, job_ref)| is_of_topic(*job_ref));
        found.extend(of_topic.by_ref().take(left));
        if of_topic.next().is_some() {
            break Some(shard);
        }
        shard += 1;
        if reads >= MAX_INDEX_READS {
            break Some(shard);
        }
    };
    // In the order of the rows on disk, so that neighbours are deleted together.
    found.sort_by_key(|(_, job_ref)| (job_ref.dead, job_ref.key));
    for (hash, job_ref) in &found {
        txn.remove(*hash, *job_ref)?;
    }
    let next = next.map(|shard| PurgeCursor(shard.to_string()));
    Ok(PurgeSlice { deleted: found.len(), next })
}
