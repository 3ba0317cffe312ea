//! Which server holds which slot. Standalone and Sentinel have one server; for a Cluster we keep the
//! map of slots ourselves and follow `MOVED` and `ASK`.
//!
//! The library can follow them too, but not with its own resending off: then one `ASK` ends its
//! connection task. And a `WAIT` must go down the connection that wrote.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind},
    interfaces::ClusterInterface,
    types::{
        Value,
        config::{Config, Server, ServerConfig},
    },
};

use futures_util::future::{join_all, select_ok};

use super::{Context, Mode, link::Node};

/// The servers and their slots.
#[derive(Debug)]
pub(super) struct Routes {
    context: Context,
    config: Config,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    One(Arc<Node>),
    Cluster {
        map: Mutex<Arc<Map>>,
        /// Servers that an `ASK` named and that hold no slot yet.
        guests: tokio::sync::Mutex<HashMap<Server, Arc<Node>>>,
        /// Held while the map is read anew, so that a thousand `MOVED` cause one look.
        looking: tokio::sync::Mutex<()>,
    },
}

/// One view of a Cluster.
#[derive(Debug, Default)]
struct Map {
    nodes: HashMap<Server, Arc<Node>>,
    /// First and last slot, and who holds them.
    slots: Vec<(u16, u16, Server)>,
}

impl Map {
    fn holder(&self, slot: u16) -> Option<&Arc<Node>> {
        let held = |(first, last, _): &&(u16, u16, Server)| (*first..=*last).contains(&slot);
        self.nodes.get(&self.slots.iter().find(held)?.2)
    }
}

impl Routes {
    /// Connects to all servers.
    pub async fn open(context: Context) -> Result<Self, FredError> {
        let config = context
            .options
            .mode
            .config()
            .map_err(|faults| FredError::new(ErrorKind::Config, faults.join("; ")))?;
        let kind = match context.options.mode {
            Mode::Standalone { .. } | Mode::Sentinel { .. } => {
                Kind::One(Arc::new(Node::open(config.clone(), &context).await?))
            }
            Mode::Cluster { .. } => Kind::Cluster {
                map: Mutex::default(),
                guests: Default::default(),
                looking: Default::default(),
            },
        };
        let routes = Self { context, config, kind };
        routes.look(None).await?;
        Ok(routes)
    }

    /// Whether one script may be given the keys of several slots.
    pub fn spans_slots(&self) -> bool {
        matches!(self.kind, Kind::One(_))
    }

    /// Who holds `slot`, as far as we know.
    pub fn holder(&self, slot: u16) -> Option<Arc<Node>> {
        match &self.kind {
            Kind::One(node) => Some(node.clone()),
            Kind::Cluster { map, .. } => lock(map).holder(slot).cloned(),
        }
    }

    /// Every server.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        match &self.kind {
            Kind::One(node) => vec![node.clone()],
            Kind::Cluster { map, .. } => lock(map).nodes.values().cloned().collect(),
        }
    }

    /// Closes all connections, within a bound.
    pub async fn close(&self) {
        let mut nodes = self.nodes();
        if let Kind::Cluster { guests, .. } = &self.kind {
            nodes.extend(guests.lock().await.drain().map(|(_, node)| node));
        }
        join_all(nodes.iter().map(|node| node.close())).await;
    }

    /// The server at an address that an `ASK` named; one that gets its first slot is not in the map yet.
    pub async fn at(&self, server: &Server) -> Result<Arc<Node>, FredError> {
        let Kind::Cluster { map, guests, .. } = &self.kind else {
            return Err(FredError::new(ErrorKind::Cluster, "a server without a Cluster named another"));
        };
        let known = lock(map).nodes.get(server).cloned();
        if let Some(node) = known {
            return Ok(node);
        }
        let mut guests = guests.lock().await;
        if let Some(node) = guests.get(server) {
            return Ok(node.clone());
        }
        let node = Arc::new(Node::open(self.only(server), &self.context).await?);
        guests.insert(server.clone(), node.clone());
        Ok(node)
    }

    /// Reads the map of slots anew, unless somebody did since `seen` was the holder of `slot`.
    pub async fn look(&self, seen: Option<(u16, &Arc<Node>)>) -> Result<(), FredError> {
        let Kind::Cluster { map, guests, looking } = &self.kind else { return Ok(()) };
        let _looking = looking.lock().await;
        let old = lock(map).clone();
        if let Some((slot, node)) = seen
            && old.holder(slot).is_some_and(|holder| !Arc::ptr_eq(holder, node))
        {
            return Ok(());
        }
        let slots = self.ask_any(&old).await?;
        let mut guests = guests.lock().await;
        let nodes = self.nodes_of(&slots, &old, &mut guests).await?;
        let gone = old.nodes.iter().filter(|(server, _)| !nodes.contains_key(*server));
        let gone: Vec<_> = gone.map(|(_, node)| node.clone()).collect();
        *lock(map) = Arc::new(Map { nodes, slots });
        for node in gone {
            // Its callers have an answer or an error by then; nobody waits for it.
            self.context.tasks.spawn(async move { node.close().await });
        }
        Ok(())
    }

    /// The servers that hold slots: the known ones, `guests` that stay, and connections to new ones. One
    /// that cannot be reached is left out; its slots have no holder until a later look.
    async fn nodes_of(
        &self,
        slots: &[(u16, u16, Server)],
        old: &Map,
        guests: &mut HashMap<Server, Arc<Node>>,
    ) -> Result<HashMap<Server, Arc<Node>>, FredError> {
        let mut nodes: HashMap<Server, Arc<Node>> = HashMap::new();
        let mut failed = None;
        for (.., server) in slots {
            if nodes.contains_key(server) {
                continue;
            }
            if let Some(node) = old.nodes.get(server).cloned().or_else(|| guests.remove(server)) {
                nodes.insert(server.clone(), node);
                continue;
            }
            match Node::open(self.only(server), &self.context).await {
                Ok(node) => {
                    nodes.insert(server.clone(), Arc::new(node));
                }
                Err(error) => {
                    tracing::warn!(%server, %error, "a server of the Redis Cluster cannot be reached");
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) if nodes.is_empty() => Err(error),
            _ => Ok(nodes),
        }
    }

    /// Asks all known servers at once, or else the configured ones in turn, who holds what.
    async fn ask_any(&self, old: &Map) -> Result<Vec<(u16, u16, Server)>, FredError> {
        let mut last = FredError::new(ErrorKind::Cluster, "no server of the Cluster answers");
        // One that is stopped or cut off must not hold up what the others can tell.
        let asked = old.nodes.iter().map(|(server, node)| Box::pin(slots(&node.link.client, server)));
        let asked: Vec<_> = asked.collect();
        if !asked.is_empty() {
            match select_ok(asked).await {
                Ok((slots, _)) => return Ok(slots),
                Err(error) => last = error,
            }
        }
        for server in self.config.server.hosts() {
            let answer = super::link::Link::open(
                self.only(&server),
                &self.context.options,
                self.context.options.command_timeout,
            );
            match answer.await {
                Ok(link) => {
                    let slots = slots(&link.client, &server).await;
                    link.close().await;
                    match slots {
                        Ok(slots) => return Ok(slots),
                        Err(error) => last = error,
                    }
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The configuration for one server of the Cluster.
    fn only(&self, server: &Server) -> Config {
        let server = ServerConfig::Centralized { server: server.clone() };
        Config { server, ..self.config.clone() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no code panics while it holds the map")
}

/// What `asked` says of who holds which slots. One that was cut off from the others for too long takes
/// the Cluster for down; what it says of the slots may have been overtaken, and is an error.
async fn slots(client: &Client, asked: &Server) -> Result<Vec<(u16, u16, Server)>, FredError> {
    let info: String = client.cluster_info().await?;
    if info.lines().any(|line| line.trim() == "cluster_state:fail") {
        return Err(FredError::new(ErrorKind::Cluster, "a server takes the Cluster for down"));
    }
    let answer: Value = client.cluster_slots().await?;
    let ranges = answer.into_array();
    let read: Option<Vec<_>> = ranges.into_iter().map(|range| read_range(range, asked)).collect();
    match read {
        Some(slots) if !slots.is_empty() => Ok(slots),
        _ => Err(FredError::new(ErrorKind::Cluster, "CLUSTER SLOTS names no slots")),
    }
}

/// Reads `[first, last, [host, port, ...], ...]`; a server that does not know its own host leaves it
/// empty and means the one it was asked at.
fn read_range(range: Value, asked: &Server) -> Option<(u16, u16, Server)> {
    let mut range = range.into_array().into_iter();
    let first = u16::try_from(range.next()?.as_u64()?).ok()?;
    let last = u16::try_from(range.next()?.as_u64()?).ok()?;
    let mut primary = range.next()?.into_array().into_iter();
    let host = primary.next()?.as_string().filter(|host| !host.is_empty() && host != "?");
    let port = u16::try_from(primary.next()?.as_u64()?).ok()?;
    let server = host.map_or_else(|| Server::new(asked.host.clone(), port), |host| Server::new(host, port));
    Some((first, last, server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_host_is_the_one_that_was_asked() {
        let asked = Server::new("seed", 1);
        let range = |host: Value| {
            Value::Array(vec![
                0.into(),
                5_460.into(),
                Value::Array(vec![host, 7_000.into(), "node-id".into()]),
                Value::Array(vec!["replica".into(), 7_001.into()]),
            ])
        };
        assert_eq!(read_range(range("a".into()), &asked), Some((0, 5_460, Server::new("a", 7_000))));
        for unknown in [Value::Null, "".into(), "?".into()] {
            assert_eq!(read_range(range(unknown), &asked), Some((0, 5_460, Server::new("seed", 7_000))));
        }
        assert_eq!(read_range(Value::Array(vec![1.into()]), &asked), None);
    }
}
