//! The table of the archive: damage in it is named, and stores of earlier versions lack it.

use super::fixture::*;
use crate::store::{
    ArchiveContent,
    ArchiveKind::{Call, Operation},
    Store, Verified,
    embedded::{EmbeddedStore, backup, inspect, inspect_backup, restore},
};

/// More than a verification reads in one step.
async fn filled(fixture: &Fixture) -> std::sync::Arc<EmbeddedStore> {
    let store = fixture.open().await;
    for id in ["a", "b", "c", "d", "e"] {
        put(&store, id).await;
    }
    store
}

async fn put(store: &EmbeddedStore, id: &str) {
    store.archive().put(Call, id, ArchiveContent::new("text").expect("is short")).await.expect("writes");
}

async fn stored(store: &EmbeddedStore) -> String {
    let records = store.archive().page(Call, None, 100).await.expect("reads");
    records.into_iter().map(|record| record.id).collect()
}

#[tokio::test]
async fn every_damaged_record_is_named_and_the_others_are_read() {
    for (damage, named, left) in [
        ("UPDATE archive SET content = x'7b' WHERE key = 'cb'", "cb", "edca"),
        ("UPDATE archive SET number = 1 << 40 WHERE key = 'ce'", "ce", "dcba"),
        ("UPDATE archive SET at_ms = at_ms + 1 WHERE key = 'ca'", "ca", "edcb"),
        ("UPDATE archive SET checksum = x'00' WHERE key = 'cc'", "cc", "edba"),
        ("UPDATE archive SET key = 'moved' WHERE key = 'cd'", "moved", "ecba"),
    ] {
        let fixture = Fixture::new();
        let store = filled(&fixture).await;
        sql(&store, damage).await;
        let expected = [format!("the archived record {named:?} is damaged")];
        assert_eq!(store.verify().await.expect("reads").faults, expected, "{damage}");
        assert_eq!(stored(&store).await, left, "{damage}");
        put(&store, "f").await;
        assert_eq!(stored(&store).await, format!("f{left}"), "{damage}");
        store.close().await.expect("closes");
        let inspected = inspect(&fixture.options, &*fixture.clock).expect("reads").verified;
        assert_eq!(inspected.faults, expected, "{damage}");
    }
}

/// A store as an earlier version left it.
#[tokio::test]
async fn a_store_without_the_table_is_sound_and_takes_records_once_it_is_opened() {
    let fixture = Fixture::new();
    fixture.open().await.close().await.expect("closes");
    let edit = rusqlite::Connection::open(fixture.dir.path().join("linger.db")).expect("opens");
    edit.execute_batch("DROP TABLE archive").expect("runs");
    drop(edit);
    let copy = fixture.dir.path().join("copy");
    backup(fixture.dir.path(), &copy).expect("copies");
    let sound = Verified::default();
    assert_eq!(inspect_backup(&copy, &*fixture.clock).expect("reads").verified, sound);
    assert_eq!(inspect(&fixture.options, &*fixture.clock).expect("reads").verified, sound);
    let store = filled(&fixture).await;
    assert_eq!((store.verify().await.expect("reads"), &stored(&store).await[..]), (sound, "edcba"));
}

#[tokio::test]
async fn the_archive_survives_a_restart_and_is_in_a_backup() {
    let fixture = Fixture::new();
    filled(&fixture).await.close().await.expect("closes");
    let store = fixture.open().await;
    put(&store, "f").await;
    assert_eq!(stored(&store).await, "fedcba", "numbers go on");
    assert_eq!(store.archive().page(Operation, None, 100).await.expect("reads"), []);
    let (copy, restored) = (fixture.dir.path().join("copy"), Fixture::new());
    backup(fixture.dir.path(), &copy).expect("copies");
    restore(&copy, restored.dir.path()).expect("restores");
    assert_eq!(stored(&*restored.open().await).await, "fedcba");
}
