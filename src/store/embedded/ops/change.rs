//! Changes by id that need no reservation: patch, delete, requeue, and those of jobs that a list showed.

use bytes::Bytes;

use super::{
    hold::{self, Holder},
    not_done::{Attempted, NotDone},
    remember::remember,
    write_txn::{FoundJob, WriteTxn},
};
use crate::{
    job::{
        Actor, Body, DueChange, ExpiryChange, HistoryEvent, IdEnd, JobId, State, Timestamp, Topic,
        TopicFilter,
    },
    store::{
        Applied, DeleteRule, DeletedJob, JobChange, Patch, Refusal, Release, Requeue,
        embedded::{
            disk::disk_space::SpaceNeed,
            rows::{
                codec::Record,
                db::{SqlResult, Table},
            },
        },
        moment_of,
    },
};

/// See [`StepAction::Patch`](crate::store::StepAction::Patch). A record that becomes longer needs disk space.
pub(super) fn patch(
    txn: &mut WriteTxn<'_>,
    scope: &TopicFilter,
    id: &JobId,
    patch: &Patch,
    by: Option<&Actor>,
) -> Attempted<Applied> {
    let found = txn.find(scope, id)?.ok_or(Refusal::Gone)?;
    match txn.memory.job_state(found.job_ref) {
        State::Delayed | State::Ready => {}
        state @ (State::Reserved | State::Dead) => return Err(Refusal::InState(state).into()),
    }
    let FoundJob { hash, job_ref, content: Record { mut head, body } } = found;
    let (retry_steps, expiry) = (head.spec.retry.steps().len(), head.spec.expiry);
    patch.apply_to(&mut head.spec);
    head.other.set_timed_out(None);
    if let Some(due) = patch.due {
        let from = txn.shown_due(&head);
        txn.set_due(&mut head, due);
        let change = DueChange { from, to: txn.shown_due(&head) };
        head.remember(HistoryEvent::Rescheduled(Some(change)), by, txn.wall_now());
    }
    let changes_expiry = patch.expiry != ExpiryChange::Keep;
    if patch.due.is_some() || changes_expiry {
        head.count_expiry();
        if txn.expires_first(&head) {
            return Err(Refusal::ExpiresFirst.into());
        }
    }
    let grows = head.spec.retry.steps().len() > retry_steps
        || expiry.is_none() && head.spec.expiry.is_some()
        || patch.body.as_ref().is_some_and(|new| new.as_bytes().len() > body.as_bytes().len());
    txn.check_space(if grows { SpaceNeed::Growth } else { SpaceNeed::Rewrite })?;
    let record = Record { head, body: patch.body.clone().unwrap_or(body) };
    let job_ref = if patch.due.is_some() {
        txn.remove(hash, job_ref)?;
        txn.insert_waiting(hash, job_ref.outlet, &record)?
    } else {
        txn.db.delete(Table::Live, job_ref.key)?;
        txn.db.insert(Table::Live, job_ref.key, &record)?;
        if changes_expiry {
            txn.memory.change_expiry(job_ref, record.head.expiry());
        }
        job_ref
    };
    Ok(Applied::Job(Box::new(txn.to_job(job_ref, &record))))
}

/// See [`StepAction::Delete`](crate::store::StepAction::Delete) and [`StepAction::Discard`](crate::store::StepAction::Discard).
pub(super) fn delete(
    txn: &mut WriteTxn<'_>,
    scope: &TopicFilter,
    id: &JobId,
    rule: DeleteRule,
    remembers: bool,
) -> Attempted<Applied> {
    let found = txn.find_head(scope, id)?.ok_or(Refusal::Gone)?;
    let state = txn.memory.job_state(found.job_ref);
    if rule == DeleteRule::UnlessReserved && state == State::Reserved {
        return Err(Refusal::InState(state).into());
    }
    if remembers {
        remember(txn, &found.content, IdEnd::Deleted)?;
    }
    txn.remove(found.hash, found.job_ref)?;
    Ok(Applied::Deleted(DeletedJob { topic: found.content.topic, state }))
}

/// See [`StepAction::Requeue`](crate::store::StepAction::Requeue): as if it were a new job. The whole job is rewritten and stays, which needs disk space.
pub(super) fn requeue(
    txn: &mut WriteTxn<'_>,
    scope: &TopicFilter,
    id: &JobId,
    Requeue { due, expiry }: Requeue,
    by: Option<&Actor>,
) -> Attempted<Applied> {
    let found = txn.find(scope, id)?.ok_or(Refusal::Gone)?;
    match txn.memory.job_state(found.job_ref) {
        State::Dead => {}
        state @ (State::Delayed | State::Ready | State::Reserved) => {
            return Err(Refusal::InState(state).into());
        }
    }
    let FoundJob { hash, job_ref, content: mut record } = found;
    if expiry == ExpiryChange::Keep && txn.has_expired(&record.head) {
        return Err(Refusal::Expired.into());
    }
    record.head.spec.expiry = expiry.apply_to(record.head.spec.expiry);
    txn.set_due(&mut record.head, due);
    record.head.count_expiry();
    if txn.expires_first(&record.head) {
        return Err(Refusal::ExpiresFirst.into());
    }
    txn.check_space(SpaceNeed::Growth)?;
    record.head.remember(HistoryEvent::Requeued, by, txn.wall_now());
    record.head.other.set_timed_out(None);
    record.head.attempts = 0;
    record.head.reason = None;
    record.head.other.set_progress_note(None);
    record.head.dead_at = None;
    txn.remove(hash, job_ref)?;
    let job_ref = txn.insert_waiting(hash, job_ref.outlet, &record)?;
    Ok(Applied::Job(Box::new(txn.to_job(job_ref, &record))))
}

/// Whether the job called `id` is still as a list showed it: its topic, its state and the moment of this state.
pub(super) fn is_as_seen(
    txn: &mut WriteTxn<'_>,
    scope: &TopicFilter,
    id: &JobId,
    seen: (&Topic, State, Timestamp),
) -> SqlResult<bool> {
    let Some(found) = txn.find_head(scope, id)? else { return Ok(false) };
    let record = Record { head: found.content, body: Body::from_stored(Bytes::new()) };
    let job = txn.to_job(found.job_ref, &record);
    Ok((&job.topic, job.state(), moment_of(&job)) == seen)
}

/// Changes a job that is as a list showed it, in this topic.
pub(super) fn change_seen(
    txn: &mut WriteTxn<'_>,
    (id, topic): (&JobId, &Topic),
    change: &JobChange,
    by: Option<&Actor>,
) -> Attempted<Applied> {
    let all = &TopicFilter::ALL;
    let changed = match change {
        JobChange::Delete => delete(txn, all, id, DeleteRule::AnyState, false),
        JobChange::Requeue(change) => requeue(txn, all, id, *change, by),
        JobChange::Reschedule(due) => patch(txn, all, id, &Patch { due: Some(*due), ..Patch::default() }, by),
        JobChange::Revoke { due, reason } => {
            let release = Release { due: Some(*due), reason: reason.clone() };
            hold::release(txn, all, id, Holder::Attempt(None), &release)
        }
    };
    match changed {
        Ok(Applied::Job(job)) => Ok(Applied::Done { topic: job.topic }),
        Ok(Applied::Deleted(DeletedJob { topic, .. })) => Ok(Applied::Done { topic }),
        // The reservation was of an older version. It has ended, and the job waits.
        Err(NotDone::Refused(Refusal::Replaced)) => Ok(Applied::Done { topic: topic.clone() }),
        // A record that cannot be read, which was set aside, is not as it was seen either.
        Err(NotDone::Refused(_)) => Err(Refusal::NotAsSeen.into()),
        Ok(Applied::Done { .. }) | Err(NotDone::Database(_) | NotDone::Failed(_)) => changed,
    }
}
