//! Adding jobs.

use super::super::{
    db::Sql,
    record::{Head, Record},
    work::Work,
};
use crate::{
    job::{State, TopicFilter},
    store::{AddJob, Added, Error, Result},
};

/// See [`crate::store::Store::add`].
pub(in super::super) fn add(work: &mut Work<'_>, jobs: Vec<AddJob>) -> Sql<Result<Vec<Added>>> {
    if work.is_short_of_space() {
        return Ok(Err(Error::Full(
            "less disk space is free than has to stay free for finishing and deleting".to_owned(),
        )));
    }
    jobs.into_iter().map(|job| add_one(work, job)).collect::<Sql<_>>().map(Ok)
}

fn add_one(work: &mut Work<'_>, job: AddJob) -> Sql<Added> {
    if let Some(found) = work.find(&TopicFilter::ALL, &job.id)? {
        let head = &found.content.head;
        return Ok(if head.fingerprint == job.fingerprint {
            Added::Replayed(work.to_job(found.at, &found.content))
        } else {
            Added::Exists { state: work.state.job_state(found.at), due_at: head.due_at }
        });
    }
    let head = Head {
        id: job.id,
        topic: job.topic,
        due_at: job.due.resolve(work.now),
        created_at: work.now.down,
        ttr: job.ttr,
        attempts: 0,
        max_attempts: job.max_attempts,
        retry: job.retry,
        require_receipt: job.require_receipt,
        fingerprint: job.fingerprint,
        reason: None,
        dead_at: None,
    };
    let record = Record { head, body: job.body };
    let hash = work.state.ids().hash(record.head.id.as_str().as_bytes());
    let topic = work.state.topic(&record.head.topic);
    work.put_waiting(hash, topic, &record)?;
    let state = if record.head.due_at <= work.now.down { State::Ready } else { State::Delayed };
    Ok(Added::Created(record.to_job(state, None)))
}
