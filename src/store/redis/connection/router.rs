//! Which server holds which slot. Standalone has one server forever; for a Cluster we keep the map of
//! slots ourselves and follow `MOVED` and `ASK`; with Sentinel the current primary holds all slots.
//!
//! A caller waits only for the server that it needs: connections are opened by tasks of their own (`servers.rs`), and
//! one task searches for the servers again on behalf of all callers (`discovery.rs`).
//!
//! The library can do both, too. But with its own resending off, one `ASK` ends its connection task, a
//! `WAIT` must go through the connection that wrote, and when cut off from a primary it did not find the next
//! one in half a minute.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fred::{
    error::{Error as FredError, ErrorKind},
    types::config::{Config, Server},
};
use futures_util::future::join_all;

use super::{
    connect_error::ConnectError,
    discovery::{Discovery, DiscoverySource},
    node::ServerNode,
    sentinel::Sentinels,
};
use crate::store::redis::{context::EngineContext, options::Mode};

/// Time between queries to the sentinels while all is well: an old primary that was cut off may
/// continue to answer.
const SENTINEL_INTERVAL: Duration = Duration::from_secs(1);

/// The servers and their slots.
#[derive(Debug)]
pub struct Router {
    context: EngineContext,
    config: Config,
    topology: ServerTopology,
    /// Counts subscriptions, so that servers take turns.
    subscriptions: AtomicUsize,
}

#[derive(Debug)]
enum ServerTopology {
    Standalone(Arc<ServerNode>),
    Discovered(Arc<Discovery>),
}

impl Router {
    /// Connects to all servers.
    pub async fn open(context: EngineContext) -> Result<Self, ConnectError> {
        let config = context.options.client_config();
        let address = context.options.address();
        let source = match &context.options.mode {
            Mode::Standalone { .. } => None,
            Mode::Cluster { .. } => Some(DiscoverySource::Cluster),
            Mode::Sentinel { service, credentials, .. } => Some(DiscoverySource::Sentinels(Sentinels {
                hosts: config.server.hosts(),
                service: service.clone(),
                credentials: credentials.clone(),
                server_credentials: context.options.credentials.clone(),
                tls: context.tls.clone(),
            })),
        };
        let topology = match source {
            None => {
                let opened = ServerNode::open(config.clone(), &context).await;
                ServerTopology::Standalone(opened.map_err(|why| ConnectError::from_unusable(&address, why))?)
            }
            Some(source) => ServerTopology::Discovered(Discovery::open(&context, &config, source).await?),
        };
        Ok(Self { context, config, topology, subscriptions: AtomicUsize::new(0) })
    }

    /// Whether one primary holds all slots, so that one script may use the keys of several shards.
    pub fn has_single_primary(&self) -> bool {
        match &self.topology {
            ServerTopology::Standalone(_) => true,
            ServerTopology::Discovered(discovery) => discovery.is_sentinel(),
        }
    }

    /// Whether there is one server forever.
    pub fn is_standalone(&self) -> bool {
        matches!(self.topology, ServerTopology::Standalone(_))
    }

    /// The server that holds `slot` by the latest known map. Waits until it is connected: a caller
    /// with less time may stop waiting.
    pub async fn node_for_slot(&self, slot: u16) -> Result<Arc<ServerNode>, FredError> {
        match &self.topology {
            ServerTopology::Standalone(node) => Ok(node.clone()),
            ServerTopology::Discovered(discovery) => {
                let none = || FredError::new(ErrorKind::Cluster, "no server holds the slot");
                let map = discovery.map();
                Ok(discovery.servers().get(map.server(slot).ok_or_else(none)?).await?)
            }
        }
    }

    /// The address of the server that holds `slot`, unless there is one server forever.
    pub fn server_for_slot(&self, slot: u16) -> Option<Server> {
        match &self.topology {
            ServerTopology::Standalone(_) => None,
            ServerTopology::Discovered(discovery) => discovery.map().server(slot).cloned(),
        }
    }

    /// Every server that is connected.
    pub fn open_nodes(&self) -> Vec<Arc<ServerNode>> {
        match &self.topology {
            ServerTopology::Standalone(node) => vec![node.clone()],
            ServerTopology::Discovered(discovery) => {
                let (map, servers) = (discovery.map(), discovery.servers());
                map.servers.iter().filter_map(|server| servers.get_open(server)).collect()
            }
        }
    }

    /// The configuration of a server to subscribe at, another one each time if there are several.
    /// Every server of a Cluster forwards the announcements of all.
    pub fn next_subscription(&self) -> Option<Config> {
        let ServerTopology::Discovered(discovery) = &self.topology else { return Some(self.config.clone()) };
        let map = discovery.map();
        let is_open = |server: &&Server| discovery.servers().get_open(server).is_some();
        let servers: Vec<&Server> = map.servers.iter().filter(is_open).collect();
        let next = self.subscriptions.fetch_add(1, Ordering::Relaxed);
        (!servers.is_empty()).then(|| discovery.servers().config_for(servers[next % servers.len()]))
    }

    /// Whether `config` is still the configuration of one of the servers.
    pub fn is_current(&self, config: &Config) -> bool {
        let ServerTopology::Discovered(discovery) = &self.topology else { return true };
        let map = discovery.map();
        config.server.hosts().iter().all(|server| map.servers.contains(server))
    }

    /// Queries the sentinels at intervals, if there are any, until the engine closes.
    pub async fn watch_sentinels(&self) {
        if self.is_standalone() || !self.has_single_primary() {
            return;
        }
        while self.context.sleep_unless_closing(SENTINEL_INTERVAL).await {
            if let Err(error) = self.refresh(None).await {
                tracing::debug!(%error, "the sentinels named no primary");
            }
        }
    }

    /// Closes all connections, within a timeout.
    pub async fn close(&self) {
        let nodes = match &self.topology {
            ServerTopology::Standalone(node) => vec![node.clone()],
            ServerTopology::Discovered(discovery) => discovery.servers().remove_all(),
        };
        join_all(nodes.iter().map(|node| node.close())).await;
    }

    /// The server at the address of an `ASK`; a server that gets its first slot is not in the map yet. Waits as
    /// [`node_for_slot`](Self::node_for_slot) does.
    pub async fn node_at(&self, server: &Server) -> Result<Arc<ServerNode>, FredError> {
        match &self.topology {
            ServerTopology::Discovered(discovery) => Ok(discovery.servers().get(server).await?),
            ServerTopology::Standalone(_) => {
                Err(FredError::new(ErrorKind::Cluster, "a standalone server sent ASK"))
            }
        }
    }

    /// Searches for the servers again, unless another server than `holder` was found for `slot` meanwhile.
    pub async fn refresh(&self, holder: Option<(u16, &Arc<ServerNode>)>) -> Result<(), FredError> {
        match &self.topology {
            ServerTopology::Standalone(_) => Ok(()),
            ServerTopology::Discovered(discovery) => discovery.refresh(holder).await,
        }
    }
}
