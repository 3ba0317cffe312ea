//! The operations of the store, each a call of one script per shard. Must not know connections.

pub mod add;
pub mod dead_letters;
pub mod finish;
pub mod get;
pub mod hold;
pub mod promote;
pub mod reserve;
pub mod reserve_round;
pub mod settings;
pub mod topics;
pub mod verify;
