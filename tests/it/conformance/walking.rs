//! Walks through lists page by page: every job that matches and stays is on exactly one page, whatever happens to others
//! meanwhile.

use std::collections::HashSet;

use linger::{
    job::{Due, State},
    store::{AddJob, FinishJob, JobFilter, ListedJob, Order, Patch, Steps, Store, moment_of},
};

use super::listing::*;
use crate::harness::{jobs::*, lists::*, stores::StoreFixture, wait::StepLimit};

super::on_every_engine! {
    every_job_is_on_one_page_whatever_its_size,
    jobs_of_one_millisecond_are_each_on_one_page,
    a_walk_goes_on_where_the_last_job_was_deleted,
    jobs_that_stay_are_on_one_page_while_others_change,
    a_position_is_good_after_the_store_is_opened_again,
    a_page_may_end_before_it_is_full,
}

/// Asserts that the list has every job of `state` once, in order, for pages of any size.
async fn assert_walks(fixture: &StoreFixture, filter: &JobFilter, expected: &[String]) {
    for order in ORDERS {
        let mut first_walk: Option<Vec<ListedJob>> = None;
        for limit in [1, 3, 7, expected.len().max(1), 1_000] {
            let found = walk(&*fixture.store, filter, order, limit).await;
            let mut names: Vec<_> = ids(&found);
            names.sort_unstable();
            assert_eq!(names, expected, "{filter:?} {order:?} in pages of {limit}");
            if limit == 7 {
                for found in &found {
                    assert_eq!(*found, listed(get(&*fixture.store, found.job.id.as_str()).await));
                }
            }
            if filter.state != State::Ready || fixture.orders_ready_jobs() {
                assert!(is_ordered(&found, order), "{filter:?} {order:?} in pages of {limit}: {found:?}");
                let first = first_walk.get_or_insert_with(|| found.clone());
                assert_eq!(ids(&found), ids(first), "{filter:?} {order:?} in pages of {limit}");
            }
        }
    }
}

async fn every_job_is_on_one_page_whatever_its_size(fixture: StoreFixture) {
    fill(&fixture, 20, 1).await;
    for state in State::ALL {
        let all = names(state, 20);
        assert_walks(&fixture, &JobFilter::all(state), &all).await;
        for (n, name) in ["t", "u"].into_iter().enumerate() {
            let of_topic: Vec<_> = all.iter().skip(n).step_by(2).cloned().collect();
            let filter = JobFilter { topic: Some(topic(name)), ..JobFilter::all(state) };
            assert_walks(&fixture, &filter, &of_topic).await;
        }
        let filter = with_ids(&JobFilter::all(state), &format!("{state}-1"));
        assert_walks(&fixture, &filter, &all[10..]).await;
    }
}

async fn jobs_of_one_millisecond_are_each_on_one_page(fixture: StoreFixture) {
    let store = &*fixture.store;
    let some = |prefix: &str| -> Vec<_> { (0..50).map(|n| nth(prefix, n)).collect() };
    let dying = some("dead")
        .into_iter()
        .map(|add| AddJob { spec: JobSpec { max_attempts: 1, ttr: ttr(5), ..add.spec }, ..add });
    reserve_these(store, &dying.collect::<Vec<_>>()).await;
    fixture.advance_and_promote(seconds(5)).await;
    reserve_these(store, &some("reserved")).await;
    store.add(some("ready")).await.expect("adds");
    let due = Due::At(fixture.now().after(seconds(60)));
    let waiting = some("delayed").into_iter().map(|add| AddJob { due, ..add }).collect();
    store.add(waiting).await.expect("adds");
    for state in State::ALL {
        let moments: HashSet<_> =
            in_state(store, state).await.iter().map(|listed| moment_of(&listed.job)).collect();
        assert_eq!(moments.len(), 1, "all {state} jobs have the same moment");
        let all = names(state, 50);
        assert_walks(&fixture, &JobFilter::all(state), &all).await;
        let of_topic: Vec<_> = all.iter().step_by(2).cloned().collect();
        let filter = JobFilter { topic: Some(topic("t")), ..JobFilter::all(state) };
        assert_walks(&fixture, &filter, &of_topic).await;
    }
}

async fn a_walk_goes_on_where_the_last_job_was_deleted(fixture: StoreFixture) {
    let store = &*fixture.store;
    for (order, limit) in
        [(Order::Ascending, 1), (Order::Descending, 1), (Order::Ascending, 3), (Order::Descending, 3)]
    {
        fill(&fixture, 10, 1).await;
        for state in State::ALL {
            let (mut found, mut after, mut step_limit) = (Vec::new(), None, StepLimit::new());
            loop {
                step_limit.step();
                let page =
                    store.list(&JobFilter::all(state), order, after.as_ref(), limit).await.expect("lists");
                let seen = page.jobs.iter().map(|listed| listed.job.id.clone()).collect();
                store.delete(ALL, seen, DeleteRule::AnyState).await.expect("deletes");
                found.extend(page.jobs);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_ids(&fixture, state, &found, in_order(names(state, 10), order), &format!("{order:?}"));
        }
    }
}

/// A job that is reserved during a walk. Its topic has no other ready jobs.
fn mover(name: String) -> AddJob {
    AddJob { topic: topic("v"), spec: JobSpec { ttr: ttr(3_600), ..JobSpec::default() }, ..job(&name) }
}

/// Adds jobs of every state and changes others: `n` counts the rounds.
async fn disturb(fixture: &StoreFixture, n: usize) {
    let store = &*fixture.store;
    let due_after = |wait| Patch { due: Some(Due::After(delay(wait))), ..Patch::default() };
    // Dead letters: some requeued, some deleted.
    bury_these(store, &[mover(format!("move-dead-{n}"))], None).await;
    let requeued = store.requeue(ALL, &id(&format!("move-dead-{}", n / 2)), after(seconds(999)), None).await;
    assert_eq!(
        requeued.expect("answers").is_ok(),
        n.is_multiple_of(2),
        "every second round repeats a requeue"
    );
    // Reserved ones: touched, then finished.
    let held = one(reserve_these(store, &[mover(format!("move-reserved-{n}"))]).await);
    if n.is_multiple_of(2) {
        let to = Some(ttr(1 + n as u64));
        store.touch(ALL, &held.job.id, &held.receipt, to).await.expect("answers").expect("is held");
    } else {
        let finished = FinishJob { id: held.job.id, receipt: Some(held.receipt) };
        store.finish(ALL, vec![finished]).await.expect("finishes");
    }
    // Ready and delayed ones: added at both ends, put off, brought forward and deleted.
    let now = fixture.now();
    for (name, due) in [
        ("early", Due::At(linger::job::Timestamp::from_millis(now.as_millis() - 60_000))),
        ("ready", Due::default()),
        ("soon", Due::After(delay(seconds(1)))),
        ("late", Due::After(delay(seconds(2_000)))),
    ] {
        add(store, AddJob { due, topic: topic("w"), ..job(&format!("move-{name}-{n}")) }).await;
        let other = id(&format!("move-{name}-{}", n / 2));
        match n % 4 {
            0 => drop(store.patch(ALL, &other, due_after(seconds(3_000)), None).await.expect("answers")),
            1 => drop(store.patch(ALL, &other, due_after(seconds(0)), None).await.expect("answers")),
            2 => drop(store.patch(ALL, &other, due_after(seconds(1_000)), None).await.expect("answers")),
            _ => drop(store.delete(ALL, vec![other], DeleteRule::AnyState).await.expect("answers")),
        }
    }
}

async fn jobs_that_stay_are_on_one_page_while_others_change(fixture: StoreFixture) {
    const STAY: usize = 12;
    let store = &*fixture.store;
    fill(&fixture, STAY, 100).await;
    let mut rounds = 0..;
    for _ in 0..3 {
        disturb(&fixture, rounds.next().expect("without end")).await;
    }
    for state in State::ALL {
        for order in ORDERS {
            let (mut stayed, mut after, mut pages) = (Vec::new(), None, 0);
            let mut step_limit = StepLimit::new();
            loop {
                step_limit.step();
                let page = store.list(&JobFilter::all(state), order, after.as_ref(), 2).await.expect("lists");
                let stays = |listed: &ListedJob| !listed.job.id.as_str().starts_with("move-");
                stayed.extend(page.jobs.into_iter().filter(stays));
                after = page.next;
                if after.is_none() {
                    break;
                }
                pages += 1;
                // Not for ever, because each time there are more jobs at the end of the list.
                if pages <= 10 {
                    disturb(&fixture, rounds.next().expect("without end")).await;
                }
            }
            assert_ids(&fixture, state, &stayed, in_order(names(state, STAY), order), &format!("{order:?}"));
        }
    }
}

async fn a_position_is_good_after_the_store_is_opened_again(mut fixture: StoreFixture) {
    fill(&fixture, 4, 1).await;
    for state in State::ALL {
        for order in ORDERS {
            let (mut found, mut after, mut step_limit) = (Vec::new(), None, StepLimit::new());
            loop {
                step_limit.step();
                let page = fixture
                    .store
                    .list(&JobFilter::all(state), order, after.as_ref(), 2)
                    .await
                    .expect("lists");
                found.extend(page.jobs);
                after = page.next;
                if after.is_none() {
                    break;
                }
                fixture.reopen().await;
            }
            assert_ids(&fixture, state, &found, in_order(names(state, 4), order), &format!("{order:?}"));
        }
    }
}

async fn a_page_may_end_before_it_is_full(fixture: StoreFixture) {
    let store: &dyn Store = &*fixture.store;
    // Only the last one matches.
    let count = linger::store::JobPage::MAX_EXAMINED * 5 / 4 + 1_000;
    for from in (0..count).step_by(1_000) {
        let some = (from..from + 1_000).map(|n| delayed(&format!("n{n}"), millis(1_000 + n as u64)));
        store.add(some.collect()).await.expect("adds");
    }
    add(store, delayed("last", seconds(3_600))).await;
    let filter = with_ids(&JobFilter::all(State::Delayed), "last");
    let (mut found, mut after, mut step_limit) = (Vec::new(), None, StepLimit::new());
    loop {
        step_limit.step();
        let page = store.list(&filter, Order::Ascending, after.as_ref(), 10).await.expect("lists");
        assert!(page.examined <= linger::store::JobPage::MAX_EXAMINED * 5 / 4, "{} at once", page.examined);
        found.extend(page.jobs);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(ids(&found), ["last"]);
}
