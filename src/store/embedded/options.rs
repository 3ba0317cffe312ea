//! What an embedded engine is opened with, and why opening may be refused.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

pub use crate::config::Durability;
use crate::config::EmbeddedSettings;

/// Tells how many bytes of the file system that holds a path are free for us.
pub type FreeSpace = Arc<dyn Fn(&Path) -> io::Result<u64> + Send + Sync>;

/// How to open the engine.
#[derive(Clone)]
pub struct Options {
    /// The directory that holds everything; created when it is missing.
    pub data_dir: PathBuf,
    /// What an acknowledgement means.
    pub durability: Durability,
    /// What makes the store larger is refused while less than this is free, so that finishing and deleting still can
    /// write. Below a quarter of it, without ballast, nothing writes jobs anew either.
    pub min_free_bytes: u64,
    /// Size of a file in the data directory that is removed when the disk is full, so that finishing, deleting and a
    /// restart work when another program has taken the rest. 0 for none.
    pub ballast_bytes: u64,
    /// How long dead letters are kept; `None` for ever.
    pub dead_retention: Option<Duration>,
    /// How far ahead due times are held in memory; what is due later costs memory only for its id.
    pub look_ahead: Duration,
    /// How long without an operation counts as idle; then space is handed back.
    pub idle_after: Duration,
    /// Where free space is read from.
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
            look_ahead,
            dead_retention,
        } = settings;
        Self {
            data_dir,
            durability,
            min_free_bytes,
            ballast_bytes,
            dead_retention,
            look_ahead,
            idle_after: Duration::from_millis(250),
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
            .field("look_ahead", &self.look_ahead)
            .finish_non_exhaustive()
    }
}

/// Why the engine was not opened. Nothing was changed, but perhaps created.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Somebody else has it open.
    #[error("{}: another process{} is using this data directory", .dir.display(), .pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    Locked {
        /// The data directory.
        dir: PathBuf,
        /// Who, where the system tells.
        pid: Option<u32>,
    },
    /// The operating system refused.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// SQLite refused.
    #[error("{}: {source}", .path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What it said.
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
    /// The file was written in a format that this version does not know.
    #[error("{}: format version {found}, but this version of Linger knows only {known}", .path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// Its format version.
        found: i64,
        /// The version this build reads and writes.
        known: i64,
    },
    /// One of the files that belong together is not there, and acknowledged changes with it.
    #[error("{}: {why}", .path.display())]
    Incomplete {
        /// The missing file.
        path: PathBuf,
        /// What is known about it, and how to go on.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_read_from_the_system() {
        assert!(free_bytes(Path::new(".")).expect("reads") > 0);
        assert!(free_bytes(Path::new("no such directory")).is_err());
    }
}
