//! The changes that time makes: delays end, reservations time out, the retention of dead letters ends.

use std::time::Duration;

use super::{MAX_STEP_BYTES, write_txn::WriteTxn};
use crate::{
    job::{AttemptEnd, DueKind, OnExpiry, Reason, Timestamp},
    store::{
        Move, MoveKind, Promoted,
        embedded::{
            memory::{job_index::JobRef, job_state::MemoryState},
            rows::{
                codec::{Lease, Record, RecordError, RecordHead},
                db::{SqlResult, Table},
                key::RowKey,
            },
        },
    },
};

/// See [`crate::store::Store::promote`]. A promotion that only makes delayed jobs ready writes nothing:
/// after a restart they are ready because their due time has passed.
pub(crate) fn promote(txn: &mut WriteTxn<'_>, limit: usize) -> SqlResult<Promoted> {
    let before = txn.effects.set_aside;
    let mut moves = Vec::new();
    let mut budget = limit.max(1);
    end_reservations(txn, &mut budget, &mut moves)?;
    // At most half: a million jobs may expire at the same time, and jobs of other topics are due.
    let mut share = budget.div_ceil(2);
    budget -= share;
    for kind in DueKind::BOTH {
        expire(txn, kind, &mut share, &mut moves)?;
    }
    budget += share;
    for kind in DueKind::BOTH {
        end_delays(txn, kind, &mut budget, &mut moves)?;
    }
    delete_old_dead_letters(txn, &mut budget, &mut moves)?;
    let next = txn.memory.next_deadline(txn.options.dead_retention, txn.wall_ahead_ms);
    // The engine waits for the next deadline, unless its caller does.
    let wakes_caller = next.filter(|_| !txn.options.promotes_by_itself);
    txn.effects.promotion = Some((limit, wakes_caller.unwrap_or(Timestamp::MAX)));
    let set_aside = usize::try_from(txn.effects.set_aside - before).unwrap_or(usize::MAX);
    let more = next.is_some_and(|next| next <= txn.now.rounded_down);
    Ok(Promoted { moves, more, next_in: wakes_caller.map(|next| txn.time_until(next)), set_aside })
}

fn end_reservations(txn: &mut WriteTxn<'_>, budget: &mut usize, moves: &mut Vec<Move>) -> SqlResult<()> {
    let before = txn.db.bytes_written();
    while *budget > 0
        && txn.db.bytes_written() - before <= MAX_STEP_BYTES
        && let Some((deadline, job_ref)) = txn.memory.first_deadline()
        && deadline <= txn.now.rounded_down
    {
        *budget -= 1;
        let topic = txn.memory.topics().get(job_ref.outlet).outlet.topic.clone();
        if let Some((kind, is_ready)) = end_reservation(txn, job_ref)? {
            let late = txn.now.rounded_down.since(deadline);
            moves.push(Move { topic, kind, late, is_ready, deleted: None });
        }
    }
    Ok(())
}

fn expire(txn: &mut WriteTxn<'_>, kind: DueKind, budget: &mut usize, moves: &mut Vec<Move>) -> SqlResult<()> {
    let now = txn.now_of(kind).rounded_down;
    let before = txn.db.bytes_written();
    while *budget > 0
        && txn.db.bytes_written() - before <= MAX_STEP_BYTES
        && let Some((moment, job_ref)) = txn.memory.expiries().first(kind)
        && moment <= now
    {
        *budget -= 1;
        moves.extend(expire_one(txn, job_ref)?);
    }
    Ok(())
}

/// Makes a job a dead letter, or deletes it if it has asked for that and the clock is trusted. None if it is broken and set
/// aside.
fn expire_one(txn: &mut WriteTxn<'_>, job_ref: JobRef) -> SqlResult<Option<Move>> {
    let Some(mut record) = read(txn, job_ref)? else { return Ok(None) };
    let (id, topic) = (record.head.id.clone(), record.head.topic.clone());
    let late = record.head.expiry().map_or(Duration::ZERO, |expires_at| {
        txn.now_of(expires_at.kind).rounded_down.since(expires_at.moment)
    });
    let hash = txn.memory.job_index().hash(id.as_str().as_bytes());
    txn.remove(hash, job_ref)?;
    let asks_to_be_deleted =
        record.head.spec.expiry.is_some_and(|expiry| expiry.on_expiry == OnExpiry::Delete);
    if asks_to_be_deleted && txn.clock.is_trusted() {
        return Ok(Some(Move { topic, kind: MoveKind::Expired, late, is_ready: false, deleted: Some(id) }));
    }
    record.head.reason = Reason::new(Reason::EXPIRED);
    txn.insert_dead(hash, job_ref.outlet, &mut record)?;
    Ok(Some(Move { topic, kind: MoveKind::Expired, late, is_ready: false, deleted: None }))
}

/// The record of a live job. None if it is broken and set aside.
fn read(txn: &mut WriteTxn<'_>, job_ref: JobRef) -> SqlResult<Option<Record>> {
    match txn.db.read(Table::Live, job_ref.key)? {
        Ok(record) => Ok(Some(record)),
        Err(why) => {
            txn.set_aside(job_ref.key, false, why)?;
            Ok(None)
        }
    }
}

/// What the end of the TTR did to the job, and whether it is ready since. None if it is broken and set aside.
fn end_reservation(txn: &mut WriteTxn<'_>, job_ref: JobRef) -> SqlResult<Option<(MoveKind, bool)>> {
    let lease = txn.memory.lease(job_ref.key).cloned();
    if lease.as_ref().is_some_and(Lease::is_of_older) {
        let is_ready = txn.end_older_lease(job_ref)?;
        return Ok(Some((MoveKind::TimedOut, is_ready)));
    }
    let Some(mut record) = read(txn, job_ref)? else { return Ok(None) };
    let hash = txn.memory.job_index().hash(record.head.id.as_str().as_bytes());
    let attempts = lease.as_ref().map_or(record.head.attempts, |lease| lease.attempts);
    if let Some(lease) = lease {
        txn.remember_attempt(&mut record.head, &lease, AttemptEnd::TimedOut, None);
        let kept = record.head.spec.late_finish.then_some((&lease.receipt, lease.attempts));
        record.head.other.set_timed_out(kept);
    }
    txn.remove(hash, job_ref)?;
    record.head.attempts = attempts;
    if record.head.spec.has_used_all_attempts(attempts) {
        record.head.reason = Reason::new(Reason::TTR_EXPIRED);
        txn.insert_dead(hash, job_ref.outlet, &mut record)?;
        return Ok(Some((MoveKind::Died, false)));
    }
    let delay = record.head.spec.retry.after_timeout(attempts);
    txn.set_delay(&mut record.head, delay);
    txn.insert_waiting(hash, job_ref.outlet, &record)?;
    Ok(Some((MoveKind::TimedOut, delay.is_zero())))
}

/// A job that has expired, too, is not ready in between.
fn end_delays(
    txn: &mut WriteTxn<'_>,
    kind: DueKind,
    budget: &mut usize,
    moves: &mut Vec<Move>,
) -> SqlResult<()> {
    let (now, since) = (txn.now_of(kind).rounded_down, txn.now.rounded_down);
    let before = txn.db.bytes_written();
    while *budget > 0
        && txn.db.bytes_written() - before <= MAX_STEP_BYTES
        && let Some((key, outlet)) = txn.memory.delayed().first(kind)
        && key.slot() <= now
    {
        *budget -= 1;
        let job_ref = JobRef { key, outlet, dead: false };
        if txn.memory.expiries().has_expired(key, |kind| txn.now_of(kind)) {
            moves.extend(expire_one(txn, job_ref)?);
            continue;
        }
        txn.change_state(job_ref, MemoryState::Ready { since });
        let topic = txn.memory.topics().get(outlet).outlet.topic.clone();
        let late = now.since(key.slot());
        moves.push(Move { topic, kind: MoveKind::Ready, late, is_ready: true, deleted: None });
    }
    Ok(())
}

fn delete_old_dead_letters(
    txn: &mut WriteTxn<'_>,
    budget: &mut usize,
    moves: &mut Vec<Move>,
) -> SqlResult<()> {
    let Some(kept) = txn.options.dead_retention else { return Ok(()) };
    let is_over = |since: Timestamp| since.after(kept) <= txn.now.rounded_down;
    if *budget == 0 || !txn.memory.earliest_death().is_some_and(is_over) {
        return Ok(());
    }
    let kept_ms = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX);
    let last = Timestamp::from_millis(txn.now.rounded_down.as_millis().saturating_sub(kept_ms));
    let mut keys = Vec::new();
    txn.db.scan(Table::Dead, (RowKey::START, RowKey::first_after(last)), *budget, |key, _| keys.push(key))?;
    for key in keys {
        *budget -= 1;
        if let Some(head) = delete_dead_letter(txn, key)? {
            let late = txn.now.rounded_down.since(key.slot().after(kept));
            moves.push(Move {
                topic: head.topic,
                kind: MoveKind::Forgotten,
                late,
                is_ready: false,
                deleted: None,
            });
        }
    }
    let first = txn.db.first_dead()?.map(RowKey::slot);
    txn.memory.set_earliest_death(first);
    Ok(())
}

/// Deletes one dead letter and returns its head; `None` when it was broken and set aside.
fn delete_dead_letter(txn: &mut WriteTxn<'_>, key: RowKey) -> SqlResult<Option<RecordHead>> {
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
