//! The guard of a change: a job that is not as it was seen is skipped, and stays as it is.

use linger::{
    job::{Due, State, Timestamp},
    store::{AddJob, FinishJob, JobChange, Patch, Release, SeenJob, Steps, Store},
};

use super::listing::fill;
use crate::harness::{jobs::*, lists::*, stores::StoreFixture};

super::on_every_engine! {
    ;
    a_job_that_differs_from_what_was_seen_is_skipped,
    a_waiting_job_that_moved_is_skipped,
    a_reserved_job_that_moved_is_skipped,
    a_dead_letter_that_moved_is_skipped,
    a_job_that_is_gone_or_new_is_skipped,
    a_job_that_returned_to_its_place_is_changed,
}

fn every_change() -> [JobChange; 5] {
    [
        JobChange::Delete,
        JobChange::Reschedule(Due::default()),
        JobChange::Reschedule(Due::After(delay(seconds(77)))),
        JobChange::Requeue(after(seconds(0)).into()),
        JobChange::Revoke { due: Due::default(), reason: None },
    ]
}

/// Asserts that every change of the job as it was `seen` is skipped and leaves it as it is.
async fn assert_skipped(store: &dyn Store, seen: &SeenJob, what: &str) {
    let before = store.get(ALL, &seen.id).await.expect("gets");
    for how in every_change() {
        let changed = store.change(change(seen, how.clone()), None).await.expect("answers");
        assert_eq!(changed, [false], "{what}: {how:?}");
        assert_eq!(store.get(ALL, &seen.id).await.expect("gets"), before, "{what}: {how:?}");
    }
}

async fn a_job_that_differs_from_what_was_seen_is_skipped(fixture: StoreFixture) {
    fill(&fixture, 2, 1).await;
    let store = &*fixture.store;
    let at = |seen: &SeenJob, offset| Timestamp::from_millis(seen.moment.as_millis() + offset);
    for state in State::ALL {
        let name = format!("{state}-00");
        let seen = see(store, &name).await;
        assert_eq!(seen.state, state);
        assert_skipped(store, &SeenJob { topic: topic("u"), ..seen.clone() }, "another topic").await;
        assert_skipped(store, &SeenJob { id: id("nobody"), ..seen.clone() }, "another id").await;
        let neighbour = SeenJob { id: id(&format!("{state}-01")), ..seen.clone() };
        assert_skipped(store, &neighbour, "another job").await;
        for offset in [-1, 1, 3_600_000] {
            let moment = at(&seen, offset);
            assert_skipped(store, &SeenJob { moment, ..seen.clone() }, "another moment").await;
        }
        for other in State::ALL.into_iter().filter(|other| *other != state) {
            assert_skipped(store, &SeenJob { state: other, ..seen.clone() }, "another state").await;
        }
        // Nothing else is wrong with it.
        let changed = store.change(change(&seen, JobChange::Delete), None).await.expect("answers");
        assert_eq!(changed, [true], "{state}");
    }
}

async fn a_waiting_job_that_moved_is_skipped(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, delayed("a", seconds(10))).await;
    let seen = see(store, "a").await;
    let due = |due| Patch { due: Some(due), ..Patch::default() };
    store
        .patch(ALL, &id("a"), due(Due::After(delay(millis(10_001)))), None)
        .await
        .expect("patches")
        .expect("is not refused");
    assert_skipped(store, &seen, "put off").await;
    let seen = see(store, "a").await;
    store.patch(ALL, &id("a"), due(Due::default()), None).await.expect("patches").expect("is not refused");
    assert_skipped(store, &seen, "brought forward").await;
    store
        .patch(ALL, &id("a"), due(Due::After(delay(seconds(5)))), None)
        .await
        .expect("patches")
        .expect("is not refused");
    let seen = see(store, "a").await;
    fixture.advance_and_promote(seconds(5)).await;
    assert_eq!(see(store, "a").await, SeenJob { state: State::Ready, ..seen.clone() });
    assert_skipped(store, &seen, "promoted").await;
    let seen = see(store, "a").await;
    let held = reserve(store).await;
    assert_skipped(store, &seen, "reserved").await;
    fixture.clock.advance(millis(1));
    let at_once = Release { due: Some(after(seconds(0))), reason: None };
    store.release(ALL, &id("a"), &held.receipt, at_once).await.expect("answers").expect("is held");
    assert_eq!(see(store, "a").await.state, seen.state);
    assert_skipped(store, &seen, "reserved and released").await;
    assert_eq!(reserve(store).await.job.attempts, 2, "it can be reserved as before");
}

async fn a_reserved_job_that_moved_is_skipped(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, AddJob { spec: JobSpec { max_attempts: 3, ..JobSpec::default() }, ..job("a") }).await;
    let held = reserve(store).await;
    let seen = see(store, "a").await;
    store.touch(ALL, &id("a"), &held.receipt, Some(ttr(61))).await.expect("answers").expect("is held");
    assert_skipped(store, &seen, "touched").await;
    let seen = see(store, "a").await;
    let later = Release { due: Some(after(seconds(61))), reason: None };
    store.release(ALL, &id("a"), &held.receipt, later).await.expect("answers").expect("is held");
    assert_eq!(see(store, "a").await.moment, seen.moment, "only the state differs");
    assert_skipped(store, &seen, "released").await;
    fixture.advance_and_promote(seconds(61)).await;
    reserve(store).await;
    let seen = see(store, "a").await;
    fixture.advance_and_promote(seconds(60)).await;
    assert_eq!(see(store, "a").await.moment, seen.moment, "only the state differs");
    assert_skipped(store, &seen, "expired").await;
    reserve(store).await;
    let seen = see(store, "a").await;
    fixture.advance_and_promote(seconds(60)).await;
    assert_eq!(see(store, "a").await, SeenJob { state: State::Dead, ..seen.clone() });
    assert_skipped(store, &seen, "died").await;
}

async fn a_dead_letter_that_moved_is_skipped(fixture: StoreFixture) {
    let store = &*fixture.store;
    let bury = async || {
        let held = reserve(store).await;
        store.bury(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
        see(store, "a").await
    };
    add(store, job("a")).await;
    let seen = bury().await;
    store.requeue(ALL, &id("a"), after(seconds(0)), None).await.expect("answers").expect("is not refused");
    assert_eq!(see(store, "a").await, SeenJob { state: State::Ready, ..seen.clone() });
    assert_skipped(store, &seen, "requeued").await;
    fixture.clock.advance(millis(1));
    let again = bury().await;
    assert_skipped(store, &seen, "requeued, and dead again").await;
    assert_eq!(requeue_oldest(store, "t", 1).await, 1);
    assert_skipped(store, &again, "requeued with others").await;
}

async fn a_job_that_is_gone_or_new_is_skipped(fixture: StoreFixture) {
    let store = &*fixture.store;
    let due = Due::At(fixture.now().after(seconds(10)));
    add(store, AddJob { due, ..job("a") }).await;
    let seen = see(store, "a").await;
    store.delete(ALL, vec![id("a")], DeleteRule::AnyState).await.expect("deletes");
    assert_skipped(store, &seen, "deleted").await;
    add(store, AddJob { due, topic: topic("u"), ..job("a") }).await;
    assert_eq!(see(store, "a").await, SeenJob { topic: topic("u"), ..seen.clone() });
    assert_skipped(store, &seen, "added again in another topic").await;
    add(store, job("b")).await;
    let held = reserve(store).await;
    let seen = see(store, "b").await;
    let finished = FinishJob { id: id("b"), receipt: Some(held.receipt) };
    store.finish(ALL, vec![finished]).await.expect("finishes");
    assert_skipped(store, &seen, "finished").await;
    add(store, job("b")).await;
    assert_skipped(store, &seen, "finished and added again").await;
}

/// A guard is not a version: what counts is where the job stands.
async fn a_job_that_returned_to_its_place_is_changed(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, job("a")).await;
    let seen = see(store, "a").await;
    let held = reserve(store).await;
    store.cancel(vec![(id("a"), held.receipt)]).await.expect("cancels");
    let patch = Patch { body: Some(body("[\"patched\"]")), ttr: Some(ttr(9)), ..Patch::default() };
    store.patch(ALL, &id("a"), patch, None).await.expect("patches").expect("is not refused");
    let later = JobChange::Reschedule(Due::After(delay(seconds(5))));
    assert_eq!(store.change(change(&seen, later), None).await.expect("answers"), [true]);
    let changed = get(store, "a").await;
    assert_eq!((changed.state(), changed.spec.ttr), (State::Delayed, ttr(9)));
    assert_eq!(changed.body, body("[\"patched\"]"));
}
