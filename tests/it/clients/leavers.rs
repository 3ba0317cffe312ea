//! Thousands of workers that leave at a random moment while jobs become ready: every job returns, at once and uncounted if
//! the server could notice, otherwise when its TTR ends.
//!
//! `LINGER_PROVE_LEAVERS` sets how many there are; on Redis a fifth of it.

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
    client::Client,
    process::Server,
    redis::{fresh_prefix, shared},
    socket::{get, post},
    wait::TimeLimit,
};

/// How many workers run at the same time.
const TOGETHER: usize = 32;
/// The TTR of jobs of this topic ends soon enough to wait for.
const SHORT: &str = "short";
/// The TTR of jobs of this topic is long, so a job that is ready again was returned.
const LONG: &str = "long";

/// When a worker leaves.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// Before its request is complete.
    HalfAsked,
    /// As soon as the request is sent.
    Asked,
    /// A while later: parked, or just as its response arrives.
    Later,
    /// After reading a part of the response.
    HalfAnswered,
}

/// A worker that leaves without finishing its job.
#[derive(Debug, Clone, Copy)]
struct Leaver {
    moment: Moment,
    /// By a reset instead of an orderly close.
    rudely: bool,
    topic: &'static str,
    many: bool,
    share: f64,
}

impl Leaver {
    fn random() -> Self {
        let mut rng = rand::rng();
        let moments = [Moment::HalfAsked, Moment::Asked, Moment::Later, Moment::HalfAnswered];
        Self {
            moment: moments[rng.random_range(0..moments.len())],
            rudely: rng.random(),
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

    async fn come_and_go(self, address: SocketAddr) {
        let (clock, request) = (SystemClock::new(), self.request().into_bytes());
        let mut stream = TcpStream::connect(address).await.expect("connects");
        let asked = match self.moment {
            Moment::HalfAsked => &request[..1 + (request.len() as f64 * self.share * 0.9) as usize],
            Moment::Asked | Moment::Later | Moment::HalfAnswered => &request,
        };
        stream.write_all(asked).await.expect("sends");
        let mut some = vec![0; 1 + (self.share * 2_000.0) as usize];
        match self.moment {
            Moment::HalfAsked | Moment::Asked => {}
            // The moment of leaving is the subject of the test, and random.
            Moment::Later => clock.sleep(Duration::from_millis((self.share * 150.0) as u64)).await,
            Moment::HalfAnswered => tokio::select! {
                _ = stream.read(&mut some) => {}
                // For some there is no job, and so no response to leave half-read.
                () = clock.sleep(Duration::from_millis(300)) => {}
            },
        }
        if self.rudely {
            stream.set_zero_linger().expect("an open connection");
        }
    }
}

/// A job for leavers: some are large, half have a single attempt.
fn job(n: usize) -> Value {
    let topic = if n.is_multiple_of(4) { SHORT } else { LONG };
    json!({
        "topic": topic, "id": format!("job-{n}"),
        "delay": format!("{}ms", rand::rng().random_range(0..200)),
        "ttr": if topic == SHORT { 2 } else { 3_600 },
        "max_attempts": if n % 8 < 4 { 1 } else { 0 },
        "body": "x".repeat(if n.is_multiple_of(5) { 100_000 } else { 10 }),
    })
}

/// Runs leavers one after the other, and adds a job before every second one.
async fn slot(number: usize, leavers: usize, address: SocketAddr) -> usize {
    let (mut client, mut added) = (Client::new(address), 0);
    for n in (number..leavers).step_by(TOGETHER) {
        if (n / TOGETHER).is_multiple_of(2) {
            let answer = client.post("/jobs", &job(n)).await.expect("answers");
            assert_eq!(answer.status, 201, "{answer:?}");
            added += 1;
        }
        Leaver::random().come_and_go(address).await;
    }
    added
}

fn counts(server: &Server, topic: &str) -> BTreeMap<String, u64> {
    let answer = server.call("GET", &format!("/topics/{topic}"), "");
    if answer.status == 404 {
        return BTreeMap::new();
    }
    serde_json::from_value(answer.json()["counts"].clone()).expect("counts")
}

fn metric(server: &Server, event: &str, topic: &str) -> u64 {
    let name = format!("linger_jobs_{event}_total{{topic=\"{topic}\"}}");
    server.metric(&name).unwrap_or(0.0) as u64
}

fn of(counts: &BTreeMap<String, u64>, states: &[&str]) -> u64 {
    states.iter().map(|state| counts.get(*state).copied().unwrap_or(0)).sum()
}

/// Waits until everything that was not handed to a connection is ready again.
async fn all_given_back(server: &Server) -> u64 {
    let time_limit = TimeLimit::new();
    loop {
        let (counts, delivered) = (counts(server, LONG), metric(server, "delivered", LONG));
        let settled = of(&counts, &["delayed"]) == 0 && of(&counts, &["reserved"]) == delivered;
        if settled && server.metric("linger_http_connections") == Some(1.0) {
            return delivered;
        }
        time_limit.check(|| format!("{delivered} were handed over, yet there are {counts:?}"));
        time_limit.pause().await;
    }
}

/// Pops what is ready and finishes it, until nothing of the topic waits or is held by anyone who will give it
/// back: the attempt at which each was finished.
async fn work_off(
    server: &Server,
    topic: &str,
    left: impl Fn(&BTreeMap<String, u64>) -> u64,
) -> BTreeMap<String, u64> {
    let (mut client, mut done, time_limit) = (Client::new(server.address), BTreeMap::new(), TimeLimit::new());
    loop {
        let answer = client.get(&format!("/topics/{topic}/pop?wait=500ms&ttr=60")).await.expect("answers");
        if answer.status == 204 {
            let counts = counts(server, topic);
            if left(&counts) == 0 {
                return done;
            }
            time_limit.check(|| format!("{topic}: {counts:?}"));
            continue;
        }
        let job = answer.json();
        let (id, receipt) = (answer.text("id"), answer.text("receipt"));
        let path = format!("/jobs/{id}/finish?receipt={receipt}");
        assert_eq!(client.send(hyper::Method::POST, &path, None).await.expect("answers").status, 204);
        let attempt = job["attempt"].as_u64().expect("a number");
        assert!(job["max_attempts"] == 0 || attempt == 1, "{job}");
        assert_eq!(done.insert(id, attempt), None, "{job} was finished before");
    }
}

/// Dead letters of the topic: each had one attempt and used it.
fn dead(server: &Server, topic: &str) -> u64 {
    let (mut found, mut cursor) = (0, String::new());
    loop {
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

async fn run(engine: &str, leavers: usize, arguments: &[&str], variables: &[(&str, &str)], home: &Path) {
    let server = Server::serve(arguments, variables, home);
    let mut slots = JoinSet::new();
    for number in 0..TOGETHER {
        slots.spawn(slot(number, leavers, server.address));
    }
    let added = slots.join_all().await.into_iter().sum::<usize>() as u64;
    let held = all_given_back(&server).await;
    let given_back = metric(&server, "cancelled", SHORT) + metric(&server, "cancelled", LONG);
    let at_once = work_off(&server, LONG, |counts| of(counts, &["delayed", "ready"])).await;
    assert!(at_once.values().all(|attempt| *attempt == 1), "no attempt was lost: {at_once:?}");
    let by_ttr = work_off(&server, SHORT, |counts| of(counts, &["delayed", "ready", "reserved"])).await;
    let (dead, delivered) = (dead(&server, SHORT), metric(&server, "delivered", SHORT));
    let lost = added - held - dead - (at_once.len() + by_ttr.len()) as u64;
    assert_eq!(lost, 0);
    // An attempt counts just when a connection took the job's bytes.
    assert_eq!(by_ttr.values().sum::<u64>() + dead, delivered, "{by_ttr:?}");
    assert_eq!(of(&counts(&server, LONG), &["reserved", "dead"]), held);
    println!(
        "proof: what=leavers_{engine}, runs={leavers}, jobs={added}, given_back_at_once={given_back}, held_by_the_dead={held}, back_by_ttr={}, dead_after_their_one_delivery={dead}, faults=0, clients={leavers}, lost={lost}, violations=0",
        metric(&server, "expired", SHORT),
    );
    assert_eq!(server.stop().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_leaves_whenever_no_job_is_lost_embedded() {
    let directory = tempfile::tempdir().expect("a directory");
    run("embedded", count("LINGER_PROVE_LEAVERS", 500), &[], &[], directory.path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_leaves_whenever_no_job_is_lost_redis() {
    let directory = tempfile::tempdir().expect("a directory");
    let (url, prefix) = (shared().url(), fresh_prefix());
    let arguments = ["--store", "redis", "--redis-url", &url];
    let leavers = count("LINGER_PROVE_LEAVERS", 500) / 5;
    run("redis", leavers, &arguments, &[("LINGER__REDIS__PREFIX", &prefix)], directory.path()).await;
}

/// Where every close can be seen, nothing may be lost at all: no attempt and no time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parked_leavers_who_are_seen_to_leave_cost_no_attempt() {
    let leavers = count("LINGER_PROVE_LEAVERS", 500).min(5_000) / 2;
    let _crowd = super::crowd(leavers).await;
    let directory = tempfile::tempdir().expect("a directory");
    // The default is enough for the short form.
    let connections = (leavers + 100).max(1_000).to_string();
    let variables = [("LINGER__SERVER__MAX_CONNECTIONS_PER_ADDRESS", &*connections)];
    let server = Server::serve(&[], &variables, directory.path());
    let mut parked = Vec::new();
    for n in 0..leavers {
        let leaver =
            Leaver { moment: Moment::Asked, rudely: n % 2 == 0, topic: LONG, many: n % 3 == 0, share: 0.0 };
        let mut stream = TcpStream::connect(server.address).await.expect("connects");
        stream.write_all(leaver.request().as_bytes()).await.expect("sends");
        if leaver.rudely {
            stream.set_zero_linger().expect("an open connection");
        }
        parked.push(stream);
    }
    server.wait_for_parked_polls(leavers);
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
    println!("proof: what=parked_leavers, runs={leavers}, faults=0, clients={leavers}, lost=0, violations=0");
    assert_eq!(server.stop().code(), Some(0));
}
