//! Calls to shards: builds a call with the keys of its shards, makes it, and remembers the changes whose outcome is
//! unknown. The listener was not notified of the jobs that such a change made ready, so the sweep rechecks its shard.
//! Must not know the operations.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use fred::{
    bytes_utils::Str,
    types::{Key, Value},
};
use tokio::sync::watch;

use super::{
    replay_slots::{ReplaySlot, ReplaySlots},
    unresponsive::UnresponsiveServers,
};
use crate::{
    job::{HostNumber, Origin, Outlet},
    store::{
        Error, Result,
        redis::{
            connection::{
                call::ScriptCall,
                retry::{ScriptClient, ScriptReply},
                router::Router,
            },
            context::EngineContext,
            keys::{Keys, SHARD_KEYS, Shard},
            scripts::Script,
            time::TimeSource,
        },
    },
};

/// How often the outlet of a job may change while an operation is under way.
pub const OUTLET_CHANGES_LIMIT: usize = 8;

/// The shards of one queue.
pub struct Shards {
    pub keys: Keys,
    pub replay_slots: ReplaySlots,
    pub pending_changes: PendingChanges,
    client: ScriptClient,
    time: TimeSource,
    unresponsive: UnresponsiveServers,
    /// The name of this process in its announcements.
    process: String,
    /// The origin of this process's announcements, by shard.
    origins: Vec<Str>,
}

impl Shards {
    /// With `to_move` this process may change nothing but behind a fence of its own (`scripts/record.lua`).
    pub fn new(client: ScriptClient, keys: Keys, time: TimeSource, to_move: bool) -> Arc<Self> {
        let shards = keys.count();
        let replay_slots = ReplaySlots::new(shards);
        let process = format!("{}{}", if to_move { "m" } else { "" }, replay_slots.process());
        Arc::new(Self {
            pending_changes: PendingChanges::new(shards),
            unresponsive: UnresponsiveServers::default(),
            origins: (0..shards).map(|shard| format!("{process} {shard}").into()).collect(),
            process,
            replay_slots,
            keys,
            client,
            time,
        })
    }

    pub fn context(&self) -> &EngineContext {
        &self.client.context
    }

    pub fn router(&self) -> &Router {
        &self.client.router
    }

    pub fn client(&self) -> &ScriptClient {
        &self.client
    }

    /// The name of this process in its announcements.
    pub fn process(&self) -> &str {
        &self.process
    }

    /// The shards, grouped by what one script may use: all together, or in a Cluster each alone.
    pub fn groups(&self) -> Vec<Vec<Shard>> {
        if self.router().has_single_primary() {
            vec![self.keys.all().collect()]
        } else {
            self.keys.all().map(|shard| vec![shard]).collect()
        }
    }

    /// The number of a host in this store.
    pub fn host_number(&self, origin: &Origin) -> HostNumber {
        HostNumber::new(&self.context().layout.host_seed(), origin)
    }

    /// A call that reads a group of shards.
    pub fn read(&self, script: Script, group: &[Shard], keys: Vec<Key>) -> ScriptCall {
        let first = group.first().copied().unwrap_or_default();
        ScriptCall::new(script, self.keys.shard(first).slot, keys, Vec::with_capacity(4))
    }

    /// A call that changes a shard, with the keys and arguments of `scripts/shard.lua`. `slot` is for scripts that
    /// remember their reply.
    pub fn change(
        &self,
        script: Script,
        shard: Shard,
        slot: Option<&ReplaySlot<'_>>,
        outlets: &[&Outlet],
    ) -> ScriptCall {
        self.change_group(script, &[shard], slot, outlets)
    }

    /// The call with the keys of the ids that are remembered on its shard, for the scripts that have `remembering.lua`.
    pub fn with_remembered(&self, mut call: ScriptCall, shard: Shard) -> ScriptCall {
        call.keys.extend(self.keys.shard(shard).of_remembered().map(Clone::clone));
        call
    }

    /// Most ids that each shard remembers.
    pub fn most_remembered(&self) -> i64 {
        let most = self.context().options.dedup_max.div_ceil(u64::from(self.keys.count()));
        i64::try_from(most).unwrap_or(i64::MAX)
    }

    /// A call that changes each shard of a group, which is not empty, with the keys of one shard after the other.
    pub fn change_group(
        &self,
        script: Script,
        group: &[Shard],
        slot: Option<&ReplaySlot<'_>>,
        outlets: &[&Outlet],
    ) -> ScriptCall {
        let mut all = Vec::with_capacity(group.len() * (SHARD_KEYS + 2 * outlets.len()));
        for shard in group {
            let keys = self.keys.shard(*shard);
            all.extend(keys.of_scripts().cloned());
            all.extend(outlets.iter().flat_map(|outlet| [keys.ready(outlet), keys.dead(&outlet.topic)]));
        }
        let mut args: Vec<Value> = Vec::with_capacity(12 + outlets.len());
        args.push(self.now_arg());
        let deadline_arg = Some(args.len());
        args.push("".into());
        args.push(self.keys.ready_channel.clone().into());
        args.push(self.origin(group[0]));
        match slot {
            Some(slot) => args.extend([slot.field().into(), slot.sequence().into()]),
            None => args.extend(["".into(), 0.into()]),
        }
        args.push(i64::try_from(outlets.len()).expect("outlets fit an i64").into());
        args.extend(outlets.iter().map(|outlet| outlet_arg(outlet)));
        let first = self.keys.shard(group[0]);
        let call = ScriptCall::new(script, first.slot, all, args);
        ScriptCall { mark: Some(first.mark.clone()), deadline_arg, changes: group.to_vec(), ..call }
    }

    /// Retries a call for a short time only in a Cluster, so that it does not delay calls to other servers.
    pub fn short_retry_in_cluster(&self, call: ScriptCall) -> ScriptCall {
        if self.router().has_single_primary() { call } else { call.with_short_retry() }
    }

    /// The origin of this process's announcements about a shard.
    pub fn origin(&self, shard: Shard) -> Value {
        self.origins[usize::from(shard)].clone().into()
    }

    /// The time by which rare tasks of the sweep are due: that of the manual clock, so that a test decides when, or ours.
    pub fn schedule_now_us(&self) -> i64 {
        match &self.time {
            TimeSource::Server => self.context().now_us(),
            TimeSource::Manual(clock) => clock.now_micros(),
        }
    }

    /// The server's time, if its clock is so far ahead of ours.
    pub fn server_now_us(&self, ahead_us: i64) -> i64 {
        match &self.time {
            TimeSource::Server => self.context().now_us() + ahead_us,
            TimeSource::Manual(clock) => clock.now_micros(),
        }
    }

    /// The time for a script: that of the manual clock, or `''` for the server's own.
    pub fn now_arg(&self) -> Value {
        match &self.time {
            TimeSource::Server => "".into(),
            TimeSource::Manual(clock) => clock.now_micros().into(),
        }
    }

    /// Calls until there is a reply, and waits for the replicas if so configured: for changes that are acknowledged.
    pub async fn call_acknowledged(&self, call: ScriptCall) -> Result<Value> {
        match self.call_with_durability(call).await? {
            (value, true) => Ok(value),
            (_, false) => Err(not_durable()),
        }
    }

    /// Calls until there is a reply, without waiting for replicas: for changes that no acknowledgement depends on.
    pub async fn call(&self, call: ScriptCall) -> Result<Value> {
        Ok(self.call_with_durability(ScriptCall { mark: None, ..call }).await?.0)
    }

    /// Calls until there is a reply. Returns it, and whether enough replicas have received the change.
    pub async fn call_with_durability(&self, call: ScriptCall) -> Result<(Value, bool)> {
        let pending: Vec<PendingChange<'_>> =
            call.changes.iter().map(|shard| self.pending_changes.begin(*shard)).collect();
        let ScriptReply { value, durable, retried, .. } = self.client.call_with_retry(call).await?;
        // The reply of a second run need not name everything that the first one did, and a reply that is not
        // durable never reaches the code that would notify the listener.
        if !retried && durable {
            pending.into_iter().for_each(PendingChange::confirm);
        }
        Ok((value, durable))
    }

    /// Whether jobs of other shards need not wait for a reply about this one. Never with a single primary.
    pub fn is_unresponsive(&self, shard: Shard) -> bool {
        self.unresponsive.any()
            && self
                .router()
                .server_for_slot(self.keys.shard(shard).slot)
                .is_some_and(|server| self.unresponsive.contains(&server))
    }

    /// A receiver that changes when a server replies again that did not, from this call on.
    pub fn recoveries(&self) -> watch::Receiver<()> {
        self.unresponsive.recoveries()
    }

    /// Awaits a call about a shard, and remembers whether its server replies.
    pub async fn observe<T>(&self, shard: Shard, call: impl Future<Output = Result<T>>) -> Result<T> {
        if self.router().has_single_primary() {
            return call.await;
        }
        let slot = self.keys.shard(shard).slot;
        let server = || self.router().server_for_slot(slot);
        self.unresponsive.observe(self.context(), server, call).await
    }

    /// Counts and logs broken entries that a script set aside.
    pub fn report_set_aside(&self, shard: Shard, entries: u64) {
        if entries > 0 {
            self.context().metrics.set_aside(entries);
            let key = self.keys.shard(shard).broken.as_str_lossy();
            tracing::error!(entries, %key, "set broken entries aside");
        }
    }
}

/// Which shards the sweep must recheck.
#[derive(Debug)]
pub struct PendingChanges(Vec<AtomicBool>);

/// A change of a shard whose outcome is not known yet. If it is dropped before it is [confirmed](Self::confirm), the
/// sweep rechecks the shard: this process ignores its own announcements, so only the sweep can notify its listener.
pub struct PendingChange<'a>(Option<&'a AtomicBool>);

impl PendingChange<'_> {
    /// The outcome is known.
    pub fn confirm(mut self) {
        self.0 = None;
    }
}

impl Drop for PendingChange<'_> {
    fn drop(&mut self) {
        if let Some(recheck) = self.0 {
            recheck.store(true, Ordering::Relaxed);
        }
    }
}

impl PendingChanges {
    pub fn new(shards: u16) -> Self {
        Self((0..shards).map(|_| AtomicBool::new(false)).collect())
    }

    /// Begins a change.
    pub fn begin(&self, shard: Shard) -> PendingChange<'_> {
        PendingChange(Some(&self.0[usize::from(shard)]))
    }

    /// Takes over an unconfirmed change of a shard, if there was any.
    pub fn take_unconfirmed(&self, shard: Shard) -> Option<PendingChange<'_>> {
        let recheck = &self.0[usize::from(shard)];
        // Created only if needed: dropping one would mark the shard again.
        recheck.swap(false, Ordering::Relaxed).then(|| PendingChange(Some(recheck)))
    }

    /// Has a shard rechecked.
    pub fn recheck(&self, shard: Shard) {
        if let Some(recheck) = self.0.get(usize::from(shard)) {
            recheck.store(true, Ordering::Relaxed);
        }
    }

    /// Has all shards rechecked.
    pub fn recheck_all(&self) {
        self.0.iter().for_each(|recheck| recheck.store(true, Ordering::Relaxed));
    }
}

/// The name of an outlet as an argument of scripts.
pub fn outlet_arg(outlet: &Outlet) -> Value {
    if outlet.is_plain() { outlet.topic.as_str().into() } else { outlet.to_string().into() }
}

/// The error when too few replicas received a change.
pub fn not_durable() -> Error {
    Error::NotDurable("too few replicas received the change in time".to_owned())
}

/// The error for a job that is deleted and added to other outlets faster than an operation can follow.
pub fn outlet_keeps_changing() -> Error {
    Error::Unavailable("the topic of the job keeps changing".to_owned())
}
