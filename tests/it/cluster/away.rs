//! Servers of a Cluster that cannot be reached or do not answer, with everybody's defaults and through the real
//! program: only their own jobs wait, and no call for longer than `retry_for`.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

use fred::util::redis_keyslot;
use linger::clock::{Clock, SystemClock};
use serde_json::json;
use xxhash_rust::xxh3::xxh3_64;

use super::serve;
use crate::harness::{
    client::Client,
    cluster::Cluster,
    network::Network,
    not_here::not_run_here,
    process::Server,
    redis::{Launch, fresh_prefix},
    resp::until,
    wait::{TimeLimit, bounded},
};

/// `redis.retry_for` as everybody has it, and what a busy machine adds to it.
const RETRY_FOR: Duration = Duration::from_secs(5);
const SLACK: Duration = Duration::from_secs(3);
/// How late the jobs of sound servers may be. Promised is a quarter of a second; the faults were worth many.
const LATE: Duration = Duration::from_millis(1_500);
const DELAY: Duration = Duration::from_millis(300);

/// An address at which connections are neither accepted nor refused: its queue is full.
struct Mute {
    address: SocketAddr,
    _listener: tokio::net::TcpListener,
    _queued: Vec<TcpStream>,
}

impl Mute {
    fn new() -> Self {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("binds");
        let listener = socket.listen(0).expect("listens");
        let address = listener.local_addr().expect("has an address");
        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(500)).ok();
        let queued = std::iter::from_fn(connect).take(100).collect();
        Self { address, _listener: listener, _queued: queued }
    }
}

fn shard(id: &str) -> u64 {
    xxh3_64(id.as_bytes()) % 16
}

fn slot(prefix: &str, shard: u64) -> u16 {
    redis_keyslot(format!("{prefix}:{shard}").as_bytes())
}

/// Ids on shards that do as `chosen`.
fn ids(name: &str, chosen: impl Fn(u64) -> bool) -> impl Iterator<Item = String> {
    let name = name.to_owned();
    (0..).map(move |n| format!("{name}-{n}")).filter(move |id| chosen(shard(id)))
}

/// Adds a job with a delay; the status of the answer, and how long it took.
async fn add(server: SocketAddr, topic: &str, id: &str, delay: Duration) -> (u16, Duration) {
    let (clock, mut client) = (SystemClock::new(), Client::new(server));
    let from_us = clock.now_micros();
    let job = json!({"topic": topic, "id": id, "delay": format!("{}ms", delay.as_millis()), "body": 1});
    let answer = bounded("an add", client.post("/jobs", &job)).await.expect("answers");
    (answer.status, micros(clock.now_micros() - from_us))
}

fn micros(us: i64) -> Duration {
    Duration::from_micros(us.unsigned_abs())
}

/// When each job came, by our clock.
type Came = Arc<Mutex<BTreeMap<String, i64>>>;

/// Pops jobs of a topic one after the other for ever, with these further words in the query, and finishes them.
async fn work(server: SocketAddr, topic: &'static str, query: &'static str, came: Came) {
    let (clock, mut client) = (SystemClock::new(), Client::new(server));
    loop {
        let Ok(answer) = client.get(&format!("/topics/{topic}/pop{query}")).await else { return };
        if answer.status != 200 {
            clock.sleep(Duration::from_millis(20)).await;
            continue;
        }
        let (id, receipt) = (answer.text("id"), answer.text("receipt"));
        let first = came.lock().expect("not poisoned").insert(id.clone(), clock.now_micros());
        assert_eq!(first, None, "{id} came once");
        let done = client.post(&format!("/jobs/{id}/finish?receipt={receipt}"), &json!({})).await;
        assert!(done.is_ok_and(|done| done.status == 204), "{id} is finished");
    }
}

/// Adds delayed jobs on sound shards for so long, one topic with a poll that waits and one with polls that do
/// not, and holds how late each comes against the bound.
async fn others_come_in_time(server: SocketAddr, name: &str, sound: impl Fn(u64) -> bool, lasting: Duration) {
    let (clock, came) = (SystemClock::new(), Came::default());
    let workers = [("waits", "?wait=10s"), ("asks", "")]
        .map(|(topic, query)| tokio::spawn(work(server, topic, query, came.clone())));
    let (end_us, mut due) =
        (clock.now_micros() + i64::try_from(lasting.as_micros()).expect("fits"), BTreeMap::new());
    for (n, id) in ids(name, sound).enumerate() {
        if clock.now_micros() > end_us {
            break;
        }
        let (status, took) = add(server, ["waits", "asks"][n % 2], &id, DELAY).await;
        assert_eq!(status, 201, "{id}");
        assert!(took < LATE, "adding {id} took {took:?}");
        due.insert(id, clock.now_micros() + i64::try_from(DELAY.as_micros()).expect("fits"));
        clock.sleep(Duration::from_millis(100)).await;
    }
    let time_limit = TimeLimit::new();
    while came.lock().expect("not poisoned").len() < due.len() {
        time_limit.check(|| format!("{} of {}", came.lock().expect("not poisoned").len(), due.len()));
        time_limit.pause().await;
    }
    for worker in workers {
        assert!(!worker.is_finished(), "a worker goes on");
        worker.abort();
    }
    let came = came.lock().expect("not poisoned");
    let late = due.iter().map(|(id, due_us)| (micros((came[id] - due_us).max(0)), id));
    let mut late: Vec<_> = late.collect();
    late.sort_unstable();
    let at = |share: usize| late[(late.len() - 1) * share / 100].0;
    println!(
        "proof: what=cluster_away case={name} jobs={} p50={:?} p90={:?} max={:?}",
        late.len(),
        at(50),
        at(90),
        at(100)
    );
    assert!(at(100) < LATE, "{:?}", late.last());
}

/// Has every server take the new one for being at another address, and waits until all do.
fn announce(cluster: &Cluster, server: usize, address: SocketAddr) {
    let bus = (cluster.servers[server].port + 10_000).to_string();
    let mut node = cluster.node(server);
    node.call(&["CONFIG", "SET", "cluster-announce-bus-port", &bus]);
    node.call(&["CONFIG", "SET", "cluster-announce-port", &address.port().to_string()]);
    let at = format!("127.0.0.1:{}@", address.port());
    for other in 0..server {
        let known = || cluster.node(other).call(&["CLUSTER", "NODES"]).text().contains(&at);
        assert!(until(known), "{other} knows {at}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_to_an_unreachable_server_delays_only_its_own_jobs() {
    let mut cluster = Cluster::start(60_000);
    let empty = cluster.add_server();
    let mute = Mute::new();
    announce(&cluster, empty, mute.address);
    let (home, prefix) = (tempfile::tempdir().expect("a directory"), fresh_prefix());
    let server = serve(&cluster, &prefix, "", home.path());
    // The slot of the settings stays where it is.
    let moving = slot(&prefix, 3);
    let holder = cluster.owner_of(moving, 0);
    let (number, from, to) = (moving.to_string(), cluster.id(holder), cluster.id(empty));
    cluster.node(empty).call(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &from]);
    cluster.node(holder).call(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &to]);
    let address = server.address;
    let callers: Vec<_> = ids("asked", |shard| shard == 3)
        .take(20)
        .map(|id| tokio::spawn(async move { add(address, "moving", &id, DELAY).await }))
        .collect();
    others_come_in_time(address, "ask", |shard| shard != 3, Duration::from_secs(4)).await;
    for caller in callers {
        let (status, took) = caller.await.expect("does not panic");
        assert_eq!(status, 503);
        assert!(took < RETRY_FOR + SLACK, "{took:?}");
    }
    for node in [empty, 0, 1, 2] {
        cluster.node(node).call(&["CLUSTER", "SETSLOT", &number, "NODE", &to]);
    }
    others_come_in_time(address, "for-good", |shard| shard != 3, Duration::from_secs(8)).await;
    let (status, took) =
        add(address, "moving", &ids("late", |shard| shard == 3).next().expect("one"), DELAY).await;
    assert_eq!(status, 503);
    assert!(took < RETRY_FOR + SLACK, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_stopped_for_a_while_delays_only_its_own_jobs() {
    // Nobody gives the server up meanwhile.
    let cluster = Cluster::start(60_000);
    let (home, prefix) = (tempfile::tempdir().expect("a directory"), fresh_prefix());
    let server: Server = serve(&cluster, &prefix, "", home.path());
    let holder = |shard: u64| cluster.owner_of(slot(&prefix, shard), 0);
    let holders: Vec<usize> = (0..16).map(holder).collect();
    let stopped = holders[0];
    let sound = |shard: u64| holders[usize::try_from(shard).expect("small")] != stopped;
    // They become due on all servers while one is stopped.
    for id in ids("before", |_| true).take(20) {
        assert_eq!(add(server.address, "before", &id, Duration::from_secs(2)).await.0, 201);
    }
    cluster.servers[stopped].pause();
    let came = Came::default();
    let early = tokio::spawn(work(server.address, "before", "?wait=10s", came.clone()));
    others_come_in_time(server.address, "stopped", sound, Duration::from_secs(16)).await;
    cluster.servers[stopped].resume();
    let time_limit = TimeLimit::new();
    while came.lock().expect("not poisoned").len() < 20 {
        time_limit.check(|| format!("{:?}", came.lock().expect("not poisoned")));
        time_limit.pause().await;
    }
    early.abort();
}

/// Nothing says that the host is gone: packets to it are dropped. No other server takes over before the test ends.
#[test]
fn a_host_that_vanishes_delays_only_its_own_jobs() {
    let network = match Network::new(2) {
        Ok(network) => network,
        Err(why) => return not_run_here("vanished_host", &why),
    };
    network.run_on(0, async |network| {
        // The first server stands alone on the host that vanishes.
        let open = ["--protected-mode", "no"];
        let cluster = Cluster::launch(60_000, &open, |n, launch| {
            let host = usize::from(n == 0);
            Launch { before: network.command_prefix(host), host: Network::address(host), ..launch }
        });
        let (home, prefix) = (tempfile::tempdir().expect("a directory"), fresh_prefix());
        let server = serve(&cluster, &prefix, "", home.path());
        let sound = |shard: u64| cluster.owner_of(slot(&prefix, shard), 1) != 0;
        let lost = ids("lost", |shard| !sound(shard)).next().expect("one");
        assert_eq!(add(server.address, "lost", &lost, Duration::from_secs(2)).await.0, 201);
        let shards: Vec<bool> = (0..16).map(sound).collect();
        let sound = |shard: u64| shards[usize::try_from(shard).expect("small")];
        network.isolate(1);
        others_come_in_time(server.address, "vanished", sound, Duration::from_secs(16)).await;
        let late = ids("late", |shard| !sound(shard)).next().expect("one");
        let (status, took) = add(server.address, "lost", &late, DELAY).await;
        assert_eq!(status, 503);
        assert!(took < RETRY_FOR + SLACK, "{took:?}");
        network.reconnect(1);
        let mut client = Client::new(server.address);
        let answer = bounded("a pop", client.get("/topics/lost/pop?wait=60s")).await.expect("answers");
        assert_eq!((answer.status, answer.text("id")), (200, lost));
    });
}

/// What `/readyz?verbose` says of the shards, if it says anything; the server is ready in any case.
async fn degraded_shards(server: &Server) -> Option<String> {
    let answer = Client::new(server.address).get("/readyz?verbose").await.expect("answers");
    assert_eq!(answer.status, 200, "{answer:?}");
    let page = answer.json();
    let checks = page["checks"].as_array().expect("checks");
    let shards = checks.iter().find(|check| check["name"] == "shards")?;
    assert_eq!(shards["status"], "degraded", "{page}");
    Some(shards["detail"].to_string())
}

/// Waits until `/readyz?verbose` names failing shards, or none.
async fn until_degraded(server: &Server, degraded: bool) -> Option<String> {
    let time_limit = TimeLimit::new();
    loop {
        let found = degraded_shards(server).await;
        if found.is_some() == degraded {
            return found;
        }
        time_limit.check(|| format!("{found:?}"));
        time_limit.pause().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_stays_ready_while_one_server_of_a_cluster_takes_writes() {
    let cluster = Cluster::start(60_000);
    let (home, prefix) = (tempfile::tempdir().expect("a directory"), fresh_prefix());
    let server: Server = serve(&cluster, &prefix, "", home.path());
    assert_eq!(degraded_shards(&server).await, None);
    let stopped = cluster.owner_of(slot(&prefix, 0), 0);
    let port = cluster.servers[stopped].port.to_string();
    cluster.servers[stopped].pause();
    let why = until_degraded(&server, true).await.expect("shards fail");
    assert!(why.contains("of 16 shards in Redis take no writes"), "{why}");
    assert!(!why.contains(&port), "anybody may ask: {why}");
    let log = server.log();
    assert!(log.lines().any(|line| line.contains("take no writes") && line.contains(&port)), "{log}");
    let sound = |shard: u64| cluster.owner_of(slot(&prefix, shard), (stopped + 1) % 3) != stopped;
    let id = ids("sound", sound).next().expect("one");
    assert_eq!(add(server.address, "sound", &id, DELAY).await.0, 201);
    cluster.servers[stopped].resume();
    until_degraded(&server, false).await;
}
