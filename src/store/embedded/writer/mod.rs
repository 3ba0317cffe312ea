//! The writer thread: the queue of operations in front of it, the group commit, and the maintenance that runs
//! beside it. Knows operations only by the transaction that they work on.
//!
//! # The group commit
//!
//! The writer takes the queued operations, up to 1,024 jobs or 1 MiB, runs them in one transaction, syncs once,
//! then replies to all (`commit.rs`). There is no batching timer: requests queue while the previous sync runs.
//! Memory changes together with the rows, and its journal is rolled back with the transaction. Before each
//! acknowledgement the writer checks that the database and its log are still the files that it opened.
//!
//! # Failures
//!
//! A group that meets a full disk is rolled back whole, and the ballast is removed. Then each operation of the
//! group runs once more in a transaction of its own, so that a read or a finish is not refused because of an add
//! beside it. This is rare, because `disk/disk_space.rs` refuses operations that make the store larger while less
//! than `min_free` is left. Any other failure of a commit or a sync ends all writing until a restart, and is never
//! retried. The one exception is a database that another program has locked: the group is refused, and the writer
//! goes on.
//!
//! # Promotions
//!
//! From the first call of `promote` on, the writer promotes by itself: at the next deadline, which ends its wait
//! for operations, and before a group when something is due already. Promotions at deadlines alone would be too
//! late under load, when the writer never waits. Each promotion is bounded by the limit of that call and has a
//! transaction of its own, so that many due jobs and many operations take turns. A due job that becomes ready
//! changes only memory; the ends of TTRs and of retentions are written and synced. The writer reports what it moved
//! to the listener (`promoted`), for the metrics, and reports no deadlines to the queue's timer. After a failed
//! promotion the writer makes no more until a call of `promote` succeeds: the queue's timer has the pauses and the
//! log lines for that. Tests on a manual clock turn these promotions off (`Options::promotes_by_itself`), so that
//! they decide when jobs are promoted.
//!
//! # Beside the operations
//!
//! `checkpoint.rs` copies the write-ahead log into the database on a thread of its own. `interval_sync.rs` syncs
//! the log for `durability = "interval"`. `vacuum.rs` shrinks the file in small steps while the writer is idle.
//! `end.rs` leaves an empty log after a clean stop.

pub(super) mod checkpoint;
pub(super) mod commit;
mod end;
pub(super) mod interval_sync;
pub(super) mod published;
pub(super) mod request;
pub(super) mod vacuum;
pub(super) mod write_queue;
