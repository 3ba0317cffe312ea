//! Changing jobs that a list showed, if they are still as they were seen.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fred::types::Value;
use futures_util::future::try_join_all;

use super::indexed::{Indexed, by_shard, in_order};
use crate::{
    job::{Actor, Due, Outlet, State},
    store::{
        ChangeJob, Changed, JobChange, Result,
        redis::{
            codec::record::state_code,
            connection::call::ScriptCall,
            coordination::{
                compaction::Compaction,
                notifier::Notifier,
                shards::{OUTLET_CHANGES_LIMIT, Shards, outlet_keeps_changing},
            },
            keys::Shard,
            reply::{Reply, code, unexpected},
            scripts::Script,
            time::millis_arg,
        },
    },
};

/// Most jobs that one run of the script changes, so that none blocks Redis for long.
const SLICE: usize = 100;

/// Changes jobs that a list showed.
pub struct Changer {
    pub shards: Arc<Shards>,
    pub notifier: Arc<Notifier>,
    pub compaction: Arc<Compaction>,
}

impl Changer {
    pub async fn change(&self, jobs: Vec<ChangeJob>, by: Option<&Actor>) -> Result<Vec<Changed>> {
        let (count, started_us) = (jobs.len(), self.shards.context().now_us());
        let shards = by_shard(&self.shards.keys, jobs, |job| &job.seen.id);
        let changes = shards.into_iter().map(|(shard, jobs)| async move {
            let mut changed = Vec::with_capacity(jobs.len());
            // One slice after the other: a job may be named twice, and other calls come in between.
            for slice in jobs.chunks(SLICE) {
                changed.extend(self.change_on(shard, slice, by, started_us).await?);
            }
            Ok(changed)
        });
        Ok(in_order(count, try_join_all(changes).await?))
    }

    /// Changes jobs of one shard. The keys of a ready or dead job depend on its outlet: if the call does not have them, its
    /// reply names the outlet.
    async fn change_on(
        &self,
        shard: Shard,
        jobs: &[(usize, ChangeJob)],
        by: Option<&Actor>,
        started_us: i64,
    ) -> Result<Indexed<Changed>> {
        let (mut left, unfit): (Vec<_>, Vec<_>) =
            jobs.iter().partition(|(_, job)| job.change.applies_to(job.seen.state));
        let mut changed: Indexed<Changed> =
            unfit.into_iter().map(|(index, _)| (*index, Changed::Skipped)).collect();
        let mut outlets: BTreeSet<Outlet> =
            left.iter().filter(|(_, job)| needs_outlet(job)).map(|(_, job)| plain_outlet(job)).collect();
        for _ in 0..OUTLET_CHANGES_LIMIT {
            if left.is_empty() {
                return Ok(changed);
            }
            let slot = self.shards.replay_slots.acquire(shard);
            let known: Vec<&Outlet> = outlets.iter().collect();
            let call = self.shards.change(Script::Change, shard, Some(&slot), &known).started_at(started_us);
            let call = call.optional_arg(by.map(Actor::as_str));
            let call = left.iter().fold(call, |call, (_, job)| add_job(call, job));
            let mut reply = Reply::new(self.shards.call_acknowledged(call).await?)?;
            let has_many_stale_entries = reply.int()? == 1;
            if has_many_stale_entries {
                known.into_iter().for_each(|outlet| self.compaction.request(shard, outlet));
            }
            let mut moved = Vec::new();
            for item in left {
                let (code, outlet, wait_ms) = (reply.int()?, reply.optional_name::<Outlet>()?, reply.int()?);
                match (code, outlet) {
                    (code::OK, Some(outlet)) => {
                        self.notify_changed(shard, &outlet, wait_ms);
                        changed.push((item.0, Changed::Done));
                    }
                    (code::GONE, None) => changed.push((item.0, Changed::Skipped)),
                    (code::MOVED, Some(outlet)) => {
                        moved.push(item);
                        outlets.insert(outlet);
                    }
                    _ => return Err(unexpected("the outcome of a change")),
                }
            }
            left = moved;
        }
        Err(outlet_keeps_changing())
    }

    /// Notifies the listener of a job that waits for so many milliseconds, or is gone when negative.
    fn notify_changed(&self, shard: Shard, outlet: &Outlet, wait_ms: i64) {
        match u64::try_from(wait_ms) {
            Ok(0) => self.notifier.ready_on(outlet, shard),
            Ok(wait_ms) => self.notifier.due_in(Duration::from_millis(wait_ms)),
            Err(_) => {}
        }
    }
}

/// Whether this change, in the state that the list showed, needs the keys of the job's outlet.
fn needs_outlet(ChangeJob { seen, change }: &ChangeJob) -> bool {
    matches!(seen.state, State::Ready | State::Dead) || matches!(change, JobChange::Reschedule(_))
}

fn plain_outlet(job: &ChangeJob) -> Outlet {
    Outlet::plain(job.seen.topic.clone())
}

fn add_job(call: ScriptCall, ChangeJob { seen, change }: &ChangeJob) -> ScriptCall {
    let (kind, ms): (&str, Value) = match change {
        JobChange::Delete => ("delete", 0.into()),
        JobChange::Reschedule(Due::After(delay)) => ("after", millis_arg(delay.as_duration())),
        JobChange::Reschedule(Due::At(moment)) => ("at", moment.as_millis().into()),
        JobChange::Requeue(Due::After(delay)) => ("requeue", millis_arg(delay.as_duration())),
        JobChange::Requeue(Due::At(moment)) => ("requeue_at", moment.as_millis().into()),
    };
    let call = call.arg(seen.id.as_str()).arg(seen.topic.as_str());
    call.arg(i64::from(state_code(seen.state))).arg(seen.moment.as_millis()).arg(kind).arg(ms)
}
