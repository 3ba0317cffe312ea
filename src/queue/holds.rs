//! What the holder of a reservation asks for besides a finish: release, touch and bury, single and in batches; and what an
//! administrator does to a holder: revoke.

use super::{
    error::{Error, Result},
    jobs::{gone, missing_result},
    service::Queue,
};
use crate::{
    job::{Actor, Due, Job, JobId, Reason, Receipt, State, TopicFilter},
    metrics::Event,
    store::{Refusal, Release, Step, StepAction, Steps, Touch},
};

impl Queue {
    /// Returns a reserved job to the queue, at once, after a delay or until a moment.
    ///
    /// # Errors
    /// [`Error::JobNotFound`] or [`Error::JobEnded`], [`Error::LeaseLost`], or the store's.
    pub async fn release(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        release: Release,
    ) -> Result<Job> {
        only(self.release_batch(scope, vec![(id.clone(), receipt.clone(), release)]).await?)
    }

    /// Releases many jobs. Each has its own result.
    ///
    /// # Errors
    /// [`Error::BatchTooLarge`], or the store's for all of them.
    pub async fn release_batch(
        &self,
        scope: &TopicFilter,
        jobs: Vec<(JobId, Receipt, Release)>,
    ) -> Result<Vec<Result<Job>>> {
        let steps =
            jobs.into_iter().map(|(id, receipt, release)| (id, StepAction::Release(receipt, release)));
        self.hold(scope, steps.collect()).await
    }

    /// Extends a reservation, and sets the job's note if there is one.
    ///
    /// # Errors
    /// [`Error::JobNotFound`] or [`Error::JobEnded`], [`Error::LeaseLost`], or the store's.
    pub async fn touch(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        touch: impl Into<Touch>,
    ) -> Result<Job> {
        only(self.touch_batch(scope, vec![(id.clone(), receipt.clone(), touch.into())]).await?)
    }

    /// Extends many reservations. Each has its own result.
    ///
    /// # Errors
    /// [`Error::BatchTooLarge`], or the store's for all of them.
    pub async fn touch_batch(
        &self,
        scope: &TopicFilter,
        jobs: Vec<(JobId, Receipt, Touch)>,
    ) -> Result<Vec<Result<Job>>> {
        let steps = jobs.into_iter().map(|(id, receipt, touch)| (id, StepAction::Touch(receipt, touch)));
        self.hold(scope, steps.collect()).await
    }

    /// Makes a reserved job a dead letter.
    ///
    /// # Errors
    /// [`Error::JobNotFound`] or [`Error::JobEnded`], [`Error::LeaseLost`], or the store's.
    pub async fn bury(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        reason: Option<Reason>,
    ) -> Result<Job> {
        only(self.bury_batch(scope, vec![(id.clone(), receipt.clone(), reason)]).await?)
    }

    /// Buries many jobs. Each has its own result.
    ///
    /// # Errors
    /// [`Error::BatchTooLarge`], or the store's for all of them.
    pub async fn bury_batch(
        &self,
        scope: &TopicFilter,
        jobs: Vec<(JobId, Receipt, Option<Reason>)>,
    ) -> Result<Vec<Result<Job>>> {
        let steps = jobs.into_iter().map(|(id, receipt, reason)| (id, StepAction::Bury(receipt, reason)));
        self.hold(scope, steps.collect()).await
    }

    /// Takes a reserved job back from its worker: like a release, at once if no due time is given. With the number of an attempt,
    /// only if that is the present one. The reason begins with who did it.
    ///
    /// # Errors
    /// [`Error::JobNotFound`] or [`Error::JobEnded`], [`Error::NotReserved`], [`Error::OtherAttempt`], or the store's.
    pub async fn revoke(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        (attempt, asked): (Option<u32>, Release),
        by: Option<&Actor>,
    ) -> Result<Job> {
        let reason = Reason::revoked(by, asked.reason.as_ref());
        let release = Release { due: asked.due.or(Some(Due::default())), reason: Some(reason) };
        match self.store.revoke(scope, id, attempt, release).await? {
            Ok(job) => {
                self.count_release(&job);
                Ok(job)
            }
            // The reservation was of an older version. It has ended, and the job waits.
            Err(Refusal::Replaced) => self.get(scope, id).await,
            Err(Refusal::Gone) => Err(gone(self.ended.find(scope, id))),
            Err(Refusal::Lost) => Err(Error::OtherAttempt),
            Err(refusal) => Err(refusal.into()),
        }
    }

    async fn hold(&self, scope: &TopicFilter, asked: Vec<(JobId, StepAction)>) -> Result<Vec<Result<Job>>> {
        self.check_batch(asked.len())?;
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let span = self.begin_span();
        let step = |(id, action): (JobId, StepAction)| Step { id, scope: scope.clone(), action, by: None };
        let steps: Vec<Step> = asked.into_iter().map(step).collect();
        let outcomes = self.store.hold(steps.clone()).await?;
        let is_gone = |(step, outcome): (_, &_)| (*outcome == Err(Refusal::Gone)).then_some(step);
        let gone_ids = steps.iter().zip(&outcomes).filter_map(is_gone).map(|step: &Step| &step.id);
        let ended = self.ended.find_all(scope, gone_ids);
        let result = |(step, outcome): (Step, _)| match outcome {
            Ok(job) => {
                self.count_hold(&step, &job);
                if let StepAction::Release(receipt, _) | StepAction::Bury(receipt, _) = &step.action {
                    span.settled(step.action.name(), &step.id, &job.topic, Some(receipt));
                }
                Ok(job)
            }
            Err(Refusal::Gone) => Err(gone(ended.get(&step.id).cloned())),
            Err(refusal) => Err(Error::from(refusal)),
        };
        Ok(steps.into_iter().zip(outcomes).map(result).collect())
    }

    fn count_hold(&self, step: &Step, job: &Job) {
        self.metrics.worker_sign(job.topic.as_str());
        if matches!(step.action, StepAction::Release(..)) {
            self.count_release(job);
        } else if job.state() == State::Dead {
            self.metrics.count(Event::Buried, job.topic.as_str(), 1);
        }
    }

    fn count_release(&self, job: &Job) {
        self.metrics.count(Event::Released, job.topic.as_str(), 1);
        self.count_due(job);
        // It may have used up the attempts.
        if job.state() == State::Dead {
            self.metrics.count(Event::Buried, job.topic.as_str(), 1);
        }
    }
}

/// The result of a batch of one.
fn only(results: Vec<Result<Job>>) -> Result<Job> {
    results.into_iter().next().unwrap_or_else(|| Err(missing_result()))
}
