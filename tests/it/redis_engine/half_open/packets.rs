//! Connections whose packets a filter drops. Unlike a proxy, it also drops what the kernel sends by itself.

use linger::store::redis::Options;

use super::{
    Process, adds_recover, one_job,
    sentinel::{behind_sentinels, sentinel},
};
use crate::{
    harness::{
        jobs::{add_any, job},
        network::{DroppedPackets, Network},
        not_here::not_run_here,
        redis::{Launch, RedisServer, fresh_prefix},
    },
    redis_engine::Raw,
};

/// Drops the packets of a process's connections to a server on another host, again and again.
fn is_used_again(what: &str, with_sentinel: bool) {
    let network = match Network::new(2) {
        Ok(network) => network,
        Err(why) => return not_run_here(what, &why),
    };
    network.run_on(1, async move |network| {
        let (before, host) = (network.command_prefix(0), Network::address(0));
        let server = RedisServer::launch(Launch {
            before,
            host,
            ..Launch::new(&["--save", "", "--protected-mode", "no"])
        });
        let mut options = Options { prefix: fresh_prefix(), ..Options::new(&server.url()) };
        if with_sentinel {
            options.mode = behind_sentinels(&[sentinel(server.address(), false)]);
        }
        let process = Process::start(&options).await;
        let mut dropped = Vec::new();
        for (name, packets) in [("both", DroppedPackets::Both), ("answers", DroppedPackets::Answers)] {
            add_any(process.store(), job(&format!("before-{name}"))).await.expect("is not refused");
            let clients = Raw::connect(&server.url()).await.send(&["CLIENT", "LIST"]).await;
            let clients = clients.as_string().expect("is text");
            // The server still lists the connections that were dropped before.
            let ports = clients.lines().filter_map(port_of).filter(|port| !dropped.contains(port));
            let ports: Vec<u16> = ports.collect();
            assert!(ports.len() >= 2, "{clients}");
            network.drop_connections(1, &ports, packets);
            dropped.extend(ports);
            adds_recover(&process.store, name, one_job).await;
        }
        process.store.close().await.expect("closes");
    });
}

/// The client's port in a line of `CLIENT LIST`.
fn port_of(client: &str) -> Option<u16> {
    let address = client.split(' ').find_map(|field| field.strip_prefix("addr="))?;
    address.rsplit(':').next()?.parse().ok()
}

#[test]
fn a_server_whose_packets_were_dropped_is_used_again() {
    is_used_again("dropped packets", false);
}

#[test]
fn a_primary_with_sentinel_whose_packets_were_dropped_is_used_again() {
    is_used_again("dropped packets with Sentinel", true);
}
