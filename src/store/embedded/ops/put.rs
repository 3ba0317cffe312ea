//! Storing whole records as they are in another store.

use super::write_txn::WriteTxn;
use crate::{
    job::{Actor, DueKind, State, TopicFilter},
    store::{
        JobRecord, Put, Result,
        embedded::{
            disk::disk_space::SpaceNeed,
            memory::{
                job_index::{IdHash, JobRef},
                job_state::MemoryState,
                topics::OutletNumber,
            },
            rows::{
                codec::{Lease, Record, RecordHead},
                db::{SqlResult, Table},
            },
        },
    },
};

/// See [`crate::store::Store::put`].
pub(crate) fn put(txn: &mut WriteTxn<'_>, jobs: &[JobRecord]) -> SqlResult<Result<Vec<Put>>> {
    jobs.iter().map(|job| put_one(txn, job)).collect()
}

fn put_one(txn: &mut WriteTxn<'_>, record: &JobRecord) -> SqlResult<Result<Put>> {
    if let Some(found) = txn.find(&TopicFilter::ALL, &record.job.id)? {
        let stored = txn.to_job(found.job_ref, &found.content);
        let same = record.is_of(&stored, found.content.head.fingerprint);
        return Ok(Ok(if same { Put::Exists } else { Put::Differs }));
    }
    if let Err(full) = txn.check_space(SpaceNeed::Growth) {
        return Ok(Err(full));
    }
    let stored = Record { head: head_of(txn, record), body: record.job.body.clone() };
    let hash = txn.memory.job_index().hash(record.job.id.as_str().as_bytes());
    let outlet = txn.memory.outlet(&stored.head.outlet());
    match (record.job.state(), lease_of(record)) {
        (State::Dead, _) => insert_dead(txn, hash, outlet, &stored)?,
        (State::Reserved, Some(lease)) => {
            txn.insert_reserved(hash, outlet, &stored, lease)?;
        }
        (State::Delayed | State::Ready | State::Reserved, _) => {
            txn.insert_waiting(hash, outlet, &stored)?;
        }
    }
    // The id may have been copied before its job was replaced.
    if txn.db.remembered_count() > 0 {
        txn.db.forget(&record.job.id)?;
    }
    Ok(Ok(Put::Done))
}

/// The head of a record without its reservation.
fn head_of(txn: &WriteTxn<'_>, record: &JobRecord) -> RecordHead {
    let (job, is_reserved) = (record.job.clone(), record.job.reserved().is_some());
    let mut head = RecordHead {
        dead_at: job.dead_at(),
        id: job.id,
        topic: job.topic,
        due_at: job.due_at,
        created_at: job.created_at,
        expires_at: job.expires_at,
        spec: job.spec,
        // The present reservation is counted in its lease.
        attempts: job.attempts.saturating_sub(u32::from(is_reserved)),
        fingerprint: record.fingerprint,
        reason: job.reason,
        history: job.history,
        host: None,
        other: record.other_attributes(),
    };
    head.set_callback_host(&txn.db.store_head().store.0);
    head
}

fn lease_of(record: &JobRecord) -> Option<Lease> {
    let reserved = record.job.reserved()?;
    Some(Lease {
        deadline: reserved.until,
        receipt: record.receipt.clone()?,
        attempts: record.job.attempts,
        since: reserved.since,
        by: reserved.by.as_ref().map_or("", Actor::as_str).into(),
    })
}

/// Stores a dead letter under a key of its moment of death.
fn insert_dead(txn: &mut WriteTxn<'_>, hash: IdHash, outlet: OutletNumber, record: &Record) -> SqlResult<()> {
    let died_at = record.head.dead_at.unwrap_or(txn.now.rounded_down);
    let key = txn.db.free_key(Table::Dead, died_at, DueKind::Elapsed)?;
    txn.db.insert(Table::Dead, key, record)?;
    txn.memory.set_remembers(outlet, record.head.spec.dedup.is_some());
    txn.memory.insert(hash, JobRef { key, outlet, dead: true }, MemoryState::Dead);
    if txn.memory.earliest_death().is_none_or(|since| died_at < since) {
        txn.memory.set_earliest_death(Some(died_at));
    }
    Ok(())
}
