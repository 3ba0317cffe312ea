//! Notifications: the listener is notified of every change that makes a job ready or due earlier, and the timer
//! gets the time to sleep.

use std::time::Duration;

use linger::{
    job::{Due, TopicPause},
    store::{AddJob, MoveKind, Patch, Release},
};

use crate::harness::{jobs::*, stores::Bench};

super::on_every_engine! {
    every_change_that_makes_a_job_ready_is_announced,
    whatever_is_due_sooner_nudges_the_timer,
    a_promotion_returns_its_moves,
    a_promotion_is_bounded_and_says_that_there_is_more,
    the_timer_never_oversleeps,
}

async fn assert_announced(bench: &Bench, what: &str) {
    assert!(bench.notifications.take_ready().contains(&topic("t")), "{what} must be told");
}

async fn every_change_that_makes_a_job_ready_is_announced(bench: Bench) {
    add(&*bench.store, delayed("a", seconds(5))).await;
    bench.notifications.take_ready();
    bench.pass(seconds(5)).await;
    assert_announced(&bench, "a delayed job that became due").await;
    let held = reserve(&*bench.store).await;
    bench.notifications.take_ready();
    let at_once = Release { delay: Some(delay(Duration::ZERO)), reason: None };
    bench.store.release(ALL, &id("a"), &held.receipt, at_once).await.expect("answers").expect("is held");
    assert_announced(&bench, "a release").await;
    let held = reserve(&*bench.store).await;
    bench.notifications.take_ready();
    bench.store.cancel(vec![(id("a"), held.receipt)]).await.expect("cancels");
    assert_announced(&bench, "a cancelled reservation").await;
    reserve(&*bench.store).await;
    bench.notifications.take_ready();
    bench.pass(seconds(60)).await;
    assert_announced(&bench, "a TTR end").await;
    let held = reserve(&*bench.store).await;
    bench.store.bury(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    bench.notifications.take_ready();
    bench.store.requeue(ALL, &id("a"), delay(Duration::ZERO)).await.expect("answers");
    assert_announced(&bench, "a requeue").await;
    let held = reserve(&*bench.store).await;
    bench.store.bury(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    bench.notifications.take_ready();
    bench.store.requeue_dead(&topic("t"), 10).await.expect("answers");
    assert_announced(&bench, "a bulk requeue").await;
    bench.store.delete(ALL, vec![id("a")]).await.expect("deletes");
    add(&*bench.store, job("b")).await;
    assert_announced(&bench, "an add without delay").await;
    add(&*bench.store, delayed("c", seconds(100))).await;
    bench.notifications.take_ready();
    let now = Patch { due: Some(Due::After(delay(Duration::ZERO))), ..Patch::default() };
    bench.store.patch(ALL, &id("c"), now).await.expect("patches");
    assert_announced(&bench, "a reschedule to now").await;
    bench
        .store
        .change_pause(&topic("t"), TopicPause { delivery: true, intake: true }, TopicPause::NONE)
        .await
        .expect("puts");
    bench.notifications.take_ready();
    bench.store.change_pause(&topic("t"), TopicPause::NONE, TopicPause::ALL).await.expect("puts");
    assert_announced(&bench, "a resumed delivery").await;
}

/// Whether a notification came that wakes the timer in time for a job that is due in `wait`.
fn nudged(bench: &Bench, wait: Duration) -> bool {
    bench.notifications.take_due_in().iter().any(|after| *after <= wait)
}

async fn whatever_is_due_sooner_nudges_the_timer(bench: Bench) {
    add(&*bench.store, delayed("a", seconds(50))).await;
    assert!(nudged(&bench, seconds(50)), "an add with a delay");
    let sooner = Patch { due: Some(Due::After(delay(seconds(20)))), ..Patch::default() };
    bench.store.patch(ALL, &id("a"), sooner).await.expect("patches");
    assert!(nudged(&bench, seconds(20)), "a reschedule");
    bench.pass(seconds(20)).await;
    bench.notifications.take_due_in();
    let held = one(bench.store.reserve(&topic("t"), &[Some(ttr(3))], Wait::No).await.expect("reserves"));
    assert!(nudged(&bench, seconds(3)), "a reservation's deadline");
    bench.store.touch(ALL, &id("a"), &held.receipt, Some(ttr(2))).await.expect("answers").expect("is held");
    assert!(nudged(&bench, seconds(2)), "a touch");
    let later = Release { delay: Some(delay(seconds(1))), reason: None };
    bench.store.release(ALL, &id("a"), &held.receipt, later).await.expect("answers").expect("is held");
    assert!(nudged(&bench, seconds(1)), "a release with a delay");
}

async fn a_promotion_returns_its_moves(bench: Bench) {
    add(&*bench.store, delayed("ready", seconds(10))).await;
    add(&*bench.store, AddJob { ttr: ttr(10), topic: topic("u"), ..job("expired") }).await;
    add(&*bench.store, AddJob { ttr: ttr(10), topic: topic("v"), max_attempts: 1, ..job("died") }).await;
    for name in ["u", "v"] {
        bench.store.reserve(&topic(name), &[None], Wait::No).await.expect("reserves");
    }
    bench.clock.advance(seconds(12));
    let promoted = bench.store.promote(100).await.expect("promotes");
    let mut told: Vec<_> =
        promoted.moves.iter().map(|moved| (moved.topic.as_str(), moved.kind, moved.late)).collect();
    told.sort_by_key(|(name, _, _)| *name);
    let late = seconds(2);
    let expected =
        [("t", MoveKind::Ready, late), ("u", MoveKind::Expired, late), ("v", MoveKind::Died, late)];
    assert_eq!(told, expected);
    assert_eq!((promoted.more, promoted.set_aside), (false, 0));
    assert_eq!(bench.store.promote(100).await.expect("promotes").moves, []);
}

async fn a_promotion_is_bounded_and_says_that_there_is_more(bench: Bench) {
    let jobs: Vec<_> = (0..200).map(|n| delayed(&n.to_string(), seconds(1))).collect();
    bench.store.add(jobs).await.expect("adds");
    bench.clock.advance(seconds(1));
    let (mut moved, mut calls) = (0, 0);
    loop {
        let promoted = bench.store.promote(64).await.expect("promotes");
        assert!(promoted.moves.len() <= 128, "about as many as asked: {}", promoted.moves.len());
        moved += promoted.moves.len();
        calls += 1;
        if !promoted.more {
            break;
        }
    }
    assert_eq!(moved, 200);
    assert!(calls >= 2);
}

async fn the_timer_never_oversleeps(bench: Bench) {
    for wait in [7_000, 1, 40_000, 200_000, 90] {
        add(&*bench.store, delayed(&wait.to_string(), millis(wait))).await;
    }
    let (mut moved, mut looks) = (0, 0);
    while moved < 5 {
        let promoted = bench.store.promote(100).await.expect("promotes");
        moved += promoted.moves.len();
        for step in &promoted.moves {
            assert_eq!(step.late, Duration::ZERO, "the sleep before was too long");
        }
        if moved == 5 {
            break;
        }
        let sleep = promoted.next_in.expect("something is left to wait for");
        assert!(sleep > Duration::ZERO || promoted.more, "no busy waiting");
        bench.clock.advance(sleep);
        looks += 1;
        assert!(looks < 1_000, "and none in small steps");
    }
}
