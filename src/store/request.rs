//! What the store is asked: complete and valid, times still relative.

use crate::job::{
    Body, Delay, Due, Fingerprint, JobId, Reason, Receipt, RetrySchedule, Timestamp, Topic, Ttr,
};

/// A job to add, with everything resolved but the due moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddJob {
    /// Its id.
    pub id: JobId,
    /// Its topic.
    pub topic: Topic,
    /// When it becomes due.
    pub due: Due,
    /// How long a reservation lasts.
    pub ttr: Ttr,
    /// Reservations before it is a dead letter; 0 means no cap.
    pub max_attempts: u32,
    /// Waits between attempts; empty for none.
    pub retry: RetrySchedule,
    /// Whether a finish must carry the receipt.
    pub require_receipt: bool,
    /// Hash of what the client asked, to recognise a repeat.
    pub fingerprint: Fingerprint,
    /// What the worker gets.
    pub body: Body,
}

/// Whether the caller of [`Store::reserve`](super::Store::reserve) goes on waiting when it gets fewer jobs than it
/// wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It answers with what it gets.
    No,
    /// It waits for the [`Listener`](super::Listener) and reserves again. The engine may answer without having
    /// asked everywhere. It then tells the listener soon if there are ready jobs, or if it cannot find out, so
    /// that the caller asks again and receives the error.
    Yes,
}

/// One job to finish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishJob {
    /// Which job.
    pub id: JobId,
    /// The receipt of the reservation, if the client sent one.
    pub receipt: Option<Receipt>,
}

/// How to give a job back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Release {
    /// When to try again; `None` follows the job's schedule.
    pub delay: Option<Delay>,
    /// Why, in the worker's words; kept on the job.
    pub reason: Option<Reason>,
}

/// What to change on a job; `None` leaves it.
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
    /// A new body.
    pub body: Option<Body>,
}

/// Where a walk over dead letters stands: behind this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadCursor {
    /// When the last one seen died.
    pub dead_at: Timestamp,
    /// Its id.
    pub id: JobId,
}

/// Where a purge stands; only the engine that made it can read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeCursor(pub String);
