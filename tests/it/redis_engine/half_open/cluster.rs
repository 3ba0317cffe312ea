//! In a Cluster.

use linger::store::{
    AddJob,
    redis::{Mode, Options},
};

use super::{
    DISCARDS, Process, Proxy, adds_recover, announcements_arrive_again, reopened_at_rest, wait_until_closed,
};
use crate::harness::{cluster::Cluster, jobs::job, redis::fresh_prefix, resp::until};

/// Starts a proxy before each primary, and makes the Cluster announce the proxies.
async fn announce_proxies(cluster: &Cluster) -> Vec<Proxy> {
    let mut proxies = Vec::new();
    for n in 0..3 {
        let proxy = Proxy::start(cluster.servers[n].port).await;
        let announced = proxy.port.to_string();
        cluster.node(n).call(&["CONFIG", "SET", "cluster-announce-port", &announced]);
        let named =
            |n: usize| cluster.node(n).call(&["CLUSTER", "NODES"]).text().contains(&format!(":{announced}@"));
        assert!(until(|| (0..3).all(named)), "all nodes announce the port of the proxy");
        proxies.push(proxy);
    }
    proxies
}

/// Jobs on every shard, so that each server gets some of them.
fn on_every_shard(name: &str) -> Vec<AddJob> {
    (0..64).map(|number| job(&format!("{name}-{number}"))).collect()
}

/// One Cluster for all cases, because its start takes long.
#[tokio::test]
async fn a_node_of_a_cluster_is_used_again() {
    // The timeout is long, so that the Cluster does not fail over to a replica.
    let cluster = Cluster::start(60_000);
    let proxies = announce_proxies(&cluster).await;
    let mode = Mode::Cluster(proxies[0].mode().nodes().to_vec());
    let process = Process::start(&Options { mode, prefix: fresh_prefix(), ..Options::default() }).await;
    process.store.add(on_every_shard("before")).await.expect("works");
    reopened_at_rest(&process, &proxies).await;
    for (name, discard) in DISCARDS {
        let half_open = proxies[0].make_half_open(discard, |peer| !peer.replicates());
        adds_recover(&process.store, name, on_every_shard).await;
        wait_until_closed(&half_open, name).await;
    }
    announcements_arrive_again(&proxies).await;
}
