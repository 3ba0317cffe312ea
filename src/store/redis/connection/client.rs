//! One connection to one server, from its opening to its loss. It never opens itself again: its owner opens
//! another. Knows timeouts and sockets, not jobs.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind},
    interfaces::ClientLike,
    types::config::{
        Config, ConnectionConfig, Options as CallOptions, PerformanceConfig, Server, UnresponsiveConfig,
    },
};
use socket2_05::TcpKeepalive;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    error::{in_words, is_reply},
    watchdog::Watchdog,
};
use crate::store::redis::Options;

/// Longest wait for a client to say goodbye.
const QUIT_WAIT: Duration = Duration::from_secs(1);

/// Between two probes of the kernel on an idle connection.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// Announcements that are kept for a listener that is busy.
const ANNOUNCEMENTS_KEPT: usize = 4_096;

/// The library's task that drives a connection. Aborted, it closes the socket, which discards what the kernel
/// still holds unsent.
type Driver = AbortOnDropHandle<Result<(), FredError>>;

/// A connection. Dropping it closes it at once.
#[derive(Debug)]
pub struct Connection {
    number: u64,
    client: Client,
    shared: Arc<Shared>,
    /// Ends when the connection is lost; owns the driver.
    _watch: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Shared {
    /// `host:port`, for messages.
    server: String,
    watchdog: Watchdog,
    /// Why the connection was lost. Set before `lost` is cancelled.
    cause: OnceLock<FredError>,
    lost: CancellationToken,
    given_up: CancellationToken,
}

impl Shared {
    fn cause(&self) -> FredError {
        self.cause.get().cloned().unwrap_or_else(|| FredError::new(ErrorKind::Canceled, "it was closed"))
    }

    /// Watches the connection until it is lost, and closes the socket if nothing comes back on it.
    async fn watch(self: Arc<Self>, client: Client, mut driver: Driver) {
        let cause = tokio::select! {
            ended = &mut driver => match ended {
                Ok(Err(error)) => error,
                Ok(Ok(())) | Err(_) => FredError::new(ErrorKind::Canceled, "it was closed"),
            },
            never = self.ping(&client) => match never {},
            () = self.watchdog.silence() => {
                let limit = self.watchdog.limit();
                FredError::new(ErrorKind::Timeout, format!("no answer for {limit:?}"))
            }
            () = self.given_up.cancelled() => FredError::new(ErrorKind::Canceled, "it was given up"),
        };
        let _ = self.cause.set(cause);
        driver.abort();
        self.lost.cancel();
    }

    /// Keeps asking for a sign of life, so that the loss is noticed also while nobody calls.
    async fn ping(&self, client: &Client) -> std::convert::Infallible {
        loop {
            self.watchdog.ping_pause().await;
            let _ = self.exchange(client.ping::<fred::types::Value>(None)).await;
        }
    }

    /// Waits for an answer, and tells the watchdog of the question and of the answer.
    async fn exchange<T>(&self, call: impl Future<Output = Result<T, FredError>>) -> Result<T, FredError> {
        self.watchdog.sent();
        let result = call.await;
        if result.as_ref().err().is_none_or(is_from_server) {
            self.watchdog.received();
        }
        result
    }
}

impl Connection {
    /// Opens a connection to what `config` describes, on which an answer may take `answer_wait`.
    pub async fn open(config: Config, options: &Options, answer_wait: Duration) -> Result<Self, FredError> {
        let server = config.server.hosts().first().map(Server::to_string).unwrap_or_default();
        let silence_limit = options.unresponsive_timeout.max(answer_wait);
        let client = Client::new(
            with_credentials(config, options),
            Some(performance(answer_wait)),
            Some(settings(options, silence_limit)),
            None,
        );
        let mut driver = AbortOnDropHandle::new(client.connect());
        // The library bounds each step of connecting on its own; a server that accepts and then says nothing
        // is only noticed by a bound around all of them.
        let bound = options.connect_timeout + options.command_timeout;
        let patient = client.with_options(&CallOptions { timeout: Some(bound), ..CallOptions::default() });
        let opened = tokio::select! {
            ended = &mut driver => match ended {
                Ok(Err(error)) => Err(error),
                Ok(Ok(())) | Err(_) => Err(FredError::new(ErrorKind::Canceled, "it was closed")),
            },
            // Answered once the connection is made: the library queues it until then.
            answer = patient.ping::<fred::types::Value>(None) => answer.map(drop),
        };
        opened?;
        let shared = Arc::new(Shared {
            server,
            watchdog: Watchdog::new(silence_limit),
            cause: OnceLock::new(),
            lost: CancellationToken::new(),
            given_up: CancellationToken::new(),
        });
        let watch = tokio::spawn(shared.clone().watch(client.clone(), driver));
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        Ok(Self { number, client, shared, _watch: AbortOnDropHandle::new(watch) })
    }

    /// Tells it from all others of this process.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The library's client, for calls that are made by [`call`](Self::call).
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Makes a call on the client, which fails as soon as the connection is lost.
    pub async fn call<T>(&self, call: impl Future<Output = Result<T, FredError>>) -> Result<T, FredError> {
        let result = tokio::select! {
            biased;
            result = self.shared.exchange(call) => result,
            () = self.shared.lost.cancelled() => Err(self.shared.cause()),
        };
        result.map_err(|error| {
            if is_from_server(&error) {
                return error;
            }
            // Calls fail by the loss before they hear of it.
            let cause = self.shared.cause.get().unwrap_or(&error);
            FredError::new(ErrorKind::Routing, describe(&self.shared.server, cause))
        })
    }

    /// Where it leads, as `host:port`.
    pub fn server(&self) -> &str {
        &self.shared.server
    }

    /// Waits until the connection is lost; why it was.
    pub async fn lost(&self) -> FredError {
        self.shared.lost.cancelled().await;
        self.shared.cause()
    }

    pub fn is_lost(&self) -> bool {
        self.shared.lost.is_cancelled()
    }

    /// Closes the connection at once; calls on it fail.
    pub fn give_up(&self) {
        self.shared.given_up.cancel();
    }

    /// Closes the connection once it has answered what it was asked, within a bound.
    pub async fn close(&self) {
        if !self.is_lost() {
            let _ = tokio::time::timeout(QUIT_WAIT, self.client.quit()).await;
        }
        self.give_up();
    }
}

/// What went wrong with a server, for a person to read.
pub fn describe(server: &str, error: &FredError) -> String {
    format!("Redis at {server}: {}", in_words(error))
}

/// Whether the server itself said so: then it is alive.
fn is_from_server(error: &FredError) -> bool {
    match error.kind() {
        ErrorKind::Timeout | ErrorKind::Canceled | ErrorKind::IO => false,
        // The library uses it for replies, and for what goes wrong within the library when a connection ends.
        ErrorKind::Unknown => is_reply(error),
        _ => true,
    }
}

/// Credentials given on their own go before those in a URL.
pub fn with_credentials(mut config: Config, options: &Options) -> Config {
    if let Some(username) = &options.username {
        config.username = Some(username.clone());
    }
    if let Some(password) = &options.password {
        config.password = Some(password.reveal().to_owned());
    }
    config
}

fn settings(options: &Options, silence_limit: Duration) -> ConnectionConfig {
    let mut connection = ConnectionConfig {
        connection_timeout: options.connect_timeout,
        internal_command_timeout: options.command_timeout,
        // The library would send a script again whose answer was cut off, and say nothing: we send
        // again ourselves, knowing it. Only this setting stops it.
        max_command_attempts: 1,
        max_redirections: 0,
        // The library counts from the last write, so that every write puts the limit off; `watchdog` counts
        // from the first that was not answered.
        unresponsive: UnresponsiveConfig { max_timeout: None, ..UnresponsiveConfig::default() },
        ..ConnectionConfig::default()
    };
    connection.tcp.nodelay = Some(true);
    // A connection that is given up must not deliver what it still holds: a call that arrives late could undo
    // what was acknowledged since.
    connection.tcp.linger = Some(Duration::ZERO);
    connection.tcp.user_timeout = Some(silence_limit);
    // The kernel counts in whole seconds.
    let idle = silence_limit.max(KEEPALIVE_INTERVAL);
    connection.tcp.keepalive = Some(TcpKeepalive::new().with_time(idle).with_interval(KEEPALIVE_INTERVAL));
    connection
}

fn performance(answer_wait: Duration) -> PerformanceConfig {
    PerformanceConfig {
        default_command_timeout: answer_wait,
        broadcast_channel_capacity: ANNOUNCEMENTS_KEPT,
        ..PerformanceConfig::default()
    }
}
