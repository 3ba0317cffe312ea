//! The operations of the store, each within a [`write_txn::WriteTxn`]. An operation makes all checks before its
//! first change.

mod add;
mod change;
mod first_keys;
mod hold;
mod list;
mod promote;
mod purge;
mod put;
mod reserve;
mod topics;
pub(super) mod write_txn;

pub(super) use add::add;
pub(super) use change::{change, delete, patch, requeue};
pub(super) use first_keys::{FirstKeys, Wanted, first_keys};
pub(super) use hold::{bury, cancel, finish, postpone, release, touch};
pub(super) use list::{MAX_STEP, list, list_waiting};
pub(super) use promote::promote;
pub(super) use purge::purge;
pub(super) use put::{put, put_topic, replace_topic};
pub(super) use reserve::reserve;
pub(super) use topics::{add_secret, delete_secret, get, put_config, put_settings, timeline, topic, topics};

/// About how many bytes of jobs a promotion writes at most: it needs as much space in the write-ahead log.
const MAX_STEP_BYTES: usize = 4 << 20;
