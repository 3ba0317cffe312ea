//! The optional attributes of a job, in the form in which both engines store them: one after the other, each as a tag
//! (1 byte), a length (2 bytes, big-endian) and its bytes, in ascending order of the tags.
//!
//! An attribute whose tag is unknown, written by a later version, is kept byte for byte. So a new field of a job is a
//! new tag and no new format. The engines store the length of all attributes in a record's head.

use std::{
    ops::{Range, RangeInclusive},
    time::Duration,
};

use super::{DueKind, Expiry, History, Reason, Receipt, RetrySchedule, Timestamp, TraceContext};

const HEADER_BYTES: usize = 3;
const STEP_BYTES: usize = 5;
const TIMESTAMP_BYTES: usize = 6;

/// Identifies an attribute. Tags that are not listed here are reserved for later versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u8);

impl Tag {
    /// The reservation. Redis only: the embedded engine has a table for it.
    pub const LEASE: Self = Self(1);
    /// The moment when the job became a dead letter: 6 bytes, in milliseconds.
    pub const DIED_AT: Self = Self(2);
    /// The retry schedule: 5 bytes for each step, in milliseconds.
    pub const RETRY: Self = Self(3);
    /// Why the job was released or is dead: text.
    pub const REASON: Self = Self(4);
    /// The history ([`History`]).
    pub const HISTORY: Self = Self(5);
    /// The job's own callback.
    pub const CALLBACK: Self = Self(6);
    /// The host number of the callback. Embedded engine only: on Redis it is part of the outlet's name.
    pub const HOST_NUMBER: Self = Self(7);
    /// The `traceparent` of the request that added the job: 25 bytes ([`TraceContext::encode_parent`]).
    pub const TRACEPARENT: Self = Self(8);
    /// The `tracestate` of the request that added the job: text.
    pub const TRACESTATE: Self = Self(9);
    /// What was asked about the expiry ([`Expiry::encode`]).
    pub const EXPIRY: Self = Self(10);
    /// The due time is a moment ([`DueKind::Moment`]). Empty.
    pub const MOMENT: Self = Self(11);
    /// When the job expires: 6 bytes, in milliseconds. Present exactly with [`EXPIRY`](Self::EXPIRY).
    pub const EXPIRES_AT: Self = Self(12);
    /// That is a moment ([`DueKind::Moment`]). Empty.
    pub const EXPIRY_MOMENT: Self = Self(13);
    /// The receipt of the reservation that timed out last, and the job's attempts then: 16 and 4 bytes. It is good for a finish
    /// while the job has as many attempts and is not reserved.
    pub const TIMED_OUT: Self = Self(14);
    /// No reservation that timed out is good for a finish. Empty.
    pub const NO_LATE_FINISH: Self = Self(15);
    /// The job's [revision](crate::job::JobSpec::revision): 8 bytes.
    pub const REVISION: Self = Self(16);
    /// For how long its id is remembered when it is finished or deleted ([`DedupWindow::encode`](super::DedupWindow::encode)).
    pub const DEDUP: Self = Self(17);
    /// The [`ProgressNote`](super::ProgressNote) of a worker: its moment, 6 bytes in milliseconds, then its text.
    pub const NOTE: Self = Self(18);
    /// Tags that Linger will never use itself.
    pub const PRIVATE: RangeInclusive<u8> = 224..=255;
}

/// The attributes of one job, encoded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// Most bytes that are read. No version may write more than half of it, so that a version which knows less can still
    /// add a reservation or a reason. This one writes less than 13 KiB.
    pub const MAX_BYTES: usize = 32 * 1024;

    /// Reads encoded attributes; `None` when they are malformed, too long, or not in ascending order.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        // The first tag is at least 1.
        let mut last = Tag(0);
        while !rest.is_empty() {
            let (tag, _, following) = split_first(rest)?;
            if tag <= last {
                return None;
            }
            (rest, last) = (following, tag);
        }
        (bytes.len() <= Self::MAX_BYTES).then(|| Self(bytes.to_vec()))
    }

    /// The encoded attributes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every attribute, in ascending order of the tags.
    pub fn iter(&self) -> impl Iterator<Item = (Tag, &[u8])> {
        let mut rest = self.0.as_slice();
        std::iter::from_fn(move || {
            let (tag, value, following) = split_first(rest)?;
            rest = following;
            Some((tag, value))
        })
    }

    /// The value of an attribute.
    #[must_use]
    pub fn get(&self, wanted: Tag) -> Option<&[u8]> {
        self.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| value)
    }

    /// Sets, replaces or removes an attribute.
    pub fn set(&mut self, tag: Tag, value: Option<&[u8]>) {
        let place = self.place(tag);
        let Some(value) = value else {
            self.0.drain(place);
            return;
        };
        let len = u16::try_from(value.len()).expect("an attribute takes less than 64 KiB").to_be_bytes();
        let encoded = [tag.0, len[0], len[1]].into_iter().chain(value.iter().copied());
        self.0.splice(place, encoded);
    }

    /// The bytes that an attribute takes, or the empty range at which it belongs.
    fn place(&self, wanted: Tag) -> Range<usize> {
        let mut at = 0;
        for (tag, value) in self.iter() {
            let end = at + HEADER_BYTES + value.len();
            if tag >= wanted {
                return at..if tag == wanted { end } else { at };
            }
            at = end;
        }
        at..at
    }

    /// The retry schedule, empty when there is none; `None` when it is malformed.
    #[must_use]
    pub fn retry(&self) -> Option<RetrySchedule> {
        decode_steps(self.get(Tag::RETRY).unwrap_or_default())
    }

    /// Sets the retry schedule. An empty one takes no space.
    pub fn set_retry(&mut self, retry: &RetrySchedule) {
        self.set(Tag::RETRY, (!retry.is_empty()).then(|| encode_steps(retry)).as_deref());
    }

    /// The reason; `Some(None)` when there is none, `None` when it is malformed.
    #[must_use]
    pub fn reason(&self) -> Option<Option<Reason>> {
        let Some(text) = self.get(Tag::REASON) else { return Some(None) };
        Reason::new(std::str::from_utf8(text).ok()?).map(Some)
    }

    /// Sets or removes the reason.
    pub fn set_reason(&mut self, reason: Option<&Reason>) {
        self.set(Tag::REASON, reason.map(|reason| reason.as_str().as_bytes()));
    }

    /// The moment of death; `Some(None)` when there is none, `None` when it is malformed.
    #[must_use]
    pub fn died_at(&self) -> Option<Option<Timestamp>> {
        self.timestamp(Tag::DIED_AT)
    }

    /// The history; empty when there is none, or when it is malformed.
    #[must_use]
    pub fn history(&self) -> History {
        self.get(Tag::HISTORY).map_or_else(History::default, History::from_stored)
    }

    /// Sets the history. An empty one takes no space.
    pub fn set_history(&mut self, history: &History) {
        let bytes = history.as_bytes();
        self.set(Tag::HISTORY, (!bytes.is_empty()).then_some(bytes));
    }

    /// The trace context; `None` when there is none, or when it is malformed.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        TraceContext::decode(self.get(Tag::TRACEPARENT)?, self.get(Tag::TRACESTATE))
    }

    /// Sets or removes the trace context.
    pub fn set_trace(&mut self, trace: Option<&TraceContext>) {
        self.set(Tag::TRACEPARENT, trace.map(TraceContext::encode_parent).as_ref().map(|bytes| &bytes[..]));
        self.set(Tag::TRACESTATE, trace.and_then(TraceContext::tracestate).map(str::as_bytes));
    }

    /// Which clock decides when the job is due.
    #[must_use]
    pub fn due_kind(&self) -> DueKind {
        if self.get(Tag::MOMENT).is_some() { DueKind::Moment } else { DueKind::Elapsed }
    }

    /// Sets which clock decides when the job is due. [`DueKind::Elapsed`] takes no space.
    pub fn set_due_kind(&mut self, kind: DueKind) {
        self.set(Tag::MOMENT, (kind == DueKind::Moment).then_some(&[]));
    }

    /// What was asked about the expiry; `Some(None)` when there is none, `None` when it is malformed.
    #[must_use]
    pub fn expiry(&self) -> Option<Option<Expiry>> {
        self.get(Tag::EXPIRY).map_or(Some(None), |bytes| Expiry::decode(bytes).map(Some))
    }

    /// Sets or removes what was asked about the expiry.
    pub fn set_expiry(&mut self, expiry: Option<&Expiry>) {
        self.set(Tag::EXPIRY, expiry.map(Expiry::encode).as_ref().map(|bytes| &bytes[..]));
    }

    /// When the job expires; `Some(None)` when it does not, `None` when that is malformed or what was asked is missing.
    #[must_use]
    pub fn expires_at(&self) -> Option<Option<Timestamp>> {
        let expires_at = self.timestamp(Tag::EXPIRES_AT)?;
        (expires_at.is_some() == self.get(Tag::EXPIRY).is_some()).then_some(expires_at)
    }

    /// Sets or removes when the job expires.
    pub fn set_expires_at(&mut self, expires_at: Option<Timestamp>) {
        self.set_timestamp(Tag::EXPIRES_AT, expires_at);
    }

    /// Which clock decides when the job expires.
    #[must_use]
    pub fn expiry_kind(&self) -> DueKind {
        if self.get(Tag::EXPIRY_MOMENT).is_some() { DueKind::Moment } else { DueKind::Elapsed }
    }

    /// Sets which clock decides when the job expires. [`DueKind::Elapsed`] takes no space.
    pub fn set_expiry_kind(&mut self, kind: DueKind) {
        self.set(Tag::EXPIRY_MOMENT, (kind == DueKind::Moment).then_some(&[]));
    }

    /// Sets or removes the moment of death.
    pub fn set_died_at(&mut self, moment: Option<Timestamp>) {
        self.set_timestamp(Tag::DIED_AT, moment);
    }

    /// Whether `receipt` is that of a reservation that timed out, since which a job that has so many attempts now was
    /// neither reserved nor changed.
    #[must_use]
    pub fn has_timed_out(&self, receipt: &Receipt, attempts: u32) -> bool {
        self.get(Tag::TIMED_OUT) == Some(&timed_out(receipt, attempts))
    }

    /// Sets the receipt of a reservation that has timed out, and the attempts with it; or removes them.
    pub fn set_timed_out(&mut self, reservation: Option<(&Receipt, u32)>) {
        let value = reservation.map(|(receipt, attempts)| timed_out(receipt, attempts));
        self.set(Tag::TIMED_OUT, value.as_ref().map(|bytes| &bytes[..]));
    }

    fn timestamp(&self, tag: Tag) -> Option<Option<Timestamp>> {
        let Some(bytes) = self.get(tag) else { return Some(None) };
        let bytes: &[u8; TIMESTAMP_BYTES] = bytes.try_into().ok()?;
        let ms = i64::try_from(big_endian(bytes)).expect("six bytes fit into 63 bits");
        Some(Some(Timestamp::from_millis(ms)))
    }

    fn set_timestamp(&mut self, tag: Tag, moment: Option<Timestamp>) {
        let bytes = moment.map(|moment| moment.as_millis().to_be_bytes());
        self.set(tag, bytes.as_ref().map(|bytes| &bytes[8 - TIMESTAMP_BYTES..]));
    }
}

/// The steps of a schedule as they are stored: 5 bytes each, in milliseconds, big-endian.
#[must_use]
pub fn encode_steps(retry: &RetrySchedule) -> Vec<u8> {
    let encode = |step: &Duration| {
        let ms = u64::try_from(step.as_millis()).expect("a step is at most ten years");
        ms.to_be_bytes().into_iter().skip(8 - STEP_BYTES)
    };
    retry.steps().iter().flat_map(encode).collect()
}

/// Reads stored steps; `None` when they are malformed or out of range.
#[must_use]
pub fn decode_steps(bytes: &[u8]) -> Option<RetrySchedule> {
    let steps = bytes.chunks_exact(STEP_BYTES);
    if !steps.remainder().is_empty() {
        return None;
    }
    RetrySchedule::new(steps.map(|step| Duration::from_millis(big_endian(step))).collect()).ok()
}

/// The value of [`Tag::TIMED_OUT`].
fn timed_out(receipt: &Receipt, attempts: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..16].copy_from_slice(receipt.as_bytes());
    bytes[16..].copy_from_slice(&attempts.to_be_bytes());
    bytes
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The first attribute, and what follows it.
fn split_first(bytes: &[u8]) -> Option<(Tag, &[u8], &[u8])> {
    let ([tag, high, low], rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
    Some((Tag(*tag), value, rest))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn attributes_behave_as_a_sorted_map(
            changes in prop::collection::vec(
                (1u8..=255, prop::option::of(prop::collection::vec(any::<u8>(), 0..300))), 0..40),
        ) {
            let (mut attributes, mut map) = (Attributes::default(), BTreeMap::new());
            for (tag, value) in changes {
                attributes.set(Tag(tag), value.as_deref());
                match value {
                    Some(value) => map.insert(Tag(tag), value),
                    None => map.remove(&Tag(tag)),
                };
                let listed: Vec<_> = attributes.iter().map(|(tag, value)| (tag, value.to_vec())).collect();
                prop_assert_eq!(listed, map.clone().into_iter().collect::<Vec<_>>());
                prop_assert_eq!(attributes.get(Tag(tag)), map.get(&Tag(tag)).map(Vec::as_slice));
            }
            prop_assert_eq!(Attributes::decode(attributes.as_bytes()), Some(attributes));
        }

        #[test]
        fn decoding_any_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(attributes) = Attributes::decode(&bytes) {
                prop_assert_eq!(attributes.as_bytes(), &bytes[..]);
                let _ = (attributes.retry(), attributes.reason(), attributes.died_at());
            }
        }

        #[test]
        fn values_read_back(
            steps_ms in prop::collection::vec(0u64..=315_576_000_000, 0..=64),
            reason in prop::option::of("\\PC{0,200}"),
            died_ms in prop::option::of(0i64..=253_402_207_199_999),
        ) {
            let retry = RetrySchedule::new(steps_ms.into_iter().map(Duration::from_millis).collect());
            let retry = retry.expect("valid");
            let (reason, died_at) = (reason.and_then(|text| Reason::new(&text)), died_ms.map(Timestamp::from_millis));
            let mut attributes = Attributes::default();
            attributes.set_reason(reason.as_ref());
            attributes.set_retry(&retry);
            attributes.set_died_at(died_at);
            prop_assert_eq!(attributes.retry(), Some(retry));
            prop_assert_eq!(attributes.reason(), Some(reason));
            prop_assert_eq!(attributes.died_at(), Some(died_at));
        }
    }

    #[test]
    fn the_bytes_are_as_documented() {
        let mut attributes = Attributes::default();
        attributes.set(Tag(250), Some(b"private"));
        attributes.set_reason(Reason::new("no").as_ref());
        attributes.set_retry(&RetrySchedule::new(vec![Duration::from_millis(258)]).expect("valid"));
        assert_eq!(attributes.as_bytes(), b"\x03\0\x05\0\0\0\x01\x02\x04\0\x02no\xfa\0\x07private");
    }

    #[test]
    fn malformed_attributes_are_refused() {
        for bytes in
            [&b"\x03"[..], b"\x03\0", b"\x03\0\x01", b"\x04\0\0\x03\0\0", b"\x04\0\0\x04\0\0", b"\0\0\0"]
        {
            assert_eq!(Attributes::decode(bytes), None, "{bytes:?}");
        }
        let mut long = Attributes::default();
        long.set(Tag(200), Some(&[0; Attributes::MAX_BYTES - 3]));
        assert!(Attributes::decode(long.as_bytes()).is_some());
        long.set(Tag(201), Some(&[]));
        assert_eq!(Attributes::decode(long.as_bytes()), None);
        let text = Attributes::decode(b"\x04\0\x01\xff").expect("well-formed");
        assert_eq!((text.reason(), text.died_at()), (None, Some(None)));
        let steps = Attributes::decode(b"\x02\0\x01\0\x03\0\x01\0").expect("well-formed");
        assert_eq!((steps.retry(), steps.died_at()), (None, None));
    }
}
