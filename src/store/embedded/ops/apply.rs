//! Steps: which operation carries out which action, and how much disk space it needs.

use super::{
    change,
    hold::{self, Holder},
    not_done::{Attempted, attempt_each},
    write_txn::WriteTxn,
};
use crate::store::{
    Applied, DeleteRule, JobChange, Outcome, Refusal, Result, Step, StepAction,
    embedded::{disk::disk_space::SpaceNeed, rows::db::SqlResult},
};

/// See [`crate::store::Store::apply`]. An action that needs disk space checks by itself that there is enough before its first
/// change. Of several steps the later ones would fail behind the changes of the first, so the most that they need is
/// checked first; the level is the same for all of them.
pub(crate) fn apply(txn: &mut WriteTxn<'_>, steps: &[Step]) -> SqlResult<Result<Vec<Outcome<Applied>>>> {
    if steps.len() > 1 {
        for need in steps.iter().filter_map(|step| most_space(&step.action)) {
            if let Err(full) = txn.check_space(need) {
                return Ok(Err(full));
            }
        }
    }
    attempt_each(steps, |step| apply_one(txn, step))
}

fn apply_one(txn: &mut WriteTxn<'_>, step: &Step) -> Attempted<Applied> {
    let Step { id, scope, action, by } = step;
    let by = by.as_ref();
    match action {
        StepAction::Release(receipt, release) => {
            hold::release(txn, scope, id, Holder::Receipt(receipt), release)
        }
        StepAction::Revoke(attempt, release) => {
            hold::release(txn, scope, id, Holder::Attempt(*attempt), release)
        }
        StepAction::Touch(receipt, touch) => hold::touch(txn, scope, id, receipt, touch),
        StepAction::Bury(receipt, reason) => hold::bury(txn, scope, id, receipt, reason),
        StepAction::Cancel(receipt) => hold::cancel(txn, scope, id, receipt),
        StepAction::Postpone(receipt, delay) => hold::postpone(txn, scope, id, receipt, *delay),
        StepAction::Requeue(requeue) => change::requeue(txn, scope, id, *requeue, by),
        StepAction::Patch(patch) => change::patch(txn, scope, id, patch, by),
        StepAction::Delete(rule) => change::delete(txn, scope, id, *rule, true),
        StepAction::Discard => change::delete(txn, scope, id, DeleteRule::AnyState, false),
        StepAction::Change { topic, state, moment, change } => {
            if !change::is_as_seen(txn, scope, id, (topic, *state, *moment))? || !change.applies_to(*state) {
                return Err(Refusal::NotAsSeen.into());
            }
            change::change_seen(txn, (id, topic), change, by)
        }
    }
}

/// What an action needs at most.
fn most_space(action: &StepAction) -> Option<SpaceNeed> {
    match action {
        StepAction::Touch(..) | StepAction::Cancel(_) | StepAction::Delete(_) | StepAction::Discard => None,
        StepAction::Release(..)
        | StepAction::Revoke(..)
        | StepAction::Bury(..)
        | StepAction::Postpone(..) => Some(SpaceNeed::Rewrite),
        StepAction::Requeue(_) | StepAction::Patch(_) => Some(SpaceNeed::Growth),
        StepAction::Change { change, .. } => match change {
            JobChange::Delete => None,
            JobChange::Reschedule(_) | JobChange::Revoke { .. } => Some(SpaceNeed::Rewrite),
            JobChange::Requeue(_) => Some(SpaceNeed::Growth),
        },
    }
}
