//! Changes of listed jobs: deleted, rescheduled and requeued, each in the states it applies to. The guard is in `guards`.

use linger::{
    job::{Due, Job, JobState, Reason, State, Timestamp},
    store::{
        AddJob, ChangeJob, JobChange, Minute, MoveKind, Refusal, Requeue, SeenJob, Span, Steps, Store, Totals,
    },
};

use super::listing::{URLS, bury_these, fill, names, reserve_these};
use crate::harness::{jobs::*, lists::*, stores::StoreFixture};

super::on_every_engine! {
    each_change_applies_to_its_states_only,
    results_are_in_the_order_of_the_jobs,
    a_repeated_job_is_changed_once,
    a_large_call_changes_the_jobs_of_every_outlet,
    counts_and_timelines_follow,
    changes_are_there_after_the_store_is_opened_again;
    a_rescheduled_job_keeps_everything_else,
    a_job_rescheduled_to_the_past_is_ready_and_announced,
    a_job_rescheduled_to_the_future_waits_and_nudges_the_timer,
    a_requeued_dead_letter_starts_again,
    a_deleted_job_is_gone_in_any_state,
}

/// Changes the job called `name` as it is now.
pub async fn change_now(store: &dyn Store, name: &str, how: JobChange) -> bool {
    let seen = see(store, name).await;
    one(store.change(change(&seen, how), None).await.expect("answers"))
}

async fn each_change_applies_to_its_states_only(fixture: StoreFixture) {
    fill(&fixture, 9, 1).await;
    let store = &*fixture.store;
    let past = Timestamp::from_millis(fixture.now().as_millis() - 5);
    let changes = [
        (JobChange::Requeue(Due::At(past).into()), &[State::Dead][..]),
        (JobChange::Requeue(Due::At(fixture.now().after(seconds(3))).into()), &[State::Dead]),
        (JobChange::Requeue(Due::After(delay(seconds(3))).into()), &[State::Dead]),
        (JobChange::Requeue(Due::After(delay(seconds(0))).into()), &[State::Dead]),
        (JobChange::Reschedule(Due::At(past)), &[State::Delayed, State::Ready]),
        (JobChange::Reschedule(Due::After(delay(seconds(3)))), &[State::Delayed, State::Ready]),
        (JobChange::Revoke { due: Due::At(past), reason: None }, &[State::Reserved]),
        (JobChange::Revoke { due: Due::After(delay(seconds(3))), reason: None }, &[State::Reserved]),
        (JobChange::Delete, &State::ALL),
    ];
    for (n, (how, states)) in changes.into_iter().enumerate() {
        for state in State::ALL {
            let name = format!("{state}-{n:02}");
            let before = get(store, &name).await;
            assert_eq!(before.state(), state);
            let changed = change_now(store, &name, how.clone()).await;
            let after = store.get(ALL, &id(&name)).await.expect("gets");
            if !states.contains(&state) {
                assert_eq!((changed, after), (false, Some(before)), "{how:?} {name}");
                continue;
            }
            assert!(changed, "{how:?} {name}");
            let expected = match how {
                JobChange::Delete => None,
                JobChange::Reschedule(due)
                | JobChange::Requeue(Requeue { due, .. })
                | JobChange::Revoke { due, .. }
                    if due == Due::At(past) =>
                {
                    Some((State::Ready, fixture.now()))
                }
                JobChange::Requeue(Requeue { due, .. }) if due == Due::After(delay(seconds(0))) => {
                    Some((State::Ready, fixture.now()))
                }
                JobChange::Requeue(_) | JobChange::Reschedule(_) | JobChange::Revoke { .. } => {
                    Some((State::Delayed, fixture.now().after(seconds(3))))
                }
            };
            assert_eq!(after.map(|job| (job.state(), job.due_at)), expected, "{how:?} {name}");
        }
    }
}

async fn a_rescheduled_job_keeps_everything_else(fixture: StoreFixture) {
    let store = &*fixture.store;
    let full = AddJob {
        body: body("{\"a\":[1,2,3]}"),
        spec: JobSpec {
            max_attempts: 7,
            retry: retry(&[30, 40]),
            require_receipt: true,
            ttr: ttr(77),
            ..called("a", URLS[0]).spec
        },
        ..called("a", URLS[0])
    };
    let held = one(reserve_these(store, &[full]).await);
    let again = linger::store::Release { due: None, reason: Reason::new("not yet") };
    store.release(ALL, &id("a"), &held.receipt, again).await.expect("answers").expect("is held");
    let before = get(store, "a").await;
    assert_eq!((before.attempts, before.state()), (1, State::Delayed));
    let at = fixture.now().after(seconds(5_000));
    assert!(change_now(store, "a", JobChange::Reschedule(Due::At(at))).await);
    let now = get(store, "a").await;
    assert_eq!(now, Job { due_at: at, history: now.history.clone(), ..before.clone() });
    assert!(change_now(store, "a", JobChange::Reschedule(Due::default())).await);
    let due_at = fixture.now();
    let now = get(store, "a").await;
    assert_eq!(now, Job { due_at, state: JobState::Ready, history: now.history.clone(), ..before });
    let outlet = outlet_to(store, "t", URLS[0]);
    let held = one(store.reserve(&outlet, &claims(1), Wait::No).await.expect("reserves"));
    assert_eq!((held.job.attempts, held.job.body), (2, body("{\"a\":[1,2,3]}")));
}

async fn a_job_rescheduled_to_the_past_is_ready_and_announced(fixture: StoreFixture) {
    let store = &*fixture.store;
    let past = Timestamp::from_millis(fixture.now().as_millis() - 10_000);
    let own = outlet_to(store, "t", URLS[0]);
    add(store, delayed("a", seconds(50))).await;
    add(store, AddJob { due: delayed("d", seconds(60)).due, ..called("b", URLS[0]) }).await;
    for (name, outlet) in [("a", plain("t")), ("b", own)] {
        fixture.notifications.take_ready();
        assert!(change_now(store, name, JobChange::Reschedule(Due::At(past))).await);
        assert!(fixture.notifications.take_ready().contains(&outlet), "{outlet} must be told");
        assert!(store.may_have_ready(&outlet));
        let held = one(store.reserve(&outlet, &claims(2), Wait::No).await.expect("reserves"));
        assert_eq!((held.job.id, held.job.due_at), (id(name), fixture.now()), "the past is now");
    }
    fixture.clock.advance(seconds(100));
    let moves = store.promote(10).await.expect("promotes").moves;
    assert!(
        moves.iter().all(|moved| moved.kind == MoveKind::TimedOut),
        "nothing was left delayed: {moves:?}"
    );
}

async fn a_job_rescheduled_to_the_future_waits_and_nudges_the_timer(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, delayed("a", seconds(50))).await;
    add(store, job("b")).await;
    for (name, wait) in [("a", 20), ("b", 10)] {
        fixture.notifications.take_due_in();
        let later = JobChange::Reschedule(Due::After(delay(seconds(wait))));
        assert!(change_now(store, name, later).await);
        let nudges = fixture.notifications.take_due_in();
        assert!(nudges.iter().any(|after| *after <= seconds(wait)), "{name}: {nudges:?}");
    }
    assert!(reserve_any(store).await.is_none(), "none is ready any more");
    fixture.advance_and_promote(millis(9_999)).await;
    assert!(reserve_any(store).await.is_none());
    fixture.advance_and_promote(millis(1)).await;
    assert_eq!(reserve(store).await.job.id, id("b"));
    fixture.advance_and_promote(seconds(10)).await;
    assert_eq!(reserve(store).await.job.id, id("a"));
}

async fn a_requeued_dead_letter_starts_again(fixture: StoreFixture) {
    let store = &*fixture.store;
    bury_these(store, &[job("a"), called("b", URLS[0])], Some("broken")).await;
    let before = get(store, "b").await;
    assert_eq!((before.attempts, before.reason.is_some(), before.dead_at().is_some()), (1, true, true));
    fixture.clock.advance(seconds(1));
    fixture.notifications.take_ready();
    assert!(change_now(store, "b", JobChange::Requeue(Due::After(delay(seconds(0))).into())).await);
    let outlet = outlet_to(store, "t", URLS[0]);
    assert!(fixture.notifications.take_ready().contains(&outlet));
    let now = get(store, "b").await;
    let ready = Job {
        state: JobState::Ready,
        attempts: 0,
        reason: None,
        due_at: fixture.now(),
        history: now.history.clone(),
        ..before
    };
    assert_eq!(now, ready);
    assert_eq!(one(store.reserve(&outlet, &claims(1), Wait::No).await.expect("reserves")).job.attempts, 1);
    fixture.notifications.take_due_in();
    assert!(change_now(store, "a", JobChange::Requeue(Due::After(delay(seconds(30))).into())).await);
    assert!(fixture.notifications.take_due_in().iter().any(|after| *after <= seconds(30)));
    let waiting = get(store, "a").await;
    assert_eq!((waiting.state(), waiting.due_at), (State::Delayed, fixture.now().after(seconds(30))));
    assert_eq!((waiting.attempts, &waiting.reason, waiting.dead_at()), (0, &None, None));
    assert_eq!(dead_of(store, "t").await, []);
    fixture.advance_and_promote(seconds(30)).await;
    assert_eq!(reserve(store).await.job.id, id("a"));
}

async fn a_deleted_job_is_gone_in_any_state(fixture: StoreFixture) {
    let store = &*fixture.store;
    fill(&fixture, 1, 1).await;
    let held = one(reserve_these(store, &[AddJob { topic: topic("v"), ..job("held") }]).await);
    for name in ["delayed-00", "ready-00", "reserved-00", "dead-00", "held"] {
        assert!(change_now(store, name, JobChange::Delete).await, "{name}");
        assert_eq!(store.get(ALL, &id(name)).await.expect("gets"), None, "{name}");
        assert_eq!(
            store.delete(ALL, vec![id(name)], DeleteRule::AnyState).await.expect("answers"),
            [Err(Refusal::Gone)]
        );
    }
    let finished = store.finish(ALL, finish(&id("held"), &held.receipt)).await.expect("answers");
    assert_eq!(finished, [Err(Refusal::Gone)]);
    assert!(reserve_any(store).await.is_none());
    assert_eq!(store.topic(&topic("t")).await.expect("reads"), None);
    add(store, job("ready-00")).await;
}

async fn results_are_in_the_order_of_the_jobs(fixture: StoreFixture) {
    fill(&fixture, 8, 1).await;
    let store = &*fixture.store;
    assert!(store.change(Vec::new(), None).await.expect("answers").is_empty());
    let (mut jobs, mut expected) = (Vec::new(), Vec::new());
    for n in 0..8 {
        for state in State::ALL {
            let name = format!("{state}-{n:02}");
            let seen = see(store, &name).await;
            let (seen, result) = match n % 3 {
                0 => (seen, true),
                1 => (SeenJob { id: id(&format!("gone-{n}")), ..seen }, false),
                _ => (SeenJob { moment: fixture.now().after(seconds(9_999)), ..seen }, false),
            };
            let change = match state {
                State::Delayed => JobChange::Reschedule(Due::After(delay(seconds(5)))),
                State::Ready => JobChange::Reschedule(Due::After(delay(seconds(6)))),
                State::Reserved => JobChange::Delete,
                State::Dead => JobChange::Requeue(Due::After(delay(seconds(7))).into()),
            };
            jobs.push(ChangeJob { seen, change });
            expected.push(result);
        }
    }
    assert_eq!(store.change(jobs, None).await.expect("answers"), expected);
    for (state, wait) in [(State::Delayed, 5), (State::Ready, 6), (State::Dead, 7)] {
        for (n, name) in names(state, 8).iter().enumerate() {
            let moved = get(store, name).await;
            let is_moved =
                moved.state() == State::Delayed && moved.due_at == fixture.now().after(seconds(wait));
            assert_eq!(is_moved, n % 3 == 0, "{name}");
        }
    }
    let left: Vec<String> = names(State::Reserved, 8)
        .into_iter()
        .enumerate()
        .filter(|(n, _)| n % 3 != 0)
        .map(|(_, name)| name)
        .collect();
    assert_eq!(ids(&in_state(store, State::Reserved).await), left);
}

async fn a_repeated_job_is_changed_once(fixture: StoreFixture) {
    let store = &*fixture.store;
    bury_these(store, &[job("dead")], None).await;
    fixture.clock.advance(seconds(1));
    add(store, delayed("delayed", seconds(50))).await;
    add(store, job("ready")).await;
    let mut jobs = Vec::new();
    for (name, first) in [
        ("dead", JobChange::Requeue(Due::After(delay(seconds(0))).into())),
        ("delayed", JobChange::Reschedule(Due::After(delay(seconds(7))))),
        ("ready", JobChange::Delete),
    ] {
        let seen = see(store, name).await;
        let second = JobChange::Reschedule(Due::After(delay(seconds(9))));
        for change in [first.clone(), first, second, JobChange::Delete] {
            jobs.push(ChangeJob { seen: seen.clone(), change });
        }
    }
    let once = [true, false, false, false];
    assert_eq!(store.change(jobs, None).await.expect("answers"), [once, once, once].concat());
    assert_eq!(see(store, "dead").await.state, State::Ready);
    assert_eq!(see(store, "delayed").await.moment, fixture.now().after(seconds(7)));
    assert_eq!(store.get(ALL, &id("ready")).await.expect("gets"), None);
}

async fn a_large_call_changes_the_jobs_of_every_outlet(fixture: StoreFixture) {
    fill(&fixture, 60, 1).await;
    let store = &*fixture.store;
    let mut jobs = Vec::new();
    for state in [State::Dead, State::Delayed, State::Ready, State::Reserved] {
        for listed in in_state(store, state).await {
            let change = match state {
                State::Dead => JobChange::Requeue(Due::After(delay(seconds(20))).into()),
                State::Delayed | State::Ready => JobChange::Reschedule(Due::After(delay(seconds(20)))),
                State::Reserved => JobChange::Revoke { due: Due::After(delay(seconds(20))), reason: None },
            };
            jobs.push(ChangeJob { seen: SeenJob::new(&listed.job), change });
        }
    }
    assert_eq!(store.change(jobs, None).await.expect("answers"), [true; 240]);
    let waiting = in_state(store, State::Delayed).await;
    let until = fixture.now().after(seconds(20));
    assert_eq!(waiting.len(), 240);
    assert!(waiting.iter().all(|listed| listed.job.due_at == until));
    fixture.advance_and_promote(seconds(20)).await;
    let ready = in_state(store, State::Ready).await;
    assert_eq!(ready.len(), 240);
    for name in ["t", "u"] {
        for outlet in [plain(name), outlet_to(store, name, URLS[0]), outlet_to(store, name, URLS[1])] {
            let granted = store.reserve(&outlet, &claims(100), Wait::No).await.expect("reserves");
            assert!(granted.len() >= 15, "{} of {outlet}", granted.len());
        }
    }
    assert_eq!(in_state(store, State::Ready).await, [], "each was in its own outlet");
}

async fn counts_and_timelines_follow(fixture: StoreFixture) {
    fill(&fixture, 3, 1).await;
    let store = &*fixture.store;
    let next_minute = Minute(Minute::containing(fixture.now()).0 + 1);
    let assert_counts = async |counts: [u64; 3], [delayed, ready, reserved, dead]: [u64; 4]| {
        let span = Span::new(next_minute, 1, 3).expect("is short");
        let seen = store.timeline(None, span).await.expect("reads");
        assert_eq!((&seen.counts[..], seen.totals), (&counts[..], Totals { delayed, ready, reserved, dead }));
    };
    assert_counts([0; 3], [3; 4]).await;
    let at = |minutes: u64| Due::At(next_minute.start().after(seconds(60 * minutes)));
    change_now(store, "delayed-00", JobChange::Reschedule(at(0))).await;
    change_now(store, "ready-00", JobChange::Reschedule(at(1))).await;
    assert_counts([1, 1, 0], [4, 2, 3, 3]).await;
    change_now(store, "delayed-00", JobChange::Reschedule(Due::default())).await;
    change_now(store, "ready-00", JobChange::Reschedule(at(2))).await;
    assert_counts([0, 0, 1], [3, 3, 3, 3]).await;
    let wait = next_minute.start().since(fixture.now());
    change_now(store, "dead-00", JobChange::Requeue(Due::After(delay(wait)).into())).await;
    change_now(store, "dead-01", JobChange::Requeue(Due::After(delay(seconds(0))).into())).await;
    assert_counts([1, 0, 1], [4, 4, 3, 1]).await;
    for name in ["dead-02", "reserved-00", "ready-01", "delayed-01", "dead-00"] {
        assert!(change_now(store, name, JobChange::Delete).await);
    }
    assert_counts([0, 0, 1], [2, 3, 2, 0]).await;
    let stats = store.topic(&topic("u")).await.expect("reads").expect("has jobs");
    assert_eq!((stats.delayed, stats.ready, stats.reserved, stats.dead), (0, 1, 1, 0));
}

async fn changes_are_there_after_the_store_is_opened_again(mut fixture: StoreFixture) {
    fill(&fixture, 2, 1).await;
    let store = fixture.store.clone();
    change_now(&*store, "delayed-00", JobChange::Reschedule(Due::default())).await;
    change_now(&*store, "ready-00", JobChange::Reschedule(Due::After(delay(seconds(5))))).await;
    change_now(&*store, "reserved-00", JobChange::Delete).await;
    change_now(&*store, "dead-00", JobChange::Requeue(Due::After(delay(seconds(9))).into())).await;
    drop(store);
    let mut before = Vec::new();
    for state in State::ALL {
        before.push(sorted(in_state(&*fixture.store, state).await));
    }
    assert_eq!(before.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2, 1, 1]);
    fixture.reopen().await;
    for (state, before) in State::ALL.into_iter().zip(before) {
        assert_eq!(sorted(in_state(&*fixture.store, state).await), before, "{state}");
    }
}
