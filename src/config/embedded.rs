//! The embedded engine: section `[embedded]`.

use std::{fmt, path::PathBuf, time::Duration};

use super::{
    queue::{dead_retention, dedup_max},
    reader::{self, GIB, MILLISECOND, MINUTE, Reader},
};

/// When an acknowledged change is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Before the acknowledgement: one sync for all requests that waited. Nothing acknowledged is lost.
    Always,
    /// Within this time after the acknowledgement. A power failure may lose that much, a killed process nothing.
    Interval(Duration),
    /// When the operating system writes it. A power failure may lose the last half minute or so, a killed process
    /// nothing.
    Os,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("always"),
            Self::Interval(every) => write!(f, "interval {}ms", every.as_millis()),
            Self::Os => f.write_str("os"),
        }
    }
}

/// Section `[embedded]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddedSettings {
    /// The directory of the data; created if it is missing.
    pub data_dir: PathBuf,
    /// What an acknowledgement means.
    pub durability: Durability,
    /// Operations that make the store larger are refused while less than this is free.
    pub min_free_bytes: u64,
    /// Size of a file in the data directory that is removed when the disk is full; 0 for none.
    pub ballast_bytes: u64,
    /// How long dead letters are kept; `None` keeps them forever.
    pub dead_retention: Option<Duration>,
    /// Maximum number of remembered ids.
    pub dedup_max: u64,
}

impl Default for EmbeddedSettings {
    fn default() -> Self {
        reader::read_defaults(Self::read)
    }
}

impl EmbeddedSettings {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let interval = reader.duration("embedded.sync_interval", MILLISECOND, MINUTE);
        let durabilities = [
            ("always", Durability::Always),
            ("interval", Durability::Interval(interval)),
            ("os", Durability::Os),
        ];
        Self {
            data_dir: reader.path("embedded.data_dir"),
            durability: reader.choice("embedded.durability", &durabilities),
            min_free_bytes: reader.size("embedded.min_free", 0, 1_024 * GIB),
            ballast_bytes: reader.size("embedded.ballast", 0, 1_024 * GIB),
            dead_retention: dead_retention(reader),
            dedup_max: dedup_max(reader),
        }
    }
}
