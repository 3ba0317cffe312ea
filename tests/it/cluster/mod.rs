//! The Redis engine on a Cluster whose slots move, whose primaries change and whose servers stop answering, with loads
//! through the real program.
//!
//! `LINGER_PROVE_SLOTS` sets how often a slot moves under load, `LINGER_PROVE_FAILOVERS` the number of failovers of each
//! kind.

mod emptied;
mod failovers;
mod full;
mod hung;
mod recovery;
mod slots;
mod spread;
mod unreachable;

use std::{path::Path, sync::Arc};

use linger::job::JobId;
use xxhash_rust::xxh3::xxh3_64;

use crate::harness::{cluster::Cluster, process::Server};

/// Starts a server on this Cluster, with these additional settings in section `[redis]`.
fn serve(cluster: &Cluster, prefix: &str, more: &str, home: &Path) -> Server {
    let settings = format!("{}{more}", cluster.settings(prefix));
    std::fs::write(home.join("settings.toml"), settings).expect("writes");
    Server::serve(&["--config", "settings.toml"], &[], home)
}

/// The shard of a job, of as many as a prefix has by default.
fn shard(id: &JobId) -> u64 {
    xxh3_64(id.as_str().as_bytes()) % 16
}

/// The server that owns a shard of the default prefix.
fn owner(cluster: &Cluster, shard: u64) -> usize {
    let slot = cluster.node(0).call(&["CLUSTER", "KEYSLOT", &format!("{{linger:{shard}}}")]).int();
    cluster.owner_of(u16::try_from(slot).expect("a slot"), 0)
}

/// Runs `work` on a thread that may block, while the clients continue.
async fn run_blocking<T: Send + 'static>(
    cluster: &Arc<Cluster>,
    work: impl FnOnce(&Cluster) -> T + Send + 'static,
) -> T {
    let cluster = cluster.clone();
    tokio::task::spawn_blocking(move || work(&cluster)).await.expect("does not panic")
}
