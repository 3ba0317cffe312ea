//! Lists: what they show of a job, their orders and their filters. Walks page by page are in `walking`.

use std::collections::BTreeSet;

use linger::{
    job::{Actor, Body, Job, Outlet, Reason, State, Timestamp, Topic, TopicSettings},
    store::{
        AddJob, JobFilter, ListPosition, ListedJob, Order, Release, Reservation, Steps, Store, TopicUpdates,
        moment_of,
    },
};

use crate::harness::{jobs::*, lists::*, stores::StoreFixture};

super::on_every_engine! {
    each_state_is_listed_in_the_order_of_its_moment,
    a_listed_job_is_the_whole_job_without_its_body,
    from_is_inclusive_and_to_is_exclusive,
    every_condition_must_hold,
    a_reason_filter_compares_the_beginning,
    a_filter_by_holder_compares_the_whole_name,
    an_empty_store_and_an_unknown_topic_have_empty_lists,
    another_text_as_position_means_the_beginning,
    lists_are_the_same_after_the_store_is_opened_again,
}

pub(super) const URLS: [&str; 2] = ["https://one.example/", "https://two.example/"];

/// Reserves the jobs of `adds`, which must be the only ready ones of their outlets.
pub(super) async fn reserve_these(store: &dyn Store, adds: &[AddJob]) -> Vec<Reservation> {
    store.add(adds.to_vec()).await.expect("adds");
    let outlet = |add: &AddJob| match &add.spec.callback {
        None => plain(add.topic.as_str()),
        Some(callback) => outlet_to(store, add.topic.as_str(), callback.url.as_str()),
    };
    let outlets: BTreeSet<Outlet> = adds.iter().map(outlet).collect();
    let mut reserved = Vec::new();
    for outlet in &outlets {
        reserved.extend(store.reserve(outlet, &claims(adds.len() + 1), Wait::No).await.expect("reserves"));
    }
    assert_eq!(reserved.len(), adds.len(), "all of them, and no others");
    reserved
}

/// Makes dead letters of `adds`, all in this millisecond.
pub(super) async fn bury_these(store: &dyn Store, adds: &[AddJob], reason: Option<&str>) {
    for held in reserve_these(store, adds).await {
        let reason = reason.and_then(Reason::new);
        store.bury(ALL, &held.job.id, &held.receipt, reason).await.expect("answers").expect("is held");
    }
}

/// A job of two topics and several outlets in turn.
pub(super) fn nth(prefix: &str, n: usize) -> AddJob {
    let add = match n % 5 {
        0 | 3 => job(&format!("{prefix}-{n:02}")),
        other => called(&format!("{prefix}-{n:02}"), URLS[other % 2]),
    };
    AddJob { topic: topic(["t", "u"][n % 2]), spec: JobSpec { ttr: ttr(3_600), ..add.spec }, ..add }
}

/// Makes `count` jobs in each state, in the order of their moments, with `step_ms` from one to the next. Dead ones come
/// first, because every ready job of an outlet may be reserved.
pub(super) async fn fill(fixture: &StoreFixture, count: usize, step_ms: u64) {
    let store = &*fixture.store;
    for n in 0..count {
        bury_these(store, &[nth("dead", n)], None).await;
        fixture.clock.advance(millis(step_ms));
    }
    for n in 0..count {
        reserve_these(store, &[nth("reserved", n)]).await;
        fixture.clock.advance(millis(step_ms));
    }
    for n in 0..count {
        add(store, nth("ready", n)).await;
        let due = delayed("d", seconds(1_000)).due;
        add(store, AddJob { due, ..nth("delayed", n) }).await;
        fixture.clock.advance(millis(step_ms));
    }
}

/// The names of the jobs of [`fill`] in `state`.
pub(super) fn names(state: State, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{state}-{n:02}")).collect()
}

/// Asserts that a list has exactly these ids, in this order if the engine orders the state.
#[track_caller]
pub(super) fn assert_ids(
    fixture: &StoreFixture,
    state: State,
    found: &[ListedJob],
    mut expected: Vec<String>,
    what: &str,
) {
    let mut found: Vec<String> = ids(found).into_iter().map(str::to_owned).collect();
    if state == State::Ready && !fixture.orders_ready_jobs() {
        found.sort();
        expected.sort();
    }
    assert_eq!(found, expected, "{state} {what}");
}

async fn each_state_is_listed_in_the_order_of_its_moment(fixture: StoreFixture) {
    let store = &*fixture.store;
    bury_these(store, &[nth("dead", 1)], None).await;
    fixture.clock.advance(seconds(1));
    bury_these(store, &[nth("dead", 0)], None).await;
    // The second one is reserved later for a shorter time, and ends first.
    reserve_these(
        store,
        &[AddJob { spec: JobSpec { ttr: ttr(300), ..nth("reserved", 0).spec }, ..nth("reserved", 0) }],
    )
    .await;
    fixture.clock.advance(seconds(1));
    reserve_these(
        store,
        &[AddJob { spec: JobSpec { ttr: ttr(200), ..nth("reserved", 1).spec }, ..nth("reserved", 1) }],
    )
    .await;
    for (n, wait) in [(0, 70), (1, 9), (2, 80), (3, 8)] {
        add(store, AddJob { due: delayed("d", seconds(wait)).due, ..nth("delayed", n) }).await;
    }
    for n in [1, 0, 2] {
        add(store, nth("ready", n)).await;
        fixture.clock.advance(seconds(1));
    }
    let expected = [
        (State::Delayed, vec!["delayed-03", "delayed-01", "delayed-00", "delayed-02"]),
        (State::Ready, vec!["ready-01", "ready-00", "ready-02"]),
        (State::Reserved, vec!["reserved-01", "reserved-00"]),
        (State::Dead, vec!["dead-01", "dead-00"]),
    ];
    for (state, names) in expected {
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        for order in ORDERS {
            let found = walk(store, &JobFilter::all(state), order, 10).await;
            assert_ids(&fixture, state, &found, in_order(names.clone(), order), &format!("{order:?}"));
        }
    }
}

/// Asserts that `name` is the only job, in `state`, and is listed as it is.
async fn assert_listed(fixture: &StoreFixture, name: &str, state: State) {
    let job = get(&*fixture.store, name).await;
    assert_eq!(job.state(), state);
    assert!(!job.body.as_bytes().is_empty());
    let found = in_state(&*fixture.store, state).await;
    assert_eq!(found, [listed(job)], "{state}");
    for other in State::ALL.into_iter().filter(|other| *other != state) {
        assert_eq!(in_state(&*fixture.store, other).await, [], "{other}, not {state}");
    }
}

async fn a_listed_job_is_the_whole_job_without_its_body(fixture: StoreFixture) {
    let store = &*fixture.store;
    let body = Body::parse(format!("\"{}\"", "\u{e4}\u{20ac}".repeat(20_000)).into()).expect("a body");
    let bytes = 2 + 20_000 * 5;
    let full = AddJob {
        due: delayed("d", seconds(5)).due,
        body,
        spec: JobSpec {
            max_attempts: 2,
            retry: retry(&[30, 40]),
            require_receipt: true,
            ttr: ttr(77),
            ..called("a", URLS[0]).spec
        },
        ..called("a", URLS[0])
    };
    add(store, full).await;
    assert_listed(&fixture, "a", State::Delayed).await;
    assert_eq!(one(in_state(store, State::Delayed).await).body_bytes, bytes);
    fixture.advance_and_promote(seconds(5)).await;
    assert_listed(&fixture, "a", State::Ready).await;
    let outlet = outlet_to(store, "t", URLS[0]);
    let held = one(store.reserve(&outlet, &[claim_for(ttr(9))], Wait::No).await.expect("reserves"));
    assert_listed(&fixture, "a", State::Reserved).await;
    let again = Release { due: Some(after(seconds(2))), reason: Reason::new("not yet") };
    store.release(ALL, &id("a"), &held.receipt, again).await.expect("answers").expect("is held");
    assert_listed(&fixture, "a", State::Delayed).await;
    fixture.advance_and_promote(seconds(2)).await;
    assert_listed(&fixture, "a", State::Ready).await;
    one(store.reserve(&outlet, &claims(1), Wait::No).await.expect("reserves"));
    assert_listed(&fixture, "a", State::Reserved).await;
    fixture.advance_and_promote(seconds(77)).await;
    assert_listed(&fixture, "a", State::Dead).await;
    assert_eq!(one(in_state(store, State::Dead).await).body_bytes, bytes);
}

async fn from_is_inclusive_and_to_is_exclusive(fixture: StoreFixture) {
    fill(&fixture, 3, 1).await;
    for state in State::ALL {
        let all = sorted(in_state(&*fixture.store, state).await);
        let moments: Vec<i64> = all.iter().map(|listed| moment_of(&listed.job).as_millis()).collect();
        assert_eq!(moments, [moments[0], moments[0] + 1, moments[0] + 2], "a millisecond apart");
        let edges: Vec<Option<i64>> =
            [None, Some(0)].into_iter().chain((-1..4).map(|n| Some(moments[0] + n))).collect();
        for (from, to) in edges.iter().flat_map(|from| edges.iter().map(move |to| (*from, *to))) {
            let within =
                |moment: i64| from.is_none_or(|from| from <= moment) && to.is_none_or(|to| moment < to);
            let expected: Vec<String> =
                (0..3).filter(|n| within(moments[*n])).map(|n| format!("{state}-{n:02}")).collect();
            let filter = JobFilter {
                from: from.map(Timestamp::from_millis),
                to: to.map(Timestamp::from_millis),
                ..JobFilter::all(state)
            };
            for order in ORDERS {
                let found = walk(&*fixture.store, &filter, order, 2).await;
                let what = format!("{order:?} of {moments:?} from {from:?} to {to:?}");
                assert_ids(&fixture, state, &found, in_order(expected.clone(), order), &what);
            }
        }
    }
}

async fn every_condition_must_hold(fixture: StoreFixture) {
    fill(&fixture, 6, 1_000).await;
    let store = &*fixture.store;
    for state in State::ALL {
        let all = sorted(in_state(store, state).await);
        let moment = |n: usize| moment_of(&all[n].job);
        let (first, fifth) = (moment(1), moment(4));
        let is_reasoned = state == State::Dead;
        let mut matches = 0;
        for name in [None, Some("t"), Some("u"), Some("nobody")] {
            for ids in [None, Some(format!("{state}-0")), Some(format!("{state}-03")), Some("no".to_owned())]
            {
                for reason in [None, Some("bur"), Some("nothing")] {
                    for (from, to) in
                        [(None, None), (Some(first), None), (None, Some(fifth)), (Some(first), Some(fifth))]
                    {
                        let filter = JobFilter {
                            topic: name.map(topic),
                            from,
                            to,
                            id_prefix: ids.as_deref().map(Into::into),
                            reason_prefix: reason.map(Into::into),
                            ..JobFilter::all(state)
                        };
                        let is_match = |(n, job): (usize, &Job)| {
                            name.is_none_or(|name| job.topic.as_str() == name)
                                && ids.as_ref().is_none_or(|ids| job.id.as_str().starts_with(ids.as_str()))
                                && reason.is_none_or(|reason| is_reasoned && reason == "bur")
                                && (from.is_none() || n >= 1)
                                && (to.is_none() || n < 4)
                        };
                        let jobs = all.iter().map(|listed| &listed.job).enumerate();
                        let expected: Vec<String> =
                            jobs.filter(|job| is_match(*job)).map(|(_, job)| job.id.to_string()).collect();
                        matches += expected.len();
                        let found = walk(store, &filter, Order::Ascending, 2).await;
                        assert_ids(&fixture, state, &found, expected, &format!("{filter:?}"));
                    }
                }
            }
        }
        assert!(matches > 30, "{matches} jobs were on the lists of {state}");
    }
}

async fn a_reason_filter_compares_the_beginning(fixture: StoreFixture) {
    let store = &*fixture.store;
    for (name, reason) in
        [("a", Some("http 500")), ("b", Some("http 503: busy")), ("c", Some("\u{20ac}")), ("d", None)]
    {
        bury_these(store, &[job(name)], reason).await;
        fixture.clock.advance(millis(1));
    }
    // A reason stays with a job that waits again.
    let held = one(reserve_these(store, &[job("e")]).await);
    let later = Release { due: Some(after(seconds(60))), reason: Reason::new("http 500") };
    store.release(ALL, &id("e"), &held.receipt, later).await.expect("answers").expect("is held");
    add(store, delayed("f", seconds(90))).await;
    for (state, prefix, expected) in [
        (State::Dead, "", &["a", "b", "c", "d"][..]),
        (State::Dead, "http 50", &["a", "b"]),
        (State::Dead, "http 503: busy", &["b"]),
        (State::Dead, "http 503: busy!", &[]),
        (State::Dead, "ttp", &[]),
        (State::Dead, "\u{20ac}", &["c"]),
        (State::Dead, Reason::BURIED, &["d"]),
        (State::Delayed, "", &["e", "f"]),
        (State::Delayed, "http", &["e"]),
    ] {
        let filter = JobFilter { reason_prefix: Some(prefix.into()), ..JobFilter::all(state) };
        for topic in [None, Some(topic("t"))] {
            let found = walk(store, &JobFilter { topic, ..filter.clone() }, Order::Ascending, 10).await;
            assert_eq!(ids(&found), expected, "{state} {prefix:?}");
        }
    }
}

async fn a_filter_by_holder_compares_the_whole_name(fixture: StoreFixture) {
    let store = &*fixture.store;
    let actor = |name: &str| Actor::parse(name).expect("a name");
    let claim = |by: Option<&str>| Claim { ttr: Some(ttr(3_600)), by: by.map(actor) };
    for (name, by) in [
        ("a", Some("w-1")),
        ("b", Some("w-10")),
        ("c", Some("w-1")),
        ("d", None),
        ("e", Some("w\u{f6}rker %-1")),
    ] {
        add(store, job(name)).await;
        one(store.reserve(&plain("t"), &[claim(by)], Wait::No).await.expect("reserves"));
        fixture.clock.advance(millis(1));
    }
    // A job of the first worker that it gave back, and that another one has now.
    add(store, job("f")).await;
    let held = one(store.reserve(&plain("t"), &[claim(Some("w-1"))], Wait::No).await.expect("reserves"));
    let back = Release { due: Some(after(seconds(0))), reason: None };
    store.release(ALL, &id("f"), &held.receipt, back).await.expect("answers").expect("is held");
    one(store.reserve(&plain("t"), &[claim(Some("w-2"))], Wait::No).await.expect("reserves"));
    fixture.clock.advance(millis(1));
    // Jobs with callbacks: those that are reserved have the host as their holder.
    reserve_these(store, &[called("g", URLS[0])]).await;
    add(store, called("h", URLS[0])).await;
    for (by, expected) in [
        ("w-1", &["a", "c"][..]),
        ("w-10", &["b"]),
        ("w-2", &["f"]),
        ("w", &[]),
        ("w\u{f6}rker %-1", &["e"]),
        ("one.example", &["g"]),
        ("example", &[]),
    ] {
        let filter = JobFilter { reserved_by: Some(actor(by)), ..JobFilter::all(State::Reserved) };
        for topic in [None, Some(topic("t"))] {
            for order in ORDERS {
                let found =
                    walk(store, &JobFilter { topic: topic.clone(), ..filter.clone() }, order, 1).await;
                let expected = in_order(expected.to_vec(), order);
                assert_eq!(ids(&found), expected, "{by:?} {order:?}");
            }
        }
        for state in [State::Delayed, State::Ready, State::Dead] {
            let found = walk(store, &JobFilter { state, ..filter.clone() }, Order::Ascending, 10).await;
            assert_eq!(found, [], "{state} jobs have no holder");
        }
    }
}

async fn an_empty_store_and_an_unknown_topic_have_empty_lists(fixture: StoreFixture) {
    let store = &*fixture.store;
    let with_settings = topic("settings-only");
    let settings = TopicSettings { require_receipt: true, ..TopicSettings::default() };
    let empty = async |topics: &[Option<Topic>]| {
        for (state, topic) in
            State::ALL.into_iter().flat_map(|state| topics.iter().map(move |topic| (state, topic)))
        {
            let filter = JobFilter { topic: topic.clone(), ..JobFilter::all(state) };
            for order in ORDERS {
                assert_eq!(walk(store, &filter, order, 10).await, [], "{filter:?}");
            }
        }
    };
    empty(&[None, Some(topic("nobody"))]).await;
    store.put_settings(&with_settings, settings).await.expect("puts");
    empty(&[None, Some(with_settings.clone())]).await;
    fill(&fixture, 2, 1).await;
    empty(&[Some(topic("nobody")), Some(with_settings)]).await;
}

async fn another_text_as_position_means_the_beginning(fixture: StoreFixture) {
    fill(&fixture, 3, 1).await;
    let store = &*fixture.store;
    for state in State::ALL {
        for topic in [None, Some(topic("t"))] {
            let filter = JobFilter { topic, ..JobFilter::all(state) };
            for order in ORDERS {
                let first = store.list(&filter, order, None, 10).await.expect("lists").jobs;
                assert!(first.len() >= 2);
                for text in ["", "x", "somewhere else", "-1 -1", "\u{20ac} \u{20ac}", "{}"] {
                    let position = ListPosition(text.to_owned());
                    let found = store.list(&filter, order, Some(&position), 10).await.expect("lists").jobs;
                    assert_eq!(found, first, "{filter:?} {order:?} behind {text:?}");
                }
            }
        }
    }
}

async fn lists_are_the_same_after_the_store_is_opened_again(mut fixture: StoreFixture) {
    fill(&fixture, 8, 1).await;
    let mut before = Vec::new();
    for state in State::ALL {
        before.push(sorted(in_state(&*fixture.store, state).await));
    }
    fixture.reopen().await;
    for (state, before) in State::ALL.into_iter().zip(before) {
        let after = in_state(&*fixture.store, state).await;
        assert_ids(&fixture, state, &after, names(state, 8), "opened again");
        assert_eq!(sorted(after), before, "{state}");
    }
}
