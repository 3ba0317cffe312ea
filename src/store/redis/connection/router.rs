//! Which server holds which slot. Standalone has one server for ever; for a Cluster we keep the map of
//! slots ourselves and follow `MOVED` and `ASK`; behind Sentinel the present primary holds all slots.
//!
//! Nobody waits for a server but those who need it: connections are opened aside (`servers.rs`), and one
//! task finds the servers anew for all who ask for that.
//!
//! The library can do both, too. But with its own resending off one `ASK` ends its connection task, a
//! `WAIT` must go down the connection that wrote, and cut off from a primary it did not find the next
//! one in half a minute.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

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
    client::{Connection, with_credentials},
    error::{ConnectError, Fault},
    fitness,
    inspect::Refusal,
    node::Node,
    sentinel::Sentinels,
    servers::Servers,
    slots::{ALL, Range, slots},
};
use crate::clock::Clock;
use crate::store::redis::{Context, Mode, Options, Secret};

/// How often sentinels are asked for the primary while all goes well: an old one that was cut off may
/// go on answering.
const WATCH: Duration = Duration::from_secs(1);

/// The servers and their slots.
#[derive(Debug)]
pub struct Routes {
    context: Context,
    config: Config,
    kind: Kind,
    /// Which server passes announcements on next.
    turn: AtomicUsize,
}

#[derive(Debug)]
enum Kind {
    One(Arc<Node>),
    Found(Arc<Found>),
}

/// Servers that have to be found, and found again.
#[derive(Debug)]
struct Found {
    context: Context,
    by: Source,
    /// Where to ask when no known server answers.
    configured: Vec<Server>,
    servers: Servers,
    map: Mutex<Arc<Map>>,
    /// The latest search, which all who ask for one share while it lasts.
    search: Mutex<Option<Search>>,
}

type Search = Shared<BoxFuture<'static, Result<(), FredError>>>;

/// Who knows.
#[derive(Debug)]
enum Source {
    Cluster,
    Sentinels(Sentinels),
}

/// One view of which server holds what.
#[derive(Debug, Default)]
struct Map {
    slots: Vec<Range>,
    servers: BTreeSet<Server>,
}

impl Map {
    fn new(slots: Vec<Range>) -> Self {
        let servers = slots.iter().map(|(.., server)| server.clone()).collect();
        Self { slots, servers }
    }

    fn holder(&self, slot: u16) -> Option<&Server> {
        let held = |(first, last, _): &&Range| (*first..=*last).contains(&slot);
        self.slots.iter().find(held).map(|(.., server)| server)
    }
}

impl Routes {
    /// Connects to all servers.
    pub async fn open(context: Context) -> Result<Self, ConnectError> {
        let config = context.options.mode.config().map_err(ConnectError::Options)?;
        let place = context.options.mode.to_string();
        let by = match &context.options.mode {
            Mode::Standalone { .. } => None,
            Mode::Cluster { .. } => Some(Source::Cluster),
            Mode::Sentinel { service, username, password, .. } => Some(Source::Sentinels(Sentinels {
                hosts: config.server.hosts(),
                service: service.clone(),
                username: username.clone(),
                password: password.clone(),
                of_servers: credentials(&config, &context.options),
            })),
        };
        let kind = match by {
            None => {
                let opened = Node::open(config.clone(), &context).await;
                let node = Arc::new(opened.map_err(|error| ConnectError::of(&place, &error))?);
                let judged = fitness::begin(&node, &context).await;
                judged.map_err(|refusal| refused(&place, refusal))?;
                Kind::One(node)
            }
            Some(by) => Kind::Found(Arc::new(Found {
                by,
                configured: config.server.hosts(),
                servers: Servers::new(context.clone(), config.clone()),
                map: Mutex::default(),
                search: Mutex::default(),
                context: context.clone(),
            })),
        };
        if let Kind::Found(found) = &kind {
            found.search().await.map_err(|error| ConnectError::of(&place, &error))?;
            let map = found.map();
            let opening = map.servers.iter().map(|server| async move {
                let opened = found.servers.get(server).await;
                opened.map_err(|refusal| refused(&server.to_string(), refusal))
            });
            join_all(opening).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        }
        Ok(Self { context, config, kind, turn: AtomicUsize::new(0) })
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

    /// The connection to the server that holds `slot`, as far as we know. Waits until it is open: a caller
    /// with less patience may stop waiting.
    pub async fn holder(&self, slot: u16) -> Result<Arc<Node>, FredError> {
        match &self.kind {
            Kind::One(node) => Ok(node.clone()),
            Kind::Found(found) => {
                let none = || FredError::new(ErrorKind::Cluster, "no server holds the slot");
                let map = found.map();
                Ok(found.servers.get(map.holder(slot).ok_or_else(none)?).await?)
            }
        }
    }

    /// The address of the server that holds `slot`, where there are several.
    pub fn address(&self, slot: u16) -> Option<Server> {
        match &self.kind {
            Kind::One(_) => None,
            Kind::Found(found) => found.map().holder(slot).cloned(),
        }
    }

    /// Every server that there is a connection to.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        match &self.kind {
            Kind::One(node) => vec![node.clone()],
            Kind::Found(found) => {
                let map = found.map();
                map.servers.iter().filter_map(|server| found.servers.get_open(server)).collect()
            }
        }
    }

    /// How to reach a server that passes announcements on, another one each time where there are several.
    /// Every server of a Cluster passes on those of all.
    pub fn next_announcer(&self) -> Option<Config> {
        let Kind::Found(found) = &self.kind else { return Some(self.config.clone()) };
        let map = found.map();
        let open = |server: &&Server| found.servers.get_open(server).is_some();
        let servers: Vec<&Server> = map.servers.iter().filter(open).collect();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        (!servers.is_empty()).then(|| found.servers.only(servers[turn % servers.len()]))
    }

    /// Whether what `config` leads to is still one of the servers.
    pub fn leads_on(&self, config: &Config) -> bool {
        let Kind::Found(found) = &self.kind else { return true };
        let map = found.map();
        config.server.hosts().iter().all(|server| map.servers.contains(server))
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
        let nodes = match &self.kind {
            Kind::One(node) => vec![node.clone()],
            Kind::Found(found) => found.servers.remove_all(),
        };
        join_all(nodes.iter().map(|node| node.close())).await;
    }

    /// The connection to the server at an address that an `ASK` named; one that gets its first slot is not in
    /// the map yet. Waits as [`holder`](Self::holder) does.
    pub async fn at(&self, server: &Server) -> Result<Arc<Node>, FredError> {
        match &self.kind {
            Kind::Found(found) => Ok(found.servers.get(server).await?),
            Kind::One(_) => {
                Err(FredError::new(ErrorKind::Cluster, "a server without a Cluster named another"))
            }
        }
    }

    /// Finds the servers anew, unless since `seen` was the holder of `slot` somebody did. Those who ask at the
    /// same time share one search, which goes on when a caller stops waiting for it.
    pub async fn look(&self, seen: Option<(u16, &Arc<Node>)>) -> Result<(), FredError> {
        let Kind::Found(found) = &self.kind else { return Ok(()) };
        let overtaken = |(slot, node): (u16, &Arc<Node>)| {
            let map = found.map();
            let holder = map.holder(slot).map(|server| found.servers.get_open(server));
            holder.is_some_and(|open| open.is_none_or(|open| !Arc::ptr_eq(&open, node)))
        };
        if seen.is_some_and(overtaken) { Ok(()) } else { found.search().await }
    }
}

impl Found {
    fn map(&self) -> Arc<Map> {
        lock(&self.map).clone()
    }

    /// The search that is under way, or a new one.
    fn search(self: &Arc<Self>) -> Search {
        let mut latest = lock(&self.search);
        if let Some(search) = latest.as_ref().filter(|search| Search::clone(search).now_or_never().is_none())
        {
            return search.clone();
        }
        let found = self.clone();
        let searching = async move {
            let closing = found.context.closing.clone();
            tokio::select! {
                searched = found.find() => searched,
                () = closing.cancelled() => Err(FredError::new(ErrorKind::Canceled, "the store is closed")),
            }
        };
        let task = self.context.tasks.spawn_on(searching, &self.context.runtime);
        let ended = || FredError::new(ErrorKind::Canceled, "the search ended early");
        let search = async move { task.await.unwrap_or_else(|_| Err(ended())) }.boxed().shared();
        *latest = Some(search.clone());
        search
    }

    async fn find(&self) -> Result<(), FredError> {
        let old = self.map();
        let slots = match &self.by {
            Source::Cluster => self.ask_any(&old).await?,
            Source::Sentinels(sentinels) => {
                let primary = sentinels.primary().await?;
                // The old one stays while the new one cannot be reached: the sentinels may be mistaken. One
                // that is not fit is the primary all the same; nobody is to use it, nor the old one.
                if let Err(Refusal::Unreachable(error)) = self.servers.get(&primary).await {
                    return Err(error);
                }
                vec![(ALL.0, ALL.1, primary)]
            }
        };
        let new = Map::new(slots);
        for server in &new.servers {
            // Nobody waits for it here; its slots have no use until it is open.
            self.servers.open(server);
        }
        let gone: Vec<Server> = old.servers.difference(&new.servers).cloned().collect();
        *lock(&self.map) = Arc::new(new);
        for server in gone {
            tracing::info!(%server, "a Redis server is no primary any more");
            if let Some(node) = self.servers.remove(&server) {
                // Its callers have an answer or an error by then; nobody waits for it.
                self.context.tasks.spawn(async move { node.close().await });
            }
        }
        Ok(())
    }

    /// Asks all known servers at once, or else the configured ones, who holds what.
    async fn ask_any(&self, old: &Map) -> Result<Vec<Range>, FredError> {
        // One that is stopped or cut off must not hold up what the others can tell.
        let open = |server| Some((server, self.servers.get_open(server)?));
        let asked = old.servers.iter().filter_map(open).map(|(server, node)| {
            Box::pin(async move {
                let connection = node.connection()?;
                connection.call(slots(connection.client(), server)).await
            })
        });
        let asked: Vec<_> = asked.collect();
        if !asked.is_empty()
            && let Ok((slots, _)) = select_ok(asked).await
        {
            return Ok(slots);
        }
        let (answer, mut answers) = mpsc::unbounded_channel();
        for server in self.configured.clone() {
            let (context, config, answer) =
                (self.context.clone(), self.servers.only(&server), answer.clone());
            self.context.tasks.spawn(async move {
                let options = &context.options;
                let slots = match Connection::open(config, options, options.command_timeout).await {
                    Ok(connection) => {
                        let slots = connection.call(slots(connection.client(), &server)).await;
                        connection.close().await;
                        slots
                    }
                    Err(error) => Err(error),
                };
                let _ = answer.send(slots);
            });
        }
        drop(answer);
        let mut last = FredError::new(ErrorKind::Cluster, "no server of the Cluster answers");
        while let Some(slots) = answers.recv().await {
            match slots {
                Ok(slots) => return Ok(slots),
                // A refusal says more than that another one is away.
                Err(error) if !matches!(Fault::sort(&last), Fault::Refused(_)) => last = error,
                Err(_) => {}
            }
        }
        Err(last)
    }
}

/// User and password of the servers.
fn credentials(config: &Config, options: &Options) -> (Option<String>, Option<Secret>) {
    let config = with_credentials(config.clone(), options);
    (config.username, config.password.map(|password| Secret::new(&password)))
}

fn refused(at: &str, refusal: Refusal) -> ConnectError {
    match refusal {
        Refusal::Unreachable(error) => ConnectError::of(at, &error),
        Refusal::Unfit(why) => ConnectError::Unfit { at: at.to_owned(), why },
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no code panics while it holds the map")
}
