//! Adding jobs.

use super::{
    not_done::{Attempted, into_outcome},
    write_txn::WriteTxn,
};
use crate::{
    job::{Attributes, Due, DueKind, History, Timestamp, TopicFilter},
    store::{
        AddJob, Added, Outcome, Refusal, Result,
        embedded::{
            disk::disk_space::SpaceNeed,
            rows::{
                codec::{Record, RecordHead},
                db::SqlResult,
            },
        },
    },
};

/// See [`crate::store::Store::add`]. Without disk space, a repeated add is still recognised.
pub(crate) fn add(txn: &mut WriteTxn<'_>, jobs: &[AddJob]) -> SqlResult<Result<Vec<Outcome<Added>>>> {
    // A refusal applies to every new job, so either all or none of them are added.
    let added: SqlResult<Vec<Result<_>>> =
        jobs.iter().map(|job| into_outcome(add_one(txn, job, false))).collect();
    added.map(|added| added.into_iter().collect())
}

/// Adds a job. With `keeps_moment` its due time is the moment that is asked for although it has passed.
pub(super) fn add_one(txn: &mut WriteTxn<'_>, job: &AddJob, keeps_moment: bool) -> Attempted<Added> {
    if let Some(found) = txn.find(&TopicFilter::ALL, &job.id)? {
        let stored = txn.to_job(found.job_ref, &found.content);
        return if found.content.head.fingerprint == job.fingerprint {
            Ok(Added::Replayed(stored))
        } else {
            let (state, due_at) = (stored.state(), stored.due_at);
            Err(Refusal::Exists { topic: stored.topic, state, due_at }.into())
        };
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
        history: History::default(),
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
    let record = Record { head, body: job.body.clone() };
    let hash = txn.memory.job_index().hash(record.head.id.as_str().as_bytes());
    let outlet = txn.memory.outlet(&record.head.outlet());
    let job_ref = txn.insert_waiting(hash, outlet, &record)?;
    Ok(Added::Created(txn.to_job(job_ref, &record)))
}
