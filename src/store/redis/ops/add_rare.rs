//! Adds that replace jobs, and those whose ids may be remembered. They have a call of their own, so that the script for all other adds stays short.

use std::sync::Arc;

use async_trait::async_trait;

use super::added::{announce_added, decode_outcome, distinct_outlets, host_of};
use crate::{
    job::{Actor, HostNumber},
    store::{
        AddJob, Added, IfExists, Outcome, Result,
        redis::{
            codec::record,
            coordination::{
                batch::BatchCall,
                compaction::Compaction,
                notifier::Notifier,
                shards::{OUTLET_CHANGES_LIMIT, Shards, outlet_keeps_changing},
            },
            indexed::{Indexed, in_order},
            keys::Shard,
            reply::{Reply, unexpected},
            scripts::Script,
        },
    },
};

/// The call that adds jobs on one shard, of which some replace others or have ids that may be remembered.
pub(super) struct RareAddCall {
    pub shards: Arc<Shards>,
    pub notifier: Arc<Notifier>,
    pub compaction: Arc<Compaction>,
}

#[async_trait]
impl BatchCall for RareAddCall {
    type Item = AddJob;
    type Outcome = Outcome<Added>;

    fn weight(job: &AddJob) -> usize {
        job.body.as_bytes().len()
    }

    /// The first call has the keys of the new jobs' outlets. If that of an old one is another, the reply names it.
    async fn call(&self, shard: Shard, jobs: Vec<AddJob>, since_us: i64) -> Result<Vec<Outcome<Added>>> {
        let count = jobs.len();
        let hosts: Vec<Option<HostNumber>> = jobs.iter().map(|job| host_of(&self.shards, job)).collect();
        let mut outlets = distinct_outlets(&jobs, &hosts);
        let mut left: Indexed<_> = jobs.into_iter().zip(hosts).enumerate().collect();
        let mut added = Vec::with_capacity(count);
        for _ in 0..OUTLET_CHANGES_LIMIT {
            let slot = self.shards.replay_slots.acquire(shard);
            let known: Vec<_> = outlets.iter().collect();
            let mut call =
                self.shards.change(Script::AddRare, shard, Some(&slot), &known).started_at(since_us);
            call = self.shards.with_remembered(call, shard);
            for (_, (job, host)) in &left {
                let record = record::encode_new(job, *host, rand::random());
                call = call.arg(job.id.as_str()).bytes_arg(record).arg(replaces_arg(&job.if_exists));
            }
            let reply = self.shards.call_acknowledged(call).await;
            let mut reply = Reply::new(reply.map_err(|error| error.after(added.len()))?)?;
            self.shards.report_set_aside(shard, reply.count()?);
            if reply.int()? == 1 {
                known.into_iter().for_each(|outlet| self.compaction.request(shard, outlet));
            }
            let (mut done, mut moved) = (Vec::new(), Vec::new());
            for (index, (job, host)) in left {
                let outcome = reply.bytes()?;
                if let Some(outlet) = outcome.strip_prefix(b"M") {
                    let outlet = std::str::from_utf8(outlet).ok().and_then(|name| name.parse().ok());
                    outlets.push(outlet.ok_or_else(|| unexpected("an outlet"))?);
                    moved.push((index, (job, host)));
                } else {
                    done.push((index, (decode_outcome(job, &outcome)?, host)));
                }
            }
            // Before the next call, which may fail.
            announce_added(&self.notifier, shard, done.iter().map(|(_, (added, host))| (added, *host)));
            added.extend(done.into_iter().map(|(index, (outcome, _))| (index, outcome)));
            if moved.is_empty() {
                return Ok(in_order(count, vec![added]));
            }
            outlets.sort_unstable();
            outlets.dedup();
            left = moved;
        }
        Err(outlet_keeps_changing())
    }
}

/// What an add does about an older version, as the script reads it.
fn replaces_arg(if_exists: &IfExists) -> String {
    match if_exists {
        IfExists::Keep => String::new(),
        IfExists::Replace { by } => format!("+{}", by.as_ref().map_or("", Actor::as_str)),
    }
}
