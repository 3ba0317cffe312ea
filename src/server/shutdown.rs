//! Background tasks: which of them still run, and whether one failed. Knows no signals and no servers; the composition
//! root decides what stops in which order.

use std::sync::{Arc, OnceLock};

use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Tracks the background tasks of the process. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    failing: CancellationToken,
    tasks: TaskTracker,
    failure: Arc<OnceLock<String>>,
}

impl Shutdown {
    /// No task runs and nothing has failed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a failure; the first one is kept.
    pub fn fail(&self, why: String) {
        tracing::error!(%why, "shutting down after a failure");
        let _ = self.failure.set(why);
        self.failing.cancel();
    }

    /// Waits until something has failed.
    pub async fn failed(&self) {
        self.failing.cancelled().await;
    }

    /// The first failure, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Runs `task` until `stop`. If it ends before, or panics at any time, that is a failure: a server must not run on
    /// without its timer.
    pub fn spawn<F>(&self, name: &'static str, stop: CancellationToken, task: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let guard = TaskGuard { shutdown: self.clone(), name, stop };
        self.tasks.spawn(async move {
            let _guard = guard;
            task.await;
        })
    }

    /// Waits until every spawned task has ended.
    pub async fn wait(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Observes how a task ends. It is dropped after a panic, too.
struct TaskGuard {
    shutdown: Shutdown,
    name: &'static str,
    stop: CancellationToken,
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shutdown.fail(format!("the {} panicked", self.name));
        } else if !self.stop.is_cancelled() {
            self.shutdown.fail(format!("the {} ended by itself", self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_stops_on_request_is_no_failure() {
        let (shutdown, stop) = (Shutdown::new(), CancellationToken::new());
        shutdown.spawn("timer", stop.clone(), stop.clone().cancelled_owned());
        stop.cancel();
        shutdown.wait().await;
        assert_eq!(shutdown.failure(), None);
    }

    #[tokio::test]
    async fn a_task_that_ends_by_itself_is_a_failure() {
        let shutdown = Shutdown::new();
        shutdown.spawn("timer", CancellationToken::new(), async {});
        shutdown.failed().await;
        assert_eq!(shutdown.failure(), Some("the timer ended by itself"));
    }

    #[tokio::test]
    async fn a_panic_is_a_failure_even_while_stopping() {
        let (shutdown, stop) = (Shutdown::new(), CancellationToken::new());
        stop.cancel();
        shutdown.spawn("timer", stop, async { panic!("on purpose") });
        shutdown.wait().await;
        assert_eq!(shutdown.failure(), Some("the timer panicked"));
    }
}
