//! The operations of a worker that holds a reservation: finish, release, touch and bury; and the cancelling and
//! postponing of reservations that no client has seen.

use super::{
    not_done::{Attempted, attempt_each},
    remember::remember,
    write_txn::{FoundJob, WriteTxn},
};
use crate::{
    job::{AttemptEnd, Delay, IdEnd, JobId, ProgressNote, Reason, Receipt, State, TopicFilter},
    store::{
        Applied, FinishJob, Finished, Outcome, Refusal, Release, Result, Touch,
        embedded::{
            disk::disk_space::SpaceNeed,
            memory::{
                job_index::{IdHash, JobRef},
                job_state::MemoryState,
            },
            rows::{
                codec::{Lease, Record, RecordHead},
                db::{SqlResult, Table},
            },
        },
    },
};

/// See [`crate::store::Store::finish`].
pub(crate) fn finish(
    txn: &mut WriteTxn<'_>,
    scope: &TopicFilter,
    jobs: &[FinishJob],
) -> SqlResult<Result<Vec<Outcome<Finished>>>> {
    attempt_each(jobs, |job| finish_one(txn, scope, job))
}

fn finish_one(txn: &mut WriteTxn<'_>, scope: &TopicFilter, job: &FinishJob) -> Attempted<Finished> {
    let held = job.receipt.as_ref().and_then(|receipt| find_reserved(txn, scope, &job.id, receipt));
    let (hash, job_ref, is_late) = match (held, &job.receipt) {
        (Some((_, job_ref, lease)), _) if lease.is_of_older() => return end_older(txn, job_ref),
        (Some((hash, job_ref, _)), _) => (hash, job_ref, false),
        (None, receipt) => {
            let found = txn.find_head(scope, &job.id)?.ok_or(Refusal::Gone)?;
            match receipt {
                Some(receipt) if takes_late(txn, &found, receipt) => {}
                Some(_) => return Err(Refusal::Lost.into()),
                None if found.content.spec.require_receipt => return Err(Refusal::ReceiptRequired.into()),
                None if txn.memory.job_state(found.job_ref) != State::Reserved => {
                    return Err(Refusal::NotReserved.into());
                }
                None if txn.memory.lease(found.job_ref.key).is_some_and(Lease::is_of_older) => {
                    return end_older(txn, found.job_ref);
                }
                None => {}
            }
            (found.hash, found.job_ref, receipt.is_some())
        }
    };
    let topic = txn.topic_of(job_ref);
    if txn.memory.may_remember(job_ref.outlet) {
        let head = read_to_end(txn, job_ref)?;
        remember(txn, &head, IdEnd::Finished)?;
    }
    txn.remove(hash, job_ref)?;
    Ok(Finished { topic, is_late })
}

/// Reads the head of a job that is to end. A broken one is set aside, and so gone.
fn read_to_end(txn: &mut WriteTxn<'_>, job_ref: JobRef) -> Attempted<RecordHead> {
    match txn.db.read_head(Table::for_job(job_ref.dead), job_ref.key)? {
        Ok(head) => Ok(head),
        Err(why) => {
            txn.set_aside(job_ref.key, job_ref.dead, why)?;
            Err(Refusal::Gone.into())
        }
    }
}

/// Ends the reservation of a version that was replaced, and says so.
fn end_older<T>(txn: &mut WriteTxn<'_>, job_ref: JobRef) -> Attempted<T> {
    txn.end_older_lease(job_ref)?;
    Err(Refusal::Replaced.into())
}

/// Whether the receipt is good for a finish, although its reservation has ended.
fn takes_late(txn: &WriteTxn<'_>, found: &FoundJob<RecordHead>, receipt: &Receipt) -> bool {
    txn.memory.job_state(found.job_ref) != State::Reserved
        && found.content.other.has_timed_out(receipt, found.content.attempts)
}

/// See [`StepAction::Cancel`](crate::store::StepAction::Cancel). From memory alone.
pub(super) fn cancel(
    txn: &mut WriteTxn<'_>,
    scope: &TopicFilter,
    id: &JobId,
    receipt: &Receipt,
) -> Attempted<Applied> {
    let (_, job_ref, lease) = find_reserved(txn, scope, id, receipt).ok_or(Refusal::Lost)?;
    if lease.is_of_older() {
        txn.end_older_lease(job_ref)?;
        return Ok(Applied::Done { topic: txn.topic_of(job_ref) });
    }
    // The record's attempts do not count this one, and its key is still that of its due time.
    txn.db.delete_lease(job_ref.key)?;
    txn.change_state(job_ref, MemoryState::Ready { since: txn.now.rounded_down });
    Ok(Applied::Done { topic: txn.topic_of(job_ref) })
}

/// See [`StepAction::Postpone`](crate::store::StepAction::Postpone). The whole job is rewritten.
pub(super) fn postpone(
    txn: &mut WriteTxn<'_>,
    scope: &TopicFilter,
    id: &JobId,
    receipt: &Receipt,
    delay: Delay,
) -> Attempted<Applied> {
    let (_, job_ref, lease) = find_reserved(txn, scope, id, receipt).ok_or(Refusal::Lost)?;
    if lease.is_of_older() {
        txn.end_older_lease(job_ref)?;
        return Ok(Applied::Done { topic: txn.topic_of(job_ref) });
    }
    // The record's attempts do not count this one.
    let (found, _) = read_reserved(txn, scope, id, receipt)?;
    txn.check_space(SpaceNeed::Rewrite)?;
    let FoundJob { hash, job_ref, content: mut record } = found;
    txn.set_delay(&mut record.head, delay.as_duration());
    txn.remove(hash, job_ref)?;
    txn.insert_waiting(hash, job_ref.outlet, &record)?;
    Ok(Applied::Done { topic: txn.topic_of(job_ref) })
}

/// Whose reservation a release ends.
pub(super) enum Holder<'a> {
    /// That of the worker with this receipt, who asks for it.
    Receipt(&'a Receipt),
    /// That of any worker; of the attempt with this number, if one is given.
    Attempt(Option<u32>),
}

/// See [`StepAction::Release`](crate::store::StepAction::Release) and
/// [`StepAction::Revoke`](crate::store::StepAction::Revoke). The whole job is rewritten.
pub(super) fn release(
    txn: &mut WriteTxn<'_>,
    scope: &TopicFilter,
    id: &JobId,
    holder: Holder<'_>,
    release: &Release,
) -> Attempted<Applied> {
    let ((found, lease), end) = match holder {
        Holder::Receipt(receipt) => (read_reserved(txn, scope, id, receipt)?, AttemptEnd::Released),
        Holder::Attempt(attempt) => (read_held(txn, scope, id, attempt)?, AttemptEnd::Revoked),
    };
    if lease.is_of_older() {
        return end_older(txn, found.job_ref);
    }
    txn.check_space(SpaceNeed::Rewrite)?;
    if found.content.head.spec.has_used_all_attempts(lease.attempts) {
        return bury_job(txn, found, &lease, release.reason.clone(), (end, Reason::ATTEMPTS_USED));
    }
    let FoundJob { hash, job_ref, content: mut record } = found;
    txn.remember_attempt(&mut record.head, &lease, end, release.reason.as_ref());
    let step = record.head.spec.retry.after_release(lease.attempts);
    match release.due {
        Some(due) => txn.set_due(&mut record.head, due),
        None => txn.set_delay(&mut record.head, step),
    }
    record.head.attempts = lease.attempts;
    record.head.reason = release.reason.clone();
    txn.remove(hash, job_ref)?;
    let job_ref = txn.insert_waiting(hash, job_ref.outlet, &record)?;
    Ok(Applied::Job(Box::new(txn.to_job(job_ref, &record))))
}

/// See [`StepAction::Touch`](crate::store::StepAction::Touch). With a note the whole job is rewritten. Without the disk space
/// for that, the job keeps the note that it has.
pub(super) fn touch(
    txn: &mut WriteTxn<'_>,
    scope: &TopicFilter,
    id: &JobId,
    receipt: &Receipt,
    Touch { ttr, note }: &Touch,
) -> Attempted<Applied> {
    let (FoundJob { job_ref, content: mut record, .. }, lease) = read_reserved(txn, scope, id, receipt)?;
    if lease.is_of_older() {
        return Err(Refusal::Replaced.into());
    }
    // A heartbeat matters more than its note.
    if let Some(text) = note
        && txn.check_space(SpaceNeed::Growth).is_ok()
    {
        record
            .head
            .other
            .set_progress_note(Some(&ProgressNote { at: txn.wall_now().rounded_down, text: text.clone() }));
        txn.db.delete(Table::Live, job_ref.key)?;
        txn.db.insert(Table::Live, job_ref.key, &record)?;
    }
    let ttr = ttr.unwrap_or(record.head.spec.ttr);
    txn.set_lease(job_ref, Lease { deadline: txn.now.after(ttr.as_duration()), ..lease })?;
    Ok(Applied::Job(Box::new(txn.to_job(job_ref, &record))))
}

/// See [`StepAction::Bury`](crate::store::StepAction::Bury). The whole job is rewritten.
pub(super) fn bury(
    txn: &mut WriteTxn<'_>,
    scope: &TopicFilter,
    id: &JobId,
    receipt: &Receipt,
    reason: &Option<Reason>,
) -> Attempted<Applied> {
    let (found, lease) = read_reserved(txn, scope, id, receipt)?;
    if lease.is_of_older() {
        return end_older(txn, found.job_ref);
    }
    txn.check_space(SpaceNeed::Rewrite)?;
    bury_job(txn, found, &lease, reason.clone(), (AttemptEnd::Buried, Reason::BURIED))
}

fn bury_job(
    txn: &mut WriteTxn<'_>,
    found: FoundJob<Record>,
    lease: &Lease,
    reason: Option<Reason>,
    (end, default_reason): (AttemptEnd, &str),
) -> Attempted<Applied> {
    let FoundJob { hash, job_ref, content: mut record } = found;
    txn.remember_attempt(&mut record.head, lease, end, reason.as_ref());
    record.head.attempts = lease.attempts;
    record.head.reason = reason.or_else(|| Reason::new(default_reason));
    txn.remove(hash, job_ref)?;
    let job_ref = txn.insert_dead(hash, job_ref.outlet, &mut record)?;
    Ok(Applied::Job(Box::new(txn.to_job(job_ref, &record))))
}

/// Finds the job in `scope` that is reserved under `receipt`, from memory alone: 128 random bits and the hash of the
/// id identify it as well as the id in the record.
fn find_reserved(
    txn: &WriteTxn<'_>,
    scope: &TopicFilter,
    id: &JobId,
    receipt: &Receipt,
) -> Option<(IdHash, JobRef, Lease)> {
    let hash = txn.memory.job_index().hash(id.as_str().as_bytes());
    txn.memory.job_index().candidates(hash).into_iter().find_map(|job_ref| {
        let lease =
            txn.memory.lease(job_ref.key).filter(|lease| !job_ref.dead && lease.receipt == *receipt)?;
        txn.is_in_scope(scope, job_ref).then(|| (hash, job_ref, lease.clone()))
    })
}

/// Reads the record reserved under `receipt`. A broken one is set aside, and so gone.
fn read_reserved(
    txn: &mut WriteTxn<'_>,
    scope: &TopicFilter,
    id: &JobId,
    receipt: &Receipt,
) -> Attempted<(FoundJob<Record>, Lease)> {
    let Some((hash, job_ref, lease)) = find_reserved(txn, scope, id, receipt) else {
        let found = txn.find_head(scope, id)?.ok_or(Refusal::Gone)?;
        let is_late = takes_late(txn, &found, receipt);
        return Err(if is_late { Refusal::TimedOut } else { Refusal::Lost }.into());
    };
    match txn.db.read(Table::Live, job_ref.key)? {
        Ok(content) => Ok((FoundJob { hash, job_ref, content }, lease)),
        Err(why) => {
            txn.set_aside(job_ref.key, false, why)?;
            Err(Refusal::Gone.into())
        }
    }
}

/// Reads the record of a job that is reserved, in this attempt if one is given.
fn read_held(
    txn: &mut WriteTxn<'_>,
    scope: &TopicFilter,
    id: &JobId,
    attempt: Option<u32>,
) -> Attempted<(FoundJob<Record>, Lease)> {
    let found = txn.find(scope, id)?.ok_or(Refusal::Gone)?;
    let lease = txn.memory.lease(found.job_ref.key).filter(|_| !found.job_ref.dead).cloned();
    let lease = lease.ok_or(Refusal::NotReserved)?;
    if attempt.is_some_and(|attempt| attempt != lease.attempts) {
        return Err(Refusal::Lost.into());
    }
    Ok((found, lease))
}
