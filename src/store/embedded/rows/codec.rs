//! The encoding of a job: the head, its checksum and the body. Knows bytes, not SQL.
//!
//! A row contains the id and the topic as text, readable in the `sqlite3` shell, and a head:
//!
//! ```text
//! flags u8 · due, created, ttr, attempts, max_attempts as varints · fingerprint, 16 bytes
//! · length of the attributes, u16 · attributes
//! · XXH3-64 of the body, u64 · XXH3-64 over key, id, topic and all of the head before it, u64
//! ```
//!
//! Times and durations are milliseconds, integers little-endian. The attributes have the form of
//! [`Attributes`]; those with an unknown tag are kept in every step that rewrites the record. The head contains the
//! hash of the body, so that a start can check every record without reading large bodies.

mod loaded;

use std::time::Duration;

use bytes::Bytes;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

pub(crate) use loaded::RecordParts;

use super::key::RowKey;
use crate::job::{
    Actor, AttemptEnd, Attributes, Body, DueKind, ExpiresAt, Fingerprint, History, HistoryEntry,
    HistoryEvent, HostNumber, Job, JobId, JobSpec, JobState, Now, Outlet, Reason, Receipt, Reserved, State,
    Tag, Timestamp, Topic, Ttr,
};

/// The only flag. The others are reserved and refused.
const REQUIRE_RECEIPT: u8 = 1;

/// Why a stored record cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("its row is missing")]
    Missing,
    #[error("a column has the wrong type")]
    Column,
    #[error("the checksum of its head is wrong")]
    HeadSum,
    #[error("the checksum of its body is wrong")]
    BodySum,
    #[error("a value in it is out of range")]
    Value,
    #[error("another record has the same id")]
    DuplicateId,
}

/// A stored job without its body. Its state and its reservation are only in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordHead {
    pub id: JobId,
    pub topic: Topic,
    /// By the store's clock, or the machine's if it is a moment ([`due_kind`](Self::due_kind)). Change it by
    /// [`set_due`](Self::set_due).
    pub due_at: Timestamp,
    pub created_at: Timestamp,
    /// When it expires, if it does ([`expiry`](Self::expiry)).
    pub expires_at: Option<Timestamp>,
    /// How the job is run. Its callback comes with `host` ([`set_callback_host`](Self::set_callback_host)).
    pub spec: JobSpec,
    /// Reservations that ended; the present one is counted in its lease.
    pub attempts: u32,
    pub fingerprint: Fingerprint,
    pub reason: Option<Reason>,
    pub dead_at: Option<Timestamp>,
    pub history: History,
    /// The number of the host of the job's own callback; present exactly if it has one.
    pub host: Option<HostNumber>,
    /// All attributes, as stored, but those that this version writes anew ([`take_known_attributes`](Self::take_known_attributes)).
    pub other: Attributes,
}

/// A stored job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub head: RecordHead,
    pub body: Body,
}

/// A reservation: stored beside the record exactly while it lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lease {
    /// By the store's clock, as is `since`.
    pub deadline: Timestamp,
    pub receipt: Receipt,
    /// Reservations granted so far, including this one; 0 if it is of an older version, which the job has replaced.
    pub attempts: u32,
    pub since: Timestamp,
    /// Who reserved the job; empty when that is not known.
    pub by: Box<str>,
}

/// The stored columns of one record, as unchecked bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordColumns<'a> {
    pub key: RowKey,
    pub id: &'a [u8],
    pub topic: &'a [u8],
    pub head: &'a [u8],
}

impl Record {
    /// The job as callers see it, in `state`, with its reservation if it has one. What time decides about is shown by the
    /// machine's clock, which is ahead of the store's by `wall_ahead_ms`.
    pub fn to_job(&self, state: State, lease: Option<&Lease>, wall_ahead_ms: i64) -> Job {
        let due_at = self.head.shown_due(wall_ahead_ms);
        let expires_at = self.head.expiry().map(|expires_at| expires_at.shown(wall_ahead_ms));
        let head = self.head.clone();
        let state = match (state, lease) {
            (State::Delayed, _) => JobState::Delayed,
            (State::Ready, _) => JobState::Ready,
            (State::Reserved, lease) => {
                let lease = lease.expect("a reserved job has a reservation");
                JobState::Reserved(Reserved {
                    since: lease.since.shifted(wall_ahead_ms),
                    until: lease.deadline.shifted(wall_ahead_ms),
                    by: Actor::parse(&lease.by).ok(),
                })
            }
            // Verification reports a dead letter without its moment.
            (State::Dead, _) => JobState::Dead(head.dead_at.unwrap_or(due_at)),
        };
        Job {
            id: head.id,
            topic: head.topic,
            state,
            created_at: head.created_at,
            due_at,
            expires_at,
            spec: head.spec,
            attempts: lease.map_or(head.attempts, |lease| lease.attempts),
            reason: head.reason,
            note: head.other.progress_note(),
            history: head.history,
            body: self.body.clone(),
        }
    }

    /// The head's bytes, to store under `key`.
    pub fn encode_head(&self, key: RowKey) -> Vec<u8> {
        let mut bytes = self.head.fields();
        bytes.extend_from_slice(&xxh3_64(self.body.as_bytes()).to_le_bytes());
        let (id, topic) = (self.head.id.as_str().as_bytes(), self.head.topic.as_str().as_bytes());
        let sum = RecordColumns { key, id, topic, head: &bytes }.sum();
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }
}

impl RecordHead {
    /// The due time as callers see it: by the machine's clock, which is ahead of the store's by `wall_ahead_ms`.
    pub fn shown_due(&self, wall_ahead_ms: i64) -> Timestamp {
        match self.due_kind() {
            DueKind::Elapsed => self.due_at.shifted(wall_ahead_ms),
            DueKind::Moment => self.due_at,
        }
    }

    /// Where the job is delivered to.
    pub fn outlet(&self) -> Outlet {
        Outlet { topic: self.topic.clone(), host: self.host }
    }

    /// Sets the host number of the job's own callback, if it has one, in the store with this seed.
    pub fn set_callback_host(&mut self, seed: &[u8; 16]) {
        self.host = self.spec.callback.as_ref().map(|callback| HostNumber::new(seed, callback.url.origin()));
        self.other.set(Tag::HOST_NUMBER, self.host.map(|host| [host.0]).as_ref().map(|bytes| &bytes[..]));
    }

    /// Which clock decides when the job is due.
    pub fn due_kind(&self) -> DueKind {
        self.other.due_kind()
    }

    /// Sets the due time of a kind.
    pub fn set_due(&mut self, due_at: Timestamp, kind: DueKind) {
        self.due_at = due_at;
        self.other.set_due_kind(kind);
    }

    /// Computes anew when the job expires, from the due time that a client or its topic asked for.
    pub fn count_expiry(&mut self) {
        let expires_at = self.spec.expiry.map(|expiry| expiry.resolve(self.due_at, self.due_kind()));
        self.expires_at = expires_at.map(|expires_at| expires_at.moment);
        self.other.set_expiry_kind(expires_at.map(|expires_at| expires_at.kind).unwrap_or_default());
    }

    /// When the job expires, and by which clock.
    pub fn expiry(&self) -> Option<ExpiresAt> {
        Some(ExpiresAt { moment: self.expires_at?, kind: self.other.expiry_kind() })
    }

    /// Adds an entry to the history. `now` is the machine's time.
    pub fn remember(&mut self, event: HistoryEvent, by: Option<&Actor>, now: Now) {
        self.history.push(&HistoryEntry { at: now.rounded_down, by: by.cloned(), event });
    }

    /// Adds the attempt that was made under `lease` and took so long, until the machine's time `now`, to the history.
    pub fn remember_attempt(
        &mut self,
        lease: &Lease,
        end: AttemptEnd,
        reason: Option<&Reason>,
        took: Duration,
        now: Now,
    ) {
        let at = now.rounded_down.shifted(-i64::try_from(took.as_millis()).unwrap_or(i64::MAX));
        let event = HistoryEvent::Attempt { number: lease.attempts, took, end, reason: reason.cloned() };
        self.history.push(&HistoryEntry { at, by: Actor::parse(&lease.by).ok(), event });
    }

    fn fields(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        bytes.push(if self.spec.require_receipt { REQUIRE_RECEIPT } else { 0 });
        put_timestamp(&mut bytes, self.due_at);
        put_timestamp(&mut bytes, self.created_at);
        put_duration(&mut bytes, self.spec.ttr.as_duration());
        put_varint(&mut bytes, self.attempts.into());
        put_varint(&mut bytes, self.spec.max_attempts.into());
        bytes.extend_from_slice(&self.fingerprint.0);
        let attributes = self.attributes();
        let len = u16::try_from(attributes.as_bytes().len()).expect("attributes leave room for a change");
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(attributes.as_bytes());
        bytes
    }

    fn attributes(&self) -> Attributes {
        let mut attributes = self.other.clone();
        self.spec.encode_whole(&mut attributes);
        attributes.set_reason(self.reason.as_ref());
        attributes.set_died_at(self.dead_at);
        attributes.set_expires_at(self.expires_at);
        attributes.set_history(&self.history);
        attributes
    }

    /// Reads the known attributes out of `other`; `None` when one is malformed.
    fn take_known_attributes(&mut self) -> Option<()> {
        self.reason = self.other.reason()?;
        self.dead_at = self.other.died_at()?;
        self.expires_at = self.other.expires_at()?;
        self.history = self.other.history();
        self.host = match self.other.get(Tag::HOST_NUMBER) {
            Some(bytes) => Some(decode_host(bytes)?),
            None => None,
        };
        let rewritten = [Tag::REASON, Tag::DIED_AT, Tag::HISTORY, Tag::EXPIRES_AT];
        JobSpec::WHOLE_TAGS.into_iter().chain(rewritten).for_each(|tag| self.other.set(tag, None));
        // With one of them alone it is not known whether the job may be delivered to a worker.
        (self.spec.callback.is_some() == self.host.is_some()).then_some(())
    }
}

impl<'a> RecordColumns<'a> {
    /// Checks and decodes the head.
    pub fn decode_head(&self) -> Result<RecordHead, RecordError> {
        self.decode().map(|(head, _)| head)
    }

    /// Checks and decodes the whole record.
    pub fn decode_record(&self, body: &[u8]) -> Result<Record, RecordError> {
        let (head, body_sum) = self.decode()?;
        if xxh3_64(body) != body_sum {
            return Err(RecordError::BodySum);
        }
        Ok(Record { head, body: Body::from_stored(Bytes::copy_from_slice(body)) })
    }

    /// The head, and the checksum that its body must have.
    fn decode(&self) -> Result<(RecordHead, u64), RecordError> {
        let mut reader = FieldReader(self.checked_fields()?);
        let head = self.fields(&mut reader).ok_or(RecordError::Value)?;
        let body_sum = u64::from_le_bytes(reader.bytes().ok_or(RecordError::Value)?);
        if reader.0.is_empty() { Ok((head, body_sum)) } else { Err(RecordError::Value) }
    }

    fn fields(&self, reader: &mut FieldReader<'_>) -> Option<RecordHead> {
        let [flags] = reader.bytes()?;
        if flags & !REQUIRE_RECEIPT != 0 {
            return None;
        }
        let (due_at, created_at) = (reader.timestamp()?, reader.timestamp()?);
        let ttr = Ttr::new(reader.duration()?).ok()?;
        let attempts = reader.varint()?.try_into().ok()?;
        let max_attempts = reader.varint()?.try_into().ok()?;
        let fingerprint = Fingerprint(reader.bytes()?);
        let attributes = reader.attributes()?;
        let mut head = RecordHead {
            id: JobId::parse(std::str::from_utf8(self.id).ok()?).ok()?,
            topic: Topic::parse(std::str::from_utf8(self.topic).ok()?).ok()?,
            due_at,
            created_at,
            expires_at: None,
            spec: JobSpec::decode(ttr, max_attempts, flags & REQUIRE_RECEIPT != 0, &attributes)?,
            attempts,
            fingerprint,
            reason: None,
            dead_at: None,
            history: History::default(),
            host: None,
            other: attributes,
        };
        if !head.other.is_empty() {
            head.take_known_attributes()?;
        }
        Some(head)
    }

    fn checked_fields(&self) -> Result<&'a [u8], RecordError> {
        let (fields, sum) = self.head.split_last_chunk::<8>().ok_or(RecordError::HeadSum)?;
        let expected = RecordColumns { head: fields, ..*self }.sum();
        if u64::from_le_bytes(*sum) == expected { Ok(fields) } else { Err(RecordError::HeadSum) }
    }

    /// The checksum of every column but the body, each with its length, so that no byte can move between columns.
    pub fn sum(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(&self.key.to_bits().to_le_bytes());
        for part in [self.id, self.topic, self.head] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.digest()
    }
}

fn decode_host(bytes: &[u8]) -> Option<HostNumber> {
    match bytes {
        [number] => Some(HostNumber(*number)),
        _ => None,
    }
}

fn put_timestamp(out: &mut Vec<u8>, timestamp: Timestamp) {
    put_varint(out, timestamp.as_millis().unsigned_abs());
}

fn put_duration(out: &mut Vec<u8>, duration: Duration) {
    put_varint(out, u64::try_from(duration.as_millis()).expect("durations of a job are at most ten years"));
}

/// LEB128: seven bits a byte, the lowest first.
fn put_varint(out: &mut Vec<u8>, mut varint: u64) {
    while varint >= 0x80 {
        out.push((varint & 0x7f) as u8 | 0x80);
        varint >>= 7;
    }
    out.push(varint as u8);
}

struct FieldReader<'a>(&'a [u8]);

impl FieldReader<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut varint = 0u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.bytes()?;
            varint |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(varint);
            }
        }
        None
    }

    fn timestamp(&mut self) -> Option<Timestamp> {
        self.varint()?.try_into().ok().map(Timestamp::from_millis)
    }

    fn duration(&mut self) -> Option<Duration> {
        self.varint().map(Duration::from_millis)
    }

    fn attributes(&mut self) -> Option<Attributes> {
        let len = u16::from_le_bytes(self.bytes()?);
        let (attributes, rest) = self.0.split_at_checked(len.into())?;
        self.0 = rest;
        Attributes::decode(attributes)
    }
}

#[cfg(test)]
mod tests;
