//! The writer's connection and its transaction, with the counters that each commit stores. The statements over
//! each table are in the files beside this one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::SyncSender,
    },
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, hooks::Wal};

use super::{
    key::RowKey,
    meta::{self, DamagedMark, RunState, StoreHead},
};
use crate::{
    job::{JobId, Timestamp},
    store::MoveMark,
};

pub(crate) type SqlResult<T> = rusqlite::Result<T>;

/// How long a change waits for the write lock: the `sqlite3` shell or a backup may have it, usually for moments only.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The same for a check. Shorter than the time after which a check without an answer counts as a failure, so that the
/// failure has its name.
const CHECK_LOCK_TIMEOUT: Duration = Duration::from_secs(4);

/// The table of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// Delayed, ready and reserved jobs, by due time.
    Live,
    /// Dead letters, by time of death.
    Dead,
}

impl Table {
    /// The table of a job that is or is not dead.
    pub fn for_job(dead: bool) -> Self {
        if dead { Self::Dead } else { Self::Live }
    }
}

/// The result of a WAL checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CheckpointProgress {
    /// Pages in the write-ahead log.
    pub wal_pages: u64,
    /// Pages of it that have been copied to the database file.
    pub copied_pages: u64,
}

/// The writer's connection. A transaction begins by itself with the first change and lasts until
/// [`commit`](Db::commit) or [`rollback`](Db::rollback).
#[derive(Debug)]
pub(crate) struct Db {
    conn: Connection,
    in_transaction: bool,
    /// As of the last commit.
    store_head: StoreHead,
    /// Number of jobs, with the changes of the present transaction.
    pub(super) jobs: Option<u64>,
    /// Number of remembered ids, with the changes of the present transaction, and as of the last commit.
    pub(super) remembered: u64,
    remembered_before: u64,
    /// Bytes of records inserted by the present transaction.
    pub(super) bytes_written: usize,
    /// Whether another program had the write lock at the last check.
    is_locked_out: bool,
    /// Who wants to know the ids of inserted records.
    follower: Option<SyncSender<JobId>>,
    /// Pages in the write-ahead log after the last commit, if they are [counted](Self::count_log_pages).
    log_pages: Arc<AtomicU64>,
    /// The last key given out in each table, for runs of jobs that are due in the same millisecond.
    pub(super) last_keys: [Option<(Timestamp, RowKey)>; 2],
}

impl Db {
    pub fn new(conn: Connection) -> Self {
        let store_head = StoreHead::new();
        Self {
            conn,
            in_transaction: false,
            store_head,
            jobs: None,
            remembered: 0,
            remembered_before: 0,
            bytes_written: 0,
            is_locked_out: false,
            follower: None,
            log_pages: Arc::default(),
            last_keys: [None; 2],
        }
    }

    /// Counts the pages in the write-ahead log from now on. Setting `PRAGMA wal_autocheckpoint` would end it.
    pub fn count_log_pages(&mut self) -> SqlResult<()> {
        let counted = self.log_pages.clone();
        self.conn.wal_hook(Some(move |_: &mut Wal, pages| {
            counted.store(u64::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))
    }

    /// Number of pages in the write-ahead log after the last commit.
    pub fn log_pages(&self) -> u64 {
        self.log_pages.load(Ordering::Relaxed)
    }

    /// The head of the store as of the last commit.
    pub fn store_head(&self) -> StoreHead {
        self.store_head
    }

    /// Sets the head from which commits and jobs are counted on.
    pub fn set_store_head(&mut self, head: StoreHead) {
        (self.store_head, self.jobs) = (head, head.jobs);
    }

    /// The expected number of jobs; `None` when they have not been counted.
    pub fn job_count(&self) -> Option<u64> {
        self.jobs
    }

    pub fn set_job_count(&mut self, jobs: u64) {
        self.jobs = Some(jobs);
    }

    /// How many ids are remembered.
    pub fn remembered_count(&self) -> u64 {
        self.remembered
    }

    /// Counts the remembered ids from the table, as a start does.
    pub fn count_remembered_anew(&mut self) -> SqlResult<()> {
        self.remembered = self.count_remembered()?;
        self.remembered_before = self.remembered;
        Ok(())
    }

    /// Sends the id of each record that is inserted from now on, also if its transaction is rolled back, as long as the
    /// channel has room. It ends at the first id that finds none.
    pub fn follow_ids(&mut self, follower: SyncSender<JobId>) {
        self.follower = Some(follower);
    }

    pub(super) fn tell_follower(&mut self, id: &JobId) {
        if self.follower.as_ref().is_some_and(|follower| follower.try_send(id.clone()).is_err()) {
            self.follower = None;
        }
    }

    /// For statements that concern the file as a whole.
    pub fn conn(&self) -> &Connection {
        &self.conn
    }

    /// Begins the transaction unless it has begun.
    pub fn begin(&mut self) -> SqlResult<()> {
        if !self.in_transaction {
            self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            (self.in_transaction, self.is_locked_out) = (true, false);
        }
        Ok(())
    }

    /// Whether another program keeps this connection from writing: takes the write lock and releases it again, without a
    /// write. While the lock is away it does not wait for it, so that reads go on between the checks.
    pub fn is_locked_out(&mut self) -> SqlResult<bool> {
        if !self.in_transaction {
            self.conn.busy_timeout(if self.is_locked_out { Duration::ZERO } else { CHECK_LOCK_TIMEOUT })?;
            let taken = self.take_lock_and_release();
            self.conn.busy_timeout(LOCK_TIMEOUT)?;
            let error = taken.err();
            self.is_locked_out = error
                .as_ref()
                .is_some_and(|error| error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy));
            if let Some(error) = error.filter(|_| !self.is_locked_out) {
                return Err(error);
            }
        }
        Ok(self.is_locked_out)
    }

    fn take_lock_and_release(&self) -> SqlResult<()> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.conn.prepare_cached("ROLLBACK")?.execute([])?;
        Ok(())
    }

    /// Bytes of records that the present transaction has inserted.
    pub fn bytes_written(&self) -> usize {
        self.bytes_written
    }

    /// Whether there is anything to commit.
    pub fn in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// The clock's high-water mark: no later moment was ever acted on. `None` when it is damaged or missing.
    pub fn clock_mark(&self) -> SqlResult<Option<Timestamp>> {
        meta::clock_mark(&self.conn)
    }

    /// How the last run ended; `None` when that is damaged or missing.
    pub fn run_state(&self) -> SqlResult<Option<RunState>> {
        meta::run_state(&self.conn)
    }

    pub fn set_run_state(&mut self, run: RunState) -> SqlResult<()> {
        self.begin()?;
        meta::put_run_state(&self.conn, run)
    }

    /// The mark of a move.
    pub fn move_mark(&self) -> SqlResult<Option<Result<MoveMark, DamagedMark>>> {
        meta::move_mark(&self.conn)
    }

    /// Stores the mark of a move, or removes it.
    pub fn put_move_mark(&mut self, mark: Option<&MoveMark>) -> SqlResult<()> {
        self.begin()?;
        meta::put_move_mark(&self.conn, mark)
    }

    /// The stored head of the store; `None` when it is damaged or missing.
    pub fn read_store_head(&self) -> SqlResult<Option<StoreHead>> {
        meta::store_head(&self.conn)
    }

    /// Commits the transaction together with the clock's high-water mark `now` and the new head of the store.
    pub fn commit(&mut self, now: Timestamp) -> SqlResult<()> {
        let head = StoreHead { commits: self.store_head.commits + 1, jobs: self.jobs, ..self.store_head };
        meta::put_progress(&self.conn, now, head)?;
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        (self.in_transaction, self.bytes_written, self.store_head) = (false, 0, head);
        self.remembered_before = self.remembered;
        Ok(())
    }

    /// Rolls the transaction back. After some errors SQLite has done so itself.
    pub fn rollback(&mut self) -> SqlResult<()> {
        (self.in_transaction, self.bytes_written, self.jobs) = (false, 0, self.store_head.jobs);
        self.remembered = self.remembered_before;
        if self.conn.is_autocommit() {
            return Ok(());
        }
        self.conn.execute_batch("ROLLBACK")
    }
}

/// Copies the write-ahead log into the database file with `mode`; `NOOP` only reports the progress.
pub(crate) fn wal_checkpoint(conn: &Connection, mode: &str) -> SqlResult<CheckpointProgress> {
    conn.prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))?.query_row([], |row| {
        let pages = |count: i64| u64::try_from(count).unwrap_or(0);
        Ok(CheckpointProgress { wal_pages: pages(row.get(1)?), copied_pages: pages(row.get(2)?) })
    })
}
