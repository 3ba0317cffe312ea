//! Shrinks the database file after a backlog, in small steps while the writer is idle.
//!
//! SQLite reuses the pages of finished jobs by itself, but the file of a past backlog stays large.
//! `auto_vacuum = INCREMENTAL` lets its unused end be cut off step by step.

use rusqlite::Connection;

use crate::store::embedded::rows::{
    db::{Db, SqlResult},
    schema::PAGE_BYTES,
};

/// The vacuum begins when this much is unused ...
const BEGIN_PAGES: u64 = (8 << 20) / PAGE_BYTES;
/// ... and at least this fraction (one part in) of the file, and ends when `KEEP_PAGES` are left for new jobs.
const BEGIN_PART: u64 = 8;
const KEEP_PAGES: u64 = (1 << 20) / PAGE_BYTES;
/// Pages freed in one step, which takes a millisecond or two.
const STEP_PAGES: u64 = 128;

/// The progress of the vacuum.
#[derive(Debug, Default)]
pub(crate) struct Vacuum {
    /// Unused pages before the last step; `None` while no vacuum is running.
    before_step: Option<u64>,
    /// A step changed nothing: the file was made without auto-vacuum, perhaps by a restore.
    futile: bool,
}

impl Vacuum {
    /// Whether a vacuum is running.
    pub fn is_running(&self) -> bool {
        self.before_step.is_some()
    }

    /// Whether a step should run now.
    pub fn is_due(&mut self, conn: &Connection) -> SqlResult<bool> {
        if self.futile {
            return Ok(false);
        }
        let count = |pragma: &str| {
            let count = conn.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
            count.map(i64::unsigned_abs)
        };
        let unused = count("freelist_count")?;
        self.futile = self.before_step.is_some_and(|before| unused >= before);
        let enough = match self.before_step {
            Some(_) => KEEP_PAGES,
            None => BEGIN_PAGES.max(count("page_count")? / BEGIN_PART),
        };
        let wanted = unused > enough && !self.futile;
        self.before_step = wanted.then_some(unused);
        Ok(wanted)
    }

    /// Cuts a few pages off the database. The file shrinks with the next checkpoint.
    pub fn step(db: &mut Db) -> SqlResult<()> {
        db.begin()?;
        let mut statement = db.conn().prepare(&format!("PRAGMA incremental_vacuum({STEP_PAGES})"))?;
        // Each row that is read frees one page.
        let mut rows = statement.query([])?;
        while rows.next()?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with 3,000 unused pages, made with `auto_vacuum`.
    fn hollow(auto_vacuum: &str) -> Db {
        let conn = Connection::open_in_memory().expect("opens");
        conn.execute_batch(&format!(
            "PRAGMA auto_vacuum = {auto_vacuum};
             CREATE TABLE meta (name TEXT, value, checksum);
             CREATE TABLE t (x);
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
             INSERT INTO t SELECT zeroblob(4000) FROM n;
             DELETE FROM t;"
        ))
        .expect("runs");
        Db::new(conn)
    }

    /// How many steps are done until no more is wanted.
    fn steps(db: &mut Db) -> usize {
        let mut vacuum = Vacuum::default();
        let mut steps = 0;
        while vacuum.is_due(db.conn()).expect("reads") {
            Vacuum::step(db).expect("writes");
            db.commit(crate::job::Timestamp::from_millis(0)).expect("commits");
            steps += 1;
            assert!(steps < 1_000, "it ends");
        }
        steps
    }

    #[test]
    fn unused_pages_go_in_steps_and_a_few_are_kept() {
        let mut db = hollow("INCREMENTAL");
        assert_eq!(steps(&mut db) as u64, (3_000 - KEEP_PAGES).div_ceil(STEP_PAGES));
        assert_eq!(steps(&mut db), 0, "a little is not worth it");
    }

    #[test]
    fn a_file_that_cannot_shrink_is_left_alone() {
        assert_eq!(steps(&mut hollow("NONE")), 1);
    }
}
