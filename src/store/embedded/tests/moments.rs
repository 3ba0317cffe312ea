//! The machine's clock is set: moments follow it, delays keep their remaining time, and what callers see is by that clock.

use std::time::Duration;

use super::fixture::*;
use crate::{
    clock::ManualClock,
    job::{Delay, Due, Expire, Expiry, Job, JobSpec, OnExpiry, Outlet, Reason, State, Timestamp},
    store::{
        AddJob, Claim, Degraded, JobFilter, Minute, Order, Patch, Put, Release, Reservation, Span, Steps,
        Store, Wait,
        embedded::{AcceptedClock, EmbeddedStore, accept_clock},
    },
};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR_MS: i64 = 3_600_000;

fn minutes(n: i64) -> Timestamp {
    Timestamp::from_millis(START_MS + n * 60_000)
}

/// A job of topic `t` that is due so many minutes after the start by the machine's clock.
fn due_at(name: &str, n: i64) -> AddJob {
    AddJob { due: Due::At(minutes(n)), ..job(name) }
}

async fn get(store: &EmbeddedStore, name: &str) -> Job {
    store.get(ALL, &id(name)).await.expect("reads").expect("is there")
}

/// The ids of the jobs that are ready after a promotion, in order.
async fn ready(store: &EmbeddedStore) -> Vec<String> {
    store.promote(100).await.expect("promotes");
    consistent(store).await;
    let filter = JobFilter { topic: Some(topic("t")), ..JobFilter::all(State::Ready) };
    let page = store.list(&filter, Order::Ascending, None, 100).await.expect("lists");
    page.jobs.iter().map(|listed| listed.job.id.to_string()).collect()
}

#[tokio::test]
async fn a_clock_set_forwards_brings_moments_and_no_delay() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [due_at("moment", 30), due_at("later", 120), delayed("delay", 30 * MINUTE)]).await;
    assert!(ready(&store).await.is_empty());
    fixture.clock.step_wall(HOUR_MS);
    assert_eq!(ready(&store).await, ["moment"]);
    fixture.clock.advance(30 * MINUTE - Duration::from_millis(1));
    assert_eq!(ready(&store).await, ["moment"]);
    fixture.clock.advance(Duration::from_millis(1));
    assert_eq!(ready(&store).await, ["delay", "moment"]);
    fixture.clock.advance(30 * MINUTE);
    assert_eq!(ready(&store).await, ["delay", "moment", "later"]);
}

#[tokio::test]
async fn a_clock_set_back_postpones_moments_and_no_delay() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [due_at("moment", 30), delayed("delay", 30 * MINUTE)]).await;
    fixture.clock.step_wall(-HOUR_MS);
    let promoted = store.promote(100).await.expect("promotes");
    assert_eq!(promoted.next_in, Some(30 * MINUTE), "the delay is first");
    fixture.clock.advance(30 * MINUTE);
    assert_eq!(ready(&store).await, ["delay"]);
    fixture.clock.advance(60 * MINUTE - Duration::from_millis(1));
    assert_eq!(ready(&store).await, ["delay"]);
    fixture.clock.advance(Duration::from_millis(1));
    assert_eq!(ready(&store).await, ["delay", "moment"]);
}

/// It came by a clock that was ahead, and was not reserved before that was put right.
#[tokio::test]
async fn a_moment_that_is_to_come_again_is_not_reserved_once_the_clock_is_put_right() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [due_at("moment", 90), delayed("delay", 30 * MINUTE)]).await;
    fixture.clock.advance(30 * MINUTE);
    fixture.clock.step_wall(HOUR_MS);
    assert_eq!(ready(&store).await, ["delay", "moment"]);
    fixture.clock.step_wall(-HOUR_MS);
    let names = |reserved: Vec<Reservation>| -> Vec<String> {
        reserved.into_iter().map(|reservation| reservation.job.id.to_string()).collect()
    };
    assert_eq!(names(reserve(&store, 2).await), ["delay"]);
    assert_eq!(get(&store, "moment").await.state(), State::Delayed);
    store.delete(ALL, vec![id("delay")], DeleteRule::AnyState).await.expect("deletes");
    fixture.clock.advance(60 * MINUTE - Duration::from_millis(1));
    assert!(ready(&store).await.is_empty());
    fixture.clock.advance(Duration::from_millis(1));
    assert_eq!(ready(&store).await, ["moment"]);
    assert_eq!(names(reserve(&store, 2).await), ["moment"]);
}

/// Whether a job that is deleted when it expires is kept as a dead letter: one that expires by the machine's clock in an hour
/// and a half, and one that expires when it has been there as long. Tries the clock set by `step_ms`, and then `later`.
async fn is_kept(step_ms: i64, later: Duration) -> (bool, bool) {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    let expiring = |name: &str, expire| {
        let expiry = Some(Expiry { expire, on_expiry: OnExpiry::Delete });
        AddJob { spec: JobSpec { expiry, ..JobSpec::default() }, ..job(name) }
    };
    let elapsed = Expire::After(Delay::new(90 * MINUTE).expect("valid"));
    add(&store, [expiring("moment", Expire::At(minutes(90))), expiring("elapsed", elapsed)]).await;
    fixture.clock.step_wall(step_ms);
    fixture.clock.advance(later);
    store.promote(100).await.expect("promotes");
    let state = async |name| store.get(ALL, &id(name)).await.expect("reads").map(|job| job.state());
    let (moment, elapsed) = (state("moment").await, state("elapsed").await);
    assert!(moment != Some(State::Ready) || step_ms < 0, "it has expired");
    (moment == Some(State::Dead), elapsed == Some(State::Dead))
}

#[tokio::test]
async fn a_clock_that_was_set_deletes_nothing_for_an_hour() {
    assert_eq!(is_kept(2 * HOUR_MS, Duration::ZERO).await, (true, false), "the other one has not expired");
    assert_eq!(is_kept(40 * 60_000, 59 * MINUTE).await, (true, false));
    assert_eq!(is_kept(40 * 60_000, 60 * MINUTE).await, (false, false), "it is trusted again");
    assert_eq!(is_kept(60_000, 89 * MINUTE).await, (false, false), "the clock was corrected");
    assert_eq!(is_kept(-HOUR_MS, 90 * MINUTE).await, (false, true), "the clock is behind the store");
}

#[tokio::test]
async fn callers_see_the_times_of_the_machines_clock() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [due_at("moment", 90), delayed("delay", 30 * MINUTE), job("held")]).await;
    let held = reserve(&store, 1).await.remove(0);
    fixture.clock.step_wall(HOUR_MS);
    assert_eq!(get(&store, "moment").await.due_at, minutes(90));
    assert_eq!(get(&store, "delay").await.due_at, minutes(90), "in 30 minutes, as before");
    let before = held.job.reserved_until().expect("is reserved");
    assert_eq!(get(&store, "held").await.reserved_until(), Some(before.shifted(HOUR_MS)));
    add(&store, [job("new"), due_at("at-once", 59)]).await;
    for name in ["new", "at-once"] {
        let job = get(&store, name).await;
        assert_eq!(
            (job.created_at, job.due_at, job.state()),
            (minutes(60), minutes(60), State::Ready),
            "{name}"
        );
    }
    let stats = store.topic(&topic("t")).await.expect("reads").expect("is there");
    assert_eq!((stats.next_due, stats.oldest_ready), (Some(minutes(90)), Some(minutes(60))));
    let span = Span::new(Minute::containing(minutes(89)), 1, 3).expect("is short");
    for topic in [None, Some(&topic("t"))] {
        assert_eq!(store.timeline(topic, span).await.expect("reads").counts, [0, 2, 0]);
    }
    let filter = |state, from, to| JobFilter {
        from: Some(minutes(from)),
        to: Some(minutes(to)),
        ..JobFilter::all(state)
    };
    for (filter, expected) in [
        (filter(State::Delayed, 90, 91), 2),
        (filter(State::Delayed, 30, 90), 0),
        (filter(State::Ready, 60, 61), 2),
        (filter(State::Ready, 0, 60), 0),
        (filter(State::Reserved, 61, 62), 1),
        (filter(State::Reserved, 1, 2), 0),
    ] {
        for order in [Order::Ascending, Order::Descending] {
            let page = store.list(&filter, order, None, 100).await.expect("lists");
            assert_eq!(page.jobs.len(), expected, "{filter:?}");
        }
    }
    let buried = store.bury(ALL, &held.job.id, &held.receipt, None).await.expect("buries").expect("is held");
    assert_eq!(buried.dead_at(), Some(minutes(60)));
    let history: Vec<_> = buried.history.entries().map(|entry| entry.at).collect();
    assert_eq!(history, [minutes(60)]);
    consistent(&store).await;
}

#[tokio::test]
async fn each_new_due_time_decides_anew_which_clock_counts() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [due_at("to-delay", 90), delayed("to-moment", MINUTE), due_at("released", 0)]).await;
    let patch = |due| Patch { due: Some(due), ..Patch::default() };
    store
        .patch(ALL, &id("to-delay"), patch(after(90 * MINUTE)), None)
        .await
        .expect("patches")
        .expect("is not refused");
    store
        .patch(ALL, &id("to-moment"), patch(Due::At(minutes(90))), None)
        .await
        .expect("patches")
        .expect("is not refused");
    let held = reserve(&store, 1).await.remove(0);
    let release = Release { due: Some(after(90 * MINUTE)), reason: Reason::new("later") };
    store.release(ALL, &held.job.id, &held.receipt, release).await.expect("releases").expect("is held");
    fixture.clock.step_wall(2 * HOUR_MS);
    assert_eq!(ready(&store).await, ["to-moment"]);
    fixture.clock.advance(90 * MINUTE);
    assert_eq!(ready(&store).await, ["to-delay", "released", "to-moment"]);
}

/// Jobs with moments and with delays, after a restart with the machine's clock at another time.
async fn restarted(shift_ms: i64) -> (Fixture, std::sync::Arc<EmbeddedStore>) {
    let mut fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [due_at("moment", 30), delayed("delay", 30 * MINUTE)]).await;
    store.close().await.expect("closes");
    drop(store);
    fixture.clock = ManualClock::new(Timestamp::from_millis(START_MS + shift_ms));
    let store = fixture.open().await;
    (fixture, store)
}

#[tokio::test]
async fn after_a_restart_delays_go_on_where_they_were_and_moments_follow_a_clock_set_back() {
    let (fixture, store) = restarted(-HOUR_MS).await;
    assert_eq!(get(&store, "moment").await.due_at, minutes(30));
    assert_eq!(get(&store, "delay").await.due_at, minutes(-30), "in 30 minutes");
    assert!(ready(&store).await.is_empty());
    fixture.clock.advance(30 * MINUTE);
    assert_eq!(ready(&store).await, ["delay"]);
    fixture.clock.advance(60 * MINUTE);
    assert_eq!(ready(&store).await, ["delay", "moment"]);
}

#[tokio::test]
async fn after_a_restart_a_clock_set_forwards_counts_as_time_that_has_passed() {
    let (_fixture, store) = restarted(HOUR_MS).await;
    assert_eq!(ready(&store).await, ["delay", "moment"]);
}

/// A job that was ready when the store closed does not come early when the clock is set back meanwhile.
#[tokio::test]
async fn a_moment_that_is_to_come_again_is_not_ready_after_a_restart() {
    let mut fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [due_at("moment", 30)]).await;
    fixture.clock.advance(45 * MINUTE);
    assert_eq!(ready(&store).await, ["moment"]);
    add(&store, [job("last")]).await;
    store.close().await.expect("closes");
    drop(store);
    fixture.clock = ManualClock::new(Timestamp::from_millis(START_MS));
    let store = fixture.open().await;
    assert_eq!(ready(&store).await, ["last"]);
    fixture.clock.advance(30 * MINUTE);
    assert_eq!(ready(&store).await, ["moment", "last"]);
}

#[tokio::test]
async fn an_accepted_clock_keeps_the_remaining_times_and_ends_the_alarm() {
    const YEAR: Duration = Duration::from_secs(365 * 86_400);
    let mut fixture = Fixture::new();
    fixture.options.dead_retention = Some(seconds(7_200));
    let store = fixture.open().await;
    // The machine's clock is a year ahead.
    fixture.clock.advance(YEAR);
    let passed = due_at("passed", 10);
    add(&store, [delayed("delay", 30 * MINUTE), job("held"), job("buried")]).await;
    let held = reserve(&store, 2).await;
    // By that clock its moment has passed, so it is ready for good.
    add(&store, [passed]).await;
    for held in held.iter().filter(|held| held.job.id.as_str() == "buried") {
        store.bury(ALL, &held.job.id, &held.receipt, None).await.expect("buries").expect("is held");
    }
    assert!(store.degraded().is_empty());
    store.close().await.expect("closes");
    drop(store);
    fixture.clock = ManualClock::new(Timestamp::from_millis(START_MS));
    let store = fixture.open().await;
    assert!(matches!(&store.degraded()[..], [Degraded { part: "clock", is_unready: true, .. }]));
    drop(store);
    fixture.clock = ManualClock::new(Timestamp::from_millis(START_MS));
    let accept = || accept_clock(&fixture.options, &*fixture.clock).expect("accepts");
    let accepted = accept();
    assert_eq!((accepted.set_back.as_secs() / 3_600, accepted.jobs), (365 * 24, 4));
    assert_eq!(accept(), AcceptedClock { set_back: Duration::ZERO, jobs: 0 });
    let store = fixture.open().await;
    assert!(store.degraded().is_empty());
    consistent(&store).await;
    assert_eq!(get(&store, "delay").await.due_at, minutes(30));
    assert_eq!(get(&store, "buried").await.dead_at(), Some(minutes(0)));
    let until = get(&store, "held").await.reserved_until().expect("is reserved");
    assert!(until <= minutes(1), "{until}");
    assert_eq!(ready(&store).await, ["passed"]);
    fixture.clock.advance(30 * MINUTE);
    assert_eq!(ready(&store).await, ["passed", "delay", "held"]);
    fixture.clock.advance(2 * 60 * MINUTE);
    store.promote(100).await.expect("promotes");
    assert_eq!(store.get(ALL, &id("buried")).await.expect("reads"), None, "its retention is over");
}

/// Dead letters and other jobs are in two tables, each with keys of its own.
#[tokio::test]
async fn an_accepted_clock_keeps_a_reservation_whose_job_has_the_key_of_a_dead_letter() {
    const DAY: Duration = Duration::from_secs(86_400);
    let expires = Some(Expiry {
        expire: Expire::After(Delay::new(400 * DAY).expect("valid")),
        on_expiry: OnExpiry::Delete,
    });
    for expiry in [None, expires] {
        let mut fixture = Fixture::new();
        let store = fixture.open().await;
        let held = job("held");
        add(&store, [AddJob { spec: JobSpec { expiry, ..held.spec.clone() }, ..held }]).await;
        let buried = AddJob { topic: topic("u"), ..job("buried") };
        add(&store, [AddJob { spec: JobSpec { expiry: expires, ..buried.spec.clone() }, ..buried }]).await;
        let of_u = Outlet::plain(topic("u"));
        let reserved = store.reserve(&of_u, &[Claim::default()], Wait::No).await.expect("reserves");
        store.bury(ALL, &id("buried"), &reserved[0].receipt, None).await.expect("buries").expect("is held");
        // The machine's clock is a year ahead.
        fixture.clock.advance(365 * DAY);
        let held = reserve(&store, 1).await.remove(0);
        store.close().await.expect("closes");
        drop(store);
        fixture.clock = ManualClock::new(Timestamp::from_millis(START_MS));
        accept_clock(&fixture.options, &*fixture.clock).expect("accepts");
        let store = fixture.open().await;
        let until = get(&store, "held").await.reserved_until().expect("is reserved");
        assert!(until <= minutes(1), "{until}");
        finish(&store, &held).await;
        consistent(&store).await;
    }
}

#[tokio::test]
async fn a_dead_letter_is_listed_by_the_moment_of_its_death_after_a_restart() {
    for step_ms in [HOUR_MS, -HOUR_MS] {
        let mut fixture = Fixture::new();
        let store = fixture.open().await;
        fixture.clock.step_wall(step_ms);
        add(&store, [job("buried")]).await;
        let held = reserve(&store, 1).await.remove(0);
        store.bury(ALL, &id("buried"), &held.receipt, None).await.expect("buries").expect("is held");
        let died_at = get(&store, "buried").await.dead_at().expect("is dead");
        store.close().await.expect("closes");
        drop(store);
        fixture.clock = ManualClock::new(died_at.after(MINUTE));
        let store = fixture.open().await;
        let range = |from, to| JobFilter { from, to, ..JobFilter::all(State::Dead) };
        for (filter, expected) in [
            (range(Some(died_at), None), 1),
            (range(None, Some(died_at.after(MINUTE))), 1),
            (range(Some(died_at.after(MINUTE)), None), 0),
            (range(None, Some(died_at)), 0),
        ] {
            let page = store.list(&filter, Order::Ascending, None, 10).await.expect("lists");
            assert_eq!(page.jobs.len(), expected, "{filter:?}");
        }
    }
}

#[tokio::test]
async fn a_copy_keeps_what_each_job_goes_by() {
    let (one, other) = (Fixture::new(), Fixture::new());
    let (from, to) = (one.open().await, other.open().await);
    one.clock.step_wall(HOUR_MS);
    add(&from, [due_at("moment", 90), delayed("delay", 30 * MINUTE), due_at("gone", 90)]).await;
    assert!(matches!(
        from.delete(ALL, vec![id("gone")], DeleteRule::AnyState).await.expect("deletes")[..],
        [Ok(_)]
    ));
    let mut reader = from.records().await.expect("opens");
    while let Some(page) = reader.next().await.expect("reads") {
        let put = to.put(page.jobs).await.expect("puts");
        assert!(put.iter().all(|put| *put == Put::Done));
    }
    assert_eq!(get(&to, "moment").await.due_at, minutes(90));
    assert_eq!(get(&to, "delay").await.due_at, minutes(30), "as it is stored");
    other.clock.step_wall(2 * HOUR_MS);
    assert_eq!(ready(&to).await, ["moment"]);
}
