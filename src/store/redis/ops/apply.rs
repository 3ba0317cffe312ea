//! Steps: which script carries out which action. Steps that change one job by its id each have a call; deletes, changes of
//! listed jobs, and cancels share calls (`apply_batch.rs`, `coordination/cancel.rs`).

use std::sync::Arc;

use bytes::Bytes;

use super::{gone_delay::GoneDelay, read::decode_job};
use crate::{
    job::{
        Actor, Delay, Expiry, ExpiryChange, Job, NoteText, Outlet, Reason, Receipt, State, Timestamp,
        encode_steps,
    },
    store::{
        Applied, DeleteRule, Outcome, Patch, Refusal, Release, Result, Step, StepAction,
        redis::{
            codec::{record, scope::encode_scope},
            connection::call::ScriptCall,
            coordination::{
                cancel::Canceller,
                compaction::Compaction,
                notifier::Notifier,
                shards::{OUTLET_CHANGES_LIMIT, Shards, outlet_keeps_changing},
            },
            indexed::{all_calls, by_shard, in_order},
            reply::{Reply, code, unexpected},
            scripts::Script,
            time::millis_arg,
        },
    },
};

/// A flag beside those of [`Expiry::encode`].
const KEEPS_ON_EXPIRY: u8 = 4;

/// Applies steps.
pub struct StepRunner {
    pub shards: Arc<Shards>,
    pub notifier: Arc<Notifier>,
    pub compaction: Arc<Compaction>,
    pub canceller: Arc<Canceller>,
}

impl StepRunner {
    /// Applies the steps in their order. Those of a kind that follow each other are applied together.
    pub async fn apply(&self, steps: &[Step]) -> Result<Vec<Outcome<Applied>>> {
        let delay = GoneDelay::start(self.shards.context());
        let mut applied = Vec::with_capacity(steps.len());
        for run in steps.chunk_by(belong_together) {
            let done = self.apply_run(run).await;
            applied.extend(done.map_err(|error| error.after(applied.len()))?);
        }
        let is_hidden = |(step, applied): (&Step, &Outcome<Applied>)| {
            !step.scope.is_all() && *applied == Err(Refusal::Gone)
        };
        delay.finish(steps.iter().zip(&applied).any(is_hidden)).await;
        Ok(applied)
    }

    async fn apply_run(&self, run: &[Step]) -> Result<Vec<Outcome<Applied>>> {
        let Some(first) = run.first() else { return Ok(Vec::new()) };
        match &first.action {
            StepAction::Delete(rule) => {
                self.delete(&first.scope, *rule, run, self.shards.most_remembered()).await
            }
            StepAction::Discard => self.delete(&first.scope, DeleteRule::AnyState, run, 0).await,
            StepAction::Change { .. } => self.change_seen(first.by.as_ref(), run).await,
            StepAction::Cancel(_) => self.cancel(run, Delay::default()).await,
            StepAction::Postpone(_, delay) => self.cancel(run, *delay).await,
            StepAction::Release(..)
            | StepAction::Revoke(..)
            | StepAction::Touch(..)
            | StepAction::Bury(..)
            | StepAction::Requeue(_)
            | StepAction::Patch(_) => self.apply_each(run).await,
        }
    }

    /// Applies steps that have a call each, on all shards at the same time; those of one job in their order.
    async fn apply_each(&self, run: &[Step]) -> Result<Vec<Outcome<Applied>>> {
        if let [step] = run {
            return Ok(vec![self.apply_step(step).await?]);
        }
        let shards = by_shard(&self.shards.keys, run.iter().collect(), |step: &&Step| &step.id);
        let calls = shards.into_values().map(|steps| async move {
            let mut applied = Vec::with_capacity(steps.len());
            for (index, step) in steps {
                let done = self.apply_step(step).await;
                applied.push((index, done.map_err(|error| error.after(applied.len()))?));
            }
            Ok(applied)
        });
        Ok(in_order(run.len(), all_calls(calls).await?))
    }

    async fn apply_step(&self, step: &Step) -> Result<Outcome<Applied>> {
        match &step.action {
            StepAction::Release(receipt, release) => {
                let reason = reason_arg(release.reason.as_ref());
                let args =
                    |call| receipt_arg(call, receipt).due_args(release.due).optional_arg(reason.clone());
                self.apply_one(Script::Release, step, args).await
            }
            StepAction::Revoke(attempt, release) => self.revoke(step, *attempt, release).await,
            StepAction::Touch(receipt, touch) => {
                let ttr = touch.ttr.map(|ttr| millis_arg(ttr.as_duration()));
                let note = touch.note.as_ref().map(NoteText::as_str);
                let args = |call| receipt_arg(call, receipt).optional_arg(ttr.clone()).optional_arg(note);
                self.apply_one(Script::Touch, step, args).await
            }
            StepAction::Bury(receipt, reason) => {
                let reason = reason_arg(reason.as_ref());
                let args = |call| receipt_arg(call, receipt).optional_arg(reason.clone());
                self.apply_one(Script::Bury, step, args).await
            }
            StepAction::Requeue(requeue) => {
                let args = |call: ScriptCall| {
                    let call = expiry_arg(call.due_args(Some(requeue.due)), requeue.expiry);
                    actor_arg(call, step.by.as_ref())
                };
                self.apply_one(Script::Requeue, step, args).await
            }
            StepAction::Patch(patch) => {
                let args = |call| actor_arg(patch_args(call, patch), step.by.as_ref());
                self.apply_one(Script::Patch, step, args).await
            }
            StepAction::Delete(_)
            | StepAction::Discard
            | StepAction::Change { .. }
            | StepAction::Cancel(_)
            | StepAction::Postpone(..) => unreachable!("these share calls"),
        }
    }

    /// Runs the script of a release without a receipt.
    async fn revoke(&self, step: &Step, attempt: Option<u32>, release: &Release) -> Result<Outcome<Applied>> {
        let reason = reason_arg(release.reason.as_ref());
        let args = |call: ScriptCall| {
            let call = call.arg("").due_args(release.due).optional_arg(reason.clone());
            call.optional_arg(attempt.map(i64::from))
        };
        self.apply_one(Script::Release, step, args).await
    }

    async fn cancel(&self, run: &[Step], delay: Delay) -> Result<Vec<Outcome<Applied>>> {
        let grants = run.iter().filter_map(|step| match &step.action {
            StepAction::Cancel(receipt) | StepAction::Postpone(receipt, _) => {
                Some((step.id.clone(), receipt.clone()))
            }
            _ => None,
        });
        self.canceller.cancel(grants.collect(), delay).await
    }

    /// Runs a script on the job of a step. The first call has no keys of an outlet, which is enough for most steps; otherwise
    /// the reply names the outlet, and the next call has its keys.
    async fn apply_one(
        &self,
        script: Script,
        step: &Step,
        add_args: impl Fn(ScriptCall) -> ScriptCall,
    ) -> Result<Outcome<Applied>> {
        let (shard, scope) = (self.shards.keys.shard_of(&step.id), encode_scope(&step.scope));
        let started_us = self.shards.context().now_us();
        let mut outlet: Option<Outlet> = None;
        for _ in 0..OUTLET_CHANGES_LIMIT {
            let slot = self.shards.replay_slots.acquire(shard);
            let known: Vec<&Outlet> = outlet.iter().collect();
            let call = self.shards.change(script, shard, Some(&slot), &known).started_at(started_us);
            let call = add_args(call.arg(scope.clone()).arg(step.id.as_str()));
            let mut reply = Reply::new(self.shards.call_acknowledged(call).await?)?;
            return Ok(match reply.int()? {
                code::OK => {
                    let raw = reply.bytes()?;
                    let job = decode_job(&step.id, &raw)?;
                    let outlet = record::outlet_of(&job, &raw);
                    let now = Timestamp::from_millis(reply.int()?);
                    if reply.int()? == 1 {
                        self.compaction.request(shard, &outlet);
                    }
                    self.notify_changed(&job, &outlet, now);
                    Ok(Applied::Job(Box::new(job)))
                }
                code::IN_STATE => Err(Refusal::InState(state_of(reply.int()?)?)),
                code::MOVED => {
                    outlet = Some(reply.name()?);
                    continue;
                }
                code::REPLACED => {
                    self.notifier.waits_again(&reply.name()?, shard);
                    Err(Refusal::Replaced)
                }
                code => Err(code::refusal(code).ok_or_else(|| unexpected("the outcome of a step"))?),
            });
        }
        Err(outlet_keeps_changing())
    }

    /// Notifies the listener of a job's new state.
    fn notify_changed(&self, job: &Job, outlet: &Outlet, now: Timestamp) {
        if job.state() == State::Ready {
            self.notifier.ready_on(outlet, self.shards.keys.shard_of(&job.id));
        }
        let retention = self.shards.context().options.dead_retention.filter(|_| job.state() == State::Dead);
        let next = job.next_deadline().map(|deadline| deadline.since(now));
        if let Some(next) = next.or(retention) {
            self.notifier.due_in(next);
        }
    }
}

/// Whether two steps that follow each other are applied together: in shared calls, or each in its own.
fn belong_together(one: &Step, other: &Step) -> bool {
    match (&one.action, &other.action) {
        (StepAction::Delete(rule), StepAction::Delete(other_rule)) => {
            rule == other_rule && one.scope == other.scope
        }
        (StepAction::Discard, StepAction::Discard) => one.scope == other.scope,
        (StepAction::Change { .. }, StepAction::Change { .. }) => one.by == other.by,
        (StepAction::Cancel(_), StepAction::Cancel(_)) => true,
        (StepAction::Postpone(_, one), StepAction::Postpone(_, other)) => one == other,
        (one, other) => has_own_call(one) && has_own_call(other),
    }
}

fn has_own_call(action: &StepAction) -> bool {
    match action {
        StepAction::Release(..)
        | StepAction::Revoke(..)
        | StepAction::Touch(..)
        | StepAction::Bury(..)
        | StepAction::Requeue(_)
        | StepAction::Patch(_) => true,
        StepAction::Delete(_)
        | StepAction::Discard
        | StepAction::Change { .. }
        | StepAction::Cancel(_)
        | StepAction::Postpone(..) => false,
    }
}

fn receipt_arg(call: ScriptCall, receipt: &Receipt) -> ScriptCall {
    call.bytes_arg(receipt.as_bytes().to_vec())
}

fn actor_arg(call: ScriptCall, by: Option<&Actor>) -> ScriptCall {
    call.optional_arg(by.map(Actor::as_str))
}

pub(super) fn reason_arg(reason: Option<&Reason>) -> Option<String> {
    reason.map(|reason| format!("+{}", reason.as_str()))
}

/// The change of an expiry as scripts read it (`change_expiry` in `scripts/transitions.lua`).
pub(super) fn expiry_arg(call: ScriptCall, change: ExpiryChange) -> ScriptCall {
    match change {
        ExpiryChange::Keep => call.arg(""),
        ExpiryChange::Clear => call.arg("-"),
        ExpiryChange::Set(expire, on_expiry) => {
            let mut bytes = Expiry { expire, on_expiry: on_expiry.unwrap_or_default() }.encode();
            bytes[0] |= if on_expiry.is_none() { KEEPS_ON_EXPIRY } else { 0 };
            call.bytes_arg(bytes.to_vec())
        }
    }
}

fn patch_args(call: ScriptCall, patch: &Patch) -> ScriptCall {
    let retry = patch.retry.as_ref().map(|retry| Bytes::from([b"+", &encode_steps(retry)[..]].concat()));
    let call = call.due_args(patch.due).optional_arg(patch.ttr.map(|ttr| millis_arg(ttr.as_duration())));
    let call = call.optional_arg(patch.max_attempts.map(i64::from)).optional_arg(retry);
    expiry_arg(call, patch.expiry).optional_arg(patch.body.as_ref().map(|body| body.as_bytes().clone()))
}

/// The state that a reply names by its code.
pub(super) fn state_of(code: i64) -> Result<State> {
    let code = u8::try_from(code).ok();
    code.and_then(record::decode_state).ok_or_else(|| unexpected("a state"))
}
