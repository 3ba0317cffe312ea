//! The Redis engine on a Cluster whose slots move and whose primaries change: what only several
//! servers can get wrong. Loads and faults through the real program.
//!
//! `LINGER_PROVE_SLOTS` sets how often a slot moves under load, `LINGER_PROVE_FAILOVERS` how many
//! primaries change, each way.

mod away;
mod failovers;
mod hung;
mod slots;
mod spread;

use std::{path::Path, sync::Arc};

use crate::harness::{cluster::Cluster, process::Server};

/// A server on this Cluster, with these further settings of section `[redis]`.
fn serve(cluster: &Cluster, prefix: &str, more: &str, home: &Path) -> Server {
    let settings = format!("{}{more}", cluster.settings(prefix));
    std::fs::write(home.join("settings.toml"), settings).expect("writes");
    Server::serve(&["--config", "settings.toml"], &[], home)
}

/// Does `work` on a thread that may block, while the clients go on.
async fn aside<T: Send + 'static>(
    cluster: &Arc<Cluster>,
    work: impl FnOnce(&Cluster) -> T + Send + 'static,
) -> T {
    let cluster = cluster.clone();
    tokio::task::spawn_blocking(move || work(&cluster)).await.expect("does not panic")
}
