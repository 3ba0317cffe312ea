//! Moving a store to another one: the mark that says where a store stands in a move, and the fence that stops changes.
//! `transfer/relocate.rs` moves; a server refuses to start on a store whose mark [forbids](MoveMark::forbids) it.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{JobRecord, Put, RecordReader, Result, TopicRecord};
use crate::job::JobId;

/// Where a store stands in a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveRole {
    /// Its jobs are being moved away, or were: it takes no changes any more.
    Source,
    /// It is chosen to receive the jobs of another store; whether it is empty is not known yet.
    Claimed,
    /// It receives the jobs of another store, and is not served yet.
    Target,
    /// It has received all jobs of another store, and its fences are being removed.
    Opening,
    /// It has received all jobs of another store, and is served in its place.
    Opened,
    /// The move to it was abandoned. It may be incomplete, and is never served.
    Abandoned,
}

/// What a store remembers of a move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveMark {
    /// Where this store stands.
    pub role: MoveRole,
    /// The id of the store that the jobs come from.
    pub source: String,
    /// The id of the store that they go to.
    pub target: String,
    /// The other store's place, for people: `redis (redis://10.0.0.5:6379, prefix linger)`.
    pub other: String,
    /// The run of the program that wrote this mark: an earlier one that still runs finds another mark than its own.
    pub run: String,
}

impl MoveMark {
    /// Reads a stored mark; `None` when it is malformed.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// The mark as both engines store it.
    #[must_use]
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("a mark has no map and no number")
    }

    /// The same move in another role.
    #[must_use]
    pub fn with_role(&self, role: MoveRole) -> Self {
        Self { role, ..self.clone() }
    }

    /// Why no server may use a store with this mark, as a sentence for operators; `None` if one may.
    #[must_use]
    pub fn forbids(&self) -> Option<String> {
        let other = &self.other;
        match self.role {
            MoveRole::Source => Some(format!(
                "its jobs are moved to {other}; serve that one, or take this one back with: linger move --abandon"
            )),
            MoveRole::Claimed | MoveRole::Target | MoveRole::Opening => Some(format!(
                "it receives the jobs of {other} and is not complete; complete it with: linger move --last"
            )),
            MoveRole::Abandoned => Some(format!(
                "a move from {other} to it was abandoned, so it may be incomplete; remove it, or move to it again"
            )),
            MoveRole::Opened => None,
        }
    }
}

/// A store that can be the source or the target of a move. Whoever opens one for a move opens it without the tasks of a
/// server, so that nothing changes in it by itself.
#[async_trait]
pub trait Movable: Send + Sync {
    /// Identifies this store, wherever it is: random, chosen when the store was made.
    fn store_id(&self) -> String;

    /// The stored mark.
    ///
    /// # Errors
    /// [`super::Error::Damaged`] if it cannot be read.
    async fn move_mark(&self) -> Result<Option<MoveMark>>;

    /// Replaces the mark by `mark` if it is `was`: compared and stored in one step. Returns whether it is `mark` now.
    async fn set_move_mark(&self, was: Option<&MoveMark>, mark: Option<&MoveMark>) -> Result<bool>;

    /// Closes the store to all changes but those of this object, or opens it to all. On return no change of others that was
    /// on its way can happen any more.
    async fn set_fence(&self, closed: bool) -> Result<()>;

    /// As [`Store::records`](super::Store::records).
    async fn records(&self) -> Result<Box<dyn RecordReader>>;

    /// As [`Store::put`](super::Store::put).
    async fn put(&self, jobs: Vec<JobRecord>) -> Result<Vec<Put>>;

    /// Deletes jobs in any state.
    async fn delete(&self, ids: Vec<JobId>) -> Result<()>;

    /// Replaces everything that is set for a topic.
    async fn replace_topic(&self, topic: TopicRecord) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_survives_its_encoding_and_forbids_all_stores_but_an_opened_one() {
        for (role, forbids) in [
            (MoveRole::Source, Some("linger move --abandon")),
            (MoveRole::Claimed, Some("linger move --last")),
            (MoveRole::Target, Some("linger move --last")),
            (MoveRole::Opening, Some("linger move --last")),
            (MoveRole::Abandoned, Some("abandoned")),
            (MoveRole::Opened, None),
        ] {
            let (source, target) = ("a".to_owned(), "b".to_owned());
            let (other, run) = ("redis (x)".to_owned(), "r".to_owned());
            let mark = MoveMark { role, source, target, other, run };
            assert_eq!(MoveMark::decode(mark.encode().as_bytes()), Some(mark.clone()));
            let why = mark.forbids();
            assert_eq!(why.is_some(), forbids.is_some(), "{role:?}");
            assert!(why.unwrap_or_default().contains(forbids.unwrap_or_default()), "{role:?}");
        }
        assert_eq!(MoveMark::decode(b"{}"), None);
    }
}
