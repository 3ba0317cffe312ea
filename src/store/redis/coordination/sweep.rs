//! The sweep: a slow look, twice a second, that makes up for what announcements may have lost, so
//! that nothing waits longer than a second for it. It also watches the server's clock and the rights of its user, has
//! shards mended whose counts are not those of their indexes, compacts
//! ready lists that are full of stale entries, forgets the lanes of processes that are gone, and writes the
//! layout again where the server lost it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::sync::watch;

use super::{announcements::Doubt, permissions};
use crate::store::redis::{
    Engine,
    connection::{call::micros, retry::Answer},
    keys::Shard,
    layout,
    reply::Reply,
    scripts::Op,
};
use crate::{
    clock::Clock,
    failure_log::FailureLog,
    job::Topic,
    store::{Error, Result},
};

const INTERVAL: Duration = Duration::from_millis(500);
/// How long a lane is kept after its last use: far longer than anybody tries a call again.
const LANE_LIFE: Duration = Duration::from_secs(3_600);
/// How often lanes are looked at, in sweeps.
const LANES_EVERY: u64 = 1_200;
/// A smaller jump of the server's clock than this is not worth a line in the log.
const STEP_US: i64 = 250_000;
/// How often counts are held against indexes.
const AUDIT: Duration = Duration::from_secs(30);
/// Entries per run of a compaction, and runs per sweep.
const COMPACT: (i64, usize) = (1_000, 50);

/// Ready lists that should be compacted, and how many of their entries are still to be looked at once
/// that has begun. Only a full turn leaves the others in their order.
#[derive(Debug, Default)]
pub struct Compaction(Mutex<BTreeMap<(Shard, Topic), Option<i64>>>);

impl Compaction {
    pub fn ask(&self, shard: Shard, topic: &Topic) {
        self.lock().entry((shard, topic.clone())).or_default();
    }

    fn go_on(&self, shard: Shard, topic: Topic, left: i64) {
        self.lock().insert((shard, topic), Some(left));
    }

    fn take(&self, group: &[Shard]) -> BTreeMap<(Shard, Topic), Option<i64>> {
        self.lock().extract_if(.., |(shard, _), _| group.contains(shard)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Shard, Topic), Option<i64>>> {
        self.0.lock().expect("no code panics while it holds the lists")
    }
}

/// What the sweep remembers from one time to the next, by shard.
#[derive(Debug, Clone, Copy, Default)]
struct Memory {
    /// How many announcements the shard had made.
    pulse: i64,
    /// The server's clock minus ours.
    offset_us: Option<i64>,
}

/// When counts are next held against indexes.
struct Audits {
    next_us: i64,
}

impl Audits {
    fn is_due(&mut self, now_us: i64) -> bool {
        let due = now_us >= self.next_us;
        if due {
            self.next_us = now_us.saturating_add(micros(AUDIT));
        }
        due
    }

    fn hurry(&mut self) {
        self.next_us = 0;
    }
}

impl Engine {
    /// Sweeps until the engine closes: every group of shards at its own pace, so that a server that does not
    /// answer holds up no other's, and beside them what belongs to no shard.
    pub async fn sweep(self: Arc<Self>) {
        for group in self.groups() {
            self.context.tasks.spawn(self.clone().sweep_group(group));
        }
        let log = FailureLog::default();
        let mut wake = self.wake_sweep.subscribe();
        wake.mark_changed();
        while self.next_sweep(&mut wake).await {
            let layout = layout::watch(self.caller(), self.keys.count());
            let ((), configs) = tokio::join!(layout, self.refresh_configs());
            self.log_sweep(&log, configs.as_ref().err());
        }
    }

    /// Sweeps a group of shards, the first time at once.
    async fn sweep_group(self: Arc<Self>, group: Vec<Shard>) {
        let (mut memory, log) = (vec![Memory::default(); group.len()], FailureLog::default());
        let mut wake = self.wake_sweep.subscribe();
        wake.mark_changed();
        let mut audits = Audits { next_us: self.context.real.now_micros().saturating_add(micros(AUDIT)) };
        for round in 1_u64.. {
            if !self.next_sweep(&mut wake).await {
                return;
            }
            let swept = self.sweep_once(&group, &mut memory, round, &mut audits).await;
            self.log_sweep(&log, swept.as_ref().err());
        }
    }

    fn log_sweep(&self, log: &FailureLog, error: Option<&Error>) {
        let now_us = self.context.real.now_micros();
        match error {
            None => {
                if log.succeeded(now_us).is_some() {
                    tracing::info!("the sweep of Redis succeeds again");
                }
            }
            // A server that is away is told of by those who watch the store.
            Some(error @ Error::Unavailable(_)) => tracing::debug!(%error, "the sweep failed"),
            Some(error) => {
                if log.failed(now_us) {
                    tracing::warn!(%error, "the sweep of Redis fails");
                }
            }
        }
    }

    /// Waits for the next round; false when the engine closes.
    async fn next_sweep(&self, wake: &mut watch::Receiver<()>) -> bool {
        tokio::select! {
            () = self.context.real.sleep(INTERVAL) => true,
            woken = wake.changed() => woken.is_ok(),
            () = self.context.closing.cancelled() => false,
        }
    }

    async fn sweep_once(
        self: &Arc<Self>,
        group: &[Shard],
        memory: &mut [Memory],
        round: u64,
        audits: &mut Audits,
    ) -> Result<()> {
        let before_us = self.context.real.now_micros();
        let keys = group.iter().flat_map(|shard| {
            let keys = self.keys.shard(*shard);
            [&keys.counts, &keys.pool, &keys.bucket, &keys.graves, &keys.broken].map(Clone::clone)
        });
        let [ready, settings] = self.channels();
        let pulse = self.read(Op::Pulse, group, keys.collect()).arg(ready).arg(settings);
        let pulse = self.brief_in_cluster(pulse.maybe(audits.is_due(before_us).then_some("1")));
        let answer = self.observed(group[0], self.caller().insist(pulse)).await?;
        let after_us = self.context.real.now_micros();
        let mut outcome = self.look_after(group, (before_us, after_us), answer, memory, audits).await;
        for ((shard, topic), left) in self.compaction.take(group) {
            outcome = outcome.and(self.compact(shard, topic, left).await);
        }
        if round.is_multiple_of(LANES_EVERY) {
            outcome = outcome.and(self.forget_lanes(group).await);
        }
        outcome
    }

    /// Looks after the shards of one server, which answered between two moments.
    async fn look_after(
        self: &Arc<Self>,
        group: &[Shard],
        (before_us, after_us): (i64, i64),
        Answer { value, node, .. }: Answer,
        memory: &mut [Memory],
        audits: &mut Audits,
    ) -> Result<()> {
        let mut reply = Reply::new(value)?;
        let server_us = reply.int()?.saturating_mul(1_000_000).saturating_add(reply.int()?);
        node.clock.learn(before_us, server_us, after_us);
        if self.rights.see(group[0], permissions::names(&mut reply.list()?)?) {
            // What was refused meanwhile should have left nothing behind; make sure of it.
            audits.hurry();
        }
        // One group is one server: its first shard remembers for all.
        if let Some(memory) = memory.first_mut()
            && let Some(step_us) = watch_clock(memory, server_us, before_us, after_us)
        {
            self.context.metrics.clock_stepped(step_us);
            let step_ms = step_us / 1_000;
            tracing::warn!(step_ms, "the clock of the Redis server stepped, and due times with it");
        }
        self.cancel_lost_pops(group).await;
        for (shard, memory) in group.iter().zip(memory) {
            let (pulse, disagrees) = (reply.int()?, reply.int()? == 1);
            if disagrees {
                self.begin_mending(*shard);
            }
            self.make_up(*shard, memory, pulse).await?;
        }
        Ok(())
    }

    /// Makes up for announcements that were made by the last sweep and have not been heard by this one, and
    /// for changes of ours whose answer got lost.
    async fn make_up(&self, shard: Shard, memory: &mut Memory, pulse: i64) -> Result<()> {
        let heard = self.announcements.heard(shard);
        let missed = heard < memory.pulse || pulse < memory.pulse;
        let doubt = self.announcements.doubt(shard);
        if missed || doubt.is_some() {
            let counts = self.keys.shard(shard).counts.clone();
            let mut reply = Reply::new(self.call(self.read(Op::Waiting, &[shard], vec![counts])).await?)?;
            self.announcements.set_heard(shard, pulse);
            while !reply.is_empty() {
                if let Ok(topic) = reply.name::<Topic>() {
                    self.tell_ready(&topic, shard);
                }
            }
        }
        // Only now: a look that failed is made up for by the next.
        memory.pulse = pulse;
        doubt.into_iter().for_each(Doubt::settle);
        Ok(())
    }

    /// Takes a ready list through a turn, or part of one.
    async fn compact(&self, shard: Shard, topic: Topic, mut left: Option<i64>) -> Result<()> {
        for _ in 0..COMPACT.1 {
            let slice = left.unwrap_or(COMPACT.0).min(COMPACT.0);
            let call = self.change(Op::Compact, shard, None, &[&topic]).arg(topic.as_str()).arg(slice);
            let length = self.call(call).await?.as_i64().unwrap_or(0);
            // Never more than there is: it may have been popped meanwhile.
            let rest = left.unwrap_or(length).min(length) - slice;
            if rest <= 0 {
                return Ok(());
            }
            left = Some(rest);
        }
        self.compaction.go_on(shard, topic, left.unwrap_or(0));
        Ok(())
    }

    async fn forget_lanes(&self, group: &[Shard]) -> Result<()> {
        for shard in group {
            let call = self.read(Op::Lanes, &[*shard], vec![self.keys.shard(*shard).lanes.clone()]);
            let life_ms = i64::try_from(LANE_LIFE.as_millis()).expect("an hour fits an i64");
            self.call(call.arg(self.now_arg()).arg(life_ms).dated()).await?;
        }
        Ok(())
    }
}

/// By how many microseconds a server's clock stepped since the last look, if it did: all due times of its
/// shards shift by as much. A slow answer says less about the moment at which it was read.
fn watch_clock(memory: &mut Memory, server_us: i64, before_us: i64, after_us: i64) -> Option<i64> {
    let offset_us = server_us - before_us.midpoint(after_us);
    let step_us = memory.offset_us.map_or(0, |last_us| offset_us - last_us);
    memory.offset_us = Some(offset_us);
    (step_us.abs() > STEP_US.saturating_add(after_us - before_us)).then_some(step_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_compared_with_its_own_past() {
        let mut memory = Memory::default();
        let mut look =
            |server_us, before_us, after_us| watch_clock(&mut memory, server_us, before_us, after_us);
        assert_eq!(look(5_000_000, 1_000, 3_000), None, "there is nothing to compare with yet");
        assert_eq!(look(6_000_000, 1_001_000, 1_003_000), None, "both moved on by a second");
        assert_eq!(look(67_000_000, 2_001_000, 2_003_000), Some(60_000_000));
        assert_eq!(look(8_000_000, 3_001_000, 3_003_000), Some(-60_000_000), "back");
        assert_eq!(look(10_400_000, 4_000_000, 6_000_000), None, "the answer took two seconds");
    }
}
