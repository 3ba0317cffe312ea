//! What the free disk space allows: how much is left, which operations are refused when it is low, and when the
//! ballast is removed and made again. Knows no job.

use std::{path::Path, sync::Arc};

use rusqlite::{ErrorCode, ffi};

use super::{
    ballast::Ballast,
    data_dir::{DB_FILE, WAL_FILE},
    growth_limit,
};
use crate::store::{Degraded, Error, StoreSpace, embedded::options::Options};

/// Below this the disk counts as full, however small `min_free` is.
const ALWAYS_FULL_BELOW_BYTES: u64 = 4 << 20;

/// Why the store cannot grow though the disk has room.
const LIMITED: &str = "a disk quota or a limit on the size of files is reached";

/// How much disk space is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SpaceLevel {
    /// At least `min_free`.
    #[default]
    Ample,
    /// Less: no operation may make the store larger.
    Short,
    /// A quota or a limit on the size of a file is reached: no operation may make the store larger.
    Limited,
    /// Less than a quarter of `min_free`, and the ballast is used up: no operation may rewrite jobs either.
    Exhausted,
}

/// How much disk space an operation needs. Deleting needs none, and neither do operations that write only a few
/// bytes for a job (pop, a touch without a note).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpaceNeed {
    /// It makes the store larger.
    Growth,
    /// It rewrites a job, body included. The store keeps its size, but the log grows.
    Rewrite,
}

impl SpaceLevel {
    /// The error for an operation with this need, if it is refused.
    pub fn refusal(self, need: SpaceNeed) -> Option<Error> {
        let why = match (self, need) {
            (Self::Ample, _) | (Self::Short | Self::Limited, SpaceNeed::Rewrite) => return None,
            (Self::Short, SpaceNeed::Growth) => {
                "less disk space is free than embedded.min_free; what makes the store larger is refused"
            }
            (Self::Limited, SpaceNeed::Growth) => LIMITED,
            (Self::Exhausted, _) => {
                "the disk is nearly full; only what frees space is done, and pop, touch, pause and resume"
            }
        };
        Some(Error::Full(why.to_owned()))
    }

    /// The message for operators.
    pub fn degraded(self) -> Option<Degraded> {
        let detail = match self {
            Self::Ample => return None,
            Self::Short => {
                "less disk space is free than embedded.min_free: adds, larger bodies, requeues and settings are refused"
            }
            Self::Limited => {
                "a disk quota or a limit on the size of files is reached: adds, larger bodies, requeues and settings are \
                 refused"
            }
            Self::Exhausted => {
                "less disk space is free than a quarter of embedded.min_free, and the ballast is used up: \
                 only finish, delete, purge, pop, touch, pause and resume are done"
            }
        };
        Some(Degraded { part: "disk_space", detail: detail.to_owned(), is_unready: false })
    }
}

/// Reads the free space on first use, and keeps it for one group of operations.
#[derive(Debug)]
pub(crate) struct SpaceGauge<'a> {
    options: &'a Options,
    has_ballast: bool,
    is_full: bool,
    is_limited: bool,
    level: Option<SpaceLevel>,
}

impl<'a> SpaceGauge<'a> {
    /// For a disk that has not been found full, with a ballast.
    pub fn new(options: &'a Options) -> Self {
        Self { options, has_ballast: true, is_full: false, is_limited: false, level: None }
    }

    /// How much space is left. Costs about 2 µs, once per group.
    pub fn level(&mut self) -> SpaceLevel {
        *self.level.get_or_insert_with(|| {
            let min_free = self.options.min_free_bytes;
            match free_bytes(self.options) {
                Some(free) if free < min_free / 4 && !self.has_ballast => SpaceLevel::Exhausted,
                Some(free) if free < min_free => SpaceLevel::Short,
                _ if self.is_limited => SpaceLevel::Limited,
                _ if self.is_full => SpaceLevel::Short,
                // When the free space cannot be read, SQLite will report a full disk.
                Some(_) | None => SpaceLevel::Ample,
            }
        })
    }

    /// The level, if it was read.
    pub fn known(&self) -> Option<SpaceLevel> {
        self.level
    }
}

fn free_bytes(options: &Options) -> Option<u64> {
    let free = (options.free_space)(&options.data_dir).ok()?;
    Some(free.min(growth_limit::bytes_left(&options.data_dir)))
}

/// The size of the files with jobs, and the free space of their disk. Opens no file: SQLite would lose its locks.
pub(crate) fn store_space(options: &Options) -> StoreSpace {
    let size = |name: &str| std::fs::metadata(options.data_dir.join(name)).map(|file| file.len()).ok();
    let used_bytes = size(DB_FILE).map(|database| database + size(WAL_FILE).unwrap_or(0));
    StoreSpace { used_bytes, free_bytes: free_bytes(options) }
}

/// Whether SQLite failed for lack of disk space. Without space it cannot extend its index of the log either,
/// and calls that an I/O error. So it calls a write past a quota or a limit on the size of a file, and only a try can tell
/// that from a broken disk.
pub(crate) fn is_out_of_space(error: &rusqlite::Error, dir: &Path) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
        || is_out_of_index_space(error)
        || (has_code(error, ffi::SQLITE_IOERR_WRITE) && growth_limit::explains_failed_write(dir))
}

/// Whether SQLite could not extend its index of the log.
pub(crate) fn is_out_of_index_space(error: &rusqlite::Error) -> bool {
    has_code(error, ffi::SQLITE_IOERR_SHMSIZE)
}

fn has_code(error: &rusqlite::Error, code: i32) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == code)
}

/// The disk space of a running engine.
pub(crate) struct DiskSpace {
    options: Arc<Options>,
    ballast: Ballast,
    /// Whether a write met a full disk, and there has not been enough space since.
    is_full: bool,
    /// Whether that was because of a limit that the free space does not show.
    is_limited: bool,
    /// Bytes that removing the ballast has freed, which new jobs must not use.
    freed_bytes: u64,
}

impl DiskSpace {
    /// Makes the ballast if there is space for it.
    pub fn new(options: Arc<Options>) -> Self {
        let ballast = Ballast::find(&options.data_dir, options.ballast_bytes);
        let mut this = Self { options, ballast, is_full: false, is_limited: false, freed_bytes: 0 };
        this.recover();
        if this.ballast.is_wanted() {
            tracing::warn!(
                bytes = this.ballast.bytes(),
                dir = %this.options.data_dir.display(),
                "there is no room for the ballast file yet; without it, a full disk stops finishing and deleting too"
            );
        }
        this
    }

    /// For one group of operations.
    pub fn gauge(&self) -> SpaceGauge<'_> {
        let (has_ballast, is_full) = (self.ballast.is_present(), self.is_full);
        SpaceGauge { options: &self.options, has_ballast, is_full, is_limited: self.is_limited, level: None }
    }

    /// Whether the disk is full, so that the write-ahead log must be kept short.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether a lack of space explains an error.
    pub fn explains(&self, error: &rusqlite::Error) -> bool {
        is_out_of_space(error, &self.options.data_dir)
    }

    /// Records that a write met a full disk.
    pub fn ran_out(&mut self) {
        if !self.is_full {
            self.is_full = true;
            self.is_limited = self.has_room() && growth_limit::explains_failed_write(&self.options.data_dir);
            tracing::error!(dir = %self.options.data_dir.display(), "{}", self.why_full());
        }
    }

    /// The error for an operation that met it.
    pub fn full(&self) -> Error {
        Error::Full(self.why_full().to_owned())
    }

    fn why_full(&self) -> &'static str {
        if self.is_limited { LIMITED } else { "the disk is full" }
    }

    /// Whether the disk has space, so that a failed write must have another reason.
    fn has_room(&self) -> bool {
        free_bytes(&self.options).is_none_or(|free| free > ALWAYS_FULL_BELOW_BYTES)
    }

    /// Removes the ballast. Returns whether that freed space.
    pub fn make_room(&mut self) -> bool {
        let removed = self.ballast.remove();
        if removed {
            self.freed_bytes = self.ballast.bytes();
            tracing::warn!(
                bytes = self.ballast.bytes(),
                "the ballast file was removed, so that jobs can be finished and deleted"
            );
        }
        removed
    }

    /// Checks whether there is space again, and makes the ballast when there is enough.
    pub fn recover(&mut self) {
        if !self.is_full && !self.ballast.is_wanted() {
            return;
        }
        if self.is_limited {
            let dir = &self.options.data_dir;
            self.is_limited = self.has_room() && growth_limit::is_reached(dir, self.freed_bytes);
            if self.is_limited {
                return;
            }
        }
        let Some(free) = free_bytes(&self.options) else { return };
        let min_free = self.options.min_free_bytes;
        if self.ballast.is_wanted() {
            let left = free.checked_sub(self.ballast.bytes());
            // The ballast must not be the reason that adds stop, nor use up the space that it was removed for.
            let fits = left.is_some_and(|left| left >= min_free || free < min_free && left >= min_free / 4);
            if fits && left > Some(ALWAYS_FULL_BELOW_BYTES) && self.ballast.make() {
                self.freed_bytes = 0;
                tracing::info!(bytes = self.ballast.bytes(), "the ballast file is in place");
            }
        }
        let enough = min_free.max(ALWAYS_FULL_BELOW_BYTES).saturating_add(self.freed_bytes);
        if self.is_full && (self.ballast.is_present() || free > enough) {
            self.is_full = false;
            tracing::info!(free, "the disk has room again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Options for a directory on a disk with as much free space as the number says.
    fn options(dir: &tempfile::TempDir) -> (Options, Arc<AtomicU64>) {
        let free = Arc::new(AtomicU64::new(1_000 * MIB));
        let mut options = Options::new(dir.path());
        options.min_free_bytes = 64 * MIB;
        options.ballast_bytes = 32 * MIB;
        options.free_space = Arc::new({
            let free = free.clone();
            move |_| Ok(free.load(Ordering::Relaxed))
        });
        (options, free)
    }

    #[test]
    fn growth_stops_at_min_free_and_rewriting_at_a_quarter_of_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let (options, free) = options(&dir);
        let mut refused = Vec::new();
        for (mib, has_ballast) in [(64, true), (63, true), (1, true), (16, false), (15, false)] {
            free.store(mib * MIB, Ordering::Relaxed);
            let gauge = SpaceGauge::new(&options);
            let level = SpaceGauge { has_ballast, ..gauge }.level();
            refused.push([SpaceNeed::Growth, SpaceNeed::Rewrite].map(|need| level.refusal(need).is_some()));
            assert_eq!(level.degraded().is_some(), level != SpaceLevel::Ample);
        }
        let expected = [[false, false], [true, false], [true, false], [true, false], [true, true]];
        assert_eq!(refused, expected);
    }

    #[test]
    fn a_gauge_reads_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let (options, free) = options(&dir);
        let mut gauge = SpaceGauge::new(&options);
        assert_eq!(gauge.known(), None);
        assert_eq!(gauge.level(), SpaceLevel::Ample);
        free.store(0, Ordering::Relaxed);
        assert_eq!((gauge.level(), gauge.known()), (SpaceLevel::Ample, Some(SpaceLevel::Ample)));
    }

    #[test]
    fn the_ballast_is_made_where_it_stops_nothing_and_given_up_when_the_disk_is_full() {
        let dir = tempfile::tempdir().expect("a directory");
        let (options, free) = options(&dir);
        free.store(70 * MIB, Ordering::Relaxed);
        let mut space = DiskSpace::new(Arc::new(options));
        assert!(!space.ballast.is_present(), "adds would stop because of it");
        for (mib, made) in [(95, false), (47, false), (48, true)] {
            free.store(mib * MIB, Ordering::Relaxed);
            space.recover();
            assert_eq!(space.ballast.is_present(), made, "{mib} MiB");
        }
        space.ran_out();
        assert!(space.is_full() && space.make_room() && !space.make_room());
        free.store(32 * MIB, Ordering::Relaxed);
        space.recover();
        assert!(space.is_full() && !space.ballast.is_present());
        free.store(96 * MIB, Ordering::Relaxed);
        space.recover();
        assert!(!space.is_full() && space.ballast.is_present());
    }

    #[test]
    fn the_store_takes_what_its_files_have() {
        let dir = tempfile::tempdir().expect("a directory");
        let (options, _) = options(&dir);
        let free_bytes = Some(1_000 * MIB);
        assert_eq!(store_space(&options), StoreSpace { used_bytes: None, free_bytes });
        for (name, len) in [(DB_FILE, 4_096), (WAL_FILE, 100), ("ballast", 1_000_000)] {
            std::fs::write(dir.path().join(name), vec![0; len]).expect("writes");
        }
        assert_eq!(store_space(&options), StoreSpace { used_bytes: Some(4_196), free_bytes });
    }

    #[test]
    fn sqlite_names_a_full_disk_in_two_ways() {
        let dir = tempfile::tempdir().expect("a directory");
        let explains =
            |code| is_out_of_space(&rusqlite::Error::SqliteFailure(ffi::Error::new(code), None), dir.path());
        assert!(explains(ffi::SQLITE_FULL));
        assert!(explains(ffi::SQLITE_IOERR_SHMSIZE));
        assert!(!explains(ffi::SQLITE_IOERR_FSYNC));
        assert!(!explains(ffi::SQLITE_IOERR_WRITE), "the directory has room");
    }
}
