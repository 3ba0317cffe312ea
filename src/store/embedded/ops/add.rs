//! Adding jobs.

use super::write_txn::WriteTxn;
use crate::{
    job::{Attributes, History, Timestamp, TopicFilter},
    store::{
        AddJob, Added, Result,
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
pub(crate) fn add(txn: &mut WriteTxn<'_>, jobs: &[AddJob]) -> SqlResult<Result<Vec<Added>>> {
    // A refusal applies to every new job, so either all or none of them are added.
    let added: SqlResult<Vec<Result<Added>>> = jobs.iter().map(|job| add_one(txn, job)).collect();
    added.map(|added| added.into_iter().collect())
}

fn add_one(txn: &mut WriteTxn<'_>, job: &AddJob) -> SqlResult<Result<Added>> {
    if let Some(found) = txn.find(&TopicFilter::ALL, &job.id)? {
        let head = &found.content.head;
        return Ok(Ok(if head.fingerprint == job.fingerprint {
            Added::Replayed(txn.to_job(found.job_ref, &found.content))
        } else {
            let job = txn.to_job(found.job_ref, &found.content);
            Added::Exists { state: job.state(), topic: job.topic, due_at: job.due_at }
        }));
    }
    if job.is_paused {
        return Ok(Ok(Added::IntakePaused));
    }
    if let Some(full) = txn.space_refusal(SpaceNeed::Growth) {
        return Ok(Err(full));
    }
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
    txn.set_due(&mut head, job.due);
    head.count_expiry();
    if txn.expires_first(&head) {
        return Ok(Ok(Added::ExpiresFirst));
    }
    let record = Record { head, body: job.body.clone() };
    let hash = txn.memory.job_index().hash(record.head.id.as_str().as_bytes());
    let outlet = txn.memory.outlet(&record.head.outlet());
    let job_ref = txn.insert_waiting(hash, outlet, &record)?;
    Ok(Ok(Added::Created(txn.to_job(job_ref, &record))))
}
