//! Notices: short texts that the processes of a store leave for each other, and the laws about them.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Result, bounded_text::BoundedText};

/// Most notices of one kind.
pub const MAX_NOTICES: usize = 64;

/// How long a notice of the kind [`NoticeKind::Watch`] counts.
pub const WATCHED_FOR: Duration = Duration::from_secs(10);

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NoticeKind {
    /// A bulk operation: what it does and how far it is.
    Operation,
    /// A request to stop a bulk operation.
    StopRequest,
    /// A process and its figures.
    Process,
    /// The workers that poll a process, and the endpoints that it calls.
    Activity,
    /// A client reads the figures of all processes. While the notice is younger than [`WATCHED_FOR`], an engine that
    /// several processes share calls [`Listener::watched`](super::Listener::watched) of each process at least once a
    /// second.
    Watch,
}

/// The text of a notice.
pub type NoticeContent = BoundedText<{ 64 << 10 }>;

/// A notice as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Its id, unique among those of its kind.
    pub id: String,
    /// Its text.
    pub content: Bytes,
    /// How long ago it was last written, by the clock of the store. In milliseconds.
    pub age: Duration,
}

/// The notices of a store.
///
/// # Laws
///
/// 1. Once a notice is written, every process of the store reads it. It is no part of the jobs: no figure, verification or
///    backup of the embedded engine has it, and it may be lost when the store restarts.
/// 2. There are at most [`MAX_NOTICES`] of each kind. A further one takes the place of the one that was
///    written longest ago, of several the one with the lowest id.
/// 3. Writing the same notice once more changes nothing but its age.
#[async_trait]
pub trait Notices: Send + Sync {
    /// Writes a notice, in the place of the one with this kind and id.
    async fn put(&self, kind: NoticeKind, id: &str, content: NoticeContent) -> Result<()>;

    /// Writes a notice, unless there is one with this kind and id and another text: then that one is returned. Compared and
    /// written in one step.
    async fn put_new(&self, kind: NoticeKind, id: &str, content: NoticeContent) -> Result<Option<Notice>>;

    /// One notice.
    async fn get(&self, kind: NoticeKind, id: &str) -> Result<Option<Notice>>;

    /// All notices of a kind, in no particular order.
    async fn list(&self, kind: NoticeKind) -> Result<Vec<Notice>>;

    /// Deletes a notice, if there is one.
    async fn delete(&self, kind: NoticeKind, id: &str) -> Result<()>;
}
