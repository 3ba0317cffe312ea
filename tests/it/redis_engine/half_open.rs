//! Half-open connections: they stay open, but no reply arrives on them, while new connections work. With the default
//! settings, calls must succeed again within `unresponsive_timeout` and one second.

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::Arc,
    time::Duration,
};

use linger::{
    clock::{Clock, SystemClock},
    store::{
        Store,
        redis::{Credentials, Mode, Node, Options},
    },
};

use super::{
    Process, Raw, options,
    peer::{Discard, Peer},
    proxy::Proxy,
};
use crate::harness::{
    cluster::Cluster,
    jobs::*,
    network::Network,
    not_here::not_run_here,
    redis::{Launch, RedisServer, fresh_prefix, shared},
    resp::until,
};

/// Twice the promised time, for a busy machine. The kernel alone would need a quarter of an hour.
const RECOVERY_LIMIT: Duration = Duration::from_secs(10);
/// Time between two calls.
const CALL_INTERVAL: Duration = Duration::from_millis(100);

/// Starts an add every 100 ms, without waiting for the one before, until one of them is acknowledged. Then makes
/// `count` adds in sequence, none of which may fail.
async fn adds_recover(store: &Arc<dyn Store>, name: &str, count: usize) {
    let clock = SystemClock::new();
    let (done, mut first_done) = tokio::sync::mpsc::unbounded_channel();
    let calling = async {
        for number in 0.. {
            let (store, done, job) = (store.clone(), done.clone(), job(&format!("{name}-{number}")));
            tokio::spawn(async move { store.add(vec![job]).await.is_ok().then(|| done.send(())) });
            clock.sleep(CALL_INTERVAL).await;
        }
    };
    let back = async {
        tokio::select! {
            () = calling => {}
            _ = first_done.recv() => {}
        }
    };
    tokio::time::timeout(RECOVERY_LIMIT, back)
        .await
        .unwrap_or_else(|_| panic!("{name}: no add for {RECOVERY_LIMIT:?}"));
    for number in 0..count {
        store.add(vec![job(&format!("{name}-after-{number}"))]).await.expect("works again");
    }
}

/// Waits until the client has closed these connections.
async fn wait_until_closed(peers: &[Arc<Peer>], what: &str) {
    assert!(!peers.is_empty(), "{what}: there is no such connection");
    for peer in peers {
        tokio::time::timeout(RECOVERY_LIMIT, peer.closed())
            .await
            .unwrap_or_else(|_| panic!("{what}: the connection was not closed"));
    }
}

/// Waits until a connection is open that `wanted` selects and that is not half-open.
async fn wait_until_opened(proxy: &Proxy, what: &str, wanted: impl Fn(&Peer) -> bool) {
    let opened = async {
        while !proxy.peers().iter().any(|peer| wanted(peer)) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(RECOVERY_LIMIT, opened).await.unwrap_or_else(|_| panic!("{what}: not opened again"));
}

async fn behind_a_proxy() -> (Process, Proxy) {
    let proxy = Proxy::start(shared().port).await;
    let process = Process::start(&Options { mode: proxy.mode(), ..options() }).await;
    wait_until_opened(&proxy, "announcements", Peer::subscribes).await;
    (process, proxy)
}

#[tokio::test]
async fn a_standalone_server_is_used_again_under_traffic() {
    let (process, proxy) = behind_a_proxy().await;
    for (name, discard) in [("both", Discard::Both), ("replies", Discard::Replies)] {
        let half_open = proxy.make_half_open(discard, |_| true);
        adds_recover(&process.store, name, 10).await;
        wait_until_closed(&half_open, name).await;
        // Requests that a connection has not sent must not arrive after their calls have failed.
        assert!(
            discard == Discard::Replies || half_open.iter().all(|peer| peer.was_reset()),
            "closed by a reset"
        );
    }
}

#[tokio::test]
async fn a_standalone_server_is_used_again_without_traffic() {
    let (process, proxy) = behind_a_proxy().await;
    for discard in [Discard::Both, Discard::Replies] {
        let half_open = proxy.make_half_open(discard, |peer| !peer.subscribes());
        wait_until_closed(&half_open, "at rest").await;
        wait_until_opened(&proxy, "commands", |peer| !peer.subscribes()).await;
        add_any(process.store(), job("after")).await;
    }
}

#[tokio::test]
async fn announcements_arrive_again_from_a_standalone_server() {
    let (_process, proxy) = behind_a_proxy().await;
    for discard in [Discard::Both, Discard::Replies] {
        let half_open = proxy.make_half_open(discard, Peer::subscribes);
        wait_until_closed(&half_open, "announcements").await;
        wait_until_opened(&proxy, "announcements", Peer::subscribes).await;
    }
}

#[tokio::test]
async fn one_connection_that_waits_for_replicas_is_reopened() {
    let primary = RedisServer::start_with(&["--save", "", "--repl-diskless-sync-delay", "0"]);
    let follow = format!("127.0.0.1 {}", primary.port);
    let _replica = RedisServer::start_with(&["--save", "", "--replicaof", &follow]);
    let proxy = Proxy::start(primary.port).await;
    let options = Options { mode: proxy.mode(), wait_replicas: 1, ..Options::default() };
    let process = Process::start(&options).await;
    let synced = async { while process.store.add(vec![job("warm")]).await.is_err() {} };
    tokio::time::timeout(seconds(60), synced).await.expect("the replica follows");
    for number in 0..8 {
        process.store.add(vec![job(&format!("round-{number}"))]).await.expect("a replica takes it");
    }
    let first: *const Peer =
        &**proxy.peers().iter().find(|peer| peer.waits()).expect("one connection has sent WAIT");
    let half_open = proxy.make_half_open(Discard::Both, |peer| std::ptr::eq(peer, first));
    assert_eq!(half_open.len(), 1);
    wait_until_closed(&half_open, "one of four").await;
    for number in 0..8 {
        process.store.add(vec![job(&format!("after-{number}"))]).await.expect("a replica takes it");
    }
}

/// A sentinel that names the server at port `named` as the primary. A mute sentinel never replies.
fn sentinel(named: u16, mute: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("has an address").port();
    let answer = format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{named}\r\n", named.to_string().len());
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepts");
            let mut request = [0; 1_024];
            if mute {
                kept.push(stream);
            } else if stream.read(&mut request).is_ok() {
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    });
    port
}

fn behind_sentinels(ports: &[u16]) -> Options {
    let nodes = ports.iter().map(|port| Node { host: "127.0.0.1".to_owned(), port: *port }).collect();
    let mode = Mode::Sentinel { nodes, service: "main".to_owned(), credentials: Credentials::default() };
    Options { mode, ..options() }
}

#[tokio::test]
async fn a_primary_with_sentinel_is_used_again() {
    let proxy = Proxy::start(shared().port).await;
    let named = sentinel(proxy.port, false);
    let process = Process::start(&behind_sentinels(&[named])).await;
    for (name, discard) in [("both", Discard::Both), ("replies", Discard::Replies)] {
        let half_open = proxy.make_half_open(discard, |_| true);
        adds_recover(&process.store, name, 10).await;
        wait_until_closed(&half_open, name).await;
    }
}

#[tokio::test]
async fn a_half_open_sentinel_delays_nobody() {
    let port = shared().port;
    let ports = [sentinel(port, true), sentinel(port, false), sentinel(port, false)];
    let process = Process::start(&behind_sentinels(&ports)).await;
    adds_recover(&process.store, "one-mute", 10).await;
}

#[tokio::test]
async fn a_node_of_a_cluster_is_used_again() {
    // The timeout is long, so that the Cluster does not fail over to a replica.
    let cluster = Cluster::start(60_000);
    let proxy = Proxy::start(cluster.servers[0].port).await;
    let announced = proxy.port.to_string();
    cluster.node(0).call(&["CONFIG", "SET", "cluster-announce-port", &announced]);
    let named =
        |n: usize| cluster.node(n).call(&["CLUSTER", "NODES"]).text().contains(&format!(":{announced}@"));
    assert!(until(|| (0..3).all(named)), "all nodes announce the port of the proxy");
    let options = Options { mode: Mode::Cluster(proxy.mode().nodes().to_vec()), ..Options::default() };
    let process = Process::start(&options).await;
    for (name, discard) in [("both", Discard::Both), ("replies", Discard::Replies)] {
        let half_open = proxy.make_half_open(discard, |peer| !peer.replicates());
        wait_until_closed(&half_open, name).await;
        // Jobs on every shard, so that this server gets some of them.
        let jobs = (0..64).map(|number| job(&format!("{name}-{number}"))).collect();
        process.store.add(jobs).await.expect("works again");
    }
}

/// Runs `test` on the second of two hosts in a network namespace.
fn on_a_host(what: &str, test: impl AsyncFnOnce(&Network) + Send + 'static) {
    match Network::new(2) {
        Ok(network) => network.run_on(1, test),
        Err(why) => not_run_here(what, &why),
    }
}

#[test]
fn a_server_whose_packets_were_dropped_is_used_again() {
    on_a_host("dropped packets", async |network| {
        let (before, host) = (network.command_prefix(0), Network::address(0));
        let server = RedisServer::launch(Launch {
            before,
            host,
            ..Launch::new(&["--save", "", "--protected-mode", "no"])
        });
        let options = Options { prefix: fresh_prefix(), ..Options::new(&server.url()) };
        let process = Process::start(&options).await;
        let mut dropped = Vec::new();
        for name in ["first", "second"] {
            add_any(process.store(), job(&format!("before-{name}"))).await;
            let clients = Raw::connect(&server.url()).await.send(&["CLIENT", "LIST"]).await;
            let clients = clients.as_string().expect("is text");
            // The server still lists the connections that were dropped before.
            let ports = clients.lines().filter_map(port_of).filter(|port| !dropped.contains(port));
            let ports: Vec<u16> = ports.collect();
            assert!(ports.len() >= 2, "{clients}");
            network.drop_connections(1, &ports);
            dropped.extend(ports);
            adds_recover(&process.store, name, 10).await;
        }
        process.store.close().await.expect("closes");
    });
}

/// The client's port in a line of `CLIENT LIST`.
fn port_of(client: &str) -> Option<u16> {
    let address = client.split(' ').find_map(|field| field.strip_prefix("addr="))?;
    address.rsplit(':').next()?.parse().ok()
}
