//! `durability = "interval"`: syncs the log some time after it was written to, beside the writer.

use std::{
    fs::File,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::JoinHandle,
    time::Duration,
};

use super::shared::Shared;
use crate::{clock::Clock, metrics::EngineMetrics, store::embedded::options::OpenError};

#[derive(Debug, Default)]
struct Desk {
    marks: Mutex<Marks>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Marks {
    written: bool,
    stopping: bool,
}

/// The syncing thread, as the writer sees it. Dropping it syncs once more and waits for the thread.
#[derive(Debug)]
pub(crate) struct Syncer {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

/// What a sync needs.
struct Task {
    log: File,
    every: Duration,
    clock: Arc<dyn Clock>,
    metrics: EngineMetrics,
    shared: Arc<Shared>,
}

impl Syncer {
    /// Starts the thread on the log at `path`, which must be there and stay the same file.
    pub fn start(
        path: &Path,
        every: Duration,
        clock: Arc<dyn Clock>,
        metrics: EngineMetrics,
        shared: Arc<Shared>,
    ) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io { path: path.to_owned(), source };
        // Held open from the start: an error of writing back is reported to every descriptor that was open.
        let task = Task { log: File::open(path).map_err(io)?, every, clock, metrics, shared };
        let desk = Arc::new(Desk::default());
        let thread = std::thread::Builder::new()
            .name("linger-sync".to_owned())
            .spawn({
                let desk = desk.clone();
                move || desk.serve(&task)
            })
            .map_err(io)?;
        Ok(Self { desk, thread: Some(thread) })
    }

    /// The log was written to.
    pub fn written(&self) {
        let mut marks = self.desk.lock();
        if !marks.written {
            marks.written = true;
            self.desk.changed.notify_one();
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.desk.lock().stopping = true;
        self.desk.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the syncing thread does not panic");
        }
    }
}

impl Desk {
    fn serve(&self, task: &Task) {
        let panicked = "no code panics while it holds the marks";
        loop {
            let marks = self.changed.wait_while(self.lock(), |m| !m.written && !m.stopping).expect(panicked);
            // Real time, not the clock's: a power cut does not wait for a test.
            let (mut marks, _) =
                self.changed.wait_timeout_while(marks, task.every, |m| !m.stopping).expect(panicked);
            let stopping = marks.stopping;
            let written = std::mem::take(&mut marks.written);
            drop(marks);
            if written && !task.sync() || stopping {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().expect("no code panics while it holds the marks")
    }
}

impl Task {
    /// Whether it worked. A failed sync is never tried again: what it should have written may be gone.
    fn sync(&self) -> bool {
        let start_us = self.clock.now_micros();
        match self.log.sync_data() {
            Ok(()) => {
                let took_us = self.clock.now_micros().saturating_sub(start_us).unsigned_abs();
                self.metrics.synced(Duration::from_micros(took_us));
                true
            }
            Err(error) => {
                self.shared.fail("the log could not be synced", &error);
                false
            }
        }
    }
}
