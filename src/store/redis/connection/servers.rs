//! Servers to several servers, by address. Each is opened once for all who need it, in a task of its
//! own and outside of every lock: a server that cannot be reached holds up only those who need it. Knows no
//! slots.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use fred::{
    error::{Error as FredError, ErrorKind},
    types::config::{Config, Server, ServerConfig},
};
use tokio::sync::watch;

use super::{call::micros, fitness, inspect::Refusal, node::Node};
use crate::clock::Clock;
use crate::store::redis::Context;

/// How long a failed attempt counts before the next one is made.
const FAILED_FOR: Duration = Duration::from_secs(1);
/// How often a server that stays away is logged.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// The connections.
#[derive(Debug)]
pub struct Servers {
    context: Context,
    /// Describes any server but for its address.
    config: Config,
    known: Mutex<HashMap<Server, watch::Receiver<State>>>,
}

#[derive(Debug, Clone)]
enum State {
    /// `logged_us` is when earlier failures were last logged.
    Opening {
        logged_us: Option<i64>,
    },
    Open(Arc<Node>),
    Failed {
        refusal: Refusal,
        at_us: i64,
        logged_us: i64,
    },
}

impl Servers {
    pub fn new(context: Context, config: Config) -> Self {
        Self { context, config, known: Mutex::default() }
    }

    /// The connection to a server, opened if it is not; the callers of one opening share its outcome. A server
    /// that is not fit to hold jobs is not used. Takes
    /// as long as the opening: a caller with less patience may stop waiting.
    pub async fn get(&self, server: &Server) -> Result<Arc<Node>, Refusal> {
        let mut state = self.opening(server);
        let ended = state.wait_for(|state| !matches!(state, State::Opening { .. })).await;
        match ended.as_deref() {
            Ok(State::Open(node)) => Ok(node.clone()),
            Ok(State::Failed { refusal, .. }) => Err(refusal.clone()),
            Ok(State::Opening { .. }) | Err(_) => Err(Refusal::Unreachable(closed())),
        }
    }

    /// The connection to a server if it is open.
    pub fn get_open(&self, server: &Server) -> Option<Arc<Node>> {
        match &*self.lock().get(server)?.borrow() {
            State::Open(node) => Some(node.clone()),
            State::Opening { .. } | State::Failed { .. } => None,
        }
    }

    /// Begins to open the connection to a server, unless it is open or that failed a moment ago.
    pub fn open(&self, server: &Server) {
        drop(self.opening(server));
    }

    fn opening(&self, server: &Server) -> watch::Receiver<State> {
        let now_us = self.context.real.now_micros();
        let mut known = self.lock();
        let mut logged_us = None;
        if let Some(state) = known.get(server) {
            match &*state.borrow() {
                State::Failed { at_us, logged_us: logged, .. } if now_us - at_us > micros(FAILED_FOR) => {
                    logged_us = Some(*logged);
                }
                State::Opening { .. } | State::Open(_) | State::Failed { .. } => return state.clone(),
            }
        }
        let (ended, state) = watch::channel(State::Opening { logged_us });
        known.insert(server.clone(), state.clone());
        drop(known);
        let (context, config, server) = (self.context.clone(), self.only(server), server.clone());
        self.context.tasks.spawn_on(open(context, config, server, ended), &self.context.runtime);
        state
    }

    /// Forgets a server; its connection, if there is one.
    pub fn remove(&self, server: &Server) -> Option<Arc<Node>> {
        let removed = self.lock().remove(server)?;
        match &*removed.borrow() {
            State::Open(node) => Some(node.clone()),
            State::Opening { .. } | State::Failed { .. } => None,
        }
    }

    /// Forgets all servers; the connections that are open.
    pub fn remove_all(&self) -> Vec<Arc<Node>> {
        let servers: Vec<Server> = self.lock().keys().cloned().collect();
        servers.iter().filter_map(|server| self.remove(server)).collect()
    }

    /// The configuration for one of the servers.
    pub fn only(&self, server: &Server) -> Config {
        let server = ServerConfig::Centralized { server: server.clone() };
        Config { server, ..self.config.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Server, watch::Receiver<State>>> {
        self.known.lock().expect("no code panics while it holds the connections")
    }
}

/// Opens a connection and publishes the outcome.
async fn open(context: Context, config: Config, server: Server, ended: watch::Sender<State>) {
    let opened = tokio::select! {
        opened = open_and_judge(config, &context) => opened,
        () = context.closing.cancelled() => Err(Refusal::Unreachable(closed())),
    };
    let State::Opening { logged_us: failing } = ended.borrow().clone() else { return };
    let state = match opened {
        Ok(node) => {
            if failing.is_some() {
                tracing::info!(%server, "a Redis server can be used again");
            }
            State::Open(node)
        }
        Err(refusal) => {
            let at_us = context.real.now_micros();
            let recent = failing.filter(|logged_us| at_us - logged_us < micros(LOG_EVERY));
            if recent.is_none() && !context.closing.is_cancelled() {
                let why = refusal.to_string();
                tracing::warn!(%server, why, "a Redis server cannot be used");
            }
            State::Failed { refusal, at_us, logged_us: recent.unwrap_or(at_us) }
        }
    };
    // When nobody waits any more and the server is forgotten, the connection ends here.
    let _ = ended.send(state);
}

async fn open_and_judge(config: Config, context: &Context) -> Result<Arc<Node>, Refusal> {
    let node = Arc::new(Node::open(config, context).await.map_err(Refusal::Unreachable)?);
    fitness::begin(&node, context).await?;
    Ok(node)
}

fn closed() -> FredError {
    FredError::new(ErrorKind::Canceled, "the store is closed")
}
