//! Finding servers that may change: those of a Cluster, by its map of slots, or the primary that sentinels name.
//! One task searches for all callers.

use std::sync::{Arc, Mutex, MutexGuard};

use fred::{
    error::{Error as FredError, ErrorKind},
    types::config::{Config, Server},
};
use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared, join_all, select_ok},
};
use tokio::sync::mpsc;

use super::{
    client::ServerConnection,
    connect_error::ConnectError,
    error::CallFault,
    inspect::Unusable,
    node::ServerNode,
    sentinel::Sentinels,
    servers::ServerPool,
    slots::{SlotMap, fetch_slot_map},
};
use crate::store::redis::context::EngineContext;

/// The servers that were found, and how to find them again.
#[derive(Debug)]
pub struct Discovery {
    context: EngineContext,
    source: DiscoverySource,
    /// The servers to ask when no known one answers.
    configured: Vec<Server>,
    servers: ServerPool,
    map: Mutex<Arc<SlotMap>>,
    /// The latest search, which concurrent callers share.
    search: Mutex<Option<Search>>,
}

type Search = Shared<BoxFuture<'static, Result<(), FredError>>>;

/// Who reports the servers.
#[derive(Debug)]
pub enum DiscoverySource {
    Cluster,
    Sentinels(Sentinels),
}

impl Discovery {
    /// Finds the servers and connects to all of them.
    pub async fn open(
        context: &EngineContext,
        config: &Config,
        source: DiscoverySource,
    ) -> Result<Arc<Self>, ConnectError> {
        let discovery = Arc::new(Self {
            source,
            configured: config.server.hosts(),
            servers: ServerPool::new(context.clone(), config.clone()),
            map: Mutex::default(),
            search: Mutex::default(),
            context: context.clone(),
        });
        let address = context.options.address();
        discovery.search().await.map_err(|error| ConnectError::from_client_error(&address, &error))?;
        let map = discovery.map();
        let opening = map.servers.iter().map(|server| async {
            let opened = discovery.servers.get(server).await;
            opened.map_err(|why| ConnectError::from_unusable(&server.to_string(), why))
        });
        join_all(opening).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(discovery)
    }

    /// Whether sentinels report one primary.
    pub fn is_sentinel(&self) -> bool {
        matches!(self.source, DiscoverySource::Sentinels(_))
    }

    pub fn servers(&self) -> &ServerPool {
        &self.servers
    }

    /// The map that was found last.
    pub fn map(&self) -> Arc<SlotMap> {
        lock(&self.map).clone()
    }

    /// Searches again, unless another server than `holder` was found for `slot` meanwhile. Concurrent callers share
    /// one search, which continues when a caller stops waiting for it.
    pub async fn refresh(self: &Arc<Self>, holder: Option<(u16, &Arc<ServerNode>)>) -> Result<(), FredError> {
        let is_outdated = |(slot, node): (u16, &Arc<ServerNode>)| {
            let map = self.map();
            let found = map.server(slot).map(|server| self.servers.get_open(server));
            found.is_some_and(|open| open.is_none_or(|open| !Arc::ptr_eq(&open, node)))
        };
        if holder.is_some_and(is_outdated) { Ok(()) } else { self.search().await }
    }

    /// The search that is running, or a new one.
    fn search(self: &Arc<Self>) -> Search {
        let mut latest = lock(&self.search);
        if let Some(search) = latest.as_ref().filter(|search| Search::clone(search).now_or_never().is_none())
        {
            return search.clone();
        }
        let discovery = self.clone();
        let searching = async move {
            let closing = discovery.context.closing.clone();
            tokio::select! {
                searched = discovery.find_servers() => searched,
                () = closing.cancelled() => Err(FredError::new(ErrorKind::Canceled, "the store is closed")),
            }
        };
        let task = self.context.spawn(searching);
        let ended = || FredError::new(ErrorKind::Canceled, "the search ended early");
        let search = async move { task.await.unwrap_or_else(|_| Err(ended())) }.boxed().shared();
        *latest = Some(search.clone());
        search
    }

    async fn find_servers(&self) -> Result<(), FredError> {
        let old = self.map();
        let new = match &self.source {
            DiscoverySource::Cluster => self.fetch_from_any(&old).await?,
            DiscoverySource::Sentinels(sentinels) => {
                let primary = sentinels.primary().await?;
                // Keep the old primary while the new one cannot be reached: the sentinels may be wrong. A new one
                // that is not fit still replaces it: then neither may be used.
                if let Err(Unusable::Unreachable(error)) = self.servers.get(&primary).await {
                    return Err(error);
                }
                SlotMap::single(primary)
            }
        };
        for server in &new.servers {
            // Without waiting: only calls for its slots need it to be open.
            self.servers.start_opening(server);
        }
        let gone: Vec<Server> = old.servers.difference(&new.servers).cloned().collect();
        *lock(&self.map) = Arc::new(new);
        for server in gone {
            tracing::info!(%server, "a Redis server is no longer a primary");
            if let Some(node) = self.servers.remove(&server) {
                // Spawned: closing waits for replies to calls in flight, and must not delay the search.
                self.context.spawn(async move { node.close().await });
            }
        }
        Ok(())
    }

    /// Asks all known servers at once for the map of slots, then the configured ones.
    async fn fetch_from_any(&self, old: &SlotMap) -> Result<SlotMap, FredError> {
        // A server that hangs must not delay the answer of the others.
        let open = |server| Some((server, self.servers.get_open(server)?));
        let requests = old.servers.iter().filter_map(open).map(|(server, node)| {
            Box::pin(async move {
                let connection = node.connection()?;
                connection.call(fetch_slot_map(connection.client(), server)).await
            })
        });
        let requests: Vec<_> = requests.collect();
        if !requests.is_empty()
            && let Ok((map, _)) = select_ok(requests).await
        {
            return Ok(map);
        }
        let (sender, mut results) = mpsc::unbounded_channel();
        for server in self.configured.clone() {
            let (context, config, sender) =
                (self.context.clone(), self.servers.config_for(&server), sender.clone());
            self.context.spawn(async move {
                let _ = sender.send(fetch_once(&context, config, &server).await);
            });
        }
        drop(sender);
        let mut last_error = FredError::new(ErrorKind::Cluster, "no server of the Cluster answers");
        while let Some(result) = results.recv().await {
            match result {
                Ok(map) => return Ok(map),
                // A refusal is more useful to report than another server that is down.
                Err(error) if !matches!(CallFault::classify(&last_error), CallFault::Refused(_)) => {
                    last_error = error;
                }
                Err(_) => {}
            }
        }
        Err(last_error)
    }
}

/// Fetches the map of slots on a connection of its own.
async fn fetch_once(context: &EngineContext, config: Config, server: &Server) -> Result<SlotMap, FredError> {
    let connection = ServerConnection::open(config, context, context.options.command_timeout).await?;
    let map = connection.call(fetch_slot_map(connection.client(), server)).await;
    connection.close().await;
    map
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no code panics while it holds the map")
}
