//! A connection that is kept open: when it is lost, another one replaces it. Knows timeouts, not jobs.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use fred::{
    error::{Error as FredError, ErrorKind},
    types::config::{Config, Server},
};
use rand::RngExt;
use tokio_util::task::AbortOnDropHandle;

use super::{
    client::{ServerConnection, describe_server_error},
    fitness::Fitness,
};
use crate::{clock::Clock, store::redis::context::EngineContext};

/// A connection that is reopened whenever it is lost. Dropping it closes the connection at once.
#[derive(Debug)]
pub struct ReconnectingConnection {
    state: Arc<Mutex<LinkState>>,
    reconnector: AbortOnDropHandle<()>,
}

#[derive(Debug)]
enum LinkState {
    Open(Arc<ServerConnection>),
    /// Why there is no connection at the moment.
    Lost(FredError),
}

impl ReconnectingConnection {
    /// Opens a connection as `config` describes, on which one reply may take `reply_timeout`, and keeps it
    /// open. With `fitness`, the server is inspected again before another connection is used: the address may
    /// belong to another server by then. One to a replica is not used.
    pub async fn open(
        config: Config,
        context: &EngineContext,
        reply_timeout: Duration,
        fitness: Option<Arc<Fitness>>,
    ) -> Result<Self, FredError> {
        let connection = ServerConnection::open(config.clone(), context, reply_timeout).await?;
        let connection = Arc::new(connection);
        let state = Arc::new(Mutex::new(LinkState::Open(connection.clone())));
        let context = context.clone();
        let runtime = context.runtime.clone();
        let reconnector = Reconnector { config, context, reply_timeout, fitness, state: state.clone() };
        let reconnector = runtime.spawn(reconnector.run(connection));
        Ok(Self { state, reconnector: AbortOnDropHandle::new(reconnector) })
    }

    /// The connection.
    ///
    /// # Errors
    /// The cause of the loss while it is not open again, also before the task that reopens it has noticed the loss.
    pub fn connection(&self) -> Result<Arc<ServerConnection>, FredError> {
        match &*lock(&self.state) {
            LinkState::Open(connection) => match connection.loss() {
                None => Ok(connection.clone()),
                Some(cause) => Err(not_connected(connection.server(), &cause)),
            },
            LinkState::Lost(cause) => Err(cause.clone()),
        }
    }

    /// Replaces a connection that works, because its server is no longer a primary. Calls fail with that reason until another
    /// connection is open, or cannot be opened.
    pub fn reopen(&self) {
        if let Ok(connection) = self.connection() {
            connection.abort_at_replica();
        }
    }

    /// Closes the connection for good, within a timeout.
    pub async fn close(&self) {
        self.reconnector.abort();
        let closed = FredError::new(ErrorKind::Routing, "the connection is closed");
        let state = std::mem::replace(&mut *lock(&self.state), LinkState::Lost(closed));
        if let LinkState::Open(connection) = state {
            connection.close().await;
        }
    }
}

/// The task that reopens a connection.
struct Reconnector {
    config: Config,
    context: EngineContext,
    reply_timeout: Duration,
    fitness: Option<Arc<Fitness>>,
    state: Arc<Mutex<LinkState>>,
}

impl Reconnector {
    async fn run(self, mut connection: Arc<ServerConnection>) {
        loop {
            let cause = connection.wait_until_lost().await;
            self.context.log_connection_loss(connection.server(), &cause);
            drop(connection);
            self.set_lost(&cause);
            connection = self.reopen().await;
            *lock(&self.state) = LinkState::Open(connection.clone());
        }
    }

    /// Tries until a connection is open, with pauses that double.
    async fn reopen(&self) -> Arc<ServerConnection> {
        let options = &self.context.options;
        let mut pause = options.reconnect_min;
        loop {
            // Jitter, so that connections that were lost together do not all come back together.
            let pause_us = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
            let jittered_us = rand::rng().random_range(pause_us / 2..=pause_us);
            self.context.clock.sleep(Duration::from_micros(jittered_us)).await;
            match self.open_and_inspect().await {
                Ok(connection) => return Arc::new(connection),
                Err(error) => self.set_lost(&error),
            }
            pause = (pause * 2).min(options.reconnect_max);
        }
    }

    async fn open_and_inspect(&self) -> Result<ServerConnection, FredError> {
        let connection =
            ServerConnection::open(self.config.clone(), &self.context, self.reply_timeout).await?;
        if let Some(fitness) = &self.fitness {
            fitness.inspect(connection.client(), &self.context).await?;
            // The next attempt looks the name up again, which may lead to the new primary by then.
            if fitness.is_replica() {
                fitness.check()?;
            }
        }
        Ok(connection)
    }

    fn set_lost(&self, cause: &FredError) {
        let server = self.config.server.hosts().first().map(Server::to_string).unwrap_or_default();
        let why = not_connected(&server, cause);
        tracing::debug!(error = %why, "no connection");
        *lock(&self.state) = LinkState::Lost(why);
    }
}

/// The error of calls while there is no connection.
fn not_connected(server: &str, cause: &FredError) -> FredError {
    FredError::new(ErrorKind::Routing, describe_server_error(server, cause))
}

fn lock(state: &Mutex<LinkState>) -> MutexGuard<'_, LinkState> {
    state.lock().expect("no code panics while it holds the state")
}
