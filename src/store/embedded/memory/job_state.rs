//! The state of one job in memory.

use crate::{job::Timestamp, store::embedded::rows::codec::Lease};

/// The state of a job, with what only memory knows about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobState {
    Delayed,
    Ready { since: Timestamp },
    Reserved(Lease),
    Dead,
}
