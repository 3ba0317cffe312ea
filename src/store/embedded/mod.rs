//! The embedded engine: one process, one directory, durable before the acknowledgement.
//!
//! A SQLite database in WAL mode holds the truth; one thread changes it, a group of operations to a
//! transaction, a sync to a group. Memory holds what makes that quick: where each job lies by the hash of its
//! id, what is ready, what is reserved, and what is due in the next minutes. It is rebuilt at every start.
//! Knows no HTTP, no queue and no other engine.
//!
//! ```text
//! engine ─ call ─► intake ─► writer ─► ops ─► work ─┬─► db (rows, transaction)
//!                              │                     └─► state (ids, topics, window; journal)
//!                              └─ checkpoint, sync, space: chores beside the work
//! start ─► data_dir, schema, log, link, load
//! writer ─► disk_space ─► ballast: what is refused and given up when the disk is full
//! verify ─► survey (rows) and state (memory), held against each other; inspect: the same, nobody serving
//! ```

mod backup;
mod ballast;
#[cfg(any(test, feature = "benching"))]
pub(crate) mod benching;
mod call;
mod checkpoint;
mod data_dir;
mod db;
mod disk_space;
mod engine;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod ids;
mod inspect;
mod intake;
mod key;
mod link;
mod load;
mod log;
mod marks;
mod ops;
mod options;
mod record;
mod schema;
mod seal;
mod shared;
mod space;
mod start;
mod state;
mod survey;
mod sync;
#[cfg(test)]
mod tests;
mod topics;
mod verify;
mod window;
mod work;
mod writer;

pub use backup::{backup, backup_to, restore};
pub use engine::Embedded;
#[cfg(any(test, fuzzing))]
pub(crate) use fuzzing::fuzz_record;
pub use inspect::{Inspection, inspect, inspect_backup};
pub use options::{Durability, FreeSpace, OpenError, Options};
pub use start::open;
