//! One server: the connection that all calls share, those that wait for replicas, its clock and its fitness. Knows
//! no slots.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use fred::{
    error::Error as FredError,
    types::config::{Config, Server},
};
use futures_util::future::join_all;

use super::{
    client::ServerConnection, fitness::Fitness, inspect::Unusable, reconnecting::ReconnectingConnection,
    replicas::ReplicatedWriter, server_clock::ServerClock,
};
use crate::store::redis::context::EngineContext;

/// Time between inspections of a fit server and of an unfit one.
const INSPECT_FIT: Duration = Duration::from_secs(10);
const INSPECT_UNFIT: Duration = Duration::from_secs(1);

/// One server.
#[derive(Debug)]
pub struct ServerNode {
    shared: ReconnectingConnection,
    /// Waits for replicas, if changes have to.
    pub replicated: Option<ReplicatedWriter>,
    pub clock: ServerClock,
    pub fitness: Arc<Fitness>,
}

impl ServerNode {
    /// Connects as `config` describes, and inspects the server now and at intervals, until the node is dropped or
    /// the engine closes.
    pub async fn open(config: Config, context: &EngineContext) -> Result<Arc<Self>, Unusable> {
        let node = Arc::new(Self::connect(config, context).await.map_err(Unusable::Unreachable)?);
        let connection = node.connection().map_err(Unusable::Unreachable)?;
        node.fitness.inspect(connection.client(), context).await?;
        if let Some(why) = node.fitness.unfit_reason() {
            return Err(Unusable::Unfit(why));
        }
        context.spawn(inspect_at_intervals(Arc::downgrade(&node), context.clone()));
        Ok(node)
    }

    async fn connect(config: Config, context: &EngineContext) -> Result<Self, FredError> {
        let options = &context.options;
        let server = config.server.hosts().first().map(Server::to_string).unwrap_or_default();
        let fitness = Arc::new(Fitness::new(server));
        let inspected = Some(fitness.clone());
        let shared =
            ReconnectingConnection::open(config.clone(), context, options.command_timeout, inspected).await?;
        let replicated = match options.wait_replicas {
            0 => None,
            _ => Some(ReplicatedWriter::open(config, context).await?),
        };
        Ok(Self { shared, replicated, clock: ServerClock::default(), fitness })
    }

    /// The connection that all calls share.
    ///
    /// # Errors
    /// The cause while it is lost.
    pub fn connection(&self) -> Result<Arc<ServerConnection>, FredError> {
        self.shared.connection()
    }

    /// Replaces all connections.
    pub fn reopen(&self) {
        self.connections().for_each(ReconnectingConnection::reopen);
    }

    /// Closes all connections, within a timeout.
    pub async fn close(&self) {
        join_all(self.connections().map(ReconnectingConnection::close)).await;
    }

    fn connections(&self) -> impl Iterator<Item = &ReconnectingConnection> {
        std::iter::once(&self.shared).chain(self.replicated.iter().flat_map(ReplicatedWriter::connections))
    }
}

async fn inspect_at_intervals(node: Weak<ServerNode>, context: EngineContext) {
    let mut pause = INSPECT_FIT;
    while context.sleep_unless_closing(pause).await {
        let Some(node) = node.upgrade() else { return };
        if let Ok(connection) = node.connection() {
            // A server that does not answer keeps its last result.
            let _ = node.fitness.inspect(connection.client(), &context).await;
            // Calls are not sent to it, so that none of them finds out that its name leads to another server.
            if node.fitness.is_replica() {
                node.reopen();
            }
        }
        pause = if node.fitness.check().is_ok() { INSPECT_FIT } else { INSPECT_UNFIT };
    }
}
