//! Adding jobs.

use super::{
    not_done::{Attempted, NotDone, attempt_each},
    remember::find_remembered,
    write_txn::{FoundJob, WriteTxn},
};
use crate::{
    job::{Attributes, Due, DueKind, History, HistoryEvent, Timestamp, TopicFilter},
    store::{
        AddJob, Added, IfExists, Outcome, Refusal, Result,
        embedded::{
            disk::disk_space::SpaceNeed,
            memory::job_state::MemoryState,
            rows::{
                codec::{Lease, Record, RecordHead},
                db::SqlResult,
            },
        },
    },
};

/// See [`crate::store::Store::add`]. Without disk space, a repeated add is still recognised.
pub(crate) fn add(txn: &mut WriteTxn<'_>, jobs: &[AddJob]) -> SqlResult<Result<Vec<Outcome<Added>>>> {
    // A failure of one applies to every new job, so either all or none of them are added.
    attempt_each(jobs, |job| add_one(txn, job, false))
}

/// Adds a job. With `keeps_moment`, for the run of a schedule, its due time is the moment that is asked for although it has passed,
/// and its id is not looked up among those that are remembered.
pub(super) fn add_one(txn: &mut WriteTxn<'_>, job: &AddJob, keeps_moment: bool) -> Attempted<Added> {
    let found = txn.find(&TopicFilter::ALL, &job.id)?;
    let older = match found {
        Some(found) if replaces(job, &found.content.head)? => Some(found),
        Some(found) => return answer_existing(txn, job, &found),
        None => None,
    };
    if older.is_none()
        && !keeps_moment
        && let Some(ended) = find_remembered(txn, job)?
    {
        return ended.map_err(NotDone::Refused);
    }
    if job.is_paused {
        return Err(Refusal::IntakePaused.into());
    }
    txn.check_space(SpaceNeed::Growth)?;
    let mut head = RecordHead {
        id: job.id.clone(),
        topic: job.topic.clone(),
        // Set below.
        due_at: Timestamp::from_millis(0),
        created_at: txn.wall_now().rounded_down,
        expires_at: None,
        spec: job.spec.clone(),
        attempts: 0,
        fingerprint: job.fingerprint,
        reason: None,
        dead_at: None,
        history: older.as_ref().map_or_else(History::default, |older| older.content.head.history.clone()),
        host: None,
        other: Attributes::default(),
    };
    job.spec.encode_extensible(&mut head.other);
    head.set_callback_host(&txn.db.store_head().store.0);
    match job.due {
        Due::At(moment) if keeps_moment => head.set_due(moment, DueKind::Moment),
        due => txn.set_due(&mut head, due),
    }
    head.count_expiry();
    if txn.expires_first(&head) {
        return Err(Refusal::ExpiresFirst.into());
    }
    if let (Some(_), IfExists::Replace { by }) = (&older, &job.if_exists) {
        head.remember(HistoryEvent::Replaced, by.as_ref(), txn.wall_now());
    }
    let record = Record { head, body: job.body.clone() };
    let hash = txn.memory.job_index().hash(record.head.id.as_str().as_bytes());
    let outlet = txn.memory.outlet(&record.head.outlet());
    let Some(older) = older else {
        if job.spec.dedup.is_some() {
            txn.db.forget(&job.id)?;
        }
        let job_ref = txn.insert_waiting(hash, outlet, &record)?;
        return Ok(Added::Created(txn.to_job(job_ref, &record)));
    };
    let job_ref = match txn.remove(hash, older.job_ref)? {
        MemoryState::Reserved(lease) => {
            txn.insert_reserved(hash, outlet, &record, Lease { attempts: 0, ..lease })?
        }
        MemoryState::Delayed | MemoryState::Ready { .. } | MemoryState::Dead => {
            txn.insert_waiting(hash, outlet, &record)?
        }
    };
    Ok(Added::Replaced(txn.to_job(job_ref, &record)))
}

/// Whether the add puts its job in the place of the stored one.
fn replaces(job: &AddJob, stored: &RecordHead) -> std::result::Result<bool, Refusal> {
    if job.if_exists == IfExists::Keep || stored.topic != job.topic {
        return Ok(false);
    }
    match (job.spec.revision, stored.spec.revision) {
        (Some(new), Some(stored)) if new < stored => Err(Refusal::OlderRevision { stored }),
        (Some(new), Some(stored)) => Ok(new > stored),
        (Some(_) | None, _) => Ok(true),
    }
}

/// The outcome for a job that stays as it is.
fn answer_existing(txn: &WriteTxn<'_>, job: &AddJob, found: &FoundJob<Record>) -> Attempted<Added> {
    let stored = txn.to_job(found.job_ref, &found.content);
    let is_same_revision = job.if_exists != IfExists::Keep && stored.topic == job.topic;
    if is_same_revision || found.content.head.fingerprint == job.fingerprint {
        return Ok(Added::Replayed(stored));
    }
    let (state, due_at) = (stored.state(), stored.due_at);
    Err(Refusal::Exists { topic: stored.topic, state, due_at }.into())
}
