//! Thousands of bad connections at a time while good clients continue: each bad connection is closed in time.
//!
//! `LINGER_PROVE_HOSTILE` sets the number of bad connections of each kind.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use linger::clock::{Clock, SystemClock};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

use super::{count, reserve_open_files};
use crate::harness::{
    client::Client,
    process::Server,
    process_stats,
    socket::{get, post},
    wait::TimeLimit,
};

const GOOD_CLIENTS: usize = 4;
/// Limits how many clients of all kinds connect at the same time: beyond the listener's backlog, the system itself refuses
/// connections, including good ones.
static CONNECTING: Semaphore = Semaphore::const_new(500);
/// After this time, a connection counts as not closed. It is many times what the settings below allow, because machines
/// may be busy.
const LONGEST: Duration = Duration::from_secs(60);
/// Longer than a machine stands still, so that no good client is cut off.
const SETTINGS: [(&str, &str); 4] = [
    ("LINGER__SERVER__HEADER_TIMEOUT", "3s"),
    ("LINGER__SERVER__BODY_TIMEOUT", "3s"),
    ("LINGER__SERVER__WRITE_TIMEOUT", "3s"),
    ("LINGER__SERVER__MAX_CONNECTIONS_PER_ADDRESS", "100000"),
];

/// What a bad client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Silent,
    HeaderDrip,
    SlowBody,
    SlowReader,
    HalfPreface,
}

impl Kind {
    const ALL: [Self; 5] =
        [Self::Silent, Self::HeaderDrip, Self::SlowBody, Self::SlowReader, Self::HalfPreface];

    /// The first bytes that it sends.
    fn first_bytes(self, n: usize) -> Vec<u8> {
        const TLS_HELLO: &[u8] = b"\x16\x03\x01\x00\xf4\x01\x00\x00\xf0\x03\x03";
        const PREFACES: [&[u8]; 6] =
            [b"GE", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"PRI * HT", TLS_HELLO, b"\x16", b"\r\n"];
        match self {
            Self::Silent => Vec::new(),
            Self::HeaderDrip => b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: ".to_vec(),
            Self::SlowBody => {
                let whole = post("/jobs", &format!(r#"{{"topic":"bad","body":"{}"}}"#, "x".repeat(1_000)));
                whole.as_bytes()[..whole.len() - 900].to_vec()
            }
            Self::SlowReader => get("/jobs/large").repeat(40).into_bytes(),
            Self::HalfPreface => PREFACES[n % PREFACES.len()].to_vec(),
        }
    }

    /// The bytes that it sends again and again to appear alive.
    fn repeated_bytes(self) -> Option<&'static [u8]> {
        match self {
            Self::HeaderDrip | Self::SlowBody => Some(b"x"),
            Self::Silent | Self::SlowReader | Self::HalfPreface => None,
        }
    }
}

/// How the server ended a bad connection.
#[derive(Debug)]
struct ClosedConnection {
    after: Duration,
    received: Vec<u8>,
}

/// Behaves badly until the server closes the connection. Returns `None` if the server did not.
async fn run_bad_client(kind: Kind, n: usize, address: SocketAddr) -> Option<ClosedConnection> {
    let clock = SystemClock::new();
    let permit = CONNECTING.acquire().await.expect("is never closed");
    let mut stream = connect(kind, address).await;
    let began_us = clock.now_micros();
    let exchange = async {
        let mut received = Vec::new();
        let opened = stream.write_all(&kind.first_bytes(n)).await;
        drop(permit);
        if opened.is_ok() {
            while next_step(kind, &mut stream, &mut received, &clock).await {}
        }
        received
    };
    let received = tokio::select! {
        received = exchange => received,
        // The time limit for the connection's end.
        () = clock.sleep(LONGEST) => return None,
    };
    let after_us = (clock.now_micros() - began_us).unsigned_abs();
    Some(ClosedConnection { after: Duration::from_micros(after_us), received })
}

async fn connect(kind: Kind, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    if kind == Kind::SlowReader {
        socket.set_recv_buffer_size(4_096).expect("a size");
    }
    socket.connect(address).await.expect("connects")
}

/// Takes one step. Returns false once the connection is closed.
async fn next_step(kind: Kind, stream: &mut TcpStream, received: &mut Vec<u8>, clock: &SystemClock) -> bool {
    // The slowness is what makes the client bad.
    let pause = Duration::from_millis(100);
    if kind == Kind::SlowReader {
        clock.sleep(pause).await;
        return stream.read(&mut [0; 512]).await.is_ok_and(|read| read > 0);
    }
    let mut buffer = [0; 1_024];
    tokio::select! {
        read = stream.read(&mut buffer) => match read {
            Ok(read) if read > 0 => {
                received.extend_from_slice(&buffer[..read]);
                true
            }
            Ok(_) | Err(_) => false,
        },
        () = clock.sleep(pause), if kind.repeated_bytes().is_some() => {
            stream.write_all(kind.repeated_bytes().expect("this kind repeats bytes")).await.is_ok()
        }
    }
}

/// The state and the results of the good clients.
#[derive(Default)]
struct GoodClients {
    over: AtomicBool,
    calls: AtomicUsize,
    slowest_us: AtomicUsize,
}

/// Adds, pops and finishes until the attack is over. Every request must succeed.
async fn run_good_client(number: usize, address: SocketAddr, good: Arc<GoodClients>) {
    let (mut client, clock) = (Client::new(address), SystemClock::new());
    let topic = format!("good-{number}");
    let mut id = String::new();
    let mut receipt = String::new();
    for step in 0.. {
        if step % 3 == 0 && good.over.load(Ordering::Relaxed) {
            return;
        }
        let began_us = clock.now_micros();
        let (answer, expected) = match step % 3 {
            0 => (client.post("/jobs", &json!({ "topic": topic })).await, 201),
            1 => (client.get(&format!("/topics/{topic}/pop?wait=10s")).await, 200),
            _ => {
                let path = format!("/jobs/{id}/finish?receipt={receipt}");
                (client.send(hyper::Method::POST, &path, None).await, 204)
            }
        };
        let answer = answer.expect("a good client is answered");
        assert_eq!(answer.status, expected, "{answer:?}");
        if expected == 200 {
            (id, receipt) = (answer.text("id"), answer.text("receipt"));
        }
        let took_us = usize::try_from(clock.now_micros() - began_us).expect("the clock advances");
        good.slowest_us.fetch_max(took_us, Ordering::Relaxed);
        good.calls.fetch_add(1, Ordering::Relaxed);
        // A pause, because thousands of other clients run on the same machine, and this is no load test.
        clock.sleep(Duration::from_millis(5)).await;
    }
}

/// Runs bad clients of `kind`. Returns how long the last one stayed connected, and the faults found.
async fn attack(kind: Kind, clients: usize, address: SocketAddr) -> (Duration, Vec<String>) {
    let mut bad = JoinSet::new();
    for n in 0..clients {
        bad.spawn(run_bad_client(kind, n, address));
    }
    let (mut slowest, mut wrong) = (Duration::ZERO, Vec::new());
    while let Some(ended) = bad.join_next().await {
        let Some(closed) = ended.expect("does not panic") else {
            wrong.push(format!("{kind:?}: not closed within {LONGEST:?}"));
            continue;
        };
        slowest = slowest.max(closed.after);
        let received = String::from_utf8_lossy(&closed.received);
        let right = match kind {
            Kind::Silent | Kind::HeaderDrip => received.is_empty(),
            // A reset may overtake the response to a client that still sends.
            Kind::SlowBody => received.is_empty() || received.starts_with("HTTP/1.1 408 "),
            Kind::HalfPreface => received.is_empty() || received.starts_with("HTTP/1.1 400 "),
            Kind::SlowReader => true,
        };
        if !right {
            wrong.push(format!("{kind:?} received {received:?}"));
        }
    }
    (slowest, wrong)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_connections_are_closed_in_time_while_good_ones_are_served() {
    let clients = count("LINGER_PROVE_HOSTILE", 200);
    let _turn = reserve_open_files(clients * Kind::ALL.len()).await;
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &SETTINGS, directory.path());
    let address = server.address;
    let large = json!({ "topic": "large", "id": "large", "body": "x".repeat(250_000) });
    assert_eq!(Client::new(address).post("/jobs", &large).await.expect("answers").status, 201);
    let memory_before = process_stats::memory_bytes(server.pid());
    let (good, mut workers) = (Arc::new(GoodClients::default()), JoinSet::new());
    for number in 0..GOOD_CLIENTS {
        workers.spawn(run_good_client(number, address, good.clone()));
    }
    let mut attacks = JoinSet::new();
    for kind in Kind::ALL {
        attacks.spawn(async move { (kind, attack(kind, clients, address).await) });
    }
    let (mut wrong, mut slowest) = (Vec::new(), String::new());
    while let Some(ended) = attacks.join_next().await {
        let (kind, (longest, faults)) = ended.expect("does not panic");
        wrong.extend(faults);
        slowest += &format!(", {kind:?}_closed_within_ms={}", longest.as_millis());
    }
    good.over.store(true, Ordering::Relaxed);
    while let Some(ended) = workers.join_next().await {
        ended.expect("good clients are served");
    }
    let calls = good.calls.load(Ordering::Relaxed);
    println!(
        "proof: what=hostile_connections, runs={}, clients={}, violations={}, good_calls={calls}, good_slowest_ms={}, memory_mib={}{slowest}",
        clients * Kind::ALL.len(),
        clients * Kind::ALL.len(),
        wrong.len(),
        good.slowest_us.load(Ordering::Relaxed) / 1_000,
        (process_stats::memory_bytes(server.pid()).saturating_sub(memory_before)) >> 20,
    );
    assert!(wrong.is_empty(), "{} faults: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    assert!(calls > 0);
    assert_every_connection_was_cut(&server, clients).await;
    assert_eq!(server.stop().code(), Some(0));
}

/// Asserts that each kind was cut for its own reason, and that no connection or buffer is left.
async fn assert_every_connection_was_cut(server: &Server, clients: usize) {
    let time_limit = TimeLimit::new();
    while server.metric("linger_http_connections") != Some(1.0) {
        time_limit.check(|| format!("{:?} connections", server.metric("linger_http_connections")));
        time_limit.pause().await;
    }
    let cut = |reason: &str| {
        let name = format!("linger_http_connections_cut_total{{reason=\"{reason}\"}}");
        server.metric(&name).expect("is counted")
    };
    let clients = clients as f64;
    let [silent, bodies, readers, heads] =
        [cut("first_byte"), cut("body"), cut("answer"), cut("head") + cut("malformed")];
    assert_eq!(silent + bodies + readers + heads, clients * 5.0, "each bad connection was cut once");
    assert_eq!(cut("idle") + cut("head_too_large"), 0.0);
    // On a busy machine, some clients send their first byte too late and count as silent.
    assert!((clients..clients * 1.5).contains(&silent), "silent: {silent}");
    assert!((clients * 0.5..=clients).contains(&bodies), "slow bodies: {bodies}");
    assert!((clients * 0.5..=clients).contains(&readers), "slow readers: {readers}");
    assert!((clients..=clients * 2.0).contains(&heads), "header drips and half prefaces: {heads}");
    assert_eq!(server.metric("linger_http_buffered_bytes"), Some(0.0));
}
