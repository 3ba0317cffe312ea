//! Opening a store: which files belong together, what the write-ahead log holds, and loading the rows into memory.
//! Nothing is served before.
//!
//! SQLite notices neither a log that was cut off at a commit, nor an older or foreign file in the place of one of
//! its own, nor rows that are unreachable because of a flipped bit in a page above them. So each commit writes its
//! number and the number of jobs into the store's head (`rows/meta.rs`), and the number of the commit, unsynced,
//! into the lock file (`disk/commit_mark.rs`).
//!
//! At a start, `c - b <= a <= c` must hold: `a` is the number of commits in the head of the database file read
//! alone, `b` the number of commits in the log, and `c` the number in the head of both read together. If it does
//! not, or if the ids of the store differ, the files do not belong together, and the start refuses them
//! (`identity.rs`). Commits that the lock file knows and the store lacks are logged. `wal.rs` finds a log that was
//! lost or that SQLite would end early.
//!
//! `load.rs` then reads each table once, in order, and checks every record and row by its checksum. A record that
//! cannot be read is moved to the table `broken`. The number of jobs is compared with that of the head; a
//! difference is logged.

pub(super) mod accept_clock;
pub(super) mod identity;
pub(super) mod load;
pub(super) mod open;
pub(super) mod wal;
