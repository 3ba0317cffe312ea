//! Which servers of a Cluster do not reply. Only calls that need such a server wait for it: the jobs of
//! the other servers are promoted and delivered meanwhile. The sweep's calls notice when it replies again.

use std::{
    collections::HashSet,
    pin::pin,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use fred::types::config::Server;
use tokio::sync::watch;

use crate::{
    clock::Clock,
    store::{Error, Result, redis::context::EngineContext},
};

/// The servers that have not replied yet, or did not reply to the last call.
#[derive(Debug, Default)]
pub struct UnresponsiveServers {
    servers: Mutex<HashSet<Server>>,
    /// Whether there are any, so that no call takes the lock while all servers reply.
    any: AtomicBool,
    /// Changed when a server replies again.
    recovered: watch::Sender<()>,
}

impl UnresponsiveServers {
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    pub fn contains(&self, server: &Server) -> bool {
        self.lock().contains(server)
    }

    /// A receiver that changes when one of these servers replies again, from this call on.
    pub fn recoveries(&self) -> watch::Receiver<()> {
        self.recovered.subscribe()
    }

    /// Awaits a call to `server`, and remembers whether it is unresponsive.
    pub async fn observe<T>(
        &self,
        context: &EngineContext,
        server: impl Fn() -> Option<Server>,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mark = |unresponsive| {
            if let Some(server) = server() {
                self.mark(&server, unresponsive);
            }
        };
        let mut call = pin!(call);
        let result = tokio::select! {
            biased;
            result = &mut call => result,
            () = context.clock.sleep(context.options.prompt_timeout) => {
                mark(true);
                call.await
            }
        };
        mark(result.as_ref().is_err_and(Error::is_unavailable));
        result
    }

    fn mark(&self, server: &Server, unresponsive: bool) {
        if !unresponsive && !self.any() {
            return;
        }
        let mut servers = self.lock();
        let recovered = if unresponsive {
            servers.insert(server.clone());
            false
        } else {
            servers.remove(server)
        };
        self.any.store(!servers.is_empty(), Ordering::Relaxed);
        drop(servers);
        if recovered {
            self.recovered.send_replace(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Server>> {
        self.servers.lock().expect("no code panics while it holds the servers")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_replies_again_is_announced_once_also_to_a_receiver_that_did_not_wait() {
        let (servers, server) = (UnresponsiveServers::default(), Server::new("a", 1));
        let mut recoveries = servers.recoveries();
        let is_announced_by = |unresponsive| {
            servers.mark(&server, unresponsive);
            let announced = recoveries.has_changed().expect("there is a sender");
            recoveries.mark_unchanged();
            announced
        };
        assert_eq!(
            [false, true, true, false, false].map(is_announced_by),
            [false, false, false, true, false]
        );
    }
}
