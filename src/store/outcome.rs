//! What a store answers. Expected outcomes are values; the layers above turn them into statuses.

use std::time::Duration;

use super::{PurgeCursor, TopicConfig};
use crate::job::{Job, Receipt, State, Timestamp, Topic};

/// Outcome of an add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Added {
    /// Stored.
    Created(Job),
    /// The same job is there already, as it stands; nothing changed.
    Replayed(Job),
    /// Another job has this id; nothing changed.
    Exists {
        /// Where that job is in its life.
        state: State,
        /// When it is or was due.
        due_at: Timestamp,
    },
}

/// One granted reservation. `job.state` is [`State::Reserved`], `job.attempts` counts this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The job as reserved.
    pub job: Job,
    /// Proof of this reservation.
    pub receipt: Receipt,
    /// From due to this reservation.
    pub late: Duration,
    /// From ready to this reservation.
    pub waited: Duration,
}

/// Why a receipt did not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotHeld {
    /// No such job.
    Gone,
    /// The job is held by somebody else, queued again or dead.
    Lost,
}

/// Outcome of an operation by the holder of a reservation: the job as it then stands.
pub type Held = std::result::Result<Job, NotHeld>;

/// Outcome of a finish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finished {
    /// The job is gone.
    Done {
        /// Its topic.
        topic: Topic,
    },
    /// No such job.
    Gone,
    /// The receipt is not the present reservation's.
    Lost,
    /// No receipt was sent and the job is not reserved.
    NotReserved,
    /// No receipt was sent and the job requires one.
    ReceiptRequired,
}

/// Outcome of a delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deleted {
    /// It was there and is gone.
    Done {
        /// Its topic.
        topic: Topic,
    },
    /// No such job.
    Gone,
}

/// Outcome of a requeue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requeued {
    /// It waits again; the job as it now stands.
    Done(Job),
    /// No such job.
    Gone,
    /// It is not dead; nothing changed.
    NotDead(State),
}

/// Outcome of a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Patched {
    /// Changed; the job as it now stands.
    Done(Job),
    /// No such job.
    Gone,
    /// It is reserved or dead; nothing changed.
    Refused(State),
}

/// What a promotion did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Promoted {
    /// Every move made, for the figures.
    pub moves: Vec<Move>,
    /// Whether more is due already.
    pub more: bool,
    /// Until the next deadline that the engine knows of; `None` when there is none. An engine that
    /// looks ahead only so far answers with the end of its view.
    pub next_in: Option<Duration>,
    /// Broken entries set aside by this call.
    pub set_aside: usize,
}

/// One job moved by the clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Its topic.
    pub topic: Topic,
    /// What happened.
    pub kind: MoveKind,
    /// How long after its deadline.
    pub late: Duration,
}

/// What a deadline did to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MoveKind {
    /// Delayed to ready.
    Ready,
    /// Reserved back to ready or delayed: its TTR ended.
    Expired,
    /// Reserved to dead: its TTR ended and its attempts are used.
    Died,
    /// Dead to gone: its retention ended.
    Forgotten,
}

/// What a slice of a purge did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeSlice {
    /// Jobs deleted by this slice.
    pub deleted: usize,
    /// Where to go on; `None` when the walk is over.
    pub next: Option<PurgeCursor>,
}

/// What a verification found; see [`super::Store::verify`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verified {
    /// Jobs, the dead ones included.
    pub jobs: u64,
    /// Index entries that lead to no job, left behind by jobs that moved on. Harmless and bounded.
    pub stale: u64,
    /// Broken records that were set aside, now or earlier.
    pub set_aside: u64,
    /// What contradicts itself, in words that name the job or topic; a bounded number of them.
    pub faults: Vec<String>,
}

/// A topic's figures. Each job counts in exactly one state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicStats {
    /// Jobs waiting for their due time.
    pub delayed: u64,
    /// Jobs waiting for a worker.
    pub ready: u64,
    /// Jobs held by workers.
    pub reserved: u64,
    /// Dead letters.
    pub dead: u64,
    /// When the next delayed job is due; `None` also when that lies beyond what the engine looks
    /// ahead. [`super::Store::topics`] may leave it out.
    pub next_due: Option<Timestamp>,
    /// Due time of the ready job that has waited longest. [`super::Store::topics`] may leave it out.
    pub oldest_ready: Option<Timestamp>,
    /// Settings and pause.
    pub config: TopicConfig,
}

impl TopicStats {
    /// Jobs in `state`.
    #[must_use]
    pub fn count(&self, state: State) -> u64 {
        match state {
            State::Delayed => self.delayed,
            State::Ready => self.ready,
            State::Reserved => self.reserved,
            State::Dead => self.dead,
        }
    }
}
