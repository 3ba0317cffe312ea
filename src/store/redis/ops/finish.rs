//! Finishing jobs: they are removed.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fred::bytes_utils::Str;
use futures_util::future::try_join_all;

use crate::store::redis::indexed::{by_shard, in_order, join, split};
use crate::{
    job::{JobId, Outlet, Topic, TopicFilter},
    store::{
        FinishJob, Outcome, Result,
        redis::{
            codec::scope::encode_scope,
            coordination::{
                batch::{BatchCall, CallBatcher},
                shards::Shards,
            },
            keys::Shard,
            reply::{Reply, code, unexpected},
            scripts::Script,
        },
    },
};

/// Finishes jobs.
pub struct Finisher {
    shards: Arc<Shards>,
    batcher: CallBatcher<FinishCall>,
}

impl Finisher {
    pub fn new(shards: Arc<Shards>) -> Self {
        let (context, count) = (shards.context().clone(), shards.keys.count());
        let call = FinishCall { shards: shards.clone() };
        Self { shards, batcher: CallBatcher::new(call, context, count) }
    }

    pub async fn finish(&self, scope: &TopicFilter, jobs: Vec<FinishJob>) -> Result<Vec<Outcome<Topic>>> {
        let (count, scope) = (jobs.len(), &encode_scope(scope));
        let shards = by_shard(&self.shards.keys, jobs, |job| &job.id);
        let finishes = shards.into_iter().map(|(shard, jobs)| async move {
            let (indexes, jobs) = split(jobs);
            let jobs = jobs.into_iter().map(|job| ScopedFinish { scope: scope.clone(), job }).collect();
            Ok(join(indexes, self.batcher.submit(shard, jobs).await?))
        });
        Ok(in_order(count, try_join_all(finishes).await?))
    }
}

/// The call that finishes jobs on one shard.
struct FinishCall {
    shards: Arc<Shards>,
}

/// A job to finish, with the scope of its caller: callers that share a call may have different ones.
struct ScopedFinish {
    scope: Str,
    job: FinishJob,
}

#[async_trait]
impl BatchCall for FinishCall {
    type Item = ScopedFinish;
    type Outcome = Outcome<Topic>;

    fn weight(item: &ScopedFinish) -> usize {
        JobId::MAX_LEN + item.scope.len()
    }

    async fn call(
        &self,
        shard: Shard,
        items: Vec<ScopedFinish>,
        since_us: i64,
    ) -> Result<Vec<Outcome<Topic>>> {
        let slot = self.shards.replay_slots.acquire(shard);
        // Few calls have limited callers: the others save an argument for each job.
        let limited = items.iter().any(|item| !item.scope.is_empty());
        let call = self.shards.change(Script::Finish, shard, Some(&slot), &[]);
        let mut call = call.optional_arg(limited.then_some("1"));
        for ScopedFinish { scope, job } in &items {
            let receipt = job.receipt.as_ref().map(|receipt| Bytes::copy_from_slice(receipt.as_bytes()));
            call = call.arg(job.id.as_str()).optional_arg(receipt);
            if limited {
                call = call.arg(scope.clone());
            }
        }
        let mut reply = Reply::new(self.shards.call_acknowledged(call.started_at(since_us)).await?)?;
        items.iter().map(|_| decode_outcome(reply.int()?, reply.optional_name()?)).collect()
    }
}

/// Decodes the outcome of one finish.
fn decode_outcome(code: i64, outlet: Option<Outlet>) -> Result<Outcome<Topic>> {
    match (code, outlet) {
        (code::OK, Some(outlet)) => Ok(Ok(outlet.topic)),
        (code, None) => code::refusal(code).map(Err).ok_or_else(|| unexpected("the outcome of a finish")),
        (_, Some(_)) => Err(unexpected("the outcome of a finish")),
    }
}
