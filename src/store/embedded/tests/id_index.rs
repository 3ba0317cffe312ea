//! Lists by the beginning of an id, with the index of ids and without it.

use std::{sync::mpsc, time::Duration};

use super::fixture::*;
use crate::{
    clock::Clock,
    job::{Due, State},
    store::{
        AddJob, JobFilter, JobPage, ListPosition, Order, Steps, Store,
        embedded::{EmbeddedStore, ops::write_txn::WriteTxn},
    },
};

const ORDERS: [Order; 2] = [Order::Ascending, Order::Descending];

/// Jobs of two topics in every state, whose ids say none of it.
async fn filled(fixture: &Fixture) -> std::sync::Arc<EmbeddedStore> {
    let store = fixture.open().await;
    for n in 0..24 {
        let name = format!("{}-{}", ["a", "b", "ab"][n % 3], n * 7 % 24);
        let job = AddJob { topic: topic(["t", "u"][n / 3 % 2]), ..job(&name) };
        let due = if n % 4 == 0 { after(seconds(60 + n as u64 % 5)) } else { Due::default() };
        let outlet = crate::job::Outlet::plain(job.topic.clone());
        add(&store, [AddJob { due, ..job }]).await;
        if n % 4 > 1 {
            let held = store.reserve(&outlet, &[Default::default()], crate::store::Wait::No).await;
            let held = held.expect("reserves").pop().expect("one is ready");
            if n % 4 == 2 {
                store.bury(ALL, &held.job.id, &held.receipt, None).await.expect("answers").expect("is held");
            }
        }
        fixture.clock.advance(Duration::from_millis(n as u64 % 2));
    }
    store
}

/// Of both topics and of one, in every state, also between two moments.
fn filters(fixture: &Fixture, prefix: &str) -> Vec<JobFilter> {
    let (from, to) = (fixture.clock.now(), fixture.clock.now().after(seconds(62)));
    let of_state = |state| {
        let all = JobFilter { id_prefix: Some(prefix.into()), ..JobFilter::all(state) };
        let of_topic = JobFilter { topic: Some(topic("t")), ..all.clone() };
        [all.clone(), of_topic, JobFilter { from: Some(from), to: Some(to), ..all }]
    };
    State::ALL.into_iter().flat_map(of_state).collect()
}

/// The pages of a list: the ids of each.
async fn pages(
    store: &EmbeddedStore,
    filter: &JobFilter,
    order: Order,
    mut after: Option<ListPosition>,
) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    loop {
        let page = store.list(filter, order, after.as_ref(), 2).await.expect("lists");
        pages.push(page.jobs.iter().map(|listed| listed.job.id.to_string()).collect());
        after = page.next;
        assert!(pages.len() < 100, "the list ends");
        if after.is_none() {
            return pages;
        }
    }
}

async fn all_pages(fixture: &Fixture, store: &EmbeddedStore) -> Vec<Vec<Vec<String>>> {
    let mut lists = Vec::new();
    for prefix in ["a", "a-", "ab-1", "b-2", "c", ""] {
        for filter in filters(fixture, prefix) {
            for order in ORDERS {
                let mut list = pages(store, &filter, order, None).await;
                // Without the index a page may end exactly at the last job that matches, while others may follow.
                list.retain(|page| !page.is_empty());
                lists.push(list);
            }
        }
    }
    lists
}

/// Starts the index, and waits until it knows all ids.
async fn start(store: &EmbeddedStore) {
    store.start_index().await.expect("starts");
    for _ in 0..100_000 {
        if store.ids.find("", 1_000).await.is_some() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the index answers nothing");
}

/// The page with all jobs of a state whose ids begin so.
async fn page(store: &EmbeddedStore, state: State, prefix: &str) -> JobPage {
    let filter = JobFilter { id_prefix: Some(prefix.into()), ..JobFilter::all(state) };
    store.list(&filter, Order::Ascending, None, 50).await.expect("lists")
}

async fn ids_of(store: &EmbeddedStore, state: State, prefix: &str) -> Vec<String> {
    let page = page(store, state, prefix).await;
    page.jobs.iter().map(|listed| listed.job.id.to_string()).collect()
}

#[tokio::test]
async fn lists_are_the_same_with_the_index() {
    let fixture = Fixture::new();
    let store = filled(&fixture).await;
    let without = all_pages(&fixture, &store).await;
    let dead = page(&store, State::Dead, "b-1").await;
    assert_eq!((dead.jobs.len(), dead.examined), (2, 6), "each dead letter is examined");
    let first = JobFilter { id_prefix: Some("a".into()), ..JobFilter::all(State::Ready) };
    let begun = store.list(&first, Order::Ascending, None, 2).await.expect("lists");
    assert_eq!(begun.jobs.len(), 2);
    let rest = pages(&store, &first, Order::Ascending, begun.next.clone()).await;

    start(&store).await;
    assert_eq!(page(&store, State::Dead, "b-1").await, JobPage { examined: 2, ..dead });
    assert_eq!(all_pages(&fixture, &store).await, without);
    assert_eq!(pages(&store, &first, Order::Ascending, begun.next).await, rest, "behind a page without it");
}

#[tokio::test]
async fn the_index_knows_what_was_added_and_no_job_that_is_gone_is_listed() {
    let fixture = Fixture::new();
    let store = filled(&fixture).await;
    start(&store).await;
    assert_eq!(ids_of(&store, State::Ready, "new").await, [""; 0]);
    add(&store, [job("new-1"), delayed("new-2", seconds(9)), job("new-3")]).await;
    let deleted = store.delete(ALL, vec![id("new-3")], DeleteRule::AnyState).await.expect("answers");
    assert!(deleted[0].is_ok(), "{deleted:?}");
    assert_eq!(ids_of(&store, State::Ready, "new").await, ["new-1"]);
    fixture.clock.advance(seconds(10));
    while store.promote(100).await.expect("promotes").more {}
    assert_eq!(ids_of(&store, State::Ready, "new").await, ["new-1", "new-2"]);
    store.close().await.expect("closes while the index runs");
    let store = fixture.open().await;
    store.start_index().await.expect("starts");
    store.close().await.expect("closes while the ids are read");
    let store = fixture.open().await;
    assert_eq!(ids_of(&store, State::Ready, "new").await, ["new-1", "new-2"]);
}

#[tokio::test]
async fn broken_records_that_the_index_names_are_set_aside() {
    let fixture = Fixture::new();
    let store = filled(&fixture).await;
    let before = ids_of(&store, State::Dead, "").await;
    start(&store).await;
    sql(&store, &format!("UPDATE dead SET head = zeroblob(9) WHERE id = '{}'", before[1])).await;
    let left: Vec<_> = before.iter().filter(|id| **id != before[1]).cloned().collect();
    assert_eq!((ids_of(&store, State::Dead, "").await, fixture.set_aside()), (left.clone(), 1));
    assert_eq!(ids_of(&store, State::Dead, "").await, left);
    consistent(&store).await;
}

#[tokio::test]
async fn whoever_follows_ids_learns_that_one_was_missed() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    let (added, followed) = mpsc::sync_channel(2);
    let follow = move |txn: &mut WriteTxn<'_>| {
        txn.db.follow_ids(added.clone());
        Ok(())
    };
    store.run(follow).await.expect("follows");
    for name in ["a", "b", "c", "d"] {
        add(&store, [job(name)]).await;
    }
    assert_eq!(followed.try_recv().expect("the first").as_str(), "a");
    assert_eq!(followed.try_recv().expect("the second").as_str(), "b");
    assert_eq!(followed.try_recv(), Err(mpsc::TryRecvError::Disconnected), "the third found no room");
}
