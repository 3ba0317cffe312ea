//! Thousands of parked long polls: each costs little, a job reaches exactly one of them, and nothing remains when they
//! disconnect.
//!
//! `LINGER_PROVE_PARKED` sets the number of polls.

use std::{io::Read, io::Write, net::SocketAddr, time::Duration};

use linger::clock::{Clock, SystemClock};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc::{self, error::TryRecvError},
    task::JoinSet,
};

use super::{count, reserve_open_files};
use crate::harness::{
    blocking_http::is_not_begun,
    client::Client,
    process::Server,
    process_stats,
    redis::{RedisServer, fresh_prefix},
    socket::get,
    wait::TimeLimit,
};

/// How many polls connect at the same time.
const CONNECTING_AT_ONCE: usize = 500;
/// So few polls that their cost is negligible.
const FEW: usize = 10;
/// The most memory that one poll may use; a build without optimisation uses nearly as much.
const MOST_BYTES: u64 = 128 * 1_024;
const IDLE: Duration = Duration::from_secs(2);
/// Clients and server share the machine, so a first byte may be delayed for longer than the default timeout.
const SETTINGS: [(&str, &str); 3] = [
    ("LINGER__QUEUE__MAX_WAIT", "1h"),
    ("LINGER__SERVER__HEADER_TIMEOUT", "10m"),
    ("LINGER__SERVER__MAX_CONNECTIONS_PER_ADDRESS", "100000"),
];

/// Parked polls, which disconnect when this is dropped.
struct ParkedPolls {
    polls: JoinSet<()>,
    answers: mpsc::UnboundedReceiver<String>,
}

impl ParkedPolls {
    /// Parks more polls. None of them may receive a response while doing so.
    async fn new(server: &Server, polls: usize) -> Self {
        let (sender, mut answers) = mpsc::unbounded_channel();
        let (mut all, before) = (JoinSet::new(), parked_polls(server));
        for number in 0..polls {
            // Four addresses, so that no one of them runs out of ports.
            let local = format!("127.0.0.{}:0", 2 + number % 4).parse().expect("an address");
            all.spawn(poll(local, server.address, sender.clone()));
            // No more at a time than the listener's backlog holds, because the system resets connections beyond it.
            if number % CONNECTING_AT_ONCE == CONNECTING_AT_ONCE - 1 {
                wait_for_parked(server, before + number + 1).await;
            }
        }
        wait_for_parked(server, before + polls).await;
        assert_eq!(answers.try_recv(), Err(TryRecvError::Empty));
        Self { polls: all, answers }
    }

    /// The next response that any poll received.
    async fn next_response(&mut self) -> Value {
        let clock = SystemClock::new();
        tokio::select! {
            answer = self.answers.recv() => {
                let answer = answer.expect("polls are parked");
                let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
                serde_json::from_str(body).expect("a job")
            }
            () = clock.sleep(Duration::from_secs(60)) => panic!("the job reached no poll"),
        }
    }

    /// Disconnects all polls and waits until only `others` remain. Returns the responses that were not read.
    async fn disconnect(mut self, server: &Server, others: usize) -> Vec<String> {
        while let Some(ended) = self.polls.try_join_next() {
            ended.expect("a parked poll does not end");
        }
        self.polls.shutdown().await;
        wait_for_parked(server, others).await;
        let mut unread = Vec::new();
        while let Ok(answer) = self.answers.try_recv() {
            unread.push(answer);
        }
        unread
    }
}

/// One parked poll. Reports its response and stays connected. A poll that was not begun, because the process was paused, is sent
/// again on another connection: the server closes the first one.
async fn poll(local: SocketAddr, address: SocketAddr, answers: mpsc::UnboundedSender<String>) {
    let mut stream = send_poll(local, address).await;
    let mut answer = vec![0; 2_048];
    loop {
        let len = stream.read(&mut answer).await.expect("is not reset");
        assert!(len > 0, "a parked poll was closed");
        if answer.starts_with(b"HTTP/1.1 503 ") && is_not_begun(503, &answer[..len]) {
            stream = send_poll(local, address).await;
            continue;
        }
        let answer = String::from_utf8_lossy(&answer[..len]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let _ = answers.send(answer);
    }
}

async fn send_poll(local: SocketAddr, address: SocketAddr) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(local).expect("an address of this machine");
    let mut stream: TcpStream = socket.connect(address).await.expect("connects");
    stream.write_all(get("/topics/t/pop?wait=1h&ttr=1h").as_bytes()).await.expect("sends");
    stream
}

fn parked_polls(server: &Server) -> usize {
    server.metric("linger_parked_polls").expect("the metric exists") as usize
}

async fn wait_for_parked(server: &Server, polls: usize) {
    let time_limit = TimeLimit::new();
    while parked_polls(server) != polls {
        time_limit.check(|| {
            let [connections, calls] = ["connections", "requests_in_flight"]
                .map(|name| server.metric(&format!("linger_http_{name}")));
            format!(
                "{} of {polls} parked, {connections:?} connections, {calls:?} calls",
                parked_polls(server)
            )
        });
        time_limit.pause().await;
    }
}

/// Adds a job. Returns after how many milliseconds a parked poll receives it.
async fn add_and_time(server: &Server, parked: &mut ParkedPolls, id: &str) -> f64 {
    let (mut client, clock) = (Client::new(server.address), SystemClock::new());
    client.get("/livez").await.expect("answers");
    let began_us = clock.now_micros();
    let added = client.post("/jobs", &json!({ "topic": "t", "id": id, "max_attempts": 1 })).await;
    assert_eq!(added.expect("answers").status, 201);
    let job = parked.next_response().await;
    let took_ms = (clock.now_micros() - began_us) as f64 / 1_000.0;
    assert_eq!((&job["id"], &job["attempt"]), (&id.into(), &1.into()));
    let path = format!("/jobs/{id}/finish?receipt={}", job["receipt"].as_str().expect("a receipt"));
    let finished = client.send(hyper::Method::POST, &path, None).await.expect("answers");
    assert_eq!(finished.status, 204);
    took_ms
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_parked_polls_cost_little_and_leave_nothing_behind() {
    let polls = count("LINGER_PROVE_PARKED", 1_000);
    let _turn = reserve_open_files(polls).await;
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &SETTINGS, directory.path());
    let (pid, clock) = (server.pid(), SystemClock::new());
    // The first polls also cost what the server allocates once.
    ParkedPolls::new(&server, FEW).await.disconnect(&server, 0).await;
    let before = process_stats::memory_bytes(pid);
    let mut first = ParkedPolls::new(&server, polls).await;
    let each = process_stats::memory_bytes(pid).saturating_sub(before) / polls as u64;
    let busy = process_stats::processor_time(pid);
    clock.sleep(IDLE).await;
    let busy = process_stats::processor_time(pid) - busy;
    let mut latencies_ms: Vec<f64> = Vec::new();
    for n in 0..20 {
        latencies_ms.push(add_and_time(&server, &mut first, &format!("job-{n}")).await);
    }
    assert_eq!(parked_polls(&server), polls - 20, "each job reached one poll");
    assert_eq!(first.disconnect(&server, 0).await, Vec::<String>::new());
    server.wait_for_metric("linger_http_connections", 1.0);
    let full = before + each * polls as u64;
    let second = ParkedPolls::new(&server, polls).await;
    let again = process_stats::memory_bytes(pid);
    second.disconnect(&server, 0).await;
    let slowest_ms = latencies_ms.iter().copied().fold(0.0, f64::max);
    assert!(each < MOST_BYTES, "{each} bytes a poll");
    assert!(busy < IDLE / 4, "{busy:?} of processor time in {IDLE:?} without requests");
    // The memory of the first polls is reused for the second.
    assert!(again < full + full / 2, "{full} bytes grew to {again}");
    println!(
        "proof: what=parked_polls, runs={polls}, bytes_each={each}, idle_cpu_percent={:.1}, reached_slowest_ms={slowest_ms:.1}, second_time_mib_more={}",
        busy.as_secs_f64() * 100.0 / IDLE.as_secs_f64(),
        again.saturating_sub(full) >> 20,
    );
    assert_eq!(server.stop().code(), Some(0));
}

/// The number of commands that a Redis has executed since its start.
fn commands(redis: &RedisServer) -> u64 {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", redis.port)).expect("connects");
    stream.write_all(b"INFO commandstats\r\nQUIT\r\n").expect("sends");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("text");
    let calls =
        reply.lines().filter_map(|line| line.split_once(":calls=")?.1.split_once(',')?.0.parse::<u64>().ok());
    calls.sum()
}

/// The number of commands during a time without requests.
async fn commands_while_idle(redis: &RedisServer) -> u64 {
    let before = commands(redis);
    SystemClock::new().sleep(IDLE).await;
    commands(redis) - before
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_load_on_redis_does_not_grow_with_parked_polls() {
    let polls = count("LINGER_PROVE_PARKED", 1_000);
    let _turn = reserve_open_files(polls).await;
    let (directory, redis) = (tempfile::tempdir().expect("a directory"), RedisServer::start());
    let (url, prefix) = (redis.url(), fresh_prefix());
    let mut settings = vec![("LINGER__REDIS__PREFIX", prefix.as_str())];
    settings.extend(SETTINGS);
    let server = Server::serve(&["--store", "redis", "--redis-url", &url], &settings, directory.path());
    let few_polls = ParkedPolls::new(&server, FEW).await;
    let with_few = commands_while_idle(&redis).await;
    let mut many_polls = ParkedPolls::new(&server, polls).await;
    let with_many = commands_while_idle(&redis).await;
    few_polls.disconnect(&server, polls).await;
    let reached_ms = add_and_time(&server, &mut many_polls, "job").await;
    assert!(with_many <= with_few * 2 + 50, "{with_few} commands with {FEW} polls, {with_many} with {polls}");
    assert_eq!(many_polls.disconnect(&server, 0).await, Vec::<String>::new());
    println!(
        "proof: what=parked_polls_on_redis, runs={polls}, commands_with_{FEW}={with_few}, commands_with_all={with_many}, reached_ms={reached_ms:.1}"
    );
    assert_eq!(server.stop().code(), Some(0));
}
