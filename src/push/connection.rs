//! One HTTP/1.1 connection and the exchanges over it, one at a time. Never sends anything twice.
//!
//! The call that waits for an answer drives the connection, so no task belongs to it, and dropping the call closes it.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Body, Incoming},
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::failure::CallFailure;

/// The bytes of a connection, plain or by TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A request as hyper sends it.
pub(super) type Message = Request<Full<Bytes>>;

pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Carries the bytes; `None` once the connection has ended.
    driver: Option<Driver>,
    /// When it was opened, in microseconds.
    opened_us: i64,
}

type Driver = Box<http1::Connection<TokioIo<Box<dyn Stream>>, Full<Bytes>>>;

impl Connection {
    /// Largest head of an answer, in bytes. An answer has at most 100 headers, which is hyper's default.
    const MAX_HEAD: usize = 16 * 1_024;

    pub async fn new(stream: Box<dyn Stream>, opened_us: i64) -> Result<Self, CallFailure> {
        let mut options = http1::Builder::new();
        // The first limit ends a head that is not complete yet.
        options.max_buf_size(Self::MAX_HEAD).max_header_size(Self::MAX_HEAD);
        let opened = options.handshake(TokioIo::new(stream)).await;
        let (sender, driver) = opened.map_err(|error| failure(&error))?;
        Ok(Self { sender, driver: Some(Box::new(driver)), opened_us })
    }

    /// When it was opened, in microseconds.
    pub fn opened_us(&self) -> i64 {
        self.opened_us
    }

    /// Sends a request and waits for the head of the answer. After an error the connection is of no more use.
    pub async fn exchange(&mut self, message: Message) -> Result<Response<Incoming>, CallFailure> {
        let mut answer = pin!(self.sender.try_send_request(message));
        let answer = poll_fn(|cx| {
            drive(&mut self.driver, cx);
            answer.as_mut().poll(cx)
        });
        answer.await.map_err(|error| failure(error.error()))
    }

    /// The next bytes of the answer's body, or `None` at its end or when it cannot be read.
    pub async fn next_bytes(&mut self, body: &mut Incoming) -> Option<Bytes> {
        loop {
            let frame = poll_fn(|cx| {
                drive(&mut self.driver, cx);
                Pin::new(&mut *body).poll_frame(cx)
            });
            // Trailers are skipped.
            match frame.await?.ok()?.into_data() {
                Ok(bytes) => return Some(bytes),
                Err(_) => continue,
            }
        }
    }

    /// Whether another request can be sent: the last answer was read to its end, and the peer has neither closed the
    /// connection nor sent anything else.
    pub fn is_idle(&mut self) -> bool {
        // This waker also takes the place of the one of the last exchange, whose task would stay in memory.
        drive(&mut self.driver, &mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready()
    }
}

/// Lets the connection read and write until it would have to wait.
fn drive(driver: &mut Option<Driver>, cx: &mut Context<'_>) {
    let ended = driver.as_mut().map(|driver| Pin::new(&mut **driver).poll(cx));
    if let Some(Poll::Ready(_)) = ended {
        // The exchange in progress gets the error as well, at the latest now.
        *driver = None;
    }
}

fn failure(error: &hyper::Error) -> CallFailure {
    if error.is_parse() {
        return CallFailure::BadAnswer(error.to_string());
    }
    CallFailure::Reset
}
