//! What happened to a job: the last attempts that did not finish it, and by which actor it was requeued, rescheduled or
//! replaced.
//!
//! Both engines store the history as an attribute, the oldest entry first. An entry is, big-endian:
//!
//! ```text
//! length of what follows, u16 · kind, u8 · moment in ms, 6 bytes · number of the attempt, u32
//! · how long it took in ms, 6 bytes · length of the actor's name, u16 · that name
//! · the reason of an attempt, or both due times of a reschedule in ms, 6 bytes each
//! ```
//!
//! `store/redis/scripts/history.lua` writes the same: change both together. Entries of a kind that is unknown, written by a
//! later version, are kept and not shown.

use std::{fmt, time::Duration};

use bytes::{Buf, BufMut};

use super::{Actor, Reason, Timestamp};

const LENGTH_BYTES: usize = 2;
/// The bytes of an entry behind its length and before the names.
const FIXED_BYTES: usize = 19;
const DUE_BYTES: usize = 6;

/// The last entries of a job's history, encoded.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct History(Box<[u8]>);

/// One entry of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// When it happened; for an attempt, when the job was reserved.
    pub at: Timestamp,
    /// Who did it, if that is known.
    pub by: Option<Actor>,
    /// What happened.
    pub event: HistoryEvent,
}

/// What happened to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryEvent {
    /// A reservation that ended without finishing the job.
    Attempt {
        /// The number of the attempt, from 1.
        number: u32,
        /// From the reservation to its end.
        took: Duration,
        /// How it ended.
        end: AttemptEnd,
        /// Why, if the worker said so: the first [`History::REASON_BYTES`] of the reason.
        reason: Option<Reason>,
    },
    /// A dead letter was requeued. Its attempts start at 1 again.
    Requeued,
    /// The due time was changed. Entries of earlier versions do not say how.
    Rescheduled(Option<DueChange>),
    /// An add put another version in its place.
    Replaced,
}

/// The due time before and after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueChange {
    /// Before it.
    pub from: Timestamp,
    /// After it.
    pub to: Timestamp,
}

/// How an attempt ended that did not finish the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The worker released the job.
    Released,
    /// The TTR ended.
    TimedOut,
    /// The worker buried the job.
    Buried,
    /// An administrator took the job back.
    Revoked,
}

impl AttemptEnd {
    /// The name in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::TimedOut => "timed_out",
            Self::Buried => "buried",
            Self::Revoked => "revoked",
        }
    }

    /// The end with this name in the API.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Released, Self::TimedOut, Self::Buried, Self::Revoked];
        all.into_iter().find(|end| end.as_str() == name)
    }
}

impl History {
    /// Most entries; older ones are dropped.
    pub const MAX_ENTRIES: usize = 10;
    /// Longest reason in an entry, in bytes.
    pub const REASON_BYTES: usize = 160;

    /// The history in stored bytes. Bytes that are no history are an empty one: no job is lost because of them.
    #[must_use]
    pub fn from_stored(bytes: &[u8]) -> Self {
        if split_entries(bytes).is_some() { Self(bytes.into()) } else { Self::default() }
    }

    /// The encoded entries.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The entries, the oldest first.
    pub fn entries(&self) -> impl Iterator<Item = HistoryEntry> {
        split_entries(&self.0).unwrap_or_default().into_iter().filter_map(decode_entry)
    }

    /// Appends an entry and drops the oldest ones beyond [`History::MAX_ENTRIES`].
    pub fn push(&mut self, entry: &HistoryEntry) {
        let encoded = encode_entry(entry);
        let kept = split_entries(&self.0).unwrap_or_default();
        let dropped = (kept.len() + 1).saturating_sub(Self::MAX_ENTRIES);
        self.0 = kept.into_iter().skip(dropped).chain([&encoded[..]]).collect::<Vec<_>>().concat().into();
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries()).finish()
    }
}

/// The entries, each with its length; `None` when the bytes are malformed.
fn split_entries(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let (length, _) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
        let (entry, rest) =
            bytes.split_at_checked(LENGTH_BYTES + usize::from(u16::from_be_bytes(*length)))?;
        entries.push(entry);
        bytes = rest;
    }
    Some(entries)
}

fn encode_entry(HistoryEntry { at, by, event }: &HistoryEntry) -> Vec<u8> {
    let mut due_times = [0; 2 * DUE_BYTES];
    let (kind, number, took, details) = match event {
        HistoryEvent::Attempt { number, took, end, reason } => {
            let kind = match end {
                AttemptEnd::Released => 1,
                AttemptEnd::TimedOut => 2,
                AttemptEnd::Buried => 3,
                AttemptEnd::Revoked => 7,
            };
            let reason = reason.as_ref().map_or("", Reason::as_str);
            (kind, *number, *took, &reason.as_bytes()[..reason.floor_char_boundary(History::REASON_BYTES)])
        }
        HistoryEvent::Requeued => (4, 0, Duration::ZERO, &[][..]),
        HistoryEvent::Rescheduled(None) => (5, 0, Duration::ZERO, &[][..]),
        HistoryEvent::Rescheduled(Some(DueChange { from, to })) => {
            let (mut before, mut after) = due_times.split_at_mut(DUE_BYTES);
            before.put_uint(from.as_millis().unsigned_abs(), DUE_BYTES);
            after.put_uint(to.as_millis().unsigned_abs(), DUE_BYTES);
            (5, 0, Duration::ZERO, &due_times[..])
        }
        HistoryEvent::Replaced => (6, 0, Duration::ZERO, &[][..]),
    };
    let by = by.as_ref().map_or("", Actor::as_str);
    let length = FIXED_BYTES + by.len() + details.len();
    let mut bytes = Vec::with_capacity(LENGTH_BYTES + length);
    bytes.put_u16(u16::try_from(length).expect("an entry has at most 435 bytes"));
    bytes.put_u8(kind);
    bytes.put_uint(at.as_millis().unsigned_abs(), 6);
    bytes.put_u32(number);
    bytes.put_uint(u64::try_from(took.as_millis()).unwrap_or(u64::MAX).min((1 << 48) - 1), 6);
    bytes.put_u16(u16::try_from(by.len()).expect("a name has at most 256 bytes"));
    bytes.put_slice(by.as_bytes());
    bytes.put_slice(details);
    bytes
}

/// The entry in these bytes; `None` if its kind is unknown or a value is out of range.
fn decode_entry(bytes: &[u8]) -> Option<HistoryEntry> {
    let mut bytes = bytes.get(LENGTH_BYTES..).filter(|bytes| bytes.len() >= FIXED_BYTES)?;
    let kind = bytes.get_u8();
    let at = Timestamp::from_millis(i64::try_from(bytes.get_uint(6)).ok()?);
    let (number, took) = (bytes.get_u32(), Duration::from_millis(bytes.get_uint(6)));
    let by_length = bytes.get_u16();
    let (by, details) = bytes.split_at_checked(by_length.into())?;
    let by = std::str::from_utf8(by).ok()?;
    let by = (!by.is_empty()).then(|| Actor::parse(by)).transpose().ok()?;
    let attempt = |end| {
        let reason = std::str::from_utf8(details).ok()?;
        let reason = (!reason.is_empty()).then(|| Reason::new(reason)).flatten();
        Some(HistoryEvent::Attempt { number, took, end, reason })
    };
    let event = match kind {
        1 => attempt(AttemptEnd::Released)?,
        2 => attempt(AttemptEnd::TimedOut)?,
        3 => attempt(AttemptEnd::Buried)?,
        4 => HistoryEvent::Requeued,
        5 => HistoryEvent::Rescheduled(decode_due_change(details)),
        6 => HistoryEvent::Replaced,
        7 => attempt(AttemptEnd::Revoked)?,
        _ => return None,
    };
    Some(HistoryEntry { at, by, event })
}

fn decode_due_change(mut bytes: &[u8]) -> Option<DueChange> {
    if bytes.len() != 2 * DUE_BYTES {
        return None;
    }
    let mut due_time = || Some(Timestamp::from_millis(i64::try_from(bytes.get_uint(DUE_BYTES)).ok()?));
    Some(DueChange { from: due_time()?, to: due_time()? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attempt(number: u32, reason: Option<&str>) -> HistoryEntry {
        HistoryEntry {
            at: Timestamp::from_millis(i64::from(number) * 1_000),
            by: Actor::parse("w").ok(),
            event: HistoryEvent::Attempt {
                number,
                took: Duration::from_millis(258),
                end: AttemptEnd::Released,
                reason: reason.and_then(Reason::new),
            },
        }
    }

    fn ended(how: AttemptEnd) -> HistoryEntry {
        let mut entry = attempt(3, Some("why"));
        if let HistoryEvent::Attempt { end, .. } = &mut entry.event {
            *end = how;
        }
        entry
    }

    fn rescheduled() -> HistoryEntry {
        let (from, to) = (Timestamp::from_millis(1_792_000_000_123), Timestamp::from_millis(258));
        entry_at(7, HistoryEvent::Rescheduled(Some(DueChange { from, to })))
    }

    fn entry_at(moment: i64, event: HistoryEvent) -> HistoryEntry {
        HistoryEntry { at: Timestamp::from_millis(moment), by: None, event }
    }

    fn history(entries: &[HistoryEntry]) -> History {
        let mut history = History::default();
        entries.iter().for_each(|entry| history.push(entry));
        history
    }

    #[test]
    fn entries_read_back_in_order_and_the_oldest_are_dropped() {
        let entries = [
            attempt(1, Some("psp timeout")),
            entry_at(5, HistoryEvent::Requeued),
            entry_at(6, HistoryEvent::Rescheduled(None)),
            rescheduled(),
            entry_at(7, HistoryEvent::Replaced),
            attempt(2, None),
            ended(AttemptEnd::Revoked),
            ended(AttemptEnd::TimedOut),
        ];
        assert_eq!(history(&entries).entries().collect::<Vec<_>>(), entries);
        let many: Vec<HistoryEntry> = (1..=25).map(|number| attempt(number, Some("r"))).collect();
        assert_eq!(history(&many).entries().collect::<Vec<_>>(), many[15..]);
        assert_eq!(History::default().entries().count(), 0);
    }

    #[test]
    fn the_bytes_are_as_documented() {
        let bytes = history(&[attempt(1, Some("no"))]);
        assert_eq!(bytes.as_bytes(), b"\0\x16\x01\0\0\0\0\x03\xe8\0\0\0\x01\0\0\0\0\x01\x02\0\x01wno");
        let due_times = b"\x01\xa1\x3b\x86\0\x7b\0\0\0\0\x01\x02";
        assert_eq!(history(&[rescheduled()]).as_bytes()[21..], *due_times);
    }

    #[test]
    fn a_full_history_takes_less_than_4_5_kb() {
        let longest =
            HistoryEntry { by: Actor::parse(&"😀".repeat(64)).ok(), ..attempt(1, Some(&"é".repeat(512))) };
        let full = history(&vec![longest; 11]);
        assert_eq!(full.as_bytes().len(), 10 * 437);
        let HistoryEvent::Attempt { reason, .. } = full.entries().next().expect("has entries").event else {
            panic!("not an attempt");
        };
        assert_eq!(reason.expect("is kept").as_str(), "é".repeat(80));
    }

    #[test]
    fn entries_of_a_later_version_are_kept_and_not_shown() {
        let later = [&b"\0\x03\xc8ab"[..], history(&[attempt(1, None)]).as_bytes()].concat();
        let mut stored = History::from_stored(&later);
        stored.push(&entry_at(9, HistoryEvent::Requeued));
        assert!(stored.as_bytes().starts_with(&later));
        assert_eq!(
            stored.entries().collect::<Vec<_>>(),
            [attempt(1, None), entry_at(9, HistoryEvent::Requeued)]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read_and_appended_to(bytes in prop::collection::vec(any::<u8>(), 0..90)) {
            let mut stored = History::from_stored(&bytes);
            prop_assert!(stored.as_bytes().is_empty() || stored.as_bytes() == bytes);
            let mut expected: Vec<HistoryEntry> = stored.entries().collect();
            expected.push(attempt(7, None));
            stored.push(&attempt(7, None));
            prop_assert_eq!(stored.entries().collect::<Vec<_>>(), expected);
        }
    }
}
