//! How the processes that share a queue stay in step: calls to shards, announcements, which shards have ready jobs,
//! the sweep, batches of calls and replay slots. Must not know the operations of the store.
//!
//! # The sweep
//!
//! Every process sweeps each shard twice a second, whether calls come or not (`sweep.rs`). It reads how many
//! announcements the shard has made, to recover lost ones, and the server's clock, and checks the layout, the marks
//! and the permissions. Every half minute it also compares counts with the sizes of the indexes, and has a shard
//! that differs mended record by record (`mend.rs`). The permissions are tested at the start, too
//! (`permissions.rs`).
//!
//! # Ready jobs
//!
//! `ready_shards.rs` knows which shards may have ready jobs of an outlet, and how many by their last count. A pop
//! that is about to return fewer jobs than wanted probes every shard first. Polls that wait anyway, for one job
//! each, need no such probe, which would cost one more script for every job that one of them gets: they are
//! notified of jobs that become ready. A notification is lost if it came before this process subscribed, or if an
//! older reply is read after it and overwrites what it said. So one probe for all topics with waiting polls follows
//! soon, at most every 10 ms (`probe.rs`). If it fails, the waiting polls probe themselves and so learn why.
//!
//! A list entry contains the job's generation. Deleting and rescheduling leave entries that no longer match, which
//! a reserve skips and the sweep compacts (`compaction.rs`).
//!
//! # Lost replies
//!
//! A pop whose reply never came may have reserved jobs. Its replay slot (`replay_slots.rs`) is retained, and once
//! its server replies, the call is sent again with the same sequence number, for 0 jobs. If the first one ran, the
//! slot returns its jobs, and their reservations are cancelled; if not, nothing is reserved (`lost_pops.rs`). A
//! change that had no reply is a pending change (`shards.rs`): the sweep rechecks its shard.
//!
//! # Servers that do not reply
//!
//! Each shard of a Cluster is promoted and swept at its own pace. A server whose reply is outstanding for
//! `prompt_timeout` (150 ms) is asked last until it replies (`unresponsive.rs`), so that it delays only its own jobs.
//! Any one server delivers the announcements.
//!
//! # The store's identity
//!
//! The seed of host numbers is random, so it identifies the store. Each shard has a mark made of it in the field of
//! the fence, which every change reads anyway (`store_identity.rs`). Earlier builds take the mark for no fence. The
//! first start stores the layout, marks all shards and then notes in `meta` that they are marked, so that later
//! starts write nothing (`stored_layout.rs`). The sweep compares seed and marks. A process that misses its store
//! refuses the calls to the lost slots, and notes the mark of that store in `meta`, so that no process takes this
//! for the first start. `linger store accept` gives the store a new seed, because the old data may come back, and
//! lists in `meta` the marks that it replaces: a process whose store has one of these goes on with the new one.
//! With `redis.accept_empty` each process does what that command does.

pub mod announcements;
pub mod batch;
pub mod cancel;
pub mod compaction;
pub mod health;
pub mod lost_pops;
pub mod mend;
pub mod notifier;
pub mod permissions;
pub mod probe;
mod ready_shards;
mod replay_slots;
pub mod settings_cache;
pub mod shards;
pub mod store_identity;
pub mod stored_layout;
pub mod sweep;
mod unresponsive;
