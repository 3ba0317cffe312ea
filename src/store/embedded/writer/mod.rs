//! The writer thread: the queue of operations in front of it, the group commit, and the maintenance that runs
//! beside it. Knows operations only by the transaction that they work on.

pub(super) mod checkpoint;
pub(super) mod commit;
mod end;
pub(super) mod interval_sync;
pub(super) mod request;
pub(super) mod shared;
pub(super) mod vacuum;
pub(super) mod write_queue;
