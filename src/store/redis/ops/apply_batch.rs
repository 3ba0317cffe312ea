//! Steps that share calls: deletes, and changes of jobs that a list showed.

use std::{collections::BTreeSet, time::Duration};

use fred::types::Value;

use super::apply::{StepRunner, expiry_arg, reason_arg, state_of};
use crate::{
    job::{Actor, Due, ExpiryChange, Outlet, State, TopicFilter},
    store::{
        Applied, DeleteRule, DeletedJob, JobChange, Outcome, Refusal, Requeue, Result, Step, StepAction,
        redis::{
            codec::{record::state_code, scope::encode_scope},
            connection::call::ScriptCall,
            coordination::shards::{OUTLET_CHANGES_LIMIT, outlet_keeps_changing},
            indexed::{Indexed, all_calls, by_shard, in_order},
            keys::Shard,
            reply::{Reply, code, unexpected},
            scripts::Script,
            time::millis_arg,
        },
    },
};

/// Most jobs of a list that one run of the script changes, so that none blocks Redis for long.
const SLICE: usize = 100;

/// Calls that several steps share: a script, its first arguments, and those of each step. The script's reply begins with 1 if a
/// list should be compacted; then it has for each step a code, an outlet, which is empty if nothing changed, and a detail.
struct SharedCalls<A> {
    script: Script,
    first_args: Vec<Value>,
    add_args: A,
    detail: Detail,
    /// If ids are remembered, how many of each shard. The script also gets the keys for it, and the reply also has the number of ids
    /// that were forgotten early.
    remembers: Option<i64>,
    /// The refusal for a job that is gone.
    gone: Refusal,
}

/// What a reply says of each step at last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// The job's state before.
    State,
    /// The milliseconds until the job is due, or -1.
    Wait,
}

impl StepRunner {
    /// Deletes jobs of one scope. Each shard remembers `most` ids; with 0, those of these jobs are not remembered.
    pub(super) async fn delete(
        &self,
        scope: &TopicFilter,
        rule: DeleteRule,
        steps: &[Step],
        most: i64,
    ) -> Result<Vec<Outcome<Applied>>> {
        let calls = &SharedCalls {
            script: Script::Delete,
            first_args: vec![
                encode_scope(scope).into(),
                i64::from(rule == DeleteRule::UnlessReserved).into(),
            ],
            add_args: |call: ScriptCall, step: &Step| call.arg(step.id.as_str()),
            detail: Detail::State,
            remembers: Some(most),
            gone: Refusal::Gone,
        };
        let started_us = self.shards.context().now_us();
        let shards = by_shard(&self.shards.keys, steps.iter().collect(), |step: &&Step| &step.id);
        let deletes = shards.into_iter().map(|(shard, steps)| async move {
            self.apply_on(shard, calls, steps, BTreeSet::new(), started_us).await
        });
        Ok(in_order(steps.len(), all_calls(deletes).await?))
    }

    /// Changes jobs that a list showed, for one actor.
    pub(super) async fn change_seen(
        &self,
        by: Option<&Actor>,
        steps: &[Step],
    ) -> Result<Vec<Outcome<Applied>>> {
        let calls = &SharedCalls {
            script: Script::Change,
            first_args: vec![by.map_or("", Actor::as_str).into()],
            add_args: add_seen,
            detail: Detail::Wait,
            remembers: None,
            gone: Refusal::NotAsSeen,
        };
        let started_us = self.shards.context().now_us();
        let shards = by_shard(&self.shards.keys, steps.iter().collect(), |step: &&Step| &step.id);
        let changes = shards.into_iter().map(|(shard, steps)| async move {
            let mut applied = Vec::with_capacity(steps.len());
            // One slice after the other: a job may be named twice, and other calls come in between.
            for slice in steps.chunks(SLICE) {
                let (fit, unfit): (Indexed<&Step>, _) = slice.iter().partition(|(_, step)| may_apply(step));
                applied.extend(unfit.into_iter().map(|(index, _)| (index, Err(Refusal::NotAsSeen))));
                let outlets = fit.iter().filter_map(|(_, step)| needed_outlet(step)).collect();
                let done = self.apply_on(shard, calls, fit, outlets, started_us).await;
                applied.extend(done.map_err(|error| error.after(applied.len()))?);
            }
            Ok(applied)
        });
        Ok(in_order(steps.len(), all_calls(changes).await?))
    }

    /// Applies steps to jobs of one shard. The keys of a ready or dead job depend on its outlet: if the call does not have
    /// them, its reply names the outlet.
    async fn apply_on<A: Fn(ScriptCall, &Step) -> ScriptCall>(
        &self,
        shard: Shard,
        calls: &SharedCalls<A>,
        steps: Indexed<&Step>,
        mut outlets: BTreeSet<Outlet>,
        started_us: i64,
    ) -> Result<Indexed<Outcome<Applied>>> {
        let (mut applied, mut left) = (Vec::with_capacity(steps.len()), steps);
        for _ in 0..OUTLET_CHANGES_LIMIT {
            if left.is_empty() {
                return Ok(applied);
            }
            let slot = self.shards.replay_slots.acquire(shard);
            let known: Vec<&Outlet> = outlets.iter().collect();
            let call = self.shards.change(calls.script, shard, Some(&slot), &known).started_at(started_us);
            let mut call = calls.first_args.iter().cloned().fold(call, ScriptCall::arg);
            if let Some(most) = calls.remembers {
                call = self.shards.with_remembered(call, shard).arg(most);
            }
            let call = left.iter().fold(call, |call, (_, step)| (calls.add_args)(call, step));
            let reply = self.shards.call_acknowledged(call).await;
            let mut reply = Reply::new(reply.map_err(|error| error.after(applied.len()))?)?;
            let has_many_stale_entries = reply.int()? == 1;
            if has_many_stale_entries {
                known.into_iter().for_each(|outlet| self.compaction.request(shard, outlet));
            }
            if calls.remembers.is_some() {
                self.shards.context().metrics.ids_not_kept(0, reply.count()?);
            }
            let mut moved = Vec::new();
            for (index, step) in left {
                let (code, outlet) = (reply.int()?, reply.optional_name::<Outlet>()?);
                let detail = reply.int()?;
                match (code, outlet) {
                    (code::OK, Some(outlet)) => {
                        let done = match calls.detail {
                            Detail::State => {
                                Applied::Deleted(DeletedJob { topic: outlet.topic, state: state_of(detail)? })
                            }
                            Detail::Wait => {
                                self.notify_waiting(shard, &outlet, detail);
                                Applied::Done { topic: outlet.topic }
                            }
                        };
                        applied.push((index, Ok(done)));
                    }
                    (code::MOVED, Some(outlet)) => {
                        moved.push((index, step));
                        outlets.insert(outlet);
                    }
                    (code::IN_STATE, None) if calls.detail == Detail::State => {
                        applied.push((index, Err(Refusal::InState(state_of(detail)?))));
                    }
                    (code, None) if code::refusal(code) == Some(Refusal::Gone) => {
                        applied.push((index, Err(calls.gone.clone())));
                    }
                    _ => return Err(unexpected("the outcome of a step")),
                }
            }
            left = moved;
        }
        if left.is_empty() { Ok(applied) } else { Err(outlet_keeps_changing()) }
    }

    /// Notifies the listener of a job that waits for so many milliseconds, or is gone when negative.
    fn notify_waiting(&self, shard: Shard, outlet: &Outlet, wait_ms: i64) {
        match u64::try_from(wait_ms) {
            Ok(0) => self.notifier.ready_on(outlet, shard),
            Ok(wait_ms) => self.notifier.due_in(Duration::from_millis(wait_ms)),
            Err(_) => {}
        }
    }
}

/// Whether a change applies to the state that was seen, and its topic is the caller's.
fn may_apply(step: &Step) -> bool {
    match &step.action {
        StepAction::Change { topic, state, change, .. } => {
            change.applies_to(*state) && step.scope.allows(topic)
        }
        _ => false,
    }
}

/// The outlet whose keys a change needs in the state that the list showed. The list does not show a host: this is the plain one.
fn needed_outlet(step: &Step) -> Option<Outlet> {
    let StepAction::Change { topic, state, change, .. } = &step.action else { return None };
    let needs_keys = matches!(state, State::Ready | State::Dead)
        || matches!(change, JobChange::Reschedule(_) | JobChange::Revoke { .. });
    needs_keys.then(|| Outlet::plain(topic.clone()))
}

fn add_seen(call: ScriptCall, step: &Step) -> ScriptCall {
    let StepAction::Change { topic, state, moment, change } = &step.action else { return call };
    let (due, names) = match change {
        JobChange::Delete => (Due::default(), ["delete"; 2]),
        JobChange::Reschedule(due) => (*due, ["after", "at"]),
        JobChange::Requeue(Requeue { due, .. }) => (*due, ["requeue", "requeue_at"]),
        JobChange::Revoke { due, .. } => (*due, ["revoke", "revoke_at"]),
    };
    let (kind, ms): (&str, Value) = match due {
        Due::After(delay) => (names[0], millis_arg(delay.as_duration())),
        Due::At(moment) => (names[1], moment.as_millis().into()),
    };
    let call = call.arg(step.id.as_str()).arg(topic.as_str());
    let call = call.arg(i64::from(state_code(*state))).arg(moment.as_millis()).arg(kind).arg(ms);
    match change {
        JobChange::Delete | JobChange::Reschedule(_) => expiry_arg(call, ExpiryChange::Keep),
        JobChange::Requeue(Requeue { expiry, .. }) => expiry_arg(call, *expiry),
        JobChange::Revoke { reason, .. } => call.optional_arg(reason_arg(reason.as_ref())),
    }
}
