//! The background tasks of a server. Knows no signals and no servers; the composition root decides when a stage stops.

use std::sync::{Arc, OnceLock};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// When a task is stopped. The stages are stopped one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stage {
    /// Tasks that answer clients or call endpoints. They begin nothing more, and end once nothing is in flight.
    Serving,
    /// Tasks that go on until all of those have ended.
    Supporting,
}

/// The background tasks of the process. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct BackgroundTasks(Arc<TaskStages>);

#[derive(Debug, Default)]
struct TaskStages {
    serving: StageTasks,
    supporting: StageTasks,
    failing: CancellationToken,
    failure: OnceLock<String>,
}

/// The tasks of one stage.
#[derive(Debug, Default)]
struct StageTasks {
    stop: CancellationToken,
    running: TaskTracker,
}

impl BackgroundTasks {
    fn stage(&self, stage: Stage) -> &StageTasks {
        match stage {
            Stage::Serving => &self.0.serving,
            Stage::Supporting => &self.0.supporting,
        }
    }

    /// Runs a task, which is given the token that stops its stage. If it ends before, or panics at any time, that is a failure:
    /// a server must not run on without its timer.
    pub fn spawn<F>(&self, stage: Stage, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let StageTasks { stop, running } = self.stage(stage);
        let guard = TaskGuard { tasks: self.clone(), name, stop: stop.clone() };
        let task = task(stop.clone());
        running.spawn(async move {
            let _guard = guard;
            task.await;
        });
    }

    /// Stops a stage, and waits until its tasks have ended.
    pub async fn stop(&self, stage: Stage) {
        let StageTasks { stop, running } = self.stage(stage);
        stop.cancel();
        running.close();
        running.wait().await;
    }

    /// Waits until something has failed.
    pub async fn failed(&self) {
        self.0.failing.cancelled().await;
    }

    /// The first failure, if there was one.
    pub fn failure(&self) -> Option<&str> {
        self.0.failure.get().map(String::as_str)
    }

    /// Records a failure; the first one is kept.
    fn fail(&self, why: String) {
        tracing::error!(%why, "shutting down after a failure");
        let _ = self.0.failure.set(why);
        self.0.failing.cancel();
    }
}

/// Observes how a task ends. It is dropped after a panic, too.
struct TaskGuard {
    tasks: BackgroundTasks,
    name: &'static str,
    stop: CancellationToken,
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tasks.fail(format!("the {} panicked", self.name));
        } else if !self.stop.is_cancelled() {
            self.tasks.fail(format!("the {} ended by itself", self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn stages_stop_one_after_the_other_without_a_failure() {
        let tasks = BackgroundTasks::default();
        let (ended, mut has_ended) = oneshot::channel();
        tasks.spawn(Stage::Serving, "HTTP server", CancellationToken::cancelled_owned);
        tasks.spawn(Stage::Supporting, "timer", |stop| async move {
            stop.cancelled().await;
            ended.send(()).expect("the test waits");
        });
        tasks.stop(Stage::Serving).await;
        assert!(has_ended.try_recv().is_err(), "the timer still runs");
        tasks.stop(Stage::Supporting).await;
        assert!(has_ended.try_recv().is_ok());
        assert_eq!(tasks.failure(), None);
    }

    #[tokio::test]
    async fn a_task_that_ends_by_itself_is_a_failure() {
        let tasks = BackgroundTasks::default();
        tasks.spawn(Stage::Supporting, "timer", |_| async {});
        tasks.failed().await;
        assert_eq!(tasks.failure(), Some("the timer ended by itself"));
    }

    #[tokio::test]
    async fn a_panic_is_a_failure_even_while_stopping() {
        let tasks = BackgroundTasks::default();
        tasks.spawn(Stage::Supporting, "timer", |stop| async move {
            stop.cancelled().await;
            panic!("on purpose");
        });
        tasks.stop(Stage::Supporting).await;
        assert_eq!(tasks.failure(), Some("the timer panicked"));
    }
}
