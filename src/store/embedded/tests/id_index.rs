//! Lists by the beginning of an id, with the index of ids and without it.

use std::{sync::mpsc, time::Duration};

use super::fixture::*;
use crate::{
    job::{Due, State},
    store::{AddJob, JobFilter, ListPosition, Order, Steps, Store, embedded::EmbeddedStore},
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

fn filters(prefix: &str) -> Vec<JobFilter> {
    let of_state = |state| {
        [None, Some(topic("t"))].map(|topic| JobFilter {
            topic,
            id_prefix: Some(prefix.into()),
            ..JobFilter::all(state)
        })
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

async fn all_pages(store: &EmbeddedStore) -> Vec<Vec<Vec<String>>> {
    let mut lists = Vec::new();
    for prefix in ["a", "a-", "ab-1", "b-2", "c", ""] {
        for filter in filters(prefix) {
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

/// How many jobs a search for `prefix` examines that finds nothing because of its state.
async fn examined(store: &EmbeddedStore, prefix: &str) -> usize {
    let filter = JobFilter { id_prefix: Some(prefix.into()), ..JobFilter::all(State::Dead) };
    store.list(&filter, Order::Ascending, None, 50).await.expect("lists").examined
}

#[tokio::test]
async fn lists_are_the_same_with_the_index() {
    let fixture = Fixture::new();
    let store = filled(&fixture).await;
    let without = all_pages(&store).await;
    let first = JobFilter { id_prefix: Some("a".into()), ..JobFilter::all(State::Ready) };
    let page = store.list(&first, Order::Ascending, None, 2).await.expect("lists");
    assert_eq!(page.jobs.len(), 2);
    let rest = pages(&store, &first, Order::Ascending, page.next.clone()).await;

    store.start_index().await.expect("starts");
    assert_eq!(examined(&store, "b-1").await, 5, "the index names 1, 10, 13, 16 and 19");
    assert_eq!(all_pages(&store).await, without);
    assert_eq!(pages(&store, &first, Order::Ascending, page.next).await, rest, "behind a page without it");
}

#[tokio::test]
async fn the_index_knows_what_was_added_and_forgets_nobody() {
    let fixture = Fixture::new();
    let store = filled(&fixture).await;
    store.start_index().await.expect("starts");
    assert_eq!(examined(&store, "new").await, 0);
    add(&store, [job("new-1"), delayed("new-2", seconds(9)), job("new-3")]).await;
    let deleted = store.delete(ALL, vec![id("new-3")], DeleteRule::AnyState).await.expect("answers");
    assert!(deleted[0].is_ok(), "{deleted:?}");
    let of_state = |state| JobFilter { id_prefix: Some("new".into()), ..JobFilter::all(state) };
    let ready = pages(&store, &of_state(State::Ready), Order::Ascending, None).await;
    assert_eq!(ready, [["new-1"]]);
    assert_eq!(examined(&store, "new").await, 3, "the index still names the one that is gone");
    fixture.clock.advance(seconds(10));
    while store.promote(100).await.expect("promotes").more {}
    let ready = pages(&store, &of_state(State::Ready), Order::Ascending, None).await;
    assert_eq!(ready, [["new-1", "new-2"]]);
    store.close().await.expect("closes while the index runs");
    let store = fixture.open().await;
    let ready = pages(&store, &of_state(State::Ready), Order::Ascending, None).await;
    assert_eq!(ready, [["new-1", "new-2"]]);
}

#[tokio::test]
async fn whoever_follows_ids_learns_that_one_was_missed() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    let (added, followed) = mpsc::sync_channel(2);
    let follow = move |txn: &mut crate::store::embedded::ops::write_txn::WriteTxn<'_>| {
        txn.db.follow_ids(added.clone());
        Ok(())
    };
    store.run(follow).await.expect("follows");
    for name in ["a", "b", "c", "d"] {
        add(&store, [job(name)]).await;
    }
    assert_eq!(followed.recv().expect("the first").as_str(), "a");
    assert_eq!(followed.recv().expect("the second").as_str(), "b");
    followed.recv().expect_err("the third found no room");
}
