//! Reserving ready jobs over all shards.

use std::{pin::pin, sync::Arc};

use super::{
    pop::PopProgress,
    reserve_round::{ReserveRound, took_too_long},
    shard_reserve::{SLICE, ShardReserver},
};
use crate::{
    clock::Clock,
    job::Outlet,
    store::{
        Claim, Reservation, Result, Wait,
        redis::{
            coordination::{notifier::Notifier, probe::ReadyProbe, shards::Shards},
            time::{between, micros},
        },
    },
};

/// Reserves jobs.
pub struct Reserver {
    shards: Arc<Shards>,
    notifier: Arc<Notifier>,
    probe: Arc<ReadyProbe>,
    shard_reserver: Arc<ShardReserver>,
}

impl Reserver {
    pub fn new(probe: Arc<ReadyProbe>, shard_reserver: ShardReserver) -> Self {
        let (shards, notifier) = (shard_reserver.shards.clone(), shard_reserver.notifier.clone());
        Self { shards, notifier, probe, shard_reserver: Arc::new(shard_reserver) }
    }

    /// Reserves from the shards that may have ready jobs; if none may, probes all, and returns
    /// fewer jobs than wanted only if there are no more. For a caller that waits anyway, it only requests a probe.
    /// When a step fails or takes so long that the TTRs would suffer, it returns the jobs that
    /// it has.
    pub async fn reserve(&self, outlet: &Outlet, claims: &[Claim], wait: Wait) -> Result<Vec<Reservation>> {
        let began_us = self.shards.context().now_us();
        let mut pop = PopProgress { outlet, claims, granted: Vec::new(), began_us, wait };
        while !pop.is_complete() {
            match self.reserve_step(&mut pop).await {
                Ok(true) => {}
                Ok(false) => break,
                // Other servers may have jobs for a waiting caller; if none answers, the probe reports it.
                Err(_) if pop.granted.is_empty() && self.may_wait_despite_failure(&pop) => break,
                Err(error) if pop.granted.is_empty() => return Err(error),
                Err(error) => {
                    tracing::debug!(%outlet, %error, "reserved fewer jobs than there may be");
                    // Waiting callers must not wait for the next announcement.
                    self.notifier.ready(outlet);
                    break;
                }
            }
        }
        pop.granted.sort_by_key(|grant| grant.claim);
        Ok(pop.granted)
    }

    /// Reserves from the next shards that have ready jobs; returns false if none has.
    async fn reserve_step(&self, pop: &mut PopProgress<'_>) -> Result<bool> {
        let before = pop.granted.len();
        while pop.granted.len() == before {
            let eligible = |shard| !self.shards.is_unresponsive(shard);
            let wanted = pop.claims.len() - before;
            let shards = self.notifier.ready_shards.select(pop.outlet, wanted, SLICE, eligible);
            match &shards[..] {
                [] if pop.wait == Wait::Yes && self.request_probe(pop) => return Ok(false),
                [] if !self.probe_in_time(pop).await? => return Ok(false),
                [] => {}
                [shard] if before == 0 && self.shards.router().has_single_primary() => {
                    let slice = &pop.claims[..wanted.min(SLICE)];
                    pop.granted = self.shard_reserver.reserve(*shard, pop.outlet, slice).await?;
                }
                shards => {
                    let round = ReserveRound::new(&self.shard_reserver, &self.probe, pop);
                    let (jobs, outcome) = round.run(shards).await;
                    self.cancel(pop.outlet, pop.accept(jobs));
                    outcome?;
                }
            }
        }
        Ok(true)
    }

    /// Cancels the reservations of jobs beyond the claims, in a task: no client has seen these jobs.
    fn cancel(&self, outlet: &Outlet, surplus: Vec<Reservation>) {
        if !surplus.is_empty() {
            let (reserver, outlet) = (self.shard_reserver.clone(), outlet.clone());
            let cancel = async move { reserver.canceller.cancel_unseen(&outlet, &surplus).await };
            self.shards.context().spawn(cancel);
        }
    }

    /// Requests a probe for a caller that waits anyway; returns false if the caller must learn that it failed.
    fn request_probe(&self, pop: &PopProgress<'_>) -> bool {
        !self.shards.context().closing.is_cancelled() && self.probe.request(pop.outlet)
    }

    /// Whether a caller that waits anyway continues to wait although some of the shards did not answer.
    fn may_wait_despite_failure(&self, pop: &PopProgress<'_>) -> bool {
        pop.wait == Wait::Yes && !self.shards.router().has_single_primary() && self.request_probe(pop)
    }

    /// Probes every shard, in the time that is left. In a Cluster it ends as soon as some shard has ready jobs, once
    /// a server takes long to answer.
    async fn probe_in_time(&self, pop: &PopProgress<'_>) -> Result<bool> {
        let context = self.shards.context();
        let single_primary = self.shards.router().has_single_primary();
        let prompt = context.options.prompt_timeout;
        let began_us = context.now_us();
        let left = pop.time_left(began_us);
        if single_primary && left.is_none() {
            return self.probe.probe(pop.outlet).await;
        }
        let left = left.map_or(i64::MAX, |left| micros(if single_primary { left } else { left.min(prompt) }));
        let end_us = began_us.saturating_add(left);
        let prompt_us = if single_primary { i64::MAX } else { began_us.saturating_add(micros(prompt)) };
        let (probe, outlet) = (self.probe.clone(), pop.outlet.clone());
        // Spawned: its result is kept for later pops, even if this one no longer waits for it.
        let mut probing = context.spawn(async move { probe.probe(&outlet).await });
        let (ready_shards, mut recoveries) = (&self.notifier.ready_shards, self.shards.recoveries());
        loop {
            let mut changed = pin!(ready_shards.changed());
            changed.as_mut().enable();
            let now_us = context.now_us();
            let late = now_us >= prompt_us;
            if late && ready_shards.contains_any(pop.outlet, |shard| !self.shards.is_unresponsive(shard)) {
                return Ok(true);
            }
            tokio::select! {
                found = &mut probing => return found.unwrap_or_else(|_| Err(took_too_long())),
                () = context.clock.sleep(between(now_us, end_us)), if end_us < i64::MAX => {
                    return Err(took_too_long());
                }
                () = context.clock.sleep(between(now_us, prompt_us)), if !late && prompt_us < i64::MAX => {}
                () = changed, if late => {}
                Ok(()) = recoveries.changed(), if late => {}
            }
        }
    }
}
