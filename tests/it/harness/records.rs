//! Whole records to put into stores, and everything that a store has.

use linger::{
    job::{
        Actor, AttemptEnd, Attributes, CallRate, Expire, Expiry, Fingerprint, History, HistoryEntry,
        HistoryEvent, IdEnd, Job, JobState, NoteText, OnExpiry, ProgressNote, Reason, Receipt, RememberedId,
        Reserved, ScheduleName, SecretId, SigningKey, SigningSecret, Tag, Timestamp, TopicCallback,
        TopicSettings,
    },
    store::{JobRecord, RecordPage, ScheduleContent, Store, StoredSchedule, TopicConfig, TopicRecord},
};

use super::{jobs::*, stores::StoreFixture, wait::StepLimit};

/// Everything that the store has, on one page: topics and schedules by name and jobs by id.
async fn read_all(store: &dyn Store) -> RecordPage {
    let mut all = RecordPage::default();
    let (mut reader, mut step_limit) = (store.records().await.expect("reads"), StepLimit::new());
    while let Some(page) = reader.next().await.expect("reads") {
        step_limit.step();
        assert_eq!(page.broken, [""; 0]);
        assert!(all.jobs.is_empty() || page.topics.is_empty(), "topics come before jobs");
        assert!(all.jobs.is_empty() || page.schedules.is_empty(), "schedules come before jobs");
        assert!(all.jobs.is_empty() || page.remembered.is_empty(), "remembered ids come before jobs");
        all.topics.extend(page.topics);
        all.schedules.extend(page.schedules);
        all.remembered.extend(page.remembered);
        all.jobs.extend(page.jobs);
    }
    all.topics.sort_by(|one, other| one.topic.cmp(&other.topic));
    all.schedules.sort_by(|one, other| one.name.cmp(&other.name));
    all.remembered.sort_by(|one, other| one.id.as_str().cmp(other.id.as_str()));
    all.jobs.sort_by(|one, other| one.job.id.as_str().cmp(other.job.id.as_str()));
    all
}

/// What is set for topics by name, and the jobs by id.
pub async fn all_records(store: &dyn Store) -> (Vec<TopicRecord>, Vec<JobRecord>) {
    let RecordPage { topics, jobs, .. } = read_all(store).await;
    (topics, jobs)
}

/// The schedules by name.
pub async fn all_schedules(store: &dyn Store) -> Vec<StoredSchedule> {
    read_all(store).await.schedules
}

/// The remembered ids, sorted.
pub async fn all_remembered(store: &dyn Store) -> Vec<RememberedId> {
    read_all(store).await.remembered
}

/// Remembered ids that an export could get wrong: the longest, with the highest revision, of a deleted job.
pub fn remembered(now: Timestamp) -> Vec<RememberedId> {
    let plain = RememberedId {
        id: id("a:+=@~"),
        topic: topic("t"),
        end: IdEnd::Finished,
        ended_at: now,
        until: now.after(seconds(604_800)),
        fingerprint: Fingerprint([7; 16]),
        revision: None,
    };
    vec![
        plain.clone(),
        RememberedId { id: id("deleted"), end: IdEnd::Deleted, revision: Some(0), ..plain.clone() },
        RememberedId {
            id: id(&"i".repeat(255)),
            topic: topic(&"t".repeat(128)),
            revision: Some(JobSpec::MAX_REVISION),
            fingerprint: Fingerprint([0xff; 16]),
            ..plain
        },
    ]
}

/// A schedule with this text.
pub fn schedule(name: &str, next: Option<Timestamp>, text: &str) -> StoredSchedule {
    let content = ScheduleContent { next, text: text.as_bytes().to_vec().into() };
    StoredSchedule { name: ScheduleName::parse(name).expect("valid"), content }
}

/// Schedules by name that an export could get wrong: without a next moment, with line breaks, large, of the longest name.
pub fn schedules(fixture: &StoreFixture) -> Vec<StoredSchedule> {
    let soon = fixture.now().after(millis(3_600_001));
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(60_000));
    vec![
        schedule("daily-report", Some(soon), "{\"every\":\"1d\",\"job\":{\"body\":{\n\"größe\": 1.50}}}"),
        schedule("l:arge", Some(fixture.now()), &large),
        schedule(&"n".repeat(200), Some(soon), "{}"),
        schedule("paused", None, "{\"paused\":true}"),
    ]
}

/// The record of a ready job of topic `t` that was added an hour ago.
pub fn record(fixture: &StoreFixture, name: &str) -> JobRecord {
    let added = job(name);
    let hour_ago = Timestamp::from_millis(fixture.now().as_millis() - 3_600_000);
    JobRecord {
        job: Job {
            id: added.id,
            topic: added.topic,
            state: JobState::Ready,
            created_at: hour_ago,
            due_at: hour_ago,
            expires_at: None,
            spec: added.spec,
            attempts: 0,
            reason: None,
            note: None,
            history: History::default(),
            body: added.body,
        },
        fingerprint: Fingerprint([9; 16]),
        receipt: None,
        other: Attributes::default(),
    }
}

/// A job that is due in 90 s.
pub fn delayed_record(fixture: &StoreFixture, name: &str) -> JobRecord {
    let mut record = record(fixture, name);
    record.job.state = JobState::Delayed;
    record.job.due_at = fixture.now().after(seconds(90));
    record
}

/// A job that a worker has for 20 s more.
pub fn reserved_record(fixture: &StoreFixture, name: &str) -> JobRecord {
    let mut record = record(fixture, name);
    let now = fixture.now();
    record.job.state = JobState::Reserved(Reserved {
        since: Timestamp::from_millis(now.as_millis() - 5_000),
        until: now.after(seconds(20)),
        by: Actor::parse("wörker-1").ok(),
    });
    record.job.attempts = 3;
    record.receipt = Some(Receipt::from_bytes([5; 16]));
    record
}

/// A dead letter.
pub fn dead_record(fixture: &StoreFixture, name: &str) -> JobRecord {
    let mut record = record(fixture, name);
    record.job.state = JobState::Dead(Timestamp::from_millis(fixture.now().as_millis() - 1_000));
    record.job.attempts = 16;
    record.job.reason = Reason::new("no such order");
    record
}

/// A record with a value in each of its fields.
pub fn full_record(fixture: &StoreFixture, name: &str) -> JobRecord {
    let mut record = reserved_record(fixture, name);
    record.job.spec.ttr = ttr(7);
    record.job.spec.max_attempts = 1_000_000;
    record.job.spec.retry = retry(&[15, 180]);
    record.job.spec.require_receipt = true;
    record.job.spec.late_finish = false;
    record.job.reason = Reason::new("psp timeout");
    record.job.note = NoteText::new("3 of 7").map(|text| ProgressNote { at: record.job.created_at, text });
    record.job.spec.callback = Some(callback("https://shop.example/hook?x=1"));
    record.job.spec.trace = Some(trace(1));
    record.job.body = body("{\"a\": [1.50, 12345678901234567890123]}");
    let event = HistoryEvent::Attempt {
        number: 2,
        took: millis(1_234),
        end: AttemptEnd::Released,
        reason: Reason::new("psp timeout"),
    };
    record.job.history.push(&HistoryEntry { at: record.job.created_at, by: Actor::parse("w").ok(), event });
    record.job.spec.expiry =
        Some(Expiry { expire: Expire::After(delay(seconds(30))), on_expiry: OnExpiry::Delete });
    record.job.expires_at = Some(record.job.due_at.after(seconds(30)));
    record.job.spec.dedup = Some(window(604_800));
    record.job.spec.revision = Some(JobSpec::MAX_REVISION);
    record.other.set(Tag(100), Some(b"of a later version"));
    record.other.set(Tag(250), Some(b"\0\xff"));
    record
}

/// A topic with all settings.
pub fn topic_record(name: &str) -> TopicRecord {
    let callback = TopicCallback {
        target: Some((*callback("https://shop.example/t")).clone()),
        rate: CallRate::new(12.5).ok(),
        concurrency: std::num::NonZeroU32::new(3),
    };
    let settings = TopicSettings {
        ttr: Some(ttr(5)),
        max_attempts: Some(0),
        retry: Some(retry(&[1])),
        require_receipt: true,
        late_finish: Some(false),
        expire: Some(delay(seconds(9))),
        on_expiry: Some(OnExpiry::Delete),
        dedup: Some(window(9)),
        callback,
    };
    let secret = SigningSecret {
        id: SecretId([1; 8]),
        created_at: Timestamp::from_millis(1_700_000_000_000),
        key: SigningKey::from_bytes(&[7; 32]).expect("long enough"),
    };
    let pause = PausedOperations { delivery: true, intake: false }.into();
    let config = TopicConfig { settings, pause, secrets: vec![secret], called_at: None };
    TopicRecord { topic: topic(name), config, other: Attributes::default() }
}
