//! Reservations that end: TTRs, releases and their schedules, touches, and the cap on attempts.

use std::time::Duration;

use linger::{
    job::{AttemptEnd, Due, HistoryEntry, HistoryEvent, Job, Reason, State, TopicFilter},
    store::{AddJob, FinishJob, Refusal, Release, Reservation, Steps},
};

use crate::harness::{jobs::*, stores::StoreFixture};

super::on_every_engine! {
    ;
    a_ttr_end_without_a_schedule_is_at_once,
    a_ttr_end_follows_the_schedule_step_by_step,
    a_job_that_came_back_queues_by_its_new_due_time,
    used_attempts_make_a_dead_letter,
    without_a_cap_a_job_always_comes_back,
    a_release_backs_off_without_a_schedule,
    a_release_follows_the_schedule,
    an_explicit_delay_overrides_the_schedule,
    a_release_until_a_moment_overrides_the_schedule,
    a_release_with_used_attempts_is_a_dead_letter,
    a_receipt_that_is_not_the_present_one_releases_nothing,
    a_revoked_job_is_taken_from_its_holder,
    a_revoked_job_with_used_attempts_is_a_dead_letter,
    a_job_that_no_worker_holds_is_not_revoked,
    a_touch_moves_the_deadline_and_nothing_else,
    a_buried_job_waits_for_people,
    fault_a_backlog_does_not_vanish,
}

async fn get(fixture: &StoreFixture, name: &str) -> Job {
    fixture.store.get(ALL, &id(name)).await.expect("gets").expect("is there")
}

async fn release(fixture: &StoreFixture, held: &Reservation, release: Release) -> Job {
    fixture.store.release(ALL, &held.job.id, &held.receipt, release).await.expect("answers").expect("is held")
}

fn why(text: &str) -> Option<Reason> {
    Reason::new(text)
}

async fn a_ttr_end_without_a_schedule_is_at_once(fixture: StoreFixture) {
    add(&*fixture.store, job("a")).await;
    let first = reserve(&*fixture.store).await;
    fixture.advance_and_promote(millis(59_999)).await;
    assert_eq!(get(&fixture, "a").await.state(), State::Reserved);
    fixture.advance_and_promote(millis(1)).await;
    let back = get(&fixture, "a").await;
    assert_eq!((back.state(), back.attempts, back.reserved_until()), (State::Ready, 1, None));
    assert_eq!(back.due_at, fixture.now(), "due at the moment of return");
    let second = reserve(&*fixture.store).await;
    assert_eq!((second.job.attempts, second.late), (2, seconds(0)));
    assert_ne!(second.receipt, first.receipt);
}

async fn a_ttr_end_follows_the_schedule_step_by_step(fixture: StoreFixture) {
    add(
        &*fixture.store,
        AddJob { spec: JobSpec { retry: retry(&[15, 180]), ..JobSpec::default() }, ..job("a") },
    )
    .await;
    for (attempt, step) in [(1, 15), (2, 180), (3, 180)] {
        assert_eq!(reserve(&*fixture.store).await.job.attempts, attempt);
        fixture.advance_and_promote(seconds(60)).await;
        let back = get(&fixture, "a").await;
        assert_eq!((back.state(), back.due_at), (State::Delayed, fixture.now().after(seconds(step))));
        fixture.advance_and_promote(seconds(step) - millis(1)).await;
        assert_eq!(reserve_any(&*fixture.store).await, None);
        fixture.advance_and_promote(millis(1)).await;
    }
    // Counted from within a millisecond, the step is rounded up, never down.
    reserve(&*fixture.store).await;
    fixture.advance_and_promote(seconds(60) + Duration::from_micros(1)).await;
    assert_eq!(get(&fixture, "a").await.due_at, fixture.now().after(seconds(180) + millis(1)));
}

async fn a_job_that_came_back_queues_by_its_new_due_time(fixture: StoreFixture) {
    add(&*fixture.store, job("first")).await;
    reserve(&*fixture.store).await;
    fixture.clock.advance(seconds(30));
    // On one shard or several, the job that has waited longest is popped within two pops.
    add(&*fixture.store, job("second")).await;
    fixture.advance_and_promote(seconds(30)).await;
    let first = get(&fixture, "first").await;
    assert!(first.due_at > get(&fixture, "second").await.due_at);
    let mut seen = [reserve(&*fixture.store).await.job.id, reserve(&*fixture.store).await.job.id];
    seen.sort();
    assert_eq!(seen, [id("first"), id("second")]);
}

async fn used_attempts_make_a_dead_letter(fixture: StoreFixture) {
    add(
        &*fixture.store,
        AddJob { spec: JobSpec { max_attempts: 2, retry: retry(&[5]), ..JobSpec::default() }, ..job("a") },
    )
    .await;
    reserve(&*fixture.store).await;
    fixture.advance_and_promote(seconds(60)).await;
    fixture.advance_and_promote(seconds(5)).await;
    reserve(&*fixture.store).await;
    fixture.advance_and_promote(seconds(60)).await;
    let dead = get(&fixture, "a").await;
    assert_eq!((dead.state(), dead.attempts), (State::Dead, 2));
    assert_eq!((dead.dead_at(), dead.reason), (Some(fixture.now()), why(Reason::TTR_EXPIRED)));
    fixture.advance_and_promote(seconds(10 * 365 * 86_400)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
    assert_eq!(get(&fixture, "a").await.state(), State::Dead, "kept for ever");
}

async fn without_a_cap_a_job_always_comes_back(fixture: StoreFixture) {
    add(&*fixture.store, AddJob { spec: JobSpec { max_attempts: 0, ..JobSpec::default() }, ..job("a") })
        .await;
    for attempt in 1..=40 {
        assert_eq!(reserve(&*fixture.store).await.job.attempts, attempt);
        fixture.advance_and_promote(seconds(60)).await;
    }
}

async fn a_release_backs_off_without_a_schedule(fixture: StoreFixture) {
    add(&*fixture.store, job("a")).await;
    for wait in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600] {
        let held = reserve(&*fixture.store).await;
        let back = release(&fixture, &held, Release::default()).await;
        assert_eq!((back.state(), back.due_at), (State::Delayed, fixture.now().after(seconds(wait))));
        assert_eq!(get(&fixture, "a").await, back);
        fixture.advance_and_promote(seconds(wait)).await;
    }
}

async fn a_release_follows_the_schedule(fixture: StoreFixture) {
    add(
        &*fixture.store,
        AddJob { spec: JobSpec { retry: retry(&[0, 30]), ..JobSpec::default() }, ..job("a") },
    )
    .await;
    let held = reserve(&*fixture.store).await;
    let back = release(&fixture, &held, Release { due: None, reason: why("busy") }).await;
    assert_eq!((back.state(), back.due_at, back.reason), (State::Ready, fixture.now(), why("busy")));
    let held = reserve(&*fixture.store).await;
    assert_eq!(held.job.reason, why("busy"), "the next worker sees why");
    let back = release(&fixture, &held, Release::default()).await;
    assert_eq!((back.state(), back.due_at), (State::Delayed, fixture.now().after(seconds(30))));
    assert_eq!(back.reason, None, "a release without a reason clears the old one");
}

async fn an_explicit_delay_overrides_the_schedule(fixture: StoreFixture) {
    add(&*fixture.store, AddJob { spec: JobSpec { retry: retry(&[30]), ..JobSpec::default() }, ..job("a") })
        .await;
    let held = reserve(&*fixture.store).await;
    let now = Release { due: Some(after(seconds(0))), reason: None };
    assert_eq!(release(&fixture, &held, now).await.state(), State::Ready);
    let held = reserve(&*fixture.store).await;
    let later = || Release { due: Some(after(seconds(7))), reason: None };
    let back = release(&fixture, &held, later()).await;
    assert_eq!((back.state(), back.due_at), (State::Delayed, fixture.now().after(seconds(7))));
    fixture.advance_and_promote(seconds(7)).await;
    let held = reserve(&*fixture.store).await;
    assert_eq!(held.job.attempts, 3);
    // Counted from within a millisecond, the delay is rounded up, never down.
    fixture.clock.advance(Duration::from_micros(1));
    let back = release(&fixture, &held, later()).await;
    assert_eq!(back.due_at, fixture.now().after(seconds(7) + millis(1)));
}

async fn a_release_until_a_moment_overrides_the_schedule(fixture: StoreFixture) {
    add(&*fixture.store, AddJob { spec: JobSpec { retry: retry(&[30]), ..JobSpec::default() }, ..job("a") })
        .await;
    let moment = fixture.now().after(millis(7_001));
    let until = Release { due: Some(Due::At(moment)), reason: why("at nine") };
    let held = reserve(&*fixture.store).await;
    let back = release(&fixture, &held, until.clone()).await;
    assert_eq!((back.state(), back.due_at, &back.reason), (State::Delayed, moment, &until.reason));
    assert!(fixture.notifications.take_due_in().contains(&millis(7_001)), "the timer wakes for it");
    fixture.advance_and_promote(millis(7_000)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None, "never early");
    fixture.advance_and_promote(millis(2)).await;
    let held = reserve(&*fixture.store).await;
    let at_once = release(&fixture, &held, until).await;
    assert_eq!((at_once.state(), at_once.due_at), (State::Ready, fixture.now()), "the moment has passed");
    assert_eq!(reserve(&*fixture.store).await.job.attempts, 3);
}

async fn a_release_with_used_attempts_is_a_dead_letter(fixture: StoreFixture) {
    for (name, given, kept) in [("a", Some("no stock"), "no stock"), ("b", None, Reason::ATTEMPTS_USED)] {
        add(&*fixture.store, AddJob { spec: JobSpec { max_attempts: 1, ..JobSpec::default() }, ..job(name) })
            .await;
        let held = reserve(&*fixture.store).await;
        let given = Release { due: Some(after(seconds(0))), reason: given.and_then(why) };
        let dead = release(&fixture, &held, given).await;
        assert_eq!(
            (dead.state(), dead.reason.clone(), dead.dead_at()),
            (State::Dead, why(kept), Some(fixture.now()))
        );
        assert_eq!(get(&fixture, name).await, dead);
    }
    assert_eq!(reserve_any(&*fixture.store).await, None);
}

async fn a_receipt_that_is_not_the_present_one_releases_nothing(fixture: StoreFixture) {
    add(&*fixture.store, job("a")).await;
    let old = reserve(&*fixture.store).await;
    fixture.advance_and_promote(seconds(60)).await;
    for stage in ["ready", "reserved by another", "dead"] {
        let before = get(&fixture, "a").await;
        let stale = &old.receipt;
        let refused = || Err(if stage == "ready" { Refusal::TimedOut } else { Refusal::Lost });
        let released =
            fixture.store.release(ALL, &id("a"), stale, Release::default()).await.expect("answers");
        assert_eq!(released, refused(), "{stage}");
        let touched = fixture.store.touch(ALL, &id("a"), stale, None).await.expect("answers");
        assert_eq!(touched, refused(), "{stage}");
        let buried = fixture.store.bury(ALL, &id("a"), stale, None).await.expect("answers");
        assert_eq!(buried, refused(), "{stage}");
        assert_eq!(get(&fixture, "a").await, before, "{stage}");
        if before.state() == State::Ready {
            reserve(&*fixture.store).await;
        } else if before.state() == State::Reserved {
            fixture.advance_and_promote(seconds(60)).await;
            let last = reserve(&*fixture.store).await;
            fixture.store.bury(ALL, &id("a"), &last.receipt, None).await.expect("answers").expect("is held");
        }
    }
    let unknown =
        fixture.store.release(ALL, &id("b"), &old.receipt, Release::default()).await.expect("answers");
    assert_eq!(unknown, Err(Refusal::Gone));
    assert_eq!(
        fixture.store.touch(ALL, &id("b"), &old.receipt, None).await.expect("answers"),
        Err(Refusal::Gone)
    );
}

async fn a_revoked_job_is_taken_from_its_holder(fixture: StoreFixture) {
    let store = &*fixture.store;
    let schedule = JobSpec { retry: retry(&[15]), late_finish: true, ..JobSpec::default() };
    add(store, AddJob { spec: schedule, ..job("a") }).await;
    let held = reserve(store).await;
    let asked = Release { due: Some(after(seconds(5))), reason: why("the host is gone") };
    for attempt in [0, 2] {
        let other = store.revoke(ALL, &id("a"), Some(attempt), asked.clone()).await.expect("answers");
        assert_eq!(other.map(|job| job.id), Err(Refusal::Lost), "attempt {attempt} is not the present one");
    }
    assert_eq!(get(&fixture, "a").await, held.job);
    let back =
        store.revoke(&only(&["t"]), &id("a"), Some(1), asked).await.expect("answers").expect("is held");
    assert_eq!((back.state(), back.attempts, &back.reason), (State::Delayed, 1, &why("the host is gone")));
    assert_eq!(back.due_at, fixture.now().after(seconds(5)), "its own delay, not the schedule's");
    let history: Vec<HistoryEntry> = back.history.entries().collect();
    let [HistoryEntry { event: HistoryEvent::Attempt { number: 1, end, reason, .. }, .. }] = &history[..]
    else {
        panic!("{history:?}");
    };
    assert_eq!((end, reason), (&AttemptEnd::Revoked, &why("the host is gone")));
    assert_eq!(get(&fixture, "a").await, back);
    // The receipt is good for nothing any more, not even for a late finish.
    let touched = store.touch(ALL, &id("a"), &held.receipt, None).await.expect("answers");
    assert_eq!(touched.map(|job| job.id), Err(Refusal::Lost));
    let late = FinishJob { id: id("a"), receipt: Some(held.receipt) };
    assert_eq!(store.finish(ALL, vec![late]).await.expect("answers")[..], [Err(Refusal::Lost)]);
    fixture.advance_and_promote(seconds(5)).await;
    assert_eq!(reserve(store).await.job.attempts, 2);
}

async fn a_revoked_job_with_used_attempts_is_a_dead_letter(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, AddJob { spec: JobSpec { max_attempts: 1, ..JobSpec::default() }, ..job("a") }).await;
    reserve(store).await;
    let dead =
        store.revoke(ALL, &id("a"), None, Release::default()).await.expect("answers").expect("is held");
    assert_eq!((dead.state(), dead.reason), (State::Dead, why(Reason::ATTEMPTS_USED)));
}

async fn a_job_that_no_worker_holds_is_not_revoked(fixture: StoreFixture) {
    let store = &*fixture.store;
    let revoke = async |scope: &TopicFilter, name: &str| {
        let outcome = store.revoke(scope, &id(name), None, Release::default()).await.expect("answers");
        outcome.map(|job| job.id)
    };
    assert_eq!(revoke(ALL, "a").await, Err(Refusal::Gone));
    add(store, delayed("a", seconds(60))).await;
    add(store, job("b")).await;
    for name in ["a", "b"] {
        assert_eq!(revoke(ALL, name).await, Err(Refusal::NotReserved), "{name}");
        assert!(get(&fixture, name).await.history.entries().next().is_none());
    }
    let held = reserve(store).await;
    assert_eq!(revoke(&only(&["other"]), "b").await, Err(Refusal::Gone));
    assert_eq!(get(&fixture, "b").await, held.job);
    store.bury(ALL, &id("b"), &held.receipt, None).await.expect("answers").expect("is held");
    assert_eq!(revoke(ALL, "b").await, Err(Refusal::NotReserved));
}

async fn a_touch_moves_the_deadline_and_nothing_else(fixture: StoreFixture) {
    add(&*fixture.store, AddJob { spec: JobSpec { ttr: ttr(10), ..JobSpec::default() }, ..job("a") }).await;
    let held = reserve(&*fixture.store).await;
    fixture.advance_and_promote(seconds(9)).await;
    let touched =
        fixture.store.touch(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    let mut expected = held.job.clone();
    set_until(&mut expected, fixture.now().after(seconds(10)));
    assert_eq!(touched, expected);
    fixture.advance_and_promote(seconds(9)).await;
    fixture
        .store
        .touch(ALL, &id("a"), &held.receipt, Some(ttr(100)))
        .await
        .expect("answers")
        .expect("is held");
    fixture.advance_and_promote(millis(99_999)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
    // A touch can also shorten.
    fixture.store.touch(ALL, &id("a"), &held.receipt, Some(ttr(2))).await.expect("answers").expect("is held");
    fixture.advance_and_promote(millis(1_999)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
    fixture.advance_and_promote(millis(1)).await;
    let again = reserve(&*fixture.store).await;
    assert_eq!(again.job.attempts, 2, "and the job comes back once, at the last deadline");
    fixture.advance_and_promote(seconds(9)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
}

async fn a_buried_job_waits_for_people(fixture: StoreFixture) {
    for (name, given, kept) in [("a", Some("bad address"), "bad address"), ("b", None, Reason::BURIED)] {
        add(&*fixture.store, job(name)).await;
        let held = reserve(&*fixture.store).await;
        let given = given.and_then(why);
        let dead = fixture
            .store
            .bury(ALL, &id(name), &held.receipt, given)
            .await
            .expect("answers")
            .expect("is held");
        assert_eq!(
            (dead.state(), dead.reason.clone(), dead.dead_at()),
            (State::Dead, why(kept), Some(fixture.now()))
        );
        assert_eq!((dead.attempts, dead.reserved_until()), (1, None));
        assert_eq!(get(&fixture, name).await, dead);
    }
    fixture.advance_and_promote(seconds(86_400)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
}

async fn fault_a_backlog_does_not_vanish(fixture: StoreFixture) {
    add(&*fixture.store, job("ready")).await;
    add(&*fixture.store, delayed("delayed", seconds(86_400))).await;
    fixture.advance_and_promote(seconds(400 * 86_400)).await;
    let mut seen = [reserve(&*fixture.store).await.job.id, reserve(&*fixture.store).await.job.id];
    seen.sort();
    assert_eq!(seen, [id("delayed"), id("ready")]);
}
