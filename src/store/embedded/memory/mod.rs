//! What the engine keeps in memory to answer quickly, rebuilt from the rows at every start. Knows no SQL.

pub(super) mod due_counts;
pub(super) mod job_index;
pub(super) mod job_state;
mod journal;
pub(super) mod state;
pub(super) mod topics;
