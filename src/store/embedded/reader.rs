//! A connection for reading what is all on disk, so that large reads do not delay the writer. Knows neither memory nor
//! operations.

use std::sync::{Arc, Mutex, MutexGuard};

use rusqlite::Connection;

use super::rows::db::SqlResult;
use crate::store::{Error, Result};

/// The connection, until it is closed. One read at a time.
#[derive(Debug, Clone)]
pub(crate) struct Reader(Arc<Mutex<Option<Connection>>>);

impl Reader {
    pub fn new(connection: Connection) -> Self {
        Self(Arc::new(Mutex::new(Some(connection))))
    }

    /// Runs `read` on a thread that may block; `None` once the connection is closed or the runtime ends.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> SqlResult<T> + Send + 'static,
    ) -> Result<Option<T>> {
        let this = self.clone();
        let outcome = tokio::task::spawn_blocking(move || this.lock().as_ref().map(read)).await;
        outcome.ok().flatten().transpose().map_err(|error| Error::Unavailable(error.to_string()))
    }

    /// Closes the connection. Waits for a read that is under way.
    pub fn close(&self) {
        drop(self.lock().take());
    }

    fn lock(&self) -> MutexGuard<'_, Option<Connection>> {
        self.0.lock().expect("no code panics while it reads")
    }
}
