//! What the engine keeps in memory to answer quickly, rebuilt from the rows at every start. Knows no SQL.
//!
//! * `job_index.rs`: from the hash of each id to the key of its record, in many small maps. The caller resolves
//!   collisions by the id in the record.
//! * `topics.rs`: the delayed and the ready jobs of each outlet in order, and the delayed jobs of all outlets by
//!   due time, apart for each of the two clocks that decide.
//! * `due_counts.rs`: the counts of delayed jobs by minute and by hour, for timelines. The minute is that of a
//!   job's key, which of more than 16,384 jobs of one kind due in the same millisecond is up to a few milliseconds late.
//! * `expiries.rs`: when jobs expire, and which of them wait, apart for each clock.
//! * `state.rs`: all of these and the reservations, and the rollback of a group by its `journal.rs`.

pub(super) mod due_counts;
pub(super) mod expiries;
pub(super) mod job_index;
pub(super) mod job_state;
mod journal;
pub(super) mod state;
pub(super) mod topics;
