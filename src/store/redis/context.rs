//! What every part of the engine that opens connections or runs tasks needs. Knows no server and no job.

use std::{sync::Arc, time::Duration};

use fred::error::{Error as FredError, ErrorKind};
use futures_util::future::BoxFuture;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{layout::LayoutState, options::Options, tls::RedisTls};
use crate::{
    clock::{Clock, SystemClock},
    messages::failure_log::FailureLog,
    metrics::EngineMetrics,
};

/// Options, clock and tasks of one engine. Clones share everything.
#[derive(Debug, Clone)]
pub struct EngineContext {
    pub options: Arc<Options>,
    /// TLS for every connection, if the options ask for it.
    pub tls: Option<RedisTls>,
    pub metrics: EngineMetrics,
    /// Real time, for pauses, deadlines and the sweep: it passes even in tests that stop the jobs' clock.
    pub clock: Arc<SystemClock>,
    pub tasks: TaskTracker,
    pub runtime: tokio::runtime::Handle,
    pub closing: CancellationToken,
    pub layout: Arc<LayoutState>,
    /// A server that hangs makes all its connections fail at once, which is worth one line.
    connection_losses: Arc<FailureLog>,
}

impl EngineContext {
    /// Must be called on the runtime that the engine's tasks run on.
    pub fn new(options: Options, tls: Option<RedisTls>, metrics: EngineMetrics) -> Self {
        Self {
            options: Arc::new(options),
            tls,
            metrics,
            clock: Arc::new(SystemClock::new()),
            tasks: TaskTracker::new(),
            runtime: tokio::runtime::Handle::current(),
            closing: CancellationToken::new(),
            layout: Arc::default(),
            connection_losses: Arc::default(),
        }
    }

    pub fn now_us(&self) -> i64 {
        self.clock.now_micros()
    }

    /// Runs a task that the engine waits for when it closes. The caller may be on any runtime.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        // Boxed: for the type of each task the compiler would make the runtime's part anew.
        let task: BoxFuture<'static, T> = Box::pin(task);
        self.tasks.spawn_on(task, &self.runtime)
    }

    /// Sleeps; returns false at once when the engine closes.
    pub async fn sleep_unless_closing(&self, duration: Duration) -> bool {
        tokio::select! {
            () = self.clock.sleep(duration) => true,
            () = self.closing.cancelled() => false,
        }
    }

    /// Logs that a connection to `server` was lost, if that was because the server did not answer.
    pub fn log_connection_loss(&self, server: &str, cause: &FredError) {
        let unresponsive = cause.kind() == &ErrorKind::Timeout;
        if unresponsive && self.connection_losses.failed(self.now_us()) {
            tracing::warn!(
                server,
                cause = cause.details(),
                "closed a connection to Redis that did not answer"
            );
        }
    }
}
