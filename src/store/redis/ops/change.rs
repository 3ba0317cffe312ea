//! Patching delayed and ready jobs, and requeueing dead ones.

use std::sync::Arc;

use fred::types::Value;

use super::{
    read::decode_job,
    single_job::{JobStepOutcome, SingleJob, decode_state},
};
use crate::{
    job::{Actor, Delay, Due, JobId, Outlet, TopicFilter, encode_steps},
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
        let (kind, due) = match patch.due {
            None => ("", Value::from("")),
            Some(Due::After(delay)) => ("after", millis_arg(delay.as_duration())),
            Some(Due::At(moment)) => ("at", moment.as_millis().into()),
        };
        let ttr = patch.ttr.map(|ttr| millis_arg(ttr.as_duration()));
        let max_attempts = patch.max_attempts.map(i64::from);
        let retry = patch.retry.map(|retry| [b"+", &encode_steps(&retry)[..]].concat());
        let body = patch.body.map(|body| body.as_bytes().clone());
        let args = |call: ScriptCall| {
            let retry = retry.clone().map(bytes::Bytes::from);
            let call = call.arg(kind).arg(due.clone()).optional_arg(ttr.clone()).optional_arg(max_attempts);
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
        delay: Delay,
        by: Option<&Actor>,
    ) -> Result<Requeued> {
        let (shard, started_us) = (self.shards.keys.shard_of(id), self.shards.context().now_us());
        let mut outlet: Option<Outlet> = None;
        for _ in 0..OUTLET_CHANGES_LIMIT {
            let outlets: Vec<&Outlet> = outlet.iter().collect();
            let slot = self.shards.replay_slots.acquire(shard);
            let call = self.shards.change(Script::Requeue, shard, Some(&slot), &outlets);
            let call = call.started_at(started_us).arg(encode_scope(scope));
            let call = call
                .arg(millis_arg(delay.as_duration()))
                .arg(id.as_str())
                .optional_arg(by.map(Actor::as_str));
            let mut reply = Reply::new(self.shards.call_acknowledged(call).await?)?;
            return match reply.int()? {
                code::OK => {
                    // After a retry the job may be gone already.
                    let Some(raw) = reply.value()?.into_bytes() else { return Ok(Requeued::Gone) };
                    let job = decode_job(id, &raw)?;
                    self.notifier.waiting_for(&record::outlet_of(&job, &raw), shard, delay);
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
