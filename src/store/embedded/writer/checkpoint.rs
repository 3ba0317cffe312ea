//! Moving the log into the file, beside the writer: a checkpoint of 16 MiB takes 30 to 60 ms, most of it a
//! sync, which no job should wait for. Knows nothing but the file.
//!
//! Two connections never checkpoint at once (SQLite had a bug there, fixed before the bundled version): the
//! writer finishes a checkpoint itself only while this thread has nothing to do. It must, because under
//! constant load there are always a few pages that came after the thread had looked, and the log starts over
//! only when none is left.

use std::{
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::JoinHandle,
};

use rusqlite::Connection;

use crate::store::embedded::{
    options::{Durability, OpenError},
    rows::{
        records::{Backfill, Sql, backfill},
        schema::{self, PAGE_BYTES},
    },
};

/// A checkpoint begins when the log holds this much.
const BEGIN_PAGES: u64 = (16 << 20) / PAGE_BYTES;
/// The writer finishes a checkpoint itself when no more than this is left: a few milliseconds.
const FINISH_PAGES: u64 = 512;

/// The log is kept below this while the disk is full.
const SHORT_PAGES: u64 = (1 << 20) / PAGE_BYTES;

#[derive(Debug)]
enum Phase {
    Resting,
    Asked,
    Working,
    Done(Sql<Backfill>),
    Stopping,
}

#[derive(Debug)]
struct Desk {
    phase: Mutex<Phase>,
    changed: Condvar,
}

/// The checkpointing thread, as the writer sees it.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<Sql<()>>>,
    /// The length of the log at which the next checkpoint begins.
    begin_pages: u64,
}

impl Checkpointer {
    /// Starts the thread on its own connection to `path`.
    pub fn start(path: &Path, durability: Durability) -> Result<Self, OpenError> {
        let conn = schema::open_writer(path, durability)?;
        let desk = Arc::new(Desk { phase: Mutex::new(Phase::Resting), changed: Condvar::new() });
        let thread = std::thread::Builder::new()
            .name("linger-ckpt".to_owned())
            .spawn({
                let desk = desk.clone();
                move || desk.serve(&conn)
            })
            .map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        Ok(Self { desk, thread: Some(thread), begin_pages: BEGIN_PAGES })
    }

    /// After a commit: begins a checkpoint when the log is long, and finishes one that the thread has done.
    pub fn after_commit(&mut self, conn: &Connection) -> Sql<()> {
        let log = backfill(conn, "NOOP")?;
        if log.logged < BEGIN_PAGES {
            self.begin_pages = BEGIN_PAGES;
        }
        self.look(conn)?;
        if log.logged >= self.begin_pages {
            self.ask();
            // Should a reader hold the log open, the next attempt waits for a few more pages.
            self.begin_pages = log.logged + BEGIN_PAGES / 4;
        }
        Ok(())
    }

    /// Finishes a checkpoint that the thread has done. Whether the thread is at work.
    pub fn look(&mut self, conn: &Connection) -> Sql<bool> {
        let done = {
            let mut phase = self.desk.lock();
            match &*phase {
                Phase::Resting | Phase::Stopping => return Ok(false),
                Phase::Asked | Phase::Working => return Ok(true),
                Phase::Done(_) => std::mem::replace(&mut *phase, Phase::Resting),
            }
        };
        if let Phase::Done(result) = done {
            result?;
            let log = backfill(conn, "NOOP")?;
            if log.filled < log.logged && log.logged - log.filled <= FINISH_PAGES {
                backfill(conn, "PASSIVE")?;
            }
        }
        Ok(false)
    }

    /// For a full disk: keeps the log from growing, by moving it into the file here and now once it is longer than
    /// about a megabyte. Waits for the thread.
    pub fn keep_short(&mut self, conn: &Connection) -> Sql<()> {
        let log = backfill(conn, "NOOP")?;
        if log.logged.saturating_sub(log.filled) > SHORT_PAGES {
            self.desk.rest()?;
            backfill(conn, "PASSIVE")?;
        }
        Ok(())
    }

    /// Whether the thread is at work, or about to be.
    #[cfg(test)]
    pub fn is_working(&self) -> bool {
        matches!(*self.desk.lock(), Phase::Asked | Phase::Working)
    }

    /// Asks for a checkpoint unless one is under way.
    pub fn ask(&self) {
        let mut phase = self.desk.lock();
        if matches!(*phase, Phase::Resting) {
            *phase = Phase::Asked;
            self.desk.changed.notify_one();
        }
    }

    /// Stops the thread; from then on the writer may checkpoint at will.
    pub fn stop(&mut self) -> Sql<()> {
        let before = std::mem::replace(&mut *self.desk.lock(), Phase::Stopping);
        self.desk.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the checkpointing thread does not panic")?;
        }
        match before {
            Phase::Done(result) => result.map(|_| ()),
            Phase::Resting | Phase::Asked | Phase::Working | Phase::Stopping => Ok(()),
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        // The outcome no longer matters to anyone: what a checkpoint did not move is still in the log.
        let _ = self.stop();
    }
}

impl Desk {
    /// Works until it is stopped; answers with how a checkpoint went that was under way then.
    fn serve(&self, conn: &Connection) -> Sql<()> {
        let mut phase = self.lock();
        loop {
            match &*phase {
                Phase::Stopping => return Ok(()),
                Phase::Asked => {
                    *phase = Phase::Working;
                    drop(phase);
                    let result = backfill(conn, "PASSIVE");
                    phase = self.lock();
                    if !matches!(*phase, Phase::Working) {
                        return result.map(|_| ());
                    }
                    *phase = Phase::Done(result);
                    self.changed.notify_one();
                }
                Phase::Resting | Phase::Working | Phase::Done(_) => {
                    phase = self.changed.wait(phase).expect("no code panics while it holds the desk");
                }
            }
        }
    }

    /// Waits until the thread has nothing to do; how its last checkpoint went.
    fn rest(&self) -> Sql<()> {
        let is_busy = |phase: &mut Phase| matches!(phase, Phase::Asked | Phase::Working);
        let waited = self.changed.wait_while(self.lock(), is_busy);
        let mut phase = waited.expect("no code panics while it holds the desk");
        match &*phase {
            Phase::Done(_) => match std::mem::replace(&mut *phase, Phase::Resting) {
                Phase::Done(result) => result.map(|_| ()),
                Phase::Resting | Phase::Asked | Phase::Working | Phase::Stopping => Ok(()),
            },
            Phase::Resting | Phase::Asked | Phase::Working | Phase::Stopping => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().expect("no code panics while it holds the desk")
    }
}
