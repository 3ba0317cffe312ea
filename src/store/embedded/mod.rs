//! The embedded engine: one process, one directory, durable before the acknowledgement. Knows no HTTP, no queue and
//! no other engine.
//!
//! Jobs are stored in a SQLite database (bundled, in WAL mode) in `data_dir`, with a lock file and a ballast file
//! beside it. One thread, the writer, changes it: a group of operations per transaction, and one sync per group.
//! Memory keeps an index of the jobs by the hash of their id, and the delayed, ready and reserved jobs in order; it
//! is rebuilt at every start.
//!
//! # Rooms
//!
//! ```text
//! engine.rs    implements the trait: each call becomes an operation of the writer
//! start.rs     opens the store and starts the threads
//! writer/      the queue of operations, the group commit, checkpoints, interval syncs, the vacuum
//! recovery/    which files belong together, the write-ahead log, loading
//! verify/      verification, backup, restore, whole records
//! ops/         the operations, each within a write transaction over rows and memory
//! memory/      the job index, the topics, the delayed jobs by due time, the journal
//! disk/        the locked directory, the commit mark, the ballast, free space
//! id_index/    the ids in order, while callers search by the beginning of an id
//! rows/        the schema, the codec of records, the statements over each table
//!
//! engine ─► writer ─► ops ─┬─► memory
//!                          └─► rows
//! recovery ─► ops, memory, rows, disk: checks the files, loads the rows into memory
//! verify ─► recovery, memory, rows, disk: compares rows and memory
//! ```
//!
//! The `mod.rs` of each room describes how it works.
//!
//! # A call
//!
//! Each call of the trait, also one that only reads, is an operation in the queue of the writer. Only memory knows
//! the state of a job, and memory belongs to the writer's thread. So a read sees every acknowledged change, and
//! writes need no lock. Some calls do without the queue: `may_have_ready`, `ready_outlets` and `topic_config` read
//! what the writer has published (`writer/published.rs`); notices (`notice_board.rs`) and the rates of calls
//! (`rate_limits.rs`) are only in memory; an export, a backup and the index of ids (`id_index/`) read by connections of their
//! own.
//!
//! After the commit, and before the replies, the writer calls the store's listener: `ready` for each outlet that
//! got ready jobs, and `due_in` if the queue's timer has to wake earlier. Before that it publishes which outlets
//! have ready jobs, so that a poll for which `may_have_ready` was false gets the notification.
//!
//! # Time
//!
//! The clock is the wall clock at the start plus the boot time since then, and never below the latest moment on
//! which the store acted, which the row `clock` of the table `meta` has. So delays do not change when the machine's
//! clock is set. A job that is due at a moment (`at`) goes by the machine's clock: its key says so
//! (`RowKey::kind`), memory keeps such jobs in an order of their own (`ByKind`), and callers see times of the
//! machine's clock (`Record::to_job`).

#[cfg(any(test, feature = "benching"))]
pub(crate) mod benching;
mod disk;
mod engine;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod id_index;
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
    backup_mark::record_backup,
    offline::{Inspection, inspect, inspect_backup},
    record_reader::{Identity, read_identity, read_records},
};
