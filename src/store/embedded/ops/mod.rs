//! The operations of the store, one family to a file, each on one view of the engine. All checks come before
//! the first change.

mod add;
mod change;
mod hold;
mod promote;
mod purge;
mod reserve;
mod scan;
mod topics;
pub(super) mod write_txn;

pub(super) use add::add;
pub(super) use change::{delete, patch, requeue};
pub(super) use hold::{bury, cancel, finish, release, touch};
pub(super) use promote::promote;
pub(super) use purge::purge;
pub(super) use reserve::reserve;
pub(super) use scan::{BulkStep, delete_dead, requeue_dead};
pub(super) use topics::{get, put_config, topic, topics};

/// Most bytes of jobs that one step over many jobs writes, about: each step needs as much room in the log.
const WRITTEN_BYTES: usize = 4 << 20;
