//! Connections to several servers, by address. Each server is connected to once for all callers, by a task of its
//! own and outside of every lock: a server that cannot be reached blocks only the callers that need it. Knows
//! no slots.

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

use super::{inspect::Unusable, node::ServerNode};
use crate::store::redis::{context::EngineContext, time::micros};

/// How long a failed attempt counts before the next one is made.
const FAILURE_LIFETIME: Duration = Duration::from_secs(1);
/// Time between log lines about a server that stays unusable.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The servers.
#[derive(Debug)]
pub struct ServerPool {
    context: EngineContext,
    /// The configuration of any of the servers, except for its address.
    config: Config,
    servers: Mutex<HashMap<Server, watch::Receiver<OpeningState>>>,
}

#[derive(Debug, Clone)]
enum OpeningState {
    /// `logged_us` is when an earlier failure was last logged.
    Opening {
        logged_us: Option<i64>,
    },
    Open(Arc<ServerNode>),
    Failed {
        why: Unusable,
        at_us: i64,
        logged_us: i64,
    },
}

impl ServerPool {
    pub fn new(context: EngineContext, config: Config) -> Self {
        Self { context, config, servers: Mutex::default() }
    }

    /// The server at this address, connected to if it is not yet; concurrent callers share the outcome. A server
    /// that is not fit to hold jobs is not used. Takes as long as connecting does: a caller with less time may stop
    /// waiting.
    pub async fn get(&self, server: &Server) -> Result<Arc<ServerNode>, Unusable> {
        let mut state = self.open_if_needed(server);
        let ended = state.wait_for(|state| !matches!(state, OpeningState::Opening { .. })).await;
        match ended.as_deref() {
            Ok(OpeningState::Open(node)) => Ok(node.clone()),
            Ok(OpeningState::Failed { why, .. }) => Err(why.clone()),
            Ok(OpeningState::Opening { .. }) | Err(_) => Err(Unusable::Unreachable(closed())),
        }
    }

    /// The server at this address, if it is connected.
    pub fn get_open(&self, server: &Server) -> Option<Arc<ServerNode>> {
        open_node(&self.lock().get(server)?.borrow())
    }

    /// Starts to connect to a server, unless it is connected or that failed a moment ago.
    pub fn start_opening(&self, server: &Server) {
        drop(self.open_if_needed(server));
    }

    fn open_if_needed(&self, server: &Server) -> watch::Receiver<OpeningState> {
        let now_us = self.context.now_us();
        let mut servers = self.lock();
        let mut last_logged_us = None;
        if let Some(state) = servers.get(server) {
            match &*state.borrow() {
                OpeningState::Failed { at_us, logged_us, .. }
                    if now_us - at_us > micros(FAILURE_LIFETIME) =>
                {
                    last_logged_us = Some(*logged_us);
                }
                OpeningState::Opening { .. } | OpeningState::Open(_) | OpeningState::Failed { .. } => {
                    return state.clone();
                }
            }
        }
        let (outcome, state) = watch::channel(OpeningState::Opening { logged_us: last_logged_us });
        servers.insert(server.clone(), state.clone());
        drop(servers);
        let (context, config) = (self.context.clone(), self.config_for(server));
        self.context.spawn(open(context, config, server.clone(), outcome));
        state
    }

    /// Removes a server, and returns it if it is connected.
    pub fn remove(&self, server: &Server) -> Option<Arc<ServerNode>> {
        let removed = self.lock().remove(server)?;
        open_node(&removed.borrow())
    }

    /// Removes all servers, and returns those that are connected.
    pub fn remove_all(&self) -> Vec<Arc<ServerNode>> {
        let servers: Vec<Server> = self.lock().keys().cloned().collect();
        servers.iter().filter_map(|server| self.remove(server)).collect()
    }

    /// The configuration for one of the servers.
    pub fn config_for(&self, server: &Server) -> Config {
        let server = ServerConfig::Centralized { server: server.clone() };
        Config { server, ..self.config.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Server, watch::Receiver<OpeningState>>> {
        self.servers.lock().expect("no code panics while it holds the servers")
    }
}

fn open_node(state: &OpeningState) -> Option<Arc<ServerNode>> {
    match state {
        OpeningState::Open(node) => Some(node.clone()),
        OpeningState::Opening { .. } | OpeningState::Failed { .. } => None,
    }
}

/// Connects to a server and publishes the outcome.
async fn open(context: EngineContext, config: Config, server: Server, outcome: watch::Sender<OpeningState>) {
    let opened = tokio::select! {
        opened = ServerNode::open(config, &context) => opened,
        () = context.closing.cancelled() => Err(Unusable::Unreachable(closed())),
    };
    let OpeningState::Opening { logged_us: last_logged_us } = outcome.borrow().clone() else { return };
    let state = match opened {
        Ok(node) => {
            if last_logged_us.is_some() {
                tracing::info!(%server, "a Redis server can be used again");
            }
            OpeningState::Open(node)
        }
        Err(why) => {
            let at_us = context.now_us();
            let recent = last_logged_us.filter(|logged_us| at_us - logged_us < micros(LOG_INTERVAL));
            if recent.is_none() && !context.closing.is_cancelled() {
                tracing::warn!(%server, why = why.to_string(), "a Redis server cannot be used");
            }
            OpeningState::Failed { why, at_us, logged_us: recent.unwrap_or(at_us) }
        }
    };
    // Without a receiver, because the server was removed, the connection is dropped here.
    let _ = outcome.send(state);
}

fn closed() -> FredError {
    FredError::new(ErrorKind::Canceled, "the store is closed")
}
