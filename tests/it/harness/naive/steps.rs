//! Steps of the model: one after the other, each on the whole content.

use linger::{
    job::{Actor, AttemptEnd, Due, HistoryEvent, JobId, Reason, Receipt, State, TopicFilter},
    store::{Applied, JobChange, Patch, Release, Step, StepAction, moment_of},
};

use super::{super::jobs::set_until, Content, Entry, Naive};

impl Naive {
    pub(super) fn apply_one(&self, step: Step) -> Applied {
        let Step { id, scope, action, by } = &step;
        let mut content = self.content();
        match action {
            StepAction::Delete => Self::delete_one(&mut content, scope, id),
            StepAction::Requeue(due) => self.requeue_one(&mut content, scope, id, *due, by.as_ref()),
            StepAction::Patch(patch) => self.patch_one(&mut content, scope, id, patch, by.as_ref()),
            StepAction::Change { topic, state, moment, change } => {
                let seen = content.find(scope, id).map(|entry| &entry.job);
                let is_still = seen
                    .is_some_and(|job| (&job.topic, job.state(), moment_of(job)) == (topic, *state, *moment));
                if !is_still || !change.applies_to(*state) {
                    return Applied::Skipped;
                }
                match change {
                    JobChange::Delete => Self::delete_one(&mut content, scope, id),
                    JobChange::Requeue(due) => self.requeue_one(&mut content, scope, id, *due, by.as_ref()),
                    JobChange::Reschedule(due) => {
                        let patch = Patch { due: Some(*due), ..Patch::default() };
                        self.patch_one(&mut content, scope, id, &patch, by.as_ref())
                    }
                };
                Applied::Done { topic: topic.clone() }
            }
            StepAction::Release(receipt, _)
            | StepAction::Touch(receipt, _)
            | StepAction::Bury(receipt, _)
            | StepAction::Cancel(receipt)
            | StepAction::Postpone(receipt, _) => self.apply_held(&mut content, scope, id, receipt, action),
        }
    }

    fn apply_held(
        &self,
        content: &mut Content,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        action: &StepAction,
    ) -> Applied {
        let Some(entry) = content.find(scope, id) else { return Applied::Gone };
        if entry.receipt.as_ref() != Some(receipt) {
            return Applied::Lost;
        }
        let now = self.clock.read();
        match action {
            StepAction::Release(_, release) => self.release_one(entry, release),
            StepAction::Touch(_, ttr) => {
                let ttr = ttr.unwrap_or(entry.job.spec.ttr).as_duration();
                set_until(&mut entry.job, now.after(ttr));
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
                return Applied::Done { topic: entry.job.topic.clone() };
            }
            _ => unreachable!("these actions have receipts"),
        }
        Applied::Job(Box::new(entry.job.clone()))
    }

    fn release_one(&self, entry: &mut Entry, release: &Release) {
        let now = self.clock.read();
        self.remember_attempt(&mut entry.job, AttemptEnd::Released, release.reason.clone());
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
        due: Due,
        by: Option<&Actor>,
    ) -> Applied {
        let Some(entry) = content.find(scope, id) else { return Applied::Gone };
        if entry.job.state() != State::Dead {
            return Applied::Refused(entry.job.state());
        }
        self.remember(&mut entry.job, HistoryEvent::Requeued, by);
        entry.job.attempts = 0;
        entry.job.reason = None;
        self.wait_until(entry, due.resolve(self.clock.read()));
        Applied::Job(Box::new(entry.job.clone()))
    }

    fn patch_one(
        &self,
        content: &mut Content,
        scope: &TopicFilter,
        id: &JobId,
        patch: &Patch,
        by: Option<&Actor>,
    ) -> Applied {
        let Some(entry) = content.find(scope, id) else { return Applied::Gone };
        if !matches!(entry.job.state(), State::Delayed | State::Ready) {
            return Applied::Refused(entry.job.state());
        }
        let job = &mut entry.job;
        patch.apply_to(&mut job.spec);
        job.body = patch.body.as_ref().map_or_else(|| job.body.clone(), super::copied);
        if let Some(due) = patch.due {
            self.remember(&mut entry.job, HistoryEvent::Rescheduled, by);
            self.wait_until(entry, due.resolve(self.clock.read()));
        }
        Applied::Job(Box::new(entry.job.clone()))
    }

    fn delete_one(content: &mut Content, scope: &TopicFilter, id: &JobId) -> Applied {
        let Some(entry) = content.find(scope, id) else { return Applied::Gone };
        let topic = entry.job.topic.clone();
        content.jobs.remove(id);
        Applied::Done { topic }
    }
}
