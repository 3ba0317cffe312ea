//! The record of a job in its shard's `jobs`. `scripts/record.lua` reads and writes the same layout: change both together,
//! and the version.
//!
//! Big-endian. A head: version and state (1), flags (1; from the lowest bit: a receipt is required, the job expires, its id is remembered), generation (4),
//! due (6), attempts (4), created (6), TTR (4), max attempts (3), fingerprint (16), length of the outlet's name (1), length
//! of the attributes (2). Then that name ([`Outlet`]), the attributes ([`Attributes`]), and the body. Moments and durations are milliseconds.
//!
//! The lease is the attribute with the lowest tag, so that scripts find it behind the name: receipt (16), its deadline
//! (6), the moment of the reservation (6), and who reserved, as text, which may be empty. Scripts copy attributes and
//! flags that they do not know.
//!
//! Packed by hand because a queue holds millions of records: this one takes 48 bytes and the topic in addition to
//! body and id, a MessagePack map three times as much.

use std::{borrow::Cow, time::Duration};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::{
    job::{
        Actor, Attributes, Body, Due, Fingerprint, HostNumber, Job, JobId, JobSpec, JobState, Outlet,
        Receipt, Reserved, State, Tag, Timestamp, Ttr,
    },
    store::{AddJob, JobRecord},
};

/// Version of the layout, in the upper half of the first byte.
const VERSION: u8 = 0x20;
const HEAD_BYTES: usize = 48;
const FINGERPRINT_BYTES: usize = 16;
const FLAGS_AT: usize = 1;
const FINGERPRINT_AT: usize = 29;
const OUTLET_LEN_AT: usize = 45;
const STRICT: u8 = 1;
const EXPIRES: u8 = 2;
const REMEMBERED: u8 = 4;
/// In place of `created`, marks `due` of a new record as a moment; for a delay it is 0.
const ABSOLUTE: u64 = 1;
/// Added to that if the job is not to be stored: only a repeat is recognised.
const PAUSED: u64 = 2;
/// Added to that if the job is due at its moment although that has passed.
const KEEPS_MOMENT: u64 = 4;

/// The receipt of a reservation.
pub type ReceiptBytes = [u8; 16];

/// The record of a job to add. The script fills in the fields that depend on the server's clock: `due`
/// holds the delay or the moment, `created` which of the two, and the moment of the expiry is 0.
pub fn encode_new(job: &AddJob, host: Option<HostNumber>, generation: u32) -> Bytes {
    encode_add(job, host, generation, 0)
}

/// The record of a job to add for the run of a schedule: it is due at its moment although that has passed.
pub fn encode_run(job: &AddJob, host: Option<HostNumber>, generation: u32) -> Bytes {
    encode_add(job, host, generation, KEEPS_MOMENT)
}

fn encode_add(job: &AddJob, host: Option<HostNumber>, generation: u32, more_flags: u64) -> Bytes {
    let (outlet, body) = (outlet_name(job, host), job.body.as_bytes());
    let mut attributes = Attributes::default();
    job.spec.encode(&mut attributes);
    // Both kinds go by the server's clock. The kind is kept for a store to which the job may be moved.
    attributes.set_due_kind(job.due.kind());
    // The script sets the moment.
    let unknown = Timestamp::from_millis(0);
    if let Some(expiry) = job.spec.expiry {
        attributes.set_expires_at(Some(unknown));
        attributes.set_expiry_kind(expiry.resolve(unknown, job.due.kind()).kind);
    }
    let attributes = attributes.as_bytes();
    let (due_ms, kind) = match job.due {
        Due::After(delay) => (as_millis(delay.as_duration()), 0),
        Due::At(moment) => (moment.as_millis().unsigned_abs(), ABSOLUTE),
    };
    let mut raw = BytesMut::with_capacity(HEAD_BYTES + outlet.len() + attributes.len() + body.len());
    raw.put_u8(VERSION + state_code(State::Delayed));
    raw.put_u8(flags(&job.spec));
    raw.put_u32(generation);
    raw.put_uint(due_ms, 6);
    raw.put_u32(0);
    raw.put_uint(kind + if job.is_paused { PAUSED } else { 0 } + more_flags, 6);
    raw.put_uint(as_millis(job.spec.ttr.as_duration()), 4);
    raw.put_uint(u64::from(job.spec.max_attempts), 3);
    raw.put_slice(&job.fingerprint.0);
    raw.put_u8(u8::try_from(outlet.len()).expect("topics are at most 128 bytes"));
    raw.put_u16(u16::try_from(attributes.len()).expect("a new job has less than 8 KiB of attributes"));
    raw.put_slice(outlet.as_bytes());
    raw.put_slice(attributes);
    raw.put_slice(body);
    raw.freeze()
}

fn flags(spec: &JobSpec) -> u8 {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    flag(spec.require_receipt, STRICT)
        | flag(spec.expiry.is_some(), EXPIRES)
        | flag(spec.dedup.is_some(), REMEMBERED)
}

/// The name of the outlet of a job, `host` being that of its callback.
fn outlet_name(job: &AddJob, host: Option<HostNumber>) -> Cow<'_, str> {
    match host {
        None => job.topic.as_str().into(),
        Some(_) => Outlet { topic: job.topic.clone(), host }.to_string().into(),
    }
}

/// The outlet of a job that was decoded from this record.
pub fn outlet_of(job: &Job, raw: &[u8]) -> Outlet {
    let host = || {
        let len = usize::from(*raw.get(OUTLET_LEN_AT)?);
        Outlet::parse(std::str::from_utf8(raw.get(HEAD_BYTES..HEAD_BYTES + len)?).ok()?)?.host
    };
    Outlet { topic: job.topic.clone(), host: job.spec.callback.as_ref().and_then(|_| host()) }
}

/// The job in a record; `None` if `raw` is not a record.
pub fn decode(id: &JobId, raw: &Bytes) -> Option<Job> {
    decode_with_receipt(id, raw).map(|(job, _)| job)
}

/// The job in a record, and the receipt of its reservation if it is reserved; `None` if `raw` is not a record.
pub fn decode_with_receipt(id: &JobId, raw: &Bytes) -> Option<(Job, Option<ReceiptBytes>)> {
    decode_any(id, raw).filter(|(job, _)| !job.body.as_bytes().is_empty())
}

/// The job in a record whose body was left out, for a list.
pub fn decode_without_body(id: &JobId, raw: &Bytes) -> Option<Job> {
    decode_any(id, raw).map(|(job, _)| job)
}

/// The whole record of a job as it is stored in a store whose host numbers are these.
pub fn encode_whole(record: &JobRecord, host: Option<HostNumber>, generation: u32) -> Bytes {
    let (job, mut attributes) = (&record.job, record.attributes());
    if let (Some(Reserved { since, until, by }), Some(receipt)) = (job.reserved(), &record.receipt) {
        let mut lease = BytesMut::from(&receipt.as_bytes()[..]);
        lease.put_uint(until.as_millis().unsigned_abs(), 6);
        lease.put_uint(since.as_millis().unsigned_abs(), 6);
        lease.put_slice(by.as_ref().map_or("", Actor::as_str).as_bytes());
        attributes.set(Tag::LEASE, Some(&lease));
    }
    let outlet = Outlet { topic: job.topic.clone(), host }.to_string();
    let attributes = attributes.as_bytes();
    let mut raw =
        BytesMut::with_capacity(HEAD_BYTES + outlet.len() + attributes.len() + job.body.as_bytes().len());
    raw.put_u8(VERSION + state_code(job.state()));
    raw.put_u8(flags(&job.spec));
    raw.put_u32(generation);
    raw.put_uint(job.due_at.as_millis().unsigned_abs(), 6);
    raw.put_u32(job.attempts);
    raw.put_uint(job.created_at.as_millis().unsigned_abs(), 6);
    raw.put_uint(as_millis(job.spec.ttr.as_duration()), 4);
    raw.put_uint(u64::from(job.spec.max_attempts), 3);
    raw.put_slice(&record.fingerprint.0);
    raw.put_u8(u8::try_from(outlet.len()).expect("topics are at most 128 bytes"));
    raw.put_u16(u16::try_from(attributes.len()).expect("attributes leave room for a reservation"));
    raw.put_slice(outlet.as_bytes());
    raw.put_slice(attributes);
    raw.put_slice(job.body.as_bytes());
    raw.freeze()
}

/// The whole record of a job; `None` if `raw` is not a record, or has a flag that this version does not know.
pub fn decode_whole(id: &JobId, raw: &Bytes) -> Option<JobRecord> {
    let (job, receipt) = decode_with_receipt(id, raw)?;
    if raw.get(FLAGS_AT)? & !(STRICT | EXPIRES | REMEMBERED) != 0 {
        return None;
    }
    let fingerprint = Fingerprint(raw.get(FINGERPRINT_AT..)?.first_chunk().copied()?);
    let outlet_len = usize::from(*raw.get(OUTLET_LEN_AT)?);
    let attributes_len = u16::from_be_bytes(raw.get(OUTLET_LEN_AT + 1..)?.first_chunk().copied()?);
    let at = HEAD_BYTES + outlet_len;
    let attributes = Attributes::decode(raw.get(at..at + usize::from(attributes_len))?)?;
    Some(JobRecord::new(job, fingerprint, receipt.map(Receipt::from_bytes), &attributes))
}

/// Decodes a record, with a body or without.
fn decode_any(id: &JobId, raw: &Bytes) -> Option<(Job, Option<ReceiptBytes>)> {
    let (mut head, rest) = raw.split_at_checked(HEAD_BYTES)?;
    let state = decode_state(head.get_u8().checked_sub(VERSION)?)?;
    let flags = head.get_u8();
    head.advance(4);
    let due_at = get_moment(&mut head);
    let attempts = head.get_u32();
    let created_at = get_moment(&mut head);
    let ttr = Ttr::new(Duration::from_millis(head.get_u32().into())).ok()?;
    let max_attempts = u32::try_from(head.get_uint(3)).expect("three bytes fit into 32 bits");
    head.advance(FINGERPRINT_BYTES);
    let (outlet_len, attributes_len) = (usize::from(head.get_u8()), usize::from(head.get_u16()));
    let (outlet, rest) = rest.split_at_checked(outlet_len)?;
    let outlet = Outlet::parse(std::str::from_utf8(outlet).ok()?)?;
    let (attributes, body) = rest.split_at_checked(attributes_len)?;
    let attributes = Attributes::decode(attributes)?;
    let lease = match attributes.get(Tag::LEASE) {
        Some(lease) => Some(decode_lease(lease)?),
        None => None,
    };
    let (receipt, reserved) = lease.unzip();
    let state = match (state, reserved, attributes.died_at()?) {
        (State::Delayed, None, None) => JobState::Delayed,
        (State::Ready, None, None) => JobState::Ready,
        (State::Reserved, Some(reserved), None) => JobState::Reserved(reserved),
        (State::Dead, None, Some(at)) => JobState::Dead(at),
        (State::Delayed | State::Ready | State::Reserved | State::Dead, ..) => return None,
    };
    let spec = JobSpec::decode(ttr, max_attempts, flags & STRICT != 0, &attributes)?;
    let expires_at = attributes.expires_at()?;
    if expires_at.is_some() != (flags & EXPIRES != 0) || spec.dedup.is_some() != (flags & REMEMBERED != 0) {
        // Scripts go by the flags.
        return None;
    }
    if spec.callback.is_none() != outlet.is_plain() {
        // Whether the job may be delivered to a worker is not known.
        return None;
    }
    let job = Job {
        id: id.clone(),
        topic: outlet.topic,
        state,
        created_at,
        due_at,
        expires_at,
        spec,
        attempts,
        reason: attributes.reason()?,
        note: attributes.progress_note(),
        history: attributes.history(),
        body: Body::from_stored(raw.slice_ref(body)),
    };
    Some((job, receipt))
}

fn decode_lease(lease: &[u8]) -> Option<(ReceiptBytes, Reserved)> {
    let (receipt, mut rest) = lease.split_first_chunk().filter(|(_, rest)| rest.len() >= 12)?;
    let (until, since) = (get_moment(&mut rest), get_moment(&mut rest));
    let by = std::str::from_utf8(rest).ok().and_then(|by| Actor::parse(by).ok());
    Some((*receipt, Reserved { since, until, by }))
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

/// Reads a moment from bytes that are long enough.
fn get_moment(bytes: &mut &[u8]) -> Timestamp {
    Timestamp::from_millis(i64::try_from(bytes.get_uint(6)).expect("six bytes fit into 63 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::{
        job::{Callback, CallbackUrl, Delay, RetrySchedule, Topic},
        store::IfExists,
    };
    use proptest::prelude::*;

    fn job(topic: String, body: Vec<u8>, steps_ms: Vec<u64>, max_attempts: u32, strict: bool) -> AddJob {
        AddJob {
            id: JobId::parse("a").expect("valid"),
            topic: Topic::parse(&topic).expect("valid"),
            due: Due::After(Delay::new(Duration::from_secs(7)).expect("valid")),
            spec: JobSpec {
                max_attempts,
                retry: RetrySchedule::new(steps_ms.into_iter().map(Duration::from_millis).collect())
                    .expect("valid"),
                require_receipt: strict,
                ..JobSpec::default()
            },
            fingerprint: Fingerprint([7; 16]),
            is_paused: false,
            if_exists: IfExists::Keep,
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
            let decoded = decode(&added.id, &encode_new(&added, None, 1)).expect("a record");
            prop_assert_eq!(&decoded.topic, &added.topic);
            prop_assert_eq!(&decoded.body, &added.body);
            prop_assert_eq!(&decoded.spec, &added.spec);
            prop_assert_eq!((decoded.state(), decoded.due_at.as_millis()), (State::Delayed, 7_000));
        }

        #[test]
        fn decoding_any_bytes_does_not_panic(raw in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_with_receipt(&JobId::parse("a").expect("valid"), &Bytes::from(raw));
        }

        #[test]
        fn a_truncated_record_is_refused_or_loses_only_the_end_of_its_body(cut in 0usize..60) {
            let whole = encode_new(&job("topic".to_owned(), b"null".to_vec(), vec![5], 3, false), None, 1);
            let short = whole.slice(..cut.min(whole.len()));
            let header = whole.len() - 4;
            prop_assert_eq!(decode(&JobId::parse("a").expect("valid"), &short).is_some(), cut > header);
        }
    }

    #[test]
    fn a_job_with_a_callback_is_filed_by_its_host() {
        let url = CallbackUrl::parse("https://a.example/x").expect("valid");
        let plain = job("t".to_owned(), b"null".to_vec(), vec![5], 3, false);
        let callback = Some(Arc::new(Callback::to(url)));
        let added = AddJob { spec: JobSpec { callback, ..plain.spec.clone() }, ..plain.clone() };
        let raw = encode_new(&added, Some(HostNumber(0x3f)), 1);
        assert!(raw[HEAD_BYTES..].starts_with(b"t>3f"));
        let decoded = decode(&added.id, &raw).expect("a record");
        assert_eq!((&decoded.topic, &decoded.spec), (&added.topic, &added.spec));
        assert_eq!(outlet_of(&decoded, &raw).to_string(), "t>3f");
        for (job, host) in [(&added, None), (&plain, Some(HostNumber(0x3f)))] {
            assert_eq!(decode(&job.id, &encode_new(job, host, 1)), None, "{host:?}");
        }
    }

    #[test]
    fn a_pending_job_takes_48_bytes_in_addition_to_topic_and_body() {
        let raw = encode_new(&job("t".to_owned(), b"null".to_vec(), vec![], 16, false), None, 1);
        assert_eq!(raw.len(), 48 + 1 + 4);
    }
}
