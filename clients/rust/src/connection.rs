//! One keep-alive connection: opening it, and one exchange at a time over it. Never sends anything twice.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, IF_MATCH},
};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::{net::TcpStream, task::JoinHandle, time::timeout};
use tokio_rustls::{TlsConnector, rustls};

use crate::{
    error::Error,
    request::{Request, Response},
    stream::Stream,
    tls,
    url::ServerUrl,
};

/// The server that a client calls, and how.
pub(crate) struct Target {
    pub url: ServerUrl,
    /// Connects here in place of wherever the name leads.
    pub address: Option<SocketAddr>,
    pub host: HeaderValue,
    pub bearer: Option<HeaderValue>,
    pub tls: Option<Arc<rustls::ClientConfig>>,
    pub connect_timeout: Duration,
}

/// An open connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Carries the bytes.
    driver: JoinHandle<()>,
    /// Whether the server answered plain HTTP with a TLS alert.
    speaks_tls: Arc<AtomicBool>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Closes the connection at once, so that the server notices when a long poll is given up.
        self.driver.abort();
    }
}

impl Connection {
    /// Connects to the server on behalf of `call`.
    pub async fn open(target: &Target, call: &'static str) -> Result<Self, Error> {
        let limit = target.connect_timeout;
        let opened = timeout(limit, open(target, call)).await;
        opened.unwrap_or_else(|_| Err(not_connected(call, format!("not connected within {limit:?}"), false)))
    }

    /// Whether the server has closed it.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a request and reads the whole answer. `was_sent` is set as soon as the server may have seen it.
    pub async fn exchange(
        &mut self,
        target: &Target,
        request: &Request,
        was_sent: &mut bool,
    ) -> Result<Response, Error> {
        let call = request.name;
        let message = message(target, request)?;
        let ready = self.sender.ready().await;
        ready.map_err(|error| not_connected(call, describe(&error), false))?;
        *was_sent = true;
        let response = match self.sender.try_send_request(message).await {
            Ok(response) => response,
            Err(mut error) => {
                // hyper gives a message back that it has not begun to send.
                if error.take_message().is_some() {
                    *was_sent = false;
                    return Err(not_connected(call, describe(error.error()), false));
                }
                return Err(self.failure(call, error.error()));
            }
        };
        self.read(call, response).await
    }

    async fn read(&self, call: &'static str, response: hyper::Response<Incoming>) -> Result<Response, Error> {
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(|error| self.failure(call, &error))?.to_bytes();
        Ok(Response { call, status: head.status.as_u16(), headers: head.headers, body })
    }

    fn failure(&self, call: &'static str, error: &hyper::Error) -> Error {
        if self.speaks_tls.load(Ordering::Relaxed) {
            return Error::WrongScheme { call, server_speaks_tls: true };
        }
        if error.is_parse() {
            return Error::Unreadable { call, reason: "it is not HTTP".to_owned() };
        }
        Error::Cut { call, reason: describe(error) }
    }
}

async fn open(target: &Target, call: &'static str) -> Result<Connection, Error> {
    let failed = |error: &dyn std::fmt::Display| not_connected(call, error.to_string(), false);
    let connected = match target.address {
        Some(address) => TcpStream::connect(address).await,
        None => TcpStream::connect(target.url.authority()).await,
    };
    let stream = connected.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
    let stream = stream.map_err(|error| failed(&error))?;
    let speaks_tls = Arc::new(AtomicBool::new(false));
    let stream = match &target.tls {
        None => Stream::Plain { stream, is_answered: false, speaks_tls: speaks_tls.clone() },
        Some(config) => {
            let host = target.url.host().to_owned();
            let name = ServerName::try_from(host).map_err(|error| failed(&error))?;
            let connected = TlsConnector::from(config.clone()).connect(name, stream).await;
            Stream::Tls(Box::new(connected.map_err(|error| tls_failure(call, &error))?))
        }
    };
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
    let driver = tokio::spawn(async move {
        // Errors reach the exchange in progress through the sender.
        let _ = connection.await;
    });
    Ok(Connection { sender, driver, speaks_tls })
}

fn tls_failure(call: &'static str, error: &std::io::Error) -> Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    // The first bytes of the answer are no TLS record.
    if matches!(cause, Some(rustls::Error::InvalidMessage(_))) {
        return Error::WrongScheme { call, server_speaks_tls: false };
    }
    if let Some(refused) = cause.and_then(|cause| tls::refused_certificate(call, cause)) {
        return refused;
    }
    not_connected(call, error.to_string(), cause.is_some())
}

fn not_connected(call: &'static str, reason: String, is_permanent: bool) -> Error {
    Error::NotConnected { call, reason, is_permanent }
}

fn message(target: &Target, request: &Request) -> Result<hyper::Request<Full<Bytes>>, Error> {
    let mut message = hyper::Request::builder().method(request.method.clone()).uri(&request.path);
    message = message.header(HOST, &target.host);
    if let Some(bearer) = &target.bearer {
        message = message.header(AUTHORIZATION, bearer);
    }
    if !request.body.is_empty() {
        message = message.header(CONTENT_TYPE, "application/json");
    }
    if let Some(revision) = request.if_revision {
        message = message.header(IF_MATCH, format!("\"{revision}\""));
    }
    let message = message.body(Full::new(request.body.clone()));
    message.map_err(|error| not_connected(request.name, error.to_string(), true))
}

/// An error of hyper's with its cause, which alone says what happened.
fn describe(error: &hyper::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}
