//! Changes by id that need no reservation: patch, delete, requeue.

use super::write_txn::{Found, Work};
use crate::{
    job::{Delay, JobId, State, TopicFilter},
    store::{
        Deleted, Patch, Patched, Requeued, Result,
        embedded::{
            disk::disk_space::Need,
            rows::{
                codec::Record,
                records::{Sql, Table},
            },
        },
    },
};

/// See [`crate::store::Store::patch`]. A record that becomes longer needs room.
pub(in crate::store::embedded) fn patch(
    work: &mut Work<'_>,
    scope: &TopicFilter,
    id: &JobId,
    patch: &Patch,
) -> Sql<Result<Patched>> {
    let Some(found) = work.find(scope, id)? else { return Ok(Ok(Patched::Gone)) };
    match work.state.job_state(found.at) {
        State::Delayed | State::Ready => {}
        state @ (State::Reserved | State::Dead) => return Ok(Ok(Patched::Refused(state))),
    }
    let Found { hash, at, content: Record { mut head, body } } = found;
    let retry_steps = head.retry.steps().len();
    head.ttr = patch.ttr.unwrap_or(head.ttr);
    head.max_attempts = patch.max_attempts.unwrap_or(head.max_attempts);
    head.retry = patch.retry.clone().unwrap_or(head.retry);
    let grows = head.retry.steps().len() > retry_steps
        || patch.body.as_ref().is_some_and(|new| new.as_bytes().len() > body.as_bytes().len());
    if let Some(full) = work.no_room_for(if grows { Need::Growth } else { Need::Rewrite }) {
        return Ok(Err(full));
    }
    let mut record = Record { head, body: patch.body.clone().unwrap_or(body) };
    let at = match patch.due {
        Some(due) => {
            record.head.due_at = due.resolve(work.now);
            work.take_out(hash, at)?;
            work.put_waiting(hash, at.topic, &record)?
        }
        None => {
            work.db.delete(Table::Live, at.key)?;
            work.db.insert(Table::Live, at.key, &record)?;
            at
        }
    };
    Ok(Ok(Patched::Done(work.to_job(at, &record))))
}

/// See [`crate::store::Store::delete`].
pub(in crate::store::embedded) fn delete(
    work: &mut Work<'_>,
    scope: &TopicFilter,
    ids: &[JobId],
) -> Sql<Vec<Deleted>> {
    let mut delete_one = |id| {
        let Some(found) = work.find_head(scope, id)? else { return Ok(Deleted::Gone) };
        work.take_out(found.hash, found.at)?;
        Ok(Deleted::Done { topic: found.content.topic })
    };
    ids.iter().map(&mut delete_one).collect()
}

/// See [`crate::store::Store::requeue`]. The body is written anew, and the job is to stay: that needs room.
pub(in crate::store::embedded) fn requeue(
    work: &mut Work<'_>,
    scope: &TopicFilter,
    id: &JobId,
    delay: Delay,
) -> Sql<Result<Requeued>> {
    let Some(found) = work.find(scope, id)? else { return Ok(Ok(Requeued::Gone)) };
    match work.state.job_state(found.at) {
        State::Dead => {}
        state @ (State::Delayed | State::Ready | State::Reserved) => return Ok(Ok(Requeued::NotDead(state))),
    }
    if let Some(full) = work.no_room_for(Need::Growth) {
        return Ok(Err(full));
    }
    requeue_found(work, found, delay).map(Requeued::Done).map(Ok)
}

/// Makes a dead job wait again, as if it were new.
pub(crate) fn requeue_found(work: &mut Work<'_>, found: Found<Record>, delay: Delay) -> Sql<crate::job::Job> {
    let Found { hash, at, content: mut record } = found;
    record.head.attempts = 0;
    record.head.reason = None;
    record.head.dead_at = None;
    record.head.due_at = work.now.after(delay.as_duration());
    work.take_out(hash, at)?;
    let at = work.put_waiting(hash, at.topic, &record)?;
    Ok(work.to_job(at, &record))
}
