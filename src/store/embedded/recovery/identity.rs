//! What binds the files of a store together, and tells when something of them is missing. Each commit counts
//! itself in a row of the database (`StoreHead`), and once it is durable the lock file beside it notes the count
//! (`CommitMark`). A log that was cut off where a commit ends, an older copy of a file, a file of another store: to
//! SQLite they are all in order. Held against each other, the counts are not.
//!
//! The note is not synced, so that it costs nothing: with `durability = "always"` it is never ahead of the
//! database, and behind only after a power cut. (Rejected: refusing whatever is short of the note. What
//! is left is sound, and the guarantees have damage in the log reported, not refused.)

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use xxhash_rust::xxh3::xxh3_64;

use super::wal::first_commit;
use crate::store::embedded::options::{Durability, OpenError};

const LINK_BYTES: usize = 40;
const UNCOUNTED: u64 = u64::MAX;
/// How every SQLite database begins.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// The row is on one of the first pages, which the tables' roots are.
const HEAD_BYTES: usize = 1 << 16;

/// Names a store; drawn when it is made, the same in every copy of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreId(pub [u8; 16]);

/// How far a database has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreHead {
    pub store: StoreId,
    /// Commits so far.
    pub changes: u64,
    /// Jobs in it, dead ones included, where they were counted.
    pub jobs: Option<u64>,
}

/// The link as it was found in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadState {
    StoreHead(StoreHead),
    /// The store was made before there were links.
    Nothing,
    Damaged,
}

/// How far a store had come, as the lock file tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommitMark {
    pub store: StoreId,
    pub changes: u64,
    /// Whether each of these changes was on disk before the note.
    pub synced: bool,
}

/// The files, as they were before anything was written to them.
pub(crate) struct StoreFiles<'a> {
    pub db: &'a Path,
    pub log: &'a Path,
    pub lock: PathBuf,
    /// The beginning of the database.
    pub head: Vec<u8>,
    /// Whether the log has commits that will be replayed.
    pub replays: bool,
}

impl StoreHead {
    /// The link of a store that begins to count here.
    pub fn new() -> Self {
        Self { store: StoreId(rand::random()), changes: 0, jobs: None }
    }

    pub fn encode(&self) -> [u8; LINK_BYTES] {
        let mut bytes = [0; LINK_BYTES];
        bytes[..16].copy_from_slice(&self.store.0);
        bytes[16..24].copy_from_slice(&self.changes.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.jobs.unwrap_or(UNCOUNTED).to_be_bytes());
        let sum = xxh3_64(&bytes[..32]);
        bytes[32..].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LINK_BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let store = StoreId(bytes[..16].try_into().expect("sixteen bytes"));
        let jobs = Some(number(24)).filter(|jobs| *jobs != UNCOUNTED);
        (number(32) == xxh3_64(&bytes[..32])).then(|| Self { store, changes: number(16), jobs })
    }

    /// The latest link of `store` among raw pages, where older ones may linger.
    fn latest(pages: &[u8], store: StoreId) -> Option<u64> {
        let links = pages.windows(LINK_BYTES).filter(|bytes| bytes[..16] == store.0);
        links.filter_map(Self::decode).map(|link| link.changes).max()
    }

    /// How many changes a note tells of that are not in the database.
    pub fn missing(&self, note: CommitMark) -> u64 {
        note.changes.saturating_sub(self.changes)
    }

    /// Whether there is a link of any store among raw pages.
    fn is_in_scope(pages: &[u8]) -> bool {
        pages.windows(LINK_BYTES).any(|bytes| Self::decode(bytes).is_some())
    }
}

impl CommitMark {
    /// What to note after a commit.
    pub fn of(link: StoreHead, durability: Durability) -> Self {
        Self { store: link.store, changes: link.changes, synced: durability == Durability::Always }
    }

    /// What the lock file says; nothing when it is new or garbled.
    pub fn read(lock: &File) -> io::Result<Option<Self>> {
        let mut bytes = [0; 128];
        let len = lock.read_at(&mut bytes, 0)?;
        let note = std::str::from_utf8(&bytes[..len]).ok().and_then(Self::parse);
        if note.is_none() && len > 0 {
            tracing::warn!("the lock file does not say how far the store had come");
        }
        Ok(note)
    }

    /// Writes over what it said before; always as many bytes.
    pub fn write(&self, lock: &File) -> io::Result<()> {
        let synced = if self.synced { "yes" } else { "no " };
        let store = u128::from_be_bytes(self.store.0);
        lock.write_all_at(
            format!("store {store:032x} changes {:020} synced {synced}\n", self.changes).as_bytes(),
            0,
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.lines().next()?.split_ascii_whitespace();
        let mut value = |name: &str| words.next().filter(|word| *word == name).and_then(|_| words.next());
        let store = value("store").filter(|hex| hex.len() == 32)?;
        let store = StoreId(u128::from_str_radix(store, 16).ok()?.to_be_bytes());
        let changes = value("changes")?.parse().ok()?;
        Some(Self { store, changes, synced: value("synced")? == "yes" })
    }
}

impl<'a> StoreFiles<'a> {
    pub fn new(db: &'a Path, log: &'a Path, lock: PathBuf, replays: bool) -> io::Result<Self> {
        let mut head = vec![0; HEAD_BYTES];
        let len = match File::open(db) {
            Ok(file) => file.read_at(&mut head, 0)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        head.truncate(len);
        Ok(Self { db, log, lock, head, replays })
    }

    /// Refuses a database that is missing though there was one.
    pub fn check_new(&self, note: Option<CommitMark>) -> Result<(), OpenError> {
        let Some(note) = note else { return Ok(()) };
        let why = format!(
            "the file is missing or empty, but {} tells of a store with {} changes; put it back, or remove that \
             file too to begin a new store",
            self.lock.display(),
            note.changes
        );
        Err(incomplete(self.db, why))
    }

    /// Refuses files that do not belong together; logs what is missing at the end. The link to go on with.
    pub fn check_compatible(
        &self,
        told: HeadState,
        note: Option<CommitMark>,
    ) -> Result<StoreHead, OpenError> {
        let link = match told {
            HeadState::StoreHead(link) => link,
            HeadState::Nothing => return Ok(StoreHead::new()),
            HeadState::Damaged => {
                tracing::error!(db = %self.db.display(), "how far the store had come cannot be read; counted anew");
                let begin =
                    |note: CommitMark| StoreHead { store: note.store, changes: note.changes, jobs: None };
                return Ok(note.map_or_else(StoreHead::new, begin));
            }
        };
        if let Some(note) = note {
            self.check_store(link, note)?;
        }
        self.check_wal(link)?;
        if let Some(note) = note {
            self.report_missing(link, note);
        }
        Ok(link)
    }

    fn check_store(&self, link: StoreHead, note: CommitMark) -> Result<(), OpenError> {
        if link.store == note.store {
            return Ok(());
        }
        if StoreHead::latest(&self.head, note.store).is_some() {
            let why = format!(
                "this is the log of another store than {}; put the right one back",
                self.db.display()
            );
            return Err(incomplete(self.log, why));
        }
        let why = format!(
            "this is another store than {} tells of; if it was put here on purpose, such as a backup, remove that \
             file (and make sure that no log is left from before)",
            self.lock.display()
        );
        Err(incomplete(self.db, why))
    }

    /// Between the file and its log nothing may be missing. Where the file's own count cannot be read, a
    /// cut in the middle of a page perhaps, this cannot be told.
    fn check_wal(&self, link: StoreHead) -> Result<(), OpenError> {
        if !self.replays {
            return Ok(());
        }
        // SQLite reads the first page from the log when it is there, and does not look at the file.
        if !self.head.starts_with(MAGIC) {
            let why = format!(
                "the file is no database, but {} is the log of one; put the file back",
                self.log.display()
            );
            return Err(incomplete(self.db, why));
        }
        let Some(filed) = StoreHead::latest(&self.head, link.store) else {
            let why = || format!("this is another store than the one of its log, {}", self.log.display());
            return if StoreHead::is_in_scope(&self.head) { Err(incomplete(self.db, why())) } else { Ok(()) };
        };
        if link.changes < filed {
            let why = format!(
                "the log ends at change {}, but {} is at {filed} already: it is an older log; put the right one back",
                link.changes,
                self.db.display()
            );
            return Err(incomplete(self.log, why));
        }
        let first =
            first_commit(self.log).map_err(|source| OpenError::Io { path: self.log.to_owned(), source })?;
        match StoreHead::latest(&first, link.store) {
            Some(first) if first > filed + 1 => {
                let why = format!(
                    "the file ends at change {filed}, but its log begins at {first}: it is an older file; put the \
                     right one back, or remove {} to go on with the older one",
                    self.log.display()
                );
                Err(incomplete(self.db, why))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn report_missing(&self, link: StoreHead, note: CommitMark) {
        let lost = link.missing(note);
        let db = self.db.display();
        match (lost, note.synced) {
            (0, _) => {}
            (_, true) => tracing::error!(
                %db, lost,
                "acknowledged changes are missing from the end of the store: its log was damaged or cut off, or \
                 an older copy was put back"
            ),
            (_, false) => tracing::warn!(
                %db, lost,
                "the last changes before a power cut were not synced, as the durability admits, and are lost"
            ),
        }
    }
}

fn incomplete(path: &Path, why: String) -> OpenError {
    OpenError::Incomplete { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId([7; 16]);

    #[test]
    fn a_link_is_read_back_and_a_damaged_one_is_not() {
        let link = StoreHead { store: STORE, changes: 300, jobs: Some(12) };
        let mut bytes = link.encode();
        assert_eq!(StoreHead::decode(&bytes), Some(link));
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(StoreHead::decode(&bytes), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(StoreHead::decode(&bytes[1..]), None);
    }

    #[test]
    fn the_latest_link_is_found_wherever_it_lies() {
        let mut pages = vec![1; 5_000];
        for (at, changes) in [(10, 4), (3_000, 9), (4_096, 8)] {
            pages[at..at + LINK_BYTES]
                .copy_from_slice(&StoreHead { store: STORE, changes, jobs: None }.encode());
        }
        assert_eq!(StoreHead::latest(&pages, STORE), Some(9));
        pages[3_020] ^= 1;
        assert_eq!(StoreHead::latest(&pages, STORE), Some(8));
        assert_eq!(StoreHead::latest(&pages, StoreId([6; 16])), None);
        assert!(StoreHead::is_in_scope(&pages) && !StoreHead::is_in_scope(&pages[..40]));
    }

    #[test]
    fn a_note_is_read_back_and_a_garbled_one_is_none() {
        let lock = tempfile::tempfile().expect("a file");
        assert_eq!(CommitMark::read(&lock).expect("reads"), None);
        for changes in [u64::MAX, 5] {
            for synced in [true, false] {
                let note = CommitMark { store: STORE, changes, synced };
                note.write(&lock).expect("writes");
                assert_eq!(CommitMark::read(&lock).expect("reads"), Some(note));
            }
        }
        lock.write_all_at(b"x", 3).expect("writes");
        assert_eq!(CommitMark::read(&lock).expect("reads"), None);
    }
}
