//! Notifications: the listener is notified of every change that makes a job ready or due earlier, and the timer
//! gets the time to sleep.

use std::time::Duration;

use linger::{
    job::Due,
    store::{AddJob, MoveKind, Patch, Release, Steps, TopicUpdates},
};

use crate::harness::{jobs::*, lists::*, stores::StoreFixture, wait::StepLimit};

super::on_every_engine! {
    every_change_that_makes_a_job_ready_is_announced,
    whatever_is_due_sooner_nudges_the_timer,
    a_promotion_returns_its_moves,
    a_promotion_is_bounded_and_says_that_there_is_more,
    the_timer_never_oversleeps,
}

async fn assert_announced(fixture: &StoreFixture, what: &str) {
    assert!(fixture.notifications.take_ready().contains(&plain("t")), "{what} must be told");
}

async fn every_change_that_makes_a_job_ready_is_announced(fixture: StoreFixture) {
    add(&*fixture.store, delayed("a", seconds(5))).await;
    fixture.notifications.take_ready();
    fixture.advance_and_promote(seconds(5)).await;
    assert_announced(&fixture, "a delayed job that became due").await;
    let held = reserve(&*fixture.store).await;
    fixture.notifications.take_ready();
    let at_once = Release { due: Some(after(Duration::ZERO)), reason: None };
    fixture.store.release(ALL, &id("a"), &held.receipt, at_once).await.expect("answers").expect("is held");
    assert_announced(&fixture, "a release").await;
    let held = reserve(&*fixture.store).await;
    fixture.notifications.take_ready();
    fixture.store.cancel(vec![(id("a"), held.receipt)]).await.expect("cancels");
    assert_announced(&fixture, "a cancelled reservation").await;
    reserve(&*fixture.store).await;
    fixture.notifications.take_ready();
    fixture.advance_and_promote(seconds(60)).await;
    assert_announced(&fixture, "a TTR end").await;
    let held = reserve(&*fixture.store).await;
    fixture.store.bury(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    fixture.notifications.take_ready();
    fixture
        .store
        .requeue(ALL, &id("a"), after(Duration::ZERO), None)
        .await
        .expect("answers")
        .expect("is not refused");
    assert_announced(&fixture, "a requeue").await;
    let held = reserve(&*fixture.store).await;
    fixture.store.bury(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    fixture.notifications.take_ready();
    assert_eq!(requeue_oldest(&*fixture.store, "t", 10).await, 1);
    assert_announced(&fixture, "a requeue of a listed job").await;
    fixture.store.delete(ALL, vec![id("a")], DeleteRule::AnyState).await.expect("deletes");
    add(&*fixture.store, job("b")).await;
    assert_announced(&fixture, "an add without delay").await;
    add(&*fixture.store, delayed("c", seconds(100))).await;
    fixture.notifications.take_ready();
    let now = Patch { due: Some(Due::After(delay(Duration::ZERO))), ..Patch::default() };
    fixture.store.patch(ALL, &id("c"), now, None).await.expect("patches").expect("is not refused");
    assert_announced(&fixture, "a reschedule to now").await;
    fixture
        .store
        .pause(&topic("t"), PausedOperations { delivery: true, intake: true }, Pause::ENDLESS)
        .await
        .expect("puts");
    fixture.notifications.take_ready();
    fixture.store.resume(&topic("t"), PausedOperations::ALL).await.expect("puts");
    assert_announced(&fixture, "a resumed delivery").await;
}

/// Whether a notification came that wakes the timer in time for a job that is due in `wait`.
fn nudged(fixture: &StoreFixture, wait: Duration) -> bool {
    fixture.notifications.take_due_in().iter().any(|after| *after <= wait)
}

async fn whatever_is_due_sooner_nudges_the_timer(fixture: StoreFixture) {
    add(&*fixture.store, delayed("a", seconds(50))).await;
    assert!(nudged(&fixture, seconds(50)), "an add with a delay");
    let sooner = Patch { due: Some(Due::After(delay(seconds(20)))), ..Patch::default() };
    fixture.store.patch(ALL, &id("a"), sooner, None).await.expect("patches").expect("is not refused");
    assert!(nudged(&fixture, seconds(20)), "a reschedule");
    fixture.advance_and_promote(seconds(20)).await;
    fixture.notifications.take_due_in();
    let held =
        one(fixture.store.reserve(&plain("t"), &[claim_for(ttr(3))], Wait::No).await.expect("reserves"));
    assert!(nudged(&fixture, seconds(3)), "a reservation's deadline");
    fixture.store.touch(ALL, &id("a"), &held.receipt, Some(ttr(2))).await.expect("answers").expect("is held");
    assert!(nudged(&fixture, seconds(2)), "a touch");
    let later = Release { due: Some(after(seconds(1))), reason: None };
    fixture.store.release(ALL, &id("a"), &held.receipt, later).await.expect("answers").expect("is held");
    assert!(nudged(&fixture, seconds(1)), "a release with a delay");
}

async fn a_promotion_returns_its_moves(fixture: StoreFixture) {
    add(&*fixture.store, delayed("ready", seconds(10))).await;
    add(
        &*fixture.store,
        AddJob {
            topic: topic("u"),
            spec: JobSpec { ttr: ttr(10), ..JobSpec::default() },
            ..job("timed-out")
        },
    )
    .await;
    add(
        &*fixture.store,
        AddJob {
            topic: topic("v"),
            spec: JobSpec { ttr: ttr(10), max_attempts: 1, ..JobSpec::default() },
            ..job("died")
        },
    )
    .await;
    for name in ["u", "v"] {
        fixture.store.reserve(&plain(name), &claims(1), Wait::No).await.expect("reserves");
    }
    fixture.clock.advance(seconds(12));
    let promoted = fixture.store.promote(100).await.expect("promotes");
    let mut told: Vec<_> =
        promoted.moves.iter().map(|moved| (moved.topic.as_str(), moved.kind, moved.late)).collect();
    told.sort_by_key(|(name, _, _)| *name);
    let late = seconds(2);
    let expected =
        [("t", MoveKind::Ready, late), ("u", MoveKind::TimedOut, late), ("v", MoveKind::Died, late)];
    assert_eq!(told, expected);
    assert_eq!((promoted.more, promoted.set_aside), (false, 0));
    assert_eq!(fixture.store.promote(100).await.expect("promotes").moves, []);
}

async fn a_promotion_is_bounded_and_says_that_there_is_more(fixture: StoreFixture) {
    const LIMIT: usize = 64;
    let jobs: Vec<_> = (0..200).map(|n| delayed(&n.to_string(), seconds(1))).collect();
    fixture.store.add(jobs).await.expect("adds");
    fixture.clock.advance(seconds(1));
    let (mut moved, mut calls, mut step_limit) = (0, 0, StepLimit::new());
    loop {
        step_limit.step();
        let promoted = fixture.store.promote(LIMIT).await.expect("promotes");
        assert!(promoted.moves.len() <= 2 * LIMIT, "{} moves at once", promoted.moves.len());
        moved += promoted.moves.len();
        calls += 1;
        if !promoted.more {
            break;
        }
    }
    assert_eq!(moved, 200);
    assert!(calls >= 2);
}

async fn the_timer_never_oversleeps(fixture: StoreFixture) {
    for wait in [7_000, 1, 40_000, 200_000, 90] {
        add(&*fixture.store, delayed(&wait.to_string(), millis(wait))).await;
    }
    let (mut moved, mut looks) = (0, 0);
    while moved < 5 {
        let promoted = fixture.store.promote(100).await.expect("promotes");
        moved += promoted.moves.len();
        for step in &promoted.moves {
            assert_eq!(step.late, Duration::ZERO, "the sleep before was too long");
        }
        if moved == 5 {
            break;
        }
        let sleep = promoted.next_in.expect("something is left to wait for");
        assert!(sleep > Duration::ZERO || promoted.more, "no busy waiting");
        fixture.clock.advance(sleep);
        looks += 1;
        assert!(looks < 1_000, "and none in small steps");
    }
}
