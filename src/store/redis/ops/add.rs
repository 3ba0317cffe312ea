//! Adding jobs.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use futures_util::future::try_join_all;

use super::get::{in_order, placed};
use crate::store::redis::{
    Engine,
    codec::record,
    coordination::batch::{Gather, Work},
    keys::Shard,
    reply::{Reply, unexpected},
    scripts::Op,
};
use crate::{
    job::{Job, State, Timestamp, Topic},
    store::{AddJob, Added, Result},
};

/// The kind of call that adds jobs.
pub struct Adding;

impl Work for Adding {
    type Item = AddJob;
    type Answer = Added;

    fn gather(engine: &Engine) -> &Gather<Self> {
        &engine.adding
    }

    fn weight(job: &AddJob) -> usize {
        job.body.as_bytes().len()
    }

    async fn call(engine: &Engine, shard: Shard, jobs: Vec<AddJob>, since_us: i64) -> Result<Vec<Added>> {
        let mut topics: Vec<&Topic> = jobs.iter().map(|job| &job.topic).collect();
        topics.sort_unstable();
        topics.dedup();
        let lane = engine.lanes.take(shard);
        let mut call = engine.change(Op::Add, shard, Some(&lane), &topics);
        for job in &jobs {
            call = call.arg(job.id.as_str()).bytes(record::incoming(job, rand::random()));
        }
        let mut reply = Reply::new(engine.acked(call.since(since_us)).await?)?;
        engine.set_aside(shard, reply.count()?);
        let added = jobs.into_iter().map(|job| added_as(job, &reply.bytes()?)).collect::<Result<Vec<_>>>()?;
        engine.tell_added(shard, &added);
        Ok(added)
    }
}

impl Engine {
    pub async fn add_jobs(self: &Arc<Self>, jobs: Vec<AddJob>) -> Result<Vec<Added>> {
        let count = jobs.len();
        let shards = self.by_shard(jobs.into_iter().enumerate(), |job| &job.id);
        let adds = shards.into_iter().map(|(shard, jobs)| async move {
            let (places, jobs) = jobs.into_iter().unzip();
            Ok(placed(places, self.gathered::<Adding>(shard, jobs).await?))
        });
        Ok(in_order(count, try_join_all(adds).await?))
    }

    /// Tells the listener what the new jobs make possible, each topic once.
    fn tell_added(&self, shard: Shard, added: &[Added]) {
        let mut ready: Vec<&Topic> = Vec::new();
        let mut soonest = None;
        for added in added {
            let Added::Created(job) = added else { continue };
            match job.state {
                State::Ready if !ready.contains(&&job.topic) => ready.push(&job.topic),
                State::Delayed => {
                    let wait = job.due_at.since(job.created_at);
                    soonest = Some(soonest.map_or(wait, |other| wait.min(other)));
                }
                State::Ready | State::Reserved | State::Dead => {}
            }
        }
        ready.into_iter().for_each(|topic| self.tell_ready(topic, shard));
        if let Some(wait) = soonest {
            self.listener.due_in(wait);
        }
    }
}

/// The outcome of one add, from its answer.
fn added_as(job: AddJob, reply: &Bytes) -> Result<Added> {
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
            Ok(Added::Created(created(job, created_at, due_at)))
        }
        Some(b'R') => {
            let job = record::read(&job.id, &rest).ok_or_else(|| unexpected("a record"))?;
            Ok(Added::Replayed(job))
        }
        Some(b'E') if !rest.is_empty() => {
            let state = record::state(rest.get_u8()).ok_or_else(|| unexpected("a state"))?;
            Ok(Added::Exists { state, due_at: moment(&mut rest)? })
        }
        _ => Err(unexpected("the outcome of an add")),
    }
}

/// The job as it was stored.
fn created(job: AddJob, created_at: Timestamp, due_at: Timestamp) -> Job {
    Job {
        id: job.id,
        topic: job.topic,
        state: if due_at <= created_at { State::Ready } else { State::Delayed },
        created_at,
        due_at,
        ttr: job.ttr,
        attempts: 0,
        max_attempts: job.max_attempts,
        retry: job.retry,
        require_receipt: job.require_receipt,
        reserved_until: None,
        dead_at: None,
        reason: None,
        body: job.body,
    }
}
