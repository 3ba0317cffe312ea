//! The record of progress in the lock file: which store it was and how many commits it had. It is compared with
//! the database at the next start, because SQLite does not notice a write-ahead log that ends too early at a
//! commit.
//!
//! The mark is not synced, so that it costs nothing: with `durability = "always"` it is never ahead of the
//! database, and behind only after a power cut.

use std::{fs::File, io, os::unix::fs::FileExt};

use crate::store::embedded::{
    options::Durability,
    rows::meta::{StoreHead, StoreId},
};

/// The progress of a store as the lock file records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommitMark {
    pub store: StoreId,
    pub commits: u64,
    /// Whether each of these commits was on disk before the mark.
    pub synced: bool,
}

impl CommitMark {
    /// The mark to write after a commit.
    pub fn after_commit(head: StoreHead, durability: Durability) -> Self {
        Self { store: head.store, commits: head.commits, synced: durability == Durability::Always }
    }

    /// How many commits of this mark are missing from a store with `head`.
    pub fn missing_from(&self, head: StoreHead) -> u64 {
        self.commits.saturating_sub(head.commits)
    }

    /// Reads the mark; `None` when the lock file is new or its content is invalid.
    pub fn read(lock: &File) -> io::Result<Option<Self>> {
        let mut bytes = [0; 128];
        let len = lock.read_at(&mut bytes, 0)?;
        let mark = std::str::from_utf8(&bytes[..len]).ok().and_then(Self::parse);
        if mark.is_none() && len > 0 {
            tracing::warn!(
                "the content of the lock file is invalid, so a loss of commits would not be noticed"
            );
        }
        Ok(mark)
    }

    /// Overwrites the previous mark, which has the same length.
    pub fn write(&self, lock: &File) -> io::Result<()> {
        let synced = if self.synced { "yes" } else { "no " };
        let store = u128::from_be_bytes(self.store.0);
        lock.write_all_at(
            format!("store {store:032x} changes {:020} synced {synced}\n", self.commits).as_bytes(),
            0,
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.lines().next()?.split_ascii_whitespace();
        let mut value = |name: &str| words.next().filter(|word| *word == name).and_then(|_| words.next());
        let store = value("store").filter(|hex| hex.len() == 32)?;
        let store = StoreId(u128::from_str_radix(store, 16).ok()?.to_be_bytes());
        let commits = value("changes")?.parse().ok()?;
        Some(Self { store, commits, synced: value("synced")? == "yes" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId([7; 16]);

    #[test]
    fn a_mark_is_read_back_and_an_invalid_one_is_none() {
        let lock = tempfile::tempfile().expect("a file");
        assert_eq!(CommitMark::read(&lock).expect("reads"), None);
        for commits in [u64::MAX, 5] {
            for synced in [true, false] {
                let mark = CommitMark { store: STORE, commits, synced };
                mark.write(&lock).expect("writes");
                assert_eq!(CommitMark::read(&lock).expect("reads"), Some(mark));
            }
        }
        lock.write_all_at(b"x", 3).expect("writes");
        assert_eq!(CommitMark::read(&lock).expect("reads"), None);
    }
}
