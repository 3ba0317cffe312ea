//! Steps: changes of single jobs by their ids, as values. An engine applies them by one operation, [`Store::apply`]; callers
//! make each by its name, with [`Steps`].

use super::{ChangeJob, Error, JobChange, Outcome, Patch, Release, Requeue, Result, SeenJob, Store, Touch};
use crate::job::{Actor, Delay, Job, JobId, Reason, Receipt, State, Timestamp, Topic, TopicFilter};

/// A change of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The job's id.
    pub id: JobId,
    /// The caller's topics: for a job of another one the step has the outcome for no job.
    pub scope: TopicFilter,
    /// What to do.
    pub action: StepAction,
    /// Who asks for it, for the job's history.
    pub by: Option<Actor>,
}

impl Step {
    /// A step that is not limited to the topics of a caller.
    #[must_use]
    pub fn unscoped(id: JobId, action: StepAction, by: Option<&Actor>) -> Self {
        Self { id, scope: TopicFilter::ALL, action, by: by.cloned() }
    }

    /// A change of a job that a list showed.
    #[must_use]
    pub fn of_seen(job: ChangeJob, by: Option<&Actor>) -> Self {
        let ChangeJob { seen: SeenJob { id, topic, state, moment }, change } = job;
        Self::unscoped(id, StepAction::Change { topic, state, moment, change }, by)
    }
}

/// What a step does. An action with a receipt happens only while the job is reserved under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepAction {
    /// Ends a reservation: the job waits again until `due`, or for its schedule's step when that is `None`. It becomes a dead
    /// letter instead when its attempts are used up.
    Release(Receipt, Release),
    /// Ends the reservation of whichever worker holds the job, as a release does; only that of the attempt with this number, if one
    /// is given.
    Revoke(Option<u32>, Release),
    /// Extends a reservation to now plus the TTR, or plus the TTR of the job when `None`, and sets the job's note if there is one.
    /// The embedded engine leaves the note out when it lacks the disk space.
    Touch(Receipt, Touch),
    /// Makes a reserved job a dead letter.
    Bury(Receipt, Option<Reason>),
    /// Cancels a reservation that no client has seen, of a job of any topic: the attempt is not counted, the due time stays, the job is ready again
    /// at once.
    Cancel(Receipt),
    /// Cancels such a reservation, but the job is due again only after the delay: others of its outlet come first. This does not
    /// become part of its history.
    Postpone(Receipt, Delay),
    /// Makes a dead letter wait again until the due time; its attempts start at 0, its reason and its note are cleared. One whose expiry has
    /// passed needs another expiry.
    Requeue(Requeue),
    /// Changes a delayed or ready job in place. Its fingerprint stays.
    Patch(Patch),
    /// Deletes a job.
    Delete(DeleteRule),
    /// Deletes a job in any state, and its id is not remembered: for a mover, whose other store has the job.
    Discard,
    /// Changes a job that a list showed, if it is still as it was seen, and the change [applies](JobChange::applies_to) to its
    /// state.
    Change {
        /// The topic that was seen.
        topic: Topic,
        /// The state that was seen.
        state: State,
        /// The moment of the state that was seen.
        moment: Timestamp,
        /// What to do.
        change: JobChange,
    },
}

impl StepAction {
    /// The action's name in metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Release(..) => "release",
            Self::Revoke(..) => "revoke",
            Self::Touch(..) => "touch",
            Self::Bury(..) => "bury",
            Self::Cancel(_) => "cancel",
            Self::Postpone(..) => "postpone",
            Self::Requeue(_) => "requeue",
            Self::Patch(_) => "patch",
            Self::Delete(_) => "delete",
            Self::Discard => "discard",
            Self::Change { .. } => "change",
        }
    }
}

/// Which jobs a delete leaves alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeleteRule {
    /// None.
    #[default]
    AnyState,
    /// Those that a worker holds: they are refused as [in a state](crate::store::Refusal::InState).
    UnlessReserved,
}

/// What a step did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// The job is afterwards like this.
    Job(Box<Job>),
    /// The job was changed as a list showed it, or its reservation was cancelled.
    Done {
        /// The job's topic.
        topic: Topic,
    },
    /// The job was deleted.
    Deleted(DeletedJob),
}

/// A job that was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedJob {
    /// Its topic.
    pub topic: Topic,
    /// Its state until then.
    pub state: State,
}

impl Applied {
    fn into_job(self) -> Result<Job> {
        match self {
            Self::Job(job) => Ok(*job),
            Self::Done { .. } | Self::Deleted(_) => Err(self.unexpected()),
        }
    }

    fn into_deleted(self) -> Result<DeletedJob> {
        match self {
            Self::Deleted(deleted) => Ok(deleted),
            Self::Job(_) | Self::Done { .. } => Err(self.unexpected()),
        }
    }

    /// The error for what the action cannot do.
    fn unexpected(&self) -> Error {
        Error::Damaged(format!("the store applied a step with an outcome that it cannot have: {self:?}"))
    }
}

/// The steps by their names.
pub trait Steps {
    /// Makes steps after which the jobs are there: releases, touches and burials.
    fn hold(&self, steps: Vec<Step>) -> impl Future<Output = Result<Vec<Outcome<Job>>>> + Send;

    /// Makes a [`StepAction::Release`].
    fn release(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        release: Release,
    ) -> impl Future<Output = Result<Outcome<Job>>> + Send;

    /// Makes a [`StepAction::Revoke`].
    fn revoke(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        attempt: Option<u32>,
        release: Release,
    ) -> impl Future<Output = Result<Outcome<Job>>> + Send;

    /// Makes a [`StepAction::Touch`].
    fn touch(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        touch: impl Into<Touch> + Send,
    ) -> impl Future<Output = Result<Outcome<Job>>> + Send;

    /// Makes a [`StepAction::Bury`].
    fn bury(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        reason: Option<Reason>,
    ) -> impl Future<Output = Result<Outcome<Job>>> + Send;

    /// Makes a [`StepAction::Cancel`] for each reservation. One that has ended stays as it is.
    fn cancel(&self, grants: Vec<(JobId, Receipt)>) -> impl Future<Output = Result<()>> + Send;

    /// Makes a [`StepAction::Postpone`] for each reservation. One that has ended stays as it is.
    fn postpone(
        &self,
        grants: Vec<(JobId, Receipt)>,
        delay: Delay,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Makes a [`StepAction::Requeue`].
    fn requeue(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        requeue: impl Into<Requeue> + Send,
        by: Option<&Actor>,
    ) -> impl Future<Output = Result<Outcome<Job>>> + Send;

    /// Makes a [`StepAction::Patch`].
    fn patch(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        patch: Patch,
        by: Option<&Actor>,
    ) -> impl Future<Output = Result<Outcome<Job>>> + Send;

    /// Makes a [`StepAction::Delete`] for each job.
    fn delete(
        &self,
        scope: &TopicFilter,
        ids: Vec<JobId>,
        rule: DeleteRule,
    ) -> impl Future<Output = Result<Vec<Outcome<DeletedJob>>>> + Send;

    /// Makes a [`StepAction::Discard`] for each job of any topic.
    fn discard(&self, ids: Vec<JobId>) -> impl Future<Output = Result<()>> + Send;

    /// Makes a [`StepAction::Change`] for each job. Returns whether each was still as seen, and so was changed.
    fn change(
        &self,
        jobs: Vec<ChangeJob>,
        by: Option<&Actor>,
    ) -> impl Future<Output = Result<Vec<bool>>> + Send;
}

impl<S: Store + ?Sized> Steps for S {
    async fn hold(&self, steps: Vec<Step>) -> Result<Vec<Outcome<Job>>> {
        let outcomes = self.apply(steps).await?.into_iter();
        outcomes.map(|outcome| transposed(outcome.map(Applied::into_job))).collect()
    }

    async fn release(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        release: Release,
    ) -> Result<Outcome<Job>> {
        apply_one(self, scope, id, StepAction::Release(receipt.clone(), release), None).await
    }

    async fn revoke(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        attempt: Option<u32>,
        release: Release,
    ) -> Result<Outcome<Job>> {
        apply_one(self, scope, id, StepAction::Revoke(attempt, release), None).await
    }

    async fn touch(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        touch: impl Into<Touch> + Send,
    ) -> Result<Outcome<Job>> {
        apply_one(self, scope, id, StepAction::Touch(receipt.clone(), touch.into()), None).await
    }

    async fn bury(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        reason: Option<Reason>,
    ) -> Result<Outcome<Job>> {
        apply_one(self, scope, id, StepAction::Bury(receipt.clone(), reason), None).await
    }

    async fn cancel(&self, grants: Vec<(JobId, Receipt)>) -> Result<()> {
        let steps =
            grants.into_iter().map(|(id, receipt)| Step::unscoped(id, StepAction::Cancel(receipt), None));
        self.apply(steps.collect()).await.map(drop)
    }

    async fn postpone(&self, grants: Vec<(JobId, Receipt)>, delay: Delay) -> Result<()> {
        let postpone = |(id, receipt)| Step::unscoped(id, StepAction::Postpone(receipt, delay), None);
        self.apply(grants.into_iter().map(postpone).collect()).await.map(drop)
    }

    async fn requeue(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        requeue: impl Into<Requeue> + Send,
        by: Option<&Actor>,
    ) -> Result<Outcome<Job>> {
        apply_one(self, scope, id, StepAction::Requeue(requeue.into()), by).await
    }

    async fn patch(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        patch: Patch,
        by: Option<&Actor>,
    ) -> Result<Outcome<Job>> {
        apply_one(self, scope, id, StepAction::Patch(patch), by).await
    }

    async fn delete(
        &self,
        scope: &TopicFilter,
        ids: Vec<JobId>,
        rule: DeleteRule,
    ) -> Result<Vec<Outcome<DeletedJob>>> {
        let step = |id| Step { id, scope: scope.clone(), action: StepAction::Delete(rule), by: None };
        let outcomes = self.apply(ids.into_iter().map(step).collect()).await?.into_iter();
        outcomes.map(|outcome| transposed(outcome.map(Applied::into_deleted))).collect()
    }

    async fn discard(&self, ids: Vec<JobId>) -> Result<()> {
        let steps = ids.into_iter().map(|id| Step::unscoped(id, StepAction::Discard, None));
        self.apply(steps.collect()).await.map(drop)
    }

    async fn change(&self, jobs: Vec<ChangeJob>, by: Option<&Actor>) -> Result<Vec<bool>> {
        let outcomes = self.apply(jobs.into_iter().map(|job| Step::of_seen(job, by)).collect()).await?;
        Ok(outcomes.iter().map(Outcome::is_ok).collect())
    }
}

/// Applies a step after which the job is there.
async fn apply_one<S: Store + ?Sized>(
    store: &S,
    scope: &TopicFilter,
    id: &JobId,
    action: StepAction,
    by: Option<&Actor>,
) -> Result<Outcome<Job>> {
    let step = Step { id: id.clone(), scope: scope.clone(), action, by: by.cloned() };
    let outcome = store.hold(vec![step]).await?.pop();
    outcome.ok_or_else(|| Error::Damaged("the store applied a step without an outcome".to_owned()))
}

/// The outcome of a step, if it is one that the step can have.
fn transposed<T>(outcome: Outcome<Result<T>>) -> Result<Outcome<T>> {
    match outcome {
        Ok(done) => done.map(Ok),
        Err(refusal) => Ok(Err(refusal)),
    }
}
