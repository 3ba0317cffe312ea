//! Steps of the model: one after the other, each on the whole content.

use linger::{
    job::{
        Actor, AttemptEnd, DueChange, ExpiryChange, HistoryEvent, IdEnd, JobId, ProgressNote, Reason,
        Receipt, State, TopicFilter,
    },
    store::{
        Applied, DeleteRule, DeletedJob, JobChange, Outcome, Patch, Refusal, Release, Requeue, Step,
        StepAction, moment_of,
    },
};

use super::{super::jobs::set_until, Content, Entry, Naive};

impl Naive {
    pub(super) fn apply_one(&self, step: Step) -> Outcome<Applied> {
        let Step { id, scope, action, by } = &step;
        let mut content = self.content();
        match action {
            StepAction::Delete(rule) => {
                let state = content.find(scope, id).map(|entry| entry.job.state());
                if *rule == DeleteRule::UnlessReserved && state == Some(State::Reserved) {
                    return Err(Refusal::InState(State::Reserved));
                }
                if state.is_some() {
                    self.remember_id(&mut content, id, IdEnd::Deleted);
                }
                Self::delete_one(&mut content, scope, id)
            }
            StepAction::Discard => Self::delete_one(&mut content, scope, id),
            StepAction::Requeue(requeue) => self.requeue_one(&mut content, scope, id, *requeue, by.as_ref()),
            StepAction::Patch(patch) => self.patch_one(&mut content, scope, id, patch, by.as_ref()),
            StepAction::Change { topic, state, moment, change } => {
                let seen = content.find(scope, id).map(|entry| &entry.job);
                let is_still = seen
                    .is_some_and(|job| (&job.topic, job.state(), moment_of(job)) == (topic, *state, *moment));
                if !is_still || !change.applies_to(*state) {
                    return Err(Refusal::NotAsSeen);
                }
                let applied = match change {
                    JobChange::Delete => Self::delete_one(&mut content, scope, id),
                    JobChange::Requeue(requeue) => {
                        self.requeue_one(&mut content, scope, id, *requeue, by.as_ref())
                    }
                    JobChange::Reschedule(due) => {
                        let patch = Patch { due: Some(*due), ..Patch::default() };
                        self.patch_one(&mut content, scope, id, &patch, by.as_ref())
                    }
                    JobChange::Revoke { due, reason } => {
                        let release = Release { due: Some(*due), reason: reason.clone() };
                        self.revoke_one(&mut content, scope, id, None, release)
                    }
                };
                applied.or_else(|refusal| match refusal {
                    // The reservation was of an older version. It has ended.
                    Refusal::Replaced => Ok(Applied::Done { topic: topic.clone() }),
                    _ => Err(Refusal::NotAsSeen),
                })?;
                Ok(Applied::Done { topic: topic.clone() })
            }
            StepAction::Revoke(attempt, release) => {
                self.revoke_one(&mut content, scope, id, *attempt, release.clone())
            }
            StepAction::Release(receipt, _)
            | StepAction::Touch(receipt, _)
            | StepAction::Bury(receipt, _)
            | StepAction::Cancel(receipt)
            | StepAction::Postpone(receipt, _) => self.apply_held(&mut content, scope, id, receipt, action),
        }
    }

    fn revoke_one(
        &self,
        content: &mut Content,
        scope: &TopicFilter,
        id: &JobId,
        attempt: Option<u32>,
        release: Release,
    ) -> Outcome<Applied> {
        let entry = content.find(scope, id).ok_or(Refusal::Gone)?;
        let (receipt, present) = (entry.receipt.clone().ok_or(Refusal::NotReserved)?, entry.job.attempts);
        if attempt.is_some_and(|attempt| attempt != present) {
            return Err(Refusal::Lost);
        }
        self.apply_held(content, scope, id, &receipt, &StepAction::Revoke(attempt, release))
    }

    fn apply_held(
        &self,
        content: &mut Content,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        action: &StepAction,
    ) -> Outcome<Applied> {
        let entry = content.find(scope, id).ok_or(Refusal::Gone)?;
        let is_of_worker = !matches!(action, StepAction::Cancel(_) | StepAction::Postpone(..));
        match entry.receipt.as_ref() {
            Some(held) if held == receipt => {}
            Some(_) | None if is_of_worker && entry.takes_late(receipt) => return Err(Refusal::TimedOut),
            Some(_) | None => return Err(Refusal::Lost),
        }
        if entry.job.waits_for_older() {
            if !matches!(action, StepAction::Touch(..)) {
                self.end_older(entry);
            }
            let topic = entry.job.topic.clone();
            return if is_of_worker { Err(Refusal::Replaced) } else { Ok(Applied::Done { topic }) };
        }
        if matches!(action, StepAction::Release(..) | StepAction::Revoke(..) | StepAction::Bury(..)) {
            entry.timed_out = None;
        }
        let now = self.clock.read();
        match action {
            StepAction::Release(_, release) => self.release_one(entry, release, AttemptEnd::Released),
            StepAction::Revoke(_, release) => self.release_one(entry, release, AttemptEnd::Revoked),
            StepAction::Touch(_, touch) => {
                let ttr = touch.ttr.unwrap_or(entry.job.spec.ttr).as_duration();
                set_until(&mut entry.job, now.after(ttr));
                if let Some(text) = touch.note.clone() {
                    entry.job.note = Some(ProgressNote { at: now.rounded_down, text });
                }
                self.listener.due_in(ttr);
            }
            StepAction::Bury(_, reason) => {
                self.remember_attempt(&mut entry.job, AttemptEnd::Buried, reason.clone());
                self.die(entry, reason.clone(), Reason::BURIED);
            }
            StepAction::Cancel(_) | StepAction::Postpone(..) => {
                entry.job.attempts -= 1;
                let due_at = match action {
                    StepAction::Postpone(_, delay) => now.after(delay.as_duration()),
                    _ => entry.job.due_at,
                };
                self.wait_until(entry, due_at);
                return Ok(Applied::Done { topic: entry.job.topic.clone() });
            }
            _ => unreachable!("these actions have receipts"),
        }
        Ok(Applied::Job(Box::new(entry.job.clone())))
    }

    fn release_one(&self, entry: &mut Entry, release: &Release, end: AttemptEnd) {
        let now = self.clock.read();
        self.remember_attempt(&mut entry.job, end, release.reason.clone());
        let attempts = entry.job.attempts;
        if entry.job.spec.has_used_all_attempts(attempts) {
            return self.die(entry, release.reason.clone(), Reason::ATTEMPTS_USED);
        }
        entry.job.reason = release.reason.clone();
        let step = entry.job.spec.retry.after_release(attempts);
        let due_at = release.due.map_or_else(|| now.after(step), |due| due.resolve(now));
        self.wait_until(entry, due_at);
    }

    fn requeue_one(
        &self,
        content: &mut Content,
        scope: &TopicFilter,
        id: &JobId,
        Requeue { due, expiry }: Requeue,
        by: Option<&Actor>,
    ) -> Outcome<Applied> {
        let entry = content.find(scope, id).ok_or(Refusal::Gone)?;
        if entry.job.state() != State::Dead {
            return Err(Refusal::InState(entry.job.state()));
        }
        if expiry == ExpiryChange::Keep && self.has_expired(&entry.job) {
            return Err(Refusal::Expired);
        }
        let due_at = due.resolve(self.clock.read());
        let mut job = entry.job.clone();
        job.spec.expiry = expiry.apply_to(job.spec.expiry);
        if Self::expires_first(&mut job, due_at) {
            return Err(Refusal::ExpiresFirst);
        }
        entry.job = job;
        entry.timed_out = None;
        self.remember(&mut entry.job, HistoryEvent::Requeued, by);
        entry.job.attempts = 0;
        entry.job.reason = None;
        entry.job.note = None;
        self.wait_until(entry, due_at);
        Ok(Applied::Job(Box::new(entry.job.clone())))
    }

    fn patch_one(
        &self,
        content: &mut Content,
        scope: &TopicFilter,
        id: &JobId,
        patch: &Patch,
        by: Option<&Actor>,
    ) -> Outcome<Applied> {
        let entry = content.find(scope, id).ok_or(Refusal::Gone)?;
        if !matches!(entry.job.state(), State::Delayed | State::Ready) {
            return Err(Refusal::InState(entry.job.state()));
        }
        let due_at = patch.due.map(|due| due.resolve(self.clock.read()));
        let mut job = entry.job.clone();
        patch.apply_to(&mut job.spec);
        job.body = patch.body.as_ref().map_or(job.body, super::copied);
        let counts_anew = due_at.is_some() || patch.expiry != ExpiryChange::Keep;
        let due_or_present = due_at.unwrap_or(job.due_at);
        if counts_anew && Self::expires_first(&mut job, due_or_present) {
            return Err(Refusal::ExpiresFirst);
        }
        entry.job = job;
        entry.timed_out = None;
        if let Some(due_at) = due_at {
            let change = DueChange { from: entry.job.due_at, to: due_at };
            self.remember(&mut entry.job, HistoryEvent::Rescheduled(Some(change)), by);
            self.wait_until(entry, due_at);
        } else if let Some(deadline) = entry.job.next_deadline() {
            self.listener.due_in(deadline.since(self.clock.now()));
        }
        Ok(Applied::Job(Box::new(entry.job.clone())))
    }

    fn delete_one(content: &mut Content, scope: &TopicFilter, id: &JobId) -> Outcome<Applied> {
        let entry = content.find(scope, id).ok_or(Refusal::Gone)?;
        let deleted = DeletedJob { topic: entry.job.topic.clone(), state: entry.job.state() };
        content.jobs.remove(id);
        Ok(Applied::Deleted(deleted))
    }
}
