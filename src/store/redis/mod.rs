//! The Redis engine: any number of processes on one Redis or Valkey, standalone, with Sentinel or
//! as a Cluster. Each operation is one Lua script on one shard; only the scripts decide, so
//! there is no leader and no lock. `keys.rs` lists the keys, `scripts/shard.lua` moves jobs.
//!
//! Must not know: the embedded engine, the queue above, HTTP.

mod codec;
mod connection;
mod context;
mod coordination;
mod engine;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod keys;
mod layout;
mod open;
mod ops;
mod options;
mod reply;
mod scripts;
mod time;
mod tls;

pub use connection::connect_error::ConnectError;
pub use engine::Redis;
#[cfg(any(test, fuzzing))]
pub(crate) use fuzzing::fuzz_record;
pub use open::{OpenMode, accept, connect, connect_with_tls, open_offline};
pub use options::{Credentials, Mode, Node, Options, Secret};
pub use time::TimeSource;
pub use tls::RedisTls;
