//! Adds that replace a job: what the new version keeps of the older one, revisions, and the holder of the older one.

use linger::{
    job::{Actor, Expire, Expiry, HistoryEvent, Job, JobState, OnExpiry, Receipt, State},
    store::{AddJob, Added, FinishJob, Finished, IfExists, Outcome, Refusal, Release, Requeue, Steps, Store},
};

use crate::harness::{jobs::*, stores::StoreFixture};

super::on_every_engine! {
    a_batch_of_replacements_is_answered_in_order;
    a_whole_new_job_takes_the_place_of_one_in_each_state,
    only_the_history_goes_on,
    a_lower_revision_changes_nothing_and_an_equal_one_is_a_repeat,
    without_a_revision_each_add_replaces,
    a_job_of_another_topic_is_not_replaced,
    what_refuses_an_add_refuses_a_replacement,
    a_job_that_is_not_there_is_added,
    a_new_expiry_and_a_new_callback_apply,
}

/// Job `a` with this body, due after a wait, which replaces the one that is there.
pub(super) fn newer(json: &'static str, wait: u64) -> AddJob {
    let fingerprint = linger::job::Fingerprint([8; 16]);
    AddJob { fingerprint, body: body(json), if_exists: replace_by("ops"), ..delayed("a", seconds(wait)) }
}

fn revised(revision: u64, json: &'static str) -> AddJob {
    let job = newer(json, 0);
    AddJob { spec: JobSpec { revision: Some(revision), ..job.spec }, ..job }
}

pub(super) async fn replace(store: &dyn Store, job: AddJob) -> Job {
    match add_any(store, job).await {
        Ok(Added::Replaced(job)) => job,
        other => panic!("expected a replaced job, got {other:?}"),
    }
}

pub(super) async fn get_a(store: &dyn Store) -> Job {
    store.get(ALL, &id("a")).await.expect("gets").expect("is there")
}

pub(super) async fn finish_a(store: &dyn Store, receipt: Option<&Receipt>) -> Outcome<Finished> {
    let item = FinishJob { id: id("a"), receipt: receipt.cloned() };
    one(store.finish(ALL, vec![item]).await.expect("answers"))
}

/// The only jobs of topic `t`, by state: delayed, ready, reserved and dead.
pub(super) async fn counts(store: &dyn Store) -> [u64; 4] {
    let stats = store.topic(&topic("t")).await.expect("reads").unwrap_or_default();
    [stats.delayed, stats.ready, stats.reserved, stats.dead]
}

async fn a_whole_new_job_takes_the_place_of_one_in_each_state(fixture: StoreFixture) {
    let store = &*fixture.store;
    for state in [State::Delayed, State::Ready, State::Dead] {
        for wait in [0, 30] {
            let old = if state == State::Delayed { delayed("a", seconds(20)) } else { job("a") };
            add(store, AddJob { spec: JobSpec { max_attempts: 3, ..JobSpec::default() }, ..old }).await;
            if state == State::Dead {
                let held = reserve(store).await;
                store.bury(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
            }
            fixture.clock.advance(seconds(1));
            let now = fixture.now();
            let job = replace(
                store,
                AddJob { spec: JobSpec { ttr: ttr(9), ..JobSpec::default() }, ..newer("2", wait) },
            )
            .await;
            let expected = if wait == 0 { JobState::Ready } else { JobState::Delayed };
            assert_eq!((&job.state, job.attempts, &job.reason), (&expected, 0, &None), "{state}");
            assert_eq!((job.created_at, job.due_at), (now, now.after(seconds(wait))), "{state}");
            assert_eq!((job.spec.ttr, job.spec.max_attempts, &job.body), (ttr(9), 16, &body("2")), "{state}");
            assert_eq!(get_a(store).await, job, "{state}");
            assert_eq!(counts(store).await, if wait == 0 { [0, 1, 0, 0] } else { [1, 0, 0, 0] }, "{state}");
            fixture.advance_and_promote(seconds(wait)).await;
            let delivered = reserve(store).await;
            assert_eq!((delivered.job.attempts, &delivered.job.body), (1, &body("2")), "{state}");
            assert_eq!(reserve_any(store).await, None, "{state}: it is delivered once");
            assert_eq!(finish_a(store, Some(&delivered.receipt)).await, finished());
            fixture.advance_and_promote(seconds(100)).await;
            assert_eq!(counts(store).await, [0; 4], "{state}");
        }
    }
}

async fn only_the_history_goes_on(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, job("a")).await;
    let held = reserve(store).await;
    let release = Release { due: None, reason: linger::job::Reason::new("busy") };
    store.release(ALL, &id("a"), &held.receipt, release).await.expect("answers").expect("is held");
    replace(store, newer("2", 0)).await;
    replace(store, AddJob { if_exists: IfExists::Replace { by: None }, ..newer("3", 0) }).await;
    let entries: Vec<_> = get_a(store).await.history.entries().collect();
    assert!(matches!(entries[0].event, HistoryEvent::Attempt { number: 1, .. }), "{entries:?}");
    let replaced: Vec<_> = entries[1..].iter().map(|entry| (&entry.event, entry.by.clone())).collect();
    let ops = Actor::parse("ops").ok();
    assert_eq!(replaced, [(&HistoryEvent::Replaced, ops), (&HistoryEvent::Replaced, None)]);
}

async fn a_lower_revision_changes_nothing_and_an_equal_one_is_a_repeat(fixture: StoreFixture) {
    let store = &*fixture.store;
    let added = add_any(store, revised(7, "1")).await;
    assert!(matches!(added, Ok(Added::Created(_))), "{added:?}");
    let before = get_a(store).await;
    for lower in [0, 6] {
        let refused = add_any(store, revised(lower, "2")).await;
        assert_eq!(refused, Err(Refusal::OlderRevision { stored: 7 }));
    }
    assert_eq!(add_any(store, revised(7, "2")).await, Ok(Added::Replayed(before.clone())));
    assert_eq!(get_a(store).await, before, "nothing changed");
    for higher in [8, 256, u64::from(u32::MAX) + 1, JobSpec::MAX_REVISION] {
        let job = replace(store, revised(higher, "3")).await;
        assert_eq!(job.spec.revision, Some(higher));
        let refused = add_any(store, revised(higher - 1, "4")).await;
        assert_eq!(refused, Err(Refusal::OlderRevision { stored: higher }));
    }
    let held = reserve(store).await;
    assert_eq!(held.job.body, body("3"));
    let refused = add_any(store, revised(9, "4")).await;
    assert_eq!(
        refused,
        Err(Refusal::OlderRevision { stored: JobSpec::MAX_REVISION }),
        "also while it is held"
    );
    assert_eq!(finish_a(store, Some(&held.receipt)).await, finished());
}

async fn without_a_revision_each_add_replaces(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, AddJob { if_exists: IfExists::Keep, ..revised(7, "1") }).await;
    fixture.clock.advance(seconds(1));
    let job = replace(store, newer("2", 0)).await;
    assert_eq!((job.spec.revision, job.created_at), (None, fixture.now()));
    fixture.clock.advance(seconds(1));
    assert_eq!(replace(store, newer("2", 0)).await.created_at, fixture.now(), "also by the same request");
    assert_eq!(replace(store, revised(3, "3")).await.spec.revision, Some(3), "it replaces one without");
    let kept = AddJob { if_exists: IfExists::Keep, ..revised(9, "4") };
    let kept = AddJob { fingerprint: linger::job::Fingerprint([9; 16]), ..kept };
    let refused = add_any(store, kept).await;
    assert!(matches!(refused, Err(Refusal::Exists { .. })), "{refused:?}");
}

async fn a_job_of_another_topic_is_not_replaced(fixture: StoreFixture) {
    let store = &*fixture.store;
    let added = add(store, AddJob { topic: topic("u"), ..job("a") }).await;
    for revision in [None, Some(1)] {
        let spec = JobSpec { revision, ..JobSpec::default() };
        let refused = add_any(store, AddJob { spec, ..newer("2", 0) }).await;
        let (state, due_at) = (State::Ready, added.due_at);
        assert_eq!(refused, Err(Refusal::Exists { topic: topic("u"), state, due_at }));
    }
    assert_eq!(get_a(store).await, added);
}

async fn what_refuses_an_add_refuses_a_replacement(fixture: StoreFixture) {
    let store = &*fixture.store;
    let before = add(store, AddJob { if_exists: IfExists::Keep, ..revised(2, "1") }).await;
    let paused = AddJob { is_paused: true, ..revised(3, "2") };
    assert_eq!(add_any(store, paused.clone()).await, Err(Refusal::IntakePaused));
    let repeat = AddJob { is_paused: true, ..revised(2, "1") };
    assert_eq!(add_any(store, repeat).await, Ok(Added::Replayed(before.clone())), "a repeat is recognised");
    let expiry = Some(Expiry { expire: Expire::At(fixture.now()), on_expiry: OnExpiry::Dead });
    let expired = AddJob { spec: JobSpec { expiry, ..JobSpec::default() }, ..newer("2", 5) };
    assert_eq!(add_any(store, expired).await, Err(Refusal::ExpiresFirst));
    assert_eq!(get_a(store).await, before);
}

async fn a_job_that_is_not_there_is_added(fixture: StoreFixture) {
    let store = &*fixture.store;
    let added = add(store, newer("1", 0)).await;
    assert_eq!((added.history.entries().count(), added.spec.revision), (0, None));
    let held = reserve(store).await;
    assert_eq!(finish_a(store, Some(&held.receipt)).await, finished());
    add(store, newer("1", 0)).await;
}

async fn a_new_expiry_and_a_new_callback_apply(fixture: StoreFixture) {
    const URL: &str = "http://a.example/";
    let store = &*fixture.store;
    let expiry = |n| Some(Expiry { expire: Expire::After(delay(seconds(n))), on_expiry: OnExpiry::Dead });
    add(store, AddJob { spec: JobSpec { expiry: expiry(10), ..JobSpec::default() }, ..job("a") }).await;
    let spec = JobSpec { expiry: expiry(20), ..called("a", URL).spec };
    let job = replace(store, AddJob { spec, ..newer("2", 0) }).await;
    assert_eq!(job.expires_at, Some(job.due_at.after(seconds(20))));
    assert_eq!(reserve_any(store).await, None, "no worker gets it any more");
    fixture.advance_and_promote(seconds(10)).await;
    assert_eq!(get_a(store).await.state(), State::Ready, "the older expiry is gone");
    let outlet = outlet_to(store, "t", URL);
    let held = one(store.reserve(&outlet, &claims(1), Wait::No).await.expect("reserves"));
    let back = replace(store, newer("3", 0)).await;
    assert_eq!((back.expires_at, &back.spec.callback), (None, &None));
    fixture.advance_and_promote(seconds(50)).await;
    assert_eq!(finish_a(store, Some(&held.receipt)).await, Err(Refusal::Replaced));
    assert_eq!(reserve(store).await.job.body, body("3"));
    let requeue = store.requeue(ALL, &id("a"), Requeue::default(), None).await.expect("answers");
    assert_eq!(requeue, Err(Refusal::InState(State::Reserved)));
}

async fn a_batch_of_replacements_is_answered_in_order(fixture: StoreFixture) {
    const URL: &str = "http://a.example/";
    let store = &*fixture.store;
    let names = ["a", "b", "c", "d", "e", "f"];
    add(store, AddJob { spec: called("a", URL).spec, ..job("a") }).await;
    for name in ["c", "d", "e"] {
        add(store, job(name)).await;
    }
    let revised = |name: &str, revision, json| AddJob { id: id(name), ..revised(revision, json) };
    let batch = vec![
        revised("a", 2, "1"),
        revised("a", 1, "2"),
        AddJob { if_exists: IfExists::Keep, ..revised("a", 2, "1") },
        revised("b", 1, "1"),
        revised("b", 2, "2"),
        revised("c", 1, "1"),
        job("d"),
        AddJob { topic: topic("u"), ..revised("e", 1, "1") },
        revised("f", 1, "1"),
        revised("c", 1, "2"),
    ];
    let outcomes = store.add(batch).await.expect("adds");
    let words: Vec<&str> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Ok(Added::Created(_)) => "created",
            Ok(Added::Replaced(_)) => "replaced",
            Ok(Added::Replayed(_) | Added::FinishedBefore(_)) => "replayed",
            Err(Refusal::OlderRevision { .. }) => "older",
            Err(_) => "exists",
        })
        .collect();
    let expected = [
        "replaced", "older", "replayed", "created", "replaced", "replaced", "replayed", "exists", "created",
        "replayed",
    ];
    assert_eq!(words, expected);
    let mut bodies = Vec::new();
    for name in names {
        let job = store.get(ALL, &id(name)).await.expect("gets").expect("is there");
        bodies.push(job.body);
    }
    let [one, two, first] = [body("1"), body("2"), body("{\"n\":1}")];
    assert_eq!(bodies, [one.clone(), two, one.clone(), first.clone(), first, one]);
}
