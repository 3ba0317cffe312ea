//! Changing one job by its id: the steps of a holder, and a patch.

use std::sync::Arc;

use super::read::decode_job;
use crate::{
    job::{Job, JobId, JobState, Outlet, State, Timestamp, TopicFilter},
    store::{
        Result,
        redis::{
            codec::{record, scope::encode_scope},
            connection::call::ScriptCall,
            coordination::{
                compaction::Compaction,
                notifier::Notifier,
                shards::{OUTLET_CHANGES_LIMIT, Shards, outlet_keeps_changing},
            },
            reply::{Reply, code, unexpected},
            scripts::Script,
        },
    },
};

/// The outcome of a script with the prelude `scripts/reservation.lua`.
pub enum JobStepOutcome {
    Done(Box<Job>),
    Gone,
    Lost,
    Refused(State),
}

/// Runs scripts on one job.
pub struct SingleJob {
    shards: Arc<Shards>,
    notifier: Arc<Notifier>,
    compaction: Arc<Compaction>,
}

impl SingleJob {
    pub fn new(shards: Arc<Shards>, notifier: Arc<Notifier>, compaction: Arc<Compaction>) -> Arc<Self> {
        Arc::new(Self { shards, notifier, compaction })
    }

    /// Runs a script on one job. The first call has no keys of an outlet, which is enough for most steps; otherwise the
    /// reply names the outlet, and the next call has its keys.
    pub async fn run(
        &self,
        script: Script,
        scope: &TopicFilter,
        id: &JobId,
        add_args: impl Fn(ScriptCall) -> ScriptCall,
    ) -> Result<JobStepOutcome> {
        let (shard, scope) = (self.shards.keys.shard_of(id), encode_scope(scope));
        let started_us = self.shards.context().now_us();
        let mut outlet: Option<Outlet> = None;
        for _ in 0..OUTLET_CHANGES_LIMIT {
            let slot = self.shards.replay_slots.acquire(shard);
            let known: Vec<&Outlet> = outlet.iter().collect();
            let call = self.shards.change(script, shard, Some(&slot), &known).started_at(started_us);
            let call = add_args(call.arg(scope.clone()).arg(id.as_str()));
            let mut reply = Reply::new(self.shards.call_acknowledged(call).await?)?;
            return Ok(match reply.int()? {
                code::OK => {
                    let raw = reply.bytes()?;
                    let job = decode_job(id, &raw)?;
                    let outlet = record::outlet_of(&job, &raw);
                    let now = Timestamp::from_millis(reply.int()?);
                    if reply.int()? == 1 {
                        self.compaction.request(shard, &outlet);
                    }
                    notify_changed(&self.shards, &self.notifier, (&job, &outlet), now);
                    JobStepOutcome::Done(Box::new(job))
                }
                code::GONE => JobStepOutcome::Gone,
                code::LOST => JobStepOutcome::Lost,
                code::REFUSED => JobStepOutcome::Refused(decode_state(&mut reply)?),
                code::MOVED => {
                    outlet = Some(reply.name()?);
                    continue;
                }
                _ => return Err(unexpected("the outcome of a step")),
            });
        }
        Err(outlet_keeps_changing())
    }
}

/// Notifies the listener of a job's new state.
pub fn notify_changed(shards: &Shards, notifier: &Notifier, (job, outlet): (&Job, &Outlet), now: Timestamp) {
    match &job.state {
        JobState::Ready => notifier.ready_on(outlet, shards.keys.shard_of(&job.id)),
        JobState::Delayed => notifier.due_in(job.due_at.since(now)),
        JobState::Reserved(reserved) => notifier.due_in(reserved.until.since(now)),
        JobState::Dead(_) => {
            if let Some(retention) = shards.context().options.dead_retention {
                notifier.due_in(retention);
            }
        }
    }
}

/// Reads a state from a reply.
pub fn decode_state(reply: &mut Reply) -> Result<State> {
    let code = u8::try_from(reply.int()?).ok();
    code.and_then(record::decode_state).ok_or_else(|| unexpected("a state"))
}
