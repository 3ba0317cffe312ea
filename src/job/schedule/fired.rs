//! Which occurrences are over, so that a clock that was wrong and is set back does not run them again.

use serde::{Deserialize, Serialize};

use super::Recurrence;
use crate::job::Timestamp;

/// Occurrences that are over: each ran, or was left out because the previous run was not over. Kept as ranges without a gap.
///
/// A schedule that runs without interruption has one range. Of the past, at least the last 1,000 occurrences are remembered,
/// and all that a clock which was ahead has left in the future, up to 1,000 ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FiredRuns(Vec<Range>);

/// From an occurrence to a later one, or the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    from: Timestamp,
    to: Timestamp,
    count: u64,
}

impl FiredRuns {
    /// How many past occurrences are remembered at least, and how many ranges of the future at most.
    const REMEMBERED: usize = 1_000;

    /// The first occurrence after a moment that has not run.
    #[must_use]
    pub fn following(&self, recurrence: &Recurrence, after: Timestamp) -> Option<Timestamp> {
        let mut occurrence = recurrence.following(after)?;
        // Each step passes a range.
        while let Some(range) = self.0.iter().find(|range| range.contains(occurrence)) {
            occurrence = recurrence.following(range.to)?;
        }
        Some(occurrence)
    }

    /// Whether an occurrence has run.
    #[must_use]
    pub fn contains(&self, occurrence: Timestamp) -> bool {
        self.0.iter().any(|range| range.contains(occurrence))
    }

    /// Remembers an occurrence.
    pub fn insert(&mut self, recurrence: &Recurrence, occurrence: Timestamp) {
        if self.contains(occurrence) {
            return;
        }
        let at = self.0.partition_point(|range| range.to < occurrence);
        let before = at.checked_sub(1).map(|before| &mut self.0[before]);
        match before.filter(|before| recurrence.following(before.to) == Some(occurrence)) {
            Some(before) => {
                before.to = occurrence;
                before.count += 1;
            }
            None => self.0.insert(at, Range { from: occurrence, to: occurrence, count: 1 }),
        }
        self.forget(occurrence);
    }

    /// Forgets the oldest ranges of the past that are not needed, and the farthest of the future.
    fn forget(&mut self, now: Timestamp) {
        let past = self.0.partition_point(|range| range.to <= now);
        let mut remembered = 0;
        let needed = self.0[..past].iter().rev().take_while(|range| {
            let is_needed = remembered < Self::REMEMBERED as u64;
            remembered += range.count;
            is_needed
        });
        let needed = needed.count();
        self.0.drain(..past - needed);
        self.0.truncate(needed + Self::REMEMBERED);
    }

    /// As it is stored: for each range its first and last occurrence in milliseconds, and how many it has.
    pub(super) fn encode(&self) -> Vec<StoredRange> {
        let stored = |range: &Range| StoredRange(range.from.as_millis(), range.to.as_millis(), range.count);
        self.0.iter().map(stored).collect()
    }

    /// Reads stored ranges.
    pub(super) fn decode(stored: &[StoredRange]) -> Self {
        let range = |&StoredRange(from, to, count): &StoredRange| Range {
            from: Timestamp::from_millis(from),
            to: Timestamp::from_millis(to),
            count,
        };
        let mut ranges: Vec<Range> =
            stored.iter().map(range).filter(|range| range.from <= range.to).collect();
        ranges.sort_by_key(|range| range.to);
        Self(ranges)
    }

    #[cfg(test)]
    pub(super) fn ranges(&self) -> usize {
        self.0.len()
    }
}

impl Range {
    fn contains(&self, occurrence: Timestamp) -> bool {
        (self.from..=self.to).contains(&occurrence)
    }
}

/// A range as it is stored.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredRange(i64, i64, u64);
