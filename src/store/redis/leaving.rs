//! Finishing and deleting jobs: they are gone.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::try_join_all;

use super::{
    Engine,
    gather::{Gather, Work},
    jobs::{MOVES_LIMIT, Placed, code, in_order, keeps_moving, placed},
    keys::Shard,
    reply::{Reply, unexpected},
    script::Op,
};
use crate::{
    job::{JobId, Topic},
    store::{Deleted, FinishJob, Finished, Result},
};

/// Which jobs a delete may meet; others count as gone.
#[derive(Clone, Copy)]
pub(super) enum Which<'a> {
    /// All.
    Any,
    /// Those of this topic.
    Of(&'a Topic),
    /// The dead letters of this topic.
    DeadOf(&'a Topic),
}

/// The kind of call that finishes jobs.
pub(super) struct Finishing;

impl Work for Finishing {
    type Item = FinishJob;
    type Answer = Finished;

    fn gather(engine: &Engine) -> &Gather<Self> {
        &engine.finishing
    }

    fn weight(_: &FinishJob) -> usize {
        JobId::MAX_LEN
    }

    async fn call(engine: &Engine, shard: Shard, jobs: Vec<FinishJob>) -> Result<Vec<Finished>> {
        let lane = engine.lanes.take(shard);
        let mut call = engine.change(Op::Finish, shard, Some(&lane), &[]);
        for job in &jobs {
            let receipt = job.receipt.as_ref().map(|receipt| Bytes::copy_from_slice(receipt.as_bytes()));
            call = call.arg(job.id.as_str()).maybe(receipt);
        }
        let mut reply = Reply::new(engine.acked(call).await?)?;
        jobs.iter().map(|_| finished_as(reply.int()?, reply.name_or_none()?)).collect()
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
    pub(super) async fn finish_jobs(self: &Arc<Self>, jobs: Vec<FinishJob>) -> Result<Vec<Finished>> {
        let count = jobs.len();
        let shards = self.by_shard(jobs.into_iter().enumerate(), |job| &job.id);
        let finishes = shards.into_iter().map(|(shard, jobs)| async move {
            let (places, jobs) = jobs.into_iter().unzip();
            Ok(placed(places, self.gathered::<Finishing>(shard, jobs).await?))
        });
        Ok(in_order(count, try_join_all(finishes).await?))
    }

    pub(super) async fn delete_jobs(&self, ids: Vec<JobId>) -> Result<Vec<Deleted>> {
        let count = ids.len();
        let shards = self.by_shard(ids.into_iter().enumerate(), |id| id);
        let answers = shards.into_iter().map(|(shard, ids)| self.delete_in(shard, ids, Which::Any));
        Ok(in_order(count, try_join_all(answers).await?))
    }

    pub(super) async fn delete_jobs_of(&self, topic: &Topic, ids: Vec<JobId>) -> Result<Vec<Deleted>> {
        let count = ids.len();
        let shards = self.by_shard(ids.into_iter().enumerate(), |id| id);
        let answers = shards.into_iter().map(|(shard, ids)| self.delete_in(shard, ids, Which::Of(topic)));
        Ok(in_order(count, try_join_all(answers).await?))
    }

    /// Deletes jobs of one shard. The topic of a ready or dead job is needed for its keys, and is learnt at
    /// the first try.
    pub(super) async fn delete_in(
        &self,
        shard: Shard,
        ids: Placed<JobId>,
        which: Which<'_>,
    ) -> Result<Placed<Deleted>> {
        let (word, topic) = match which {
            Which::Any => (None, None),
            Which::Of(topic) => (Some("only"), Some(topic)),
            Which::DeadOf(topic) => (Some("dead"), Some(topic)),
        };
        let mut topics: Vec<Topic> = topic.into_iter().cloned().collect();
        let topic_given = topic.is_some();
        let (mut deleted, mut left) = (Vec::with_capacity(ids.len()), ids);
        for _ in 0..MOVES_LIMIT {
            let lane = self.lanes.take(shard);
            let known: Vec<&Topic> = topics.iter().collect();
            let mut call = self.change(Op::Delete, shard, Some(&lane), &known).maybe(word);
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
                    (code::MOVED, Some(_)) if topic_given => deleted.push((at, Deleted::Gone)),
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
