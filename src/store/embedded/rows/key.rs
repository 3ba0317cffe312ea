//! The key of a record: the moment it is scheduled for, by which clock, and its position within that moment, in one integer.
//!
//! An integer key (SQLite's rowid) instead of a `WITHOUT ROWID` pair: rows are then in the leaves only, so
//! the tree of 10 million jobs is four levels deep rather than seven, bodies of up to 4,000 bytes need no
//! overflow page, and appending fills pages to the brim. It also halves the keys held in memory.

use std::fmt;

use crate::job::{DueKind, Timestamp};

/// Bits for the positions within one millisecond. Further jobs get positions of the next millisecond, so a key's
/// slot is never before the due time and no job is early; 100,000 jobs due in the same millisecond are delivered
/// in order and spread over seven. The upper half of the positions is for jobs that go by the machine's clock.
const POSITION_BITS: u32 = 15;
const FIRST_OF_MOMENTS: u64 = 1 << (POSITION_BITS - 1);

/// `slot in milliseconds << 15 | position`; ordered by time, then kind, then arrival. [`Timestamp::MAX`] leaves the
/// sign bit free, so the order is also that of SQLite's signed integers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RowKey(u64);

impl RowKey {
    /// Before every key, or the first.
    pub const START: Self = Self(0);
    /// Behind every key.
    pub const END: Self = Self(i64::MAX.unsigned_abs());

    /// The first key at `moment`, of either kind.
    pub fn first_at(moment: Timestamp) -> Self {
        Self(moment.as_millis().unsigned_abs() << POSITION_BITS)
    }

    /// The first key of a kind at `moment`.
    pub fn first_of_kind(moment: Timestamp, kind: DueKind) -> Self {
        match kind {
            DueKind::Elapsed => Self::first_at(moment),
            DueKind::Moment => Self(Self::first_at(moment).0 | FIRST_OF_MOMENTS),
        }
    }

    /// The first key after all keys at `moment`.
    pub fn first_after(moment: Timestamp) -> Self {
        Self((moment.as_millis().unsigned_abs() + 1) << POSITION_BITS)
    }

    /// The moment this key is scheduled for: the due time, or a little later when that was full.
    pub fn slot(self) -> Timestamp {
        Timestamp::from_millis((self.0 >> POSITION_BITS).cast_signed())
    }

    /// The slot as the machine's clock shows it, which is ahead of the store's by `wall_ahead_ms`.
    pub fn shown_slot(self, wall_ahead_ms: i64) -> Timestamp {
        match self.kind() {
            DueKind::Elapsed => self.slot().shifted(wall_ahead_ms),
            DueKind::Moment => self.slot(),
        }
    }

    /// Which clock decides when the slot is reached.
    pub fn kind(self) -> DueKind {
        // Whatever is behind the last moment is there because that was full of moments.
        let is_moment = self.0 & FIRST_OF_MOMENTS != 0 || self >= Self::first_after(Timestamp::MAX);
        if is_moment { DueKind::Moment } else { DueKind::Elapsed }
    }

    /// The key right after this one, which may be of the other kind or belong to the next slot.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// As SQLite stores it.
    pub fn to_row(self) -> i64 {
        self.0.cast_signed()
    }

    /// From a stored integer; `None` when it is not a valid key.
    pub fn from_row(row: i64) -> Option<Self> {
        u64::try_from(row).ok().map(Self)
    }

    /// The raw bits, for packing.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// From [`RowKey::to_bits`].
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Debug for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.0 >> POSITION_BITS, self.0 & ((1 << POSITION_BITS) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_slot_runs_over_into_the_next() {
        let moment = Timestamp::from_millis(1_000);
        let mut key = RowKey::first_at(moment);
        for (kind, following) in [
            (DueKind::Elapsed, RowKey::first_of_kind(moment, DueKind::Moment)),
            (DueKind::Moment, RowKey::first_after(moment)),
        ] {
            assert_eq!(key, RowKey::first_of_kind(moment, kind));
            for _ in 1..1 << (POSITION_BITS - 1) {
                key = key.next();
                assert_eq!((key.slot(), key.kind()), (moment, kind));
            }
            key = key.next();
            assert_eq!(key, following);
        }
        assert_eq!(key.slot().as_millis(), 1_001);
    }

    #[test]
    fn every_moment_fits_sqlites_integers() {
        let last = RowKey::first_after(Timestamp::MAX);
        assert!(last.to_row() > 0);
        assert_eq!(RowKey::from_row(last.to_row()), Some(last));
        assert_eq!(RowKey::from_row(-1), None);
    }

    proptest! {
        #[test]
        fn keys_are_ordered_as_rows_and_as_times(
            a in 0i64..=253_402_207_199_999, b in 0i64..=253_402_207_199_999, places in 0u64..1 << POSITION_BITS,
        ) {
            let (early, late) = (a.min(b), a.max(b));
            let mut first = RowKey::first_at(Timestamp::from_millis(early));
            first.0 += places;
            let second = RowKey::first_at(Timestamp::from_millis(late));
            prop_assert_eq!(first.slot().as_millis(), early);
            prop_assert_eq!(first.cmp(&second), first.to_row().cmp(&second.to_row()));
            if early < late {
                prop_assert!(first < second && first < RowKey::first_after(Timestamp::from_millis(early)));
            }
        }
    }
}
