//! Outlets: ready jobs with a callback of their own are kept apart by the host of their callback; everything else is
//! the topic's.

use std::{collections::HashSet, time::Duration};

use linger::{
    job::{CallHeaders, CallMethod, Callback, Due, Outlet, Reason, State},
    store::{
        AddJob, Added, JobChange, MoveKind, Patch, Refusal, Release, Reservation, SeenJob, Steps, Store,
        TopicUpdates,
    },
};

use crate::harness::{jobs::*, lists::*, stores::StoreFixture};

super::on_every_engine! {
    jobs_of_an_outlet_are_never_in_the_answer_of_another,
    a_callback_comes_back_as_it_was_added,
    every_change_announces_the_outlet_of_the_job,
    a_job_returns_to_its_own_outlet,
    dead_letters_belong_to_the_topic_and_return_to_their_outlets,
    figures_are_those_of_the_topic,
    a_purge_deletes_the_jobs_of_every_outlet,
    resuming_delivery_announces_every_outlet,
    outlets_are_known_after_the_store_is_opened_again,
    scopes_and_moves_name_the_topic,
    many_hosts_share_256_outlets,
}

const URL: &str = "https://a.example/hook";

/// A URL with another host number than `URL` in this store.
fn other_url(store: &dyn Store) -> String {
    let urls = (0..).map(|n| format!("http://other-{n}.example:8080/x"));
    let differs = |url: &String| outlet_to(store, "t", url) != outlet_to(store, "t", URL);
    urls.into_iter().find(differs).expect("one of them differs")
}

async fn reserve_all(store: &dyn Store, outlet: &Outlet) -> Vec<Reservation> {
    store.reserve(outlet, &claims(5), Wait::No).await.expect("reserves")
}

/// The ids of the jobs that an outlet delivers.
async fn delivered(store: &dyn Store, outlet: &Outlet) -> Vec<String> {
    let granted = reserve_all(store, outlet).await;
    granted.into_iter().map(|grant| grant.job.id.to_string()).collect()
}

/// Reserves the only job of the outlet of `URL`; no other outlet has one.
async fn reserve_called(store: &dyn Store) -> Reservation {
    assert_eq!(delivered(store, &plain("t")).await, [""; 0], "a worker never gets it");
    one(reserve_all(store, &outlet_to(store, "t", URL)).await)
}

async fn jobs_of_an_outlet_are_never_in_the_answer_of_another(fixture: StoreFixture) {
    let store = &*fixture.store;
    let other = other_url(store);
    let jobs =
        [job("p"), called("a", URL), called("b", &other), AddJob { topic: topic("u"), ..called("c", URL) }];
    store.add(jobs.to_vec()).await.expect("adds");
    add(store, AddJob { due: Due::After(delay(seconds(5))), ..called("d", URL) }).await;
    fixture.advance_and_promote(seconds(5)).await;
    for outlet in
        [plain("t"), outlet_to(store, "t", URL), outlet_to(store, "t", &other), outlet_to(store, "u", URL)]
    {
        assert!(store.may_have_ready(&outlet), "{outlet}");
    }
    assert_eq!(delivered(store, &plain("u")).await, [""; 0]);
    assert_eq!(delivered(store, &outlet_to(store, "v", URL)).await, [""; 0]);
    assert_eq!(delivered(store, &plain("t")).await, ["p"]);
    assert_eq!(delivered(store, &outlet_to(store, "t", &other)).await, ["b"]);
    let mut of_host = delivered(store, &outlet_to(store, "t", URL)).await;
    of_host.sort();
    assert_eq!(of_host, ["a", "d"]);
    assert_eq!(delivered(store, &outlet_to(store, "u", URL)).await, ["c"]);
}

async fn a_callback_comes_back_as_it_was_added(fixture: StoreFixture) {
    let store = &*fixture.store;
    let url = format!("https://a.example/{}", "x".repeat(2_030));
    let headers = (0..4).map(|n| (format!("x-{n}"), "v".repeat(1_000))).collect();
    let largest = Callback {
        method: CallMethod::Put,
        headers: CallHeaders::new(headers).expect("valid"),
        timeout: Some(seconds(7)),
        ..(*callback(&url)).clone()
    };
    let wanted = AddJob {
        spec: JobSpec {
            callback: Some(largest.clone().into()),
            trace: Some(trace(1)),
            retry: retry(&[1; 64]),
            ..JobSpec::default()
        },
        ..job("a")
    };
    let added = add(store, wanted.clone()).await;
    assert_eq!(added.spec.callback.as_deref(), Some(&largest));
    assert_eq!(add_any(store, wanted).await, Ok(Added::Replayed(added.clone())));
    assert_eq!(store.get(ALL, &id("a")).await.expect("gets"), Some(added));
    let held = reserve_called(store).await;
    assert_eq!(held.job.spec.callback.as_deref(), Some(&largest));
    let reason = Reason::new(&"r".repeat(1_024));
    let later = Release { due: Some(after(seconds(9))), reason };
    let released =
        store.release(ALL, &id("a"), &held.receipt, later).await.expect("answers").expect("is held");
    assert_eq!(released.spec.callback.as_deref(), Some(&largest));
    let patch = Patch { body: Some(body("2")), ..Patch::default() };
    let Ok(patched) = store.patch(ALL, &id("a"), patch, None).await.expect("answers") else {
        panic!("a delayed job is patched")
    };
    assert_eq!(patched.spec.callback.as_deref(), Some(&largest));
    assert_eq!(patched.spec.trace, Some(trace(1)));
}

async fn every_change_announces_the_outlet_of_the_job(fixture: StoreFixture) {
    let store = &*fixture.store;
    let outlet = outlet_to(store, "t", URL);
    let assert_announced = |what: &str| {
        let ready = fixture.notifications.take_ready();
        assert!(ready.contains(&outlet) && !ready.contains(&plain("t")), "{what}: {ready:?}");
    };
    let at_once = || Release { due: Some(after(Duration::ZERO)), reason: None };
    add(store, called("a", URL)).await;
    assert_announced("an add without delay");
    let held = reserve_called(store).await;
    store.release(ALL, &id("a"), &held.receipt, at_once()).await.expect("answers").expect("is held");
    assert_announced("a release");
    let held = reserve_called(store).await;
    store.cancel(vec![(id("a"), held.receipt)]).await.expect("cancels");
    assert_announced("a cancelled reservation");
    reserve_called(store).await;
    fixture.notifications.take_ready();
    fixture.advance_and_promote(seconds(60)).await;
    assert_announced("a TTR end");
    let held = reserve_called(store).await;
    store.bury(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    store
        .requeue(ALL, &id("a"), after(Duration::ZERO), None)
        .await
        .expect("answers")
        .expect("is not refused");
    assert_announced("a requeue");
    let held = reserve_called(store).await;
    store.bury(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    assert_eq!(requeue_oldest(store, "t", 10).await, 1);
    assert_announced("a requeue of a listed job");
    store.delete(ALL, vec![id("a")], DeleteRule::AnyState).await.expect("deletes");
    add(store, AddJob { due: Due::After(delay(seconds(5))), ..called("b", URL) }).await;
    fixture.advance_and_promote(seconds(5)).await;
    assert_announced("a delayed job that became due");
    let later = Patch { due: Some(Due::After(delay(seconds(50)))), ..Patch::default() };
    store.patch(ALL, &id("b"), later, None).await.expect("patches").expect("is not refused");
    fixture.notifications.take_ready();
    let now = Patch { due: Some(Due::After(delay(Duration::ZERO))), ..Patch::default() };
    store.patch(ALL, &id("b"), now, None).await.expect("patches").expect("is not refused");
    assert_announced("a reschedule to now");
}

async fn a_job_returns_to_its_own_outlet(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, called("a", URL)).await;
    let held = reserve_called(store).await;
    store.cancel(vec![(id("a"), held.receipt)]).await.expect("cancels");
    let held = reserve_called(store).await;
    assert_eq!(held.job.attempts, 1, "a cancelled reservation is not counted");
    let released = store.release(ALL, &id("a"), &held.receipt, Release::default()).await;
    assert_eq!(released.expect("answers").expect("is held").state(), State::Delayed);
    fixture.advance_and_promote(seconds(5)).await;
    let held = reserve_called(store).await;
    store.touch(ALL, &id("a"), &held.receipt, Some(ttr(90))).await.expect("answers").expect("is held");
    fixture.advance_and_promote(seconds(90)).await;
    reserve_called(store).await;
    fixture.advance_and_promote(seconds(60)).await;
    let later = Patch { due: Some(Due::After(delay(seconds(3)))), ..Patch::default() };
    store.patch(ALL, &id("a"), later, None).await.expect("patches").expect("is not refused");
    fixture.advance_and_promote(seconds(3)).await;
    let held = reserve_called(store).await;
    let done = store.finish(ALL, finish(&id("a"), &held.receipt)).await.expect("answers");
    assert_eq!(done, [finished()]);
    assert_eq!(store.topic(&topic("t")).await.expect("reads"), None);
}

async fn dead_letters_belong_to_the_topic_and_return_to_their_outlets(fixture: StoreFixture) {
    let store = &*fixture.store;
    let other = other_url(store);
    let outlets = [plain("t"), outlet_to(store, "t", URL), outlet_to(store, "t", &other)];
    store.add(vec![job("p"), called("a", URL), called("b", &other)]).await.expect("adds");
    for outlet in &outlets {
        let held = one(reserve_all(store, outlet).await);
        store.bury(ALL, &held.job.id, &held.receipt, None).await.expect("answers").expect("is held");
        fixture.clock.advance(seconds(1));
    }
    assert_eq!(ids(&dead_of(store, "t").await), ["p", "a", "b"]);
    assert_eq!(requeue_oldest(store, "t", 2).await, 2);
    assert_eq!(delivered(store, &outlets[0]).await, ["p"]);
    assert_eq!(delivered(store, &outlets[1]).await, ["a"]);
    assert_eq!(delivered(store, &outlets[2]).await, [""; 0]);
    let left = one(dead_of(store, "t").await);
    let deleted =
        store.change(change(&SeenJob::new(&left.job), JobChange::Delete), None).await.expect("answers");
    assert_eq!(deleted, [true]);
    assert_eq!(store.get(ALL, &id("b")).await.expect("gets"), None);
}

async fn figures_are_those_of_the_topic(fixture: StoreFixture) {
    let store = &*fixture.store;
    let other = other_url(store);
    let start = fixture.now();
    add(store, called("oldest", URL)).await;
    fixture.clock.advance(seconds(1));
    store.add(vec![job("p"), called("b", &other), called("held", URL)]).await.expect("adds");
    let first = AddJob { due: Due::After(delay(seconds(10))), ..called("first", &other) };
    store.add(vec![delayed("later", seconds(20)), first]).await.expect("adds");
    add(store, AddJob { topic: topic("only-calls"), ..called("c", URL) }).await;
    let held =
        one(store.reserve(&outlet_to(store, "t", &other), &claims(1), Wait::No).await.expect("reserves"));
    assert_eq!(held.job.id, id("b"));
    let stats = store.topic(&topic("t")).await.expect("reads").expect("has jobs");
    assert_eq!((stats.delayed, stats.ready, stats.reserved, stats.dead), (2, 3, 1, 0));
    assert_eq!(stats.oldest_ready, Some(start));
    assert_eq!(stats.next_due, Some(start.after(seconds(11))));
    let listed = store.topics(ALL, None, 10).await.expect("lists");
    let counts: Vec<_> = listed
        .iter()
        .map(|(name, stats)| (name.as_str(), stats.delayed, stats.ready, stats.reserved))
        .collect();
    assert_eq!(counts, [("only-calls", 0, 1, 0), ("t", 2, 3, 1)]);
    store.bury(ALL, &id("b"), &held.receipt, None).await.expect("answers").expect("is held");
    store.delete(ALL, vec![id("oldest"), id("held"), id("c")], DeleteRule::AnyState).await.expect("deletes");
    let stats = store.topic(&topic("t")).await.expect("reads").expect("has jobs");
    assert_eq!((stats.delayed, stats.ready, stats.reserved, stats.dead), (2, 1, 0, 1));
    assert_eq!(
        store.topic(&topic("only-calls")).await.expect("reads"),
        None,
        "a topic without jobs is forgotten"
    );
}

async fn a_purge_deletes_the_jobs_of_every_outlet(fixture: StoreFixture) {
    let store = &*fixture.store;
    let other = other_url(store);
    for n in 0..8 {
        let jobs = [
            job(&format!("p{n}")),
            called(&format!("a{n}"), URL),
            called(&format!("b{n}"), &other),
            AddJob { due: Due::After(delay(seconds(9))), ..called(&format!("c{n}"), URL) },
            AddJob { topic: topic("u"), ..called(&format!("u{n}"), URL) },
        ];
        store.add(jobs.to_vec()).await.expect("adds");
    }
    let held = one(store.reserve(&outlet_to(store, "t", URL), &claims(1), Wait::No).await.expect("reserves"));
    store.bury(ALL, &held.job.id, &held.receipt, None).await.expect("answers").expect("is held");
    assert_eq!(purge(store, &topic("t"), 5).await.0, 32);
    assert_eq!(store.topic(&topic("t")).await.expect("reads"), None);
    assert_eq!(store.topic(&topic("u")).await.expect("reads").expect("has jobs").ready, 8);
    for outlet in [plain("t"), outlet_to(store, "t", URL), outlet_to(store, "t", &other)] {
        assert_eq!(delivered(store, &outlet).await, [""; 0]);
    }
}

async fn resuming_delivery_announces_every_outlet(fixture: StoreFixture) {
    let store = &*fixture.store;
    let delivery = PausedOperations { delivery: true, intake: false };
    store.add(vec![job("p"), called("a", URL)]).await.expect("adds");
    store.pause(&topic("t"), delivery, Pause::ENDLESS).await.expect("pauses");
    fixture.notifications.take_ready();
    store.resume(&topic("t"), delivery).await.expect("resumes");
    let ready = fixture.notifications.take_ready();
    assert!(ready.contains(&plain("t")) && ready.contains(&outlet_to(store, "t", URL)), "{ready:?}");
}

async fn outlets_are_known_after_the_store_is_opened_again(mut fixture: StoreFixture) {
    let other = other_url(&*fixture.store);
    let outlets = [plain("t"), outlet_to(&*fixture.store, "t", URL), outlet_to(&*fixture.store, "u", &other)];
    let jobs = vec![job("p"), called("a", URL), AddJob { topic: topic("u"), ..called("b", &other) }];
    fixture.store.add(jobs).await.expect("adds");
    let later = AddJob { due: Due::After(delay(seconds(5))), topic: topic("v"), ..called("c", URL) };
    add(&*fixture.store, later).await;
    let sorted = async |fixture: &StoreFixture| {
        let mut ready = fixture.store.ready_outlets().await.expect("lists");
        ready.sort();
        ready
    };
    assert_eq!(sorted(&fixture).await, outlets);
    fixture.reopen().await;
    let store = &*fixture.store;
    assert_eq!(outlet_to(store, "t", URL), outlets[1], "the same host has the same number");
    assert_eq!(sorted(&fixture).await, outlets);
    assert_eq!(delivered(store, &outlets[2]).await, ["b"]);
    assert_eq!(delivered(store, &outlets[1]).await, ["a"]);
    assert_eq!(delivered(store, &outlets[0]).await, ["p"]);
    assert_eq!(sorted(&fixture).await, []);
    fixture.advance_and_promote(seconds(5)).await;
    assert_eq!(delivered(store, &outlet_to(store, "v", URL)).await, ["c"]);
}

async fn scopes_and_moves_name_the_topic(fixture: StoreFixture) {
    let store = &*fixture.store;
    let (own, prefix, foreign) = (only(&["t"]), only(&["t*"]), only(&["u", "tt*"]));
    add(store, AddJob { spec: JobSpec { ttr: ttr(10), ..called("a", URL).spec }, ..called("a", URL) }).await;
    for scope in [&own, &prefix] {
        assert!(store.get(scope, &id("a")).await.expect("gets").is_some());
    }
    assert_eq!(store.get(&foreign, &id("a")).await.expect("gets"), None);
    assert_eq!(
        store.delete(&foreign, vec![id("a")], DeleteRule::AnyState).await.expect("answers"),
        [Err(Refusal::Gone)]
    );
    let held = reserve_called(store).await;
    let finished = store.finish(&foreign, finish(&id("a"), &held.receipt)).await.expect("answers");
    assert_eq!(finished, [Err(Refusal::Gone)]);
    store.touch(&own, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    fixture.clock.advance(seconds(10));
    let moves = store.promote(10).await.expect("promotes").moves;
    assert_eq!(
        moves.iter().map(|moved| (moved.topic.as_str(), moved.kind)).collect::<Vec<_>>(),
        [("t", MoveKind::TimedOut)]
    );
    assert_eq!(
        store.delete(&own, vec![id("a")], DeleteRule::AnyState).await.expect("answers"),
        [deleted(State::Ready)]
    );
}

async fn many_hosts_share_256_outlets(fixture: StoreFixture) {
    let store = &*fixture.store;
    let url = |n: usize| format!("http://host-{n}.example/");
    let job =
        |n: usize| AddJob { due: Due::After(delay(seconds(5))), ..called(&format!("job-{n}"), &url(n)) };
    store.add((0..600).map(job).collect()).await.expect("adds");
    fixture.advance_and_promote(seconds(5)).await;
    let stats = store.topic(&topic("t")).await.expect("reads").expect("has jobs");
    assert_eq!((stats.ready, stats.oldest_ready), (600, Some(fixture.now())));
    let outlets = store.ready_outlets().await.expect("lists");
    assert!(outlets.len() > 150 && outlets.len() <= 256, "{}", outlets.len());
    let mut seen = HashSet::new();
    for outlet in outlets {
        for grant in store.reserve(&outlet, &claims(20), Wait::No).await.expect("reserves") {
            let to = grant.job.spec.callback.as_ref().expect("has one").url.as_str().to_owned();
            assert_eq!(outlet_to(store, "t", &to), outlet);
            assert!(seen.insert(grant.job.id), "no job is delivered twice");
        }
    }
    assert_eq!(seen.len(), 600);
}
