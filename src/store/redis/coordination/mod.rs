//! How the processes that share a queue stay in step: calls to shards, announcements, which shards have ready jobs, the
//! sweep, batches of calls and replay slots. Must not know the operations of the store.

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
