//! What both calls that add jobs have in common: the outlets of the jobs, their outcomes, and whom to notify.

use bytes::{Buf, Bytes};

use crate::{
    job::{History, HostNumber, Job, JobState, Outlet, RememberedId, State, Timestamp, Topic},
    store::{
        AddJob, Added, Outcome, Refusal, Result,
        redis::{
            codec::record,
            coordination::{notifier::Notifier, shards::Shards},
            keys::Shard,
            reply::unexpected,
        },
    },
};

/// The host of a job's own callback.
pub(super) fn host_of(shards: &Shards, job: &AddJob) -> Option<HostNumber> {
    job.spec.callback.as_ref().map(|callback| shards.host_number(callback.url.origin()))
}

/// Notifies the listener of ready and due jobs, once for each outlet.
pub(super) fn announce_added<'a>(
    notifier: &Notifier,
    shard: Shard,
    added: impl Iterator<Item = (&'a Outcome<Added>, Option<HostNumber>)>,
) {
    let mut ready: Vec<(&Topic, Option<HostNumber>)> = Vec::new();
    let mut shortest_delay = None;
    for (added, host) in added {
        let Ok(Added::Created(job) | Added::Replaced(job)) = added else { continue };
        if job.state() == State::Ready && !ready.contains(&(&job.topic, host)) {
            ready.push((&job.topic, host));
        }
        let delay = job.next_deadline().map(|deadline| deadline.since(job.created_at));
        shortest_delay = shortest_delay.into_iter().chain(delay).min();
    }
    for (topic, host) in ready {
        notifier.ready_on(&Outlet { topic: topic.clone(), host }, shard);
    }
    if let Some(delay) = shortest_delay {
        notifier.due_in(delay);
    }
}

/// The outlets of some jobs, each once. A batch has many jobs of few outlets, so no name is copied for each job.
pub(super) fn distinct_outlets(jobs: &[AddJob], hosts: &[Option<HostNumber>]) -> Vec<Outlet> {
    let mut outlets: Vec<_> = jobs.iter().map(|job| &job.topic).zip(hosts).collect();
    outlets.sort_unstable();
    outlets.dedup();
    outlets.into_iter().map(|(topic, host)| Outlet { topic: topic.clone(), host: *host }).collect()
}

/// Decodes the outcome of one add.
pub(super) fn decode_outcome(job: AddJob, reply: &Bytes) -> Result<Outcome<Added>> {
    let mut rest = reply.slice(1.min(reply.len())..);
    let moment = |rest: &mut Bytes| -> Result<Timestamp> {
        if rest.len() < 6 {
            return Err(unexpected("a moment"));
        }
        Ok(Timestamp::from_millis(i64::try_from(rest.get_uint(6)).expect("48 bits fit an i64")))
    };
    match reply.first() {
        Some(b'C') => {
            let (created_at, due_at) = (moment(&mut rest)?, moment(&mut rest)?);
            Ok(Ok(Added::Created(created_job(job, created_at, due_at))))
        }
        Some(b'S') => {
            let job = record::decode(&job.id, &rest).ok_or_else(|| unexpected("a record"))?;
            Ok(Ok(Added::Replaced(job)))
        }
        Some(b'T') => {
            let (created_at, due_at) = (moment(&mut rest)?, moment(&mut rest)?);
            Ok(Ok(Added::Replaced(created_job(job, created_at, due_at))))
        }
        Some(b'V') => {
            let stored = rest.first_chunk().copied().ok_or_else(|| unexpected("a revision"))?;
            Ok(Err(Refusal::OlderRevision { stored: u64::from_be_bytes(stored) }))
        }
        Some(b'R') => {
            let job = record::decode(&job.id, &rest).ok_or_else(|| unexpected("a record"))?;
            Ok(Ok(Added::Replayed(job)))
        }
        Some(b'E') if !rest.is_empty() => {
            let state = record::decode_state(rest.get_u8()).ok_or_else(|| unexpected("a state"))?;
            let due_at = moment(&mut rest)?;
            let topic = std::str::from_utf8(&rest).ok().and_then(|name| Topic::parse(name).ok());
            Ok(Err(Refusal::Exists { topic: topic.ok_or_else(|| unexpected("a topic"))?, state, due_at }))
        }
        Some(kind @ (b'F' | b'D')) => {
            let remembered =
                RememberedId::decode(job.id, &rest).ok_or_else(|| unexpected("a remembered id"))?;
            Ok(if *kind == b'F' {
                Ok(Added::FinishedBefore(remembered))
            } else {
                Err(Refusal::EndedBefore(remembered))
            })
        }
        Some(b'X') => Ok(Err(Refusal::ExpiresFirst)),
        Some(b'P') => Ok(Err(Refusal::IntakePaused)),
        _ => Err(unexpected("the outcome of an add")),
    }
}

/// The job as it was stored.
fn created_job(job: AddJob, created_at: Timestamp, due_at: Timestamp) -> Job {
    let expires_at = job.spec.expiry.map(|expiry| expiry.resolve(due_at, job.due.kind()).moment);
    Job {
        id: job.id,
        topic: job.topic,
        state: if due_at <= created_at { JobState::Ready } else { JobState::Delayed },
        created_at,
        due_at,
        expires_at,
        spec: job.spec,
        attempts: 0,
        reason: None,
        note: None,
        history: History::default(),
        body: job.body,
    }
}
