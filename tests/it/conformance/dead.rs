//! Dead letters: requeue, lists, bulk steps and retention.

use linger::{
    job::{Delay, Job, State},
    store::{AddJob, DeadCursor, MoveKind, Requeued},
};

use crate::harness::{
    jobs::*,
    stores::{Engine, Settings, StoreFixture},
};

super::on_every_engine! {
    a_requeued_job_starts_again,
    only_a_dead_job_is_requeued,
    dead_letters_are_listed_by_time_of_death,
    the_oldest_are_requeued_first,
    the_oldest_are_deleted_first,
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

async fn dead(fixture: &StoreFixture) -> Vec<Job> {
    fixture.store.dead(&topic("t"), None, 100).await.expect("lists")
}

fn names(jobs: &[Job]) -> Vec<&str> {
    jobs.iter().map(|job| job.id.as_str()).collect()
}

async fn a_requeued_job_starts_again(fixture: StoreFixture) {
    bury(&fixture, &["a", "b"]).await;
    let done = fixture.store.requeue(ALL, &id("a"), Delay::default(), None).await.expect("answers");
    let Requeued::Done(ready) = done else { panic!("{done:?}") };
    assert_eq!((ready.state, ready.attempts, ready.due_at), (State::Ready, 0, fixture.now()));
    assert_eq!((ready.reason.clone(), ready.dead_at), (None, None));
    assert_eq!(fixture.store.get(ALL, &id("a")).await.expect("gets"), Some(ready));
    assert_eq!(reserve(&*fixture.store).await.job.attempts, 1);
    let done = fixture.store.requeue(ALL, &id("b"), delay(seconds(30)), None).await.expect("answers");
    let Requeued::Done(later) = done else { panic!("{done:?}") };
    assert_eq!((later.state, later.due_at), (State::Delayed, fixture.now().after(seconds(30))));
    assert_eq!(dead(&fixture).await, []);
    fixture.advance_and_promote(seconds(30)).await;
    assert_eq!(reserve(&*fixture.store).await.job.id, id("b"));
}

async fn only_a_dead_job_is_requeued(fixture: StoreFixture) {
    assert_eq!(
        fixture.store.requeue(ALL, &id("a"), Delay::default(), None).await.expect("answers"),
        Requeued::Gone
    );
    add(&*fixture.store, delayed("a", seconds(1))).await;
    for state in [State::Delayed, State::Ready, State::Reserved] {
        let before = fixture.store.get(ALL, &id("a")).await.expect("gets");
        let refused = fixture.store.requeue(ALL, &id("a"), Delay::default(), None).await.expect("answers");
        assert_eq!(refused, Requeued::NotDead(state));
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
    let twins = ["z", "y"].map(|name| AddJob { max_attempts: 1, ttr: ttr(1), ..job(name) });
    fixture.store.add(twins.to_vec()).await.expect("adds");
    fixture.store.reserve(&plain("t"), &claims(2), Wait::No).await.expect("reserves");
    fixture.advance_and_promote(seconds(1)).await;
    let all = dead(&fixture).await;
    assert_eq!(names(&all), ["c", "a", "b", "y", "z"]);
    assert!(all.iter().all(|job| job.state == State::Dead && job.dead_at.is_some()));
    let mut walked = Vec::new();
    let mut after = None;
    loop {
        let page = fixture.store.dead(&topic("t"), after.as_ref(), 2).await.expect("lists");
        let Some(last) = page.last() else { break };
        after = Some(DeadCursor { dead_at: last.dead_at.expect("is dead"), id: last.id.clone() });
        walked.extend(page);
    }
    assert_eq!(walked, all, "page by page it is the same list");
    assert_eq!(fixture.store.dead(&topic("u"), None, 10).await.expect("lists"), []);
}

async fn the_oldest_are_requeued_first(fixture: StoreFixture) {
    bury(&fixture, &["a", "b", "c"]).await;
    assert_eq!(fixture.store.requeue_dead(&topic("t"), 2).await.expect("requeues"), 2);
    assert_eq!(names(&dead(&fixture).await), ["c"]);
    let ready = fixture.store.reserve(&plain("t"), &claims(5), Wait::No).await.expect("reserves");
    assert!(ready.iter().all(|r| r.job.attempts == 1 && r.job.reason.is_none()));
    assert_eq!(ready.len(), 2);
    assert_eq!(fixture.store.requeue_dead(&topic("t"), 10).await.expect("requeues"), 1);
    assert_eq!(fixture.store.requeue_dead(&topic("t"), 10).await.expect("requeues"), 0);
}

async fn the_oldest_are_deleted_first(fixture: StoreFixture) {
    bury(&fixture, &["b", "a", "c"]).await;
    assert_eq!(fixture.store.delete_dead(&topic("t"), 2).await.expect("deletes"), 2);
    assert_eq!(names(&dead(&fixture).await), ["c"]);
    assert_eq!(fixture.store.get(ALL, &id("a")).await.expect("gets"), None);
    assert_eq!(fixture.store.delete_dead(&topic("t"), 10).await.expect("deletes"), 1);
    assert_eq!(fixture.store.topic(&topic("t")).await.expect("reads"), None);
}

async fn without_a_retention_a_dead_letter_stays(fixture: StoreFixture) {
    bury(&fixture, &["a"]).await;
    fixture.advance_and_promote(seconds(20 * 366 * 86_400)).await;
    assert_eq!(names(&dead(&fixture).await), ["a"]);
}

async fn a_retention_lets_dead_letters_go_at_its_end(fixture: StoreFixture) {
    bury(&fixture, &["a", "b"]).await;
    fixture.store.requeue(ALL, &id("b"), delay(seconds(500)), None).await.expect("answers");
    fixture.advance_and_promote(millis(98_999)).await;
    assert_eq!(names(&dead(&fixture).await), ["a"]);
    fixture.clock.advance(millis(1));
    let promoted = fixture.store.promote(100).await.expect("promotes");
    assert_eq!(one(promoted.moves).kind, MoveKind::Forgotten);
    assert_eq!(fixture.store.get(ALL, &id("a")).await.expect("gets"), None);
    fixture.advance_and_promote(seconds(200)).await;
    assert_eq!(
        fixture.store.get(ALL, &id("b")).await.expect("gets").expect("is there").state,
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
