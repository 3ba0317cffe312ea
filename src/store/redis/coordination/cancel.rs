//! Cancels reservations that no client has seen. Must not know who reserved them.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    notifier::Notifier,
    shards::{OUTLET_CHANGES_LIMIT, Shards, outlet_keeps_changing},
};
use crate::{
    job::{Delay, JobId, Outlet, Receipt},
    store::{
        Applied, Outcome, Refusal, Reservation, Result,
        redis::{
            indexed::{Indexed, all_calls, by_shard, in_order},
            keys::Shard,
            reply::{Reply, code, unexpected},
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
    /// longer valid is ignored: [`Refusal::Lost`].
    pub async fn cancel(&self, grants: Vec<(JobId, Receipt)>, delay: Delay) -> Result<Vec<Outcome<Applied>>> {
        let count = grants.len();
        let shards = by_shard(&self.shards.keys, grants, |(id, _)| id);
        let cancels = shards.into_iter().map(|(shard, grants)| self.cancel_on(shard, grants, delay));
        Ok(in_order(count, all_calls(cancels).await?))
    }

    /// Cancels reservations of an outlet, so that the jobs are ready again before their TTR ends. Failures are logged.
    pub async fn cancel_unseen(&self, outlet: &Outlet, granted: &[Reservation]) {
        let grants = granted.iter().map(|grant| (grant.job.id.clone(), grant.receipt.clone())).collect();
        if let Err(error) = self.cancel(grants, Delay::default()).await {
            tracing::warn!(%outlet, %error, "cannot cancel reservations that no client has seen: they end by their TTR");
        }
    }

    /// Cancels on one shard. The keys of a job that is ready at once depend on its outlet: if the call does not have them, its
    /// reply names the outlet.
    async fn cancel_on(
        &self,
        shard: Shard,
        grants: Indexed<(JobId, Receipt)>,
        delay: Delay,
    ) -> Result<Indexed<Outcome<Applied>>> {
        let (mut cancelled, mut left) = (Vec::with_capacity(grants.len()), grants);
        let mut outlets: BTreeSet<Outlet> = BTreeSet::new();
        for _ in 0..OUTLET_CHANGES_LIMIT {
            let known: Vec<&Outlet> = outlets.iter().collect();
            let mut call = self.shards.change(Script::Cancel, shard, None, &known);
            call = call.arg(millis_arg(delay.as_duration()));
            for (_, (id, receipt)) in &left {
                call = call.arg(id.as_str()).bytes_arg(receipt.as_bytes().to_vec());
            }
            let mut reply = Reply::new(self.shards.call(call).await?)?;
            let (mut waiting, mut moved) = (BTreeSet::new(), Vec::new());
            for (index, grant) in left {
                match (reply.int()?, reply.optional_name::<Outlet>()?) {
                    (code::OK, Some(outlet)) => {
                        cancelled.push((index, Ok(Applied::Done { topic: outlet.topic.clone() })));
                        waiting.insert(outlet);
                    }
                    (code::REPLACED, Some(outlet)) => {
                        cancelled.push((index, Ok(Applied::Done { topic: outlet.topic.clone() })));
                        self.notifier.waits_again(&outlet, shard);
                    }
                    (code, None) if code::refusal(code) == Some(Refusal::Lost) => {
                        cancelled.push((index, Err(Refusal::Lost)));
                    }
                    (code::MOVED, Some(outlet)) => {
                        moved.push((index, grant));
                        outlets.insert(outlet);
                    }
                    _ => return Err(unexpected("the outcome of a cancel")),
                }
            }
            if delay.as_duration().is_zero() {
                waiting.iter().for_each(|outlet| self.notifier.ready_on(outlet, shard));
            } else if !waiting.is_empty() {
                self.notifier.due_in(delay.as_duration());
            }
            if moved.is_empty() {
                return Ok(cancelled);
            }
            left = moved;
        }
        Err(outlet_keeps_changing())
    }
}
