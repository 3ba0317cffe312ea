//! What a bulk operation is asked to do, and what that means for each job.

use std::{sync::Arc, time::Duration};

use xxhash_rust::xxh3::xxh3_64;

use crate::{
    job::{Actor, Delay, Due, ExpiryChange, OperationId, Reason, State, Timestamp},
    store::{ChangeJob, JobChange, JobFilter, ListedJob, Order, Requeue, SeenJob, moment_of},
};

/// A request for a bulk operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkRequest {
    /// The id that the client chose; `None` once the operation has it.
    pub id: Option<OperationId>,
    /// What to do with each job.
    pub action: BulkAction,
    /// The jobs.
    pub filter: JobFilter,
    /// Another expiry for those that are requeued.
    pub expiry: ExpiryChange,
    /// Why jobs are taken back from their workers.
    pub reason: Option<Reason>,
    /// The jobs are spread over this time after the moment that the action sets.
    pub spread: Option<Duration>,
    /// Most jobs to change; `None` for a dry run, which only counts them.
    pub limit: Option<u64>,
    /// The name of the caller's token.
    pub by: Arc<str>,
}

/// What a bulk operation does with each of its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkAction {
    /// Deletes it.
    Delete,
    /// Gives a delayed or ready job this due time.
    Reschedule(Due),
    /// Moves the due time of a delayed or ready job by this many milliseconds.
    Shift(i64),
    /// Makes a dead letter wait again.
    Requeue(Due),
    /// Takes a reserved job back from its worker.
    Revoke(Due),
}

impl BulkAction {
    /// The name in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Reschedule(_) | Self::Shift(_) => "reschedule",
            Self::Requeue(_) => "requeue",
            Self::Revoke(_) => "revoke",
        }
    }
}

impl BulkRequest {
    /// Whether it only counts the jobs.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.limit.is_none()
    }

    /// Whether both ask for the same. Neither their ids nor their callers matter.
    pub(super) fn is_repeat_of(&self, other: &Self) -> bool {
        let Self { id: _, action, filter, expiry, reason, spread, limit, by: _ } = self;
        (action, filter, expiry, reason, spread, limit)
            == (&other.action, &other.filter, &other.expiry, &other.reason, &other.spread, &other.limit)
    }

    /// The order in which the jobs are walked: a shift of delayed jobs to later begins with the last one, so that the walk does
    /// not meet a job again that it has moved. Ready jobs are walked from the head of their lists, from which workers pop.
    pub(super) fn order(&self) -> Order {
        match (self.action, self.filter.state) {
            (BulkAction::Shift(1..), State::Delayed) => Order::Descending,
            _ => Order::Ascending,
        }
    }

    /// Whether the walk may meet a changed job again: where it is due now, or as a dead letter of a later moment. So may a shift
    /// against its order: a list has the jobs in the order in which the store keeps them, which is not that of the moments that
    /// it shows once the machine's clock was set.
    pub(super) fn may_meet_again(&self) -> bool {
        self.action != BulkAction::Delete
    }

    /// The change of one job.
    pub(super) fn change(&self, listed: &ListedJob) -> ChangeJob {
        let job = &listed.job;
        let offset = self.offset(job.id.as_str());
        let delay = |delay: Delay| Delay::new(delay.as_duration() + offset).unwrap_or(Delay::LONGEST);
        let later = |due: Due| match due {
            Due::After(after) => Due::After(delay(after)),
            Due::At(at) => Due::At(at.after(offset)),
        };
        let change = match self.action {
            BulkAction::Delete => JobChange::Delete,
            BulkAction::Reschedule(due) => JobChange::Reschedule(later(due)),
            BulkAction::Shift(shift_ms) => {
                let moved = moment_of(job).as_millis().saturating_add(shift_ms);
                let moved = moved.clamp(0, Timestamp::MAX.as_millis());
                JobChange::Reschedule(Due::At(Timestamp::from_millis(moved)))
            }
            BulkAction::Requeue(due) => JobChange::Requeue(Requeue { due: later(due), expiry: self.expiry }),
            BulkAction::Revoke(due) => {
                let by = Actor::abridged(&self.by);
                let reason = Reason::revoked(by.as_ref(), self.reason.as_ref());
                JobChange::Revoke { due: later(due), reason: Some(reason) }
            }
        };
        ChangeJob { seen: SeenJob::new(job), change }
    }

    /// How long after the moment of the action this job is due. It depends only on the job's id.
    fn offset(&self, id: &str) -> Duration {
        let spread_ms = self.spread.map_or(0, |spread| u64::try_from(spread.as_millis()).unwrap_or(u64::MAX));
        Duration::from_millis(xxh3_64(id.as_bytes()).checked_rem(spread_ms).unwrap_or(0))
    }
}
