//! Checking a store for damage, online or offline, and copying it: backup and restore.

pub(super) mod backup;
pub(super) mod findings;
mod memory_check;
pub(super) mod offline;
pub(super) mod online;
pub(super) mod record_reader;
pub(super) mod verify_sql;
