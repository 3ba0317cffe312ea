//! The tasks that an engine runs while it serves.

use std::{sync::Arc, time::Duration};

use crate::store::redis::coordination::{
    announcements::Announcements, probe::ReadyProbe, shards::Shards, sweep::Sweep,
};

/// Longest wait for the engine's tasks when it closes.
const TASKS_TIMEOUT: Duration = Duration::from_secs(3);

/// The tasks that an engine runs while it serves.
pub struct EngineTasks {
    pub shards: Arc<Shards>,
    pub announcements: Arc<Announcements>,
    pub sweep: Arc<Sweep>,
    pub probe: Arc<ReadyProbe>,
}

impl EngineTasks {
    pub fn spawn(self) {
        self.watch_sentinels();
        let context = self.shards.context();
        context.spawn(self.announcements.run());
        context.spawn(self.sweep.run());
        context.spawn(self.probe.run());
    }

    /// Only follows the primary, for an engine that does not serve.
    pub fn watch_sentinels(&self) {
        let shards = self.shards.clone();
        self.shards.context().spawn(async move { shards.router().watch_sentinels().await });
    }
}

/// Stops the tasks and closes the connections.
pub async fn close(shards: &Shards) {
    let context = shards.context();
    context.closing.cancel();
    context.tasks.close();
    if tokio::time::timeout(TASKS_TIMEOUT, context.tasks.wait()).await.is_err() {
        tracing::warn!("a task of the Redis engine did not end in time");
    }
    shards.router().close().await;
}
