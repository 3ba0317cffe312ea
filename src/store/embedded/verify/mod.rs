//! Checking a store for damage, online or offline, and copying it: backup, restore and whole records.
//!
//! `online.rs` compares rows and memory in slices through the writer. `offline.rs` does the same with a directory
//! that is not in use, on a connection that cannot write. `backup.rs` copies while a server runs: a second process
//! may read a database in WAL mode, and the lock file guards only serving and restoring. `record_reader.rs` reads
//! all records in one read transaction of a connection of its own, so that `linger export` needs no lock and delays
//! no operation.

pub(super) mod backup;
pub(super) mod backup_mark;
pub(super) mod findings;
mod memory_check;
pub(super) mod offline;
pub(super) mod online;
pub(super) mod record_reader;
pub(super) mod verify_sql;
