//! An endpoint for callbacks: a small HTTP server that records every call with the times of its arrival and of its answer,
//! and answers as the test wants. It is well-behaved and keeps connections open; it knows nothing of jobs but the headers.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant, SystemTime},
};

use axum::http::HeaderMap;
use base64::{Engine, engine::general_purpose::STANDARD};
use linger::job::Timestamp;
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::wait::TimeLimit;

/// How a call is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// This status; one that redirects names [`REDIRECTED`].
    Status(u16),
    /// This status, with a body.
    Body(u16, &'static str),
    /// This status once [`Receiver::open_gate`] is called.
    WhenOpen(u16),
    /// 204 with `linger-hold`: the endpoint finishes the job later.
    Hold(Duration),
    /// 500 with `linger-retry`, the delay of the next attempt.
    RetryIn(Duration),
    /// 500 with `linger-retry: no`.
    NoRetry,
    /// No answer; the connection stays open.
    Silence,
    /// No answer; the connection is closed.
    Close,
}

/// Where redirections lead to.
pub const REDIRECTED: &str = "/redirected";

impl Answer {
    /// The status and the headers, or `None` for no answer.
    fn head(self) -> Option<(u16, String)> {
        match self {
            Self::Status(status @ 300..400) => Some((status, format!("location: {REDIRECTED}\r\n"))),
            Self::Status(status) | Self::Body(status, _) | Self::WhenOpen(status) => {
                Some((status, String::new()))
            }
            Self::Hold(time) => Some((204, format!("linger-hold: {}ms\r\n", time.as_millis()))),
            Self::RetryIn(delay) => Some((500, format!("linger-retry: {}ms\r\n", delay.as_millis()))),
            Self::NoRetry => Some((500, "linger-retry: no\r\n".to_owned())),
            Self::Silence | Self::Close => None,
        }
    }

    fn body(self) -> &'static str {
        if let Self::Body(_, body) = self { body } else { "" }
    }
}

/// A call as it arrived.
#[derive(Debug, Clone)]
pub struct Call {
    /// The index of the port that was called.
    pub port: usize,
    pub method: String,
    pub target: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// When the whole request had arrived.
    pub arrived: Instant,
    /// The earliest time at which the attempt may have begun: `webhook-timestamp`, which has whole seconds.
    pub began: Instant,
    /// The due time of the job by this machine's wall clock, from `linger-due`.
    pub due: Instant,
    /// How it is answered, since when, and when the answer was written entirely, or the connection closed.
    pub answer: Answer,
    pub answering: Option<Instant>,
    pub answered: Option<Instant>,
}

impl Call {
    /// A header; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("visible ASCII"))
    }

    pub fn job(&self) -> &str {
        self.header("linger-job")
    }

    pub fn receipt(&self) -> &str {
        self.header("linger-receipt")
    }

    pub fn attempt(&self) -> u32 {
        self.header("linger-attempt").parse().expect("a call has its attempt")
    }

    /// Whether one of the signatures is that of `key`.
    pub fn is_signed_by(&self, key: &[u8]) -> bool {
        let signed = format!("{}.{}.", self.header("webhook-id"), self.header("webhook-timestamp"));
        let expected = STANDARD.encode(hmac(key, &[signed.as_bytes(), &self.body].concat()));
        self.header("webhook-signature").split(' ').any(|signature| signature == format!("v1,{expected}"))
    }
}

/// HMAC-SHA256 by RFC 2104, written here so that it does not depend on the code under test.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    assert!(key.len() <= 64, "longer keys would have to be hashed");
    let padded = |with: u8| -> Vec<u8> {
        (0..64).map(|index| key.get(index).copied().unwrap_or_default() ^ with).collect()
    };
    let inner = Sha256::digest([&padded(0x36), message].concat());
    Sha256::digest([padded(0x5c), inner.to_vec()].concat()).to_vec()
}

/// A running receiver, which ends with the runtime. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Receiver {
    addresses: Vec<SocketAddr>,
    calls: Arc<Mutex<Vec<Call>>>,
    gate: Arc<watch::Sender<bool>>,
}

impl Receiver {
    /// Starts a receiver with this number of ports. The server takes each for an endpoint of its own.
    pub async fn start(ports: usize, policy: impl Fn(&Call) -> Answer + Send + Sync + 'static) -> Self {
        let policy: Arc<Policy> = Arc::new(policy);
        let (calls, gate) = (Arc::default(), Arc::new(watch::Sender::new(false)));
        let mut receiver = Self { addresses: Vec::new(), calls, gate };
        let mut listeners = Vec::new();
        for _ in 0..ports {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            receiver.addresses.push(listener.local_addr().expect("has an address"));
            listeners.push(listener);
        }
        for (port, listener) in listeners.into_iter().enumerate() {
            let (receiver, policy) = (receiver.clone(), policy.clone());
            tokio::spawn(async move {
                loop {
                    let (stream, _) = listener.accept().await.expect("a connection");
                    stream.set_nodelay(true).expect("a TCP socket");
                    tokio::spawn(
                        receiver
                            .clone()
                            .serve(Connection { stream, unread: Vec::new(), port }, policy.clone()),
                    );
                }
            });
        }
        receiver
    }

    /// The URL of a path on a port.
    pub fn url(&self, port: usize, path: &str) -> String {
        format!("http://{}{path}", self.addresses[port])
    }

    /// All calls so far, by their arrival.
    pub fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().expect("not poisoned")
    }

    /// The calls of one job so far.
    pub fn calls_of(&self, job: &str) -> Vec<Call> {
        self.calls().iter().filter(|call| call.job() == job).cloned().collect()
    }

    /// Waits until this number of calls of a job has arrived, and returns them.
    #[track_caller]
    pub fn wait_for_calls_of(&self, job: &str, calls: usize) -> impl Future<Output = Vec<Call>> {
        let time_limit = TimeLimit::new();
        async move {
            loop {
                let arrived = self.calls_of(job);
                if arrived.len() >= calls {
                    return arrived;
                }
                time_limit.check(|| format!("{} of {calls} calls of {job}", arrived.len()));
                time_limit.pause().await;
            }
        }
    }

    /// Lets every call be answered that waits for the gate, now or later.
    pub fn open_gate(&self) {
        self.gate.send_replace(true);
    }

    async fn serve(self, mut connection: Connection, policy: Arc<Policy>) {
        while let Some(mut call) = connection.read_call().await {
            call.answer = policy(&call);
            let index = {
                let mut calls = self.calls();
                calls.push(call.clone());
                calls.len() - 1
            };
            if matches!(call.answer, Answer::WhenOpen(_)) {
                let mut gate = self.gate.subscribe();
                gate.wait_for(|open| *open).await.expect("the receiver has the sender");
            }
            let Some((status, headers)) = call.answer.head() else {
                if call.answer == Answer::Silence {
                    connection.wait_for_end().await;
                }
                drop(connection);
                self.calls()[index].answered = Some(now());
                return;
            };
            self.calls()[index].answering = Some(now());
            let (body, len) = (call.answer.body(), call.answer.body().len());
            let answer = format!("HTTP/1.1 {status} Answer\r\n{headers}content-length: {len}\r\n\r\n{body}");
            if connection.stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
            self.calls()[index].answered = Some(now());
        }
    }
}

type Policy = dyn Fn(&Call) -> Answer + Send + Sync;

struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
    port: usize,
}

impl Connection {
    /// Reads a request; `None` at the end of the connection.
    async fn read_call(&mut self) -> Option<Call> {
        let head_len = loop {
            if let Some(index) = self.unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break index + 4;
            }
            self.read_more().await?;
        };
        let head = String::from_utf8(self.unread.drain(..head_len).collect()).expect("a head is text");
        let mut lines = head.lines();
        let mut words = lines.next().expect("a request line").split(' ').map(str::to_owned);
        let (method, target) = (words.next().expect("a method"), words.next().expect("a target"));
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers: HeaderMap = headers
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .map(|header: (axum::http::HeaderName, _)| header)
            .collect();
        let body_len = headers
            .get("content-length")
            .map_or(0, |len| len.to_str().expect("text").parse::<usize>().expect("a number"));
        while self.unread.len() < body_len {
            self.read_more().await?;
        }
        let body = self.unread.drain(..body_len).collect();
        Some(Call::new(self.port, method, target, headers, body))
    }

    async fn read_more(&mut self) -> Option<()> {
        let read = self.stream.read_buf(&mut self.unread).await;
        read.is_ok_and(|read| read > 0).then_some(())
    }

    /// Waits until the other side closes the connection.
    async fn wait_for_end(&mut self) {
        while self.read_more().await.is_some() {}
    }
}

impl Call {
    fn new(port: usize, method: String, target: String, headers: HeaderMap, body: Vec<u8>) -> Self {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().expect("visible ASCII"));
        let began = text("webhook-timestamp").and_then(|seconds| seconds.parse().ok()).unwrap_or_default();
        let due = text("linger-due").map(|due| Timestamp::parse(due).expect("a timestamp").as_millis());
        let (began, due) = (Duration::from_secs(began), due.unwrap_or_default().unsigned_abs());
        let (now, wall) = (now(), wall_clock());
        let instant_of = |unix: Duration| {
            let past = now.checked_sub(wall.saturating_sub(unix)).unwrap_or(now);
            past + unix.saturating_sub(wall)
        };
        Self {
            port,
            method,
            target,
            body,
            arrived: now,
            began: instant_of(began),
            due: instant_of(Duration::from_millis(due)),
            answer: Answer::Silence,
            answering: None,
            answered: None,
            headers,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "endpoints run in real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "endpoints run in real time")]
fn wall_clock() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
