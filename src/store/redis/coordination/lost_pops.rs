//! Pops whose answer never came: their jobs are reserved for nobody. The receipts are ours, so once the server
//! answers again the reservations are cancelled, and no attempt is counted.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard},
};

use bytes::Bytes;

use super::replay_slots::{KeptLane, Lane};
use crate::store::redis::{
    Engine,
    connection::call::{Call, micros},
    keys::Shard,
    reply::Reply,
    scripts::Op,
};
use crate::{
    clock::Clock,
    job::{Timestamp, Topic},
    store::Result,
};

/// Most pops that are remembered; the reservations of older ones end by their TTR.
const LIMIT: usize = 1_000;

/// A pop as it was asked for. Dropped before it was [answered](Self::answered), it is remembered as lost.
pub struct SentPop<'a> {
    engine: &'a Engine,
    lane: Option<Lane<'a>>,
    shard: Shard,
    topic: &'a Topic,
}

/// A pop that may have reserved jobs.
#[derive(Debug)]
struct LostPop {
    shard: Shard,
    topic: Topic,
    /// Holds the answer, if the script ran.
    lane: KeptLane,
    /// When no attempt at it can run any more, by our clock.
    over_us: i64,
}

/// The pops that were lost and not looked after yet.
#[derive(Debug, Default)]
pub struct LostPops(Mutex<VecDeque<LostPop>>);

impl LostPops {
    /// Those on one of these shards that cannot run any more.
    fn take(&self, group: &[Shard], now_us: i64) -> Vec<LostPop> {
        let mut all = self.lock();
        let ripe = |pop: &LostPop| pop.over_us < now_us && group.contains(&pop.shard);
        let (taken, left) = all.drain(..).partition::<Vec<_>, _>(ripe);
        all.extend(left);
        taken
    }

    /// Adds one; the oldest when there are too many.
    fn add(&self, pop: LostPop) -> Option<LostPop> {
        let mut all = self.lock();
        all.push_back(pop);
        if all.len() > LIMIT { all.pop_front() } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<LostPop>> {
        self.0.lock().expect("no code panics while it holds the lost pops")
    }
}

impl<'a> SentPop<'a> {
    /// A pop from `shard`, which takes a lane.
    pub fn new(engine: &'a Engine, shard: Shard, topic: &'a Topic) -> Self {
        Self { engine, lane: Some(engine.lanes.take(shard)), shard, topic }
    }

    /// Its call.
    pub fn call(&self, count: i64, ttrs: Bytes, receipts: Bytes) -> Call {
        let change = self.engine.change(Op::Reserve, self.shard, self.lane.as_ref(), &[self.topic]);
        change.arg(count).bytes(ttrs).bytes(receipts)
    }

    /// Its answer came.
    pub fn answered(mut self) {
        self.lane = None;
    }
}

impl Drop for SentPop<'_> {
    fn drop(&mut self) {
        let Some(lane) = self.lane.take() else { return };
        let context = &self.engine.context;
        let options = &context.options;
        let wait = options.command_timeout + options.wait_timeout;
        let over_us = context.real.now_micros().saturating_add(micros(wait));
        let lost = LostPop { shard: self.shard, topic: self.topic.clone(), lane: lane.keep(), over_us };
        if let Some(oldest) = self.engine.lost_pops.add(lost) {
            drop(self.engine.lanes.resume(oldest.shard, oldest.lane));
        }
    }
}

impl Engine {
    /// Cancels what lost pops have reserved on these shards, whose server answers.
    pub async fn cancel_lost_pops(&self, group: &[Shard]) {
        for LostPop { shard, topic, lane, .. } in self.lost_pops.take(group, self.context.real.now_micros()) {
            let pop =
                SentPop { engine: self, lane: Some(self.lanes.resume(shard, lane)), shard, topic: &topic };
            match self.cancel_lost_pop(&pop).await {
                Ok(cancelled) => {
                    pop.answered();
                    if cancelled > 0 {
                        tracing::info!(%topic, cancelled, "reservations of a pop that was not answered are cancelled");
                    }
                }
                // Dropped, the pop is remembered once more.
                Err(error) => tracing::debug!(%topic, %error, "a lost pop cannot be looked after yet"),
            }
        }
    }

    /// Runs the script once more for no jobs: if it ran before, its lane has the answer.
    async fn cancel_lost_pop(&self, pop: &SentPop<'_>) -> Result<usize> {
        let call = pop.call(0, Bytes::new(), Bytes::new()).once();
        let mut reply = Reply::new(self.call(call).await?)?;
        let (_, now, _) = (reply.int()?, reply.int()?, reply.count()?);
        let granted = self.grants(reply, Timestamp::from_millis(now))?;
        let count = granted.len();
        let receipts = granted.into_iter().map(|grant| (grant.job.id, grant.receipt)).collect();
        self.cancel_grants(receipts).await?;
        Ok(count)
    }
}
