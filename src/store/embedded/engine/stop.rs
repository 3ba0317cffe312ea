//! How the engine ends: when it is closed, and when it is dropped.

use std::{sync::MutexGuard, thread::JoinHandle};

use super::EmbeddedStore;
use crate::store::{Error, Result};

impl EmbeddedStore {
    fn lock_writer(&self) -> MutexGuard<'_, Option<JoinHandle<Result<()>>>> {
        self.writer.lock().expect("no code panics while it holds the lock")
    }

    pub(super) async fn stop(&self) -> Result<()> {
        let ids = self.ids.stop();
        // The writer empties the log at its end, while no other connection may be reading the database.
        let _ = tokio::task::spawn_blocking(move || ids.map(JoinHandle::join)).await;
        self.published.request_clean_stop();
        self.queue.close();
        let writer = self.lock_writer().take();
        let stopped = tokio::task::spawn_blocking(move || writer.map_or(Ok(Ok(())), JoinHandle::join));
        match stopped.await {
            Ok(Ok(result)) => result,
            Ok(Err(_panic)) => Err(self.published.stop_error()),
            Err(_cancelled) => Err(Error::Unavailable("the stop was interrupted".to_owned())),
        }
    }
}

impl Drop for EmbeddedStore {
    /// Without [`close`](crate::store::Store::close) the writer runs the queued operations, and makes no checkpoint, so the wait is
    /// short. The next start recovers the rest.
    fn drop(&mut self) {
        self.queue.close();
        let _ = self.ids.stop();
        let writer = self.lock_writer().take();
        // A listener may have the last reference, so that the writer's own thread drops the engine.
        if let Some(writer) = writer.filter(|writer| writer.thread().id() != std::thread::current().id()) {
            let _ = writer.join();
        }
    }
}
