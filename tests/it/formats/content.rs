//! The content of a fixture: jobs in all states, unusual names and bodies, settings and pauses. The calls of a client
//! make it, so that it is the same on any engine. A list of it is stored beside the fixture.

use std::time::Duration;

use bytes::Bytes;
use linger::{
    clock::ManualClock,
    job::{
        Body, Due, Job, JobId, JobSpec, Pause, PausedOperations, Reason, Receipt, RetrySchedule, Timestamp,
        TopicSettings, Ttr,
    },
    store::{AddJob, Added, Release, Steps, Store, TopicStats, TopicUpdates},
};
use serde_json::{Value, json};

use crate::harness::jobs::{
    ALL, Wait, after, claim_for, delay, id, job, millis, plain, promote, retry, seconds, topic, ttr,
};

/// The list beside a fixture: everything that it contains.
pub struct Content {
    /// The moment of its last step.
    pub now: Timestamp,
    /// Every job, by id.
    pub jobs: Vec<Value>,
    /// Every topic, by name.
    pub topics: Vec<Value>,
    /// The receipt of the job `held`.
    pub receipt: Receipt,
}

/// Bodies that a format could get wrong.
const BODIES: [(&str, &str); 12] = [
    ("body-null", "null"),
    ("body-empty-text", "\"\""),
    ("body-zero", "\"\\u0000\\u001f\\u007f\""),
    ("body-unicode", "\"\u{7f}\u{e9}\u{2028}\u{fffd}\u{10ffff}😀\""),
    ("body-surrogate", "\"\\ud83d\\ude00\""),
    ("body-spaces", " { \"b\" : [ 1 ,\t2 ] ,\n\"a\":{}} "),
    ("body-twice", "{\"a\":1,\"a\":2}"),
    ("body-large-number", "123456789012345678901234567890.5e+300"),
    ("body-minus-zero", "-0"),
    ("body-resp", "\"*1\\r\\n$4\\r\\nPING\\r\\n\""),
    ("body-sql", "\"'); DROP TABLE rec; --\""),
    ("body-deep", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"),
];

/// Ids that look like something else. Each is an id by the contract.
const IDS: [&str; 10] = [
    "0",
    "NULL",
    "linger.db",
    "dq_bucket_1",
    "orders:1001:close",
    "a.b_c~d:e@f+g=h-i",
    "format-2:jobs",
    "1.",
    "A..",
    "A",
];

/// Fills `store`, which is empty and uses `clock`.
pub async fn fill(store: &dyn Store, clock: &ManualClock) -> Content {
    settings(store).await;
    add(store, jobs_never_reserved()).await;
    add(store, IDS.map(|name| ready(name, "odd")).into()).await;
    let longest = AddJob { id: id(&"i".repeat(255)), topic: topic(&"t".repeat(128)), ..job("x") };
    add(store, vec![longest]).await;
    add(
        store,
        BODIES.map(|(name, text)| AddJob { body: parsed(text.to_owned()), ..ready(name, "bodies") }).into(),
    )
    .await;
    let large = format!("\"{}\"", "0123456789abcdef".repeat(1_000));
    add(store, vec![AddJob { body: parsed(large), ..ready("body-large", "bodies") }]).await;
    let receipt = add_reserved(store, clock).await;
    let names: Vec<JobId> = RESERVED_JOBS.iter().map(|name| id(name)).collect();
    content(store, clock, names, receipt).await
}

const RESERVED_JOBS: [&str; 7] = ["held", "touched", "released", "buried", "expired", "used-up", "requeued"];

fn parsed(text: String) -> Body {
    Body::parse(Bytes::from(text)).expect("a valid body")
}

fn ready(name: &str, in_topic: &str) -> AddJob {
    AddJob { topic: topic(in_topic), ..job(name) }
}

async fn add(store: &dyn Store, jobs: Vec<AddJob>) {
    let added = store.add(jobs).await.expect("adds");
    assert!(added.iter().all(|added| matches!(added, Ok(Added::Created(_)))), "{added:?}");
}

async fn settings(store: &dyn Store) {
    let settings = TopicSettings {
        ttr: Some(ttr(30)),
        max_attempts: Some(5),
        retry: Some(retry(&[15, 180, 54_000])),
        require_receipt: true,
        ..TopicSettings::default()
    };
    store.put_settings(&topic("set"), settings).await.expect("is set");
    for (name, delivery, intake) in
        [("paused", true, false), ("closed", false, true), ("stopped", true, true)]
    {
        store
            .pause(&topic(name), PausedOperations { delivery, intake }, Pause::ENDLESS)
            .await
            .expect("is set");
    }
}

/// Jobs that were never reserved: due at once, soon, late, at the last moment, and several in one millisecond.
fn jobs_never_reserved() -> Vec<AddJob> {
    let at = |text| Due::At(Timestamp::parse(text).expect("a moment"));
    let due = |name, due| AddJob { due, ..ready(name, "times") };
    let mut jobs = vec![
        due("in-a-millisecond", Due::After(delay(millis(1)))),
        due("in-an-hour", Due::After(delay(seconds(3_600)))),
        due("in-a-year", Due::After(delay(seconds(31_536_000)))),
        due("at-last", at("9999-12-30T21:59:59.999Z")),
        due("long-ago", at("2001-02-03T04:05:06.789Z")),
        AddJob {
            spec: JobSpec {
                ttr: Ttr::new(millis(86_400_000)).expect("valid"),
                max_attempts: 0,
                ..ready("patient", "paused").spec
            },
            ..ready("patient", "paused")
        },
        AddJob {
            spec: JobSpec { require_receipt: true, max_attempts: 10_000, ..ready("strict", "set").spec },
            ..ready("strict", "set")
        },
        AddJob {
            spec: JobSpec {
                retry: RetrySchedule::new((1..=64).map(Duration::from_secs).collect()).expect("valid"),
                ..ready("many-steps", "set").spec
            },
            ..ready("many-steps", "set")
        },
    ];
    let simultaneous = |n| AddJob { due: at("2027-01-01T00:00:00Z"), ..ready(&format!("twin-{n}"), "times") };
    jobs.extend((0..5).map(simultaneous));
    jobs
}

/// Adds the jobs that are reserved at least once. Returns the receipt of `held`, whose reservation lasts a day.
async fn add_reserved(store: &dyn Store, clock: &ManualClock) -> Receipt {
    let one = |name: &str, attempts| AddJob {
        spec: JobSpec { max_attempts: attempts, retry: retry(&[600]), ..ready(name, "tried").spec },
        ..ready(name, "tried")
    };
    let mut held = None;
    for name in RESERVED_JOBS {
        add(store, vec![one(name, if name == "used-up" { 1 } else { 16 })]).await;
        let lasts = if name == "held" { ttr(86_400) } else { ttr(60) };
        let granted = store.reserve(&plain("tried"), &[claim_for(lasts)], Wait::No).await.expect("reserves");
        let [grant] = &granted[..] else { panic!("one job: {granted:?}") };
        assert_eq!(grant.job.id, id(name));
        let (id, receipt) = (&grant.job.id, &grant.receipt);
        let reason = Reason::new("über \u{10ffff} \"quoted\"\nand more");
        match name {
            "held" => held = Some(receipt.clone()),
            "touched" => {
                _ = store.touch(ALL, id, receipt, Some(ttr(7_200))).await.expect("answers").expect("is held")
            }
            "released" => {
                let release = Release { due: Some(after(seconds(90))), reason };
                store.release(ALL, id, receipt, release).await.expect("answers").expect("is held");
            }
            "buried" | "requeued" => {
                store.bury(ALL, id, receipt, reason).await.expect("answers").expect("is held");
            }
            // Their reservations end below.
            "expired" | "used-up" => {}
            other => panic!("{other} is no step"),
        }
    }
    store
        .requeue(ALL, &id("requeued"), after(Duration::ZERO), None)
        .await
        .expect("answers")
        .expect("is not refused");
    clock.advance(seconds(61));
    promote(store).await;
    held.expect("it was handed out")
}

/// Reads everything back. `reserved` are the jobs of [`add_reserved`]; the others are found by their names.
async fn content(store: &dyn Store, clock: &ManualClock, reserved: Vec<JobId>, receipt: Receipt) -> Content {
    let mut names = reserved;
    names.extend(jobs_never_reserved().into_iter().map(|job| job.id));
    names.extend(IDS.into_iter().map(id));
    names.extend(BODIES.map(|(name, _)| id(name)));
    names.extend([id("body-large"), id(&"i".repeat(255))]);
    names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    let mut jobs = Vec::new();
    for name in &names {
        jobs.push(job_json(&store.get(ALL, name).await.expect("reads").expect("is there")));
    }
    let topics = store.topics(ALL, None, 1_000).await.expect("reads");
    let topics = topics.into_iter().map(|(name, stats)| topic_json(name.as_str(), &stats)).collect();
    Content { now: linger::clock::Clock::now(clock), jobs, topics, receipt }
}

/// A job with all its fields, as in the list.
pub fn job_json(job: &Job) -> Value {
    let moment = |moment: Option<Timestamp>| moment.map(|moment| moment.to_string());
    json!({
        "id": job.id.as_str(),
        "topic": job.topic.as_str(),
        "state": job.state().as_str(),
        "created_at": job.created_at.to_string(),
        "due_at": job.due_at.to_string(),
        "ttr_ms": ms(job.spec.ttr.as_duration()),
        "attempts": job.attempts,
        "max_attempts": job.spec.max_attempts,
        "retry_ms": steps(&job.spec.retry),
        "require_receipt": job.spec.require_receipt,
        "reserved_until": moment(job.reserved_until()),
        "dead_at": moment(job.dead_at()),
        "reason": job.reason.as_ref().map(Reason::as_str),
        "body": std::str::from_utf8(job.body.as_bytes()).expect("bodies are text"),
    })
}

/// A topic's counts, settings and pause, as in the list.
pub fn topic_json(name: &str, stats: &TopicStats) -> Value {
    let (settings, pause) = (&stats.config.settings, &stats.config.pause);
    json!({
        "name": name,
        "delayed": stats.delayed,
        "ready": stats.ready,
        "reserved": stats.reserved,
        "dead": stats.dead,
        "ttr_ms": settings.ttr.map(|ttr| ms(ttr.as_duration())),
        "max_attempts": settings.max_attempts,
        "retry_ms": settings.retry.as_ref().map(steps),
        "require_receipt": settings.require_receipt,
        "pause_delivery": pause.delivery.is_some(),
        "pause_intake": pause.intake.is_some(),
    })
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("durations of a job are short")
}

fn steps(retry: &RetrySchedule) -> Vec<u64> {
    retry.steps().iter().copied().map(ms).collect()
}
