//! The archive: what it says, that a repeat changes nothing, and which records go.

use linger::store::{
    ArchiveContent,
    ArchiveKind::{self, Call, Operation},
    ArchivedRecord,
};

use crate::harness::{jobs::*, stores::StoreFixture};

super::on_every_engine! {
    a_record_is_read_as_it_was_written,
    a_record_that_is_written_again_keeps_its_number_and_its_moment,
    pages_begin_with_the_newest_record,
    kinds_have_records_of_their_own,
    the_oldest_record_makes_room,
    a_record_that_is_too_old_goes_when_one_is_added,
    the_longest_records_are_kept,
}

fn content(text: impl Into<Vec<u8>>) -> ArchiveContent {
    ArchiveContent::new(text.into()).expect("is short")
}

async fn put(fixture: &StoreFixture, kind: ArchiveKind, id: &str, text: &str) {
    fixture.store.archive().put(kind, id, content(text)).await.expect("writes");
}

async fn page(fixture: &StoreFixture, kind: ArchiveKind, before: Option<u64>, limit: usize) -> Vec<String> {
    let records = fixture.store.archive().page(kind, before, limit).await.expect("reads");
    let numbers: Vec<u64> = records.iter().map(|record| record.number).collect();
    assert!(numbers.is_sorted_by(|one, other| one > other), "{numbers:?}");
    records.into_iter().map(|record| record.id).collect()
}

async fn get(fixture: &StoreFixture, id: &str) -> Option<ArchivedRecord> {
    fixture.store.archive().get(Call, id).await.expect("reads")
}

async fn a_record_is_read_as_it_was_written(fixture: StoreFixture) {
    assert_eq!(get(&fixture, "a").await, None);
    let at = fixture.now();
    put(&fixture, Call, "a", "first").await;
    fixture.clock.advance(seconds(5));
    put(&fixture, Call, "b", "").await;
    let first = ArchivedRecord { number: 1, id: "a".to_owned(), at, content: "first".into() };
    let second = ArchivedRecord { number: 2, id: "b".to_owned(), at: fixture.now(), content: "".into() };
    assert_eq!(get(&fixture, "a").await, Some(first.clone()));
    assert_eq!(fixture.store.archive().page(Call, None, 10).await.expect("reads"), [second, first]);
}

async fn a_record_that_is_written_again_keeps_its_number_and_its_moment(fixture: StoreFixture) {
    put(&fixture, Call, "a", "begun").await;
    let begun = get(&fixture, "a").await.expect("is there");
    put(&fixture, Call, "b", "other").await;
    fixture.clock.advance(seconds(5));
    for _ in 0..2 {
        put(&fixture, Call, "a", "ended").await;
        let ended = ArchivedRecord { content: "ended".into(), ..begun.clone() };
        assert_eq!(get(&fixture, "a").await, Some(ended));
        assert_eq!(page(&fixture, Call, None, 10).await, ["b", "a"]);
    }
}

async fn pages_begin_with_the_newest_record(fixture: StoreFixture) {
    for id in ["a", "b", "c", "d"] {
        put(&fixture, Call, id, "text").await;
    }
    assert_eq!(page(&fixture, Call, None, 2).await, ["d", "c"]);
    assert_eq!(page(&fixture, Call, Some(3), 2).await, ["b", "a"]);
    assert_eq!(page(&fixture, Call, Some(1), 2).await, [""; 0]);
}

async fn kinds_have_records_of_their_own(fixture: StoreFixture) {
    put(&fixture, Call, "a", "call").await;
    put(&fixture, Operation, "a", "operation").await;
    assert_eq!(get(&fixture, "a").await.expect("is there").content, "call");
    let operations = fixture.store.archive().page(Operation, None, 10).await.expect("reads");
    assert_eq!(
        (operations.len(), operations[0].number, &operations[0].content[..]),
        (1, 1, &b"operation"[..])
    );
}

async fn the_oldest_record_makes_room(fixture: StoreFixture) {
    put(&fixture, Call, "call", "text").await;
    for n in 0..200 {
        put(&fixture, Operation, &format!("n-{n:03}"), "text").await;
    }
    put(&fixture, Operation, "n-000", "renewed").await;
    assert_eq!(page(&fixture, Operation, None, 1_000).await.len(), 200, "one that is there needs no room");
    put(&fixture, Operation, "n-200", "text").await;
    let left = page(&fixture, Operation, None, 1_000).await;
    let ends = [left.first(), left.last()].map(|id| id.map(String::as_str));
    assert_eq!((left.len(), ends), (200, [Some("n-200"), Some("n-001")]));
    assert_eq!(page(&fixture, Call, None, 10).await, ["call"]);
}

async fn a_record_that_is_too_old_goes_when_one_is_added(fixture: StoreFixture) {
    let day = seconds(24 * 60 * 60);
    put(&fixture, Operation, "old", "text").await;
    put(&fixture, Call, "old", "text").await;
    fixture.clock.advance(day);
    put(&fixture, Call, "young", "text").await;
    fixture.clock.advance(89 * day);
    put(&fixture, Call, "just kept", "text").await;
    assert_eq!(page(&fixture, Call, None, 10).await, ["just kept", "young", "old"]);
    fixture.clock.advance(millis(1));
    put(&fixture, Call, "young", "renewed").await;
    assert_eq!(page(&fixture, Call, None, 10).await.len(), 3, "nothing was added");
    put(&fixture, Call, "new", "text").await;
    assert_eq!(page(&fixture, Call, None, 10).await, ["new", "just kept", "young"]);
    assert_eq!(page(&fixture, Operation, None, 10).await, ["old"]);
}

async fn the_longest_records_are_kept(fixture: StoreFixture) {
    let bytes: Vec<u8> = (0..=255).cycle().take(ArchiveContent::MAX_LEN).collect();
    assert_eq!(ArchiveContent::new(vec![0; ArchiveContent::MAX_LEN + 1]), None);
    fixture.store.archive().put(Call, "a", content(bytes.clone())).await.expect("writes");
    assert_eq!(get(&fixture, "a").await.expect("is there").content, bytes);
}
