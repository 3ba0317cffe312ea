//! Finishing jobs: they are removed. A job whose reservation has timed out, that was replaced since, or whose id is remembered
//! takes a second call.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use fred::bytes_utils::Str;

use crate::store::redis::indexed::{Indexed, in_order, on_each_shard};
use crate::{
    job::{JobId, Outlet, TopicFilter},
    store::{
        FinishJob, Finished, Outcome, Refusal, Result,
        redis::{
            codec::scope::encode_scope,
            connection::call::ScriptCall,
            coordination::{
                batch::{BatchCall, CallBatcher},
                compaction::Compaction,
                notifier::Notifier,
                shards::{OUTLET_CHANGES_LIMIT, Shards, outlet_keeps_changing},
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
    pub fn new(shards: Arc<Shards>, notifier: Arc<Notifier>, compaction: Arc<Compaction>) -> Self {
        let (context, count) = (shards.context().clone(), shards.keys.count());
        let call = FinishCall { shards: shards.clone(), notifier, compaction };
        Self { shards, batcher: CallBatcher::new(call, context, count) }
    }

    pub async fn finish(&self, scope: &TopicFilter, jobs: Vec<FinishJob>) -> Result<Vec<Outcome<Finished>>> {
        let scope = encode_scope(scope);
        let items = jobs.into_iter().map(|job| ScopedFinish { scope: scope.clone(), job }).collect();
        let finish = |shard, items| self.batcher.submit(shard, items);
        on_each_shard(&self.shards.keys, items, |item: &ScopedFinish| &item.job.id, finish).await
    }
}

/// The call that finishes jobs on one shard.
struct FinishCall {
    shards: Arc<Shards>,
    notifier: Arc<Notifier>,
    compaction: Arc<Compaction>,
}

/// A job to finish, with the scope of its caller: callers that share a call may have different ones.
struct ScopedFinish {
    scope: Str,
    job: FinishJob,
}

#[async_trait]
impl BatchCall for FinishCall {
    type Item = ScopedFinish;
    type Outcome = Outcome<Finished>;

    fn weight(item: &ScopedFinish) -> usize {
        JobId::MAX_LEN + item.scope.len()
    }

    async fn call(
        &self,
        shard: Shard,
        items: Vec<ScopedFinish>,
        since_us: i64,
    ) -> Result<Vec<Outcome<Finished>>> {
        let slot = self.shards.replay_slots.acquire(shard);
        // Few calls have limited callers: the others save an argument for each job.
        let limited = items.iter().any(|item| !item.scope.is_empty());
        let call = self.shards.change(Script::Finish, shard, Some(&slot), &[]);
        let mut call = call.optional_arg(limited.then_some("1"));
        for item in &items {
            call = item.add_to(call);
            if limited {
                call = call.arg(item.scope.clone());
            }
        }
        let mut reply = Reply::new(self.shards.call_acknowledged(call.started_at(since_us)).await?)?;
        let (count, mut finished, mut rare) = (items.len(), Vec::with_capacity(items.len()), Vec::new());
        let mut outlets = BTreeSet::new();
        for (index, item) in items.into_iter().enumerate() {
            match (reply.int()?, reply.optional_name()?) {
                (code::RARE, Some(outlet)) => {
                    rare.push((index, item));
                    outlets.insert(outlet);
                }
                (code, outlet) => finished.push((index, decode_outcome(code, outlet)?)),
            }
        }
        if !rare.is_empty() {
            finished.extend(self.finish_rare(shard, rare, outlets, since_us).await?);
        }
        Ok(in_order(count, vec![finished]))
    }
}

impl FinishCall {
    /// Finishes jobs, which were of these outlets, unless they have changed since: by receipts of reservations that have timed out or are of an
    /// older version, or of jobs whose ids are to be remembered.
    async fn finish_rare(
        &self,
        shard: Shard,
        items: Indexed<ScopedFinish>,
        mut outlets: BTreeSet<Outlet>,
        since_us: i64,
    ) -> Result<Indexed<Outcome<Finished>>> {
        let (mut finished, mut left) = (Vec::with_capacity(items.len()), items);
        for _ in 0..OUTLET_CHANGES_LIMIT {
            let slot = self.shards.replay_slots.acquire(shard);
            let known: Vec<&Outlet> = outlets.iter().collect();
            let call =
                self.shards.change(Script::FinishRare, shard, Some(&slot), &known).started_at(since_us);
            let call = self.shards.with_remembered(call, shard).arg(self.shards.most_remembered());
            let call = left.iter().fold(call, |call, (_, item)| item.add_to(call).arg(item.scope.clone()));
            let mut reply = Reply::new(self.shards.call_acknowledged(call).await?)?;
            if reply.int()? == 1 {
                known.into_iter().for_each(|outlet| self.compaction.request(shard, outlet));
            }
            self.shards.context().metrics.ids_not_kept(0, reply.count()?);
            let mut moved = Vec::new();
            for (index, item) in left {
                match (reply.int()?, reply.optional_name()?) {
                    (code::REPLACED, Some(outlet)) => {
                        self.notifier.waits_again(&outlet, shard);
                        finished.push((index, Err(Refusal::Replaced)));
                    }
                    (code::MOVED, Some(outlet)) => {
                        outlets.insert(outlet);
                        moved.push((index, item));
                    }
                    (code, outlet) => finished.push((index, decode_outcome(code, outlet)?)),
                }
            }
            if moved.is_empty() {
                return Ok(finished);
            }
            left = moved;
        }
        Err(outlet_keeps_changing())
    }
}

impl ScopedFinish {
    /// Adds the id and the receipt to a call.
    fn add_to(&self, call: ScriptCall) -> ScriptCall {
        let receipt = self.job.receipt.as_ref();
        let receipt = receipt.map(|receipt| Bytes::copy_from_slice(receipt.as_bytes()));
        call.arg(self.job.id.as_str()).optional_arg(receipt)
    }
}

/// Decodes the outcome of one finish.
fn decode_outcome(code: i64, outlet: Option<Outlet>) -> Result<Outcome<Finished>> {
    match (code, outlet) {
        (code::OK, Some(outlet)) => Ok(Ok(Finished { topic: outlet.topic, is_late: false })),
        (code::FINISHED_LATE, Some(outlet)) => Ok(Ok(Finished { topic: outlet.topic, is_late: true })),
        (code, None) => code::refusal(code).map(Err).ok_or_else(|| unexpected("the outcome of a finish")),
        (_, Some(_)) => Err(unexpected("the outcome of a finish")),
    }
}
