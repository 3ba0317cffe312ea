//! Dead letters: requeue, their list and retention.

use linger::{
    job::{Due, State, Timestamp},
    store::{AddJob, ListPosition, ListedJob, MoveKind, Order, Refusal, Steps, moment_of},
};

use super::listing::bury_these;
use crate::harness::{
    jobs::*,
    lists::*,
    stores::{Engine, Settings, StoreFixture},
};

super::on_every_engine! {
    dead_letters_are_listed_by_time_of_death,
    the_list_of_a_topic_continues_behind_any_dead_letter;
    a_requeued_job_starts_again,
    a_job_is_requeued_until_a_moment,
    only_a_dead_job_is_requeued,
    without_a_retention_a_dead_letter_stays,
}

/// Makes dead letters of topic `t`, a second apart.
async fn bury(fixture: &StoreFixture, names: &[&str]) {
    for name in names {
        fixture.clock.advance(seconds(1));
        add(&*fixture.store, job(name)).await;
        let held = reserve(&*fixture.store).await;
        fixture.store.bury(ALL, &held.job.id, &held.receipt, None).await.expect("answers").expect("is held");
    }
}

async fn dead(fixture: &StoreFixture) -> Vec<ListedJob> {
    dead_of(&*fixture.store, "t").await
}

async fn a_requeued_job_starts_again(fixture: StoreFixture) {
    bury(&fixture, &["a", "b"]).await;
    let done = fixture.store.requeue(ALL, &id("a"), Due::default(), None).await.expect("answers");
    let Ok(ready) = done else { panic!("{done:?}") };
    assert_eq!((ready.state(), ready.attempts, ready.due_at), (State::Ready, 0, fixture.now()));
    assert_eq!((ready.reason.clone(), ready.dead_at()), (None, None));
    assert_eq!(fixture.store.get(ALL, &id("a")).await.expect("gets"), Some(ready));
    assert_eq!(reserve(&*fixture.store).await.job.attempts, 1);
    let done = fixture.store.requeue(ALL, &id("b"), after(seconds(30)), None).await.expect("answers");
    let Ok(later) = done else { panic!("{done:?}") };
    assert_eq!((later.state(), later.due_at), (State::Delayed, fixture.now().after(seconds(30))));
    assert_eq!(dead(&fixture).await, []);
    fixture.advance_and_promote(seconds(30)).await;
    assert_eq!(reserve(&*fixture.store).await.job.id, id("b"));
}

async fn a_job_is_requeued_until_a_moment(fixture: StoreFixture) {
    bury(&fixture, &["a", "b"]).await;
    let moment = fixture.now().after(millis(7_001));
    fixture.notifications.take_due_in();
    let done = fixture.store.requeue(ALL, &id("a"), Due::At(moment), None).await.expect("answers");
    let Ok(later) = done else { panic!("{done:?}") };
    assert_eq!((later.state(), later.due_at, later.attempts), (State::Delayed, moment, 0));
    assert!(fixture.notifications.take_due_in().contains(&millis(7_001)), "the timer wakes for it");
    fixture.advance_and_promote(millis(7_000)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None, "never early");
    fixture.advance_and_promote(millis(2)).await;
    assert_eq!(reserve(&*fixture.store).await.job.id, id("a"));
    fixture.notifications.take_ready();
    let done = fixture.store.requeue(ALL, &id("b"), Due::At(moment), None).await.expect("answers");
    let Ok(at_once) = done else { panic!("{done:?}") };
    assert_eq!((at_once.state(), at_once.due_at), (State::Ready, fixture.now()), "the moment has passed");
    assert!(fixture.notifications.take_ready().contains(&plain("t")), "workers get it");
}

async fn only_a_dead_job_is_requeued(fixture: StoreFixture) {
    assert_eq!(
        fixture.store.requeue(ALL, &id("a"), Due::default(), None).await.expect("answers"),
        Err(Refusal::Gone)
    );
    add(&*fixture.store, delayed("a", seconds(1))).await;
    for state in [State::Delayed, State::Ready, State::Reserved] {
        let before = fixture.store.get(ALL, &id("a")).await.expect("gets");
        let refused = fixture.store.requeue(ALL, &id("a"), Due::default(), None).await.expect("answers");
        assert_eq!(refused, Err(Refusal::InState(state)));
        assert_eq!(fixture.store.get(ALL, &id("a")).await.expect("gets"), before);
        fixture.advance_and_promote(seconds(1)).await;
        if state == State::Ready {
            reserve(&*fixture.store).await;
        }
    }
}

async fn dead_letters_are_listed_by_time_of_death(fixture: StoreFixture) {
    bury(&fixture, &["c", "a", "b"]).await;
    // Two that die in the same millisecond are ordered by id.
    let twins = ["z", "y"].map(|name| AddJob {
        spec: JobSpec { max_attempts: 1, ttr: ttr(1), ..JobSpec::default() },
        ..job(name)
    });
    fixture.store.add(twins.to_vec()).await.expect("adds");
    fixture.store.reserve(&plain("t"), &claims(2), Wait::No).await.expect("reserves");
    fixture.advance_and_promote(seconds(1)).await;
    let all = dead(&fixture).await;
    assert_eq!(ids(&all), ["c", "a", "b", "y", "z"]);
    assert!(all.iter().all(|listed| listed.job.state() == State::Dead && listed.job.dead_at().is_some()));
    assert_eq!(walk(&*fixture.store, &dead_filter("t"), Order::Ascending, 2).await, all, "page by page");
    assert_eq!(dead_of(&*fixture.store, "u").await, []);
}

async fn the_list_of_a_topic_continues_behind_any_dead_letter(fixture: StoreFixture) {
    let store = &*fixture.store;
    for names in [&["b"][..], &["d", "c", "a"], &["e"]] {
        let adds: Vec<_> = names.iter().map(|name| job(name)).collect();
        bury_these(store, &adds, None).await;
        fixture.clock.advance(millis(2));
    }
    let all = dead(&fixture).await;
    assert_eq!(ids(&all), ["b", "a", "c", "d", "e"]);
    let behind = async |dead_at: Timestamp, name: &str, order: Order| {
        let position = ListPosition::behind_dead_letter(dead_at, &id(name));
        let page = store.list(&dead_filter("t"), order, Some(&position), 10).await.expect("lists");
        assert_eq!(page.next, None);
        page.jobs
    };
    let dead_at = |n: usize| moment_of(&all[n].job);
    // The last round finds no dead letter at the position.
    for is_gone in [false, true] {
        if is_gone {
            store.delete(ALL, vec![id("c")], DeleteRule::AnyState).await.expect("deletes");
        }
        let left = |range: std::ops::Range<usize>| {
            let jobs = all[range].iter().filter(|listed| !is_gone || listed.job.id != id("c"));
            jobs.cloned().collect::<Vec<_>>()
        };
        for (n, listed) in all.iter().enumerate() {
            let name = listed.job.id.as_str();
            assert_eq!(behind(dead_at(n), name, Order::Ascending).await, left(n + 1..5), "behind {name}");
            let before = in_order(left(0..n), Order::Descending);
            assert_eq!(behind(dead_at(n), name, Order::Descending).await, before, "before {name}");
        }
        assert_eq!(behind(dead_at(0), "z", Order::Ascending).await, left(1..5), "an id that never was");
        assert_eq!(
            behind(dead_at(0).after(millis(1)), "a", Order::Ascending).await,
            left(1..5),
            "no such time"
        );
        assert_eq!(behind(Timestamp::from_millis(0), "z", Order::Ascending).await, left(0..5));
        assert_eq!(behind(Timestamp::MAX, "a", Order::Ascending).await, []);
    }
}

async fn without_a_retention_a_dead_letter_stays(fixture: StoreFixture) {
    bury(&fixture, &["a"]).await;
    fixture.advance_and_promote(seconds(20 * 366 * 86_400)).await;
    assert_eq!(ids(&dead(&fixture).await), ["a"]);
}

async fn a_retention_lets_dead_letters_go_at_its_end(fixture: StoreFixture) {
    bury(&fixture, &["a", "b"]).await;
    fixture
        .store
        .requeue(ALL, &id("b"), after(seconds(500)), None)
        .await
        .expect("answers")
        .expect("is not refused");
    fixture.advance_and_promote(millis(98_999)).await;
    assert_eq!(ids(&dead(&fixture).await), ["a"]);
    fixture.clock.advance(millis(1));
    let promoted = fixture.store.promote(100).await.expect("promotes");
    assert_eq!(one(promoted.moves).kind, MoveKind::Forgotten);
    assert_eq!(fixture.store.get(ALL, &id("a")).await.expect("gets"), None);
    fixture.advance_and_promote(seconds(200)).await;
    assert_eq!(
        fixture.store.get(ALL, &id("b")).await.expect("gets").expect("is there").state(),
        State::Delayed
    );
}

async fn with_retention(engine: Engine) {
    let settings = Settings { dead_retention: Some(seconds(100)), ..Settings::default() };
    StoreFixture::run_with(engine, settings, a_retention_lets_dead_letters_go_at_its_end).await;
}

#[tokio::test]
async fn a_retention_lets_dead_letters_go_at_its_end_naive() {
    with_retention(Engine::Naive).await;
}

#[tokio::test]
async fn a_retention_lets_dead_letters_go_at_its_end_embedded() {
    with_retention(Engine::Embedded).await;
}

#[tokio::test]
async fn a_retention_lets_dead_letters_go_at_its_end_redis() {
    with_retention(Engine::Redis).await;
}

#[tokio::test]
async fn a_retention_lets_dead_letters_go_at_its_end_cluster() {
    with_retention(Engine::Cluster).await;
}
