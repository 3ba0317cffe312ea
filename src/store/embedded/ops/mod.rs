//! The operations of the store, each within a [`write_txn::WriteTxn`]. An operation makes all checks before its
//! first change.
//!
//! `add.rs`, `reserve.rs` and `promote.rs` each have one operation, `apply.rs` the steps: those of a job's holder are in
//! `hold.rs`, those that need no reservation in `change.rs`. `schedules.rs` changes a schedule together with the job of its run, `remember.rs` has the ids of jobs that are gone. `write_txn.rs` keeps rows and memory in step, and
//! `not_done.rs` has the ends without a change.
//!
//! A list (`list.rs`) reads the heads of up to a thousand jobs in one step of the writer, in the order of the keys
//! in memory. A list of delayed or ready jobs over many outlets merges them in steps that each visit some of them
//! (`first_keys.rs`): the caller keeps the first keys of all, and has their records read in further steps, which
//! leave out what has moved since. At most two such searches run at once (`queue/views/read_permits.rs`). While there
//! is an index of ids (`id_index/`), a list of all topics by the beginning of an id reads only the jobs that it names
//! (`list_named.rs`).
//!
//! The caller's topics are compared with the topic that memory holds, inside the step, so that a foreign job costs
//! no read.

mod add;
mod apply;
mod change;
mod first_keys;
mod hold;
mod list;
mod list_named;
mod not_done;
mod promote;
mod purge;
mod put;
mod remember;
mod reserve;
mod schedules;
mod topics;
pub(super) mod write_txn;

pub(super) use add::add;
pub(super) use apply::apply;
pub(super) use first_keys::{FirstKeys, Wanted, first_keys};
pub(super) use hold::finish;
pub(super) use list::{MAX_STEP, list, list_waiting};
pub(super) use list_named::{MAX_LOOKUPS, find_named, in_order, list_named};
pub(super) use promote::promote;
pub(super) use purge::purge;
pub(super) use put::put;
pub(super) use remember::put_remembered;
pub(super) use reserve::reserve;
pub(super) use schedules::{change_schedules, due_schedules, schedule, schedules};
pub(super) use topics::{get, timeline, topic, topic_values, topics, update_topic};

/// About how many bytes of jobs a promotion writes at most: it needs as much space in the write-ahead log.
const MAX_STEP_BYTES: usize = 4 << 20;
