//! Adding, finishing, deleting and reading jobs: batches, shard by shard, all shards at once.

use std::collections::BTreeMap;

use bytes::{Buf, Bytes};
use futures_util::future::try_join_all;

use super::{
    Engine,
    call::Call,
    keys::Shard,
    record,
    reply::{Reply, unexpected},
    script::Op,
};
use crate::{
    job::{Job, JobId, State, Timestamp, Topic},
    store::{AddJob, Added, Deleted, Error, FinishJob, Finished, Result},
};

/// What scripts answer for one job, by number as in `lua/shard.lua` and `lua/finish.lua`.
pub(super) mod code {
    pub const OK: i64 = 1;
    pub const GONE: i64 = 2;
    pub const LOST: i64 = 3;
    pub const MOVED: i64 = 4;
    pub const REFUSED: i64 = 5;
    pub const NOT_RESERVED: i64 = 6;
    pub const RECEIPT_REQUIRED: i64 = 7;
}

/// How often a job may turn out to be in another topic than it was a moment ago.
pub(super) const MOVES_LIMIT: usize = 8;

/// The error for a job that is deleted and added to other topics faster than we can follow.
pub(super) fn keeps_moving() -> Error {
    Error::Unavailable("the job keeps changing its topic".to_owned())
}

/// Items of a batch with their places in it.
pub(super) type Placed<T> = Vec<(usize, T)>;

impl Engine {
    /// Items by the shard of their id.
    pub(super) fn by_shard<T>(
        &self,
        items: impl IntoIterator<Item = (usize, T)>,
        id: impl Fn(&T) -> &JobId,
    ) -> BTreeMap<Shard, Placed<T>> {
        let mut shards: BTreeMap<Shard, Placed<T>> = BTreeMap::new();
        for (at, item) in items {
            shards.entry(self.keys.shard_of(id(&item))).or_default().push((at, item));
        }
        shards
    }

    pub(super) async fn add_jobs(&self, jobs: Vec<AddJob>) -> Result<Vec<Added>> {
        let count = jobs.len();
        let shards = self.by_shard(jobs.into_iter().enumerate(), |job| &job.id);
        let answers = try_join_all(shards.into_iter().map(|(shard, jobs)| self.add_to(shard, jobs))).await?;
        Ok(in_order(count, answers))
    }

    async fn add_to(&self, shard: Shard, jobs: Placed<AddJob>) -> Result<Placed<Added>> {
        let mut topics: Vec<&Topic> = jobs.iter().map(|(_, job)| &job.topic).collect();
        topics.sort_unstable();
        topics.dedup();
        let mut call = self.change(Op::Add, shard, None, &topics);
        for (_, job) in &jobs {
            call = call.arg(job.id.as_str()).bytes(record::incoming(job, rand::random()));
        }
        let mut reply = Reply::new(self.acked(call).await?)?;
        self.set_aside(shard, reply.count()?);
        let mut added = Vec::with_capacity(jobs.len());
        for (at, job) in jobs {
            added.push((at, added_as(job, &reply.bytes()?)?));
        }
        self.tell_added(shard, &added);
        Ok(added)
    }

    /// Tells the listener what the new jobs make possible, each topic once.
    fn tell_added(&self, shard: Shard, added: &Placed<Added>) {
        let mut ready: Vec<&Topic> = Vec::new();
        let mut soonest = None;
        for (_, added) in added {
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

    pub(super) async fn finish_jobs(&self, jobs: Vec<FinishJob>) -> Result<Vec<Finished>> {
        let count = jobs.len();
        let shards = self.by_shard(jobs.into_iter().enumerate(), |job| &job.id);
        let answers =
            try_join_all(shards.into_iter().map(|(shard, jobs)| self.finish_in(shard, jobs))).await?;
        Ok(in_order(count, answers))
    }

    async fn finish_in(&self, shard: Shard, jobs: Placed<FinishJob>) -> Result<Placed<Finished>> {
        let lane = self.lanes.take(shard);
        let mut call = self.change(Op::Finish, shard, Some(&lane), &[]);
        for (_, job) in &jobs {
            let receipt = job.receipt.as_ref().map(|receipt| Bytes::copy_from_slice(receipt.as_bytes()));
            call = call.arg(job.id.as_str()).maybe(receipt);
        }
        let mut reply = Reply::new(self.acked(call).await?)?;
        let mut finished = Vec::with_capacity(jobs.len());
        for (at, _) in jobs {
            let (code, topic) = (reply.int()?, reply.name_or_none()?);
            finished.push((
                at,
                match code {
                    code::OK => Finished::Done { topic: topic.ok_or_else(|| unexpected("a topic"))? },
                    code::GONE => Finished::Gone,
                    code::LOST => Finished::Lost,
                    code::NOT_RESERVED => Finished::NotReserved,
                    code::RECEIPT_REQUIRED => Finished::ReceiptRequired,
                    _ => return Err(unexpected("a known outcome")),
                },
            ));
        }
        Ok(finished)
    }

    pub(super) async fn delete_jobs(&self, ids: Vec<JobId>) -> Result<Vec<Deleted>> {
        let count = ids.len();
        let shards = self.by_shard(ids.into_iter().enumerate(), |id| id);
        let answers = shards.into_iter().map(|(shard, ids)| self.delete_in(shard, ids, None));
        Ok(in_order(count, try_join_all(answers).await?))
    }

    /// Deletes jobs of one shard; with `dead_in`, only while they are dead letters of that topic. The
    /// topic of a ready or dead job is needed for its keys, and is learnt at the first try.
    pub(super) async fn delete_in(
        &self,
        shard: Shard,
        ids: Placed<JobId>,
        dead_in: Option<&Topic>,
    ) -> Result<Placed<Deleted>> {
        let mut topics: Vec<Topic> = dead_in.into_iter().cloned().collect();
        let (mut deleted, mut left) = (Vec::with_capacity(ids.len()), ids);
        for _ in 0..MOVES_LIMIT {
            let lane = self.lanes.take(shard);
            let known: Vec<&Topic> = topics.iter().collect();
            let mut call = self.change(Op::Delete, shard, Some(&lane), &known).maybe(dead_in.map(|_| "dead"));
            for (_, id) in &left {
                call = call.arg(id.as_str());
            }
            let mut reply = Reply::new(self.acked(call).await?)?;
            let crowded = reply.int()? == 1;
            if crowded {
                known.into_iter().for_each(|topic| self.compaction.ask(shard, topic));
            }
            let mut moved = Vec::new();
            for (at, id) in left {
                let (code, topic) = (reply.int()?, reply.name_or_none::<Topic>()?);
                match (code, topic) {
                    (code::OK, Some(topic)) => deleted.push((at, Deleted::Done { topic })),
                    (code::GONE, None) => deleted.push((at, Deleted::Gone)),
                    // A dead letter that was added again elsewhere is not of the topic asked for.
                    (code::MOVED, Some(_)) if dead_in.is_some() => deleted.push((at, Deleted::Gone)),
                    (code::MOVED, Some(topic)) => {
                        moved.push((at, id));
                        topics.push(topic);
                    }
                    _ => return Err(unexpected("a known outcome")),
                }
            }
            if moved.is_empty() {
                return Ok(deleted);
            }
            left = moved;
            topics.sort_unstable();
            topics.dedup();
        }
        Err(keeps_moving())
    }

    pub(super) async fn get_job(&self, id: &JobId) -> Result<Option<Job>> {
        let shard = self.keys.shard_of(id);
        let jobs = self.read_jobs(shard, std::slice::from_ref(id)).await?;
        match jobs.into_iter().next().flatten() {
            None => Ok(None),
            Some(raw) => self.job(id, &raw).map(Some),
        }
    }

    /// The records of jobs of one shard.
    pub(super) async fn read_jobs(&self, shard: Shard, ids: &[JobId]) -> Result<Vec<Option<Bytes>>> {
        let keys = self.keys.shard(shard);
        let mut call = Call::new(Op::Read, keys.slot, vec![keys.pool.clone()], Vec::with_capacity(ids.len()));
        for id in ids {
            call = call.arg(id.as_str());
        }
        let mut reply = Reply::new(self.call(call).await?)?;
        ids.iter().map(|_| reply.value().map(|value| value.into_bytes())).collect()
    }

    /// The job in a record that a script has just read.
    pub(super) fn job(&self, id: &JobId, raw: &Bytes) -> Result<Job> {
        record::read(id, raw).ok_or_else(|| Error::Damaged(format!("the record of job {id} cannot be read")))
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

/// The outcomes of a batch, each in its place.
fn in_order<T>(count: usize, answers: Vec<Placed<T>>) -> Vec<T> {
    let mut all: Placed<T> = Vec::with_capacity(count);
    all.extend(answers.into_iter().flatten());
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}
