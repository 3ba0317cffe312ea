//! Reserving: which jobs, in which order, once, and for how long.

use std::collections::HashSet;

use linger::{
    job::{History, JobSpec, State, Ttr},
    store::{AddJob, Patch, Refusal, Release, Steps},
};

use crate::harness::{jobs::*, stores::StoreFixture};

super::on_every_engine! {
    a_single_topic_is_served_about_by_due_time,
    every_ready_job_is_reached_once_in_a_burst,
    deleted_heads_do_not_make_a_queue_look_empty;
    a_reservation_counts_an_attempt_and_carries_a_fresh_receipt,
    nothing_ready_is_an_empty_answer,
    a_reserved_job_is_not_reserved_again,
    each_reservation_lasts_as_asked,
    lateness_and_wait_are_distinguished,
    lateness_counts_from_the_latest_due_time,
    a_cancelled_reservation_leaves_no_trace,
    a_postponed_job_comes_behind_the_others_and_keeps_its_attempts,
    a_stale_cancel_changes_nothing,
    fault_a_client_that_goes_away_burns_no_attempt,
}

async fn a_reservation_counts_an_attempt_and_carries_a_fresh_receipt(fixture: StoreFixture) {
    let added = add(&*fixture.store, job("a")).await;
    let first = reserve(&*fixture.store).await;
    assert_eq!((first.job.state(), first.job.attempts), (State::Reserved, 1));
    assert_eq!(first.job.reserved_until(), Some(fixture.now().after(seconds(60))));
    assert_eq!((first.job.due_at, &first.job.body), (added.due_at, &added.body));
    assert_eq!(fixture.store.get(ALL, &id("a")).await.expect("gets"), Some(first.job));
    fixture.advance_and_promote(seconds(60)).await;
    let second = reserve(&*fixture.store).await;
    assert_eq!(second.job.attempts, 2);
    assert_ne!(second.receipt, first.receipt);
}

async fn nothing_ready_is_an_empty_answer(fixture: StoreFixture) {
    assert_eq!(
        fixture.store.reserve(&plain("unheard-of"), &claims(2), Wait::No).await.expect("reserves"),
        []
    );
    add(&*fixture.store, delayed("a", seconds(5))).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
    assert_eq!(
        fixture.store.reserve(&plain("T"), &claims(1), Wait::No).await.expect("reserves"),
        [],
        "topics keep their case"
    );
}

async fn a_reserved_job_is_not_reserved_again(fixture: StoreFixture) {
    add(&*fixture.store, job("a")).await;
    add(&*fixture.store, AddJob { topic: topic("u"), ..job("b") }).await;
    let jobs = fixture.store.reserve(&plain("t"), &claims(5), Wait::No).await.expect("reserves");
    assert_eq!(one(jobs).job.id, id("a"));
    fixture.advance_and_promote(seconds(59)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
    let other = fixture.store.reserve(&plain("u"), &claims(5), Wait::No).await.expect("reserves");
    assert_eq!(one(other).job.id, id("b"));
}

async fn each_reservation_lasts_as_asked(fixture: StoreFixture) {
    for n in 0..3 {
        add(
            &*fixture.store,
            AddJob { spec: JobSpec { ttr: ttr(30), ..JobSpec::default() }, ..job(&n.to_string()) },
        )
        .await;
    }
    let asked = [claim_for(ttr(5)), Claim::default(), claim_for(Ttr::new(Ttr::MAX).expect("valid"))];
    let jobs = fixture.store.reserve(&plain("t"), &asked, Wait::No).await.expect("reserves");
    let until: Vec<_> = jobs.iter().map(|r| r.job.reserved_until().expect("is reserved")).collect();
    assert_eq!(until, [5, 30, 30 * 86_400].map(|n| fixture.now().after(seconds(n))));
    assert!(jobs.iter().all(|r| r.job.spec.ttr == ttr(30)), "the job's own TTR stays");
    fixture.advance_and_promote(seconds(5)).await;
    assert_eq!(reserve(&*fixture.store).await.job.id, jobs[0].job.id);
    assert_eq!(reserve_any(&*fixture.store).await, None);
}

/// The order is exact on one shard and approximate over several, so the due times here are far enough apart for
/// every engine.
async fn a_single_topic_is_served_about_by_due_time(fixture: StoreFixture) {
    for n in [3, 1, 2] {
        add(&*fixture.store, delayed(&n.to_string(), seconds(n))).await;
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        fixture.advance_and_promote(seconds(1)).await;
        seen.push(reserve(&*fixture.store).await.job.id);
    }
    assert_eq!(seen, [id("1"), id("2"), id("3")]);
}

async fn every_ready_job_is_reached_once_in_a_burst(fixture: StoreFixture) {
    let jobs: Vec<_> = (0..2_000).map(|n| delayed(&format!("job-{n}"), seconds(9))).collect();
    for batch in jobs.chunks(500) {
        fixture.store.add(batch.to_vec()).await.expect("adds");
    }
    fixture.advance_and_promote(seconds(9)).await;
    let mut seen = HashSet::new();
    loop {
        let wanted = if seen.len() % 2 == 0 { 7 } else { 64 };
        let got = fixture.store.reserve(&plain("t"), &claims(wanted), Wait::No).await.expect("reserves");
        let short = got.len() < wanted;
        for reservation in got {
            assert!(seen.insert(reservation.job.id.clone()), "{} was handed out twice", reservation.job.id);
        }
        if short {
            break;
        }
    }
    assert_eq!(seen.len(), 2_000, "a short answer means that nothing is left");
}

async fn deleted_heads_do_not_make_a_queue_look_empty(fixture: StoreFixture) {
    let names: Vec<_> = (0..300).map(|n| n.to_string()).collect();
    for name in &names {
        add(&*fixture.store, job(name)).await;
    }
    let gone: Vec<_> = names[..299].iter().map(|name| id(name)).collect();
    fixture.store.delete(ALL, gone, DeleteRule::AnyState).await.expect("deletes");
    assert_eq!(reserve(&*fixture.store).await.job.id, id("299"));
    assert_eq!(reserve_any(&*fixture.store).await, None);
}

async fn lateness_and_wait_are_distinguished(fixture: StoreFixture) {
    add(&*fixture.store, delayed("a", seconds(10))).await;
    fixture.clock.advance(seconds(12));
    promote(&*fixture.store).await;
    fixture.clock.advance(seconds(3));
    let reserved = reserve(&*fixture.store).await;
    assert_eq!((reserved.late, reserved.waited), (seconds(5), seconds(3)));
}

async fn lateness_counts_from_the_latest_due_time(fixture: StoreFixture) {
    let store = &*fixture.store;
    let spec = JobSpec { retry: retry(&[10]), ..JobSpec::default() };
    add(store, AddJob { spec, ..job("a") }).await;
    let first = reserve(store).await;
    let released = store.release(ALL, &id("a"), &first.receipt, Release::default()).await.expect("answers");
    released.expect("releases");
    fixture.advance_and_promote(seconds(12)).await;
    assert_eq!(reserve(store).await.late, seconds(2), "after the step of the retry schedule");
    fixture.advance_and_promote(seconds(60)).await;
    fixture.advance_and_promote(seconds(13)).await;
    let third = reserve(store).await;
    assert_eq!(third.late, seconds(3), "after the end of the TTR, and the same step");
    let later = Release { due: Some(after(seconds(100))), reason: None };
    store.release(ALL, &id("a"), &third.receipt, later).await.expect("answers").expect("releases");
    let sooner = Patch { due: Some(after(seconds(5))), ..Patch::default() };
    store.patch(ALL, &id("a"), sooner, None).await.expect("answers").expect("patches");
    fixture.advance_and_promote(seconds(9)).await;
    let fourth = reserve(store).await;
    assert_eq!(fourth.late, seconds(4), "after it was rescheduled");
    store.cancel(vec![(id("a"), fourth.receipt)]).await.expect("cancels");
    fixture.clock.advance(seconds(7));
    assert_eq!(reserve(store).await.late, seconds(11), "a delivery that reached no worker does not count");
}

async fn a_cancelled_reservation_leaves_no_trace(fixture: StoreFixture) {
    let added = add(&*fixture.store, job("a")).await;
    fixture.clock.advance(seconds(1));
    let reserved = reserve(&*fixture.store).await;
    fixture.store.cancel(vec![(id("a"), reserved.receipt.clone())]).await.expect("cancels");
    assert_eq!(fixture.store.get(ALL, &id("a")).await.expect("gets"), Some(added), "as before");
    let late = fixture.store.finish(ALL, finish(&id("a"), &reserved.receipt)).await.expect("answers");
    assert_eq!(late, [Err(Refusal::Lost)]);
    let again = reserve(&*fixture.store).await;
    assert_eq!(again.job.attempts, 1);
    assert_ne!(again.receipt, reserved.receipt);
}

async fn a_postponed_job_comes_behind_the_others_and_keeps_its_attempts(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, AddJob { spec: JobSpec { max_attempts: 1, ..JobSpec::default() }, ..job("a") }).await;
    let held = reserve(store).await;
    add(store, job("b")).await;
    store.postpone(vec![(id("a"), held.receipt.clone())], delay(seconds(5))).await.expect("postpones");
    let waits = store.get(ALL, &id("a")).await.expect("gets").expect("is there");
    assert_eq!(
        (waits.state(), waits.attempts, waits.due_at),
        (State::Delayed, 0, fixture.now().after(seconds(5)))
    );
    assert_eq!((&waits.history, &waits.reason, waits.reserved_at()), (&History::default(), &None, None));
    let late = store.finish(ALL, finish(&id("a"), &held.receipt)).await.expect("answers");
    assert_eq!(late, [Err(Refusal::Lost)]);
    store.postpone(vec![(id("a"), held.receipt)], delay(seconds(9))).await.expect("passes over it");
    assert_eq!(reserve(store).await.job.id, id("b"));
    assert_eq!(reserve_any(store).await, None);
    fixture.advance_and_promote(seconds(5)).await;
    let again = reserve(store).await;
    assert_eq!((again.job.id, again.job.attempts), (id("a"), 1));
}

async fn a_stale_cancel_changes_nothing(fixture: StoreFixture) {
    add(&*fixture.store, job("a")).await;
    let first = reserve(&*fixture.store).await;
    fixture.advance_and_promote(seconds(60)).await;
    let second = reserve(&*fixture.store).await;
    let grants = vec![(id("a"), first.receipt), (id("unknown"), second.receipt.clone())];
    fixture.store.cancel(grants).await.expect("passes over both");
    assert_eq!(fixture.store.get(ALL, &id("a")).await.expect("gets"), Some(second.job));
    let done = fixture.store.finish(ALL, finish(&id("a"), &second.receipt)).await.expect("finishes");
    assert_eq!(done, [finished()]);
}

async fn fault_a_client_that_goes_away_burns_no_attempt(fixture: StoreFixture) {
    add(&*fixture.store, AddJob { spec: JobSpec { max_attempts: 1, ..JobSpec::default() }, ..job("a") })
        .await;
    for _ in 0..5 {
        let unseen = reserve(&*fixture.store).await;
        fixture.store.cancel(vec![(id("a"), unseen.receipt)]).await.expect("cancels");
    }
    let seen = reserve(&*fixture.store).await;
    assert_eq!(seen.job.attempts, 1, "with one try, it is still delivered");
}
