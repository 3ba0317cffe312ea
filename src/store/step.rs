//! Steps: changes of single jobs by their ids, as values. An engine applies them by one operation, [`Store::apply`]; callers
//! make each by its name, with [`Steps`].

use super::{
    ChangeJob, Changed, Deleted, Error, Held, JobChange, NotHeld, Patch, Patched, Release, Requeue, Requeued,
    Result, SeenJob, Store,
};
use crate::job::{Actor, Delay, Job, JobId, Reason, Receipt, State, Timestamp, Topic, TopicFilter, Ttr};

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
    /// Extends a reservation to now plus the TTR, or plus the TTR of the job when `None`.
    Touch(Receipt, Option<Ttr>),
    /// Makes a reserved job a dead letter.
    Bury(Receipt, Option<Reason>),
    /// Cancels a reservation that no client has seen, of a job of any topic: the attempt is not counted, the due time stays, the job is ready again
    /// at once.
    Cancel(Receipt),
    /// Cancels such a reservation, but the job is due again only after the delay: others of its outlet come first. This does not
    /// become part of its history.
    Postpone(Receipt, Delay),
    /// Makes a dead letter wait again until the due time; its attempts start at 0, its reason is cleared. One whose expiry has
    /// passed needs another expiry.
    Requeue(Requeue),
    /// Changes a delayed or ready job in place. Its fingerprint stays.
    Patch(Patch),
    /// Deletes a job in any state.
    Delete,
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
            Self::Touch(..) => "touch",
            Self::Bury(..) => "bury",
            Self::Cancel(_) => "cancel",
            Self::Postpone(..) => "postpone",
            Self::Requeue(_) => "requeue",
            Self::Patch(_) => "patch",
            Self::Delete => "delete",
            Self::Change { .. } => "change",
        }
    }
}

/// The outcome of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// It happened. The job as it is afterwards.
    Job(Box<Job>),
    /// It happened: the job was deleted, was changed as a list showed it, or its reservation was cancelled.
    Done {
        /// The job's topic.
        topic: Topic,
    },
    /// There is no such job.
    Gone,
    /// The receipt is not that of the present reservation; nothing changed.
    Lost,
    /// The action does not apply to a job in this state; nothing changed.
    Refused(State),
    /// The job would expire before it is due; nothing changed.
    ExpiresFirst,
    /// The dead letter's expiry has passed; nothing changed.
    Expired,
    /// The job is gone, or not as the list showed it; nothing changed.
    Skipped,
}

impl Applied {
    /// The error for an outcome that the action cannot have.
    fn unexpected(&self) -> Error {
        Error::Damaged(format!("the store applied a step with an outcome that it cannot have: {self:?}"))
    }
}

/// The steps by their names.
pub trait Steps {
    /// Makes a [`StepAction::Release`].
    fn release(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        release: Release,
    ) -> impl Future<Output = Result<Held>> + Send;

    /// Makes a [`StepAction::Touch`].
    fn touch(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        ttr: Option<Ttr>,
    ) -> impl Future<Output = Result<Held>> + Send;

    /// Makes a [`StepAction::Bury`].
    fn bury(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        reason: Option<Reason>,
    ) -> impl Future<Output = Result<Held>> + Send;

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
    ) -> impl Future<Output = Result<Requeued>> + Send;

    /// Makes a [`StepAction::Patch`].
    fn patch(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        patch: Patch,
        by: Option<&Actor>,
    ) -> impl Future<Output = Result<Patched>> + Send;

    /// Makes a [`StepAction::Delete`] for each job.
    fn delete(
        &self,
        scope: &TopicFilter,
        ids: Vec<JobId>,
    ) -> impl Future<Output = Result<Vec<Deleted>>> + Send;

    /// Makes a [`StepAction::Change`] for each job.
    fn change(
        &self,
        jobs: Vec<ChangeJob>,
        by: Option<&Actor>,
    ) -> impl Future<Output = Result<Vec<Changed>>> + Send;
}

impl<S: Store + ?Sized> Steps for S {
    async fn release(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        release: Release,
    ) -> Result<Held> {
        holder_outcome(apply_one(self, scope, id, StepAction::Release(receipt.clone(), release), None).await?)
    }

    async fn touch(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        ttr: Option<Ttr>,
    ) -> Result<Held> {
        holder_outcome(apply_one(self, scope, id, StepAction::Touch(receipt.clone(), ttr), None).await?)
    }

    async fn bury(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        receipt: &Receipt,
        reason: Option<Reason>,
    ) -> Result<Held> {
        holder_outcome(apply_one(self, scope, id, StepAction::Bury(receipt.clone(), reason), None).await?)
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
    ) -> Result<Requeued> {
        match apply_one(self, scope, id, StepAction::Requeue(requeue.into()), by).await? {
            Applied::Job(job) => Ok(Requeued::Done(job)),
            Applied::Gone => Ok(Requeued::Gone),
            Applied::Refused(state) => Ok(Requeued::NotDead(state)),
            Applied::ExpiresFirst => Ok(Requeued::ExpiresFirst),
            Applied::Expired => Ok(Requeued::Expired),
            other => Err(other.unexpected()),
        }
    }

    async fn patch(
        &self,
        scope: &TopicFilter,
        id: &JobId,
        patch: Patch,
        by: Option<&Actor>,
    ) -> Result<Patched> {
        match apply_one(self, scope, id, StepAction::Patch(patch), by).await? {
            Applied::Job(job) => Ok(Patched::Done(job)),
            Applied::Gone => Ok(Patched::Gone),
            Applied::Refused(state) => Ok(Patched::Refused(state)),
            Applied::ExpiresFirst => Ok(Patched::ExpiresFirst),
            other => Err(other.unexpected()),
        }
    }

    async fn delete(&self, scope: &TopicFilter, ids: Vec<JobId>) -> Result<Vec<Deleted>> {
        let step = |id| Step { id, scope: scope.clone(), action: StepAction::Delete, by: None };
        let applied = self.apply(ids.into_iter().map(step).collect()).await?;
        let deleted = applied.into_iter().map(|applied| match applied {
            Applied::Done { topic } => Ok(Deleted::Done { topic }),
            Applied::Gone => Ok(Deleted::Gone),
            other => Err(other.unexpected()),
        });
        deleted.collect()
    }

    async fn change(&self, jobs: Vec<ChangeJob>, by: Option<&Actor>) -> Result<Vec<Changed>> {
        let applied = self.apply(jobs.into_iter().map(|job| Step::of_seen(job, by)).collect()).await?;
        let changed = applied.into_iter().map(|applied| match applied {
            Applied::Done { .. } => Ok(Changed::Done),
            Applied::Skipped => Ok(Changed::Skipped),
            other => Err(other.unexpected()),
        });
        changed.collect()
    }
}

async fn apply_one<S: Store + ?Sized>(
    store: &S,
    scope: &TopicFilter,
    id: &JobId,
    action: StepAction,
    by: Option<&Actor>,
) -> Result<Applied> {
    let step = Step { id: id.clone(), scope: scope.clone(), action, by: by.cloned() };
    let applied = store.apply(vec![step]).await?.pop();
    applied.ok_or_else(|| Error::Damaged("the store applied a step without an outcome".to_owned()))
}

fn holder_outcome(applied: Applied) -> Result<Held> {
    match applied {
        Applied::Job(job) => Ok(Ok(*job)),
        Applied::Gone => Ok(Err(NotHeld::Gone)),
        Applied::Lost => Ok(Err(NotHeld::Lost)),
        other => Err(other.unexpected()),
    }
}
