//! The record of a job in its shard's `jobs`. `scripts/record.lua` reads and writes the same layout:
//! change both together, and the version.
//!
//! Big-endian. Fixed: version and state (1), flags (1), generation (4), due (6), attempts (4),
//! created (6), TTR (4), max attempts (3), fingerprint (16), length of the topic (1). Then the topic, and
//! by flags: retry steps (count 1, each 5), receipt (16) and deadline (6), moment of death (6),
//! reason (length 2, text). The body is the rest. Moments and durations are milliseconds.
//!
//! Packed by hand because a queue holds millions of records: this one takes 46 bytes and the topic in addition to
//! body and id, a MessagePack map three times as much.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    job::{Body, Due, Job, JobId, Reason, RetrySchedule, State, Timestamp, Topic, Ttr},
    store::AddJob,
};

/// Version of the layout, in the upper half of the first byte.
const VERSION: u8 = 0x10;
const FINGERPRINT: std::ops::Range<usize> = 29..45;
const TOPIC_LEN: usize = 45;
/// In place of `created`, marks `due` of a new record as a moment; for a delay it is 0.
const ABSOLUTE: u64 = 1;

mod flag {
    pub const STRICT: u8 = 1;
    pub const RETRY: u8 = 2;
    pub const RESERVED: u8 = 4;
    pub const DIED: u8 = 8;
    pub const REASON: u8 = 16;
}

/// The record of a job to add. The script fills in the fields that depend on the server's clock: `due`
/// holds the delay or the moment, `created` which of the two.
pub fn encode_new(job: &AddJob, generation: u32) -> Bytes {
    let topic = job.topic.as_str().as_bytes();
    let mut raw = BytesMut::with_capacity(TOPIC_LEN + 64 + topic.len() + job.body.as_bytes().len());
    let (due_ms, kind) = match job.due {
        Due::After(delay) => (as_millis(delay.as_duration()), 0),
        Due::At(moment) => (moment.as_millis().unsigned_abs(), ABSOLUTE),
    };
    let retry = if job.retry.is_empty() { 0 } else { flag::RETRY };
    raw.put_u8(VERSION + state_code(State::Delayed));
    raw.put_u8(u8::from(job.require_receipt) * flag::STRICT + retry);
    raw.put_u32(generation);
    raw.put_uint(due_ms, 6);
    raw.put_u32(0);
    raw.put_uint(kind, 6);
    raw.put_uint(as_millis(job.ttr.as_duration()), 4);
    raw.put_uint(u64::from(job.max_attempts), 3);
    raw.put_slice(&job.fingerprint.0);
    raw.put_u8(u8::try_from(topic.len()).expect("topics are at most 128 bytes"));
    raw.put_slice(topic);
    if !job.retry.is_empty() {
        raw.put_u8(u8::try_from(job.retry.steps().len()).expect("schedules have at most 64 steps"));
        raw.put_slice(&encode_steps(&job.retry));
    }
    raw.put_slice(job.body.as_bytes());
    raw.freeze()
}

/// The steps of a schedule as in a record, without their count.
pub fn encode_steps(retry: &RetrySchedule) -> Vec<u8> {
    let mut packed = Vec::with_capacity(5 * retry.steps().len());
    for step in retry.steps() {
        packed.put_uint(as_millis(*step), 5);
    }
    packed
}

/// The job in a record; `None` if `raw` is not a record.
pub fn decode(id: &JobId, raw: &Bytes) -> Option<Job> {
    let mut cursor = RecordCursor { raw, at: 0 };
    let state = decode_state(cursor.read_bytes(1)?[0].checked_sub(VERSION)?)?;
    let flags = cursor.read_bytes(1)?[0];
    cursor.read_bytes(4)?;
    let due_at = cursor.moment()?;
    let attempts = u32::try_from(cursor.uint(4)?).ok()?;
    let created_at = cursor.moment()?;
    let ttr = Ttr::new(Duration::from_millis(cursor.uint(4)?)).ok()?;
    let max_attempts = u32::try_from(cursor.uint(3)?).ok()?;
    cursor.read_bytes(FINGERPRINT.len())?;
    let topic_len = cursor.uint(1)?;
    let topic = Topic::parse(cursor.text(topic_len)?).ok()?;
    let retry = if flags & flag::RETRY == 0 { RetrySchedule::default() } else { cursor.schedule()? };
    let reserved_until = match flags & flag::RESERVED {
        0 => None,
        _ => cursor.read_bytes(16).and_then(|_| cursor.moment()).map(Some)?,
    };
    let dead_at = match flags & flag::DIED {
        0 => None,
        _ => Some(cursor.moment()?),
    };
    let reason = match flags & flag::REASON {
        0 => None,
        _ => {
            let len = cursor.uint(2)?;
            Some(Reason::new(cursor.text(len)?)?)
        }
    };
    let require_receipt = flags & flag::STRICT != 0;
    let body = Body::from_stored(raw.slice(cursor.at..));
    Some(Job {
        id: id.clone(),
        topic,
        state,
        created_at,
        due_at,
        ttr,
        attempts,
        max_attempts,
        retry,
        require_receipt,
        reserved_until,
        dead_at,
        reason,
        body,
    })
}

/// The receipt of the reservation in a record; `None` if the job is not reserved.
pub fn decode_receipt(raw: &Bytes) -> Option<[u8; 16]> {
    let flags = *raw.get(1)?;
    let mut at = TOPIC_LEN + 1 + usize::from(*raw.get(TOPIC_LEN)?);
    if flags & flag::RETRY != 0 {
        at += 1 + 5 * usize::from(*raw.get(at)?);
    }
    (flags & flag::RESERVED != 0).then(|| raw.get(at..at + 16))?.and_then(|receipt| receipt.try_into().ok())
}

/// The number of a state in records and scripts.
pub fn state_code(state: State) -> u8 {
    match state {
        State::Delayed => 1,
        State::Ready => 2,
        State::Reserved => 3,
        State::Dead => 4,
    }
}

/// The state with this number.
pub fn decode_state(code: u8) -> Option<State> {
    State::ALL.into_iter().find(|state| state_code(*state) == code)
}

fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("durations are at most ten years")
}

struct RecordCursor<'a> {
    raw: &'a [u8],
    at: usize,
}

impl<'a> RecordCursor<'a> {
    fn read_bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let bytes = self.raw.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(bytes)
    }

    fn uint(&mut self, len: usize) -> Option<u64> {
        Some(self.read_bytes(len)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn moment(&mut self) -> Option<Timestamp> {
        Some(Timestamp::from_millis(i64::try_from(self.uint(6)?).ok()?))
    }

    fn text(&mut self, len: u64) -> Option<&'a str> {
        std::str::from_utf8(self.read_bytes(usize::try_from(len).ok()?)?).ok()
    }

    fn schedule(&mut self) -> Option<RetrySchedule> {
        let count = self.uint(1)?;
        let steps: Option<Vec<_>> = (0..count).map(|_| self.uint(5).map(Duration::from_millis)).collect();
        RetrySchedule::new(steps?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Delay, Fingerprint};
    use proptest::prelude::*;

    fn job(topic: String, body: Vec<u8>, steps_ms: Vec<u64>, max_attempts: u32, strict: bool) -> AddJob {
        AddJob {
            id: JobId::parse("a").expect("valid"),
            topic: Topic::parse(&topic).expect("valid"),
            due: Due::After(Delay::new(Duration::from_secs(7)).expect("valid")),
            ttr: Ttr::DEFAULT,
            max_attempts,
            retry: RetrySchedule::new(steps_ms.into_iter().map(Duration::from_millis).collect())
                .expect("valid"),
            require_receipt: strict,
            fingerprint: Fingerprint([7; 16]),
            body: Body::from_stored(body.into()),
        }
    }

    proptest! {
        #[test]
        fn records_are_decoded_as_they_were_encoded(
            topic in "[A-Za-z0-9][A-Za-z0-9._:-]{0,127}",
            body in prop::collection::vec(any::<u8>(), 1..300),
            steps_ms in prop::collection::vec(0u64..315_576_000_000, 0..=64),
            max_attempts in 0u32..=1_000_000,
            strict in any::<bool>(),
        ) {
            let added = job(topic, body, steps_ms, max_attempts, strict);
            let decoded = decode(&added.id, &encode_new(&added, 1)).expect("a record");
            prop_assert_eq!(decoded.topic, added.topic);
            prop_assert_eq!(decoded.body, added.body);
            prop_assert_eq!(decoded.retry, added.retry);
            prop_assert_eq!(decoded.max_attempts, max_attempts);
            prop_assert_eq!(decoded.require_receipt, strict);
            prop_assert_eq!(decoded.ttr, added.ttr);
            prop_assert_eq!((decoded.state, decoded.due_at.as_millis()), (State::Delayed, 7_000));
        }

        #[test]
        fn decoding_any_bytes_does_not_panic(raw in prop::collection::vec(any::<u8>(), 0..200)) {
            let raw = Bytes::from(raw);
            let _ = (decode(&JobId::parse("a").expect("valid"), &raw), decode_receipt(&raw));
        }

        #[test]
        fn a_truncated_record_is_refused_or_loses_only_body(cut in 0usize..60) {
            let whole = encode_new(&job("topic".to_owned(), b"null".to_vec(), vec![5], 3, false), 1);
            let short = whole.slice(..cut.min(whole.len()));
            let header = whole.len() - 4;
            prop_assert_eq!(decode(&JobId::parse("a").expect("valid"), &short).is_some(), cut >= header);
        }
    }

    #[test]
    fn a_pending_job_takes_46_bytes_in_addition_to_topic_and_body() {
        let raw = encode_new(&job("t".to_owned(), b"null".to_vec(), vec![], 16, false), 1);
        assert_eq!(raw.len(), 46 + 1 + 4);
    }
}
