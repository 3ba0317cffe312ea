//! Changes by id that need no reservation: patch, delete, requeue.

use super::super::{
    db::{Sql, Table},
    record::Record,
    work::{Found, Work},
};
use crate::{
    job::{Delay, JobId, State, TopicFilter},
    store::{Deleted, Patch, Patched, Requeued},
};

/// See [`crate::store::Store::patch`].
pub(in super::super) fn patch(
    work: &mut Work<'_>,
    scope: &TopicFilter,
    id: &JobId,
    patch: Patch,
) -> Sql<Patched> {
    let Some(found) = work.find(scope, id)? else { return Ok(Patched::Gone) };
    match work.state.job_state(found.at) {
        State::Delayed | State::Ready => {}
        state @ (State::Reserved | State::Dead) => return Ok(Patched::Refused(state)),
    }
    let Found { hash, at, content: Record { mut head, body } } = found;
    head.ttr = patch.ttr.unwrap_or(head.ttr);
    head.max_attempts = patch.max_attempts.unwrap_or(head.max_attempts);
    head.retry = patch.retry.unwrap_or(head.retry);
    let mut record = Record { head, body: patch.body.unwrap_or(body) };
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
    Ok(Patched::Done(work.to_job(at, &record)))
}

/// See [`crate::store::Store::delete`].
pub(in super::super) fn delete(work: &mut Work<'_>, scope: &TopicFilter, ids: &[JobId]) -> Sql<Vec<Deleted>> {
    let mut delete_one = |id| {
        let Some(found) = work.find_head(scope, id)? else { return Ok(Deleted::Gone) };
        work.take_out(found.hash, found.at)?;
        Ok(Deleted::Done { topic: found.content.topic })
    };
    ids.iter().map(&mut delete_one).collect()
}

/// See [`crate::store::Store::requeue`].
pub(in super::super) fn requeue(
    work: &mut Work<'_>,
    scope: &TopicFilter,
    id: &JobId,
    delay: Delay,
) -> Sql<Requeued> {
    let Some(found) = work.find(scope, id)? else { return Ok(Requeued::Gone) };
    match work.state.job_state(found.at) {
        State::Dead => {}
        state @ (State::Delayed | State::Ready | State::Reserved) => return Ok(Requeued::NotDead(state)),
    }
    requeue_found(work, found, delay).map(Requeued::Done)
}

/// Makes a dead job wait again, as if it were new.
pub(super) fn requeue_found(work: &mut Work<'_>, found: Found<Record>, delay: Delay) -> Sql<crate::job::Job> {
    let Found { hash, at, content: mut record } = found;
    record.head.attempts = 0;
    record.head.reason = None;
    record.head.dead_at = None;
    record.head.due_at = work.now.after(delay.as_duration());
    work.take_out(hash, at)?;
    let at = work.put_waiting(hash, at.topic, &record)?;
    Ok(work.to_job(at, &record))
}
