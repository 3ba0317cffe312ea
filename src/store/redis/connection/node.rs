//! A connection that is kept open: when it is lost, another one takes its place. Knows timeouts, not jobs.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use fred::{
    error::{Error as FredError, ErrorKind},
    types::config::{Config, Server},
};
use futures_util::future::join_all;
use rand::RngExt;
use tokio_util::task::AbortOnDropHandle;

use super::{
    client::{Connection, describe},
    fitness::Standing,
    replicas::Durable,
    server_clock::ServerClock,
};
use crate::clock::Clock;
use crate::store::redis::Context;

/// A connection that is opened anew whenever it is lost. Dropping it closes the connection at once.
#[derive(Debug)]
pub struct Link {
    state: Arc<Mutex<State>>,
    /// The task that opens the connection anew.
    keeper: AbortOnDropHandle<()>,
}

#[derive(Debug)]
enum State {
    Open(Arc<Connection>),
    /// Why there is none at the moment.
    Away(FredError),
}

impl Link {
    /// Opens a connection to what `config` describes, on which an answer may take `answer_wait`, and keeps it
    /// open. With a `standing`, the server is judged again before another connection is used: the address may
    /// lead elsewhere by then.
    pub async fn open(
        config: Config,
        context: &Context,
        answer_wait: Duration,
        standing: Option<Arc<Standing>>,
    ) -> Result<Self, FredError> {
        let connection = Connection::open(config.clone(), &context.options, answer_wait).await?;
        let connection = Arc::new(connection);
        let state = Arc::new(Mutex::new(State::Open(connection.clone())));
        let context = context.clone();
        let runtime = context.runtime.clone();
        let keeper = Keeper { config, context, answer_wait, standing, state: state.clone() };
        let keeper = runtime.spawn(keeper.run(connection));
        Ok(Self { state, keeper: AbortOnDropHandle::new(keeper) })
    }

    /// The connection; why there is none, if it was lost and is not open again.
    pub fn connection(&self) -> Result<Arc<Connection>, FredError> {
        match &*lock(&self.state) {
            State::Open(connection) => Ok(connection.clone()),
            State::Away(cause) => Err(cause.clone()),
        }
    }

    /// Closes the connection though it works and opens another one, because it leads to a server that is no
    /// primary any more.
    pub fn reopen(&self) {
        if let Ok(connection) = self.connection() {
            connection.give_up();
        }
    }

    /// Closes the connection for good, within a bound.
    pub async fn close(&self) {
        self.keeper.abort();
        let away = FredError::new(ErrorKind::Routing, "the connection is closed");
        let state = std::mem::replace(&mut *lock(&self.state), State::Away(away));
        if let State::Open(connection) = state {
            connection.close().await;
        }
    }
}

/// What it takes to open a connection anew.
struct Keeper {
    config: Config,
    context: Context,
    answer_wait: Duration,
    standing: Option<Arc<Standing>>,
    state: Arc<Mutex<State>>,
}

impl Keeper {
    async fn run(self, mut connection: Arc<Connection>) {
        loop {
            let cause = connection.lost().await;
            self.context.log_loss(connection.server(), &cause);
            drop(connection);
            self.away(&cause);
            connection = self.open_again().await;
            *lock(&self.state) = State::Open(connection.clone());
        }
    }

    /// Tries until there is a connection, with pauses that double.
    async fn open_again(&self) -> Arc<Connection> {
        let options = &self.context.options;
        let mut pause = options.reconnect_min;
        loop {
            // Servers whose connections were lost together must not all come back together.
            let pause_us = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
            let jittered_us = rand::rng().random_range(pause_us / 2..=pause_us);
            self.context.real.sleep(Duration::from_micros(jittered_us)).await;
            match self.open_and_judge().await {
                Ok(connection) => return Arc::new(connection),
                Err(error) => self.away(&error),
            }
            pause = (pause * 2).min(options.reconnect_max);
        }
    }

    async fn open_and_judge(&self) -> Result<Connection, FredError> {
        let options = &self.context.options;
        let connection = Connection::open(self.config.clone(), options, self.answer_wait).await?;
        if let Some(standing) = &self.standing {
            standing.judge(connection.client(), &self.context).await?;
        }
        Ok(connection)
    }

    fn away(&self, cause: &FredError) {
        let server = self.config.server.hosts().first().map(Server::to_string).unwrap_or_default();
        let why = describe(&server, cause);
        tracing::debug!(why, "no connection");
        *lock(&self.state) = State::Away(FredError::new(ErrorKind::Routing, why));
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("no code panics while it holds the state")
}

/// One server: the connection that everybody shares, and those that wait for replicas.
#[derive(Debug)]
pub struct Node {
    link: Link,
    pub durable: Option<Durable>,
    pub clock: ServerClock,
    pub standing: Arc<Standing>,
}

impl Node {
    /// Connects to what `config` describes.
    pub async fn open(config: Config, context: &Context) -> Result<Self, FredError> {
        let options = &context.options;
        let server = config.server.hosts().first().map(Server::to_string).unwrap_or_default();
        let standing = Arc::new(Standing::new(server));
        let judged = Some(standing.clone());
        let link = Link::open(config.clone(), context, options.command_timeout, judged).await?;
        let durable = match options.wait_replicas {
            0 => None,
            _ => Some(Durable::open(config, context).await?),
        };
        Ok(Self { link, durable, clock: ServerClock::default(), standing })
    }

    /// The connection that everybody shares; why there is none at the moment.
    pub fn connection(&self) -> Result<Arc<Connection>, FredError> {
        self.link.connection()
    }

    fn links(&self) -> impl Iterator<Item = &Link> {
        std::iter::once(&self.link).chain(self.durable.iter().flat_map(Durable::links))
    }

    /// Opens all connections anew.
    pub fn reopen(&self) {
        self.links().for_each(Link::reopen);
    }

    /// Closes all connections, within a bound.
    pub async fn close(&self) {
        join_all(self.links().map(Link::close)).await;
    }
}
