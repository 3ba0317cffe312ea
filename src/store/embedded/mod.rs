//! The embedded engine: one process, one directory, durable before the acknowledgement.
//!
//! Jobs are stored in a SQLite database in WAL mode. One thread changes it: a group of operations per transaction,
//! and one sync per group. Memory keeps an index of the jobs by the hash of their id, and the delayed, ready and
//! reserved jobs in order; it is rebuilt at every start. Knows no HTTP, no queue and no other
//! engine.
//!
//! ```text
//! engine ─► writer ─► ops ─┬─► memory (job index, topics, delayed jobs; journal)
//!                          └─► rows (schema, codec, transaction)
//! recovery ─► all of these: checks the files, loads the rows into memory
//! verify ─► rows and memory, compared with each other; offline, backup and restore
//! disk ─► the data directory, the ballast file, free space
//! ```

#[cfg(any(test, feature = "benching"))]
pub(crate) mod benching;
mod disk;
mod engine;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod memory;
mod notice_board;
mod ops;
mod options;
mod rate_limits;
mod recovery;
mod rows;
mod start;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

pub use engine::EmbeddedStore;
#[cfg(any(test, fuzzing))]
pub(crate) use fuzzing::fuzz_record;
pub use options::{Durability, FreeSpace, OpenError, Options};
pub use recovery::accept_clock::{AcceptedClock, accept_clock};
pub use start::open;
pub use verify::{
    backup::{backup, backup_to, remove_incomplete, restore, restore_from, restored_file},
    offline::{Inspection, inspect, inspect_backup},
    record_reader::{Identity, read_identity, read_records},
};
