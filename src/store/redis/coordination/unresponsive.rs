//! Which servers of a Cluster do not answer. Nobody waits for them but those who need just them: the jobs of
//! the other servers are promoted and handed out meanwhile. The sweep's calls find out when they answer again.

use std::{
    collections::HashSet,
    pin::pin,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use fred::types::config::Server;

use crate::store::redis::{Engine, keys::Shard};
use crate::{
    clock::Clock,
    store::{Error, Result},
};

/// The servers that owe an answer, or gave none to the last call.
#[derive(Debug, Default)]
pub struct Unresponsive {
    servers: Mutex<HashSet<Server>>,
    /// Whether there are any, so that nobody looks when all is well.
    any: AtomicBool,
}

impl Unresponsive {
    fn note(&self, server: &Server, unresponsive: bool) {
        if !unresponsive && !self.any.load(Ordering::Relaxed) {
            return;
        }
        let mut servers = self.servers.lock().expect("no code panics while it holds the servers");
        if unresponsive {
            servers.insert(server.clone());
        } else {
            servers.remove(server);
        }
        self.any.store(!servers.is_empty(), Ordering::Relaxed);
    }

    fn contains(&self, server: &Server) -> bool {
        self.servers.lock().expect("no code panics while it holds the servers").contains(server)
    }
}

impl Engine {
    /// Whether jobs of other shards need not wait for an answer about this one. Never where there is one server.
    pub fn is_unresponsive(&self, shard: Shard) -> bool {
        self.unresponsive.any.load(Ordering::Relaxed)
            && self
                .routes
                .address(self.keys.shard(shard).slot)
                .is_some_and(|server| self.unresponsive.contains(&server))
    }

    /// Awaits a call about a shard, and notes whether its server answers.
    pub async fn observed<T>(&self, shard: Shard, call: impl Future<Output = Result<T>>) -> Result<T> {
        if self.routes.spans_slots() {
            return call.await;
        }
        let slot = self.keys.shard(shard).slot;
        let note = |unresponsive| {
            if let Some(server) = self.routes.address(slot) {
                self.unresponsive.note(&server, unresponsive);
            }
        };
        let mut call = pin!(call);
        let answer = tokio::select! {
            biased;
            answer = &mut call => answer,
            () = self.context.real.sleep(self.context.options.prompt_timeout) => {
                note(true);
                call.await
            }
        };
        note(matches!(answer, Err(Error::Unavailable(_))));
        answer
    }
}
