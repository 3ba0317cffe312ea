//! The operations of the store, each a call of one script per shard. Must not open connections.
//!
//! # Reserving
//!
//! A pop reserves from as many shards as it needs, from all at the same time and from each its share: one after the
//! other, the first job would wait for the last shard. Which shards come first rotates. Once one shard has returned
//! jobs, the others have 150 ms; the reservations of jobs that come later are cancelled. In a Cluster, shards on
//! other servers are added if none has answered after 150 ms (`reserve_round.rs`). A reserve for several polls has
//! a claim for each job, which says for how long it is reserved and by whom. Each shard gets some of the claims, so
//! a poll in front may get nothing while one behind it gets a job; equal claims get their jobs in order (`pop.rs`).
//!
//! # Promoting
//!
//! `scripts/promote.lua` goes through all shards of a server. It reads the first entry of `due`, `leases` and
//! `dead_by_time`, and moves every job whose deadline has passed and whose outlet's keys it was given: those of the
//! eight outlets that had due jobs most recently. For jobs of other outlets a second call follows, with their keys
//! (`promote.rs`).
//!
//! # Lists
//!
//! `scripts/list.lua` reads a part of the index of one shard, up to about 200 records or 256 KiB in a run, and
//! returns those that match without their bodies. A position is a moment and an id, the same for all shards; among
//! equal moments it is found by halving. `list.rs` merges the shards up to where all of them have been read. A list
//! of delayed jobs of a topic skips the minutes and hours in which its timeline has none.
//!
//! Ready jobs have no index by due time: up to a thousand are read and sorted for each page; beyond that one ready
//! list is walked after the other (`list_ready.rs`), and a page is sorted only in itself. There a position names
//! the last entry, which is searched near the index that it had, because workers pop and others push between two
//! pages.
//!
//! `scripts/change.lua` compares topic, state and moment with what was seen, in the step that changes the job, up
//! to 100 jobs in a run.
//!
//! # Counts and timelines
//!
//! The scripts keep counts of the jobs per state and topic, and of the delayed jobs per minute and hour, in the
//! same step as the state. Redis has no index of the topics' names, so a list of topics, and a list of ready jobs
//! over all topics, goes through the counts of every shard, some thousand fields in a run; only the counts of
//! topics with the prefix that the callers have in common leave the server. `counts.rs` does so once at a time:
//! callers share a reading that began after they came, and the pages behind a cursor are made of the reading of the
//! page that ended there, for two seconds.
//!
//! The timeline of a topic reads hours where a step covers whole ones, minutes elsewhere, at most 1,000 counts in a
//! run; that of all topics asks the index of delayed jobs (`timeline.rs`). The sweep counts a timeline again that
//! was removed.
//!
//! # Scans
//!
//! A cursor of `HSCAN` means nothing at another server. `records` and a purge must reach every job of a shard in
//! several runs, so they use `scripts/scan.lua`, whose cursor names the server: after a failover the scan of that
//! shard starts over. `records.rs` lists the ids of a shard, sorts them, and reads the records in that order,
//! because a scan may return a job twice. Mending and `verify` scan the records with it, too, and drop what they
//! counted when that scan starts over. Their scans of the indexes, and long lists of topics, use plain cursors. What
//! these miss in a failover shows as a count that does not match, which a later sweep mends, or as a topic that the
//! next list has.
//!
//! # Verification
//!
//! `scripts/verify.lua` reads a shard in runs of about ten thousand jobs. A shard that fits in one run is verified
//! as of one moment, counts per topic and timeline included. A larger shard is verified page by page, each page and
//! each ready list as of its own moment, and its counts are compared with the sizes of the indexes. A ready list is
//! always read whole, in one run.

pub mod add;
mod add_rare;
mod added;
pub mod allow;
pub mod apply;
mod apply_batch;
pub mod archive;
pub mod counts;
pub mod finish;
pub mod gone_delay;
pub mod list;
mod list_query;
pub mod list_ready;
pub mod moving;
pub mod notices;
mod pop;
pub mod promote;
mod promotions;
pub mod purge;
pub mod read;
pub mod records;
pub mod reserve;
mod reserve_round;
pub mod schedules;
mod server_clocks;
pub mod settings;
pub mod shard_reserve;
pub mod timeline;
pub mod topics;
pub mod verify;
