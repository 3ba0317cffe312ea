//! A verification reports each fault, and finds nothing in a sound store.

use rusqlite::config::DbConfig;

use super::fixture::*;
use crate::job::{Outlet, Pause, PausedOperations, Timestamp};
use crate::store::{
    Steps, Store, TopicUpdates, Verified,
    embedded::{
        EmbeddedStore,
        memory::{job_index::JobRef, job_state::MemoryState},
        ops::write_txn::WriteTxn,
    },
};

/// Delayed, ready, reserved and dead jobs, and a topic with settings.
async fn filled(fixture: &Fixture) -> std::sync::Arc<EmbeddedStore> {
    let store = fixture.open().await;
    add(&store, [delayed("soon", seconds(10)), delayed("far", seconds(100_000))]).await;
    add(&store, ["held-1", "held-2", "dead-1", "dead-2"].map(job)).await;
    for grant in reserve(&store, 4).await {
        if grant.job.id.as_str().starts_with("dead") {
            store.bury(ALL, &grant.job.id, &grant.receipt, None).await.expect("answers").expect("is held");
        }
    }
    add(&store, ["ready-1", "ready-2"].map(job)).await;
    let intake = PausedOperations { delivery: false, intake: true };
    store.pause(&topic("set"), intake, Pause::ENDLESS).await.expect("pauses");
    assert_eq!(store.verify().await.expect("reads"), Verified { jobs: 8, ..Verified::default() });
    store
}

/// The faults that a verification reports after `sabotage` of a sound store.
async fn found(sabotage: impl Fn(&mut WriteTxn<'_>) + Send + 'static) -> Vec<String> {
    let fixture = Fixture::new();
    let store = filled(&fixture).await;
    let done = move |txn: &mut WriteTxn<'_>| {
        sabotage(txn);
        Ok(())
    };
    store.run(done).await.expect("runs");
    store.verify().await.expect("reads").faults
}

async fn found_after(sql: &'static str) -> Vec<String> {
    found(move |txn| txn.db.conn().execute_batch(sql).expect("runs")).await
}

/// Asserts that there are faults, and that each of `words` is in one.
fn named(faults: &[String], words: &[&str]) {
    assert!(!faults.is_empty(), "nothing was found");
    for word in words {
        assert!(faults.iter().any(|fault| fault.contains(word)), "{word:?} is not in {faults:#?}");
    }
}

/// The job called `name` in memory.
fn located(
    txn: &mut WriteTxn<'_>,
    name: &str,
) -> (crate::store::embedded::memory::job_index::IdHash, JobRef) {
    let found = txn.find_head(ALL, &id(name)).expect("reads").expect("is there");
    (found.hash, found.job_ref)
}

#[tokio::test]
async fn damaged_rows_are_named() {
    let head = found_after("UPDATE rec SET head = zeroblob(60) WHERE id = 'far'").await;
    named(&head, &["record of job \"far\"", "checksum of its head"]);
    let body = found_after("UPDATE dead SET body = x'37' WHERE id = 'dead-1'").await;
    named(&body, &["record of job \"dead-1\"", "checksum of its body"]);
    let moved = found_after("UPDATE dead SET dead_ms = dead_ms + 1 WHERE id = 'dead-1'").await;
    named(&moved, &["job dead-1", "another moment of death"]);
    let stray = found_after("UPDATE rec SET key = -key WHERE id = 'far'").await;
    named(&stray, &["1 rows have keys out of range", "not on disk"]);
}

#[tokio::test]
async fn rows_without_memory_and_memory_without_rows_are_named() {
    let lost = found_after("DELETE FROM rec WHERE id = 'ready-1'").await;
    named(&lost, &["memory has a job at", "not on disk"]);
    let unknown = found(|txn| {
        let (hash, at) = located(txn, "ready-1");
        txn.memory.remove(hash, at);
    });
    named(&unknown.await, &["job ready-1 at", "on disk but not in memory"]);
    let twice = found(|txn| {
        let (hash, at) = located(txn, "far");
        txn.memory.insert(hash, at, MemoryState::Delayed);
    });
    named(&twice.await, &["job far at", "in memory 2 times"]);
    let elsewhere = found(|txn| {
        let (hash, at) = located(txn, "far");
        txn.memory.remove(hash, at);
        let other = txn.memory.outlet(&Outlet::plain(topic("set")));
        txn.memory.insert(hash, JobRef { outlet: other, ..at }, MemoryState::Delayed);
    });
    named(&elsewhere.await, &["job far at", "of topic t is in memory under set"]);
}

#[tokio::test]
async fn jobs_in_the_wrong_place_are_named() {
    let early = found(|txn| {
        let (_, at) = located(txn, "far");
        txn.memory.change_state(at, MemoryState::Ready { since: txn.now.rounded_down });
    });
    named(&early.await, &["job far at", "made ready before its due time"]);
    let nowhere = found(|txn| {
        let (_, at) = located(txn, "soon");
        txn.memory.topics_mut().get_mut(at.outlet).delayed.elapsed.remove(&at.key);
    });
    named(&nowhere.await, &["job soon at", "in 0 states", "topic t counts", "that is due next is not"]);
    let twice = found(|txn| {
        let (_, at) = located(txn, "ready-1");
        txn.memory.topics_mut().get_mut(at.outlet).delayed.elapsed.insert(at.key);
    });
    named(&twice.await, &["job ready-1 at", "in 2 states", "topic t counts", "that is due next is not"]);
}

#[tokio::test]
async fn reservations_that_differ_are_named() {
    for sql in [
        "DELETE FROM lease WHERE key = (SELECT key FROM rec WHERE id = 'held-1')",
        "UPDATE lease SET attempts = 9 WHERE key = (SELECT key FROM rec WHERE id = 'held-1')",
    ] {
        named(&found_after(sql).await, &["the reservation at"]);
    }
    let unknown = found(|txn| {
        let (_, at) = located(txn, "far");
        let lease = txn.memory.leases().next().expect("a job is reserved").2.clone();
        txn.db.set_lease(at.key, &lease).expect("writes");
    });
    named(&unknown.await, &["the reservation at", "missing in memory, there on disk"]);
    let unreadable = found_after("UPDATE lease SET receipt = x'00'").await;
    named(&unreadable, &["2 reservations on disk cannot be read"]);
}

#[tokio::test]
async fn settings_marks_and_the_file_itself_are_looked_at() {
    named(&found_after("DELETE FROM topic").await, &["settings of topic set are not those on disk"]);
    let senseless = found_after("UPDATE topic SET value = x'040000'").await;
    named(&senseless, &["settings of topic \"set\" are damaged"]);
    let clock = found(|txn| {
        txn.db.begin().expect("begins");
        txn.db.commit(Timestamp::from_millis(4_000_000_000_000)).expect("commits");
    });
    named(&clock.await, &["the clock is before its high-water mark"]);
    let mark = found_after("UPDATE meta SET value = x'00' WHERE name = 'clock'").await;
    named(&mark, &["the clock's high-water mark cannot be read"]);
    let index = found(|txn| {
        let sql = "PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = replace(sql, 'dead_ms, id', 'id, dead_ms') WHERE name = 'dead_by_topic'";
        txn.db.conn().set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false).expect("is set");
        txn.db.conn().execute_batch(sql).expect("runs");
    });
    named(&index.await, &["SQLite: ", "index \"dead_by_topic\" is another one"]);
}

#[tokio::test]
async fn faults_are_named_up_to_a_limit_and_then_counted() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, (0..150).map(|n| delayed(&format!("job-{n}"), seconds(5)))).await;
    sql(&store, "UPDATE rec SET body = x'37'").await;
    let faults = store.verify().await.expect("reads").faults;
    assert_eq!((faults.len(), faults[100].as_str()), (101, "and 50 more"));
}

#[tokio::test]
async fn what_was_set_aside_is_counted_and_no_fault() {
    let fixture = Fixture::new();
    let store = filled(&fixture).await;
    sql(&store, "UPDATE rec SET body = x'37' WHERE id = 'far'").await;
    assert_eq!(store.get(ALL, &id("far")).await.expect("answers"), None);
    let expected = Verified { jobs: 7, set_aside: 1, ..Verified::default() };
    assert_eq!(store.verify().await.expect("reads"), expected);
}

#[tokio::test]
async fn a_closed_store_is_not_verified() {
    let fixture = Fixture::new();
    let store = filled(&fixture).await;
    store.close().await.expect("closes");
    assert!(store.verify().await.is_err());
}
