//! The API behind a real socket, and a client that says every byte itself.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use linger::{
    clock::SystemClock,
    http::{self, App, HttpOptions},
    metrics::Metrics,
    net::{self, ListenerOptions, Transport},
    queue::{Limits, Queue, StoreEvents},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{naive::Naive, wait::until};

/// A server on a free port of the loopback. On the naive model and the system's clock: what is tested
/// is the way there, and its timeouts are the server's own.
pub struct Server {
    pub address: SocketAddr,
    pub queue: Arc<Queue>,
    pub metrics: Metrics,
    pub stop: CancellationToken,
    pub task: JoinHandle<()>,
}

/// The options of a server. Those of one kind alone stand for both.
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
        let transport = Transport::new(options.listener, clock.clone(), &metrics, http::too_many_connections);
        let app = App::new(queue.clone(), clock, metrics.clone(), options.http);
        let task = tokio::spawn(net::serve(transport, listener, http::router(&app), stop.clone()));
        Self { address, queue, metrics, stop, task }
    }

    pub async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    /// A connection with a long poll that is parked by the time this returns.
    pub async fn parked(&self, topic: &str) -> Client {
        let before = self.queue.waiting();
        let mut client = self.connect().await;
        client.say(&get(&format!("/topics/{topic}/pop?wait=50s"))).await;
        until(|| self.queue.waiting() > before).await;
        client
    }

    /// Open connections, as the figures tell.
    pub fn connections(&self) -> usize {
        self.figure("linger_http_connections")
    }

    /// A figure as it stands.
    pub fn figure(&self, figure: &str) -> usize {
        let figures = self.metrics.encode();
        let value = figures.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {figure}")).parse().expect("a number")
    }

    /// Connections cut for this reason.
    pub fn cut(&self, reason: &str) -> usize {
        self.figure(&format!("linger_http_connections_cut_total{{reason=\"{reason}\"}}"))
    }

    /// Shuts down as the program does; returns once every connection has ended.
    pub async fn end(self) {
        self.queue.drain();
        self.stop.cancel();
        self.task.await.expect("the server ends");
    }
}

/// A GET as it stands on the wire.
pub fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// A POST of JSON as it stands on the wire.
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

/// An answer as it stood on the wire.
#[derive(Debug)]
pub struct Heard {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Heard {
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
        Self::on(TcpStream::connect(address).await.expect("connects"))
    }

    /// A connection from an address of its own.
    pub async fn connect_from(own: IpAddr, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((own, 0).into()).expect("an address of this machine");
        Self::on(socket.connect(address).await.expect("connects"))
    }

    /// Over a connection that is open already.
    pub fn on(stream: TcpStream) -> Self {
        Self { stream, unread: Vec::new() }
    }

    /// Sends these bytes.
    pub async fn say(&mut self, bytes: &str) {
        self.try_say(bytes).await.expect("sends");
    }

    pub async fn try_say(&mut self, bytes: &str) -> std::io::Result<()> {
        self.stream.write_all(bytes.as_bytes()).await
    }

    /// Sends a request and reads its answer.
    pub async fn ask(&mut self, request: &str) -> Heard {
        self.say(request).await;
        self.hear().await
    }

    /// Reads one byte and forgets it; false once the connection is closed or reset.
    pub async fn taste(&mut self) -> bool {
        self.stream.read(&mut [0]).await.is_ok_and(|read| read > 0)
    }

    /// Reads one answer, and no byte of the next.
    pub async fn hear(&mut self) -> Heard {
        let head_len = loop {
            if let Some(at) = self.unread.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.more().await > 0, "the connection was closed before an answer: {:?}", self.unread);
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
            assert!(self.more().await > 0, "the connection was closed within an answer");
        }
        Heard { status, headers, body: self.unread.drain(..body_len).collect() }
    }

    /// Waits until the server closes the connection cleanly; what it still said.
    pub async fn closed(&mut self) -> Vec<u8> {
        while self.more().await > 0 {}
        std::mem::take(&mut self.unread)
    }

    async fn more(&mut self) -> usize {
        self.stream.read_buf(&mut self.unread).await.expect("the connection is not reset")
    }
}

fn header((name, value): (&str, &str)) -> (HeaderName, HeaderValue) {
    (name.parse().expect("a name"), value.parse().expect("a value"))
}
