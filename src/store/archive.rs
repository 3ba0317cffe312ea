//! The archive: records of what was done, which a store keeps over restarts, and the laws about them.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Result, bounded_text::BoundedText};
use crate::job::Timestamp;

/// What a record of the archive is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArchiveKind {
    /// A call whose author may matter later.
    Call,
    /// A bulk operation that has ended.
    Operation,
}

impl ArchiveKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Call, Self::Operation];

    /// Most records of this kind.
    #[must_use]
    pub const fn most(self) -> u64 {
        match self {
            Self::Call => 10_000,
            Self::Operation => 200,
        }
    }

    /// How long a record of this kind is kept.
    #[must_use]
    pub const fn kept_for(self) -> Duration {
        Duration::from_secs(90 * 24 * 60 * 60)
    }
}

/// The text of a record.
pub type ArchiveContent = BoundedText<{ 16 << 10 }>;

/// A record as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedRecord {
    /// Its number among those of its kind, which rises from one record to the next.
    pub number: u64,
    /// Its id, unique among those of its kind.
    pub id: String,
    /// When it was first written, by the clock of the store.
    pub at: Timestamp,
    /// Its text.
    pub content: Bytes,
}

/// The archive of a store.
///
/// # Laws
///
/// 1. A record is as durable as any change of the store. Writing a new one needs room: it fails when the store is full.
/// 2. Writing a record once more replaces its text, and keeps its number and its moment. So a repeat changes nothing.
/// 3. A new record of a kind removes those of this kind that are more than [`ArchiveKind::most`] numbers older, and of
///    the hundred oldest those that are older than [`ArchiveKind::kept_for`]. A damaged one is left out.
/// 4. The archive is no part of the queue: no figure counts it, and exports and moves leave it where it is. Backups have it.
#[async_trait]
pub trait Archive: Send + Sync {
    /// Writes a record.
    async fn put(&self, kind: ArchiveKind, id: &str, content: ArchiveContent) -> Result<()>;

    /// One record.
    async fn get(&self, kind: ArchiveKind, id: &str) -> Result<Option<ArchivedRecord>>;

    /// Up to `limit` records with lower numbers than `before`, the newest first.
    async fn page(&self, kind: ArchiveKind, before: Option<u64>, limit: usize)
    -> Result<Vec<ArchivedRecord>>;
}

/// How many of the oldest records a new one looks at, whether they are too old.
pub(super) const TOO_OLD_AT_ONCE: u64 = 100;
