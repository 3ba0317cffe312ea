//! The table of the schedules: damage in it is named, and stores of earlier versions lack it.

use super::fixture::*;
use crate::{
    job::{ScheduleName, Timestamp},
    store::{
        RecordPage, ScheduleContent, ScheduleStore, ScheduleUpdates, Store, StoredSchedule, Verified,
        embedded::{EmbeddedStore, backup, inspect, inspect_backup, read_records, restore},
    },
};

fn schedule(name: &str, text: String) -> StoredSchedule {
    let next = Some(Timestamp::from_millis(START_MS + 60_000));
    let content = ScheduleContent { next, text: text.into() };
    StoredSchedule { name: ScheduleName::parse(name).expect("valid"), content }
}

/// More than a verification reads in one step.
fn schedules() -> Vec<StoredSchedule> {
    (0..8).map(|n| schedule(&format!("s{n}"), "{}".to_owned())).collect()
}

async fn stored(store: &EmbeddedStore) -> Vec<StoredSchedule> {
    store.schedules(None, 100).await.expect("reads").schedules
}

/// A store with a job and schedules.
async fn filled(fixture: &Fixture) -> std::sync::Arc<EmbeddedStore> {
    let store = fixture.open().await;
    add(&store, [job("a")]).await;
    store.put_schedules(schedules()).await.expect("puts");
    store
}

async fn read_all(fixture: &Fixture) -> RecordPage {
    let (mut all, mut pages) = (RecordPage::default(), 0);
    let mut reader = read_records(fixture.dir.path(), &*fixture.clock, false).expect("opens");
    while let Some(page) = reader.next().await.expect("reads") {
        all.schedules.extend(page.schedules);
        all.jobs.extend(page.jobs);
        all.broken.extend(page.broken);
        pages += 1;
        assert!(pages < 100, "the reading does not end");
    }
    all
}

#[tokio::test]
async fn every_damaged_schedule_is_named_and_the_others_are_read() {
    for (damage, named) in [
        ("UPDATE schedule SET text = x'7b207d' WHERE name = 's3'", "s3"),
        ("UPDATE schedule SET next_ms = next_ms + 1 WHERE name = 's7'", "s7"),
        ("UPDATE schedule SET next_ms = NULL WHERE name = 's0'", "s0"),
        ("UPDATE schedule SET checksum = x'00' WHERE name = 's5'", "s5"),
        ("UPDATE schedule SET name = 'moved' WHERE name = 's2'", "moved"),
        ("UPDATE schedule SET name = 'no name' WHERE name = 's2'", "no name"),
    ] {
        let fixture = Fixture::new();
        let store = filled(&fixture).await;
        sql(&store, damage).await;
        let expected = [format!("the schedule {named:?} is damaged")];
        assert_eq!(store.verify().await.expect("reads").faults, expected, "{damage}");
        let read = read_all(&fixture).await;
        assert_eq!(
            (read.schedules.len(), read.jobs.len(), &read.broken[..]),
            (7, 1, &expected[..]),
            "{damage}"
        );
        store.close().await.expect("closes");
        let inspected = inspect(&fixture.options, &*fixture.clock).expect("reads").verified;
        assert_eq!(inspected.faults, expected, "{damage}");
    }
}

/// A name that was changed in the file may be out of order there.
#[tokio::test]
async fn the_reading_ends_although_names_are_out_of_order() {
    let fixture = Fixture::new();
    let store = filled(&fixture).await;
    store.close().await.expect("closes");
    let path = fixture.dir.path().join("linger.db");
    let mut bytes = std::fs::read(&path).expect("reads");
    let row = b"s2{}";
    let found: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"s2")).collect();
    assert!(!found.is_empty(), "{row:?} is not in the file");
    // In the table and in the index.
    found.into_iter().for_each(|at| bytes[at] = b'a');
    std::fs::write(&path, &bytes).expect("writes");
    let faults = inspect(&fixture.options, &*fixture.clock).expect("reads").verified.faults;
    assert!(faults.contains(&"the schedule \"a2\" is damaged".to_owned()), "{faults:?}");
    assert!(faults.iter().any(|fault| fault.starts_with("SQLite: ")), "{faults:?}");
    let read = read_all(&fixture).await;
    assert!(read.broken.contains(&"the schedule \"a2\" is damaged".to_owned()), "{:?}", read.broken);
}

#[tokio::test]
async fn a_damaged_schedule_can_be_put_again() {
    let fixture = Fixture::new();
    let store = filled(&fixture).await;
    sql(&store, "UPDATE schedule SET text = x'00' WHERE name = 's3'").await;
    assert_eq!(stored(&store).await.len(), 7);
    store.put_schedules(schedules()).await.expect("puts");
    assert_eq!(stored(&store).await, schedules());
    assert_eq!(store.verify().await.expect("reads").faults, [""; 0]);
}

#[tokio::test]
async fn large_schedules_are_read_page_by_page() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    let large = |n| schedule(&format!("large-{n:02}"), format!("\"{}\"", "x".repeat(60_000)));
    let all: Vec<_> = (0..40).map(large).collect();
    store.put_schedules(all.clone()).await.expect("puts");
    let mut reader = store.records().await.expect("opens");
    let (mut read, mut pages) = (Vec::new(), 0);
    while let Some(page) = reader.next().await.expect("reads") {
        let bytes: usize = page.schedules.iter().map(|schedule| schedule.content.text.len()).sum();
        assert!(bytes < 2 << 20, "{bytes} bytes on a page");
        pages += usize::from(bytes > 0);
        read.extend(page.schedules);
    }
    assert!(read == all && pages > 1, "{} schedules on {pages} pages", read.len());
    assert_eq!(store.verify().await.expect("reads").faults, [""; 0]);
}

/// A store as an earlier version left it.
#[tokio::test]
async fn a_store_without_the_table_is_sound_and_takes_schedules_once_it_is_opened() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [job("a")]).await;
    store.close().await.expect("closes");
    let edit = rusqlite::Connection::open(fixture.dir.path().join("linger.db")).expect("opens");
    edit.execute_batch("DROP TABLE schedule").expect("runs");
    drop(edit);
    let copy = fixture.dir.path().join("copy");
    backup(fixture.dir.path(), &copy).expect("copies");
    let sound = Verified { jobs: 1, ..Verified::default() };
    assert_eq!(inspect_backup(&copy, &*fixture.clock).expect("reads").verified, sound);
    assert_eq!(inspect(&fixture.options, &*fixture.clock).expect("reads").verified, sound);
    let read = read_all(&fixture).await;
    assert_eq!((read.schedules.len(), read.jobs.len(), read.broken.len()), (0, 1, 0));
    let store = fixture.open().await;
    store.put_schedules(schedules()).await.expect("puts");
    assert_eq!(store.verify().await.expect("reads"), sound);
    assert_eq!(read_all(&fixture).await.schedules, schedules());
}

#[tokio::test]
async fn schedules_are_in_a_backup() {
    let fixture = Fixture::new();
    let store = filled(&fixture).await;
    let (copy, restored) = (fixture.dir.path().join("copy"), Fixture::new());
    backup(fixture.dir.path(), &copy).expect("copies");
    store.replace_schedules(vec![(schedules()[0].name.clone(), None)]).await.expect("deletes");
    restore(&copy, restored.dir.path()).expect("restores");
    let store = restored.open().await;
    assert_eq!(stored(&store).await, schedules());
    assert_eq!(store.verify().await.expect("reads"), Verified { jobs: 1, ..Verified::default() });
}
