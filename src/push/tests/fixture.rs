//! A caller with the default settings, and what it calls.

use std::{
    collections::VecDeque,
    io,
    net::IpAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use hyper::HeaderMap;
use tokio::sync::Semaphore;

use super::receiver::{Peer, Receiver, soon};
use crate::{
    clock::ManualClock,
    config::CallbackSettings,
    job::{AddressPolicy, CallMethod, Callback, CallbackUrl, Origin, Timestamp},
    push::{Answer, CallFailure, Caller, Request, Resolver},
};

/// An answer without a body, after which the connection can be used again.
pub const NO_CONTENT: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

pub type Called = Result<Answer, CallFailure>;

/// A caller on a clock that stands still, and an endpoint.
pub struct Fixture {
    pub clock: Arc<ManualClock>,
    pub caller: Caller,
    pub receiver: Receiver,
    pub resolver: Arc<FakeResolver>,
}

impl Fixture {
    /// With the default settings.
    pub async fn new() -> Self {
        Self::with(CallbackSettings::default()).await
    }

    pub async fn with(settings: CallbackSettings) -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
        let resolver = Arc::new(FakeResolver::default());
        let caller = Caller::new(settings, clock.clone(), resolver.clone()).expect("valid settings");
        Self { clock, caller, receiver: Receiver::new().await, resolver }
    }

    pub fn request(&self) -> Request {
        self.request_to("http://127.0.0.1")
    }

    /// A request to the port of the endpoint.
    pub fn request_to(&self, host: &str) -> Request {
        request(&format!("{host}:{}/hook", self.receiver.port()))
    }

    /// Calls the endpoint, which does `answering` meanwhile.
    pub async fn call<T>(&self, answering: impl Future<Output = T>) -> (Called, T) {
        soon(async { tokio::join!(self.caller.call(self.request()), answering) }).await
    }

    /// Calls the endpoint, which answers with these bytes.
    pub async fn call_answered(&self, answer: &[u8]) -> (Called, Peer<tokio::net::TcpStream>) {
        self.call(self.receiver.answer(answer)).await
    }

    /// Calls the endpoint, which does `answering` until the call has ended.
    pub async fn call_during(&self, answering: impl Future<Output = ()>) -> Called {
        soon(async {
            tokio::select! {
                called = self.caller.call(self.request()) => called,
                () = async { answering.await; std::future::pending().await } => unreachable!("never ends"),
            }
        })
        .await
    }
}

/// A POST with the default timeout.
pub fn request(url: &str) -> Request {
    let url = CallbackUrl::parse(url).expect("a URL");
    let origin: &Origin = url.origin();
    let body = Bytes::from_static(b"{\"order\":1001}");
    let mut headers = HeaderMap::new();
    headers.insert("host", origin.authority().parse().expect("a value"));
    headers.insert("content-length", body.len().into());
    Request {
        origin: origin.clone(),
        target: url.target().to_owned(),
        method: CallMethod::Post,
        headers,
        body,
        timeout: Callback::DEFAULT_TIMEOUT,
    }
}

pub fn networks(allowed: &[&str]) -> AddressPolicy {
    let ranges: Vec<_> = allowed.iter().map(|text| text.parse().expect("a range")).collect();
    AddressPolicy::new(&ranges, &[])
}

pub fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().expect("an address")).collect()
}

/// A resolver that gives one list of addresses after the other, and counts. Names that begin with `hang` are never found.
pub struct FakeResolver {
    lists: Mutex<VecDeque<io::Result<Vec<IpAddr>>>>,
    /// Each lookup needs a permit.
    gate: Semaphore,
    pub lookups: AtomicUsize,
    pub running: AtomicUsize,
}

impl Default for FakeResolver {
    fn default() -> Self {
        Self {
            lists: Mutex::default(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            lookups: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
        }
    }
}

impl FakeResolver {
    pub fn push(&self, list: io::Result<Vec<IpAddr>>) {
        self.lists.lock().expect("no test panics here").push_back(list);
    }

    /// From now on lookups wait.
    pub fn close_gate(&self) {
        self.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub fn open_gate(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS / 2);
    }

    pub fn lookups(&self) -> usize {
        self.lookups.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Resolver for FakeResolver {
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        self.running.fetch_add(1, Ordering::Relaxed);
        if name.starts_with("hang") {
            std::future::pending::<()>().await;
        }
        let permit = self.gate.acquire().await.expect("is never closed");
        permit.forget();
        self.running.fetch_sub(1, Ordering::Relaxed);
        let next = self.lists.lock().expect("no test panics here").pop_front();
        next.unwrap_or_else(|| Ok(addresses(&["127.0.0.1"])))
    }
}

/// Lets all other tasks of this thread go on until they wait.
pub async fn let_others_run() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Older than any connection gets.
pub const LONG_AGE: Duration = Duration::from_secs(56);
