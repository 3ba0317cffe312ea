//! One keep-alive connection to the server: one request at a time, each with a bound. What is said over it
//! is `calls`' business.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request,
    client::conn::http1::{SendRequest, handshake},
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tokio_util::task::AbortOnDropHandle;

use super::Failure;
use crate::clock::Clock;

/// Longer than any call should take, beside what it waits for by its own wish.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);

/// The server that is driven.
#[derive(Debug)]
pub(super) struct Peer {
    address: SocketAddr,
    host: HeaderValue,
    bearer: Option<HeaderValue>,
    clock: Arc<dyn Clock>,
}

impl Peer {
    /// Finds the server at `authority`, a host and a port.
    pub async fn find(
        authority: &str,
        token: Option<&str>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, Failure> {
        let unfit = |error: &dyn std::fmt::Display| Failure::Unfit(format!("{authority}: {error}"));
        let found: Vec<_> = lookup_host(authority).await.map_err(|error| unfit(&error))?.collect();
        let mut reached = Err(unfit(&"has no address"));
        for address in found {
            // The first that can be reached, for good: a name that moves on would mix the figures of servers.
            reached = connect(address, clock.as_ref()).await.map(|_| address).map_err(Failure::Unfit);
            if reached.is_ok() {
                break;
            }
        }
        let address = reached?;
        let host = HeaderValue::from_str(authority).map_err(|error| unfit(&error))?;
        let bearer = token.map(|token| HeaderValue::from_str(&format!("Bearer {token}"))).transpose();
        let bearer = bearer.map_err(|_| Failure::Unfit("the token holds what no header can".to_owned()))?;
        Ok(Arc::new(Self { address, host, bearer, clock }))
    }
}

/// What is asked.
#[derive(Debug)]
pub(super) struct Call {
    /// Its name for people.
    pub name: &'static str,
    pub method: Method,
    pub path: String,
    /// JSON, or empty.
    pub body: Bytes,
    /// How long the server may take by our own wish.
    pub wait: Duration,
}

/// What was answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub call: &'static str,
    pub status: u16,
    pub body: Bytes,
}

/// One connection; made when it is first needed, and again when the server closed it between two calls.
#[derive(Debug)]
pub(super) struct Connection {
    peer: Arc<Peer>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    sender: SendRequest<Full<Bytes>>,
    /// Carries the bytes; ends with the connection.
    _driver: AbortOnDropHandle<()>,
}

impl Connection {
    pub fn new(peer: &Arc<Peer>) -> Self {
        Self { peer: peer.clone(), open: None }
    }

    /// Connects, so that the first call need not.
    pub async fn open(&mut self) -> Result<(), Failure> {
        let opening = self.reopen();
        opening.await.map_err(|error| Failure::Broken { call: "connect", error })
    }

    /// Sends one call and reads the whole answer. Never sends again by itself: a bench that repeats calls
    /// measures something else.
    pub async fn call(&mut self, call: Call) -> Result<Answer, Failure> {
        let (name, limit, clock) = (call.name, PATIENCE + call.wait, self.peer.clock.clone());
        let answer = tokio::select! {
            answer = self.exchange(call) => answer.map_err(|error| Failure::Broken { call: name, error }),
            () = clock.sleep(limit) => Err(Failure::Silent { call: name, limit }),
        };
        if answer.is_err() {
            self.open = None;
        }
        answer
    }

    async fn exchange(&mut self, call: Call) -> Result<Answer, String> {
        let mut request = Request::builder().method(call.method).uri(call.path);
        request = request.header(HOST, &self.peer.host);
        if let Some(bearer) = &self.peer.bearer {
            request = request.header(AUTHORIZATION, bearer);
        }
        if !call.body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(call.body)).map_err(|error| error.to_string())?;
        if self.open.as_ref().is_none_or(|open| open.sender.is_closed()) {
            self.reopen().await?;
        }
        let open = self.open.as_mut().ok_or("is not connected")?;
        open.sender.ready().await.map_err(|error| said(&error))?;
        let response = open.sender.send_request(request).await.map_err(|error| said(&error))?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(|error| said(&error))?.to_bytes();
        Ok(Answer { call: call.name, status: head.status.as_u16(), body })
    }

    async fn reopen(&mut self) -> Result<(), String> {
        let stream = connect(self.peer.address, self.peer.clock.as_ref()).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| said(&error))?;
        let driver = tokio::spawn(async move {
            // Whoever waits for an answer is told by the sender.
            let _ = connection.await;
        });
        self.open = Some(Open { sender, _driver: AbortOnDropHandle::new(driver) });
        Ok(())
    }
}

async fn connect(address: SocketAddr, clock: &dyn Clock) -> Result<TcpStream, String> {
    let connected = tokio::select! {
        connected = TcpStream::connect(address) => connected,
        () = clock.sleep(CONNECT) => return Err(format!("{address}: not connected within {CONNECT:?}")),
    };
    let nodelay = connected.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
    nodelay.map_err(|error| format!("{address}: {error}"))
}

/// An error of hyper's with its cause, which alone says what happened.
fn said(error: &hyper::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}
