//! Patching delayed and ready jobs, and requeueing dead ones.

use std::sync::Arc;

use super::{
    read::decode_job,
    single_job::{JobStepOutcome, SingleJob, decode_state, notify_changed},
};
use crate::{
    job::{Actor, Due, JobId, Outlet, Timestamp, TopicFilter, encode_steps},
    store::{
        Patch, Patched, Requeued, Result,
        redis::{
            codec::{record, scope::encode_scope},
            connection::call::ScriptCall,
            coordination::{
                notifier::Notifier,
                shards::{OUTLET_CHANGES_LIMIT, Shards, outlet_keeps_changing},
            },
            reply::{Reply, code, unexpected},
            scripts::Script,
            time::millis_arg,
        },
    },
};

/// Patches jobs.
pub struct Patcher {
    job: Arc<SingleJob>,
}

impl Patcher {
    pub fn new(job: Arc<SingleJob>) -> Self {
        Self { job }
    }

    pub async fn patch(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        patch: Patch,
        by: Option<&Actor>,
    ) -> Result<Patched> {
        let ttr = patch.ttr.map(|ttr| millis_arg(ttr.as_duration()));
        let max_attempts = patch.max_attempts.map(i64::from);
        let retry = patch.retry.map(|retry| [b"+", &encode_steps(&retry)[..]].concat());
        let body = patch.body.map(|body| body.as_bytes().clone());
        let args = |call: ScriptCall| {
            let retry = retry.clone().map(bytes::Bytes::from);
            let call = call.due_args(patch.due).optional_arg(ttr.clone()).optional_arg(max_attempts);
            call.optional_arg(retry).optional_arg(body.clone()).optional_arg(by.map(Actor::as_str))
        };
        match self.job.run(Script::Patch, scope, id, args).await? {
            JobStepOutcome::Done(job) => Ok(Patched::Done(job)),
            JobStepOutcome::Gone => Ok(Patched::Gone),
            JobStepOutcome::Refused(state) => Ok(Patched::Refused(state)),
            JobStepOutcome::Lost => Err(unexpected("the outcome of a patch")),
        }
    }
}

/// Requeues dead jobs.
pub struct Requeuer {
    shards: Arc<Shards>,
    notifier: Arc<Notifier>,
}

impl Requeuer {
    pub fn new(shards: Arc<Shards>, notifier: Arc<Notifier>) -> Self {
        Self { shards, notifier }
    }

    pub async fn requeue(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        due: Due,
        by: Option<&Actor>,
    ) -> Result<Requeued> {
        let (shard, started_us) = (self.shards.keys.shard_of(id), self.shards.context().now_us());
        let mut outlet: Option<Outlet> = None;
        for _ in 0..OUTLET_CHANGES_LIMIT {
            let outlets: Vec<&Outlet> = outlet.iter().collect();
            let slot = self.shards.replay_slots.acquire(shard);
            let call = self.shards.change(Script::Requeue, shard, Some(&slot), &outlets);
            let call = call.started_at(started_us).arg(encode_scope(scope));
            let call = call.arg(id.as_str()).due_args(Some(due)).optional_arg(by.map(Actor::as_str));
            let mut reply = Reply::new(self.shards.call_acknowledged(call).await?)?;
            return match reply.int()? {
                code::OK => {
                    // After a retry the job may be gone already.
                    let Some(raw) = reply.value()?.into_bytes() else { return Ok(Requeued::Gone) };
                    let job = decode_job(id, &raw)?;
                    let now = Timestamp::from_millis(reply.int()?);
                    let outlet = record::outlet_of(&job, &raw);
                    notify_changed(&self.shards, &self.notifier, (&job, &outlet), now);
                    Ok(Requeued::Done(Box::new(job)))
                }
                code::GONE => Ok(Requeued::Gone),
                code::REFUSED => Ok(Requeued::NotDead(decode_state(&mut reply)?)),
                code::MOVED => {
                    outlet = Some(reply.name()?);
                    continue;
                }
                _ => Err(unexpected("the outcome of a requeue")),
            };
        }
        Err(outlet_keeps_changing())
    }
}
