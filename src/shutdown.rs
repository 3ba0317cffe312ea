//! Background tasks and their end: which of them still run, and whether one failed. It knows no
//! signals and no servers; the composition root decides what stops in which order.

use std::sync::{Arc, OnceLock};

use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Shared by everything that runs in the background. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    failing: CancellationToken,
    tasks: TaskTracker,
    failure: Arc<OnceLock<String>>,
}

impl Shutdown {
    /// Nothing runs, nothing has failed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a failure; the first one is kept.
    pub fn fail(&self, why: String) {
        tracing::error!(%why, "shutting down after a failure");
        let _ = self.failure.set(why);
        self.failing.cancel();
    }

    /// Returns once something has failed.
    pub async fn failed(&self) {
        self.failing.cancelled().await;
    }

    /// Why the first part failed, if any did.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Runs `task` until `stop`, and counts it as a failure when it ends before, or panics at any
    /// time: a server without its timer must not limp on.
    pub fn spawn<F>(&self, name: &'static str, stop: CancellationToken, task: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let watch = Watch { shutdown: self.clone(), name, stop };
        self.tasks.spawn(async move {
            let _watch = watch;
            task.await;
        })
    }

    /// Waits until every spawned task has ended.
    pub async fn finished(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Notices how a task ends, also by a panic, because it is dropped then too.
struct Watch {
    shutdown: Shutdown,
    name: &'static str,
    stop: CancellationToken,
}

impl Drop for Watch {
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
    async fn a_task_that_stops_when_told_is_no_failure() {
        let (shutdown, stop) = (Shutdown::new(), CancellationToken::new());
        shutdown.spawn("timer", stop.clone(), stop.clone().cancelled_owned());
        stop.cancel();
        shutdown.finished().await;
        assert_eq!(shutdown.failure(), None);
    }

    #[tokio::test]
    async fn a_task_that_ends_by_itself_asks_for_the_end() {
        let shutdown = Shutdown::new();
        shutdown.spawn("timer", CancellationToken::new(), async {});
        shutdown.failed().await;
        assert_eq!(shutdown.failure(), Some("the timer ended by itself"));
    }

    #[tokio::test]
    async fn a_panic_is_noticed_even_while_stopping() {
        let (shutdown, stop) = (Shutdown::new(), CancellationToken::new());
        stop.cancel();
        shutdown.spawn("timer", stop, async { panic!("on purpose") });
        shutdown.finished().await;
        assert_eq!(shutdown.failure(), Some("the timer panicked"));
    }
}
