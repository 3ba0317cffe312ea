//! The state of one job in memory.

use crate::{
    job::{State, Timestamp},
    store::embedded::rows::codec::Lease,
};

/// The state of a job, with what only memory knows about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MemoryState {
    Delayed,
    Ready { since: Timestamp },
    Reserved(Lease),
    Dead,
}

impl MemoryState {
    /// The state without what only memory knows.
    pub fn name(&self) -> State {
        match self {
            Self::Delayed => State::Delayed,
            Self::Ready { .. } => State::Ready,
            Self::Reserved(_) => State::Reserved,
            Self::Dead => State::Dead,
        }
    }
}
