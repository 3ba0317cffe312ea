//! One connection to one server, from its opening to its loss. It never reopens itself: its owner opens
//! another. Knows timeouts and sockets, not jobs.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind},
    interfaces::ClientLike,
    types::config::{
        Config, ConnectionConfig, Options as CallOptions, PerformanceConfig, Server, ServerConfig, TlsConfig,
        UnresponsiveConfig,
    },
};
use futures_util::future::BoxFuture;
use socket2_05::TcpKeepalive;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    error::{READ_ONLY_REPLICA, describe_error, is_error_reply},
    tls_fault,
};
use crate::{
    clock::{Clock, SystemClock},
    store::redis::{context::EngineContext, options::Options, time::micros, tls::RedisTls},
};

/// Longest wait for `QUIT` to be answered.
const QUIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time between two keepalive probes of the kernel on an idle connection.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// Announcements that are buffered for a busy subscriber.
const ANNOUNCEMENT_BUFFER: usize = 4_096;

/// Time between pings. A reply that the watchdog did not see delays the end of a connection by at most this.
const PING_INTERVAL: Duration = Duration::from_millis(500);

/// In place of a moment: no reply is outstanding.
const NOTHING_OUTSTANDING: i64 = i64::MAX;

/// The client library's task that drives a connection. Aborting it closes the socket, which discards what the
/// kernel has not sent yet.
type Driver = AbortOnDropHandle<Result<(), FredError>>;

/// The library's client without its type, which refers to itself through many others: for each of our types that has a
/// connection, and for each future that has one of those, the compiler would follow all of them to find it `Send`.
struct ErasedClient(Box<dyn AsRef<Client> + Send + Sync>);

impl std::fmt::Debug for ErasedClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// A connection. Dropping it closes it at once.
#[derive(Debug)]
pub struct ServerConnection {
    id: u64,
    client: ErasedClient,
    state: Arc<ConnectionState>,
    /// Ends when the connection is lost; owns the driver.
    _monitor: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct ConnectionState {
    /// `host:port`, for messages.
    server: String,
    watchdog: Watchdog,
    /// Why the connection was lost. Set before `lost` is cancelled.
    cause: OnceLock<FredError>,
    lost: CancellationToken,
    aborted: CancellationToken,
}

impl ConnectionState {
    fn cause(&self) -> FredError {
        self.cause.get().cloned().unwrap_or_else(|| FredError::new(ErrorKind::Canceled, "it was closed"))
    }

    /// Watches the connection until it is lost, and closes the socket if the server stops answering.
    async fn monitor(self: Arc<Self>, client: Client, mut driver: Driver) {
        let cause = tokio::select! {
            ended = &mut driver => match ended {
                Ok(Err(error)) => error,
                Ok(Ok(())) | Err(_) => FredError::new(ErrorKind::Canceled, "it was closed"),
            },
            never = self.send_pings(&client) => match never {},
            () = self.watchdog.unresponsive() => {
                let limit = self.watchdog.limit();
                FredError::new(ErrorKind::Timeout, format!("no answer for {limit:?}"))
            }
            () = self.aborted.cancelled() => FredError::new(ErrorKind::Canceled, "it was aborted"),
        };
        let _ = self.cause.set(cause);
        driver.abort();
        self.lost.cancel();
    }

    /// Sends pings at intervals, so that a loss is noticed even when no call is made.
    async fn send_pings(&self, client: &Client) -> std::convert::Infallible {
        loop {
            self.watchdog.wait_before_ping().await;
            let _ = self.track(client.ping::<fred::types::Value>(None)).await;
        }
    }

    /// Waits for a reply, and reports the request and the reply to the watchdog.
    async fn track<T>(&self, call: impl Future<Output = Result<T, FredError>>) -> Result<T, FredError> {
        self.watchdog.request_sent();
        let result = call.await;
        if result.as_ref().err().is_none_or(is_from_server) {
            self.watchdog.reply_received();
        }
        result
    }
}

impl ServerConnection {
    /// Opens a connection to the one server that `config` describes, on which one reply may take `reply_timeout`.
    pub async fn open(
        config: Config,
        context: &EngineContext,
        reply_timeout: Duration,
    ) -> Result<Self, FredError> {
        let ServerConfig::Centralized { server } = &config.server else {
            return Err(FredError::new(ErrorKind::Config, "a connection is to one server"));
        };
        let server = server.clone();
        let tls = context.tls.as_ref();
        let opened = Self::open_to(config, &server, &context.options, tls, reply_timeout).await;
        opened.map_err(|error| tls_fault::explain(error, &server.host, tls))
    }

    async fn open_to(
        mut config: Config,
        server: &Server,
        options: &Options,
        tls: Option<&RedisTls>,
        reply_timeout: Duration,
    ) -> Result<Self, FredError> {
        if let Some(tls) = tls {
            config.server = ServerConfig::Centralized { server: with_name(server, tls)? };
            config.tls = Some(TlsConfig::from(tls.connector()));
        }
        let unresponsive_limit = options.unresponsive_timeout.max(reply_timeout);
        let client = Client::new(
            config,
            Some(performance_config(reply_timeout)),
            Some(connection_config(options, unresponsive_limit)),
            None,
        );
        let mut driver = AbortOnDropHandle::new(client.connect());
        // The library limits each step of connecting on its own. Only a limit on all of them together notices a
        // server that accepts the connection and then sends nothing.
        let timeout = options.connect_timeout + options.command_timeout;
        let opening = client.with_options(&CallOptions { timeout: Some(timeout), ..CallOptions::default() });
        let opened = tokio::select! {
            ended = &mut driver => match ended {
                Ok(Err(error)) => Err(error),
                Ok(Ok(())) | Err(_) => Err(FredError::new(ErrorKind::Canceled, "it was closed")),
            },
            // The library queues the ping until the connection is open.
            reply = opening.ping::<fred::types::Value>(None) => reply.map(drop),
        };
        opened?;
        let state = Arc::new(ConnectionState {
            server: server.to_string(),
            watchdog: Watchdog::new(unresponsive_limit),
            cause: OnceLock::new(),
            lost: CancellationToken::new(),
            aborted: CancellationToken::new(),
        });
        let monitor = tokio::spawn(state.clone().monitor(client.clone(), driver));
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let id = OPENED.fetch_add(1, Ordering::Relaxed);
        let client = ErasedClient(Box::new(Arc::new(client)));
        Ok(Self { id, client, state, _monitor: AbortOnDropHandle::new(monitor) })
    }

    /// Unique among all connections of this process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The library's client, for calls that go through [`call`](Self::call).
    pub fn client(&self) -> &Client {
        (*self.client.0).as_ref()
    }

    /// Makes a call on the client, which fails as soon as the connection is lost.
    ///
    /// Boxed, so that the futures of the library are no part of every future that makes a call: the compiler took a
    /// quarter of its time to find each of those to be `Send`.
    pub fn call<'a, T: Send>(
        &'a self,
        call: impl Future<Output = Result<T, FredError>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, FredError>> {
        // First in a box of its own: it has 7 KB, and the futures around it would have room for it three times.
        let call = Box::pin(call);
        Box::pin(async move {
            let result = tokio::select! {
                biased;
                result = self.state.track(call) => result,
                () = self.state.lost.cancelled() => Err(self.state.cause()),
            };
            result.map_err(|error| {
                if is_from_server(&error) {
                    return error;
                }
                // A call may fail before the monitor has cancelled `lost`.
                let cause = self.state.cause.get().unwrap_or(&error);
                FredError::new(ErrorKind::Routing, describe_server_error(&self.state.server, cause))
            })
        })
    }

    /// The address of the server, as `host:port`.
    pub fn server(&self) -> &str {
        &self.state.server
    }

    /// Waits until the connection is lost, and returns the cause.
    pub async fn wait_until_lost(&self) -> FredError {
        self.state.lost.cancelled().await;
        self.state.cause()
    }

    /// Why the connection was lost; `None` while it is open.
    pub fn loss(&self) -> Option<FredError> {
        self.state.lost.is_cancelled().then(|| self.state.cause())
    }

    /// Closes the connection at once; calls on it fail.
    pub fn abort(&self) {
        self.state.aborted.cancel();
    }

    /// Closes the connection at once because its server is a replica. Calls on it fail with that reason.
    pub fn abort_at_replica(&self) {
        let _ = self.state.cause.set(FredError::new(ErrorKind::Canceled, READ_ONLY_REPLICA));
        self.abort();
    }

    /// Closes the connection after the replies to earlier calls, or after a timeout.
    pub async fn close(&self) {
        if self.loss().is_none() {
            let _ = tokio::time::timeout(QUIT_TIMEOUT, self.client().quit()).await;
        }
        self.abort();
    }
}

/// Decides when a connection is dead: a reply is outstanding, and the server has sent nothing for too long.
#[derive(Debug)]
struct Watchdog {
    clock: SystemClock,
    limit: Duration,
    /// When the oldest request was sent that had no reply when the server last sent one.
    ///
    /// Requests that are still open when a reply comes count again only when the next one is sent. That is
    /// a ping at the latest, whose reply comes after theirs.
    waiting_since_us: AtomicI64,
}

impl Watchdog {
    /// Watches a connection on which the server may send nothing for `limit` while a reply is outstanding.
    fn new(limit: Duration) -> Self {
        Self { clock: SystemClock::new(), limit, waiting_since_us: AtomicI64::new(NOTHING_OUTSTANDING) }
    }

    fn limit(&self) -> Duration {
        self.limit
    }

    fn request_sent(&self) {
        if self.waiting_since_us.load(Ordering::Relaxed) == NOTHING_OUTSTANDING {
            let now_us = self.clock.now_micros();
            let _ = self.waiting_since_us.compare_exchange(
                NOTHING_OUTSTANDING,
                now_us,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    fn reply_received(&self) {
        self.waiting_since_us.store(NOTHING_OUTSTANDING, Ordering::Relaxed);
    }

    /// Waits until it is time for the next ping.
    async fn wait_before_ping(&self) {
        self.clock.sleep_until_period_ends(PING_INTERVAL).await;
    }

    /// Waits until the connection is dead.
    async fn unresponsive(&self) {
        loop {
            let since_us = self.waiting_since_us.load(Ordering::Relaxed);
            let waited_us = self.clock.now_micros().saturating_sub(since_us).max(0);
            let left_us = micros(self.limit).saturating_sub(waited_us);
            if left_us <= 0 {
                return;
            }
            self.clock.sleep(Duration::from_micros(left_us.unsigned_abs())).await;
        }
    }
}

/// The error of one server, as a sentence for people.
pub fn describe_server_error(server: &str, error: &FredError) -> String {
    format!("Redis at {server}: {}", describe_error(error))
}

/// Whether the error is a reply of the server, which proves that it is alive.
fn is_from_server(error: &FredError) -> bool {
    match error.kind() {
        ErrorKind::Timeout | ErrorKind::Canceled | ErrorKind::IO | ErrorKind::Tls => false,
        // The library uses this kind for replies, and for its own failures when a connection ends.
        ErrorKind::Unknown => is_error_reply(error),
        _ => true,
    }
}

/// The server with the name that its certificate must have.
fn with_name(server: &Server, tls: &RedisTls) -> Result<Server, FredError> {
    let name = tls.server_name(&server.host).ok_or_else(|| {
        let why = "no certificate can have its host as a name: set redis.server_name";
        FredError::new(ErrorKind::Tls, why)
    })?;
    Ok(Server { tls_server_name: Some(name.to_str().into_owned().into()), ..server.clone() })
}

fn connection_config(options: &Options, unresponsive_limit: Duration) -> ConnectionConfig {
    let mut connection = ConnectionConfig {
        connection_timeout: options.connect_timeout,
        internal_command_timeout: options.command_timeout,
        // The library would silently resend a script whose reply was cut off. We resend ourselves, so that scripts
        // can recognise a second run. Only this setting stops the library.
        max_command_attempts: 1,
        max_redirections: 0,
        // The library counts from the last write, so that every write postpones the limit; `Watchdog` counts
        // from the oldest request without a reply.
        unresponsive: UnresponsiveConfig { max_timeout: None, ..UnresponsiveConfig::default() },
        ..ConnectionConfig::default()
    };
    connection.tcp.nodelay = Some(true);
    // An aborted connection must not deliver what it has not sent yet: a call that arrives late could undo
    // what was acknowledged since.
    connection.tcp.linger = Some(Duration::ZERO);
    connection.tcp.user_timeout = Some(unresponsive_limit);
    // The kernel counts in whole seconds.
    let idle = unresponsive_limit.max(KEEPALIVE_INTERVAL);
    connection.tcp.keepalive = Some(TcpKeepalive::new().with_time(idle).with_interval(KEEPALIVE_INTERVAL));
    connection
}

fn performance_config(reply_timeout: Duration) -> PerformanceConfig {
    PerformanceConfig {
        default_command_timeout: reply_timeout,
        broadcast_channel_capacity: ANNOUNCEMENT_BUFFER,
        ..PerformanceConfig::default()
    }
}
