//! Checks whether the files of a store belong together, and reports commits that are missing at its end.
//!
//! SQLite accepts a write-ahead log that was cut off at a commit, an older copy of a file and a file of another store.
//! Each commit is counted (`StoreHead`), and three counts reveal them: that of the database file alone, that of the
//! database together with its log, and that of the lock file (`CommitMark`), which alone sees a log that was cut off.
//! (Rejected: refusing every database that is behind its mark. What is left is sound, and the guarantees promise
//! that damage in the log is reported, not refused.)

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::wal::WalState;
use crate::store::embedded::{
    disk::commit_mark::CommitMark,
    options::OpenError,
    rows::{db::Db, meta::StoreHead, schema},
};

/// The first bytes of every SQLite database.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// The files of a store as they were before anything was written to them.
pub(crate) struct StoreFiles<'a> {
    db: &'a Path,
    wal: &'a Path,
    lock: PathBuf,
    /// Whether the database file is a database by itself.
    is_database: bool,
    /// The head in the database file alone; `None` when it cannot be read, which the log may make good.
    db_head: Option<StoreHead>,
    /// Commits in the log that SQLite will replay.
    wal_commits: u64,
    mark: Option<CommitMark>,
}

impl<'a> StoreFiles<'a> {
    /// Reads the database file without its log. Nothing else may have opened it in this process, because closing it
    /// ends the locks of the others.
    pub fn read(
        (db, wal, lock): (&'a Path, &'a Path, PathBuf),
        log: WalState,
        mark: Option<CommitMark>,
    ) -> io::Result<Self> {
        let mut magic = Vec::new();
        match File::open(db) {
            Ok(file) => drop(file.take(MAGIC.len() as u64).read_to_end(&mut magic)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let is_database = magic == MAGIC;
        let alone = is_database.then(|| schema::open_immutable(db).ok()).flatten().map(Db::new);
        let db_head = alone.and_then(|alone| alone.read_store_head().ok().flatten());
        Ok(Self { db, wal, lock, is_database, db_head, wal_commits: log.commits(), mark })
    }

    /// Refuses a missing database when the lock file shows that there was one.
    pub fn check_new(&self) -> Result<(), OpenError> {
        let Some(mark) = self.mark else { return Ok(()) };
        let why = format!(
            "the file is missing or empty, but {} names a store with {} changes; put it back, or remove that \
             file too to begin a new store",
            self.lock.display(),
            mark.commits
        );
        Err(incomplete(self.db, why))
    }

    /// Refuses files that do not belong together, and logs commits that are missing at the end. `stored` is the head in
    /// the database together with its log, `None` when it is damaged. Returns the head to continue with.
    pub fn check(&self, stored: Option<StoreHead>) -> Result<StoreHead, OpenError> {
        let Some(head) = stored else {
            tracing::error!(
                db = %self.db.display(),
                "the stored number of commits is damaged; counting continues from the lock file"
            );
            let from_mark =
                |mark: CommitMark| StoreHead { store: mark.store, commits: mark.commits, jobs: None };
            return Ok(self.mark.map_or_else(StoreHead::new, from_mark));
        };
        self.check_store(head)?;
        self.check_wal(head)?;
        self.report_missing(head);
        Ok(head)
    }

    /// Refuses another store than that of the lock file.
    fn check_store(&self, head: StoreHead) -> Result<(), OpenError> {
        let Some(mark) = self.mark.filter(|mark| mark.store != head.store) else { return Ok(()) };
        if self.db_head.is_some_and(|alone| alone.store == mark.store) {
            let why = format!(
                "this log belongs to another store than {}; put the right one back",
                self.db.display()
            );
            return Err(incomplete(self.wal, why));
        }
        let why = format!(
            "this is another store than the one that {} names; if it was put here on purpose, such as a backup, \
             remove that file (and make sure that no log is left from before)",
            self.lock.display()
        );
        Err(incomplete(self.db, why))
    }

    /// Refuses a log that does not continue its database.
    fn check_wal(&self, head: StoreHead) -> Result<(), OpenError> {
        if self.wal_commits == 0 {
            return Ok(());
        }
        let (db, wal) = (self.db.display(), self.wal.display());
        // SQLite reads the first page from the log when it is there, and does not look at the file.
        if !self.is_database {
            let why = format!("the file is no database, but {wal} is the log of one; put the file back");
            return Err(incomplete(self.db, why));
        }
        let Some(alone) = self.db_head else { return Ok(()) };
        if alone.store != head.store {
            let why = format!("this is another store than that of its log, {wal}");
            return Err(incomplete(self.db, why));
        }
        let (last, in_db) = (head.commits, alone.commits);
        if last < in_db {
            let why = format!(
                "the log ends at change {last}, but {db} is at {in_db} already: it is an older log; put the right \
                 one back"
            );
            return Err(incomplete(self.wal, why));
        }
        let first = last.saturating_sub(self.wal_commits) + 1;
        if first > in_db + 1 {
            let why = format!(
                "the file ends at change {in_db}, but its log begins at {first}: it is an older file; put the \
                 right one back, or remove {wal} to go on with the older one"
            );
            return Err(incomplete(self.db, why));
        }
        Ok(())
    }

    fn report_missing(&self, head: StoreHead) {
        let Some(mark) = self.mark else { return };
        let lost = mark.missing_from(head);
        let db = self.db.display();
        match (lost, mark.synced) {
            (0, _) => {}
            (_, true) => tracing::error!(
                %db, lost,
                "acknowledged changes are missing from the end of the store: its log was damaged or cut off, or \
                 an older copy was put back"
            ),
            (_, false) => tracing::warn!(
                %db, lost,
                "the last changes before a power cut were lost; the configured durability does not sync them"
            ),
        }
    }
}

fn incomplete(path: &Path, why: String) -> OpenError {
    OpenError::Incomplete { path: path.to_owned(), why }
}
