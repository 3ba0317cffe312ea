//! Adding jobs.

use super::write_txn::Work;
use crate::{
    job::{State, TopicFilter},
    store::{
        AddJob, Added, Result,
        embedded::{
            disk::disk_space::Need,
            rows::{
                codec::{Head, Record},
                records::Sql,
            },
        },
    },
};

/// See [`crate::store::Store::add`]. Where there is no room, a repeated add is still recognised.
pub(in crate::store::embedded) fn add(work: &mut Work<'_>, jobs: &[AddJob]) -> Sql<Result<Vec<Added>>> {
    // A refusal concerns every new job, so that none of them is added.
    let added: Sql<Vec<Result<Added>>> = jobs.iter().map(|job| add_one(work, job)).collect();
    added.map(|added| added.into_iter().collect())
}

fn add_one(work: &mut Work<'_>, job: &AddJob) -> Sql<Result<Added>> {
    if let Some(found) = work.find(&TopicFilter::ALL, &job.id)? {
        let head = &found.content.head;
        return Ok(Ok(if head.fingerprint == job.fingerprint {
            Added::Replayed(work.to_job(found.at, &found.content))
        } else {
            Added::Exists { state: work.state.job_state(found.at), due_at: head.due_at }
        }));
    }
    if let Some(full) = work.no_room_for(Need::Growth) {
        return Ok(Err(full));
    }
    let head = Head {
        id: job.id.clone(),
        topic: job.topic.clone(),
        due_at: job.due.resolve(work.now),
        created_at: work.now.down,
        ttr: job.ttr,
        attempts: 0,
        max_attempts: job.max_attempts,
        retry: job.retry.clone(),
        require_receipt: job.require_receipt,
        fingerprint: job.fingerprint,
        reason: None,
        dead_at: None,
    };
    let record = Record { head, body: job.body.clone() };
    let hash = work.state.ids().hash(record.head.id.as_str().as_bytes());
    let topic = work.state.topic(&record.head.topic);
    work.put_waiting(hash, topic, &record)?;
    let state = if record.head.due_at <= work.now.down { State::Ready } else { State::Delayed };
    Ok(Ok(Added::Created(record.to_job(state, None))))
}
