//! How the processes of one queue keep in step: announcements, hints of ready jobs, the sweep, batches of calls and
//! replay slots. Must not know the operations of the store.

pub mod announcements;
pub mod batch;
pub mod health;
pub mod lost_pops;
pub mod mend;
pub mod permissions;
pub mod probe;
pub mod ready_shards;
pub mod replay_slots;
pub mod sweep;
pub mod unresponsive;
