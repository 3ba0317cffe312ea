//! Servers of a Cluster that cannot be reached or do not answer, with the default settings and through the real program:
//! only their own jobs are delayed, and no call takes longer than `retry_for`.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use fred::util::redis_keyslot;
use linger::clock::{Clock, SystemClock};
use serde_json::json;
use tokio::task::JoinHandle;
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

/// The default of `redis.retry_for`, and the time that a busy machine adds to it: less than another `retry_for`.
const RETRY_FOR: Duration = Duration::from_secs(5);
const MARGIN: Duration = Duration::from_secs(4);
/// How much later the jobs of healthy servers may be than those of a server without a fault. The guarantee is a quarter of a
/// second; a process that stands still for two seconds, and refuses calls for another one, costs three; the faults that these tests
/// found cost many seconds.
const MOST_LATE: Duration = Duration::from_secs(4);
/// How many calls in turn a job may have to wait for, where a job of the server without a fault waits for one. A promotion waits
/// as long again as the slowest server that replies. One may be under way when the job becomes due; the next one promotes it,
/// and a pop asks its server and, in the worst case, all of them.
const CALLS: u32 = 6;
const DELAY: Duration = Duration::from_millis(300);

/// An address at which connections are neither accepted nor refused, because its accept queue is full.
struct UnresponsiveAddress {
    address: SocketAddr,
    _listener: tokio::net::TcpListener,
    _queued: Vec<TcpStream>,
}

impl UnresponsiveAddress {
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

/// Ids whose shard satisfies `chosen`.
fn ids(name: &str, chosen: impl Fn(u64) -> bool) -> impl Iterator<Item = String> {
    let name = name.to_owned();
    (0..).map(move |n| format!("{name}-{n}")).filter(move |id| chosen(shard(id)))
}

/// Adds a job with a delay. Returns the status of the response, and how long the call took.
async fn add(server: SocketAddr, topic: &str, id: &str, delay: Duration) -> (u16, Duration) {
    let (clock, mut client) = (SystemClock::new(), Client::new(server));
    let began_us = clock.now_micros();
    let job = json!({"topic": topic, "id": id, "delay": format!("{}ms", delay.as_millis()), "body": 1});
    let response = bounded("an add", client.post("/jobs", &job)).await.expect("answers");
    (response.status, micros(clock.now_micros() - began_us))
}

fn micros(us: i64) -> Duration {
    Duration::from_micros(us.unsigned_abs())
}

/// When each job was delivered, in microseconds of this process's clock.
type ReceivedAt = Arc<Mutex<BTreeMap<String, i64>>>;

/// Pops and finishes jobs of a topic one after the other until it is aborted. `query` belongs to each pop.
async fn work(server: SocketAddr, topic: &'static str, query: &'static str, received_us: ReceivedAt) {
    let (clock, mut client) = (SystemClock::new(), Client::new(server));
    loop {
        let Ok(response) = client.get(&format!("/topics/{topic}/pop{query}")).await else { return };
        if response.status != 200 {
            clock.sleep(Duration::from_millis(20)).await;
            continue;
        }
        let (id, receipt) = (response.text("id"), response.text("receipt"));
        let first = received_us.lock().expect("not poisoned").insert(id.clone(), clock.now_micros());
        assert_eq!(first, None, "{id} was delivered twice");
        let done = client.post(&format!("/jobs/{id}/finish?receipt={receipt}"), &json!({})).await;
        assert!(done.is_ok_and(|done| done.status == 204), "{id} cannot be finished");
    }
}

/// A server whose jobs are added, popped and timed: one topic has long polls, and one has polls that do not wait.
struct Timed {
    server: SocketAddr,
    workers: [JoinHandle<()>; 2],
    received_us: ReceivedAt,
    due_us: BTreeMap<String, i64>,
    longest_add: Duration,
}

impl Timed {
    fn new(server: SocketAddr) -> Self {
        let received_us = ReceivedAt::default();
        let workers = [("waits", "?wait=10s"), ("asks", "")]
            .map(|(topic, query)| tokio::spawn(work(server, topic, query, received_us.clone())));
        Self { server, workers, received_us, due_us: BTreeMap::new(), longest_add: Duration::ZERO }
    }

    async fn add(&mut self, id: &str) {
        let topic = ["waits", "asks"][self.due_us.len() % 2];
        let (status, took) = add(self.server, topic, id, DELAY).await;
        assert_eq!(status, 201, "{id}");
        self.longest_add = self.longest_add.max(took);
        let due_us = SystemClock::new().now_micros() + i64::try_from(DELAY.as_micros()).expect("fits");
        self.due_us.insert(id.to_owned(), due_us);
    }

    fn received(&self) -> MutexGuard<'_, BTreeMap<String, i64>> {
        self.received_us.lock().expect("not poisoned")
    }

    /// Waits until all jobs have been received. Returns how late each was, the latest one last.
    async fn ends(self) -> Vec<(Duration, String)> {
        let time_limit = TimeLimit::new();
        while self.received().len() < self.due_us.len() {
            time_limit.check(|| format!("{} of {}", self.received().len(), self.due_us.len()));
            time_limit.pause().await;
        }
        for worker in &self.workers {
            assert!(!worker.is_finished(), "a worker ended");
            worker.abort();
        }
        let received = self.received();
        let late =
            self.due_us.iter().map(|(id, due_us)| (micros((received[id] - due_us).max(0)), id.clone()));
        let mut late: Vec<_> = late.collect();
        late.sort_unstable();
        late
    }
}

/// Adds delayed jobs on healthy shards for the time `lasting`, and asserts that no call and no job is later than the bound.
/// The same jobs go through a server without any fault: what is late there is late because the machine is busy.
async fn assert_other_jobs_are_in_time(
    server: SocketAddr,
    name: &str,
    healthy: impl Fn(u64) -> bool,
    lasting: Duration,
) {
    let (clock, directory) = (SystemClock::new(), tempfile::tempdir().expect("a directory"));
    let undisturbed = Server::serve(&[], &[], directory.path());
    let (mut tested, mut control) = (Timed::new(server), Timed::new(undisturbed.address));
    let end_us = clock.now_micros() + i64::try_from(lasting.as_micros()).expect("fits");
    for id in ids(name, healthy) {
        if clock.now_micros() > end_us {
            break;
        }
        tokio::join!(tested.add(&id), control.add(&id));
        clock.sleep(Duration::from_millis(100)).await;
    }
    let longest_adds = (tested.longest_add, control.longest_add);
    assert!(longest_adds.0 < MOST_LATE + longest_adds.1, "an add took {longest_adds:?}");
    let (late, control) = (tested.ends().await, control.ends().await);
    let percentile = |share: usize| late[(late.len() - 1) * share / 100].0;
    println!(
        "proof: what=cluster_away case={name} jobs={} p50={:?} p90={:?} max={:?}",
        late.len(),
        percentile(50),
        percentile(90),
        percentile(100)
    );
    let latest = (late.last().expect("has jobs"), control.last().expect("has jobs"));
    assert!(latest.0.0 < MOST_LATE + latest.1.0 * CALLS, "{latest:?}");
}

/// Makes the new server announce another address, and waits until every other server has it.
fn announce_address(cluster: &Cluster, server: usize, address: SocketAddr) {
    let bus = (cluster.servers[server].port + 10_000).to_string();
    let mut node = cluster.node(server);
    node.call(&["CONFIG", "SET", "cluster-announce-bus-port", &bus]);
    node.call(&["CONFIG", "SET", "cluster-announce-port", &address.port().to_string()]);
    let at = format!("127.0.0.1:{}@", address.port());
    for other in 0..server {
        let known = || cluster.node(other).call(&["CLUSTER", "NODES"]).text().contains(&at);
        assert!(until(known), "server {other} does not know {at}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_to_an_unreachable_server_delays_only_its_own_jobs() {
    let mut cluster = Cluster::start(60_000);
    let empty = cluster.add_server();
    let unresponsive = UnresponsiveAddress::new();
    announce_address(&cluster, empty, unresponsive.address);
    let (directory, prefix) = (tempfile::tempdir().expect("a directory"), fresh_prefix());
    let server = serve(&cluster, &prefix, "", directory.path());
    // The slot of the settings does not move.
    let moving = slot(&prefix, 3);
    let (number, to) = (moving.to_string(), cluster.id(empty));
    cluster.move_keys(moving, empty, || {});
    let address = server.address;
    let callers: Vec<_> = ids("asked", |shard| shard == 3)
        .take(20)
        .map(|id| tokio::spawn(async move { add(address, "moving", &id, DELAY).await }))
        .collect();
    assert_other_jobs_are_in_time(address, "ask", |shard| shard != 3, Duration::from_secs(4)).await;
    for caller in callers {
        let (status, took) = caller.await.expect("does not panic");
        assert_eq!(status, 503);
        assert!(took < RETRY_FOR + MARGIN, "{took:?}");
    }
    for node in [empty, 0, 1, 2] {
        cluster.node(node).call(&["CLUSTER", "SETSLOT", &number, "NODE", &to]);
    }
    assert_other_jobs_are_in_time(address, "for-good", |shard| shard != 3, Duration::from_secs(8)).await;
    let (status, took) =
        add(address, "moving", &ids("late", |shard| shard == 3).next().expect("there is such an id"), DELAY)
            .await;
    assert_eq!(status, 503);
    assert!(took < RETRY_FOR + MARGIN, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_stopped_for_a_while_delays_only_its_own_jobs() {
    // The timeout is so long that the Cluster does not consider the server failed during the test.
    let cluster = Cluster::start(60_000);
    let (directory, prefix) = (tempfile::tempdir().expect("a directory"), fresh_prefix());
    let server: Server = serve(&cluster, &prefix, "", directory.path());
    let owner = |shard: u64| cluster.owner_of(slot(&prefix, shard), 0);
    let owners: Vec<usize> = (0..16).map(owner).collect();
    let stopped = owners[0];
    let healthy = |shard: u64| owners[usize::try_from(shard).expect("a small number")] != stopped;
    // These jobs become due on all servers while one is stopped.
    for id in ids("before", |_| true).take(20) {
        assert_eq!(add(server.address, "before", &id, Duration::from_secs(2)).await.0, 201);
    }
    cluster.servers[stopped].pause();
    let received_us = ReceivedAt::default();
    let early = tokio::spawn(work(server.address, "before", "?wait=10s", received_us.clone()));
    assert_other_jobs_are_in_time(server.address, "stopped", healthy, Duration::from_secs(16)).await;
    cluster.servers[stopped].resume();
    let time_limit = TimeLimit::new();
    while received_us.lock().expect("not poisoned").len() < 20 {
        time_limit.check(|| format!("{:?}", received_us.lock().expect("not poisoned")));
        time_limit.pause().await;
    }
    early.abort();
}

/// Packets to the host are silently dropped, and no other server takes over before the test ends.
#[test]
fn a_host_that_vanishes_delays_only_its_own_jobs() {
    let network = match Network::new(2) {
        Ok(network) => network,
        Err(why) => return not_run_here("vanished_host", &why),
    };
    network.run_on(0, async |network| {
        // Only the first server runs on the host that vanishes.
        let open = ["--protected-mode", "no"];
        let cluster = Cluster::launch(60_000, &open, |n, launch| {
            let host = usize::from(n == 0);
            Launch { before: network.command_prefix(host), host: Network::address(host), ..launch }
        });
        let (directory, prefix) = (tempfile::tempdir().expect("a directory"), fresh_prefix());
        let server = serve(&cluster, &prefix, "", directory.path());
        let healthy = |shard: u64| cluster.owner_of(slot(&prefix, shard), 1) != 0;
        let lost = ids("lost", |shard| !healthy(shard)).next().expect("there is such an id");
        assert_eq!(add(server.address, "lost", &lost, Duration::from_secs(2)).await.0, 201);
        let shards: Vec<bool> = (0..16).map(healthy).collect();
        let healthy = |shard: u64| shards[usize::try_from(shard).expect("a small number")];
        network.isolate(1);
        assert_other_jobs_are_in_time(server.address, "vanished", healthy, Duration::from_secs(16)).await;
        let late = ids("late", |shard| !healthy(shard)).next().expect("there is such an id");
        let (status, took) = add(server.address, "lost", &late, DELAY).await;
        assert_eq!(status, 503);
        assert!(took < RETRY_FOR + MARGIN, "{took:?}");
        network.reconnect(1);
        let mut client = Client::new(server.address);
        let response = bounded("a pop", client.get("/topics/lost/pop?wait=60s")).await.expect("answers");
        assert_eq!((response.status, response.text("id")), (200, lost));
    });
}

/// The report of `/readyz?verbose` about degraded shards, if there is one. The server must be ready in either case.
async fn degraded_shards(server: &Server) -> Option<String> {
    let response = Client::new(server.address).get("/readyz?verbose").await.expect("answers");
    assert_eq!(response.status, 200, "{response:?}");
    let page = response.json();
    let checks = page["checks"].as_array().expect("checks");
    let shards = checks.iter().find(|check| check["name"] == "shards")?;
    assert_eq!(shards["status"], "degraded", "{page}");
    Some(shards["detail"].to_string())
}

/// Waits until `/readyz?verbose` reports degraded shards, or none.
async fn wait_until_degraded(server: &Server, degraded: bool) -> Option<String> {
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
    let (directory, prefix) = (tempfile::tempdir().expect("a directory"), fresh_prefix());
    let server: Server = serve(&cluster, &prefix, "", directory.path());
    assert_eq!(degraded_shards(&server).await, None);
    let stopped = cluster.owner_of(slot(&prefix, 0), 0);
    let port = cluster.servers[stopped].port.to_string();
    cluster.servers[stopped].pause();
    let why = wait_until_degraded(&server, true).await.expect("shards are degraded");
    assert!(why.contains("of 16 shards in Redis take no writes"), "{why}");
    assert!(!why.contains(&port), "the page is public and must not name servers: {why}");
    // A thread of the server writes the log, maybe after the response.
    server.wait_for_log("take no writes");
    let log = server.log();
    assert!(log.lines().any(|line| line.contains("take no writes") && line.contains(&port)), "{log}");
    let healthy = |shard: u64| cluster.owner_of(slot(&prefix, shard), (stopped + 1) % 3) != stopped;
    let id = ids("healthy", healthy).next().expect("there is such an id");
    assert_eq!(add(server.address, "healthy", &id, DELAY).await.0, 201);
    cluster.servers[stopped].resume();
    wait_until_degraded(&server, false).await;
}
