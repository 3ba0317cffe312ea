//! The options of the embedded engine, and why opening it may fail.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

pub use crate::config::Durability;
use crate::config::EmbeddedSettings;

/// Returns the free bytes, for this process, of the file system that contains a path.
pub type FreeSpace = Arc<dyn Fn(&Path) -> io::Result<u64> + Send + Sync>;

/// How to open the engine.
#[derive(Clone)]
pub struct Options {
    /// The directory of all files; created when it is missing.
    pub data_dir: PathBuf,
    /// When an acknowledged change is on disk.
    pub durability: Durability,
    /// Operations that make the store larger are refused while less than this is free, so that finishing and deleting
    /// can still write. Below a quarter of it, without ballast, operations that rewrite jobs are refused too.
    pub min_free_bytes: u64,
    /// Size of a file in the data directory that is removed when the disk is full, so that finishing, deleting and a
    /// restart work when another program has taken the rest. 0 for none.
    pub ballast_bytes: u64,
    /// How long dead letters are kept; `None` for ever.
    pub dead_retention: Option<Duration>,
    /// Maximum number of remembered ids.
    pub dedup_max: u64,
    /// The time without an operation after which unused space is returned to the file system.
    pub idle_after: Duration,
    /// Whether the engine promotes due jobs by itself, from the first call of [`promote`](crate::store::Store::promote)
    /// on. Tests on a manual clock turn it off, so that they decide when jobs are promoted.
    pub promotes_by_itself: bool,
    /// Whether the store is opened as the source or the target of a move, which its mark may forbid to servers.
    pub to_move: bool,
    /// Whether records that were set aside are among those that are read, as broken ones: a move must not leave one behind
    /// unnoticed.
    pub reads_set_aside: bool,
    /// Reads the free space.
    pub free_space: FreeSpace,
}

impl Options {
    /// The default settings for `data_dir`.
    #[must_use]
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        EmbeddedSettings { data_dir: data_dir.into(), ..EmbeddedSettings::default() }.into()
    }
}

impl From<EmbeddedSettings> for Options {
    fn from(settings: EmbeddedSettings) -> Self {
        let EmbeddedSettings {
            data_dir,
            durability,
            min_free_bytes,
            ballast_bytes,
            dead_retention,
            dedup_max,
        } = settings;
        Self {
            data_dir,
            durability,
            min_free_bytes,
            ballast_bytes,
            dead_retention,
            dedup_max,
            idle_after: Duration::from_millis(250),
            promotes_by_itself: true,
            to_move: false,
            reads_set_aside: false,
            free_space: Arc::new(free_bytes),
        }
    }
}

/// Free bytes, for this process, of the file system that contains `path`.
fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("data_dir", &self.data_dir)
            .field("durability", &self.durability)
            .field("min_free_bytes", &self.min_free_bytes)
            .field("ballast_bytes", &self.ballast_bytes)
            .field("dead_retention", &self.dead_retention)
            .finish_non_exhaustive()
    }
}

/// Why the engine could not be opened. No file was changed, but some may have been created.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("{}: another process{} is using this data directory", .dir.display(), .pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    Locked {
        /// The data directory.
        dir: PathBuf,
        /// Its process id, if the system reports it.
        pid: Option<u32>,
    },
    /// The operating system refused.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Its error.
        source: io::Error,
    },
    /// SQLite refused.
    #[error("{}: {source}", .path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Its error.
        source: rusqlite::Error,
    },
    /// The file belongs to another program.
    #[error("{}: this is not a Linger store", .path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// The file has other tables, indexes, views or triggers than this version makes. They could change what is
    /// stored, unseen.
    #[error("{}: the database was changed by another program: {what}", .path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// Each difference, in words.
        what: String,
    },
    /// It takes part in a move, so that no server may use it.
    #[error("{}: {why}", .path.display())]
    Moved {
        /// The file.
        path: PathBuf,
        /// Where it stands in the move, and what to do.
        why: String,
    },
    /// The file was written in a format that this version does not know.
    #[error("{}: {}", .path.display(), unknown_format(*.found, *.known))]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// Its format version.
        found: i64,
        /// The version this build reads and writes.
        known: i64,
    },
    /// A file is missing or does not belong to the others, so that acknowledged changes are missing.
    #[error("{}: {why}", .path.display())]
    Incomplete {
        /// The missing file.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
}

fn unknown_format(found: i64, known: i64) -> String {
    match found {
        1 => format!(
            "the store has format 1, of a version before the first release; this version of Linger reads format {known} \
             only. Let the version that wrote the store drain it, or remove the data directory to begin a new store"
        ),
        newer if newer > known => format!(
            "the store has format {newer}, but this version of Linger knows only {known}; use the version that wrote it, \
             or a newer one"
        ),
        other => {
            format!("the store has the unknown format {other}; this version of Linger knows only {known}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_read_from_the_system() {
        assert!(free_bytes(Path::new(".")).expect("reads") > 0);
        assert!(free_bytes(Path::new("no such directory")).is_err());
    }

    #[test]
    fn every_setting_becomes_the_option_of_its_name() {
        let settings = EmbeddedSettings {
            data_dir: "data-1".into(),
            durability: Durability::Interval(Duration::from_secs(5)),
            min_free_bytes: 1_012,
            ballast_bytes: 1_013,
            dead_retention: Some(Duration::from_secs(114)),
            dedup_max: 1_023,
        };
        let options = Options::from(settings.clone());
        assert_eq!(
            settings,
            EmbeddedSettings {
                data_dir: options.data_dir,
                durability: options.durability,
                min_free_bytes: options.min_free_bytes,
                ballast_bytes: options.ballast_bytes,
                dead_retention: options.dead_retention,
                dedup_max: options.dedup_max,
            }
        );
    }
}
