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
}

impl UnresponsiveServers {
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    pub fn contains(&self, server: &Server) -> bool {
        self.lock().contains(server)
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
        if unresponsive {
            servers.insert(server.clone());
        } else {
            servers.remove(server);
        }
        self.any.store(!servers.is_empty(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Server>> {
        self.servers.lock().expect("no code panics while it holds the servers")
    }
}
