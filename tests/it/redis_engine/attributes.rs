//! Attributes of a later version, which this version does not know: every step keeps them byte for byte, and malformed
//! attributes are reported.

use bytes::Bytes;
use linger::{
    job::{Attributes, Body, Due, Reason, SecretId, SigningKey, SigningSecret, State, Tag, TopicSettings},
    store::{AddJob, AddedSecret, Error, MoveKind, Patch, Release, Steps, TopicUpdates, redis::Options},
};

use super::{AUDIT_INTERVAL, Process, Raw, options};
use crate::harness::{jobs::*, lists::requeue_oldest, redis::shared, wait::TimeLimit};

/// Where the head of a record has the length of its topic and that of its attributes.
const LENGTHS_AT: usize = 45;
const HEAD: usize = LENGTHS_AT + 3;

/// Attributes with tags that the scripts do not know: one near the known tags, one in between, the last.
fn later() -> Vec<u8> {
    let mut later = Attributes::default();
    later.set(Tag(24), Some(b"\0\xff a moment"));
    later.set(Tag(100), Some(b""));
    later.set(Tag(255), Some(&[7; 3_000]));
    later.as_bytes().to_vec()
}

/// A process on one shard, and a connection that writes records.
struct AttributesFixture {
    process: Process,
    raw: Raw,
    key: String,
}

impl AttributesFixture {
    async fn start() -> Self {
        let options = Options { shards: Some(1), ..options() };
        let process = Process::start(&options).await;
        let raw = Raw::connect(&shared().url()).await;
        Self { process, raw, key: format!("{{{}:0}}:jobs", options.prefix) }
    }

    async fn record(&self, name: &str) -> Vec<u8> {
        self.raw.send(&["HGET", &self.key, name]).await.into_bytes().expect("is there").to_vec()
    }

    /// The attributes of a job, and where they begin in its record.
    async fn attributes(&self, name: &str) -> (Attributes, usize) {
        let record = self.record(name).await;
        let start = HEAD + usize::from(record[LENGTHS_AT]);
        let len = usize::from(u16::from_be_bytes([record[LENGTHS_AT + 1], record[LENGTHS_AT + 2]]));
        (Attributes::decode(&record[start..start + len]).expect("well-formed"), start)
    }

    /// Appends bytes to the attributes of a job.
    async fn append(&self, name: &str, bytes: &[u8]) {
        let (attributes, start) = self.attributes(name).await;
        let mut record = self.record(name).await;
        let end = start + attributes.as_bytes().len();
        let len = u16::try_from(end - start + bytes.len()).expect("fits").to_be_bytes();
        record[LENGTHS_AT + 1..HEAD].copy_from_slice(&len);
        record.splice(end..end, bytes.iter().copied());
        let arguments = vec![self.key.as_str().into(), name.into(), Bytes::from(record).into()];
        self.raw.send_values("HSET", arguments).await;
    }

    /// Asserts that a job is in this state, and that its record has the attributes of a later version.
    async fn kept(&self, state: State, step: &str) {
        let (attributes, _) = self.attributes("a").await;
        assert!(attributes.as_bytes().ends_with(&later()), "{step}: {attributes:?}");
        let job = self.process.store.get(ALL, &id("a")).await.expect("reads").expect("is there");
        assert_eq!(job.state(), state, "{step}");
        assert_eq!(self.process.store.verify().await.expect("verifies").faults, [""; 0], "{step}");
    }

    async fn promoted(&self, after: u64) -> MoveKind {
        self.process.clock.advance(seconds(after));
        one(self.process.store.promote(10).await.expect("promotes").moves).kind
    }
}

#[tokio::test]
async fn every_step_keeps_attributes_of_a_later_version() {
    let fixture = AttributesFixture::start().await;
    let store = fixture.process.store();
    let (a, why) = (&id("a"), Reason::new("why"));
    add(
        store,
        AddJob {
            spec: JobSpec { retry: retry(&[5]), max_attempts: 3, ..JobSpec::default() },
            ..delayed("a", seconds(9))
        },
    )
    .await;
    fixture.append("a", &later()).await;

    let patch =
        Patch { due: Some(Due::After(delay(seconds(3)))), body: Some(body("[1]")), ..Patch::default() };
    assert!(store.patch(ALL, a, patch, None).await.expect("patches").is_ok());
    fixture.kept(State::Delayed, "patch").await;
    assert_eq!(fixture.promoted(3).await, MoveKind::Ready);
    fixture.kept(State::Ready, "promote").await;
    let held = reserve(store).await;
    fixture.kept(State::Reserved, "reserve").await;
    store.cancel(vec![(held.job.id, held.receipt)]).await.expect("cancels");
    fixture.kept(State::Ready, "cancel").await;
    let held = reserve(store).await;
    store.touch(ALL, a, &held.receipt, Some(ttr(90))).await.expect("answers").expect("is held");
    fixture.kept(State::Reserved, "touch").await;
    let release = Release { due: Some(after(seconds(1))), reason: why.clone() };
    store.release(ALL, a, &held.receipt, release).await.expect("answers").expect("is held");
    fixture.kept(State::Delayed, "release").await;
    assert_eq!(fixture.promoted(1).await, MoveKind::Ready);
    fixture.kept(State::Ready, "promote with a reason").await;
    reserve(store).await;
    fixture.kept(State::Reserved, "reserve with a reason").await;
    assert_eq!(fixture.promoted(60).await, MoveKind::TimedOut);
    fixture.kept(State::Delayed, "end of the TTR").await;
    assert_eq!(fixture.promoted(5).await, MoveKind::Ready);
    reserve(store).await;
    assert_eq!(fixture.promoted(60).await, MoveKind::Died);
    fixture.kept(State::Dead, "last attempt").await;
    store.requeue(ALL, a, after(seconds(0)), None).await.expect("requeues").expect("is not refused");
    fixture.kept(State::Ready, "requeue").await;
    let held = reserve(store).await;
    store.bury(ALL, a, &held.receipt, why).await.expect("answers").expect("is held");
    fixture.kept(State::Dead, "bury").await;
    assert_eq!(requeue_oldest(store, "t", 10).await, 1);
    fixture.kept(State::Ready, "requeue of a listed job").await;
    let held = reserve(store).await;
    assert_eq!(held.job.body, body("[1]"));
    let done = store.finish(ALL, finish(a, &held.receipt)).await.expect("finishes");
    assert_eq!(one(done), finished());
}

/// The sweep corrects indexes and counts by the records that it can read, so it must read records with such attributes.
#[tokio::test]
async fn a_shard_with_attributes_of_a_later_version_is_mended() {
    let fixture = AttributesFixture::start().await;
    add(fixture.process.store(), delayed("a", AUDIT_INTERVAL + seconds(9))).await;
    fixture.append("a", &later()).await;
    let before = fixture.record("a").await;
    let due = fixture.key.replace(":jobs", ":due");
    fixture.raw.send(&["ZREM", &due, "a"]).await;
    fixture.process.clock.advance(AUDIT_INTERVAL);
    let time_limit = TimeLimit::new();
    while fixture.raw.send(&["ZSCORE", &due, "a"]).await.is_null() {
        time_limit.check(|| "it is not in the index".to_owned());
        time_limit.pause().await;
    }
    assert_eq!(fixture.record("a").await, before);
    fixture.kept(State::Delayed, "mend").await;
}

/// Where only the head is needed, a script does not read all of a large body. It must still read all attributes.
#[tokio::test]
async fn jobs_with_large_attributes_and_bodies_can_be_finished_and_deleted() {
    let fixture = AttributesFixture::start().await;
    let store = fixture.process.store();
    let large = Body::parse(format!("\"{}\"", "x".repeat(5_000)).into()).expect("a body");
    for name in ["finished", "deleted"] {
        add(store, AddJob { body: large.clone(), ..job(name) }).await;
        fixture.append(name, &later()).await;
        let held = reserve(store).await;
        if name == "finished" {
            let done = store.finish(ALL, finish(&held.job.id, &held.receipt)).await.expect("finishes");
            assert_eq!(one(done), finished());
        } else {
            let scope = only(&["t"]);
            let deleted = store.delete(&scope, vec![id(name)], DeleteRule::AnyState).await.expect("deletes");
            assert!(matches!(deleted[..], [Ok(_)]), "{deleted:?}");
        }
    }
    assert_eq!(store.verify().await.expect("verifies").faults, [""; 0]);
}

#[tokio::test]
async fn malformed_attributes_are_reported_by_scripts_and_by_the_engine() {
    let malformed: [&[u8]; 6] = [
        b"\x05\0",
        b"\x05\0\x02x",
        b"\x05\0\0\x05\0\0",
        b"\x06\0\0\x05\0\0",
        b"\x01\0\x02xx",
        b"\x02\0\x06abcdef",
    ];
    for bytes in malformed {
        let fixture = AttributesFixture::start().await;
        let store = fixture.process.store();
        add(store, delayed("a", seconds(1))).await;
        fixture.append("a", bytes).await;
        let faults = store.verify().await.expect("verifies").faults;
        assert!(faults.iter().any(|fault| fault.contains("job a: its record cannot be read")), "{faults:?}");
        assert!(matches!(store.get(ALL, &id("a")).await, Err(Error::Damaged(_))), "{bytes:?}");
    }
}

/// What a later version has set for a topic stays, whatever this one sets or clears.
#[tokio::test]
async fn changes_of_a_topic_keep_what_a_later_version_has_set() {
    let options = options();
    let process = Process::start(&options).await;
    let (store, raw) = (process.store(), Raw::connect(&shared().url()).await);
    let key = format!("{{{}}}:settings", options.prefix);
    let later = Attributes::decode(b"\x06\0\x01u\xc8\0\x02ab\xff\0\0").expect("well-formed");
    let stored = async || {
        let value = raw.send(&["HGET", &key, "t"]).await.into_bytes().expect("is there");
        Attributes::decode(&value).expect("well-formed")
    };
    raw.send_values(
        "HSET",
        vec![key.as_str().into(), "t".into(), Bytes::from(later.as_bytes().to_vec()).into()],
    )
    .await;
    let settings = TopicSettings { ttr: Some(ttr(5)), require_receipt: true, ..TopicSettings::default() };
    store.put_settings(&topic("t"), settings.clone()).await.expect("sets");
    let delivery = PausedOperations { delivery: true, intake: false };
    let pause = store.pause(&topic("t"), delivery, Pause::ENDLESS).await.expect("pauses");
    assert_eq!(pause, TopicPause::ALL, "the later version has paused the intake, until some moment");
    let values = stored().await;
    assert_eq!(TopicSettings::decode(&values), Some(settings));
    assert!(values.as_bytes().ends_with(later.as_bytes()), "{values:?}");
    let AddedSecret::Created(secret) = store
        .add_secret(&topic("t"), signing_secret(SecretId::generate(), SigningKey::generate()))
        .await
        .expect("adds")
    else {
        panic!("it is the first secret")
    };
    store.put_settings(&topic("t"), TopicSettings::default()).await.expect("clears");
    assert_eq!(SigningSecret::decode_from(&stored().await), Some(vec![secret.clone()]));
    assert!(store.delete_secret(&topic("t"), secret.id).await.expect("deletes"));
    store.resume(&topic("t"), delivery).await.expect("resumes");
    assert_eq!(stored().await, later);
    store.resume(&topic("t"), PausedOperations::ALL).await.expect("resumes");
    assert_eq!(stored().await.as_bytes(), b"\xc8\0\x02ab\xff\0\0");
    assert_eq!(store.topics(ALL, None, 10).await.expect("reads"), []);
    raw.send(&["HSET", &key, "t", "nonsense"]).await;
    assert_eq!(store.verify().await.expect("verifies").faults, ["topic t: its settings cannot be read"]);
}
