//! The operations of the store, each a call of one script per shard. Must not open connections.

pub mod add;
pub mod allow;
pub mod change;
pub mod change_seen;
pub mod delete;
pub mod finish;
pub mod gone_delay;
pub mod hold;
mod indexed;
pub mod list;
mod list_query;
pub mod list_ready;
pub mod notices;
mod pop;
pub mod promote;
mod promotions;
pub mod purge;
pub mod read;
pub mod records;
pub mod reserve;
mod reserve_round;
pub mod settings;
pub mod shard_reserve;
pub mod single_job;
pub mod timeline;
pub mod topics;
pub mod verify;
