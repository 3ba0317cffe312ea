//! Reservations that end: TTRs, releases and their schedules, touches, and the cap on attempts.

use linger::{
    job::{Job, Reason, State},
    store::{AddJob, Finished, NotHeld, Release, Reservation},
};

use crate::harness::{jobs::*, stores::Bench};

super::on_every_engine! {
    a_ttr_end_without_a_schedule_is_at_once,
    a_ttr_end_follows_the_schedule_step_by_step,
    a_job_that_came_back_queues_by_its_new_due_time,
    used_attempts_make_a_dead_letter,
    without_a_cap_a_job_always_comes_back,
    a_release_backs_off_without_a_schedule,
    a_release_follows_the_schedule,
    an_explicit_delay_overrides_the_schedule,
    a_release_with_used_attempts_is_a_dead_letter,
    a_receipt_that_is_not_the_present_one_releases_nothing,
    a_touch_moves_the_deadline_and_nothing_else,
    a_buried_job_waits_for_people,
    fault_a_backlog_does_not_vanish,
}

async fn get(bench: &Bench, name: &str) -> Job {
    bench.store.get(ALL, &id(name)).await.expect("gets").expect("is there")
}

async fn release(bench: &Bench, held: &Reservation, release: Release) -> Job {
    bench.store.release(ALL, &held.job.id, &held.receipt, release).await.expect("answers").expect("is held")
}

fn why(text: &str) -> Option<Reason> {
    Reason::new(text)
}

async fn a_ttr_end_without_a_schedule_is_at_once(bench: Bench) {
    add(&*bench.store, job("a")).await;
    let first = reserve(&*bench.store).await;
    bench.pass(millis(59_999)).await;
    assert_eq!(get(&bench, "a").await.state, State::Reserved);
    bench.pass(millis(1)).await;
    let back = get(&bench, "a").await;
    assert_eq!((back.state, back.attempts, back.reserved_until), (State::Ready, 1, None));
    assert_eq!(back.due_at, bench.now(), "due at the moment of return");
    let second = reserve(&*bench.store).await;
    assert_eq!((second.job.attempts, second.late), (2, seconds(0)));
    assert_ne!(second.receipt, first.receipt);
}

async fn a_ttr_end_follows_the_schedule_step_by_step(bench: Bench) {
    add(&*bench.store, AddJob { retry: retry(&[15, 180]), ..job("a") }).await;
    for (attempt, step) in [(1, 15), (2, 180), (3, 180)] {
        assert_eq!(reserve(&*bench.store).await.job.attempts, attempt);
        bench.pass(seconds(60)).await;
        let back = get(&bench, "a").await;
        assert_eq!((back.state, back.due_at), (State::Delayed, bench.now().after(seconds(step))));
        bench.pass(seconds(step) - millis(1)).await;
        assert_eq!(reserve_any(&*bench.store).await, None);
        bench.pass(millis(1)).await;
    }
}

async fn a_job_that_came_back_queues_by_its_new_due_time(bench: Bench) {
    add(&*bench.store, job("first")).await;
    reserve(&*bench.store).await;
    bench.clock.advance(seconds(30));
    // On one shard or several, the job that has waited longest is popped within two pops.
    add(&*bench.store, job("second")).await;
    bench.pass(seconds(30)).await;
    let first = get(&bench, "first").await;
    assert!(first.due_at > get(&bench, "second").await.due_at);
    let mut seen = [reserve(&*bench.store).await.job.id, reserve(&*bench.store).await.job.id];
    seen.sort();
    assert_eq!(seen, [id("first"), id("second")]);
}

async fn used_attempts_make_a_dead_letter(bench: Bench) {
    add(&*bench.store, AddJob { max_attempts: 2, retry: retry(&[5]), ..job("a") }).await;
    reserve(&*bench.store).await;
    bench.pass(seconds(60)).await;
    bench.pass(seconds(5)).await;
    let last = reserve(&*bench.store).await;
    bench.pass(seconds(60)).await;
    let dead = get(&bench, "a").await;
    assert_eq!((dead.state, dead.attempts), (State::Dead, 2));
    assert_eq!((dead.dead_at, dead.reason), (Some(bench.now()), why(Reason::TTR_EXPIRED)));
    let late = bench.store.finish(ALL, finish(&id("a"), &last.receipt)).await.expect("answers");
    assert_eq!(late, [Finished::Lost]);
    bench.pass(seconds(10 * 365 * 86_400)).await;
    assert_eq!(reserve_any(&*bench.store).await, None);
    assert_eq!(get(&bench, "a").await.state, State::Dead, "kept for ever");
}

async fn without_a_cap_a_job_always_comes_back(bench: Bench) {
    add(&*bench.store, AddJob { max_attempts: 0, ..job("a") }).await;
    for attempt in 1..=40 {
        assert_eq!(reserve(&*bench.store).await.job.attempts, attempt);
        bench.pass(seconds(60)).await;
    }
}

async fn a_release_backs_off_without_a_schedule(bench: Bench) {
    add(&*bench.store, job("a")).await;
    for wait in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600] {
        let held = reserve(&*bench.store).await;
        let back = release(&bench, &held, Release::default()).await;
        assert_eq!((back.state, back.due_at), (State::Delayed, bench.now().after(seconds(wait))));
        assert_eq!(get(&bench, "a").await, back);
        bench.pass(seconds(wait)).await;
    }
}

async fn a_release_follows_the_schedule(bench: Bench) {
    add(&*bench.store, AddJob { retry: retry(&[0, 30]), ..job("a") }).await;
    let held = reserve(&*bench.store).await;
    let back = release(&bench, &held, Release { delay: None, reason: why("busy") }).await;
    assert_eq!((back.state, back.due_at, back.reason), (State::Ready, bench.now(), why("busy")));
    let held = reserve(&*bench.store).await;
    assert_eq!(held.job.reason, why("busy"), "the next worker sees why");
    let back = release(&bench, &held, Release::default()).await;
    assert_eq!((back.state, back.due_at), (State::Delayed, bench.now().after(seconds(30))));
    assert_eq!(back.reason, None, "a release without a reason clears the old one");
}

async fn an_explicit_delay_overrides_the_schedule(bench: Bench) {
    add(&*bench.store, AddJob { retry: retry(&[30]), ..job("a") }).await;
    let held = reserve(&*bench.store).await;
    let now = Release { delay: Some(delay(seconds(0))), reason: None };
    assert_eq!(release(&bench, &held, now).await.state, State::Ready);
    let held = reserve(&*bench.store).await;
    let later = Release { delay: Some(delay(seconds(7))), reason: None };
    let back = release(&bench, &held, later).await;
    assert_eq!((back.state, back.due_at), (State::Delayed, bench.now().after(seconds(7))));
    bench.pass(seconds(7)).await;
    assert_eq!(reserve(&*bench.store).await.job.attempts, 3);
}

async fn a_release_with_used_attempts_is_a_dead_letter(bench: Bench) {
    for (name, given, kept) in [("a", Some("no stock"), "no stock"), ("b", None, Reason::ATTEMPTS_USED)] {
        add(&*bench.store, AddJob { max_attempts: 1, ..job(name) }).await;
        let held = reserve(&*bench.store).await;
        let given = Release { delay: Some(delay(seconds(0))), reason: given.and_then(why) };
        let dead = release(&bench, &held, given).await;
        assert_eq!(
            (dead.state, dead.reason.clone(), dead.dead_at),
            (State::Dead, why(kept), Some(bench.now()))
        );
        assert_eq!(get(&bench, name).await, dead);
    }
    assert_eq!(reserve_any(&*bench.store).await, None);
}

async fn a_receipt_that_is_not_the_present_one_releases_nothing(bench: Bench) {
    add(&*bench.store, job("a")).await;
    let old = reserve(&*bench.store).await;
    bench.pass(seconds(60)).await;
    for stage in ["ready", "reserved by another", "dead"] {
        let before = get(&bench, "a").await;
        let stale = &old.receipt;
        let released = bench.store.release(ALL, &id("a"), stale, Release::default()).await.expect("answers");
        assert_eq!(released, Err(NotHeld::Lost), "{stage}");
        assert_eq!(bench.store.touch(ALL, &id("a"), stale, None).await.expect("answers"), Err(NotHeld::Lost));
        assert_eq!(bench.store.bury(ALL, &id("a"), stale, None).await.expect("answers"), Err(NotHeld::Lost));
        assert_eq!(get(&bench, "a").await, before, "{stage}");
        if before.state == State::Ready {
            reserve(&*bench.store).await;
        } else if before.state == State::Reserved {
            bench.pass(seconds(60)).await;
            let last = reserve(&*bench.store).await;
            bench.store.bury(ALL, &id("a"), &last.receipt, None).await.expect("answers").expect("is held");
        }
    }
    let unknown =
        bench.store.release(ALL, &id("b"), &old.receipt, Release::default()).await.expect("answers");
    assert_eq!(unknown, Err(NotHeld::Gone));
    assert_eq!(
        bench.store.touch(ALL, &id("b"), &old.receipt, None).await.expect("answers"),
        Err(NotHeld::Gone)
    );
}

async fn a_touch_moves_the_deadline_and_nothing_else(bench: Bench) {
    add(&*bench.store, AddJob { ttr: ttr(10), ..job("a") }).await;
    let held = reserve(&*bench.store).await;
    bench.pass(seconds(9)).await;
    let touched =
        bench.store.touch(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    assert_eq!(touched, Job { reserved_until: Some(bench.now().after(seconds(10))), ..held.job.clone() });
    bench.pass(seconds(9)).await;
    bench.store.touch(ALL, &id("a"), &held.receipt, Some(ttr(100))).await.expect("answers").expect("is held");
    bench.pass(millis(99_999)).await;
    assert_eq!(reserve_any(&*bench.store).await, None);
    // A touch can also shorten.
    bench.store.touch(ALL, &id("a"), &held.receipt, Some(ttr(2))).await.expect("answers").expect("is held");
    bench.pass(millis(1_999)).await;
    assert_eq!(reserve_any(&*bench.store).await, None);
    bench.pass(millis(1)).await;
    let again = reserve(&*bench.store).await;
    assert_eq!(again.job.attempts, 2, "and the job comes back once, at the last deadline");
    bench.pass(seconds(9)).await;
    assert_eq!(reserve_any(&*bench.store).await, None);
}

async fn a_buried_job_waits_for_people(bench: Bench) {
    for (name, given, kept) in [("a", Some("bad address"), "bad address"), ("b", None, Reason::BURIED)] {
        add(&*bench.store, job(name)).await;
        let held = reserve(&*bench.store).await;
        let given = given.and_then(why);
        let dead =
            bench.store.bury(ALL, &id(name), &held.receipt, given).await.expect("answers").expect("is held");
        assert_eq!(
            (dead.state, dead.reason.clone(), dead.dead_at),
            (State::Dead, why(kept), Some(bench.now()))
        );
        assert_eq!((dead.attempts, dead.reserved_until), (1, None));
        assert_eq!(get(&bench, name).await, dead);
    }
    bench.pass(seconds(86_400)).await;
    assert_eq!(reserve_any(&*bench.store).await, None);
}

async fn fault_a_backlog_does_not_vanish(bench: Bench) {
    add(&*bench.store, job("ready")).await;
    add(&*bench.store, delayed("delayed", seconds(86_400))).await;
    bench.pass(seconds(400 * 86_400)).await;
    let mut seen = [reserve(&*bench.store).await.job.id, reserve(&*bench.store).await.job.id];
    seen.sort();
    assert_eq!(seen, [id("delayed"), id("ready")]);
}
