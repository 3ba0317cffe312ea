//! The Redis engine: any number of processes on one Redis or Valkey, standalone, with Sentinel or as a Cluster.
//! Must not know the embedded engine, the queue above or HTTP.
//!
//! Each operation is one Lua script on one shard. Only the scripts decide, so there is no leader and no lock: every
//! process promotes, and every process sweeps. To follow an operation, read its file in `ops/` and its script in
//! `scripts/`. `keys.rs` lists the keys, `scripts/shard.lua` has the prelude of the scripts that change a shard.
//!
//! # Rooms
//!
//! ```text
//! engine.rs      implements the trait: which part performs which operation; open.rs connects and starts the tasks
//! ops/           the operations, each a call of one script per shard
//! coordination/  what the processes of a queue share: calls to shards, announcements, the sweep, replay slots
//! connection/    which server holds which slot, whether it may be used, one call until there is a reply
//! codec/         records, settings and scopes as Redis stores them
//! scripts/       the Lua scripts and their preludes
//!
//! engine ─► ops ─► coordination ─► connection ─► scripts
//!            └─────────┴─► codec
//! ```
//!
//! # One call
//!
//! An operation in `ops/` finds the shard of each job (`keys.rs`) and hands its items to `coordination/batch.rs`,
//! where callers share calls. `coordination/shards.rs` adds the keys and arguments that every script gets.
//! `connection/retry.rs` calls the script until there is a reply: at the server that `connection/router.rs` chooses
//! by the hash slot, over that server's connection (`connection/node.rs`, `connection/client.rs`). With
//! `redis.wait_replicas` a `WAIT` follows (`connection/replicas.rs`). An error `MOVED` makes the router read the
//! map of slots again.
//!
//! # Shards
//!
//! The hash of a job's id determines its shard. `coordination/stored_layout.rs` reads the number of shards before
//! anything that depends on it is built. The very first start stores it (`scripts/init_layout.lua`), so that of
//! several concurrent starts one decides. The default is 4 for one primary, and 16 for a Cluster, so that every
//! server holds some. All keys of a shard share a hash tag, and every key that a script uses is in its `KEYS`, so a
//! Cluster needs no other code.
//!
//! # Between processes
//!
//! Scripts announce jobs that became ready; every process subscribes (`coordination/announcements.rs`) and notifies
//! its polls. The sweep recovers lost announcements, and rechecks shards where the reply to a change of this
//! process was lost. Processes leave notices for each other in one hash (`ops/notices.rs`); they share the rate of
//! a topic's calls (`scripts/allow.lua`).
//!
//! # Time
//!
//! The clock is the server's `TIME`, read in the scripts (`clock` in `scripts/record.lua`). It decides about delays
//! and about moments alike; a record only keeps which of the two a job was given.

mod codec;
mod connection;
mod context;
mod coordination;
mod engine;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod indexed;
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
