//! Log lines on their way to stderr: a bounded queue in memory and a thread that writes it. Logging never waits for the
//! reader of the log.
//!
//! `tracing-appender` was rejected: at exit it prints to the very pipe that may be stuck, it bounds lines and not bytes,
//! and it does not log how many lines it dropped.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::AsFd,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tracing_subscriber::fmt::MakeWriter;

use crate::metrics::LogMetrics;

/// Accepts whole lines from any thread. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct LogQueue(Arc<QueueInner>);

#[derive(Debug)]
struct QueueInner {
    max_bytes: usize,
    metrics: LogMetrics,
    state: Mutex<PendingLines>,
    /// Notified when lines are added and when all lines are written.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PendingLines {
    lines: Vec<u8>,
    writing: bool,
    /// Lines dropped since the last report.
    dropped: u64,
}

impl LogQueue {
    /// A queue of up to `max_bytes`, and a thread that writes it to stderr as long as the process runs.
    ///
    /// # Errors
    /// When the system has no threads or files left.
    pub fn to_stderr(max_bytes: usize, metrics: LogMetrics) -> io::Result<Self> {
        // A separate file: the lock of `std::io::stderr` would be held while a write is stuck.
        let out = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let queue = Self::new(max_bytes, metrics);
        let writer = queue.clone();
        std::thread::Builder::new().name("linger-log".to_owned()).spawn(move || writer.write_to(out))?;
        Ok(queue)
    }

    fn new(max_bytes: usize, metrics: LogMetrics) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self(Arc::new(QueueInner { max_bytes, metrics, state, changed }))
    }

    /// Waits until every line is written, but no longer than `limit`.
    pub fn flush(&self, limit: Duration) {
        let pending = |state: &mut PendingLines| state.writing || !state.lines.is_empty();
        drop(self.0.changed.wait_timeout_while(self.lock(), limit, pending));
    }

    fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        if state.lines.len() + line.len() > self.0.max_bytes {
            state.dropped += 1;
            self.0.metrics.count_dropped();
            return;
        }
        state.lines.extend_from_slice(line);
        drop(state);
        self.0.changed.notify_all();
    }

    fn write_to(&self, mut out: impl Write) {
        let mut lines = Vec::new();
        loop {
            self.wait_for_lines(&mut lines);
            // If stderr is closed, there is nowhere else to report that.
            let _ = out.write_all(&lines);
            let dropped = self.finish_write();
            if dropped > 0 {
                tracing::warn!(lines = dropped, "log lines were dropped, because the log was not read");
            }
        }
    }

    /// Waits for lines and moves them to `lines`.
    fn wait_for_lines(&self, lines: &mut Vec<u8>) {
        lines.clear();
        let state = self.lock();
        let state = self.0.changed.wait_while(state, |state| state.lines.is_empty());
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut state.lines, lines);
        state.writing = true;
    }

    /// Marks the lines as written. Returns how many were dropped since the last call.
    fn finish_write(&self) -> u64 {
        let mut state = self.lock();
        state.writing = false;
        let dropped = std::mem::take(&mut state.dropped);
        drop(state);
        self.0.changed.notify_all();
        dropped
    }

    fn lock(&self) -> MutexGuard<'_, PendingLines> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The formatting layer writes each line with one call.
impl Write for LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn lines_are_kept_up_to_the_limit_and_the_others_are_counted() {
        let metrics = Metrics::new();
        let queue = LogQueue::new(10, metrics.log.clone());
        for line in ["one\n", "two\n", "three\n", "4\n"] {
            queue.clone().write_all(line.as_bytes()).expect("never fails");
        }
        let mut lines = Vec::new();
        queue.wait_for_lines(&mut lines);
        assert_eq!(lines, b"one\ntwo\n4\n");
        assert_eq!((queue.finish_write(), queue.finish_write()), (1, 0));
        assert!(metrics.encode().contains("linger_log_lines_dropped_total 1\n"));
    }

    #[test]
    fn a_flush_ends_when_all_is_written_or_the_limit_is_reached() {
        let queue = LogQueue::new(10, Metrics::new().log);
        queue.flush(Duration::MAX);
        queue.push(b"line\n");
        queue.flush(Duration::from_millis(1));
        let mut lines = Vec::new();
        queue.wait_for_lines(&mut lines);
        queue.finish_write();
        queue.flush(Duration::MAX);
    }
}
