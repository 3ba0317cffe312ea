//! The results of store operations. Expected results are values; the layers above turn them into statuses.

use std::time::Duration;

use super::{PurgeCursor, TopicConfig, Totals};
use crate::job::{Job, JobId, Receipt, RememberedId, SigningSecret, State, Timestamp, Topic};

/// Result of an add, of a finish or of a step: what it did, or why it changed nothing.
pub type Outcome<T> = std::result::Result<T, Refusal>;

/// Why an add, a finish or a step changed nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such job of the caller's topics.
    Gone,
    /// The receipt is not that of the present reservation, and is good for nothing: another attempt has begun, the job was
    /// changed or given back, or it wants no late finish.
    Lost,
    /// The reservation of the receipt timed out, and since then the job was neither reserved nor changed: the receipt is good for
    /// a finish only. A finish is never refused by this.
    TimedOut,
    /// No receipt was sent and the job is not reserved.
    NotReserved,
    /// No receipt was sent and the job requires one.
    ReceiptRequired,
    /// The action does not apply to a job in this state.
    InState(State),
    /// The job is gone, or not as the list showed it.
    NotAsSeen,
    /// Another job has this id.
    Exists {
        /// That job's topic.
        topic: Topic,
        /// That job's state.
        state: State,
        /// That job's due time.
        due_at: Timestamp,
    },
    /// The job has a higher revision than the add that was to replace it.
    OlderRevision {
        /// The job's revision.
        stored: u64,
    },
    /// The job was replaced during this reservation, which was of the older version. Unless this is refused to a touch, the
    /// reservation has ended, and the new version waits for its due time.
    Replaced,
    /// The id is that of a job that was finished or deleted, and is remembered: for another request, of another topic, or of a
    /// deleted job.
    EndedBefore(RememberedId),
    /// The topic accepts no new jobs.
    IntakePaused,
    /// The job would expire before it is due.
    ExpiresFirst,
    /// The dead letter's expiry has passed, and the requeue has no other one.
    Expired,
}

/// What a finish did: the job is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The job's topic.
    pub topic: Topic,
    /// Whether its reservation had timed out.
    pub is_late: bool,
}

/// What an add did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Added {
    /// Stored.
    Created(Job),
    /// The same job, or the same revision of it, exists already and is returned; nothing changed.
    Replayed(Job),
    /// Stored in the place of an older version.
    Replaced(Job),
    /// The same job was finished before, and its id is remembered; nothing changed.
    FinishedBefore(RememberedId),
}

/// Result of adding a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddedSecret {
    /// Stored.
    Created(SigningSecret),
    /// The topic has this key already, as this secret; nothing changed.
    Exists(SigningSecret),
    /// The topic has [`SigningSecret::MAX_COUNT`] secrets already; nothing changed.
    TooMany,
}

/// A reservation. `job.state` is [`State::Reserved`], and `job.attempts` includes this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Which claim it is for: an index into the claims of the call.
    pub claim: usize,
    /// The job as reserved.
    pub job: Job,
    /// Proof of this reservation.
    pub receipt: Receipt,
    /// Time from due to this reservation.
    pub late: Duration,
    /// Time from ready to this reservation.
    pub waited: Duration,
}

/// Result of a promotion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Promoted {
    /// Every move, for the metrics.
    pub moves: Vec<Move>,
    /// Whether more is due already.
    pub more: bool,
    /// Time until the next deadline that the engine knows and for which `promote` must be called; `None` when there is
    /// none, or when the engine waits for it.
    pub next_in: Option<Duration>,
    /// Broken entries set aside by this call.
    pub set_aside: usize,
}

/// A job that a deadline moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Its topic.
    pub topic: Topic,
    /// What happened.
    pub kind: MoveKind,
    /// How long after its deadline.
    pub late: Duration,
    /// Whether that made it ready.
    pub is_ready: bool,
    /// The id of a job that expired and was deleted.
    pub deleted: Option<JobId>,
}

/// What a deadline did to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MoveKind {
    /// Delayed to ready.
    Ready,
    /// Reserved back to ready or delayed: its TTR ended.
    TimedOut,
    /// Reserved to dead: its TTR ended and its attempts are used.
    Died,
    /// Dead to gone: its retention ended.
    Forgotten,
    /// Delayed or ready to dead or gone: it expired.
    Expired,
}

/// Result of one slice of a purge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeSlice {
    /// Jobs deleted by this slice.
    pub deleted: usize,
    /// Where to continue; `None` when the purge is complete.
    pub next: Option<PurgeCursor>,
}

/// Result of a verification; see [`super::Store::verify`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verified {
    /// Jobs, the dead ones included.
    pub jobs: u64,
    /// Index entries that lead to no job, left behind by jobs that moved on. Harmless and bounded.
    pub stale: u64,
    /// Broken records that were set aside, now or earlier.
    pub set_aside: u64,
    /// The inconsistencies, as sentences that name the job or topic; a bounded number of them.
    pub faults: Vec<String>,
}

/// The statistics of a topic. Each job counts in exactly one state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicStats {
    /// Jobs waiting for their due time.
    pub delayed: u64,
    /// Jobs waiting for a worker.
    pub ready: u64,
    /// Jobs reserved by workers.
    pub reserved: u64,
    /// Dead letters.
    pub dead: u64,
    /// When the next delayed job is due; on Redis `None` also if the deadlines of many other jobs come first.
    /// [`super::Store::topics`] may leave it out.
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
        self.totals().count(state)
    }

    /// Jobs by state.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let Self { delayed, ready, reserved, dead, .. } = *self;
        Totals { delayed, ready, reserved, dead }
    }
}
