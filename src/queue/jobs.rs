//! Operations on jobs, single and in batches, but for those of a job's holder (`holds.rs`).
//!
//! Operations by id take the topics that the caller may use, its `scope`. The store checks it within the operation: a
//! job of another topic is treated as if it did not exist, so that callers learn nothing of jobs that they may not see.

use std::{borrow::Cow, collections::HashMap};

use super::{
    ended::{EndKind, Ended},
    error::{Error, Result},
    service::Queue,
    spans::SpanStart,
};
use crate::{
    job::{
        Actor, Expire, Expiry, IdEnd, Job, JobId, JobSpec, NewJob, RememberedId, State, Topic, TopicFilter,
        Ttr,
    },
    metrics::Event,
    store::{
        AddJob, Added, DeleteRule, DeletedJob, FinishJob, Finished, IfExists, Outcome, Patch, Refusal,
        Requeue, Steps,
    },
};

/// What an add did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddOutcome {
    /// It added the job.
    Created(Job),
    /// It put the job in the place of an older version.
    Replaced(Job),
    /// Nothing: an earlier sending of the same request, or of the same revision, had added the job already, which is now like this.
    Replayed(Job),
    /// Nothing: the same job was finished before, and its topic remembers its id.
    Finished(RememberedId),
}

impl AddOutcome {
    /// The id of the job.
    #[must_use]
    pub fn id(&self) -> &JobId {
        match self {
            Self::Created(job) | Self::Replaced(job) | Self::Replayed(job) => &job.id,
            Self::Finished(remembered) => &remembered.id,
        }
    }
}

impl Queue {
    /// Adds a job, or replaces one if it says so. The topic of the job is the caller's to check; `scope` decides what a conflict
    /// tells of another job.
    ///
    /// # Errors
    /// [`Error::JobExists`], [`Error::IdRemembered`], [`Error::OlderRevision`], [`Error::ExpiresFirst`], [`Error::BodyTooLarge`], [`Error::IntakePaused`],
    /// [`Error::CallbackNotAllowed`], or the store's.
    pub async fn add(&self, scope: &TopicFilter, job: NewJob, by: Option<&Actor>) -> Result<AddOutcome> {
        let span = self.begin_span();
        let job = self.resolve(job, by)?;
        let added = self.store.add(vec![job]).await?;
        self.add_outcome(scope, added.into_iter().next().ok_or_else(missing_result)?, &span)
    }

    /// Adds many jobs, as [`add`](Self::add) does. Each has its own result; a refused one does not affect the others.
    ///
    /// # Errors
    /// [`Error::BatchTooLarge`], or the store's for all of them.
    pub async fn add_batch(
        &self,
        scope: &TopicFilter,
        jobs: Vec<NewJob>,
        by: Option<&Actor>,
    ) -> Result<Vec<Result<AddOutcome>>> {
        self.check_batch(jobs.len())?;
        let span = self.begin_span();
        let mut refusals = Vec::with_capacity(jobs.len());
        let mut accepted = Vec::with_capacity(jobs.len());
        for job in jobs {
            match self.resolve(job, by) {
                Ok(job) => {
                    accepted.push(job);
                    refusals.push(None);
                }
                Err(error) => refusals.push(Some(error)),
            }
        }
        let mut added =
            if accepted.is_empty() { Vec::new() } else { self.store.add(accepted).await? }.into_iter();
        let outcome = |refusal: Option<Error>| match refusal {
            Some(error) => Err(error),
            None => self.add_outcome(scope, added.next().ok_or_else(missing_result)?, &span),
        };
        Ok(refusals.into_iter().map(outcome).collect())
    }

    /// Checks a job against the limits and fills in the defaults of its topic.
    pub(super) fn resolve(&self, job: NewJob, by: Option<&Actor>) -> Result<AddJob> {
        let (limit, got) = (self.limits.max_body, job.body.as_bytes().len());
        if got > limit {
            return Err(Error::BodyTooLarge { limit, got });
        }
        let topic = self.store.topic_config(&job.topic);
        // With an id of the client's it may be the repeat of an add that was accepted.
        let is_paused = topic.pause.intake.as_ref().is_some_and(|pause| !pause.is_over(self.store.now()));
        if is_paused && job.id.is_none() {
            return Err(Error::IntakePaused);
        }
        let rules = self.call_rules();
        if let Some(callback) = &job.callback {
            rules.check_own(callback)?;
        }
        let mut settings = Cow::Borrowed(&topic.settings);
        if let Some(retry) = rules.retry(&job, &topic.settings) {
            settings.to_mut().retry = Some(retry.clone());
        }
        let fingerprint = job.fingerprint();
        let expire = job.expire.or(settings.expire.map(Expire::After));
        let on_expiry = job.on_expiry.or(settings.on_expiry);
        let spec = JobSpec {
            ttr: rules.ttr(&job, job.ttr.or(settings.ttr).unwrap_or(Ttr::DEFAULT)),
            max_attempts: job.resolved_max_attempts(&settings),
            retry: job.retry.or_else(|| settings.retry.clone()).unwrap_or_default(),
            require_receipt: settings.require_receipt,
            late_finish: settings.late_finish.unwrap_or(true),
            expiry: expire.map(|expire| Expiry { expire, on_expiry: on_expiry.unwrap_or_default() }),
            revision: job.revision,
            dedup: settings.dedup,
            callback: job.callback,
            trace: job.trace,
        };
        let id = job.id.unwrap_or_else(JobId::generate);
        let if_exists = if job.replaces { IfExists::Replace { by: by.cloned() } } else { IfExists::Keep };
        let (topic, due, body) = (job.topic, job.due, job.body);
        Ok(AddJob { id, topic, due, spec, fingerprint, is_paused, if_exists, body })
    }

    fn add_outcome(
        &self,
        scope: &TopicFilter,
        added: Outcome<Added>,
        span: &SpanStart<'_>,
    ) -> Result<AddOutcome> {
        match added {
            Ok(Added::Created(job)) => {
                self.metrics.count(Event::Added, job.topic.as_str(), 1);
                self.count_due(&job);
                span.added(&job);
                Ok(AddOutcome::Created(job))
            }
            Ok(Added::Replaced(job)) => {
                self.metrics.count(Event::Replaced, job.topic.as_str(), 1);
                self.count_due(&job);
                span.added(&job);
                Ok(AddOutcome::Replaced(job))
            }
            Ok(Added::Replayed(job)) => Ok(AddOutcome::Replayed(job)),
            Ok(Added::FinishedBefore(remembered)) => Ok(AddOutcome::Finished(remembered)),
            Err(Refusal::Exists { topic, state, due_at }) => {
                Err(Error::JobExists { shown: scope.allows(&topic).then_some((state, due_at)) })
            }
            Err(Refusal::EndedBefore(remembered)) => {
                let shown = scope.allows(&remembered.topic).then(|| end_of(&remembered));
                Err(Error::IdRemembered { shown })
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Finishes a job, which removes it. A caller limited to some topics must send the receipt.
    ///
    /// # Errors
    /// [`Error::JobNotFound`] or [`Error::JobEnded`], [`Error::LeaseLost`], [`Error::NotReserved`],
    /// [`Error::ReceiptRequired`], or the store's.
    pub async fn finish(&self, scope: &TopicFilter, job: FinishJob, by: Option<&Actor>) -> Result<()> {
        check_receipt(scope, &job)?;
        self.finish_unproven(scope, job, by).await
    }

    /// Finishes a job, as [`finish`](Self::finish) does, also for a caller that is limited to some topics and sends no receipt.
    pub(super) async fn finish_unproven(
        &self,
        scope: &TopicFilter,
        job: FinishJob,
        by: Option<&Actor>,
    ) -> Result<()> {
        let outcomes = self.finish_checked(scope, vec![job], by).await?;
        outcomes.into_iter().next().unwrap_or_else(|| Err(missing_result()))
    }

    /// Finishes many jobs, as [`finish`](Self::finish) does. Each has its own result.
    ///
    /// # Errors
    /// [`Error::BatchTooLarge`], or the store's for all of them.
    pub async fn finish_batch(
        &self,
        scope: &TopicFilter,
        jobs: Vec<FinishJob>,
        by: Option<&Actor>,
    ) -> Result<Vec<Result<()>>> {
        self.check_batch(jobs.len())?;
        let checks: Vec<Result<()>> = jobs.iter().map(|job| check_receipt(scope, job)).collect();
        let accepted = jobs.into_iter().zip(&checks).filter(|(_, check)| check.is_ok());
        let accepted = accepted.map(|(job, _)| job).collect();
        let mut outcomes = self.finish_checked(scope, accepted, by).await?.into_iter();
        let outcome =
            |check: Result<()>| check.and_then(|()| outcomes.next().unwrap_or_else(|| Err(missing_result())));
        Ok(checks.into_iter().map(outcome).collect())
    }

    async fn finish_checked(
        &self,
        scope: &TopicFilter,
        jobs: Vec<FinishJob>,
        by: Option<&Actor>,
    ) -> Result<Vec<Result<()>>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let (span, asked) = (self.begin_span(), jobs.clone());
        let finished = self.store.finish(scope, jobs).await?;
        let gone = asked.iter().zip(&finished).filter(|(_, finished)| **finished == Err(Refusal::Gone));
        let ended = self.ended.find_all(scope, gone.map(|(job, _)| &job.id));
        let outcome = |(asked, finished)| self.finish_outcome(asked, finished, &ended, by, &span);
        Ok(asked.into_iter().zip(finished).map(outcome).collect())
    }

    fn finish_outcome(
        &self,
        FinishJob { id, receipt }: FinishJob,
        finished: Outcome<Finished>,
        ended: &HashMap<JobId, Ended>,
        by: Option<&Actor>,
        span: &SpanStart<'_>,
    ) -> Result<()> {
        match finished {
            Ok(Finished { topic, is_late }) => {
                self.metrics.count(Event::Finished, topic.as_str(), 1);
                if is_late {
                    self.metrics.count(Event::FinishedLate, topic.as_str(), 1);
                }
                span.settled("finish", &id, &topic, receipt.as_ref());
                let how = if is_late { EndKind::FinishedLate } else { EndKind::Finished };
                self.remember_end(id, topic, how, by);
                Ok(())
            }
            Err(Refusal::Gone) => Err(gone(ended.get(&id).cloned())),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Returns a dead letter to the queue. Its attempts are counted from zero again.
    ///
    /// # Errors
    /// [`Error::JobNotFound`], [`Error::NotDead`], [`Error::JobExpired`], [`Error::ExpiresFirst`], or the store's.
    pub async fn requeue(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        requeue: Requeue,
        by: Option<&Actor>,
    ) -> Result<Job> {
        let requeued = self.store.requeue(scope, id, requeue, by).await?;
        let job = requeued.map_err(|refusal| match refusal {
            Refusal::InState(state) => Error::NotDead { state },
            refusal => refusal.into(),
        })?;
        self.metrics.count(Event::Requeued, job.topic.as_str(), 1);
        self.count_due(&job);
        Ok(job)
    }

    /// Reschedules or changes a delayed or ready job in place.
    ///
    /// # Errors
    /// [`Error::JobNotFound`], [`Error::JobReserved`], [`Error::JobDead`], [`Error::ExpiresFirst`],
    /// [`Error::BodyTooLarge`], or the store's.
    pub async fn patch(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        patch: Patch,
        by: Option<&Actor>,
    ) -> Result<Job> {
        self.check_patch(&patch)?;
        let sets_due = patch.due.is_some();
        let job = self.store.patch(scope, id, patch, by).await?.map_err(Error::from)?;
        if sets_due {
            self.count_due(&job);
        }
        Ok(job)
    }

    /// Counts a job that a change of its due time has made ready at once; a later one is counted when its delay ends.
    pub(super) fn count_due(&self, job: &Job) {
        if job.state() == State::Ready {
            self.metrics.count(Event::Due, job.topic.as_str(), 1);
        }
    }

    fn check_patch(&self, patch: &Patch) -> Result<()> {
        let limit = self.limits.max_body;
        if let Some(got) = patch.body.as_ref().map(|body| body.as_bytes().len()).filter(|got| *got > limit) {
            return Err(Error::BodyTooLarge { limit, got });
        }
        Ok(())
    }

    /// Deletes a job. Returns its state until then.
    ///
    /// # Errors
    /// [`Error::JobNotFound`], [`Error::JobReserved`] if the rule says so, or the store's.
    pub async fn delete(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        rule: DeleteRule,
        by: Option<&Actor>,
    ) -> Result<State> {
        let deleted = self.store.delete(scope, vec![id.clone()], rule).await?;
        self.delete_outcome(id, deleted.into_iter().next().ok_or_else(missing_result)?, by)
    }

    /// Deletes many jobs. Each has its own result.
    ///
    /// # Errors
    /// [`Error::BatchTooLarge`], or the store's for all of them.
    pub async fn delete_batch(
        &self,
        scope: &TopicFilter,
        ids: Vec<JobId>,
        rule: DeleteRule,
        by: Option<&Actor>,
    ) -> Result<Vec<Result<State>>> {
        self.check_batch(ids.len())?;
        let deleted = self.store.delete(scope, ids.clone(), rule).await?;
        Ok(ids.iter().zip(deleted).map(|(id, deleted)| self.delete_outcome(id, deleted, by)).collect())
    }

    fn delete_outcome(&self, id: &JobId, deleted: Outcome<DeletedJob>, by: Option<&Actor>) -> Result<State> {
        let DeletedJob { topic, state } = deleted?;
        self.metrics.count(Event::Deleted, topic.as_str(), 1);
        self.remember_end(id.clone(), topic, EndKind::Deleted, by);
        Ok(state)
    }

    pub(super) fn remember_end(&self, id: JobId, topic: Topic, how: EndKind, by: Option<&Actor>) {
        self.ended.push(id, topic, Ended { how, at: self.clock.wall_now(), by: by.cloned() });
    }

    /// Reads a job without reserving it.
    ///
    /// # Errors
    /// [`Error::JobNotFound`], [`Error::JobEnded`] if this process still knows how, or the store's.
    pub async fn get(&self, scope: &TopicFilter, id: &JobId) -> Result<Job> {
        let found = self.store.get(scope, id).await?;
        found.ok_or_else(|| gone(self.ended.find(scope, id)))
    }

    pub(super) fn check_batch(&self, got: usize) -> Result<()> {
        let limit = self.limits.max_batch;
        if got > limit { Err(Error::BatchTooLarge { limit, got }) } else { Ok(()) }
    }
}

/// How the job of a remembered id ended. Who ended it is not remembered.
fn end_of(remembered: &RememberedId) -> Ended {
    let how = match remembered.end {
        IdEnd::Finished => EndKind::Finished,
        IdEnd::Deleted => EndKind::Deleted,
    };
    Ended { how, at: remembered.ended_at, by: None }
}

/// The error for a job that does not exist, of which this process may know how it ended.
pub(super) fn gone(ended: Option<Ended>) -> Error {
    ended.map_or(Error::JobNotFound, Error::JobEnded)
}

/// Without a receipt, a finish applies to whichever job has the id at the moment. A caller that shares the ids with
/// others must name the reservation. The error is the same whether the job exists or not.
fn check_receipt(scope: &TopicFilter, job: &FinishJob) -> Result<()> {
    if scope.is_all() || job.receipt.is_some() { Ok(()) } else { Err(Error::ReceiptRequired) }
}

/// An engine that returns fewer results than items is broken. The client must not take that for a refusal.
pub(super) fn missing_result() -> Error {
    Error::Damaged("the engine returned no result for an item of a batch".to_owned())
}
