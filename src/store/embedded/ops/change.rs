//! Changes by id that need no reservation: patch, delete, requeue, and those of jobs that a list showed.

use bytes::Bytes;

use super::write_txn::{FoundJob, WriteTxn};
use crate::{
    job::{Actor, Body, Due, HistoryEvent, JobId, State, TopicFilter},
    store::{
        ChangeJob, Changed, Deleted, JobChange, Patch, Patched, Requeued, Result,
        embedded::{
            disk::disk_space::SpaceNeed,
            rows::{
                codec::Record,
                db::{SqlResult, Table},
            },
        },
    },
};

/// See [`crate::store::Store::patch`]. A record that becomes longer needs disk space.
pub(crate) fn patch(
    txn: &mut WriteTxn<'_>,
    scope: &TopicFilter,
    id: &JobId,
    patch: &Patch,
    by: Option<&Actor>,
) -> SqlResult<Result<Patched>> {
    let Some(found) = txn.find(scope, id)? else { return Ok(Ok(Patched::Gone)) };
    match txn.memory.job_state(found.job_ref) {
        State::Delayed | State::Ready => {}
        state @ (State::Reserved | State::Dead) => return Ok(Ok(Patched::Refused(state))),
    }
    let FoundJob { hash, job_ref, content: Record { mut head, body } } = found;
    let retry_steps = head.spec.retry.steps().len();
    patch.apply_to(&mut head.spec);
    if patch.due.is_some() {
        head.remember(HistoryEvent::Rescheduled, by, txn.wall_now());
    }
    let grows = head.spec.retry.steps().len() > retry_steps
        || patch.body.as_ref().is_some_and(|new| new.as_bytes().len() > body.as_bytes().len());
    if let Some(full) = txn.space_refusal(if grows { SpaceNeed::Growth } else { SpaceNeed::Rewrite }) {
        return Ok(Err(full));
    }
    let mut record = Record { head, body: patch.body.clone().unwrap_or(body) };
    let job_ref = match patch.due {
        Some(due) => {
            txn.set_due(&mut record.head, due);
            txn.remove(hash, job_ref)?;
            txn.insert_waiting(hash, job_ref.outlet, &record)?
        }
        None => {
            txn.db.delete(Table::Live, job_ref.key)?;
            txn.db.insert(Table::Live, job_ref.key, &record)?;
            job_ref
        }
    };
    Ok(Ok(Patched::Done(Box::new(txn.to_job(job_ref, &record)))))
}

/// See [`crate::store::Store::delete`].
pub(crate) fn delete(txn: &mut WriteTxn<'_>, scope: &TopicFilter, ids: &[JobId]) -> SqlResult<Vec<Deleted>> {
    let mut delete_one = |id| {
        let Some(found) = txn.find_head(scope, id)? else { return Ok(Deleted::Gone) };
        txn.remove(found.hash, found.job_ref)?;
        Ok(Deleted::Done { topic: found.content.topic })
    };
    ids.iter().map(&mut delete_one).collect()
}

/// See [`crate::store::Store::requeue`]: as if it were a new job. The whole job is rewritten and stays, which needs disk space.
pub(crate) fn requeue(
    txn: &mut WriteTxn<'_>,
    scope: &TopicFilter,
    id: &JobId,
    due: Due,
    by: Option<&Actor>,
) -> SqlResult<Result<Requeued>> {
    let Some(found) = txn.find(scope, id)? else { return Ok(Ok(Requeued::Gone)) };
    match txn.memory.job_state(found.job_ref) {
        State::Dead => {}
        state @ (State::Delayed | State::Ready | State::Reserved) => return Ok(Ok(Requeued::NotDead(state))),
    }
    if let Some(full) = txn.space_refusal(SpaceNeed::Growth) {
        return Ok(Err(full));
    }
    let FoundJob { hash, job_ref, content: mut record } = found;
    record.head.remember(HistoryEvent::Requeued, by, txn.wall_now());
    record.head.attempts = 0;
    record.head.reason = None;
    record.head.dead_at = None;
    txn.set_due(&mut record.head, due);
    txn.remove(hash, job_ref)?;
    let job_ref = txn.insert_waiting(hash, job_ref.outlet, &record)?;
    Ok(Ok(Requeued::Done(Box::new(txn.to_job(job_ref, &record)))))
}

/// See [`crate::store::Store::change`]. Needs disk space as the changes by id do; the level is the same for all of them.
pub(crate) fn change(
    txn: &mut WriteTxn<'_>,
    jobs: &[ChangeJob],
    by: Option<&Actor>,
) -> SqlResult<Result<Vec<Changed>>> {
    let need = jobs.iter().filter_map(|job| match job.change {
        JobChange::Delete => None,
        JobChange::Reschedule(_) => Some(SpaceNeed::Rewrite),
        JobChange::Requeue(_) => Some(SpaceNeed::Growth),
    });
    for need in need {
        if let Some(full) = txn.space_refusal(need) {
            return Ok(Err(full));
        }
    }
    jobs.iter().map(|job| change_one(txn, job, by)).collect()
}

fn change_one(
    txn: &mut WriteTxn<'_>,
    ChangeJob { seen, change }: &ChangeJob,
    by: Option<&Actor>,
) -> SqlResult<Result<Changed>> {
    let Some(found) = txn.find_head(&TopicFilter::ALL, &seen.id)? else { return Ok(Ok(Changed::Skipped)) };
    let record = Record { head: found.content, body: Body::from_stored(Bytes::new()) };
    if !seen.is_still(&txn.to_job(found.job_ref, &record)) || !change.applies_to(seen.state) {
        return Ok(Ok(Changed::Skipped));
    }
    let is_done = match change {
        JobChange::Delete => {
            txn.remove(found.hash, found.job_ref)?;
            Ok(true)
        }
        JobChange::Reschedule(due) => {
            let due = Patch { due: Some(*due), ..Patch::default() };
            let patched = patch(txn, &TopicFilter::ALL, &seen.id, &due, by)?;
            patched.map(|patched| matches!(patched, Patched::Done(_)))
        }
        JobChange::Requeue(due) => {
            let requeued = requeue(txn, &TopicFilter::ALL, &seen.id, *due, by)?;
            requeued.map(|requeued| matches!(requeued, Requeued::Done(_)))
        }
    };
    Ok(is_done.map(|is_done| if is_done { Changed::Done } else { Changed::Skipped }))
}
