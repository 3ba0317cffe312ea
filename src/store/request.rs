//! The arguments of store operations: complete and valid, with relative times.

use crate::job::{
    Actor, Body, Due, ExpiryChange, Fingerprint, JobId, JobSpec, NoteText, Reason, Receipt, RetrySchedule,
    Topic, Ttr,
};

/// A job to add. Only its due moment is not resolved yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddJob {
    /// Its id.
    pub id: JobId,
    /// Its topic.
    pub topic: Topic,
    /// When it becomes due.
    pub due: Due,
    /// How it is run.
    pub spec: JobSpec,
    /// Hash of the client's request, to recognise a repeat.
    pub fingerprint: Fingerprint,
    /// Its topic accepts no new jobs: only the repeat of an earlier add is recognised.
    pub is_paused: bool,
    /// What happens to a job of its topic that has its id.
    pub if_exists: IfExists,
    /// The data for the worker.
    pub body: Body,
}

/// What an add does to a job of the same topic and id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum IfExists {
    /// Nothing: the job stays as it is.
    #[default]
    Keep,
    /// It puts the new job in its place, unless the new one has a revision that is not higher.
    Replace {
        /// Who asks for it, for the history of the new one.
        by: Option<Actor>,
    },
}

/// A request for one ready job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claim {
    /// How long the reservation lasts; `None` is the job's own TTR.
    pub ttr: Option<Ttr>,
    /// Who reserves the job.
    pub by: Option<Actor>,
}

/// Whether the caller of [`Store::reserve`](super::Store::reserve) keeps waiting when it gets fewer jobs than it
/// requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It does not wait.
    No,
    /// It waits for the [`Listener`](super::Listener) and reserves again. The engine may return without having
    /// searched everywhere. It then notifies the listener soon if there are ready jobs, or if the search failed, so
    /// that the caller reserves again and receives the error.
    Yes,
}

/// One job to finish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishJob {
    /// Its id.
    pub id: JobId,
    /// The receipt of the reservation, if the client sent one.
    pub receipt: Option<Receipt>,
}

/// How to release a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Release {
    /// When it is due again; `None` follows the job's schedule.
    pub due: Option<Due>,
    /// The worker's reason, which is stored with the job.
    pub reason: Option<Reason>,
}

/// How to extend a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Touch {
    /// How long it lasts from now; `None` is the job's own TTR.
    pub ttr: Option<Ttr>,
    /// How far the worker is; `None` leaves the job the note that it has.
    pub note: Option<NoteText>,
}

impl From<Option<Ttr>> for Touch {
    fn from(ttr: Option<Ttr>) -> Self {
        Self { ttr, note: None }
    }
}

/// How to requeue a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requeue {
    /// When it is due.
    pub due: Due,
    /// Another expiry, or none. A job whose expiry has passed is requeued only with one of them.
    pub expiry: ExpiryChange,
}

impl From<Due> for Requeue {
    fn from(due: Due) -> Self {
        Self { due, ..Self::default() }
    }
}

/// Changes to a job; `None` leaves a value unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patch {
    /// A new due time.
    pub due: Option<Due>,
    /// A new time to run.
    pub ttr: Option<Ttr>,
    /// A new cap on attempts; 0 means no cap.
    pub max_attempts: Option<u32>,
    /// A new schedule.
    pub retry: Option<RetrySchedule>,
    /// Another expiry, or none.
    pub expiry: ExpiryChange,
    /// A new body.
    pub body: Option<Body>,
}

impl Patch {
    /// Sets the values of a spec that the patch has.
    pub fn apply_to(&self, spec: &mut JobSpec) {
        let Self { due: _, ttr, max_attempts, retry, expiry, body: _ } = self;
        spec.ttr = ttr.unwrap_or(spec.ttr);
        spec.max_attempts = max_attempts.unwrap_or(spec.max_attempts);
        if let Some(retry) = retry {
            spec.retry = retry.clone();
        }
        spec.expiry = expiry.apply_to(spec.expiry);
    }
}

/// The position of a purge. Only the engine that made it can read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeCursor(pub String);
