//! Cancels reservations that no client has seen. Must not know who reserved them.

use std::sync::Arc;

use futures_util::future::try_join_all;

use super::{
    notifier::Notifier,
    shards::{OUTLET_CHANGES_LIMIT, Shards, outlet_keeps_changing},
};
use crate::{
    job::{Delay, JobId, Outlet, Receipt},
    store::{
        Reservation, Result,
        redis::{
            keys::Shard,
            reply::{Reply, code},
            scripts::Script,
            time::millis_arg,
        },
    },
};

/// Cancels reservations.
pub struct Canceller {
    shards: Arc<Shards>,
    notifier: Arc<Notifier>,
}

impl Canceller {
    pub fn new(shards: Arc<Shards>, notifier: Arc<Notifier>) -> Self {
        Self { shards, notifier }
    }

    /// Cancels reservations; the jobs are due again after `delay`, and ready at once if it is zero. A receipt that is no
    /// longer valid is ignored.
    pub async fn cancel(&self, grants: Vec<(JobId, Receipt)>, delay: Delay) -> Result<()> {
        let shards = self.shards.keys.by_shard(grants, |(id, _)| id);
        let cancels = shards.into_iter().map(|(shard, grants)| self.cancel_on(shard, grants, delay));
        try_join_all(cancels).await.map(drop)
    }

    /// Cancels reservations of an outlet, so that the jobs are ready again before their TTR ends. Failures are logged.
    pub async fn cancel_unseen(&self, outlet: &Outlet, granted: &[Reservation]) {
        let grants = granted.iter().map(|grant| (grant.job.id.clone(), grant.receipt.clone())).collect();
        if let Err(error) = self.cancel(grants, Delay::default()).await {
            tracing::warn!(%outlet, %error, "cannot cancel reservations that no client has seen: they end by their TTR");
        }
    }

    /// Cancels on one shard: the first run returns the outlets, the second has their keys. A reservation that
    /// one run cancelled has another receipt by the next, which ignores it.
    async fn cancel_on(&self, shard: Shard, grants: Vec<(JobId, Receipt)>, delay: Delay) -> Result<()> {
        let mut outlets: Vec<Outlet> = Vec::new();
        for _ in 0..OUTLET_CHANGES_LIMIT {
            let known: Vec<&Outlet> = outlets.iter().collect();
            let mut call = self.shards.change(Script::Cancel, shard, None, &known);
            call = call.arg(millis_arg(delay.as_duration()));
            for (id, receipt) in &grants {
                call = call.arg(id.as_str()).bytes_arg(receipt.as_bytes().to_vec());
            }
            let mut reply = Reply::new(self.shards.call(call).await?)?;
            let mut waiting: Vec<Outlet> = Vec::new();
            let mut moved = false;
            while !reply.is_empty() {
                let (code, outlet) = (reply.int()?, reply.name::<Outlet>()?);
                let list = if code == code::MOVED { &mut outlets } else { &mut waiting };
                moved |= code == code::MOVED;
                if !list.contains(&outlet) {
                    list.push(outlet);
                }
            }
            if delay.as_duration().is_zero() {
                waiting.iter().for_each(|outlet| self.notifier.ready_on(outlet, shard));
            } else if !waiting.is_empty() {
                self.notifier.due_in(delay.as_duration());
            }
            if !moved {
                return Ok(());
            }
        }
        Err(outlet_keeps_changing())
    }
}
