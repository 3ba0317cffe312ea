//! Pops whose reply never came: no client has the jobs that they reserved. This process made their receipts, and
//! cancels the reservations once the server replies again, so that no attempt is counted.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
};

use bytes::Bytes;

use super::{
    cancel::Canceller,
    replay_slots::{ReplaySlot, RetainedSlot},
    shards::Shards,
};
use crate::{
    job::{Delay, Outlet, Timestamp},
    store::{
        Result,
        redis::{
            codec::reservations::decode_reservations, connection::call::ScriptCall, keys::Shard,
            reply::Reply, scripts::Script, time::micros,
        },
    },
};

/// Most pops that are remembered; the reservations of older ones end by their TTR.
const LIMIT: usize = 1_000;

/// A pop in flight. If it is dropped before it was [answered](Self::answered), it is remembered as lost.
pub struct PendingPop<'a> {
    lost_pops: &'a LostPops,
    slot: Option<ReplaySlot<'a>>,
    shard: Shard,
    outlet: &'a Outlet,
}

/// A pop that may have reserved jobs.
#[derive(Debug)]
struct LostPop {
    shard: Shard,
    outlet: Outlet,
    /// Holds the reply, if the script ran.
    slot: RetainedSlot,
    /// When no attempt at it can have an effect any more, by our clock.
    over_us: i64,
}

/// The pops that were lost and not cancelled yet.
pub struct LostPops {
    shards: Arc<Shards>,
    canceller: Arc<Canceller>,
    queue: Mutex<VecDeque<LostPop>>,
}

impl LostPops {
    pub fn new(shards: Arc<Shards>, canceller: Arc<Canceller>) -> Self {
        Self { shards, canceller, queue: Mutex::default() }
    }

    /// Begins a pop from `shard`, which acquires a replay slot.
    pub fn begin<'a>(&'a self, shard: Shard, outlet: &'a Outlet) -> PendingPop<'a> {
        let slot = Some(self.shards.replay_slots.acquire(shard));
        PendingPop { lost_pops: self, slot, shard, outlet }
    }

    /// Cancels the reservations of lost pops on these shards, whose server replies.
    pub async fn cancel_on(&self, group: &[Shard]) {
        for LostPop { shard, outlet, slot, .. } in self.take_ended(group) {
            let slot = Some(self.shards.replay_slots.resume(shard, slot));
            let pop = PendingPop { lost_pops: self, slot, shard, outlet: &outlet };
            match self.cancel(&pop).await {
                Ok(cancelled) => {
                    pop.answered();
                    if cancelled > 0 {
                        tracing::info!(%outlet, cancelled, "cancelled the reservations of a pop whose reply was lost");
                    }
                }
                // Dropping the pop remembers it again.
                Err(error) => tracing::debug!(%outlet, %error, "cannot cancel a lost pop yet"),
            }
        }
    }

    /// Runs the script again for no jobs: if it ran before, the slot has its reply.
    async fn cancel(&self, pop: &PendingPop<'_>) -> Result<usize> {
        let call = pop.call(0, Bytes::new(), Bytes::new(), Bytes::new()).without_retry();
        let mut reply = Reply::new(self.shards.call(call).await?)?;
        let (_ready, now, _set_aside) = (reply.int()?, reply.int()?, reply.count()?);
        let granted = decode_reservations(reply, Timestamp::from_millis(now))?;
        let count = granted.len();
        let grants = granted.into_iter().map(|grant| (grant.job.id, grant.receipt)).collect();
        self.canceller.cancel(grants, Delay::default()).await?;
        Ok(count)
    }

    /// Removes the lost pops on these shards that cannot have an effect any more.
    fn take_ended(&self, group: &[Shard]) -> Vec<LostPop> {
        let now_us = self.shards.context().now_us();
        let mut all = self.lock();
        let is_over = |pop: &LostPop| pop.over_us < now_us && group.contains(&pop.shard);
        let (taken, left) = all.drain(..).partition::<Vec<_>, _>(is_over);
        all.extend(left);
        taken
    }

    /// Remembers a lost pop; returns the oldest one when there are too many.
    fn add(&self, pop: LostPop) -> Option<LostPop> {
        let mut all = self.lock();
        all.push_back(pop);
        if all.len() > LIMIT { all.pop_front() } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<LostPop>> {
        self.queue.lock().expect("no code panics while it holds the lost pops")
    }
}

impl PendingPop<'_> {
    /// The call that reserves `count` jobs with these TTRs and receipts, by these actors.
    pub fn call(&self, count: i64, ttrs: Bytes, receipts: Bytes, actors: Bytes) -> ScriptCall {
        let shards = &self.lost_pops.shards;
        let change = shards.change(Script::Reserve, self.shard, self.slot.as_ref(), &[self.outlet]);
        change.arg(count).bytes_arg(ttrs).bytes_arg(receipts).bytes_arg(actors)
    }

    /// The reply came.
    pub fn answered(mut self) {
        self.slot = None;
    }
}

impl Drop for PendingPop<'_> {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        let shards = &self.lost_pops.shards;
        let options = &shards.context().options;
        let timeout = options.command_timeout + options.wait_timeout;
        let over_us = shards.context().now_us().saturating_add(micros(timeout));
        let lost = LostPop { shard: self.shard, outlet: self.outlet.clone(), slot: slot.retain(), over_us };
        if let Some(oldest) = self.lost_pops.add(lost) {
            // Resumed only to free the slot.
            drop(shards.replay_slots.resume(oldest.shard, oldest.slot));
        }
    }
}
