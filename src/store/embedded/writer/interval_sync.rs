//! `durability = "interval"`: a thread that syncs the write-ahead log some time after it was written to.

use std::{
    fs::File,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::JoinHandle,
    time::Duration,
};

use super::published::PublishedState;
use crate::{clock::Clock, metrics::EngineMetrics, store::embedded::options::OpenError};

#[derive(Debug, Default)]
struct SyncState {
    flags: Mutex<SyncFlags>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SyncFlags {
    mark_written: bool,
    stopping: bool,
}

/// The writer's handle of the sync thread. Dropping it syncs once more and waits for the thread.
#[derive(Debug)]
pub(crate) struct IntervalSync {
    state: Arc<SyncState>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread works with.
struct SyncTask {
    log: File,
    every: Duration,
    clock: Arc<dyn Clock>,
    metrics: EngineMetrics,
    published: Arc<PublishedState>,
}

impl IntervalSync {
    /// Starts the thread on the log at `path`, which must exist and stay the same file.
    pub fn start(
        path: &Path,
        every: Duration,
        clock: Arc<dyn Clock>,
        metrics: EngineMetrics,
        published: Arc<PublishedState>,
    ) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io { path: path.to_owned(), source };
        // Opened before any write, because write-back errors are reported only to descriptors that were open.
        let task = SyncTask { log: File::open(path).map_err(io)?, every, clock, metrics, published };
        let state = Arc::new(SyncState::default());
        let thread = std::thread::Builder::new()
            .name("linger-sync".to_owned())
            .spawn({
                let state = state.clone();
                move || state.run(&task)
            })
            .map_err(io)?;
        Ok(Self { state, thread: Some(thread) })
    }

    /// Records that the log was written to.
    pub fn mark_written(&self) {
        let mut flags = self.state.lock();
        if !flags.mark_written {
            flags.mark_written = true;
            self.state.changed.notify_one();
        }
    }
}

impl Drop for IntervalSync {
    fn drop(&mut self) {
        self.state.lock().stopping = true;
        self.state.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the sync thread does not panic");
        }
    }
}

impl SyncState {
    fn run(&self, task: &SyncTask) {
        let panicked = "no code panics while it holds the marks";
        loop {
            let flags =
                self.changed.wait_while(self.lock(), |m| !m.mark_written && !m.stopping).expect(panicked);
            // Real time, not the clock's: the interval limits what a power cut can lose.
            let (mut flags, _) =
                self.changed.wait_timeout_while(flags, task.every, |m| !m.stopping).expect(panicked);
            let stopping = flags.stopping;
            let mark_written = std::mem::take(&mut flags.mark_written);
            drop(flags);
            if mark_written && !task.sync() || stopping {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, SyncFlags> {
        self.flags.lock().expect("no code panics while it holds the marks")
    }
}

impl SyncTask {
    /// Syncs the log; whether it worked. A failed sync is never retried, because the kernel may have dropped the
    /// data.
    fn sync(&self) -> bool {
        let start_us = self.clock.now_micros();
        match self.log.sync_data() {
            Ok(()) => {
                let took_us = self.clock.now_micros().saturating_sub(start_us).unsigned_abs();
                self.metrics.synced(Duration::from_micros(took_us));
                true
            }
            Err(error) => {
                self.published.fail("the log could not be synced", &error);
                false
            }
        }
    }
}
