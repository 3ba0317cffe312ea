//! Finishing and deleting jobs: they are gone.

use std::sync::Arc;

use bytes::Bytes;
use fred::bytes_utils::Str;
use futures_util::future::try_join_all;

use super::get::{MOVES_LIMIT, Placed, code, in_order, keeps_moving, placed, scope_arg};
use crate::store::redis::{
    Engine,
    coordination::batch::{Gather, Work},
    keys::Shard,
    reply::{Reply, unexpected},
    scripts::Op,
};
use crate::{
    clock::Clock,
    job::{JobId, Topic, TopicFilter},
    store::{Deleted, FinishJob, Finished, Result},
};

/// The kind of call that finishes jobs.
pub struct Finishing;

/// A job to finish, with the topics of the caller who names it: callers who share a call differ in them.
pub struct ScopedFinish {
    scope: Str,
    job: FinishJob,
}

impl Work for Finishing {
    type Item = ScopedFinish;
    type Answer = Finished;

    fn gather(engine: &Engine) -> &Gather<Self> {
        &engine.finishing
    }

    fn weight(item: &ScopedFinish) -> usize {
        JobId::MAX_LEN + item.scope.len()
    }

    async fn call(
        engine: &Engine,
        shard: Shard,
        items: Vec<ScopedFinish>,
        since_us: i64,
    ) -> Result<Vec<Finished>> {
        let lane = engine.lanes.take(shard);
        // Hardly any call has limited callers: the others are spared an argument for each job.
        let limited = items.iter().any(|item| !item.scope.is_empty());
        let mut call = engine.change(Op::Finish, shard, Some(&lane), &[]).maybe(limited.then_some("1"));
        for ScopedFinish { scope, job } in &items {
            let receipt = job.receipt.as_ref().map(|receipt| Bytes::copy_from_slice(receipt.as_bytes()));
            call = call.arg(job.id.as_str()).maybe(receipt);
            if limited {
                call = call.arg(scope.clone());
            }
        }
        let mut reply = Reply::new(engine.acked(call.since(since_us)).await?)?;
        items.iter().map(|_| finished_as(reply.int()?, reply.name_or_none()?)).collect()
    }
}

/// The outcome of one finish, from its answer.
fn finished_as(code: i64, topic: Option<Topic>) -> Result<Finished> {
    match (code, topic) {
        (code::OK, Some(topic)) => Ok(Finished::Done { topic }),
        (code::GONE, None) => Ok(Finished::Gone),
        (code::LOST, None) => Ok(Finished::Lost),
        (code::NOT_RESERVED, None) => Ok(Finished::NotReserved),
        (code::RECEIPT_REQUIRED, None) => Ok(Finished::ReceiptRequired),
        _ => Err(unexpected("the outcome of a finish")),
    }
}

impl Engine {
    pub async fn finish_jobs(
        self: &Arc<Self>,
        scope: &TopicFilter,
        jobs: Vec<FinishJob>,
    ) -> Result<Vec<Finished>> {
        let (count, scope) = (jobs.len(), &scope_arg(scope));
        let shards = self.by_shard(jobs.into_iter().enumerate(), |job| &job.id);
        let finishes = shards.into_iter().map(|(shard, jobs)| async move {
            let scoped = |(place, job)| (place, ScopedFinish { scope: scope.clone(), job });
            let (places, jobs) = jobs.into_iter().map(scoped).unzip();
            Ok(placed(places, self.gathered::<Finishing>(shard, jobs).await?))
        });
        Ok(in_order(count, try_join_all(finishes).await?))
    }

    pub async fn delete_jobs(&self, scope: &TopicFilter, ids: Vec<JobId>) -> Result<Vec<Deleted>> {
        let count = ids.len();
        let shards = self.by_shard(ids.into_iter().enumerate(), |id| id);
        let answers = shards.into_iter().map(|(shard, ids)| self.delete_in(shard, scope, None, ids));
        Ok(in_order(count, try_join_all(answers).await?))
    }

    /// Deletes jobs of one shard, with `dead_of` only the dead letters of that topic. The topic of a ready or
    /// dead job is needed for its keys; where it is not given, the first call tells it.
    pub async fn delete_in(
        &self,
        shard: Shard,
        scope: &TopicFilter,
        dead_of: Option<&Topic>,
        ids: Placed<JobId>,
    ) -> Result<Placed<Deleted>> {
        let (scope, since_us) = (scope_arg(scope), self.context.real.now_micros());
        let mut topics: Vec<Topic> = dead_of.into_iter().cloned().collect();
        let (mut deleted, mut left) = (Vec::with_capacity(ids.len()), ids);
        for _ in 0..MOVES_LIMIT {
            let lane = self.lanes.take(shard);
            let known: Vec<&Topic> = topics.iter().collect();
            let mut call = self.change(Op::Delete, shard, Some(&lane), &known);
            call = call.arg(scope.clone()).maybe(dead_of.map(|_| "dead"));
            for (_, id) in &left {
                call = call.arg(id.as_str());
            }
            let mut reply = Reply::new(self.acked(call.since(since_us)).await?)?;
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
}
