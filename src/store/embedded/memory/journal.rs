//! The journal of a group of changes to memory: the inverse of each, in the order of the changes.

use std::sync::Arc;

use super::{
    job_index::{IdHash, JobRef},
    job_state::MemoryState,
    topics::OutletNumber,
};
use crate::{
    job::{ExpiresAt, Timestamp},
    store::{TopicConfig, embedded::rows::key::RowKey},
};

/// The inverse of one change.
#[derive(Debug)]
pub(super) enum Undo {
    RemoveFromIndex(IdHash, JobRef),
    AddToIndex(IdHash, JobRef),
    RemoveState(JobRef),
    InsertState(JobRef, MemoryState),
    SetExpiry(RowKey, Option<(ExpiresAt, OutletNumber)>),
    SetEarliestDeath(Option<Timestamp>),
    SetConfig(OutletNumber, Arc<TopicConfig>),
}
