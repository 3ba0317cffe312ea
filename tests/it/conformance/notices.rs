//! Notices: what they say and how old they are, and which go when there are too many.

use std::collections::BTreeSet;

use bytes::Bytes;
use linger::store::{
    Notice, NoticeContent,
    NoticeKind::{self, Operation, StopRequest},
};

use crate::harness::{jobs::*, stores::StoreFixture};

super::on_every_engine! {
    a_notice_is_read_as_it_was_written_with_its_age,
    kinds_have_notices_of_their_own,
    only_one_of_several_writes_a_new_notice,
    the_notice_that_was_written_longest_ago_makes_room,
    a_deleted_notice_is_gone,
    the_longest_notices_are_kept,
}

fn content(text: &str) -> NoticeContent {
    NoticeContent::new(text.to_owned()).expect("is short")
}

async fn put(fixture: &StoreFixture, kind: NoticeKind, id: &str, text: &str) {
    fixture.store.notices().put(kind, id, content(text)).await.expect("writes");
}

async fn put_new(fixture: &StoreFixture, id: &str, text: &str) -> Option<Notice> {
    fixture.store.notices().put_new(Operation, id, content(text)).await.expect("writes")
}

async fn get(fixture: &StoreFixture, kind: NoticeKind, id: &str) -> Option<Notice> {
    fixture.store.notices().get(kind, id).await.expect("reads")
}

async fn list(fixture: &StoreFixture, kind: NoticeKind) -> Vec<Notice> {
    let mut notices = fixture.store.notices().list(kind).await.expect("reads");
    notices.sort_by(|one, other| one.id.cmp(&other.id));
    notices
}

fn notice(id: &str, text: &str, age_ms: u64) -> Notice {
    Notice { id: id.to_owned(), content: Bytes::copy_from_slice(text.as_bytes()), age: millis(age_ms) }
}

async fn a_notice_is_read_as_it_was_written_with_its_age(fixture: StoreFixture) {
    assert_eq!(get(&fixture, Operation, "a").await, None);
    put(&fixture, Operation, "a", "first").await;
    assert_eq!(get(&fixture, Operation, "a").await, Some(notice("a", "first", 0)));
    fixture.clock.advance(millis(1_234));
    put(&fixture, Operation, "b", "").await;
    assert_eq!(list(&fixture, Operation).await, [notice("a", "first", 1_234), notice("b", "", 0)]);
    put(&fixture, Operation, "a", "second").await;
    assert_eq!(get(&fixture, Operation, "a").await, Some(notice("a", "second", 0)));
}

async fn kinds_have_notices_of_their_own(fixture: StoreFixture) {
    put(&fixture, Operation, "a", "operation").await;
    put(&fixture, StopRequest, "a", "stop").await;
    put(&fixture, StopRequest, "sa", "other").await;
    assert_eq!(list(&fixture, Operation).await, [notice("a", "operation", 0)]);
    assert_eq!(list(&fixture, StopRequest).await, [notice("a", "stop", 0), notice("sa", "other", 0)]);
    fixture.store.notices().delete(StopRequest, "a").await.expect("deletes");
    assert_eq!(get(&fixture, Operation, "a").await, Some(notice("a", "operation", 0)));
}

async fn only_one_of_several_writes_a_new_notice(fixture: StoreFixture) {
    let texts = ["one", "two", "three", "four"];
    let writers = texts.map(|text| put_new(&fixture, "a", text));
    let outcomes = futures_util::future::join_all(writers).await;
    let first = get(&fixture, Operation, "a").await.expect("was written");
    for (text, outcome) in texts.into_iter().zip(outcomes) {
        let expected = (first.content != text.as_bytes()).then(|| first.clone());
        assert_eq!(outcome, expected, "{text}");
    }
    fixture.clock.advance(seconds(3));
    assert_eq!(put_new(&fixture, "a", "five").await, Some(Notice { age: seconds(3), ..first.clone() }));
    let same = String::from_utf8(first.content.to_vec()).expect("text");
    assert_eq!(put_new(&fixture, "a", &same).await, None, "a repeated call is answered like the first");
    assert_eq!(get(&fixture, Operation, "a").await, Some(first));
}

async fn the_notice_that_was_written_longest_ago_makes_room(fixture: StoreFixture) {
    let name = |n: usize| format!("n-{n:02}");
    put(&fixture, StopRequest, "oldest", "of another kind").await;
    for n in 0..64 {
        fixture.clock.advance(millis(u64::from(n > 2)));
        put(&fixture, Operation, &name(n), "text").await;
    }
    fixture.clock.advance(millis(1));
    put(&fixture, Operation, &name(1), "renewed").await;
    assert_eq!(list(&fixture, Operation).await.len(), 64, "one that is there needs no room");
    put(&fixture, Operation, "x", "text").await;
    assert_eq!(put_new(&fixture, "y", "text").await, None);
    let left: BTreeSet<String> =
        list(&fixture, Operation).await.into_iter().map(|notice| notice.id).collect();
    let expected = (0..64).filter(|n| !matches!(n, 0 | 2)).map(name).chain(["x".to_owned(), "y".to_owned()]);
    assert_eq!(left, expected.collect());
    assert!(get(&fixture, StopRequest, "oldest").await.is_some());
}

async fn a_deleted_notice_is_gone(fixture: StoreFixture) {
    put(&fixture, Operation, "a", "text").await;
    for _ in 0..2 {
        fixture.store.notices().delete(Operation, "a").await.expect("deletes");
        assert_eq!(list(&fixture, Operation).await, []);
    }
    assert_eq!(put_new(&fixture, "a", "another").await, None);
}

async fn the_longest_notices_are_kept(fixture: StoreFixture) {
    let bytes: Vec<u8> = (0..=255).cycle().take(NoticeContent::MAX_LEN).collect();
    let longest = NoticeContent::new(bytes.clone()).expect("is just short enough");
    for n in 0..65 {
        let id = format!("id-{n}");
        fixture.store.notices().put(Operation, &id, longest.clone()).await.expect("writes");
    }
    let notices = list(&fixture, Operation).await;
    assert!(notices.len() == 64 && notices.iter().all(|notice| notice.content == bytes));
}
