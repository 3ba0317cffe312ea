//! Which server holds which slot. Standalone has one server for ever; for a Cluster we keep the map of
//! slots ourselves and follow `MOVED` and `ASK`; behind Sentinel the present primary holds all slots.
//!
//! The library can do both, too. But with its own resending off one `ASK` ends its connection task, a
//! `WAIT` must go down the connection that wrote, and cut off from a primary it did not find the next
//! one in half a minute.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fred::{
    error::{Error as FredError, ErrorKind},
    types::config::{Config, Server, ServerConfig},
};
use futures_util::future::{join_all, select_ok};

use super::{
    Context, Mode,
    connection::Connection,
    link::Node,
    sentinel::Sentinels,
    slots::{ALL, Range, slots},
};
use crate::clock::Clock;

/// How often sentinels are asked for the primary while all goes well: an old one that was cut off may
/// go on answering.
const WATCH: Duration = Duration::from_secs(1);

/// The servers and their slots.
#[derive(Debug)]
pub(super) struct Routes {
    context: Context,
    config: Config,
    kind: Kind,
    /// Which server passes announcements on next.
    turn: AtomicUsize,
}

#[derive(Debug)]
enum Kind {
    One(Arc<Node>),
    Found(Box<Found>),
}

/// Servers that have to be found, and found again.
#[derive(Debug)]
struct Found {
    by: Source,
    map: Mutex<Arc<Map>>,
    /// Servers that an `ASK` named and that hold no slot yet.
    guests: tokio::sync::Mutex<HashMap<Server, Arc<Node>>>,
    /// Held while the map is read anew, so that a thousand `MOVED` cause one look.
    looking: tokio::sync::Mutex<()>,
    /// How often it was.
    looks: AtomicU64,
}

/// Who knows.
#[derive(Debug)]
enum Source {
    Cluster,
    Sentinels(Sentinels),
}

/// One view of the servers.
#[derive(Debug, Default)]
struct Map {
    nodes: HashMap<Server, Arc<Node>>,
    slots: Vec<Range>,
}

impl Map {
    fn holder(&self, slot: u16) -> Option<&Arc<Node>> {
        let held = |(first, last, _): &&Range| (*first..=*last).contains(&slot);
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
        let by = match &context.options.mode {
            Mode::Standalone { .. } => None,
            Mode::Cluster { .. } => Some(Source::Cluster),
            Mode::Sentinel { service, username, password, .. } => Some(Source::Sentinels(Sentinels {
                hosts: config.server.hosts(),
                service: service.clone(),
                username: username.clone(),
                password: password.clone(),
            })),
        };
        let kind = match by {
            None => Kind::One(Arc::new(Node::open(config.clone(), &context).await?)),
            Some(by) => Kind::Found(Box::new(Found {
                by,
                map: Mutex::default(),
                guests: Default::default(),
                looking: Default::default(),
                looks: AtomicU64::new(0),
            })),
        };
        let routes = Self { context, config, kind, turn: AtomicUsize::new(0) };
        routes.look(None).await?;
        Ok(routes)
    }

    /// Whether one script may be given the keys of several slots.
    pub fn spans_slots(&self) -> bool {
        match &self.kind {
            Kind::One(_) => true,
            Kind::Found(found) => matches!(found.by, Source::Sentinels(_)),
        }
    }

    /// Whether there is one server for ever.
    pub fn has_one(&self) -> bool {
        matches!(self.kind, Kind::One(_))
    }

    /// Who holds `slot`, as far as we know.
    pub fn holder(&self, slot: u16) -> Option<Arc<Node>> {
        match &self.kind {
            Kind::One(node) => Some(node.clone()),
            Kind::Found(found) => lock(&found.map).holder(slot).cloned(),
        }
    }

    /// Every server.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        match &self.kind {
            Kind::One(node) => vec![node.clone()],
            Kind::Found(found) => lock(&found.map).nodes.values().cloned().collect(),
        }
    }

    /// How to reach a server that passes announcements on, another one each time where there are several.
    /// Every server of a Cluster passes on those of all.
    pub fn next_announcer(&self) -> Option<Config> {
        let Kind::Found(found) = &self.kind else { return Some(self.config.clone()) };
        let mut servers: Vec<Server> = lock(&found.map).nodes.keys().cloned().collect();
        servers.sort_unstable();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        (!servers.is_empty()).then(|| self.only(&servers[turn % servers.len()]))
    }

    /// Whether what `config` leads to is still one of the servers.
    pub fn leads_on(&self, config: &Config) -> bool {
        let Kind::Found(found) = &self.kind else { return true };
        let map = lock(&found.map).clone();
        config.server.hosts().iter().all(|server| map.nodes.contains_key(server))
    }

    /// Keeps asking the sentinels, where there are any, until the engine closes.
    pub async fn watch(&self) {
        if self.has_one() || !self.spans_slots() {
            return;
        }
        loop {
            tokio::select! {
                () = self.context.real.sleep(WATCH) => {}
                () = self.context.closing.cancelled() => return,
            }
            if let Err(error) = self.look(None).await {
                tracing::debug!(%error, "the sentinels were asked in vain");
            }
        }
    }

    /// Closes all connections, within a bound.
    pub async fn close(&self) {
        let mut nodes = self.nodes();
        if let Kind::Found(found) = &self.kind {
            nodes.extend(found.guests.lock().await.drain().map(|(_, node)| node));
        }
        join_all(nodes.iter().map(|node| node.close())).await;
    }

    /// The server at an address that an `ASK` named; one that gets its first slot is not in the map yet.
    pub async fn at(&self, server: &Server) -> Result<Arc<Node>, FredError> {
        let Kind::Found(found) = &self.kind else {
            return Err(FredError::new(ErrorKind::Cluster, "a server without a Cluster named another"));
        };
        let known = lock(&found.map).nodes.get(server).cloned();
        if let Some(node) = known {
            return Ok(node);
        }
        let mut guests = found.guests.lock().await;
        if let Some(node) = guests.get(server) {
            return Ok(node.clone());
        }
        let node = Arc::new(Node::open(self.only(server), &self.context).await?);
        guests.insert(server.clone(), node.clone());
        Ok(node)
    }

    /// Finds the servers anew, unless somebody did since this was called, or since `seen` was the holder
    /// of `slot`.
    pub async fn look(&self, seen: Option<(u16, &Arc<Node>)>) -> Result<(), FredError> {
        let Kind::Found(found) = &self.kind else { return Ok(()) };
        let looks = found.looks.load(Ordering::Acquire);
        let _looking = found.looking.lock().await;
        let old = lock(&found.map).clone();
        let overtaken = |(slot, node): (u16, &Arc<Node>)| {
            old.holder(slot).is_some_and(|holder| !Arc::ptr_eq(holder, node))
        };
        if found.looks.load(Ordering::Acquire) != looks || seen.is_some_and(overtaken) {
            return Ok(());
        }
        let looked = self.look_for(found, &old).await;
        found.looks.fetch_add(1, Ordering::Release);
        looked
    }

    async fn look_for(&self, found: &Found, old: &Map) -> Result<(), FredError> {
        let slots = match &found.by {
            Source::Cluster => self.ask_any(old).await?,
            Source::Sentinels(sentinels) => vec![(ALL.0, ALL.1, sentinels.primary().await?)],
        };
        let mut guests = found.guests.lock().await;
        let nodes = self.nodes_of(&slots, old, &mut guests).await?;
        let gone = old.nodes.iter().filter(|(server, _)| !nodes.contains_key(*server));
        let gone: Vec<_> = gone.map(|(server, node)| (server.clone(), node.clone())).collect();
        *lock(&found.map) = Arc::new(Map { nodes, slots });
        for (server, node) in gone {
            tracing::info!(%server, "a Redis server is no primary any more");
            // Its callers have an answer or an error by then; nobody waits for it.
            self.context.tasks.spawn(async move { node.close().await });
        }
        Ok(())
    }

    /// The servers that hold slots: the known ones, `guests` that stay, and connections to new ones. One
    /// that cannot be reached is left out; its slots have no holder until a later look.
    async fn nodes_of(
        &self,
        slots: &[Range],
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
                    tracing::warn!(%server, %error, "a Redis server cannot be reached");
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
    async fn ask_any(&self, old: &Map) -> Result<Vec<Range>, FredError> {
        let mut last = FredError::new(ErrorKind::Cluster, "no server of the Cluster answers");
        // One that is stopped or cut off must not hold up what the others can tell.
        let asked = old.nodes.iter().map(|(server, node)| {
            Box::pin(async move {
                let connection = node.connection()?;
                connection.call(slots(connection.client(), server)).await
            })
        });
        let asked: Vec<_> = asked.collect();
        if !asked.is_empty() {
            match select_ok(asked).await {
                Ok((slots, _)) => return Ok(slots),
                Err(error) => last = error,
            }
        }
        for server in self.config.server.hosts() {
            let options = &self.context.options;
            match Connection::open(self.only(&server), options, options.command_timeout).await {
                Ok(connection) => {
                    let slots = connection.call(slots(connection.client(), &server)).await;
                    connection.close().await;
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

    /// The configuration for one of several servers.
    fn only(&self, server: &Server) -> Config {
        let server = ServerConfig::Centralized { server: server.clone() };
        Config { server, ..self.config.clone() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no code panics while it holds the map")
}
