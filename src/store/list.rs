//! Lists of jobs and changes of the jobs that a list showed: filters, pages, and the guard of each change.

use std::sync::Arc;

use super::Requeue;
use crate::job::{Actor, Due, Job, JobId, JobState, Reason, State, Timestamp, Topic};

/// Which jobs to list: those of one state that pass every other condition.
///
/// Each state has its moment, by which its jobs are ordered: the due time of delayed and ready jobs, the end of the TTR of
/// reserved ones, the death of dead letters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobFilter {
    /// Their state.
    pub state: State,
    /// Their topic; all topics when `None`.
    pub topic: Option<Topic>,
    /// Only jobs at or after this moment.
    pub from: Option<Timestamp>,
    /// Only jobs before this moment.
    pub to: Option<Timestamp>,
    /// What their ids begin with.
    pub id_prefix: Option<Arc<str>>,
    /// What their reasons begin with; a job without a reason has an empty one.
    pub reason_prefix: Option<Arc<str>>,
    /// Who has reserved them; a job that is not reserved has no holder.
    pub reserved_by: Option<Actor>,
}

impl JobFilter {
    /// All jobs in `state`.
    #[must_use]
    pub fn all(state: State) -> Self {
        Self {
            state,
            topic: None,
            from: None,
            to: None,
            id_prefix: None,
            reason_prefix: None,
            reserved_by: None,
        }
    }

    /// Whether it has a condition that no index and no count answers: each job has to be examined.
    #[must_use]
    pub fn examines_jobs(&self) -> bool {
        self.id_prefix.is_some() || self.reason_prefix.is_some() || self.reserved_by.is_some()
    }

    /// Whether a list may examine very many jobs for each that it finds: without a topic there may be very many of those.
    #[must_use]
    pub fn is_scan(&self) -> bool {
        self.topic.is_none() || self.examines_jobs()
    }

    /// Whether `job` passes every condition.
    #[must_use]
    pub fn matches(&self, job: &Job) -> bool {
        let begins = |text: &str, prefix: &Option<Arc<str>>| {
            prefix.as_ref().is_none_or(|prefix| text.starts_with(&**prefix))
        };
        let moment = moment_of(job);
        job.state() == self.state
            && self.topic.as_ref().is_none_or(|topic| job.topic == *topic)
            && self.from.is_none_or(|from| from <= moment)
            && self.to.is_none_or(|to| moment < to)
            && begins(job.id.as_str(), &self.id_prefix)
            && begins(job.reason.as_ref().map_or("", |reason| reason.as_str()), &self.reason_prefix)
            && (self.reserved_by.is_none() || self.reserved_by == job.holder())
    }
}

/// The moment by which a list orders `job`; see [`JobFilter`].
#[must_use]
pub fn moment_of(job: &Job) -> Timestamp {
    match &job.state {
        JobState::Delayed | JobState::Ready => job.due_at,
        JobState::Reserved(reserved) => reserved.until,
        JobState::Dead(at) => *at,
    }
}

/// The order of a list, by the moment of its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// The earliest moment first.
    #[default]
    Ascending,
    /// The latest moment first.
    Descending,
}

/// How far a list has been examined. Only the engine that made it can read it, except for
/// [`behind_dead_letter`](Self::behind_dead_letter); any other text means the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPosition(pub String);

impl ListPosition {
    /// Behind a dead letter, which may be gone, in the list of those of its topic. Every engine reads this one.
    #[must_use]
    pub fn behind_dead_letter(dead_at: Timestamp, id: &JobId) -> Self {
        Self(format!("{} {id}", dead_at.as_millis()))
    }
}

/// A job in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedJob {
    /// The job, with an empty body.
    pub job: Job,
    /// The length of its body in bytes.
    pub body_bytes: u64,
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPage {
    /// The jobs that match; perhaps none although there are more.
    pub jobs: Vec<ListedJob>,
    /// Where to continue; `None` at the end of the list.
    pub next: Option<ListPosition>,
    /// How many jobs were examined.
    pub examined: usize,
}

impl JobPage {
    /// The highest `limit` of a page in the API. The store itself has no such limit.
    pub const MAX_JOBS: usize = 200;
    /// About how many jobs one call examines at most.
    pub const MAX_EXAMINED: usize = 20_000;

    /// Adds the part of the list that follows. Returns whether the page is complete, for a caller that wants `limit` jobs.
    pub fn extend(&mut self, rest: Self, limit: usize) -> bool {
        self.jobs.extend(rest.jobs);
        self.examined += rest.examined;
        self.next = rest.next;
        self.next.is_none() || self.jobs.len() >= limit || self.examined >= Self::MAX_EXAMINED
    }
}

/// A job as a list showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenJob {
    /// Its id.
    pub id: JobId,
    /// Its topic.
    pub topic: Topic,
    /// Its state.
    pub state: State,
    /// The moment of this state.
    pub moment: Timestamp,
}

impl SeenJob {
    /// What a list showed of `job`.
    #[must_use]
    pub fn new(job: &Job) -> Self {
        Self { id: job.id.clone(), topic: job.topic.clone(), state: job.state(), moment: moment_of(job) }
    }

    /// Whether the job is still as it was seen.
    #[must_use]
    pub fn is_still(&self, job: &Job) -> bool {
        *self == Self::new(job)
    }
}

/// One job to change by [`super::Steps::change`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeJob {
    /// The job, which stays as it is unless it is still as it was seen.
    pub seen: SeenJob,
    /// What to do.
    pub change: JobChange,
}

/// What to do with a job that a list showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobChange {
    /// Deletes it, in any state.
    Delete,
    /// Gives a delayed or ready job another due time.
    Reschedule(Due),
    /// Makes a dead letter wait again, as [`super::StepAction::Requeue`] does.
    Requeue(Requeue),
    /// Takes a reserved job back from its worker, as [`super::StepAction::Revoke`] does.
    Revoke {
        /// When it is due.
        due: Due,
        /// Why.
        reason: Option<Reason>,
    },
}

impl JobChange {
    /// Whether a job that is changed so at `now` is due at once.
    #[must_use]
    pub fn makes_due(&self, now: Timestamp) -> bool {
        match self {
            Self::Delete => false,
            Self::Reschedule(due) => due.is_at_once(now),
            Self::Requeue(requeue) => requeue.due.is_at_once(now),
            Self::Revoke { due, .. } => due.is_at_once(now),
        }
    }

    /// Whether a job in `state` can be changed so.
    #[must_use]
    pub fn applies_to(&self, state: State) -> bool {
        match self {
            Self::Delete => true,
            Self::Reschedule(_) => matches!(state, State::Delayed | State::Ready),
            Self::Requeue(_) => state == State::Dead,
            Self::Revoke { .. } => state == State::Reserved,
        }
    }
}
