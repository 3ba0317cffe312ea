//! The API behind a real socket, and a client that writes every byte itself.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use linger::{
    clock::SystemClock,
    http::{self, App, Edge, HttpOptions},
    metrics::Metrics,
    net::{self, ListenerOptions, ServedSocket, Transport},
    queue::{Limits, Queue, StoreEvents},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    naive::Naive,
    wait::{bounded, until},
};

/// A server on a free port of the loopback. It uses the naive model, because these tests are about connections, and the
/// system's clock, because the server's own timeouts are under test.
pub struct Server {
    pub address: SocketAddr,
    pub queue: Arc<Queue>,
    pub metrics: Metrics,
    pub stop: CancellationToken,
    pub task: JoinHandle<()>,
}

/// The options of a server. Options of one kind convert into these, with defaults for the other kind.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    pub http: HttpOptions,
    pub listener: ListenerOptions,
}

impl From<HttpOptions> for ServerOptions {
    fn from(http: HttpOptions) -> Self {
        Self { http, ..Self::default() }
    }
}

impl From<ListenerOptions> for ServerOptions {
    fn from(listener: ListenerOptions) -> Self {
        Self { listener, ..Self::default() }
    }
}

impl Server {
    pub async fn start(options: impl Into<ServerOptions>) -> Self {
        let options = options.into();
        let clock = Arc::new(SystemClock::new());
        let (hints, metrics, stop) =
            (Arc::new(StoreEvents::default()), Metrics::new(), CancellationToken::new());
        let store = Naive::new(clock.clone(), hints.clone(), None);
        let queue = Queue::new(store, &hints, clock.clone(), Limits::default(), metrics.queue.clone());
        tokio::spawn({
            let (queue, stop) = (queue.clone(), stop.clone());
            async move { queue.run_timer(stop).await }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("has an address");
        let transport = Transport::new(options.listener, clock.clone(), &metrics);
        let app = App::new(queue.clone(), Edge::new(clock, metrics.clone(), options.http));
        let socket = ServedSocket { listener, protocol: http::protocol(&app), tls: None };
        let task = tokio::spawn(net::serve(transport, socket, stop.clone()));
        Self { address, queue, metrics, stop, task }
    }

    pub async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Opens a connection, starts a long poll on it, and returns once the poll is parked.
    pub async fn park(&self, topic: &str) -> Client {
        let before = self.queue.waiting();
        let mut client = self.connect().await;
        client.send(&get(&format!("/topics/{topic}/pop?wait=50s"))).await;
        until(|| self.queue.waiting() > before).await;
        client
    }

    /// The number of open connections according to the metrics.
    pub fn connections(&self) -> usize {
        self.metric("linger_http_connections")
    }

    /// The present value of a metric.
    pub fn metric(&self, name: &str) -> usize {
        let metrics = self.metrics.encode();
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("there is no metric {name}")).parse().expect("a number")
    }

    /// The number of connections that the server cut for this reason.
    pub fn connections_cut(&self, reason: &str) -> usize {
        self.metric(&format!("linger_http_connections_cut_total{{reason=\"{reason}\"}}"))
    }

    /// Shuts down as the program does; returns once every connection has ended.
    pub async fn shut_down(self) {
        self.queue.drain();
        self.stop.cancel();
        self.task.await.expect("the server ends");
    }
}

/// The bytes of a GET request.
pub fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// The bytes of a POST request with a JSON body.
pub fn post(target: &str, json: &str) -> String {
    let len = json.len();
    format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n\r\n{json}"
    )
}

/// One connection.
pub struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// A response that was read to its end.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Response {
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    pub fn code(&self) -> String {
        self.json()["code"].as_str().expect("a problem has a code").to_owned()
    }
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        Self::from_stream(TcpStream::connect(address).await.expect("connects"))
    }

    /// Opens a connection from this address.
    pub async fn connect_from(local: IpAddr, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((local, 0).into()).expect("an address of this machine");
        Self::from_stream(socket.connect(address).await.expect("connects"))
    }

    /// Uses a connection that is already open.
    pub fn from_stream(stream: TcpStream) -> Self {
        Self { stream, unread: Vec::new() }
    }

    /// Sends these bytes.
    pub async fn send(&mut self, bytes: &str) {
        self.try_send(bytes).await.expect("sends");
    }

    pub async fn try_send(&mut self, bytes: &str) -> std::io::Result<()> {
        self.stream.write_all(bytes.as_bytes()).await
    }

    /// Sends a request and reads its response.
    pub async fn call(&mut self, request: &str) -> Response {
        self.send(request).await;
        self.read_response().await
    }

    /// Reads one byte and drops it. Returns false once the connection is closed or reset.
    pub async fn read_byte(&mut self) -> bool {
        bounded("a byte", self.stream.read(&mut [0])).await.is_ok_and(|read| read > 0)
    }

    /// Reads one response and leaves the bytes of the next one.
    pub async fn read_response(&mut self) -> Response {
        let head_len = loop {
            if let Some(at) = self.unread.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(
                self.read_more().await > 0,
                "the connection was closed before a response: {:?}",
                self.unread
            );
        };
        let head = String::from_utf8(self.unread.drain(..head_len).collect()).expect("text");
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status line");
        let status = status.parse().expect("a status");
        let headers: HeaderMap = lines.filter_map(|line| line.split_once(": ")).map(header).collect();
        let body_len = headers
            .get("content-length")
            .map_or(0, |len| len.to_str().expect("text").parse().expect("a number"));
        while self.unread.len() < body_len {
            assert!(self.read_more().await > 0, "the connection was closed within an response");
        }
        Response { status, headers, body: self.unread.drain(..body_len).collect() }
    }

    /// Waits until the server closes the connection cleanly. Returns the bytes that were not read before.
    pub async fn read_to_end(&mut self) -> Vec<u8> {
        while self.read_more().await > 0 {}
        std::mem::take(&mut self.unread)
    }

    async fn read_more(&mut self) -> usize {
        let read = bounded("more bytes", self.stream.read_buf(&mut self.unread)).await;
        read.expect("the connection is not reset")
    }
}

fn header((name, value): (&str, &str)) -> (HeaderName, HeaderValue) {
    (name.parse().expect("a name"), value.parse().expect("a value"))
}
