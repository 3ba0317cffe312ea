//! Bulk operations on the dead letters of a topic, oldest first.

use super::{
    MAX_STEP_BYTES,
    change::requeue_found,
    write_txn::{FoundJob, WriteTxn},
};
use crate::{
    job::{Delay, Topic},
    store::{
        Result,
        embedded::{
            disk::disk_space::SpaceNeed,
            memory::job_index::JobRef,
            rows::{
                codec::{RecordError, RecordHead},
                db::{SqlResult, Table},
                key::RowKey,
            },
        },
    },
};

/// The result of one step of a bulk operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BulkStep {
    pub done: usize,
    /// Whether there may be more to do.
    pub more: bool,
}

/// Requeues up to `limit` dead letters without delay. Needs disk space, as [`requeue`](super::requeue) does.
pub(crate) fn requeue_dead(
    txn: &mut WriteTxn<'_>,
    topic: &Topic,
    limit: usize,
) -> SqlResult<Result<BulkStep>> {
    if let Some(full) = txn.space_refusal(SpaceNeed::Growth) {
        return Ok(Err(full));
    }
    let keys = txn.db.oldest_dead(topic, limit)?;
    let (mut requeued, mut more, before) = (0, keys.len() == limit, txn.db.bytes_written());
    for key in keys {
        if txn.db.bytes_written() - before > MAX_STEP_BYTES {
            more = true;
            break;
        }
        let record = txn.db.read(Table::Dead, key)?;
        match record.and_then(|record| Ok((job_ref_of(txn, key, &record.head)?, record))) {
            Ok((job_ref, content)) => {
                let hash = txn.memory.job_index().hash(content.head.id.as_str().as_bytes());
                requeue_found(txn, FoundJob { hash, job_ref, content }, Delay::default(), None)?;
                requeued += 1;
            }
            Err(why) => txn.set_aside(key, true, why)?,
        }
    }
    Ok(Ok(BulkStep { done: requeued, more }))
}

/// Deletes up to `limit` dead letters.
pub(crate) fn delete_dead(
    txn: &mut WriteTxn<'_>,
    topic: &Topic,
    limit: usize,
) -> SqlResult<Result<BulkStep>> {
    let keys = txn.db.oldest_dead(topic, limit)?;
    let (mut deleted, more) = (0, keys.len() == limit);
    for key in keys {
        deleted += usize::from(delete_dead_letter(txn, key)?.is_some());
    }
    Ok(Ok(BulkStep { done: deleted, more }))
}

/// Deletes one dead letter and returns its head; `None` when it was broken and set aside.
pub(crate) fn delete_dead_letter(txn: &mut WriteTxn<'_>, key: RowKey) -> SqlResult<Option<RecordHead>> {
    let head = txn.db.read_head(Table::Dead, key)?;
    match head.and_then(|head| Ok((job_ref_of(txn, key, &head)?, head))) {
        Ok((job_ref, head)) => {
            let hash = txn.memory.job_index().hash(head.id.as_str().as_bytes());
            txn.remove(hash, job_ref)?;
            Ok(Some(head))
        }
        Err(why) => {
            txn.set_aside(key, true, why)?;
            Ok(None)
        }
    }
}

fn job_ref_of(
    txn: &WriteTxn<'_>,
    key: RowKey,
    head: &RecordHead,
) -> std::result::Result<JobRef, RecordError> {
    let outlet = txn.memory.topics().find(&head.outlet()).ok_or(RecordError::Value)?;
    Ok(JobRef { key, outlet, dead: true })
}
