//! Disk space: how much is free, and handing back what the queue no longer needs.
//!
//! SQLite uses the pages of finished jobs again by itself. A backlog that has been worked off leaves a large
//! file behind; `auto_vacuum = INCREMENTAL` lets its end be cut off in small steps while nothing else is to do.

use std::{io, path::Path};

use rusqlite::Connection;

use super::{
    db::{Db, Sql},
    options::Options,
    schema::PAGE_BYTES,
};

/// Handing back begins when this much is unused ...
const BEGIN_PAGES: u64 = (8 << 20) / PAGE_BYTES;
/// ... and as much as one part in this of the file, and ends when this much is left for the next jobs.
const BEGIN_PART: u64 = 8;
const KEEP_PAGES: u64 = (1 << 20) / PAGE_BYTES;
/// Pages handed back in one step: a millisecond or two of the writer's time.
const STEP_PAGES: u64 = 128;

/// Bytes of the file system that holds `path` which are free for us.
///
/// # Errors
/// The operating system's.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Whether less is free than `min_free_bytes`. Asked once a group of operations (2 µs beside a sync); when the
/// answer is an error SQLite will find out.
pub(super) fn is_short(options: &Options) -> bool {
    match (options.free_space)(&options.data_dir) {
        Ok(free) => free < options.min_free_bytes,
        Err(error) => {
            tracing::warn!(%error, "the free disk space cannot be read");
            false
        }
    }
}

/// Whether space is being handed back at the moment.
#[derive(Debug, Default)]
pub(super) struct GiveBack {
    active: bool,
}

impl GiveBack {
    /// Whether steps were done lately.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Whether a step should be done now.
    pub fn is_wanted(&mut self, conn: &Connection) -> Sql<bool> {
        let count = |pragma: &str| {
            let count = conn.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
            count.map(i64::unsigned_abs)
        };
        let unused = count("freelist_count")?;
        let begin = BEGIN_PAGES.max(count("page_count")? / BEGIN_PART);
        self.active = unused > if self.active { KEEP_PAGES } else { begin };
        Ok(self.active)
    }

    /// Cuts a few pages off the file. They leave it with the next checkpoint.
    pub fn step(db: &mut Db) -> Sql<()> {
        db.begin()?;
        let mut vacuum = db.conn().prepare(&format!("PRAGMA incremental_vacuum({STEP_PAGES})"))?;
        // One row a page; it goes on only while it is asked.
        let mut rows = vacuum.query([])?;
        while rows.next()?.is_some() {}
        Ok(())
    }
}
