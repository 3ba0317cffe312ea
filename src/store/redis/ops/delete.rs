//! Deleting jobs.

use std::sync::Arc;

use futures_util::future::try_join_all;

use super::indexed::{Indexed, by_shard, in_order};
use crate::{
    job::{JobId, Outlet, TopicFilter},
    store::{
        Deleted, Result,
        redis::{
            codec::scope::encode_scope,
            coordination::{
                compaction::Compaction,
                shards::{OUTLET_CHANGES_LIMIT, Shards, outlet_keeps_changing},
            },
            keys::Shard,
            reply::{Reply, code, unexpected},
            scripts::Script,
        },
    },
};

/// Deletes jobs.
pub struct Deleter {
    shards: Arc<Shards>,
    compaction: Arc<Compaction>,
}

impl Deleter {
    pub fn new(shards: Arc<Shards>, compaction: Arc<Compaction>) -> Self {
        Self { shards, compaction }
    }

    pub async fn delete(&self, scope: &TopicFilter, ids: Vec<JobId>) -> Result<Vec<Deleted>> {
        let count = ids.len();
        let shards = by_shard(&self.shards.keys, ids, |id| id);
        let deletes = shards.into_iter().map(|(shard, ids)| self.delete_on(shard, scope, ids));
        Ok(in_order(count, try_join_all(deletes).await?))
    }

    /// Deletes jobs of one shard. The keys of a ready or dead job depend on its outlet: if the call does not have them, its
    /// reply names the outlet.
    async fn delete_on(
        &self,
        shard: Shard,
        scope: &TopicFilter,
        ids: Indexed<JobId>,
    ) -> Result<Indexed<Deleted>> {
        let (scope, started_us) = (encode_scope(scope), self.shards.context().now_us());
        let (mut outlets, mut deleted, mut left) = (Vec::<Outlet>::new(), Vec::with_capacity(ids.len()), ids);
        for _ in 0..OUTLET_CHANGES_LIMIT {
            let slot = self.shards.replay_slots.acquire(shard);
            let known: Vec<&Outlet> = outlets.iter().collect();
            let mut call = self.shards.change(Script::Delete, shard, Some(&slot), &known);
            call = call.arg(scope.clone());
            for (_, id) in &left {
                call = call.arg(id.as_str());
            }
            let mut reply = Reply::new(self.shards.call_acknowledged(call.started_at(started_us)).await?)?;
            let has_many_stale_entries = reply.int()? == 1;
            if has_many_stale_entries {
                known.into_iter().for_each(|outlet| self.compaction.request(shard, outlet));
            }
            let mut moved = Vec::new();
            for (index, id) in left {
                let (code, outlet) = (reply.int()?, reply.optional_name::<Outlet>()?);
                match (code, outlet) {
                    (code::OK, Some(outlet)) => {
                        deleted.push((index, Deleted::Done { topic: outlet.topic }));
                    }
                    (code::GONE, None) => deleted.push((index, Deleted::Gone)),
                    (code::MOVED, Some(outlet)) => {
                        moved.push((index, id));
                        outlets.push(outlet);
                    }
                    _ => return Err(unexpected("the outcome of a delete")),
                }
            }
            if moved.is_empty() {
                return Ok(deleted);
            }
            left = moved;
            outlets.sort_unstable();
            outlets.dedup();
        }
        Err(outlet_keeps_changing())
    }
}
