//! Dead letters: requeue, lists, bulk steps and retention.

use linger::{
    job::{Delay, Job, State},
    store::{AddJob, DeadCursor, MoveKind, Requeued},
};

use crate::harness::{
    jobs::*,
    stores::{Bench, Engine, Settings},
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
async fn bury(bench: &Bench, names: &[&str]) {
    for name in names {
        bench.clock.advance(seconds(1));
        add(&*bench.store, job(name)).await;
        let held = reserve(&*bench.store).await;
        bench.store.bury(ALL, &held.job.id, &held.receipt, None).await.expect("answers").expect("is held");
    }
}

async fn dead(bench: &Bench) -> Vec<Job> {
    bench.store.dead(&topic("t"), None, 100).await.expect("lists")
}

fn names(jobs: &[Job]) -> Vec<&str> {
    jobs.iter().map(|job| job.id.as_str()).collect()
}

async fn a_requeued_job_starts_again(bench: Bench) {
    bury(&bench, &["a", "b"]).await;
    let done = bench.store.requeue(ALL, &id("a"), Delay::default()).await.expect("answers");
    let Requeued::Done(ready) = done else { panic!("{done:?}") };
    assert_eq!((ready.state, ready.attempts, ready.due_at), (State::Ready, 0, bench.now()));
    assert_eq!((ready.reason.clone(), ready.dead_at), (None, None));
    assert_eq!(bench.store.get(ALL, &id("a")).await.expect("gets"), Some(ready));
    assert_eq!(reserve(&*bench.store).await.job.attempts, 1);
    let done = bench.store.requeue(ALL, &id("b"), delay(seconds(30))).await.expect("answers");
    let Requeued::Done(later) = done else { panic!("{done:?}") };
    assert_eq!((later.state, later.due_at), (State::Delayed, bench.now().after(seconds(30))));
    assert_eq!(dead(&bench).await, []);
    bench.pass(seconds(30)).await;
    assert_eq!(reserve(&*bench.store).await.job.id, id("b"));
}

async fn only_a_dead_job_is_requeued(bench: Bench) {
    assert_eq!(bench.store.requeue(ALL, &id("a"), Delay::default()).await.expect("answers"), Requeued::Gone);
    add(&*bench.store, delayed("a", seconds(1))).await;
    for state in [State::Delayed, State::Ready, State::Reserved] {
        let before = bench.store.get(ALL, &id("a")).await.expect("gets");
        let refused = bench.store.requeue(ALL, &id("a"), Delay::default()).await.expect("answers");
        assert_eq!(refused, Requeued::NotDead(state));
        assert_eq!(bench.store.get(ALL, &id("a")).await.expect("gets"), before);
        bench.pass(seconds(1)).await;
        if state == State::Ready {
            reserve(&*bench.store).await;
        }
    }
}

async fn dead_letters_are_listed_by_time_of_death(bench: Bench) {
    bury(&bench, &["c", "a", "b"]).await;
    // Two that die in the same millisecond are ordered by id.
    let twins = ["z", "y"].map(|name| AddJob { max_attempts: 1, ttr: ttr(1), ..job(name) });
    bench.store.add(twins.to_vec()).await.expect("adds");
    bench.store.reserve(&topic("t"), &[None, None], Wait::No).await.expect("reserves");
    bench.pass(seconds(1)).await;
    let all = dead(&bench).await;
    assert_eq!(names(&all), ["c", "a", "b", "y", "z"]);
    assert!(all.iter().all(|job| job.state == State::Dead && job.dead_at.is_some()));
    let mut walked = Vec::new();
    let mut after = None;
    loop {
        let page = bench.store.dead(&topic("t"), after.as_ref(), 2).await.expect("lists");
        let Some(last) = page.last() else { break };
        after = Some(DeadCursor { dead_at: last.dead_at.expect("is dead"), id: last.id.clone() });
        walked.extend(page);
    }
    assert_eq!(walked, all, "page by page it is the same list");
    assert_eq!(bench.store.dead(&topic("u"), None, 10).await.expect("lists"), []);
}

async fn the_oldest_are_requeued_first(bench: Bench) {
    bury(&bench, &["a", "b", "c"]).await;
    assert_eq!(bench.store.requeue_dead(&topic("t"), 2).await.expect("requeues"), 2);
    assert_eq!(names(&dead(&bench).await), ["c"]);
    let ready = bench.store.reserve(&topic("t"), &[None; 5], Wait::No).await.expect("reserves");
    assert!(ready.iter().all(|r| r.job.attempts == 1 && r.job.reason.is_none()));
    assert_eq!(ready.len(), 2);
    assert_eq!(bench.store.requeue_dead(&topic("t"), 10).await.expect("requeues"), 1);
    assert_eq!(bench.store.requeue_dead(&topic("t"), 10).await.expect("requeues"), 0);
}

async fn the_oldest_are_deleted_first(bench: Bench) {
    bury(&bench, &["b", "a", "c"]).await;
    assert_eq!(bench.store.delete_dead(&topic("t"), 2).await.expect("deletes"), 2);
    assert_eq!(names(&dead(&bench).await), ["c"]);
    assert_eq!(bench.store.get(ALL, &id("a")).await.expect("gets"), None);
    assert_eq!(bench.store.delete_dead(&topic("t"), 10).await.expect("deletes"), 1);
    assert_eq!(bench.store.topic(&topic("t")).await.expect("reads"), None);
}

async fn without_a_retention_a_dead_letter_stays(bench: Bench) {
    bury(&bench, &["a"]).await;
    bench.pass(seconds(20 * 366 * 86_400)).await;
    assert_eq!(names(&dead(&bench).await), ["a"]);
}

async fn a_retention_lets_dead_letters_go_at_its_end(bench: Bench) {
    bury(&bench, &["a", "b"]).await;
    bench.store.requeue(ALL, &id("b"), delay(seconds(500))).await.expect("answers");
    bench.pass(millis(98_999)).await;
    assert_eq!(names(&dead(&bench).await), ["a"]);
    bench.clock.advance(millis(1));
    let promoted = bench.store.promote(100).await.expect("promotes");
    assert_eq!(one(promoted.moves).kind, MoveKind::Forgotten);
    assert_eq!(bench.store.get(ALL, &id("a")).await.expect("gets"), None);
    bench.pass(seconds(200)).await;
    assert_eq!(bench.store.get(ALL, &id("b")).await.expect("gets").expect("is there").state, State::Delayed);
}

async fn with_retention(engine: Engine) {
    let settings = Settings { dead_retention: Some(seconds(100)) };
    Bench::run_with(engine, settings, a_retention_lets_dead_letters_go_at_its_end).await;
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
