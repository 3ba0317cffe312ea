//! Optional fields of records and rows: what a later version stored, and this one does not know, is kept.

use super::fixture::*;
use crate::{
    job::{Attributes, Pause, PausedOperations, Tag, Timestamp},
    store::{
        ChangeJob, JobChange, Patch, Release, Reservation, SeenJob, Steps, Store, TopicUpdates,
        embedded::{
            EmbeddedStore,
            rows::{codec::Lease, db::Table, key::RowKey},
        },
    },
};

/// Attributes below and above all that this version writes.
fn unknown() -> Attributes {
    let mut unknown = Attributes::default();
    unknown.set(Tag(1), Some(b"below"));
    unknown.set(Tag(250), Some(b"above"));
    unknown
}

/// Adds the unknown attributes to the record of a live job.
async fn tag(store: &EmbeddedStore, name: &'static str) {
    let tagging = store.run(move |txn| {
        let found = txn.find(ALL, &id(name))?.expect("is there");
        let (key, mut record) = (found.job_ref.key, found.content);
        record.head.other = unknown();
        txn.db.delete(Table::Live, key)?;
        txn.db.insert(Table::Live, key, &record)
    });
    tagging.await.expect("runs");
}

async fn keeps(store: &EmbeddedStore, name: &'static str, step: &str) {
    let read = store.run(move |txn| Ok(txn.find(ALL, &id(name))?.expect("is there").content.head.other));
    let mut read = read.await.expect("reads");
    // This version's own, beside those of a later one.
    read.set_timed_out(None);
    assert_eq!(read, unknown(), "after the {step} of {name}");
}

async fn reserve_one(store: &EmbeddedStore) -> Reservation {
    reserve(store, 1).await.pop().expect("is ready")
}

#[tokio::test]
async fn unknown_attributes_survive_every_step_that_rewrites_a_record() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [delayed("a", seconds(600))]).await;
    tag(&store, "a").await;
    keeps(&store, "a", "tagging").await;

    let retry = crate::job::RetrySchedule::new(vec![seconds(1)]).expect("valid");
    let patch = Patch { retry: Some(retry), ..Patch::default() };
    store.patch(ALL, &id("a"), patch, None).await.expect("answers").expect("is not refused");
    keeps(&store, "a", "patch").await;
    let patch = Patch { due: Some(after(seconds(60))), ..Patch::default() };
    store.patch(ALL, &id("a"), patch, None).await.expect("answers").expect("is not refused");
    keeps(&store, "a", "patch of the due time").await;

    fixture.clock.advance(seconds(60));
    store.promote(10).await.expect("promotes");
    let held = reserve_one(&store).await;
    store.touch(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    keeps(&store, "a", "touch").await;
    store.cancel(vec![(id("a"), held.receipt)]).await.expect("answers");
    keeps(&store, "a", "cancelling").await;

    let held = reserve_one(&store).await;
    let release = Release { reason: crate::job::Reason::new("later"), ..Release::default() };
    store.release(ALL, &id("a"), &held.receipt, release).await.expect("answers").expect("is held");
    keeps(&store, "a", "release").await;

    fixture.clock.advance(seconds(1));
    store.promote(10).await.expect("promotes");
    reserve_one(&store).await;
    fixture.clock.advance(seconds(3_600));
    store.promote(10).await.expect("promotes");
    keeps(&store, "a", "end of the TTR").await;

    fixture.clock.advance(seconds(1));
    store.promote(10).await.expect("promotes");
    let held = reserve_one(&store).await;
    store.bury(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    keeps(&store, "a", "bury").await;
    store
        .requeue(ALL, &id("a"), crate::job::Due::default(), None)
        .await
        .expect("answers")
        .expect("is not refused");
    keeps(&store, "a", "requeue").await;

    let held = reserve_one(&store).await;
    store.bury(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    let dead = store.get(ALL, &id("a")).await.expect("gets").expect("is there");
    let requeue = JobChange::Requeue(crate::job::Due::default().into());
    let changed = store.change(vec![ChangeJob { seen: SeenJob::new(&dead), change: requeue }], None).await;
    assert_eq!(changed.expect("answers"), [true]);
    keeps(&store, "a", "requeue of a listed job").await;
    store.close().await.expect("closes");
    keeps(&*fixture.open().await, "a", "restart").await;
}

#[tokio::test]
async fn unknown_attributes_survive_the_death_of_a_job() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    for name in ["expired", "released"] {
        add(
            &store,
            [crate::store::AddJob {
                spec: crate::job::JobSpec { max_attempts: 1, ..crate::job::JobSpec::default() },
                ..job(name)
            }],
        )
        .await;
        tag(&store, name).await;
        let held = reserve_one(&store).await;
        if name == "released" {
            let release = Release::default();
            store.release(ALL, &id(name), &held.receipt, release).await.expect("answers").expect("is held");
        } else {
            fixture.clock.advance(seconds(3_600));
            store.promote(10).await.expect("promotes");
        }
        let job = store.get(ALL, &id(name)).await.expect("reads").expect("is there");
        assert_eq!(job.state(), crate::job::State::Dead);
        keeps(&store, name, "last attempt").await;
    }
}

#[tokio::test]
async fn a_reservation_keeps_since_when_and_by_whom() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [job("a")]).await;
    let held = reserve_one(&store).await;
    let lease = |store: std::sync::Arc<EmbeddedStore>| async move {
        let leases = store.run(|txn| txn.db.leases()).await.expect("reads");
        let [(key, Some(lease))] = &leases[..] else { panic!("one reservation: {leases:?}") };
        (*key, lease.clone())
    };
    let (key, granted) = lease(store.clone()).await;
    assert_eq!((granted.since.as_millis(), &*granted.by), (START_MS, ""));
    let named = Lease { by: "worker-1".into(), ..granted };
    let put = named.clone();
    let put = store.run(move |txn| {
        let job_ref = txn.find_head(ALL, &id("a"))?.expect("is there").job_ref;
        txn.set_lease(job_ref, put.clone()).map(drop)
    });
    put.await.expect("runs");
    fixture.clock.advance(seconds(5));
    store.touch(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    let deadline = named.deadline.after(seconds(5));
    assert_eq!(lease(store.clone()).await, (key, Lease { deadline, ..named.clone() }));
    consistent(&store).await;
    store.close().await.expect("closes");
    let store = fixture.open().await;
    assert_eq!(lease(store.clone()).await, (key, Lease { deadline, ..named }));
    consistent(&store).await;
}

#[test]
fn a_job_without_attributes_takes_52_bytes_besides_its_names_and_body() {
    let moment = Timestamp::from_millis(START_MS);
    let bytes = record("a", moment).encode_head(RowKey::first_at(moment));
    assert_eq!(bytes.len(), 1 + 6 + 6 + 3 + 1 + 1 + 16 + 2 + 16);
}

/// The stored values of topic `t`.
async fn values(store: &EmbeddedStore) -> Option<Vec<u8>> {
    let sql = "SELECT max(value) FROM topic WHERE name = 't'";
    store.run(|txn| txn.db.conn().query_row(sql, [], |row| row.get(0))).await.expect("reads")
}

#[tokio::test]
async fn unknown_values_of_a_topic_survive_every_change_of_it() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    let pause = PausedOperations { delivery: false, intake: true };
    store.pause(&topic("t"), pause, Pause::ENDLESS).await.expect("pauses");
    // An unknown tag, and a value of a known one that has none yet.
    let later = b"\x06\0\x02\x07\x08\xfa\0\x01x";
    store.run(|txn| txn.db.put_topic_values("t", later)).await.expect("writes");
    store.close().await.expect("closes");

    let store = fixture.open().await;
    assert_eq!(store.topic_config(&topic("t")).pause, pause.into());
    let strict = crate::job::TopicSettings { require_receipt: true, ..Default::default() };
    store.put_settings(&topic("t"), strict).await.expect("sets");
    assert_eq!(values(&store).await.expect("is there"), [b"\x04\0\0", &later[..]].concat());
    store.put_settings(&topic("t"), Default::default()).await.expect("sets");
    store.resume(&topic("t"), PausedOperations::ALL).await.expect("resumes");
    assert_eq!(values(&store).await.expect("is there"), b"\xfa\0\x01x");
    consistent(&store).await;
    assert_eq!(store.verify().await.expect("reads").faults, [""; 0]);
    store.close().await.expect("closes");
    let store = fixture.open().await;
    assert_eq!(store.topic_config(&topic("t")), Default::default());
    assert_eq!(store.verify().await.expect("reads").faults, [""; 0]);
}
