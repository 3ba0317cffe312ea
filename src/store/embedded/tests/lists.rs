//! Lists across the ends of many steps, among broken records and in a full millisecond, and changes on a full disk.

use std::sync::{Arc, atomic::Ordering};

use super::fixture::*;
use crate::{
    clock::Clock,
    job::{Callback, CallbackUrl, Due, DueKind, Job, Outlet, State, Timestamp, TopicFilter},
    store::{
        AddJob, ChangeJob, Claim, Error, JobChange, JobFilter, ListPosition, Order, SeenJob, Steps, Store,
        Wait,
        embedded::{
            EmbeddedStore,
            memory::{job_index::JobRef, job_state::MemoryState},
            ops::{Wanted, first_keys, topics},
            rows::{db::Table, key::RowKey},
        },
    },
};

const COUNT: usize = 10;
const ORDERS: [Order; 2] = [Order::Ascending, Order::Descending];

/// Every third job has a callback of its own.
fn nth(state: State, n: usize) -> AddJob {
    let url = CallbackUrl::parse("http://host.example/").expect("valid");
    let mut job = job(&format!("{state}-{n}"));
    job.spec.callback = n.is_multiple_of(3).then(|| Arc::new(Callback::to(url)));
    job
}

async fn reserve_nth(store: &EmbeddedStore, state: State, n: usize) -> crate::store::Reservation {
    add(store, [nth(state, n)]).await;
    let host = nth(state, n).spec.callback.map(|callback| store.host_number(callback.url.origin()));
    let outlet = Outlet { topic: topic("t"), host };
    store.reserve(&outlet, &[Claim::default()], Wait::No).await.expect("reserves").pop().expect("it is ready")
}

/// A store with [`COUNT`] jobs in each state, a millisecond apart.
async fn filled(fixture: &Fixture) -> Arc<EmbeddedStore> {
    let store = fixture.open().await;
    let pass = || fixture.clock.advance(std::time::Duration::from_millis(1));
    for n in 0..COUNT {
        let held = reserve_nth(&store, State::Dead, n).await;
        store.bury(ALL, &held.job.id, &held.receipt, None).await.expect("answers").expect("is held");
        pass();
    }
    for n in 0..COUNT {
        reserve_nth(&store, State::Reserved, n).await;
        pass();
    }
    for n in 0..COUNT {
        let due = after(seconds(60));
        add(&store, [nth(State::Ready, n), AddJob { due, ..nth(State::Delayed, n) }]).await;
        pass();
    }
    store
}

/// The names of the jobs in `state` that are left, in the order of a list.
fn expected(state: State, order: Order, gone: &[usize]) -> Vec<String> {
    let left = (0..COUNT).filter(|n| !gone.contains(n)).map(|n| format!("{state}-{n}"));
    match order {
        Order::Ascending => left.collect(),
        Order::Descending => left.rev().collect(),
    }
}

async fn walk(store: &EmbeddedStore, filter: &JobFilter, order: Order, limit: usize) -> Vec<String> {
    let (mut found, mut after, mut calls) = (Vec::new(), None, 0);
    loop {
        let page = store.list(filter, order, after.as_ref(), limit).await.expect("lists");
        assert!(page.jobs.len() == limit || page.next.is_none(), "a short list has full pages: {page:?}");
        found.extend(page.jobs.iter().map(|listed| listed.job.id.to_string()));
        after = page.next;
        calls += 1;
        assert!(calls < 1_000, "the walk ends: {filter:?}");
        if after.is_none() {
            return found;
        }
    }
}

async fn get(store: &EmbeddedStore, name: &str) -> Option<Job> {
    store.get(ALL, &id(name)).await.expect("gets")
}

async fn change(store: &EmbeddedStore, jobs: &[(&Job, JobChange)]) -> crate::store::Result<Vec<bool>> {
    let seen =
        |(job, change): &(&Job, JobChange)| ChangeJob { seen: SeenJob::new(job), change: change.clone() };
    store.change(jobs.iter().map(seen).collect(), None).await
}

/// A step of a list examines three jobs in tests.
#[tokio::test]
async fn a_walk_crosses_the_ends_of_many_steps() {
    let fixture = Fixture::new();
    let store = filled(&fixture).await;
    for (state, order) in State::ALL.into_iter().flat_map(|state| ORDERS.map(|order| (state, order))) {
        for topic in [None, Some(topic("t"))] {
            let filter = JobFilter { topic, ..JobFilter::all(state) };
            for limit in [1, 2, 3, 4, 5, 6, 7, 9, 10, 11] {
                let found = walk(&store, &filter, order, limit).await;
                assert_eq!(found, expected(state, order, &[]), "{filter:?} {order:?} in pages of {limit}");
            }
            for name in expected(state, order, &[]) {
                let filter = JobFilter { id_prefix: Some(name.as_str().into()), ..filter.clone() };
                let page = store.list(&filter, order, None, 1).await.expect("lists");
                assert_eq!(page.jobs.len(), 1, "one call looks beyond its first step for {name}");
            }
        }
    }
    assert_eq!(fixture.set_aside(), 0);
}

/// The deadlines of all topics are in one order.
#[tokio::test]
async fn a_walk_passes_the_reserved_jobs_of_another_topic() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    for n in 0..COUNT {
        reserve_nth(&store, State::Reserved, n).await;
        let others = (0..COUNT).map(|m| AddJob { topic: topic("u"), ..job(&format!("other-{n}-{m}")) });
        add(&store, others).await;
        let others = store
            .reserve(&Outlet::plain(topic("u")), &vec![Claim::default(); COUNT], Wait::No)
            .await
            .expect("reserves");
        assert_eq!(others.len(), COUNT);
        fixture.clock.advance(std::time::Duration::from_millis(1));
    }
    let filter = JobFilter { topic: Some(topic("t")), ..JobFilter::all(State::Reserved) };
    for (order, limit) in ORDERS.into_iter().flat_map(|order| [1, 3, 20].map(|limit| (order, limit))) {
        let found = walk(&store, &filter, order, limit).await;
        assert_eq!(found, expected(State::Reserved, order, &[]), "{order:?} in pages of {limit}");
    }
}

#[tokio::test]
async fn a_list_sets_aside_broken_records_and_goes_on() {
    for (state, order) in State::ALL.into_iter().flat_map(|state| ORDERS.map(|order| (state, order))) {
        for topic in [None, Some(topic("t"))] {
            let fixture = Fixture::new();
            let store = filled(&fixture).await;
            let table = if state == State::Dead { "dead" } else { "rec" };
            let broken = [0, 2, 3, 4, 5, 9];
            for n in broken {
                sql(&store, &format!("UPDATE {table} SET head = zeroblob(9) WHERE id = '{state}-{n}'")).await;
            }
            let filter = JobFilter { topic, ..JobFilter::all(state) };
            let found = walk(&store, &filter, order, 2).await;
            assert_eq!(found, expected(state, order, &broken), "{filter:?} {order:?}");
            assert_eq!(fixture.set_aside(), 6);
            consistent(&store).await;
            assert_eq!(walk(&store, &filter, order, 2).await, found, "and again");
            assert_eq!(get(&store, &format!("{state}-0")).await, None);
        }
    }
}

/// A step finds keys of two outlets in tests.
#[tokio::test]
async fn a_walk_over_many_topics_is_in_order() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    let start = fixture.clock.now();
    // The order of the moments is neither that of the topics nor that in which the jobs were added.
    let moment = |n: usize| 60_000 + u64::try_from(n * 7 % 31).expect("is small");
    for n in 0..31 {
        let due = match n % 2 {
            0 => after(std::time::Duration::from_millis(moment(n))),
            _ => Due::At(start.after(std::time::Duration::from_millis(moment(n)))),
        };
        add(&store, [AddJob { due, topic: topic(&format!("t-{}", n % 6)), ..nth(State::Delayed, n) }]).await;
    }
    let mut order: Vec<usize> = (0..31).collect();
    order.sort_by_key(|n| moment(*n));
    let ascending: Vec<String> = order.iter().map(|n| format!("delayed-{n}")).collect();
    let descending: Vec<String> = ascending.iter().rev().cloned().collect();
    for state in [State::Delayed, State::Ready] {
        let filter = JobFilter::all(state);
        for limit in [1, 2, 5, 31, 40] {
            assert_eq!(walk(&store, &filter, Order::Ascending, limit).await, ascending, "{state} {limit}");
            assert_eq!(walk(&store, &filter, Order::Descending, limit).await, descending, "{state} {limit}");
        }
        let of_topic = JobFilter { topic: Some(topic("t-4")), ..filter.clone() };
        let expected: Vec<String> =
            order.iter().filter(|n| *n % 6 == 4).map(|n| format!("delayed-{n}")).collect();
        assert_eq!(walk(&store, &of_topic, Order::Ascending, 2).await, expected);
        let none = JobFilter { id_prefix: Some("zzzz".into()), ..filter };
        let page = store.list(&none, Order::Ascending, None, 5).await.expect("lists");
        assert_eq!((page.jobs.len(), page.examined, page.next), (0, 31, None), "{state}");
        fixture.clock.advance(seconds(61));
        while store.promote(100).await.expect("promotes").more {}
    }
}

/// The writer runs other operations between two steps.
#[tokio::test]
async fn a_step_of_a_list_visits_few_outlets() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    for n in 0..9 {
        add(&store, [AddJob { topic: topic(&format!("t-{n}")), ..nth(State::Ready, 3 * n + 1) }]).await;
    }
    let filter = Arc::new(JobFilter::all(State::Ready));
    let wanted = Wanted { filter, order: Order::Ascending, after: None, most: 9 };
    let (mut place, mut steps) = (None, Vec::new());
    loop {
        let (wanted, from) = (wanted.clone(), place.take());
        let step = store.run(move |txn| Ok(first_keys(txn, &wanted, from.as_ref(), None))).await;
        let (keys, next) = step.expect("steps");
        steps.push(keys.len());
        place = next;
        if place.is_none() {
            break;
        }
    }
    assert!(steps.iter().all(|keys| *keys <= 2) && steps.iter().sum::<usize>() == 9, "{steps:?}");
    let page = store.run(|txn| Ok(topics(txn, &TopicFilter::ALL, None, 9))).await.expect("steps");
    assert_eq!((page.topics.len(), page.next), (3, Some(topic("t-2"))));
    assert_eq!(store.topics(&TopicFilter::ALL, None, 9).await.expect("lists").len(), 9);
}

#[tokio::test]
async fn a_list_notices_a_missing_row() {
    let fixture = Fixture::new();
    let store = filled(&fixture).await;
    sql(&store, "DELETE FROM rec WHERE id = 'delayed-4'").await;
    let found = walk(&store, &JobFilter::all(State::Delayed), Order::Ascending, 4).await;
    assert_eq!(found, expected(State::Delayed, Order::Ascending, &[4]));
    assert_eq!(fixture.set_aside(), 1);
    consistent(&store).await;
}

/// A list and a delete do not read bodies; what rewrites a job does.
#[tokio::test]
async fn a_change_of_a_broken_job_is_skipped() {
    let fixture = Fixture::new();
    let store = filled(&fixture).await;
    let jobs = [get(&store, "dead-1").await, get(&store, "ready-1").await, get(&store, "ready-2").await];
    let [Some(dead), Some(ready), Some(other)] = jobs else { panic!("all are there: {jobs:?}") };
    for table in ["rec", "dead"] {
        sql(
            &store,
            &format!("UPDATE {table} SET body = zeroblob(9) WHERE id IN ('dead-1', 'ready-1', 'ready-2')"),
        )
        .await;
    }
    let found = walk(&store, &JobFilter::all(State::Ready), Order::Ascending, 4).await;
    assert_eq!((found, fixture.set_aside()), (expected(State::Ready, Order::Ascending, &[]), 0));
    let changes = [
        (&dead, JobChange::Requeue(Due::default().into())),
        (&ready, JobChange::Reschedule(after(seconds(5)))),
        (&other, JobChange::Delete),
    ];
    let changed = change(&store, &changes).await.expect("answers");
    assert_eq!(changed, [false, false, true]);
    assert_eq!(fixture.set_aside(), 2);
    consistent(&store).await;
}

/// A text may look like a position of this engine.
#[tokio::test]
async fn a_position_without_a_key_means_the_beginning() {
    let fixture = Fixture::new();
    let store = filled(&fixture).await;
    let far = format!("{} dead-9", Timestamp::MAX.as_millis());
    for (state, order) in State::ALL.into_iter().flat_map(|state| ORDERS.map(|order| (state, order))) {
        for text in ["5 x", "5 ", " ", "5 -1", "5 99999999999999999999", &far] {
            let position = ListPosition(text.to_owned());
            let page =
                store.list(&JobFilter::all(state), order, Some(&position), COUNT).await.expect("lists");
            let found: Vec<_> = page.jobs.iter().map(|listed| listed.job.id.to_string()).collect();
            assert_eq!(found, expected(state, order, &[]), "{state} {order:?} behind {text:?}");
        }
    }
}

/// Puts a job into the last place of `moment` for jobs with a delay, so that the next ones get keys of the next millisecond.
async fn crowd(store: &EmbeddedStore, state: State, moment: Timestamp) {
    let put = store.run(move |txn| {
        let mut record = record("last", moment);
        let hash = txn.memory.job_index().hash(b"last");
        let outlet = txn.memory.outlet(&Outlet::plain(topic("t")));
        let key = RowKey::from_bits(RowKey::first_of_kind(moment, DueKind::Moment).to_bits() - 1);
        let dead = state == State::Dead;
        record.head.dead_at = dead.then_some(moment);
        txn.db.insert(Table::for_job(dead), key, &record)?;
        let state = if dead { MemoryState::Dead } else { txn.waiting_state(&record.head) };
        txn.memory.insert(hash, JobRef { key, outlet, dead }, state);
        Ok(())
    });
    put.await.expect("puts");
}

#[tokio::test]
async fn jobs_of_a_full_millisecond_are_found_by_their_moment() {
    for state in [State::Delayed, State::Ready, State::Dead] {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        let wait = if state == State::Delayed { seconds(60) } else { seconds(0) };
        let moment = Timestamp::from_millis(START_MS).after(wait);
        crowd(&store, state, moment).await;
        for name in ["a", "b"] {
            add(&store, [delayed(name, wait)]).await;
            if state == State::Dead {
                let held = reserve(&store, 1).await.pop().expect("it is ready");
                store.bury(ALL, &held.job.id, &held.receipt, None).await.expect("answers").expect("is held");
            }
        }
        let next = moment.after(std::time::Duration::from_millis(1));
        let behind = JobFilter { from: Some(next), ..JobFilter::all(state) };
        let within = JobFilter { from: Some(moment), to: Some(next), ..JobFilter::all(state) };
        let before = JobFilter { to: Some(moment), ..JobFilter::all(state) };
        for topic in [None, Some(topic("t"))] {
            for order in ORDERS {
                for limit in [1, 2, 5] {
                    let walk = async |filter: &JobFilter| {
                        let mut found =
                            walk(&store, &JobFilter { topic: topic.clone(), ..filter.clone() }, order, limit)
                                .await;
                        found.sort();
                        found
                    };
                    assert_eq!(walk(&within).await, ["a", "b", "last"], "{state} {order:?}");
                    assert_eq!(walk(&behind).await, [""; 0], "{state} {order:?}");
                    assert_eq!(walk(&before).await, [""; 0], "{state} {order:?}");
                }
            }
        }
        consistent(&store).await;
    }
}

#[tokio::test]
async fn on_a_full_disk_a_change_frees_space_or_is_refused_whole() {
    let (fixture, free) = Fixture::on_a_small_disk();
    let store = filled(&fixture).await;
    let jobs = [get(&store, "dead-1").await, get(&store, "ready-1").await, get(&store, "delayed-1").await];
    let [Some(dead), Some(ready), Some(waiting)] = &jobs else { panic!("all are there: {jobs:?}") };
    let now =
        async || [get(&store, "dead-1").await, get(&store, "ready-1").await, get(&store, "delayed-1").await];
    let requeue = (dead, JobChange::Requeue(Due::default().into()));
    let (delete, reschedule) =
        ((ready, JobChange::Delete), (waiting, JobChange::Reschedule(after(seconds(9)))));
    free.store(499, Ordering::Relaxed);
    for jobs in [vec![requeue.clone()], vec![delete.clone(), reschedule.clone(), requeue.clone()]] {
        let refused = change(&store, &jobs).await;
        assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    }
    assert_eq!(now().await, jobs, "nothing changed, not even what comes first");
    // Nearly full: the ballast is gone, too.
    free.store(124, Ordering::Relaxed);
    for jobs in [vec![reschedule.clone()], vec![delete.clone(), reschedule.clone()]] {
        let refused = change(&store, &jobs).await;
        assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    }
    assert_eq!(now().await, jobs);
    assert_eq!(change(&store, &[delete]).await.expect("frees space"), [true]);
    free.store(499, Ordering::Relaxed);
    assert_eq!(change(&store, &[reschedule]).await.expect("stays as large"), [true]);
    free.store(500, Ordering::Relaxed);
    assert_eq!(change(&store, &[requeue]).await.expect("there is room"), [true]);
    consistent(&store).await;
}
