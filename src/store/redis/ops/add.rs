//! Adding jobs.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    add_rare::RareAddCall,
    added::{announce_added, decode_outcome, distinct_outlets, host_of},
};
use crate::store::redis::indexed::on_each_shard;
use crate::{
    job::{HostNumber, Outlet},
    store::{
        AddJob, Added, IfExists, Outcome, Result,
        redis::{
            codec::record,
            coordination::{
                batch::{BatchCall, CallBatcher},
                compaction::Compaction,
                notifier::Notifier,
                shards::Shards,
            },
            keys::Shard,
            reply::Reply,
            scripts::Script,
        },
    },
};

/// Adds jobs.
pub struct Adder {
    shards: Arc<Shards>,
    adds: CallBatcher<AddCall>,
    rare: CallBatcher<RareAddCall>,
}

impl Adder {
    pub fn new(shards: Arc<Shards>, notifier: Arc<Notifier>, compaction: Arc<Compaction>) -> Self {
        let (context, count) = (shards.context().clone(), shards.keys.count());
        let add = AddCall { shards: shards.clone(), notifier: notifier.clone() };
        let rare = RareAddCall { shards: shards.clone(), notifier, compaction };
        let (adds, rare) =
            (CallBatcher::new(add, context.clone(), count), CallBatcher::new(rare, context, count));
        Self { shards, adds, rare }
    }

    pub async fn add(&self, jobs: Vec<AddJob>) -> Result<Vec<Outcome<Added>>> {
        let add = |shard, jobs: Vec<AddJob>| async move {
            if jobs.iter().any(is_rare) {
                self.rare.submit(shard, jobs).await
            } else {
                self.adds.submit(shard, jobs).await
            }
        };
        on_each_shard(&self.shards.keys, jobs, |job| &job.id, add).await
    }
}

/// Whether an add needs the script for rare ones.
fn is_rare(job: &AddJob) -> bool {
    job.if_exists != IfExists::Keep || job.spec.dedup.is_some()
}

/// The call that adds jobs on one shard.
struct AddCall {
    shards: Arc<Shards>,
    notifier: Arc<Notifier>,
}

#[async_trait]
impl BatchCall for AddCall {
    type Item = AddJob;
    type Outcome = Outcome<Added>;

    fn weight(job: &AddJob) -> usize {
        job.body.as_bytes().len()
    }

    async fn call(&self, shard: Shard, jobs: Vec<AddJob>, since_us: i64) -> Result<Vec<Outcome<Added>>> {
        let hosts: Vec<Option<HostNumber>> = jobs.iter().map(|job| host_of(&self.shards, job)).collect();
        let outlets = distinct_outlets(&jobs, &hosts);
        let known: Vec<&Outlet> = outlets.iter().collect();
        let slot = self.shards.replay_slots.acquire(shard);
        let mut call = self.shards.change(Script::Add, shard, Some(&slot), &known);
        for (job, host) in jobs.iter().zip(&hosts) {
            let record = record::encode_new(job, *host, rand::random());
            call = call.arg(job.id.as_str()).bytes_arg(record);
        }
        let mut reply = Reply::new(self.shards.call_acknowledged(call.started_at(since_us)).await?)?;
        self.shards.report_set_aside(shard, reply.count()?);
        let added =
            jobs.into_iter().map(|job| decode_outcome(job, &reply.bytes()?)).collect::<Result<Vec<_>>>()?;
        announce_added(&self.notifier, shard, added.iter().zip(hosts));
        Ok(added)
    }
}
