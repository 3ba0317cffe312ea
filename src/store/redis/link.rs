//! Connections to one server: how they are built, and how they end. Knows timeouts, not jobs.

use std::{sync::Mutex, time::Duration};

use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind},
    interfaces::ClientLike,
    types::{
        ConnectHandle,
        config::{Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, UnresponsiveConfig},
    },
};
use futures_util::future::join_all;

use super::{Options, durable::Durable, server_clock::ServerClock};

/// Longest wait for a client to say goodbye.
const QUIT_WAIT: Duration = Duration::from_secs(1);

/// One connection that reopens itself.
#[derive(Debug)]
pub(super) struct Link {
    pub client: Client,
    /// The library's task that drives the connection.
    task: Mutex<Option<ConnectHandle>>,
    reopening: tokio::sync::Mutex<()>,
}

impl Link {
    /// Opens a connection to what `config` describes.
    pub async fn open(config: Config, options: &Options, answer_wait: Duration) -> Result<Self, FredError> {
        let client = Client::new(
            with_credentials(config, options),
            Some(performance(options, answer_wait)),
            Some(connection(options, answer_wait)),
            Some(policy(options)),
        );
        // The library bounds each step of this on its own; a server that accepts and then says nothing
        // is only noticed by a bound around all of them.
        let bound = options.connect_timeout + options.command_timeout;
        match tokio::time::timeout(bound, client.init()).await {
            Ok(task) => {
                Ok(Self { client, task: Mutex::new(Some(task?)), reopening: tokio::sync::Mutex::default() })
            }
            Err(_) => {
                let _ = tokio::time::timeout(QUIT_WAIT, client.quit()).await;
                Err(FredError::new(ErrorKind::Timeout, "no connection in time"))
            }
        }
    }

    /// Opens the connection anew though it works, because it leads to a server that is no primary any
    /// more. One caller does it; the others go on and try again.
    pub async fn reopen(&self, options: &Options) {
        let Ok(_turn) = self.reopening.try_lock() else { return };
        let _ = tokio::time::timeout(options.connect_timeout, self.client.force_reconnection()).await;
    }

    /// Opens the connection anew if its task has ended, as it does after errors that the library
    /// takes for final.
    pub fn revive(&self) {
        let mut task = self.task.lock().expect("no code panics while it holds the task");
        if task.as_ref().is_some_and(ConnectHandle::is_finished) {
            *task = Some(self.client.connect());
        }
    }

    /// Closes the connection, within a bound.
    pub async fn close(&self) {
        let _ = tokio::time::timeout(QUIT_WAIT, self.client.quit()).await;
        let task = self.task.lock().expect("no code panics while it holds the task").take();
        if let Some(task) = task {
            task.abort();
        }
    }
}

/// Dropped without [`Link::close`] (an opening beside it failed, its caller went away), it still must not go on
/// connecting for ever: the library's task does not end with its client.
impl Drop for Link {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().ok().and_then(Option::take) {
            task.abort();
        }
    }
}

/// One server: the connection that everybody shares, and those that wait for replicas.
#[derive(Debug)]
pub(super) struct Node {
    pub link: Link,
    pub durable: Option<Durable>,
    pub clock: ServerClock,
}

impl Node {
    /// Connects to what `config` describes.
    pub async fn open(config: Config, context: &super::Context) -> Result<Self, FredError> {
        let options = &context.options;
        let link = Link::open(config.clone(), options, options.command_timeout).await?;
        let durable = match options.wait_replicas {
            0 => None,
            _ => Some(Durable::open(config, context).await?),
        };
        let clock = ServerClock::new(&link.client);
        Ok(Self { link, durable, clock })
    }

    fn links(&self) -> impl Iterator<Item = &Link> {
        std::iter::once(&self.link).chain(self.durable.iter().flat_map(Durable::links))
    }

    /// Opens those connections anew whose tasks have ended.
    pub fn revive(&self) {
        self.links().for_each(Link::revive);
    }

    /// Opens all connections anew.
    pub async fn reopen(&self, options: &Options) {
        join_all(self.links().map(|link| link.reopen(options))).await;
    }

    /// Closes all connections, within a bound.
    pub async fn close(&self) {
        join_all(self.links().map(Link::close)).await;
    }
}

/// Credentials given on their own go before those in a URL.
pub(super) fn with_credentials(mut config: Config, options: &Options) -> Config {
    if let Some(username) = &options.username {
        config.username = Some(username.clone());
    }
    if let Some(password) = &options.password {
        config.password = Some(password.reveal().to_owned());
    }
    config
}

pub(super) fn connection(options: &Options, answer_wait: Duration) -> ConnectionConfig {
    let mut connection = ConnectionConfig {
        connection_timeout: options.connect_timeout,
        internal_command_timeout: options.command_timeout,
        // The library would send a script again whose answer was cut off, and say nothing: we send
        // again ourselves, knowing it. Only this setting stops it.
        max_command_attempts: 1,
        max_redirections: 0,
        // A command timeout alone leaves all later commands on a half-open connection.
        unresponsive: UnresponsiveConfig {
            max_timeout: Some(options.unresponsive_timeout.max(answer_wait)),
            interval: Duration::from_millis(500),
        },
        ..ConnectionConfig::default()
    };
    connection.tcp.nodelay = Some(true);
    connection
}

pub(super) fn performance(_: &Options, answer_wait: Duration) -> PerformanceConfig {
    PerformanceConfig {
        default_command_timeout: answer_wait,
        broadcast_channel_capacity: 4_096,
        ..PerformanceConfig::default()
    }
}

pub(super) fn policy(options: &Options) -> ReconnectPolicy {
    let millis = |duration: Duration| u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
    let mut policy =
        ReconnectPolicy::new_exponential(0, millis(options.reconnect_min), millis(options.reconnect_max), 2);
    policy.set_jitter(10);
    policy
}
