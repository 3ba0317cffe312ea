//! Open connections between calls, and how many there may be at a time.

use std::sync::{Mutex, MutexGuard};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    connection::{Connection, Target},
    error::Error,
};

pub(crate) struct Pool {
    /// Connections that no call uses, the one used last at the end.
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
}

/// A connection for one call. It goes back to the pool only by [`Lease::give_back`].
pub(crate) struct Lease<'a> {
    pub connection: Connection,
    pool: &'a Pool,
    _permit: SemaphorePermit<'a>,
}

impl Pool {
    pub fn new(max_connections: usize) -> Self {
        let permits = Semaphore::new(max_connections.clamp(1, Semaphore::MAX_PERMITS));
        Self { idle: Mutex::default(), permits }
    }

    /// Waits for its turn, then takes the connection that was used last, or opens one.
    pub async fn acquire(&self, target: &Target, call: &'static str) -> Result<Lease<'_>, Error> {
        let permit = self.permits.acquire().await.expect("the semaphore is never closed");
        let idle = {
            let mut idle = self.lock();
            idle.retain(|connection| !connection.is_closed());
            idle.pop()
        };
        let connection = match idle {
            Some(connection) => connection,
            None => Connection::open(target, call).await?,
        };
        Ok(Lease { connection, pool: self, _permit: permit })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().expect("no code panics while it holds the pool")
    }
}

impl Lease<'_> {
    /// Keeps the connection for the next call.
    pub fn give_back(self) {
        let Self { connection, pool, .. } = self;
        if !connection.is_closed() {
            pool.lock().push(connection);
        }
    }
}
