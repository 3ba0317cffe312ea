//! Schedules, and the step in which one runs.

use std::time::Duration;

use super::{
    add::add_one,
    not_done::{Attempted, NotDone},
    write_txn::WriteTxn,
};
use crate::{
    job::{Due, JobId, ScheduleName, State, TopicFilter},
    store::{
        PreviousRun, Refusal, Result, ScheduleChange, ScheduleChanged, ScheduleOutcome, SchedulePage,
        ScheduleRefusal, ScheduleRun, StoredSchedule,
        embedded::{
            disk::disk_space::SpaceNeed,
            rows::{db::SqlResult, schedules::ReadSchedule},
        },
    },
};

/// See [`crate::store::ScheduleStore::schedule`].
pub(crate) fn schedule(txn: &mut WriteTxn<'_>, name: &ScheduleName) -> SqlResult<SchedulePage> {
    let stored = txn.db.schedule(name)?;
    Ok(page(txn, stored.into_iter().collect()))
}

/// See [`crate::store::ScheduleStore::schedules`].
pub(crate) fn schedules(
    txn: &mut WriteTxn<'_>,
    after: Option<&ScheduleName>,
    limit: usize,
) -> SqlResult<SchedulePage> {
    let stored = txn.db.schedules(after, limit)?;
    let is_last = stored.len() < limit;
    Ok(SchedulePage { is_last, ..page(txn, stored) })
}

/// See [`crate::store::ScheduleStore::due_schedules`].
pub(crate) fn due_schedules(
    txn: &mut WriteTxn<'_>,
    within: Duration,
    limit: usize,
) -> SqlResult<SchedulePage> {
    let now = txn.wall_now().rounded_down;
    let due = txn.db.due_schedules(now.after(within), limit)?;
    let next = txn.db.next_schedule_after(now.after(within))?;
    Ok(SchedulePage { next_in: next.map(|next| next.since(now)), ..page(txn, due) })
}

/// The schedules that can be read. `linger verify` names the others.
fn page(txn: &WriteTxn<'_>, stored: Vec<ReadSchedule>) -> SchedulePage {
    let schedules = stored.into_iter().filter_map(ReadSchedule::ok).collect();
    SchedulePage { schedules, now: txn.wall_now().rounded_down, is_last: true, next_in: None }
}

/// See [`crate::store::ScheduleStore::change_schedules`].
pub(crate) fn change_schedules(
    txn: &mut WriteTxn<'_>,
    changes: &[ScheduleChange],
) -> SqlResult<Result<Vec<ScheduleOutcome>>> {
    let needs_room = |change: &ScheduleChange| change.run.is_some() || change.expected.is_none();
    if changes.iter().any(needs_room)
        && let Err(full) = txn.check_space(SpaceNeed::Growth)
    {
        return Ok(Err(full));
    }
    changes.iter().map(|change| into_outcome(change_one(txn, change))).collect()
}

fn change_one(txn: &mut WriteTxn<'_>, change: &ScheduleChange) -> Attempted<ScheduleOutcome> {
    let ScheduleChange { name, expected, content, run } = change;
    let stored = txn.db.schedule(name)?.and_then(ReadSchedule::ok);
    if stored.map(|StoredSchedule { content, .. }| content) != *expected {
        return Ok(Err(ScheduleRefusal::Differs));
    }
    let Some(ScheduleRun { job, previous }) = run else {
        txn.db.put_schedule(name, content.as_ref())?;
        return Ok(Ok(ScheduleChanged::Done { gave_way: false }));
    };
    if matches!(job.due, Due::At(moment) if moment > txn.wall_now().rounded_down) {
        return Ok(Err(ScheduleRefusal::Early));
    }
    if let Some(PreviousRun::Skips(id, instead)) = previous
        && state_of(txn, id)?.is_some_and(|state| state != State::Dead)
    {
        txn.db.put_schedule(name, Some(instead))?;
        return Ok(Ok(ScheduleChanged::Skipped));
    }
    match add_one(txn, job, true) {
        // A job that is there already was added by an earlier run of the same moment.
        Ok(_) | Err(NotDone::Refused(Refusal::Exists { .. })) => {}
        Err(not_done) => return Err(not_done),
    }
    let gave_way = match previous {
        Some(PreviousRun::GivesWay(id)) if *id != job.id => remove_waiting(txn, id)?,
        _ => false,
    };
    txn.db.put_schedule(name, content.as_ref())?;
    Ok(Ok(ScheduleChanged::Done { gave_way }))
}

/// The state of a job of any topic.
fn state_of(txn: &mut WriteTxn<'_>, id: &JobId) -> SqlResult<Option<State>> {
    let found = txn.find_head(&TopicFilter::ALL, id)?;
    Ok(found.map(|found| txn.memory.job_state(found.job_ref)))
}

/// Deletes a job if it waits. Returns whether it did.
fn remove_waiting(txn: &mut WriteTxn<'_>, id: &JobId) -> SqlResult<bool> {
    let Some(found) = txn.find_head(&TopicFilter::ALL, id)? else { return Ok(false) };
    let waits = matches!(txn.memory.job_state(found.job_ref), State::Delayed | State::Ready);
    if waits {
        txn.remove(found.hash, found.job_ref)?;
    }
    Ok(waits)
}

/// The result as the writer takes it.
fn into_outcome(attempted: Attempted<ScheduleOutcome>) -> SqlResult<Result<ScheduleOutcome>> {
    match attempted {
        Ok(outcome) => Ok(Ok(outcome)),
        Err(NotDone::Refused(refusal)) => Ok(Ok(Err(ScheduleRefusal::Job(refusal)))),
        Err(NotDone::Failed(error)) => Ok(Err(error)),
        Err(NotDone::Database(error)) => Err(error),
    }
}
