//! Who has a job, and its history: an entry for each attempt that did not finish it, each requeue and each new due time.

use std::time::Duration;

use linger::{
    job::{Actor, AttemptEnd, Due, DueChange, History, HistoryEntry, HistoryEvent, Reason, State, Timestamp},
    store::{AddJob, JobChange, JobFilter, Order, Patch, Refusal, Release, Reservation, Steps, Store},
};

use crate::harness::{jobs::*, lists::*, stores::StoreFixture};

super::on_every_engine! {
    each_claim_of_a_call_has_its_own_actor;
    a_reserved_job_shows_since_when_and_by_whom,
    every_end_of_an_attempt_is_remembered,
    an_attempt_without_an_actor_is_remembered_without_one,
    the_last_attempt_is_remembered_too,
    requeues_and_new_due_times_are_remembered_with_their_actor,
    steps_that_end_nothing_leave_the_history_alone,
    the_last_ten_entries_stay,
    a_long_reason_is_cut_between_characters,
}

fn actor(name: &str) -> Actor {
    Actor::parse(name).expect("valid")
}

fn claim_by(name: &str) -> Claim {
    Claim { ttr: None, by: Some(actor(name)) }
}

async fn reserve_by(store: &dyn Store, name: &str) -> Reservation {
    let jobs = store.reserve(&plain("t"), &[claim_by(name)], Wait::No).await.expect("reserves");
    one(jobs)
}

async fn history(store: &dyn Store, name: &str) -> Vec<HistoryEntry> {
    get(store, name).await.history.entries().collect()
}

fn reason(text: &str) -> Option<Reason> {
    Some(Reason::new(text).expect("valid"))
}

fn attempt(
    (number, at, by): (u32, Timestamp, Option<&str>),
    took: Duration,
    end: AttemptEnd,
    reason: Option<Reason>,
) -> HistoryEntry {
    HistoryEntry { at, by: by.map(actor), event: HistoryEvent::Attempt { number, took, end, reason } }
}

async fn a_reserved_job_shows_since_when_and_by_whom(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, job("a")).await;
    let held = reserve_by(store, "w-1").await;
    let since = fixture.now();
    assert_eq!((held.job.reserved_at(), held.job.reserved_by().cloned()), (Some(since), Some(actor("w-1"))));
    fixture.advance_and_promote(seconds(7)).await;
    store.touch(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    let mut expected = held.job;
    set_until(&mut expected, fixture.now().after(seconds(60)));
    assert_eq!(get(store, "a").await, expected, "a touch changes only the end");
    let filter = JobFilter::all(State::Reserved);
    let listed = store.list(&filter, Order::Ascending, None, 10).await.expect("lists").jobs;
    assert_eq!(
        (listed[0].job.reserved_at(), listed[0].job.reserved_by().cloned()),
        (Some(since), Some(actor("w-1")))
    );
    store.release(ALL, &id("a"), &held.receipt, Release::default()).await.expect("answers").expect("is held");
    let back = get(store, "a").await;
    assert_eq!((back.reserved_at(), back.reserved_by().cloned()), (None, None));
}

async fn each_claim_of_a_call_has_its_own_actor(fixture: StoreFixture) {
    let store = &*fixture.store;
    for n in 0..12 {
        add(store, job(&format!("job-{n}"))).await;
    }
    let longest = "😀".repeat(Actor::MAX_CHARS);
    let names = [Some("w-1"), Some("w-1"), None, Some("wörker"), Some("w-1"), Some(longest.as_str()), None];
    let claims: Vec<Claim> = names.map(|name| Claim { ttr: None, by: name.map(actor) }).to_vec();
    let reserved = store.reserve(&plain("t"), &claims, Wait::No).await.expect("reserves");
    assert_eq!(reserved.len(), names.len());
    for (reservation, name) in reserved.iter().zip(names) {
        assert_eq!(reservation.job.reserved_by().cloned(), name.map(actor));
        assert_eq!(get(store, reservation.job.id.as_str()).await, reservation.job);
    }
}

async fn every_end_of_an_attempt_is_remembered(fixture: StoreFixture) {
    let store = &*fixture.store;
    let added = add(store, job("a")).await;
    assert_eq!(added.history, History::default());
    let first = fixture.now();
    let held = reserve_by(store, "w-1").await;
    fixture.advance_and_promote(millis(1_234)).await;
    let release = Release { due: Some(after(seconds(0))), reason: reason("psp timeout") };
    let back = store.release(ALL, &id("a"), &held.receipt, release).await.expect("answers").expect("is held");
    let released =
        attempt((1, first, Some("w-1")), millis(1_234), AttemptEnd::Released, reason("psp timeout"));
    let in_reply: Vec<HistoryEntry> = back.history.entries().collect();
    assert_eq!(in_reply.as_slice(), std::slice::from_ref(&released), "the reply shows it");

    let second = fixture.now();
    reserve_by(store, "w-2").await;
    fixture.advance_and_promote(seconds(60)).await;
    let timed_out = attempt((2, second, Some("w-2")), seconds(60), AttemptEnd::TimedOut, None);
    assert_eq!(history(store, "a").await, [released.clone(), timed_out.clone()]);

    let third = fixture.now();
    let held = reserve_by(store, "w-3").await;
    store
        .bury(ALL, &id("a"), &held.receipt, reason("no such order"))
        .await
        .expect("answers")
        .expect("is held");
    let buried = attempt((3, third, Some("w-3")), millis(0), AttemptEnd::Buried, reason("no such order"));
    assert_eq!(history(store, "a").await, [released, timed_out, buried]);
}

async fn an_attempt_without_an_actor_is_remembered_without_one(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, job("a")).await;
    let held = reserve(store).await;
    assert_eq!(held.job.reserved_by().cloned(), None);
    store.bury(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    let expected = attempt((1, fixture.now(), None), millis(0), AttemptEnd::Buried, None);
    assert_eq!(history(store, "a").await, [expected], "without the reason that the store gives");
}

async fn the_last_attempt_is_remembered_too(fixture: StoreFixture) {
    let store = &*fixture.store;
    for name in ["released", "timed-out"] {
        add(store, AddJob { spec: JobSpec { max_attempts: 1, ..JobSpec::default() }, ..job(name) }).await;
        let (since, held) = (fixture.now(), reserve_by(store, "w").await);
        let (took, end) = if name == "released" {
            let release = Release { due: None, reason: None };
            store.release(ALL, &id(name), &held.receipt, release).await.expect("answers").expect("is held");
            (millis(0), AttemptEnd::Released)
        } else {
            fixture.advance_and_promote(seconds(61)).await;
            (seconds(61), AttemptEnd::TimedOut)
        };
        assert_eq!(get(store, name).await.state(), State::Dead, "{name}");
        assert_eq!(history(store, name).await, [attempt((1, since, Some("w")), took, end, None)], "{name}");
    }
}

async fn requeues_and_new_due_times_are_remembered_with_their_actor(fixture: StoreFixture) {
    let store = &*fixture.store;
    let added = add(store, delayed("a", seconds(100))).await;
    let patch = |due| Patch { due, max_attempts: Some(1), ..Patch::default() };
    store
        .patch(ALL, &id("a"), patch(None), Some(&actor("admin")))
        .await
        .expect("patches")
        .expect("is not refused");
    assert_eq!(history(store, "a").await, [], "the due time stays");
    let entry = |event: &HistoryEvent, by: Option<&str>| HistoryEntry {
        at: fixture.now(),
        by: by.map(actor),
        event: event.clone(),
    };
    let mut expected = Vec::new();
    store
        .patch(ALL, &id("a"), patch(Some(Due::After(delay(seconds(50))))), Some(&actor("ops")))
        .await
        .expect("patches")
        .expect("is not refused");
    let moved = |from: i64, to: i64| {
        let change = DueChange { from: added.due_at.shifted(from), to: added.due_at.shifted(to) };
        HistoryEvent::Rescheduled(Some(change))
    };
    expected.push(entry(&moved(0, -50_000), Some("ops")));
    let reschedule = |seconds_ahead| JobChange::Reschedule(Due::After(delay(seconds(seconds_ahead))));
    let changes = change(&see(store, "a").await, reschedule(9));
    assert_eq!(store.change(changes, None).await.expect("answers"), [true]);
    expected.push(entry(&moved(-50_000, -91_000), None));
    let changes = change(&see(store, "a").await, reschedule(0));
    assert_eq!(store.change(changes, Some(&actor("bulk"))).await.expect("answers"), [true]);
    expected.push(entry(&moved(-91_000, -100_000), Some("bulk")));
    for by in [Some("ops"), None] {
        let (since, held) = (fixture.now(), reserve(store).await);
        store.bury(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
        expected.push(attempt((1, since, None), millis(0), AttemptEnd::Buried, None));
        let by_actor = by.map(actor);
        let requeued =
            store.requeue(ALL, &id("a"), after(seconds(0)), by_actor.as_ref()).await.expect("answers");
        assert!(requeued.is_ok(), "{requeued:?}");
        expected.push(entry(&HistoryEvent::Requeued, by));
    }
    let held = reserve(store).await;
    store.bury(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    expected.push(attempt((1, fixture.now(), None), millis(0), AttemptEnd::Buried, None));
    let changes = change(&see(store, "a").await, JobChange::Requeue(after(seconds(3)).into()));
    assert_eq!(store.change(changes, Some(&actor("bulk"))).await.expect("answers"), [true]);
    expected.push(entry(&HistoryEvent::Requeued, Some("bulk")));
    assert_eq!(history(store, "a").await, expected);
}

async fn steps_that_end_nothing_leave_the_history_alone(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, delayed("a", seconds(1))).await;
    fixture.advance_and_promote(seconds(1)).await;
    let held = reserve_by(store, "w").await;
    store.touch(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    store.cancel(vec![(id("a"), held.receipt.clone())]).await.expect("cancels");
    let back = get(store, "a").await;
    assert_eq!((back.state(), back.attempts, back.history.clone()), (State::Ready, 0, History::default()));
    assert_eq!((back.reserved_at(), back.reserved_by().cloned()), (None, None));
    let held = reserve_by(store, "w").await;
    let refused =
        store.patch(ALL, &id("a"), Patch { due: Some(Due::default()), ..Patch::default() }, None).await;
    assert!(matches!(refused, Ok(Err(Refusal::InState(State::Reserved)))), "{refused:?}");
    assert_eq!(get(store, "a").await, held.job);
}

async fn the_last_ten_entries_stay(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, AddJob { spec: JobSpec { max_attempts: 0, ..JobSpec::default() }, ..job("a") }).await;
    let mut expected = Vec::new();
    for number in 1..=23 {
        let name = format!("w-{number}");
        let (since, held) = (fixture.now(), reserve_by(store, &name).await);
        fixture.advance_and_promote(millis(number)).await;
        let why = reason(&"r".repeat(usize::try_from(number).expect("is small")));
        let release = Release { due: Some(after(seconds(0))), reason: why.clone() };
        store.release(ALL, &id("a"), &held.receipt, release).await.expect("answers").expect("is held");
        let number_32 = u32::try_from(number).expect("is small");
        expected.push(attempt((number_32, since, Some(&name)), millis(number), AttemptEnd::Released, why));
    }
    assert_eq!(history(store, "a").await, expected[13..]);
}

async fn a_long_reason_is_cut_between_characters(fixture: StoreFixture) {
    let store = &*fixture.store;
    for (name, long, kept) in [
        ("ascii", "x".repeat(1_024), "x".repeat(160)),
        ("two-bytes", format!("x{}", "é".repeat(100)), format!("x{}", "é".repeat(79))),
        ("four-bytes", format!("xx{}", "😀".repeat(100)), format!("xx{}", "😀".repeat(39))),
    ] {
        add(store, job(name)).await;
        let held = reserve(store).await;
        store.bury(ALL, &id(name), &held.receipt, reason(&long)).await.expect("answers").expect("is held");
        let dead = get(store, name).await;
        assert_eq!(dead.reason, reason(&long), "the job's own reason stays whole");
        let expected = attempt((1, fixture.now(), None), millis(0), AttemptEnd::Buried, reason(&kept));
        assert_eq!(dead.history.entries().collect::<Vec<_>>(), [expected], "{name}");
    }
}
