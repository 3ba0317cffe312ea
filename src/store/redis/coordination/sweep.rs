//! The sweep: recovers lost announcements twice a second, so that no ready job waits longer than a second for one. It
//! also watches the server's clock and the permissions of its user, starts the mending of
//! shards whose counts do not match their indexes or whose agenda does not match their schedules, compacts ready lists with many stale entries, expires the replay
//! slots of processes that are gone, and finds out that the servers were emptied or replaced.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{
    announcements::Announcements,
    compaction::Compaction,
    lost_pops::LostPops,
    mend::{Mender, Mismatch},
    notifier::Notifier,
    permissions::PermissionMonitor,
    settings_cache::SettingsCache,
    shards::{PendingChange, Shards},
    store_identity, stored_layout,
};
use crate::{
    clock::Clock,
    job::Outlet,
    messages::failure_log::FailureLog,
    store::{
        Error, Result,
        redis::{connection::retry::ScriptReply, keys::Shard, reply::Reply, scripts::Script, time::micros},
    },
};

const INTERVAL: Duration = Duration::from_millis(500);
/// How long a replay slot is kept after its last use: far longer than any call is retried.
const SLOT_LIFETIME: Duration = Duration::from_secs(3_600);
/// How often replay slots are expired.
const SLOT_EXPIRY_INTERVAL: Duration = Duration::from_secs(600);
/// A smaller step of the server's clock is not logged.
const MIN_CLOCK_STEP_US: i64 = 250_000;
/// How often counts are compared with indexes, and agendas with schedules.
const COMPARISON_INTERVAL: Duration = Duration::from_secs(30);

/// The sweep of one engine.
pub struct Sweep {
    pub shards: Arc<Shards>,
    pub notifier: Arc<Notifier>,
    pub announcements: Arc<Announcements>,
    pub settings: Arc<SettingsCache>,
    pub compaction: Arc<Compaction>,
    pub lost_pops: Arc<LostPops>,
    pub mender: Arc<Mender>,
    pub permissions: PermissionMonitor,
    pub wake: watch::Sender<()>,
}

/// What the sweep remembers of a shard from one round to the next.
#[derive(Debug, Clone, Copy, Default)]
struct LastRound {
    /// How many announcements the shard had made.
    announced: i64,
    offset: Option<ClockOffset>,
}

/// A server's clock minus ours, as read in one round.
#[derive(Debug, Clone, Copy)]
struct ClockOffset {
    us: i64,
    /// By how much it may be wrong: half the time that the reply took.
    error_us: i64,
}

/// When something is due that not every round does.
struct Schedule {
    every: Duration,
    next_us: i64,
}

impl Schedule {
    fn new(every: Duration, now_us: i64) -> Self {
        Self { every, next_us: now_us.saturating_add(micros(every)) }
    }

    fn is_due(&mut self, now_us: i64) -> bool {
        let due = now_us >= self.next_us;
        if due {
            self.next_us = now_us.saturating_add(micros(self.every));
        }
        due
    }

    fn run_next_round(&mut self) {
        self.next_us = 0;
    }
}

impl Sweep {
    /// Sweeps until the engine closes: every group of shards in a task of its own, so that a server that does not
    /// answer delays no other, and beside them what belongs to no shard.
    pub async fn run(self: Arc<Self>) {
        for group in self.shards.groups() {
            self.shards.context().spawn(self.clone().sweep_group(group));
        }
        let log = FailureLog::default();
        let mut wake = self.subscribe();
        while self.next_round(&mut wake).await {
            let layout = stored_layout::watch(self.shards.client(), self.shards.keys.count());
            let ((), settings) = tokio::join!(layout, self.settings.refresh());
            self.log_result(&log, settings.as_ref().err());
        }
    }

    /// Sweeps a group of shards, the first time at once.
    async fn sweep_group(self: Arc<Self>, group: Vec<Shard>) {
        let (mut last, log) = (vec![LastRound::default(); group.len()], FailureLog::default());
        let mut wake = self.subscribe();
        let now_us = self.shards.schedule_now_us();
        let mut comparisons = Schedule::new(COMPARISON_INTERVAL, now_us);
        let mut slot_expiry = Schedule::new(SLOT_EXPIRY_INTERVAL, now_us);
        while self.next_round(&mut wake).await {
            let mut swept = self.sweep_once(&group, &mut last, &mut comparisons).await;
            if swept.is_ok() && slot_expiry.is_due(self.shards.schedule_now_us()) {
                swept = self.expire_replay_slots(&group).await;
            }
            self.log_result(&log, swept.as_ref().err());
        }
    }

    /// A receiver whose first round begins at once.
    fn subscribe(&self) -> watch::Receiver<()> {
        let mut wake = self.wake.subscribe();
        wake.mark_changed();
        wake
    }

    fn log_result(&self, log: &FailureLog, error: Option<&Error>) {
        let now_us = self.shards.context().now_us();
        match error {
            None => {
                if log.succeeded(now_us).is_some() {
                    tracing::info!("the sweep of Redis succeeds again");
                }
            }
            // The health check reports that a server cannot be reached.
            Some(error) if error.is_unavailable() => tracing::debug!(%error, "the sweep failed"),
            Some(error) => {
                if log.failed(now_us) {
                    tracing::warn!(%error, "the sweep of Redis fails");
                }
            }
        }
    }

    /// Waits for the next round; returns false when the engine closes.
    async fn next_round(&self, wake: &mut watch::Receiver<()>) -> bool {
        let context = self.shards.context();
        tokio::select! {
            () = context.clock.sleep_until_period_ends(INTERVAL) => true,
            woken = wake.changed() => woken.is_ok(),
            () = context.closing.cancelled() => false,
        }
    }

    async fn sweep_once(
        &self,
        group: &[Shard],
        last: &mut [LastRound],
        comparisons: &mut Schedule,
    ) -> Result<()> {
        let before_us = self.shards.context().now_us();
        let all = &self.shards.keys;
        let keys_of = |shard: &Shard| {
            let keys = all.shard(*shard);
            keys.of_scripts().chain(keys.of_schedules()).cloned()
        };
        let keys = group.iter().flat_map(keys_of).collect();
        let call = self.shards.read(Script::ShardStatus, group, keys);
        let call = call.arg(all.ready_channel.clone()).arg(all.settings_channel.clone());
        let call = call.optional_arg(comparisons.is_due(self.shards.schedule_now_us()).then_some("1"));
        let call = self.shards.short_retry_in_cluster(call);
        let reply = self.shards.observe(group[0], self.shards.client().call_with_retry(call)).await?;
        let after_us = self.shards.context().now_us();
        let outcome = self.handle_status(group, (before_us, after_us), reply, last, comparisons).await;
        outcome.and(self.compaction.run(group).await)
    }

    /// Handles the status of the shards of one server, which was requested and received at these two moments.
    async fn handle_status(
        &self,
        group: &[Shard],
        (before_us, after_us): (i64, i64),
        ScriptReply { value, node, .. }: ScriptReply,
        last: &mut [LastRound],
        comparisons: &mut Schedule,
    ) -> Result<()> {
        let mut reply = Reply::new(value)?;
        let server_us = reply.int()?.saturating_mul(1_000_000).saturating_add(reply.int()?);
        node.clock.record(before_us, server_us, after_us);
        if self.permissions.update(group[0], reply.list()?.texts()?) {
            // Calls that were refused meanwhile should have changed nothing; verify that.
            comparisons.run_next_round();
        }
        // A group is one server: its first shard remembers the clock.
        if let Some(last) = last.first_mut()
            && let Some(step_us) = detect_clock_step(last, server_us, before_us, after_us)
        {
            self.shards.context().metrics.clock_stepped(step_us);
            let step_ms = step_us / 1_000;
            tracing::warn!(step_ms, "the clock of the Redis server stepped, and due times with it");
        }
        let mut all_announced = Vec::with_capacity(group.len());
        // Before anything that is refused while a shard is missing.
        for shard in group {
            let (announced, counts_are_wrong) = (reply.int()?, reply.int()? == 1);
            let (agenda_is_wrong, fence) = (reply.int()? == 1, reply.bytes()?);
            store_identity::check_shard(&self.shards, *shard, &fence).await;
            if agenda_is_wrong {
                self.mender.start(*shard, Mismatch::Agenda);
            }
            if counts_are_wrong {
                self.mender.start(*shard, Mismatch::Counts);
            }
            all_announced.push(announced);
        }
        self.lost_pops.cancel_on(group).await;
        for ((shard, last), announced) in group.iter().zip(last).zip(all_announced) {
            self.recover_missed(*shard, last, announced).await?;
        }
        Ok(())
    }

    /// Recovers announcements that were made before the last round and have not been received by this one, and
    /// changes of this process whose reply was lost.
    async fn recover_missed(&self, shard: Shard, last: &mut LastRound, announced: i64) -> Result<()> {
        let received = &self.announcements.received;
        let missed = received.last(shard) < last.announced || announced < last.announced;
        let unconfirmed = self.shards.pending_changes.take_unconfirmed(shard);
        if missed || unconfirmed.is_some() {
            let counts = self.shards.keys.shard(shard).counts.clone();
            let call = self.shards.read(Script::ListReadyOutlets, &[shard], vec![counts]);
            let mut reply = Reply::new(self.shards.call(call).await?)?;
            received.set_recovered(shard, announced);
            while !reply.is_empty() {
                if let Ok(outlet) = reply.name::<Outlet>() {
                    self.notifier.ready_on(&outlet, shard);
                }
            }
        }
        // Set last, so that the next round repeats a failed recovery.
        last.announced = announced;
        unconfirmed.into_iter().for_each(PendingChange::confirm);
        Ok(())
    }

    async fn expire_replay_slots(&self, group: &[Shard]) -> Result<()> {
        for shard in group {
            let key = self.shards.keys.shard(*shard).replay_slots.clone();
            let call = self.shards.read(Script::ExpireReplaySlots, &[*shard], vec![key]);
            let lifetime_ms = i64::try_from(SLOT_LIFETIME.as_millis()).expect("an hour fits an i64");
            self.shards.call(call.arg(self.shards.now_arg()).arg(lifetime_ms).deadline()).await?;
        }
        Ok(())
    }
}

/// By how many microseconds a server's clock stepped since the last round, if it did: all due times of its
/// shards shift by as much. A slow reply, now or in the last round, says less about the moment at which the clock was
/// read.
fn detect_clock_step(last: &mut LastRound, server_us: i64, before_us: i64, after_us: i64) -> Option<i64> {
    let offset =
        ClockOffset { us: server_us - before_us.midpoint(after_us), error_us: (after_us - before_us) / 2 };
    let previous = last.offset.replace(offset)?;
    let step_us = offset.us - previous.us;
    let uncertain_us = offset.error_us.saturating_add(previous.error_us);
    (step_us.abs() > MIN_CLOCK_STEP_US.saturating_add(uncertain_us)).then_some(step_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_clock_is_detected_by_the_last_offset() {
        let mut last = LastRound::default();
        let mut read =
            |server_us, before_us, after_us| detect_clock_step(&mut last, server_us, before_us, after_us);
        assert_eq!(read(5_000_000, 1_000, 3_000), None, "there is no last offset yet");
        assert_eq!(read(6_000_000, 1_001_000, 1_003_000), None, "both advanced by a second");
        assert_eq!(read(67_000_000, 2_001_000, 2_003_000), Some(60_000_000));
        assert_eq!(read(8_000_000, 3_001_000, 3_003_000), Some(-60_000_000), "backwards");
        assert_eq!(read(10_400_000, 4_000_000, 6_000_000), None, "the reply took two seconds");
        assert_eq!(read(12_000_000, 7_001_000, 7_003_000), None, "the last reply took two seconds");
    }
}
