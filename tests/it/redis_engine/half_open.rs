//! Half-open connections: they stay open, and nothing comes back on them, while new ones work. All with the
//! default settings: service must be back within `unresponsive_timeout` and a second.

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
    peer::{Peer, Swallow},
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

/// The promise, and as long again for a busy machine: what the kernel would do takes a quarter of an hour.
const BOUND: Duration = Duration::from_secs(10);
/// Between two calls.
const PACE: Duration = Duration::from_millis(100);

/// Adds a job every 100 ms, whether the last one was answered or not, until one that began after the fault is
/// acknowledged; then `count` more in turn, none of which may fail.
async fn adds_go_on(store: &Arc<dyn Store>, name: &str, count: usize) {
    let clock = SystemClock::new();
    let (done, mut first_done) = tokio::sync::mpsc::unbounded_channel();
    let calling = async {
        for number in 0.. {
            let (store, done, job) = (store.clone(), done.clone(), job(&format!("{name}-{number}")));
            tokio::spawn(async move { store.add(vec![job]).await.is_ok().then(|| done.send(())) });
            clock.sleep(PACE).await;
        }
    };
    let back = async {
        tokio::select! {
            () = calling => {}
            _ = first_done.recv() => {}
        }
    };
    tokio::time::timeout(BOUND, back).await.unwrap_or_else(|_| panic!("{name}: no add for {BOUND:?}"));
    for number in 0..count {
        store.add(vec![job(&format!("{name}-after-{number}"))]).await.expect("works again");
    }
}

/// Waits until the client has given up these connections.
async fn are_given_up(peers: &[Arc<Peer>], what: &str) {
    assert!(!peers.is_empty(), "{what}: there was such a connection");
    for peer in peers {
        tokio::time::timeout(BOUND, peer.closed()).await.unwrap_or_else(|_| panic!("{what}: kept"));
    }
}

/// Waits until a connection that `wanted` picks is open and passes everything.
async fn is_opened(proxy: &Proxy, what: &str, wanted: impl Fn(&Peer) -> bool) {
    let opened = async {
        while !proxy.peers().iter().any(|peer| wanted(peer)) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(BOUND, opened).await.unwrap_or_else(|_| panic!("{what}: not opened again"));
}

async fn behind_a_proxy() -> (Process, Proxy) {
    let proxy = Proxy::start(shared().port).await;
    let process = Process::start(&Options { mode: proxy.mode(), ..options() }).await;
    is_opened(&proxy, "announcements", Peer::subscribes).await;
    (process, proxy)
}

#[tokio::test]
async fn a_standalone_server_is_used_again_under_traffic() {
    let (process, proxy) = behind_a_proxy().await;
    for (name, swallow) in [("both", Swallow::Both), ("answers", Swallow::Answers)] {
        let half_open = proxy.make_half_open(swallow, |_| true);
        adds_go_on(&process.store, name, 10).await;
        are_given_up(&half_open, name).await;
        // What a connection still holds unsent must not arrive after its calls were answered with a failure.
        assert!(
            swallow == Swallow::Answers || half_open.iter().all(|peer| peer.was_reset()),
            "closed by a reset"
        );
    }
}

#[tokio::test]
async fn a_standalone_server_is_used_again_without_traffic() {
    let (process, proxy) = behind_a_proxy().await;
    for swallow in [Swallow::Both, Swallow::Answers] {
        let half_open = proxy.make_half_open(swallow, |peer| !peer.subscribes());
        are_given_up(&half_open, "at rest").await;
        is_opened(&proxy, "commands", |peer| !peer.subscribes()).await;
        add_any(process.store(), job("after")).await;
    }
}

#[tokio::test]
async fn announcements_arrive_again_from_a_standalone_server() {
    let (_process, proxy) = behind_a_proxy().await;
    for swallow in [Swallow::Both, Swallow::Answers] {
        let half_open = proxy.make_half_open(swallow, Peer::subscribes);
        are_given_up(&half_open, "announcements").await;
        is_opened(&proxy, "announcements", Peer::subscribes).await;
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
    let first: *const Peer = &**proxy.peers().iter().find(|peer| peer.waits()).expect("one has waited");
    let half_open = proxy.make_half_open(Swallow::Both, |peer| std::ptr::eq(peer, first));
    assert_eq!(half_open.len(), 1);
    are_given_up(&half_open, "one of four").await;
    for number in 0..8 {
        process.store.add(vec![job(&format!("after-{number}"))]).await.expect("a replica takes it");
    }
}

/// A sentinel that names the server at `port` as the primary; a mute one never answers.
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
    for (name, swallow) in [("both", Swallow::Both), ("answers", Swallow::Answers)] {
        let half_open = proxy.make_half_open(swallow, |_| true);
        adds_go_on(&process.store, name, 10).await;
        are_given_up(&half_open, name).await;
    }
}

#[tokio::test]
async fn a_half_open_sentinel_delays_nobody() {
    let port = shared().port;
    let ports = [sentinel(port, true), sentinel(port, false), sentinel(port, false)];
    let process = Process::start(&behind_sentinels(&ports)).await;
    adds_go_on(&process.store, "one-mute", 10).await;
}

#[tokio::test]
async fn a_node_of_a_cluster_is_used_again() {
    // Nobody gives the server up meanwhile.
    let cluster = Cluster::start(60_000);
    let proxy = Proxy::start(cluster.servers[0].port).await;
    let announced = proxy.port.to_string();
    cluster.node(0).call(&["CONFIG", "SET", "cluster-announce-port", &announced]);
    let named =
        |n: usize| cluster.node(n).call(&["CLUSTER", "NODES"]).text().contains(&format!(":{announced}@"));
    assert!(until(|| (0..3).all(named)), "all name the proxy");
    let options = Options { mode: Mode::Cluster(proxy.mode().nodes().to_vec()), ..Options::default() };
    let process = Process::start(&options).await;
    for (name, swallow) in [("both", Swallow::Both), ("answers", Swallow::Answers)] {
        let half_open = proxy.make_half_open(swallow, |peer| !peer.replicates());
        are_given_up(&half_open, name).await;
        // On every shard, so that some are this server's.
        let jobs = (0..64).map(|number| job(&format!("{name}-{number}"))).collect();
        process.store.add(jobs).await.expect("works again");
    }
}

/// Runs `test` in a network of its own, on the second of its two hosts.
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
            // The server still knows those that were dropped before.
            let ports = clients.lines().filter_map(port_of).filter(|port| !dropped.contains(port));
            let ports: Vec<u16> = ports.collect();
            assert!(ports.len() >= 2, "{clients}");
            network.drop_connections(1, &ports);
            dropped.extend(ports);
            adds_go_on(&process.store, name, 10).await;
        }
        process.store.close().await.expect("closes");
    });
}

/// The client's port in a line of `CLIENT LIST`.
fn port_of(client: &str) -> Option<u16> {
    let address = client.split(' ').find_map(|field| field.strip_prefix("addr="))?;
    address.rsplit(':').next()?.parse().ok()
}
