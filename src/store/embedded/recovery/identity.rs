//! Checks whether the files of a store belong together, and reports commits that are missing at the end.
//!
//! Each commit writes its number into the database (`StoreHead`), and once it is durable into the lock file
//! (`CommitMark`). SQLite accepts a write-ahead log that was cut off at a commit, an older copy of a file and a
//! file of another store; comparing the numbers reveals them. (Rejected: refusing every database that is behind
//! its mark. What is left is sound, and the guarantees promise that damage in the log is reported, not refused.)

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::wal::first_commit;
use crate::store::embedded::{
    disk::commit_mark::CommitMark,
    options::OpenError,
    rows::store_head::{HeadState, StoreHead},
};

/// The first bytes of every SQLite database.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// The head is stored on one of the first pages, which hold the roots of the tables.
const FIRST_PAGES_BYTES: usize = 1 << 16;

/// The files of a store as they were before anything was written to them.
pub(crate) struct StoreFiles<'a> {
    pub db: &'a Path,
    pub wal: &'a Path,
    pub lock: PathBuf,
    /// The beginning of the database.
    pub first_pages: Vec<u8>,
    /// Whether the log has commits that will be replayed.
    pub replays: bool,
}

impl<'a> StoreFiles<'a> {
    pub fn new(db: &'a Path, wal: &'a Path, lock: PathBuf, replays: bool) -> io::Result<Self> {
        let mut first_pages = vec![0; FIRST_PAGES_BYTES];
        let len = match File::open(db) {
            Ok(file) => file.read_at(&mut first_pages, 0)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        first_pages.truncate(len);
        Ok(Self { db, wal, lock, first_pages, replays })
    }

    /// Refuses a missing database when the lock file shows that there was one.
    pub fn check_new(&self, mark: Option<CommitMark>) -> Result<(), OpenError> {
        let Some(mark) = mark else { return Ok(()) };
        let why = format!(
            "the file is missing or empty, but {} names a store with {} changes; put it back, or remove that \
             file too to begin a new store",
            self.lock.display(),
            mark.commits
        );
        Err(incomplete(self.db, why))
    }

    /// Refuses files that do not belong together, and logs commits that are missing at the end. Returns the head
    /// to continue with.
    pub fn check_compatible(
        &self,
        stored: HeadState,
        mark: Option<CommitMark>,
    ) -> Result<StoreHead, OpenError> {
        let head = match stored {
            HeadState::Known(head) => head,
            HeadState::Missing => return Ok(StoreHead::new()),
            HeadState::Damaged => {
                tracing::error!(
                    db = %self.db.display(),
                    "the stored number of commits is damaged; counting continues from the lock file"
                );
                let from_mark =
                    |mark: CommitMark| StoreHead { store: mark.store, commits: mark.commits, jobs: None };
                return Ok(mark.map_or_else(StoreHead::new, from_mark));
            }
        };
        if let Some(mark) = mark {
            self.check_store(head, mark)?;
        }
        self.check_wal(head)?;
        if let Some(mark) = mark {
            self.report_missing(head, mark);
        }
        Ok(head)
    }

    fn check_store(&self, head: StoreHead, mark: CommitMark) -> Result<(), OpenError> {
        if head.store == mark.store {
            return Ok(());
        }
        if StoreHead::latest_in(&self.first_pages, mark.store).is_some() {
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

    /// Refuses a log that does not continue its database. This goes unnoticed when the head in the database file
    /// cannot be read, for example because the file was cut off within a page.
    fn check_wal(&self, head: StoreHead) -> Result<(), OpenError> {
        if !self.replays {
            return Ok(());
        }
        // SQLite reads the first page from the log when it is there, and does not look at the file.
        if !self.first_pages.starts_with(MAGIC) {
            let why = format!(
                "the file is no database, but {} is the log of one; put the file back",
                self.wal.display()
            );
            return Err(incomplete(self.db, why));
        }
        let Some(in_db) = StoreHead::latest_in(&self.first_pages, head.store) else {
            return match StoreHead::is_in(&self.first_pages) {
                true => {
                    let why = format!("this is another store than that of its log, {}", self.wal.display());
                    Err(incomplete(self.db, why))
                }
                false => Ok(()),
            };
        };
        if head.commits < in_db {
            let why = format!(
                "the log ends at change {}, but {} is at {in_db} already: it is an older log; put the right one back",
                head.commits,
                self.db.display()
            );
            return Err(incomplete(self.wal, why));
        }
        let first =
            first_commit(self.wal).map_err(|source| OpenError::Io { path: self.wal.to_owned(), source })?;
        match StoreHead::latest_in(&first, head.store) {
            Some(first) if first > in_db + 1 => {
                let why = format!(
                    "the file ends at change {in_db}, but its log begins at {first}: it is an older file; put the \
                     right one back, or remove {} to go on with the older one",
                    self.wal.display()
                );
                Err(incomplete(self.db, why))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn report_missing(&self, head: StoreHead, mark: CommitMark) {
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
