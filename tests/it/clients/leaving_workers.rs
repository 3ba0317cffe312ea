//! Thousands of workers that leave at a random time while jobs become ready. Every job returns: at once and uncounted if
//! the server can notice that the worker left, otherwise when its TTR ends.
//!
//! `LINGER_PROVE_LEAVERS` sets the number of workers; on Redis, a fifth of it runs.

use std::{collections::BTreeMap, net::SocketAddr, path::Path, time::Duration};

use linger::clock::{Clock, SystemClock};
use rand::RngExt;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use super::count;
use crate::harness::{
    blocking_http::is_not_begun,
    client::Client,
    process::Server,
    redis::{fresh_prefix, shared},
    socket::{get, post},
    wait::{StepLimit, TimeLimit},
};

/// The number of workers that run at the same time.
const AT_ONCE: usize = 32;
/// The topic of jobs whose TTR ends soon enough to wait for. It is longer than a busy machine stands still: a reservation that
/// ends before the server can deliver it uses an attempt although no connection took it.
const SHORT: &str = "short";
/// The topic of jobs with a long TTR. If one is ready again, the server returned it.
const LONG: &str = "long";

/// When a worker leaves.
#[derive(Debug, Clone, Copy)]
enum LeavesAt {
    /// Before its request is complete.
    PartOfRequest,
    /// As soon as the request is sent.
    RequestSent,
    /// A while later: while parked, or just as the response arrives.
    Later,
    /// After reading a part of the response.
    PartOfResponse,
}

/// A worker that leaves without finishing its job.
#[derive(Debug, Clone, Copy)]
struct LeavingWorker {
    leaves_at: LeavesAt,
    /// Whether it resets the connection instead of closing it.
    resets: bool,
    topic: &'static str,
    many: bool,
    share: f64,
}

impl LeavingWorker {
    fn random() -> Self {
        let mut rng = rand::rng();
        let choices =
            [LeavesAt::PartOfRequest, LeavesAt::RequestSent, LeavesAt::Later, LeavesAt::PartOfResponse];
        Self {
            leaves_at: choices[rng.random_range(0..choices.len())],
            resets: rng.random(),
            topic: if rng.random() { SHORT } else { LONG },
            many: rng.random_bool(0.2),
            share: rng.random_range(0.0..1.0),
        }
    }

    fn request(self) -> String {
        if self.many {
            post("/batch/pop", r#"{"topics":["short","long"],"max":3,"wait":"30s"}"#)
        } else {
            get(&format!("/topics/{}/pop?wait=30s", self.topic))
        }
    }

    /// Sends its poll on a connection that is closed when it is dropped.
    async fn poll(self, address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.expect("connects");
        stream.write_all(self.request().as_bytes()).await.expect("sends");
        if self.resets {
            stream.set_zero_linger().expect("an open connection");
        }
        stream
    }

    async fn connect_and_leave(self, address: SocketAddr) {
        let (clock, request) = (SystemClock::new(), self.request().into_bytes());
        let mut stream = TcpStream::connect(address).await.expect("connects");
        let sent = match self.leaves_at {
            LeavesAt::PartOfRequest => &request[..1 + (request.len() as f64 * self.share * 0.9) as usize],
            LeavesAt::RequestSent | LeavesAt::Later | LeavesAt::PartOfResponse => &request,
        };
        stream.write_all(sent).await.expect("sends");
        let mut some = vec![0; 1 + (self.share * 2_000.0) as usize];
        match self.leaves_at {
            LeavesAt::PartOfRequest | LeavesAt::RequestSent => {}
            // The time of leaving is the subject of the test, and random.
            LeavesAt::Later => clock.sleep(Duration::from_millis((self.share * 150.0) as u64)).await,
            LeavesAt::PartOfResponse => tokio::select! {
                _ = stream.read(&mut some) => {}
                // Some workers receive no job, and so no response that they could leave unread.
                () = clock.sleep(Duration::from_millis(300)) => {}
            },
        }
        if self.resets {
            stream.set_zero_linger().expect("an open connection");
        }
    }
}

/// A job for leaving workers. Some jobs are large, and half have a single attempt.
fn job(n: usize) -> Value {
    let topic = if n.is_multiple_of(4) { SHORT } else { LONG };
    json!({
        "topic": topic, "id": format!("job-{n}"),
        "delay": format!("{}ms", rand::rng().random_range(0..200)),
        "ttr": if topic == SHORT { 15 } else { 3_600 },
        "max_attempts": if n % 8 < 4 { 1 } else { 0 },
        "body": "x".repeat(if n.is_multiple_of(5) { 100_000 } else { 10 }),
    })
}

/// Runs workers one after the other, and adds a job before every second one. Returns the number of jobs added.
async fn run_workers(number: usize, workers: usize, address: SocketAddr) -> usize {
    let (mut client, mut added) = (Client::new(address), 0);
    for n in (number..workers).step_by(AT_ONCE) {
        if (n / AT_ONCE).is_multiple_of(2) {
            let response = client.post("/jobs", &job(n)).await.expect("answers");
            assert_eq!(response.status, 201, "{response:?}");
            added += 1;
        }
        LeavingWorker::random().connect_and_leave(address).await;
    }
    added
}

fn counts(server: &Server, topic: &str) -> BTreeMap<String, u64> {
    let response = server.call("GET", &format!("/topics/{topic}"), "");
    if response.status == 404 {
        return BTreeMap::new();
    }
    serde_json::from_value(response.json()["counts"].clone()).expect("counts")
}

fn metric(server: &Server, event: &str, topic: &str) -> u64 {
    let name = format!("linger_jobs_{event}_total{{topic=\"{topic}\"}}");
    server.metric(&name).unwrap_or(0.0) as u64
}

fn sum_of(counts: &BTreeMap<String, u64>, states: &[&str]) -> u64 {
    states.iter().map(|state| counts.get(*state).copied().unwrap_or(0)).sum()
}

/// Waits until every job that no connection took is ready again. Returns the number of jobs that were delivered.
async fn wait_until_returned(server: &Server) -> u64 {
    let time_limit = TimeLimit::new();
    loop {
        let (counts, delivered) = (counts(server, LONG), metric(server, "delivered", LONG));
        let all_returned = sum_of(&counts, &["delayed"]) == 0 && sum_of(&counts, &["reserved"]) == delivered;
        if all_returned && server.metric("linger_http_connections") == Some(1.0) {
            return delivered;
        }
        time_limit.check(|| format!("{delivered} jobs were delivered, and the counts are {counts:?}"));
        time_limit.pause().await;
    }
}

/// Pops and finishes jobs until `left` returns zero for the topic's counts. Returns the attempt at which each job was
/// finished.
async fn finish_all(
    server: &Server,
    topic: &str,
    left: impl Fn(&BTreeMap<String, u64>) -> u64,
) -> BTreeMap<String, u64> {
    let (mut client, mut done, time_limit) = (Client::new(server.address), BTreeMap::new(), TimeLimit::new());
    loop {
        let response = client.get(&format!("/topics/{topic}/pop?wait=500ms&ttr=60")).await.expect("answers");
        if response.status == 204 {
            let counts = counts(server, topic);
            if left(&counts) == 0 {
                return done;
            }
            time_limit.check(|| format!("{topic}: {counts:?}"));
            time_limit.pause().await;
            continue;
        }
        let job = response.json();
        let (id, receipt) = (response.text("id"), response.text("receipt"));
        let path = format!("/jobs/{id}/finish?receipt={receipt}");
        assert_eq!(client.send(hyper::Method::POST, &path, None).await.expect("answers").status, 204);
        let attempt = job["attempt"].as_u64().expect("a number");
        assert!(job["max_attempts"] == 0 || attempt == 1, "{job}");
        assert_eq!(done.insert(id, attempt), None, "{job} was finished before");
    }
}

/// The number of dead letters of the topic. Each must have had one attempt and used it.
fn dead_letters(server: &Server, topic: &str) -> u64 {
    let (mut found, mut cursor, mut step_limit) = (0, String::new(), StepLimit::new());
    loop {
        step_limit.step();
        let page = server.call("GET", &format!("/topics/{topic}/dead?limit=100{cursor}"), "").json();
        for job in page["jobs"].as_array().expect("a list") {
            assert_eq!((&job["attempts"], &job["max_attempts"]), (&1.into(), &1.into()), "{job}");
            found += 1;
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

async fn run(engine: &str, workers: usize, arguments: &[&str], variables: &[(&str, &str)], directory: &Path) {
    let server = Server::serve(arguments, variables, directory);
    let mut tasks = JoinSet::new();
    for number in 0..AT_ONCE {
        tasks.spawn(run_workers(number, workers, server.address));
    }
    let added = tasks.join_all().await.into_iter().sum::<usize>() as u64;
    let held = wait_until_returned(&server).await;
    let given_back = metric(&server, "cancelled", SHORT) + metric(&server, "cancelled", LONG);
    // On a slow disk, a poll can end while the store still reserves a job for it: the server gives that back in a moment.
    let left = |counts: &_| sum_of(counts, &["delayed", "ready", "reserved"]) - held;
    let at_once = finish_all(&server, LONG, left).await;
    assert!(at_once.values().all(|attempt| *attempt == 1), "no attempt was used: {at_once:?}");
    let by_ttr = finish_all(&server, SHORT, |counts| sum_of(counts, &["delayed", "ready", "reserved"])).await;
    let (dead, delivered) = (dead_letters(&server, SHORT), metric(&server, "delivered", SHORT));
    let lost = added - held - dead - (at_once.len() + by_ttr.len()) as u64;
    println!(
        "proof: what=leavers_{engine}, runs={workers}, jobs={added}, given_back_at_once={given_back}, held_by_the_dead={held}, back_by_ttr={}, dead_after_their_one_delivery={dead}, clients={workers}, lost={lost}",
        metric(&server, "timed_out", SHORT),
    );
    assert_eq!(lost, 0);
    // An attempt counts exactly if a connection took the job's bytes.
    assert_eq!(by_ttr.values().sum::<u64>() + dead, delivered, "{by_ttr:?}");
    assert_eq!(sum_of(&counts(&server, LONG), &["reserved", "dead"]), held);
    assert_eq!(server.stop().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_leave_at_any_time_lose_no_job_embedded() {
    let directory = tempfile::tempdir().expect("a directory");
    run("embedded", count("LINGER_PROVE_LEAVERS", 500), &[], &[], directory.path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_leave_at_any_time_lose_no_job_redis() {
    let directory = tempfile::tempdir().expect("a directory");
    let (url, prefix) = (shared().url(), fresh_prefix());
    let arguments = ["--store", "redis", "--redis-url", &url];
    let workers = count("LINGER_PROVE_LEAVERS", 500) / 5;
    run("redis", workers, &arguments, &[("LINGER__REDIS__PREFIX", &prefix)], directory.path()).await;
}

/// If the server can notice every close, no attempt and no time may be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_leave_a_parked_poll_use_no_attempt() {
    let workers = count("LINGER_PROVE_LEAVERS", 500).min(5_000) / 2;
    let _turn = super::reserve_open_files(workers).await;
    let directory = tempfile::tempdir().expect("a directory");
    // The default is enough for the short form.
    let connections = (workers + 100).max(1_000).to_string();
    let variables = [("LINGER__SERVER__MAX_CONNECTIONS_PER_ADDRESS", &*connections)];
    let server = Server::serve(&[], &variables, directory.path());
    let mut parked = Vec::new();
    for n in 0..workers {
        let worker = LeavingWorker {
            leaves_at: LeavesAt::RequestSent,
            resets: n % 2 == 0,
            topic: LONG,
            many: n % 3 == 0,
            share: 0.0,
        };
        parked.push((worker, worker.poll(server.address).await));
    }
    let time_limit = TimeLimit::new();
    while server.metric("linger_parked_polls") != Some(workers as f64) {
        time_limit.check(|| format!("{:?} of {workers}", server.metric("linger_parked_polls")));
        time_limit.pause().await;
        for (worker, stream) in &mut parked {
            let mut answer = [0; 2_048];
            // Those that were not begun, because the process was paused, are sent again.
            if let Ok(len) = stream.try_read(&mut answer) {
                assert!(is_not_begun(503, &answer[..len]), "{}", String::from_utf8_lossy(&answer[..len]));
                *stream = worker.poll(server.address).await;
            }
        }
    }
    drop(parked);
    server.wait_for_parked_polls(0);
    let mut client = Client::new(server.address);
    for n in 0..20 {
        let job = json!({ "topic": LONG, "id": format!("only-{n}"), "ttr": 3_600, "max_attempts": 1 });
        assert_eq!(client.post("/jobs", &job).await.expect("answers").status, 201);
        let popped = client.get("/topics/long/pop").await.expect("answers");
        assert_eq!((popped.status, popped.json()["attempt"].clone()), (200, json!(1)));
        assert_eq!(popped.text("id"), format!("only-{n}"));
    }
    assert_eq!(metric(&server, "delivered", LONG), 20);
    println!("proof: what=parked_leavers, runs={workers}, clients={workers}");
    assert_eq!(server.stop().code(), Some(0));
}
