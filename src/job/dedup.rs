//! Remembered ids: for how long a topic knows the ids of jobs that are gone, and what is known of each.

use std::time::Duration;

use super::{Fingerprint, JobId, Timestamp, Topic, ValueError, time::ceil_millis};

/// How long the id of a job that was finished or deleted is remembered: 1 s to 7 days, in whole milliseconds, rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DedupWindow(Duration);

impl DedupWindow {
    /// Shortest accepted window.
    pub const MIN: Duration = Duration::from_secs(1);
    /// Longest accepted window.
    pub const MAX: Duration = Duration::from_secs(7 * 86_400);

    /// Accepts [`DedupWindow::MIN`] to [`DedupWindow::MAX`].
    ///
    /// # Errors
    /// [`ValueError::WindowOutOfRange`] outside of that.
    pub fn new(duration: Duration) -> Result<Self, ValueError> {
        if !(Self::MIN..=Self::MAX).contains(&duration) {
            return Err(ValueError::WindowOutOfRange);
        }
        Ok(Self(Duration::from_millis(ceil_millis(duration).unsigned_abs())))
    }

    /// Whole milliseconds.
    #[must_use]
    pub fn as_duration(self) -> Duration {
        self.0
    }

    /// Four bytes, big-endian, in milliseconds.
    #[must_use]
    pub fn encode(self) -> [u8; 4] {
        u32::try_from(self.0.as_millis()).expect("seven days in milliseconds fit into 32 bits").to_be_bytes()
    }

    /// Reads [`encode`](Self::encode); `None` when it is malformed.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let ms = u32::from_be_bytes(bytes.try_into().ok()?);
        Self::new(Duration::from_millis(ms.into())).ok()
    }
}

/// How the job of a remembered id ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdEnd {
    /// It was finished.
    Finished,
    /// It was deleted by its id.
    Deleted,
}

impl IdEnd {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Finished, Self::Deleted];

    /// The name in exports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Deleted => "deleted",
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Finished => 1,
            Self::Deleted => 2,
        }
    }
}

/// An id whose job is gone. Its times are those of the store's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RememberedId {
    /// The id.
    pub id: JobId,
    /// The topic of its job.
    pub topic: Topic,
    /// How its job ended.
    pub end: IdEnd,
    /// When its job ended.
    pub ended_at: Timestamp,
    /// Until when it is remembered.
    pub until: Timestamp,
    /// The fingerprint of the request that added its job.
    pub fingerprint: Fingerprint,
    /// The revision of its job.
    pub revision: Option<u64>,
}

impl RememberedId {
    /// What an engine stores under the id, big-endian: how the job ended (1), when (6), until when the id is remembered (6), the
    /// fingerprint (16), whether the job had a revision (1), that or 0 (8), the topic as text. `scripts/remembering.lua` reads
    /// and writes the same: change both together.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let moment = |at: Timestamp| at.as_millis().to_be_bytes().into_iter().skip(2);
        let mut bytes = vec![self.end.code()];
        bytes.extend(moment(self.ended_at).chain(moment(self.until)));
        bytes.extend_from_slice(&self.fingerprint.0);
        bytes.push(u8::from(self.revision.is_some()));
        bytes.extend_from_slice(&self.revision.unwrap_or_default().to_be_bytes());
        bytes.extend_from_slice(self.topic.as_str().as_bytes());
        bytes
    }

    /// Reads [`encode`](Self::encode); `None` when it is malformed.
    #[must_use]
    pub fn decode(id: JobId, bytes: &[u8]) -> Option<Self> {
        let ([code], rest) = bytes.split_first_chunk()?;
        let (ended_at, rest) = rest.split_first_chunk::<6>()?;
        let (until, rest) = rest.split_first_chunk::<6>()?;
        let (fingerprint, rest) = rest.split_first_chunk()?;
        let ([has_revision], rest) = rest.split_first_chunk()?;
        let (revision, topic) = rest.split_first_chunk()?;
        let moment = |bytes: &[u8; 6]| {
            let ms = bytes.iter().fold(0, |ms, byte| ms << 8 | i64::from(*byte));
            Timestamp::from_millis(ms)
        };
        let revision = u64::from_be_bytes(*revision);
        Some(Self {
            id,
            topic: Topic::parse(std::str::from_utf8(topic).ok()?).ok()?,
            end: Self::end_of(*code)?,
            ended_at: moment(ended_at),
            until: moment(until),
            fingerprint: Fingerprint(*fingerprint),
            revision: match (has_revision, revision) {
                (0, 0) => None,
                (1, revision) => Some(revision),
                _ => return None,
            },
        })
    }

    fn end_of(code: u8) -> Option<IdEnd> {
        IdEnd::ALL.into_iter().find(|end| end.code() == code)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id() -> JobId {
        JobId::parse("a").expect("valid")
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            moments in (0i64..=253_402_207_199_999, 0i64..=253_402_207_199_999),
            fingerprint in any::<[u8; 16]>(),
            revision in prop::option::of(any::<u64>()),
            topic in "[A-Za-z0-9][A-Za-z0-9._:-]{0,127}",
            end in prop_oneof![Just(IdEnd::Finished), Just(IdEnd::Deleted)],
        ) {
            let remembered = RememberedId {
                id: id(),
                topic: Topic::parse(&topic).expect("valid"),
                end,
                ended_at: Timestamp::from_millis(moments.0),
                until: Timestamp::from_millis(moments.1),
                fingerprint: Fingerprint(fingerprint),
                revision,
            };
            prop_assert_eq!(RememberedId::decode(id(), &remembered.encode()), Some(remembered));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(remembered) = RememberedId::decode(id(), &bytes) {
                prop_assert_eq!(remembered.encode(), bytes);
            }
        }
    }

    #[test]
    fn a_window_is_between_a_second_and_a_week() {
        for (ms, is_valid) in [(999, false), (1_000, true), (604_800_000, true), (604_800_001, false)] {
            let window = DedupWindow::new(Duration::from_millis(ms));
            assert_eq!(window.is_ok(), is_valid, "{ms}");
            assert!(
                window.as_ref().is_ok_and(|window| DedupWindow::decode(&window.encode()) == Some(*window))
                    == is_valid
            );
        }
        assert_eq!(DedupWindow::decode(&[0, 0, 0, 1]), None);
    }
}
