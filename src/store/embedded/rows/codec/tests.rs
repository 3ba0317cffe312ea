//! Tests of the encoding of jobs.

use super::*;
use std::sync::Arc;

use crate::job::{Callback, CallbackUrl, DedupWindow, Expire, Expiry, OnExpiry, RetrySchedule};
use proptest::prelude::*;

fn records() -> impl Strategy<Value = Record> {
    let times = (0i64..=253_402_207_199_999, 0i64..=253_402_207_199_999, 1_000u64..=2_592_000_000);
    let counts = (any::<u32>(), any::<u32>(), any::<bool>(), any::<[u8; 16]>());
    let steps = prop::collection::vec(0u64..=315_576_000_000, 0..=64);
    // Not 8 and 9: any bytes of the right length are a trace context.
    let unknown = (prop_oneof![Just(1u8), 24u8..], prop::collection::vec(any::<u8>(), 0..300));
    let end = (
        prop::option::of("\\PC{0,200}"),
        prop::option::of(0i64..=253_402_207_199_999),
        prop::collection::vec(unknown, 0..4),
        prop::collection::vec(0i64..=253_402_207_199_999, 0..12),
    );
    let names = ("[A-Za-z0-9][A-Za-z0-9._~:@+=-]{0,254}", "[A-Za-z0-9][A-Za-z0-9._:-]{0,127}");
    (names, times, counts, steps, end, prop::collection::vec(any::<u8>(), 0..2_000)).prop_map(
        |(names, times, counts, steps, end, body)| Record {
            head: RecordHead {
                id: JobId::parse(&names.0).expect("valid"),
                topic: Topic::parse(&names.1).expect("valid"),
                due_at: Timestamp::from_millis(times.0),
                created_at: Timestamp::from_millis(times.1),
                expires_at: counts.2.then(|| Timestamp::from_millis(times.0)),
                spec: JobSpec {
                    ttr: Ttr::new(Duration::from_millis(times.2)).expect("valid"),
                    max_attempts: counts.1,
                    retry: RetrySchedule::new(steps.into_iter().map(Duration::from_millis).collect())
                        .expect("valid"),
                    require_receipt: counts.2,
                    late_finish: counts.2,
                    dedup: counts.2.then(|| {
                        let window = Duration::from_millis(times.2).min(DedupWindow::MAX);
                        DedupWindow::new(window).expect("valid")
                    }),
                    expiry: counts.2.then(|| Expiry {
                        expire: Expire::At(Timestamp::from_millis(times.0)),
                        on_expiry: OnExpiry::Delete,
                    }),
                    ..JobSpec::default()
                },
                attempts: counts.0,
                fingerprint: Fingerprint(counts.3),
                reason: end.0.and_then(|text| Reason::new(&text)),
                dead_at: end.1.map(Timestamp::from_millis),
                history: history(&end.3),
                host: None,
                other: attributes(&end.2),
            },
            body: Body::from_stored(body.into()),
        },
    )
}

fn history(requeued_ms: &[i64]) -> History {
    let mut history = History::default();
    for ms in requeued_ms {
        let (at, event) = (Timestamp::from_millis(*ms), HistoryEvent::Requeued);
        history.push(&HistoryEntry { at, by: Actor::parse("ops").ok(), event });
    }
    history
}

fn attributes(tags: &[(u8, Vec<u8>)]) -> Attributes {
    let mut attributes = Attributes::default();
    tags.iter().for_each(|(tag, value)| attributes.set(Tag(*tag), Some(value)));
    attributes
}

fn columns<'a>(key: RowKey, record: &'a Record, head: &'a [u8]) -> RecordColumns<'a> {
    RecordColumns {
        key,
        id: record.head.id.as_str().as_bytes(),
        topic: record.head.topic.as_str().as_bytes(),
        head,
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(record in records(), bits in 0u64..1 << 63) {
        let key = RowKey::from_bits(bits);
        let head = record.encode_head(key);
        let columns = columns(key, &record, &head);
        let parts = RecordParts { host: None, expires_at: record.head.expiry(), is_remembered: record.head.spec.dedup.is_some() };
        prop_assert_eq!(columns.verify_and_read_parts(), Ok(parts));
        prop_assert_eq!(columns.decode_head(), Ok(record.head.clone()));
        prop_assert_eq!(columns.decode_record(record.body.as_bytes()), Ok(record.clone()));
    }

    #[test]
    fn a_changed_byte_is_seen(record in records(), at in any::<prop::sample::Index>(), flip in 1u8..) {
        let key = RowKey::from_bits(77);
        let mut head = record.encode_head(key);
        let mut body = record.body.as_bytes().to_vec();
        let good = head.clone();
        *at.get_mut(&mut head) ^= flip;
        prop_assert_eq!(columns(key, &record, &head).decode_record(&body), Err(RecordError::HeadSum));
        if !body.is_empty() {
            *at.get_mut(&mut body) ^= flip;
            prop_assert_eq!(columns(key, &record, &good).decode_record(&body), Err(RecordError::BodySum));
        }
        prop_assert_eq!(columns(key.next(), &record, &good).verify_and_read_parts(), Err(RecordError::HeadSum), "moved");
        let mut renamed = columns(key, &record, &good);
        let name = format!("{}x", record.head.id);
        renamed.id = name.as_bytes();
        prop_assert_eq!(renamed.verify_and_read_parts(), Err(RecordError::HeadSum));
    }

    #[test]
    fn any_bytes_are_refused_without_panic(mut head in prop::collection::vec(any::<u8>(), 0..200)) {
        let key = RowKey::from_bits(1);
        let bare = RecordColumns { key, id: b"a", topic: b"t", head: &head };
        prop_assert!(bare.decode_record(b"null").is_err());
        // Also past the checksum.
        let sum = bare.sum();
        head.extend_from_slice(&sum.to_le_bytes());
        let _ = RecordColumns { key, id: b"a", topic: b"t", head: &head }.decode_record(b"null");
    }
}

proptest! {
    #[test]
    fn a_callback_is_kept_with_the_number_of_its_host(mut record in records()) {
        let url = CallbackUrl::parse("https://a.example/x").expect("valid");
        let (seed, host) = ([7; 16], HostNumber::new(&[7; 16], url.origin()));
        record.head.spec.callback = Some(Arc::new(Callback::to(url)));
        record.head.spec.encode_extensible(&mut record.head.other);
        record.head.set_callback_host(&seed);
        let key = RowKey::from_bits(7);
        let head = record.encode_head(key);
        let read = columns(key, &record, &head);
        let parts = read.verify_and_read_parts().expect("sound");
        prop_assert_eq!((parts.host, parts.expires_at), (Some(host), record.head.expiry()));
        prop_assert_eq!(read.decode_record(record.body.as_bytes()), Ok(record.clone()));
        prop_assert_eq!(record.head.outlet().to_string(), format!("{}>{:02x}", record.head.topic, host.0));
        // A worker must not get a job whose callback or host is missing or malformed.
        let damages: [(Tag, Option<&[u8]>); 4] = [
            (Tag::CALLBACK, None),
            (Tag::CALLBACK, Some(b"no callback")),
            (Tag::HOST_NUMBER, None),
            (Tag::HOST_NUMBER, Some(b"12")),
        ];
        for (tag, value) in damages {
            let mut damaged = record.clone();
            damaged.head.other.set(tag, value);
            let head = damaged.encode_head(key);
            prop_assert_eq!(columns(key, &damaged, &head).decode_head(), Err(RecordError::Value), "{:?}", tag);
        }
    }
}
