//! A thread that copies the write-ahead log into the database file: a checkpoint of 16 MiB takes 30 to 60 ms,
//! most of it a sync, which no job should wait for. Knows nothing but the file.
//!
//! Two connections never checkpoint at once (SQLite had a bug there, fixed before the bundled version): the
//! writer finishes a checkpoint itself only while this thread is idle. It must, because under constant load some
//! pages are always written after the thread's checkpoint began, and the log starts over only when none is left.
//! The faster it writes, the more are left. So it copies more the longer the log is, and at [`LONGEST_PAGES`] all that is
//! left: no load fills the disk with the log.

use std::{
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::JoinHandle,
};

use rusqlite::Connection;

use crate::store::{
    Degraded,
    embedded::{
        options::{Durability, OpenError},
        rows::{
            db::{CheckpointProgress, Db, SqlResult, wal_checkpoint},
            schema::{self, PAGE_BYTES},
        },
    },
};

/// A checkpoint begins when the log has this many pages.
const BEGIN_PAGES: u64 = (16 << 20) / PAGE_BYTES;
/// The writer finishes a checkpoint itself when no more than this is left, which takes a few milliseconds.
const FINISH_PAGES: u64 = 512;
/// The writer also finishes it when no more than this part of the log is left.
const FINISH_SHARE: u64 = 8;
/// The log grows beyond this only while a reader, such as a backup, needs its pages.
const LONGEST_PAGES: u64 = (128 << 20) / PAGE_BYTES;

/// When the log is longer than this, a reader is the reason: more than a checkpoint and a group would add.
const BLOCKED_PAGES: u64 = LONGEST_PAGES + BEGIN_PAGES;

/// The log is kept below this while the disk is full.
const SHORT_PAGES: u64 = (1 << 20) / PAGE_BYTES;

#[derive(Debug)]
enum CheckpointPhase {
    Idle,
    Requested,
    Running,
    Done(SqlResult<CheckpointProgress>),
    Stopping,
}

#[derive(Debug)]
struct CheckpointState {
    phase: Mutex<CheckpointPhase>,
    changed: Condvar,
}

/// The writer's handle of the checkpoint thread.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    state: Arc<CheckpointState>,
    thread: Option<JoinHandle<SqlResult<()>>>,
    /// The length of the log at which the next checkpoint begins.
    begin_pages: u64,
    /// The log after the last commit. How much of it is copied is known only while it is long enough to be blocked.
    log: CheckpointProgress,
}

impl Checkpointer {
    /// Starts the thread on its own connection to `path`.
    pub fn start(path: &Path, durability: Durability) -> Result<Self, OpenError> {
        let conn = schema::open_writer(path, durability)?;
        let state =
            Arc::new(CheckpointState { phase: Mutex::new(CheckpointPhase::Idle), changed: Condvar::new() });
        let thread = std::thread::Builder::new()
            .name("linger-ckpt".to_owned())
            .spawn({
                let state = state.clone();
                move || state.run(&conn)
            })
            .map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        Ok(Self { state, thread: Some(thread), begin_pages: BEGIN_PAGES, log: CheckpointProgress::default() })
    }

    /// Called after a commit: begins a checkpoint when the log is long, and finishes one that the thread has done.
    pub fn after_commit(&mut self, db: &Db) -> SqlResult<()> {
        let (conn, mut log) = (db.conn(), CheckpointProgress { wal_pages: db.log_pages(), copied_pages: 0 });
        if log.wal_pages > BLOCKED_PAGES {
            // Only then it matters how much of it is copied, which takes a query.
            log = wal_checkpoint(conn, "NOOP")?;
        }
        if log.blocks() != self.log.blocks() {
            log_blocked(log);
        }
        self.log = log;
        if log.wal_pages < BEGIN_PAGES {
            self.begin_pages = BEGIN_PAGES;
        }
        self.finish_if_done(conn)?;
        if log.wal_pages >= self.begin_pages {
            if log.wal_pages < LONGEST_PAGES {
                self.request();
            } else {
                self.state.wait_until_idle()?;
                wal_checkpoint(conn, "PASSIVE")?;
            }
            // Should a reader hold the log open, the next attempt waits for a few more pages.
            self.begin_pages = log.wal_pages + BEGIN_PAGES / 4;
        }
        Ok(())
    }

    /// The size of the log, in bytes.
    pub fn log_bytes(&self) -> u64 {
        self.log.wal_pages * PAGE_BYTES
    }

    /// That a reader keeps the log from being emptied, if one does.
    pub fn blocked(&self) -> Option<Degraded> {
        self.log.blocks().then(|| Degraded {
            part: "log",
            detail: format!(
                "a program reads the database for long, so that its log cannot be emptied and has grown to {} MiB; end what \
                 reads, such as a shell, a backup or an export",
                self.log_bytes() >> 20
            ),
            is_unready: false,
        })
    }

    /// Finishes a checkpoint that the thread has done. Returns whether the thread is running one.
    pub fn finish_if_done(&mut self, conn: &Connection) -> SqlResult<bool> {
        let done = {
            let mut phase = self.state.lock();
            match &*phase {
                CheckpointPhase::Idle | CheckpointPhase::Stopping => return Ok(false),
                CheckpointPhase::Requested | CheckpointPhase::Running => return Ok(true),
                CheckpointPhase::Done(_) => std::mem::replace(&mut *phase, CheckpointPhase::Idle),
            }
        };
        if let CheckpointPhase::Done(result) = done {
            result?;
            let log = wal_checkpoint(conn, "NOOP")?;
            let left = log.wal_pages.saturating_sub(log.copied_pages);
            if left > 0 && left <= FINISH_PAGES.max(log.wal_pages / FINISH_SHARE) {
                wal_checkpoint(conn, "PASSIVE")?;
            }
        }
        Ok(false)
    }

    /// For a full disk: keeps the log from growing by copying it into the file at once when it is longer than about
    /// a megabyte. Waits for the thread.
    pub fn keep_wal_short(&mut self, conn: &Connection) -> SqlResult<()> {
        let log = wal_checkpoint(conn, "NOOP")?;
        if log.wal_pages.saturating_sub(log.copied_pages) > SHORT_PAGES {
            self.state.wait_until_idle()?;
            wal_checkpoint(conn, "PASSIVE")?;
        }
        Ok(())
    }

    /// Whether the thread is running a checkpoint, or about to.
    #[cfg(test)]
    pub fn is_working(&self) -> bool {
        matches!(*self.state.lock(), CheckpointPhase::Requested | CheckpointPhase::Running)
    }

    /// Requests a checkpoint unless one is running.
    pub fn request(&self) {
        let mut phase = self.state.lock();
        if matches!(*phase, CheckpointPhase::Idle) {
            *phase = CheckpointPhase::Requested;
            self.state.changed.notify_one();
        }
    }

    /// Stops the thread. From then on the writer may run checkpoints itself.
    pub fn stop(&mut self) -> SqlResult<()> {
        let before = std::mem::replace(&mut *self.state.lock(), CheckpointPhase::Stopping);
        self.state.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the checkpoint thread does not panic")?;
        }
        match before {
            CheckpointPhase::Done(result) => result.map(|_| ()),
            CheckpointPhase::Idle
            | CheckpointPhase::Requested
            | CheckpointPhase::Running
            | CheckpointPhase::Stopping => Ok(()),
        }
    }
}

impl CheckpointProgress {
    /// Whether a reader keeps the log from being emptied.
    fn blocks(self) -> bool {
        self.wal_pages > BLOCKED_PAGES && self.copied_pages < self.wal_pages
    }
}

fn log_blocked(log: CheckpointProgress) {
    let bytes = log.wal_pages * PAGE_BYTES;
    if log.blocks() {
        tracing::warn!(
            bytes,
            "a program reads the database for long, so that its log cannot be emptied and grows"
        );
    } else {
        tracing::info!(bytes, "the log of the database can be emptied again");
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        // The result no longer matters: pages that were not copied are still in the log.
        let _ = self.stop();
    }
}

impl CheckpointState {
    /// Runs until it is stopped. Returns the result of a checkpoint that was running then.
    fn run(&self, conn: &Connection) -> SqlResult<()> {
        let mut phase = self.lock();
        loop {
            match &*phase {
                CheckpointPhase::Stopping => return Ok(()),
                CheckpointPhase::Requested => {
                    *phase = CheckpointPhase::Running;
                    drop(phase);
                    let result = wal_checkpoint(conn, "PASSIVE");
                    phase = self.lock();
                    if !matches!(*phase, CheckpointPhase::Running) {
                        return result.map(|_| ());
                    }
                    *phase = CheckpointPhase::Done(result);
                    self.changed.notify_one();
                }
                CheckpointPhase::Idle | CheckpointPhase::Running | CheckpointPhase::Done(_) => {
                    phase = self.changed.wait(phase).expect("no code panics while it holds the lock");
                }
            }
        }
    }

    /// Waits until the thread is idle. Returns the result of its last checkpoint.
    fn wait_until_idle(&self) -> SqlResult<()> {
        let is_busy = |phase: &mut CheckpointPhase| {
            matches!(phase, CheckpointPhase::Requested | CheckpointPhase::Running)
        };
        let waited = self.changed.wait_while(self.lock(), is_busy);
        let mut phase = waited.expect("no code panics while it holds the lock");
        match &*phase {
            CheckpointPhase::Done(_) => match std::mem::replace(&mut *phase, CheckpointPhase::Idle) {
                CheckpointPhase::Done(result) => result.map(|_| ()),
                CheckpointPhase::Idle
                | CheckpointPhase::Requested
                | CheckpointPhase::Running
                | CheckpointPhase::Stopping => Ok(()),
            },
            CheckpointPhase::Idle
            | CheckpointPhase::Requested
            | CheckpointPhase::Running
            | CheckpointPhase::Stopping => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, CheckpointPhase> {
        self.phase.lock().expect("no code panics while it holds the lock")
    }
}
