//! Moving a store to another one: the mark that says where a store stands in a move, and the fence that stops
//! changes. `transfer/relocate.rs` moves; a server refuses to start on a store whose mark
//! [forbids](MoveMark::forbids) it.
//!
//! A mark is replaced only if it is as expected. The lock of the embedded engine's directory stops its servers. On
//! Redis a server may run, or wake, at any time: the field `!` of each shard's counts and of the settings is a
//! *fence*, the name of the process that alone may change what is there, and every script that changes jobs or
//! settings checks it. A mover, whose name begins with an m, may change only what it has fenced itself. Fences are
//! numbered, as the marks are, so that a mover which wakes late can neither set nor remove one: another may have
//! completed the move, and servers may have changed the jobs since.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{JobRecord, Put, RecordReader, Result, ScheduleStore, TopicStore};
use crate::{
    clock::Clock,
    job::{JobId, RememberedId, Timestamp},
};

/// Where a store stands in a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveRole {
    /// The last pass has closed it: it takes no changes, until the move is complete or abandoned.
    Source,
    /// All its jobs are in another store, for good.
    Moved,
    /// It is chosen to receive the jobs of another store; whether it is empty is not known yet.
    Claimed,
    /// It receives the jobs of another store, and is not served yet.
    Target,
    /// It has received all jobs of another store, and its fences are being removed.
    Opening,
    /// It has received all jobs of another store, and is served in its place.
    Opened,
    /// A move from it or to it was given up, and it is served as before.
    Free,
}

/// What a store remembers of a move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveMark {
    /// Where this store stands.
    pub role: MoveRole,
    /// Each run of the program that takes a store over adds one. A fence has it, too, so that an earlier run which wakes
    /// late can neither set nor remove one.
    pub number: u64,
    /// That run, at random: two of them never write the same mark.
    pub run: String,
    /// The id of the store that the jobs come from.
    pub source: String,
    /// The id of the store that they go to.
    pub target: String,
    /// The other store's place, for people: `redis (10.0.0.5:6379, prefix linger)`.
    pub other: String,
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
        serde_json::to_string(self).expect("a mark has no map")
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
                "its jobs are being moved to {other}: complete the move with `linger move --to NEW.toml --last`, or give it \
                 up with `linger move --abandon`"
            )),
            MoveRole::Moved => Some(format!("its jobs were moved to {other}: serve that store")),
            MoveRole::Claimed | MoveRole::Target | MoveRole::Opening => Some(format!(
                "it receives the jobs of {other}, and the move is not complete: complete it with \
                 `linger move --to NEW.toml --last`"
            )),
            MoveRole::Opened | MoveRole::Free => None,
        }
    }
}

/// How far the clocks by which a store's jobs become due are ahead of this machine's, in microseconds. Each server of a
/// store has a clock, and a reading of it gives two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffsets {
    /// The least of the upper bounds: the slowest clock is ahead by this much at most.
    pub slowest: i64,
    /// The greatest of the lower bounds: the fastest clock is ahead by this much at least.
    pub fastest: i64,
}

impl ClockOffsets {
    /// A clock that reads `moment`, such as that of the embedded engine, which is never set back.
    #[must_use]
    pub fn of_moment(moment: Timestamp, own: &dyn Clock) -> Self {
        let ahead =
            moment.as_millis().saturating_sub(own.read().rounded_down.as_millis()).saturating_mul(1_000);
        Self { slowest: ahead, fastest: ahead }
    }

    /// These clocks and others.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { slowest: self.slowest.min(other.slowest), fastest: self.fastest.max(other.fastest) }
    }

    /// By how much two of the clocks differ at least.
    #[must_use]
    pub fn apart(self) -> Duration {
        Duration::from_micros(u64::try_from(self.fastest.saturating_sub(self.slowest)).unwrap_or(0))
    }
}

/// The servers that a store is on, with the number of replicas that are connected to each; empty if it is in this process. A
/// server that starts again, or becomes a primary again, counts as another one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerSet(pub BTreeMap<String, i64>);

impl ServerSet {
    /// Whether all that these servers had stored is certainly there: none has been replaced since `before`, and none has lost a
    /// replica, as one does that is cut off and replaced soon.
    #[must_use]
    pub fn has_stayed_since(&self, before: &Self) -> bool {
        self.0.keys().eq(before.0.keys())
            && self.0.iter().all(|(server, replicas)| before.0.get(server).is_some_and(|had| replicas >= had))
    }
}

/// A store that can be the source or the target of a move. It is opened for a move without the tasks of a server, so
/// that nothing changes in it by itself.
#[async_trait]
pub trait Movable: TopicStore + ScheduleStore {
    /// Identifies this store, wherever it is: random, chosen when the store was made.
    fn store_id(&self) -> String;

    /// The clocks by which its jobs become due.
    async fn clock_offsets(&self) -> Result<ClockOffsets>;

    /// The stored mark.
    ///
    /// # Errors
    /// [`super::Error::Damaged`] if it cannot be read.
    async fn move_mark(&self) -> Result<Option<MoveMark>>;

    /// Replaces the mark by `mark` if it is `was`: compared and stored in one step. Returns whether it is `mark` now.
    async fn set_move_mark(&self, was: Option<&MoveMark>, mark: &MoveMark) -> Result<bool>;

    /// Closes the store to all changes but those of this object, or opens it to all. On return no change of others that was
    /// on its way can happen any more. Returns `false`, having changed nothing or not everything, if a run with a higher
    /// number has done either.
    async fn set_fence(&self, number: u64, closed: bool) -> Result<bool>;

    /// The servers that have the store now.
    async fn servers(&self) -> Result<ServerSet>;

    /// Waits until all replicas that are connected have received what was stored so far.
    async fn wait_for_replicas(&self) -> Result<()>;

    /// As [`Store::records`](super::Store::records).
    async fn records(&self) -> Result<Box<dyn RecordReader>>;

    /// As [`Store::put`](super::Store::put).
    async fn put(&self, jobs: Vec<JobRecord>) -> Result<Vec<Put>>;

    /// As [`Store::put_remembered`](super::Store::put_remembered).
    async fn put_remembered(&self, ids: Vec<RememberedId>) -> Result<Vec<Put>>;

    /// Deletes jobs in any state. Their ids are not remembered.
    async fn delete(&self, ids: Vec<JobId>) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_survives_its_encoding_and_forbids_all_stores_that_are_not_served() {
        for (role, forbids) in [
            (MoveRole::Source, Some("linger move --abandon")),
            (MoveRole::Moved, Some("were moved to redis (x): serve that store")),
            (MoveRole::Claimed, Some("--last")),
            (MoveRole::Target, Some("--last")),
            (MoveRole::Opening, Some("--last")),
            (MoveRole::Opened, None),
            (MoveRole::Free, None),
        ] {
            let (source, target) = ("a".to_owned(), "b".to_owned());
            let (other, run) = ("redis (x)".to_owned(), "r".to_owned());
            let mark = MoveMark { role, number: 7, run, source, target, other };
            assert_eq!(MoveMark::decode(mark.encode().as_bytes()), Some(mark.clone()));
            let why = mark.forbids();
            assert_eq!(why.is_some(), forbids.is_some(), "{role:?}");
            assert!(why.unwrap_or_default().contains(forbids.unwrap_or_default()), "{role:?}");
        }
        assert_eq!(MoveMark::decode(b"{}"), None);
    }

    #[test]
    fn servers_have_stayed_if_none_was_replaced_and_none_lost_a_replica() {
        let set = |servers: &[(&str, i64)]| {
            ServerSet(servers.iter().map(|(server, replicas)| ((*server).to_owned(), *replicas)).collect())
        };
        let before = set(&[("a", 1), ("b", 0)]);
        assert!(ServerSet::default().has_stayed_since(&ServerSet::default()));
        assert!(before.has_stayed_since(&before));
        assert!(set(&[("a", 2), ("b", 0)]).has_stayed_since(&before), "a replica more");
        assert!(!set(&[("a", 0), ("b", 0)]).has_stayed_since(&before), "a replica less");
        assert!(!set(&[("a", 1), ("c", 0)]).has_stayed_since(&before), "another server");
        assert!(!set(&[("a", 1)]).has_stayed_since(&before));
        assert!(!set(&[("a", 1), ("b", 0), ("c", 0)]).has_stayed_since(&before));
    }

    #[test]
    fn clocks_differ_by_what_their_bounds_prove() {
        let read = |least: i64, most: i64| ClockOffsets { slowest: most, fastest: least };
        let second = 1_000_000;
        assert_eq!(read(0, 0).and(read(-300, 200)).apart(), Duration::ZERO);
        let ahead = read(3 * second, 3 * second + 200);
        assert_eq!(read(0, 0).and(ahead).apart(), Duration::from_secs(3));
        assert_eq!(
            ahead.and(read(-2 * second, -second)).apart(),
            Duration::from_secs(4),
            "behind by one or two"
        );
        assert_eq!(ahead.and(read(0, 5 * second)).apart(), Duration::ZERO, "a slow reading proves little");
    }
}
