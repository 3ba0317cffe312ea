//! Endpoints that never come to an end and send as fast as they can, on a real server with the default settings.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use linger::clock::{Clock, SystemClock};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{
    Home,
    behavior::{add, call, wait_for_callbacks, wait_until_gone},
};
use crate::harness::{
    process::Server,
    process_stats::{memory_bytes, peak_memory_bytes, reset_peak_memory},
    receiver::{Answer, Receiver},
    wait::TimeLimit,
};

/// Jobs for each kind of endpoint, each of a topic of its own: a topic calls an endpoint that has never answered once at a time.
const CALLS: usize = 4;
/// Jobs that are called meanwhile.
const GOOD: usize = 20;
/// Longer than any wait of a test.
const LONG: &str = "10m";
/// Of calls that end by it. Longer than a machine stands still, so that each of them is sent before.
const SHORT: &str = "3s";
/// The most memory that the calls may take together.
const MOST_BYTES: u64 = 8 << 20;

/// What an endpoint sends.
struct Kind {
    name: &'static str,
    /// The beginning of its answer, and what it repeats for ever.
    head: &'static str,
    repeated: &'static str,
    /// How the reason of the failed job begins; `None` if the job is finished.
    reason: Option<&'static str>,
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "interim",
        head: "",
        repeated: "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n",
        reason: Some("timeout"),
    },
    Kind { name: "header", head: "HTTP/1.1 200 OK\r\nx: ", repeated: "yyyyyyyy", reason: Some("bad_answer") },
    Kind { name: "headers", head: "HTTP/1.1 200 OK\r\n", repeated: "x: y\r\n", reason: Some("bad_answer") },
    Kind {
        name: "refusal",
        head: "HTTP/1.1 500 No\r\n\r\n",
        repeated: "nononono",
        reason: Some("http_500: nononono"),
    },
    Kind {
        name: "body",
        head: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        repeated: "8\r\nyesyesye\r\n",
        reason: None,
    },
];

/// The connections of an endpoint.
#[derive(Default)]
struct Figures {
    open: AtomicUsize,
    sent_bytes: AtomicUsize,
    /// Whether it no longer sends at full speed: what that shows has been seen.
    is_calm: AtomicBool,
}

async fn send_for_ever(mut stream: TcpStream, kind: &'static Kind, figures: Arc<Figures>) {
    let many = kind.repeated.repeat(8_192);
    // In one piece, because a server waits for a second only until a body begins.
    let first = [kind.head, &many].concat();
    if stream.read(&mut [0; 1_024]).await.is_ok_and(|read| read > 0)
        && stream.write_all(first.as_bytes()).await.is_ok()
    {
        figures.open.fetch_add(1, Ordering::Relaxed);
        while stream.write_all(many.as_bytes()).await.is_ok() {
            figures.sent_bytes.fetch_add(many.len(), Ordering::Relaxed);
            // The pace of the endpoint is the subject of the test; this is not a wait for a result.
            if figures.is_calm.load(Ordering::Relaxed) {
                SystemClock::new().sleep(Duration::from_millis(100)).await;
            }
        }
        figures.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts an endpoint. Returns its URL.
async fn start_endpoint(kind: &'static Kind, figures: Arc<Figures>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("has an address"));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            tokio::spawn(send_for_ever(stream, kind, figures.clone()));
        }
    });
    url
}

/// Waits until more than this number of bytes was sent.
async fn wait_until_sent(figures: &Figures, bytes: u64) {
    let time_limit = TimeLimit::new();
    while figures.sent_bytes.load(Ordering::Relaxed) as u64 <= bytes {
        time_limit.check(|| figures.sent_bytes.load(Ordering::Relaxed).to_string());
        time_limit.pause().await;
    }
}

/// Adds jobs with a topic for each.
fn add_jobs(server: &Server, prefix: &str, url: &str, timeout: &str, count: usize) {
    let job = |n: usize| {
        let (name, callback) = (format!("{prefix}-{n}"), json!({ "url": url, "timeout": timeout }));
        json!({"topic": name, "id": name, "retry": ["1h"], "callback": callback})
    };
    let jobs: Vec<Value> = (0..count).map(job).collect();
    call(server, "POST", "/batch/jobs", &json!({ "jobs": jobs }), 200);
}

/// Waits until this number of connections sends.
async fn wait_until_open(server: &Server, figures: &Figures, connections: usize) {
    let time_limit = TimeLimit::new();
    while figures.open.load(Ordering::Relaxed) < connections {
        time_limit.check(|| server.call("GET", "/metrics", "").body);
        time_limit.pause().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_answers_at_full_speed_cost_little_memory_and_delay_no_other_call() {
    let home = Home::embedded_in_memory();
    let server = home.start();
    let receiver = Receiver::start(1, |_| Answer::Status(204)).await;
    add(&server, json!({"topic": "first", "id": "first", "callback": {"url": receiver.url(0, "/")}}));
    wait_until_gone(&server, "first").await;
    reset_peak_memory(server.pid());
    let before = memory_bytes(server.pid());
    let (endless, others) = (Arc::<Figures>::default(), Arc::<Figures>::default());
    for kind in &KINDS {
        let timeout = if kind.reason == Some("timeout") { SHORT } else { LONG };
        add_jobs(&server, kind.name, &start_endpoint(kind, others.clone()).await, timeout, CALLS);
    }
    add_jobs(&server, "endless", &start_endpoint(&KINDS[0], endless.clone()).await, LONG, CALLS);
    wait_until_open(&server, &endless, CALLS).await;
    add_jobs(&server, "good", &receiver.url(0, "/"), LONG, GOOD);
    for n in 0..GOOD {
        wait_for_callbacks(&server, &format!("good-{n}"), "ok", 1.0).await;
    }
    assert_eq!(endless.open.load(Ordering::Relaxed), CALLS, "the others have not ended");
    wait_until_sent(&endless, MOST_BYTES).await;
    for figures in [&endless, &others] {
        figures.is_calm.store(true, Ordering::Relaxed);
    }
    for Kind { name, reason, .. } in &KINDS {
        let result = match reason {
            None => "ok",
            Some("timeout" | "bad_answer") => "unreachable",
            Some(_) => "failed",
        };
        for id in (0..CALLS).map(|n| format!("{name}-{n}")) {
            wait_for_callbacks(&server, &id, result, 1.0).await;
            let Some(expected) = reason else {
                wait_until_gone(&server, &id).await;
                continue;
            };
            let job = call(&server, "GET", &format!("/jobs/{id}"), &Value::Null, 200);
            assert!(job["reason"].as_str().is_some_and(|reason| reason.starts_with(expected)), "{job}");
            assert_eq!((&job["state"], &job["attempts"]), (&json!("delayed"), &json!(1)), "{job}");
        }
    }
    let sent = endless.sent_bytes.load(Ordering::Relaxed);
    let cost = peak_memory_bytes(server.pid()).saturating_sub(before);
    println!("{sent} bytes of interim answers, {cost} bytes of memory");
    assert!(cost < MOST_BYTES, "{cost} bytes of memory");
}

/// An endpoint that sends without a pause does not keep the server from its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_ends_calls_to_endpoints_that_send_interim_answers_at_full_speed() {
    let home = Home::embedded_in_memory();
    let mut server = home.start();
    let (kind, figures) = (&KINDS[0], Arc::<Figures>::default());
    let url = start_endpoint(kind, figures.clone()).await;
    add_jobs(&server, "flood", &url, LONG, CALLS);
    wait_until_open(&server, &figures, CALLS).await;
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0.code(), Some(0), "{}", server.log());
    let server = home.start();
    for n in 0..CALLS {
        let job = call(&server, "GET", &format!("/jobs/flood-{n}"), &Value::Null, 200);
        assert_eq!((&job["state"], &job["attempts"]), (&json!("reserved"), &json!(1)), "{job}");
    }
}
