//! Patching: rescheduling and the other fields of a patch.

use linger::{
    job::{Due, Expire, Expiry, ExpiryChange, Job, OnExpiry, State},
    store::{AddJob, Added, Patch, Refusal, Steps},
};

use crate::harness::{jobs::*, stores::StoreFixture};

super::on_every_engine! {
    ;
    every_field_can_be_changed_and_the_rest_stays,
    rescheduled_earlier_it_is_delivered_once_at_the_new_time,
    rescheduled_later_it_is_delivered_once_at_the_new_time,
    rescheduled_to_now_it_is_ready_at_once,
    a_ready_job_can_be_put_off,
    a_patch_without_a_due_time_keeps_the_place,
    a_reserved_or_dead_job_is_refused_and_unchanged,
    a_patch_leaves_the_fingerprint_alone,
    many_reschedules_leave_one_delivery,
}

fn due_in(wait: u64) -> Patch {
    Patch { due: Some(Due::After(delay(seconds(wait)))), ..Patch::default() }
}

async fn patch(fixture: &StoreFixture, name: &str, patch: Patch) -> Job {
    match fixture.store.patch(ALL, &id(name), patch, None).await.expect("answers") {
        Ok(job) => {
            assert_eq!(fixture.store.get(ALL, &job.id).await.expect("gets").as_ref(), Some(&job));
            job
        }
        other => panic!("expected a change, got {other:?}"),
    }
}

async fn one_delivery_now(fixture: &StoreFixture) {
    reserve(&*fixture.store).await;
    fixture.clock.advance(seconds(30));
    promote(&*fixture.store).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
}

async fn every_field_can_be_changed_and_the_rest_stays(fixture: StoreFixture) {
    let added = add(&*fixture.store, delayed("a", seconds(10))).await;
    fixture.clock.advance(seconds(1));
    let change = Patch {
        due: Some(Due::At(fixture.now().after(seconds(99)))),
        ttr: Some(ttr(7)),
        max_attempts: Some(3),
        retry: Some(retry(&[1, 2])),
        expiry: ExpiryChange::Set(Expire::After(delay(seconds(5))), None),
        body: Some(body("[\"longer than it was before\"]")),
    };
    let changed = patch(&fixture, "a", change).await;
    let expected = Job {
        due_at: fixture.now().after(seconds(99)),
        expires_at: Some(fixture.now().after(seconds(104))),
        spec: JobSpec {
            ttr: ttr(7),
            max_attempts: 3,
            retry: retry(&[1, 2]),
            expiry: Some(Expiry { expire: Expire::After(delay(seconds(5))), on_expiry: OnExpiry::Dead }),
            ..JobSpec::default()
        },
        body: body("[\"longer than it was before\"]"),
        history: changed.history.clone(),
        ..added
    };
    assert_eq!(changed, expected);
    assert_eq!(patch(&fixture, "a", Patch::default()).await, expected, "an empty patch changes nothing");
    assert_eq!(
        fixture.store.patch(ALL, &id("b"), due_in(0), None).await.expect("answers"),
        Err(Refusal::Gone)
    );
}

async fn rescheduled_earlier_it_is_delivered_once_at_the_new_time(fixture: StoreFixture) {
    add(&*fixture.store, delayed("a", seconds(20))).await;
    patch(&fixture, "a", due_in(5)).await;
    fixture.advance_and_promote(millis(4_999)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
    fixture.advance_and_promote(millis(1)).await;
    one_delivery_now(&fixture).await;
}

async fn rescheduled_later_it_is_delivered_once_at_the_new_time(fixture: StoreFixture) {
    add(&*fixture.store, delayed("a", seconds(5))).await;
    patch(&fixture, "a", due_in(20)).await;
    fixture.advance_and_promote(seconds(19)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
    fixture.advance_and_promote(seconds(1)).await;
    one_delivery_now(&fixture).await;
}

async fn rescheduled_to_now_it_is_ready_at_once(fixture: StoreFixture) {
    add(&*fixture.store, delayed("a", seconds(10))).await;
    fixture.clock.advance(seconds(1));
    let ready = patch(&fixture, "a", due_in(0)).await;
    assert_eq!((ready.state(), ready.due_at), (State::Ready, fixture.now()));
    one_delivery_now(&fixture).await;
}

async fn a_ready_job_can_be_put_off(fixture: StoreFixture) {
    add(&*fixture.store, job("a")).await;
    let later = patch(&fixture, "a", due_in(20)).await;
    assert_eq!((later.state(), later.due_at), (State::Delayed, fixture.now().after(seconds(20))));
    assert_eq!(reserve_any(&*fixture.store).await, None);
    fixture.advance_and_promote(seconds(20)).await;
    one_delivery_now(&fixture).await;
}

async fn a_patch_without_a_due_time_keeps_the_place(fixture: StoreFixture) {
    let added = add(&*fixture.store, job("a")).await;
    fixture.clock.advance(seconds(5));
    let change = Patch { body: Some(body("2")), ..Patch::default() };
    let changed = patch(&fixture, "a", change).await;
    assert_eq!(changed, Job { body: body("2"), ..added });
    let reserved = reserve(&*fixture.store).await;
    assert_eq!((reserved.job.body, reserved.late), (body("2"), seconds(5)));
    assert_eq!(reserve_any(&*fixture.store).await, None);
}

async fn a_reserved_or_dead_job_is_refused_and_unchanged(fixture: StoreFixture) {
    add(&*fixture.store, AddJob { spec: JobSpec { max_attempts: 1, ..JobSpec::default() }, ..job("a") })
        .await;
    let held = reserve(&*fixture.store).await;
    let refused = fixture.store.patch(ALL, &id("a"), due_in(0), None).await.expect("answers");
    assert_eq!(refused, Err(Refusal::InState(State::Reserved)));
    assert_eq!(fixture.store.get(ALL, &id("a")).await.expect("gets"), Some(held.job));
    fixture.advance_and_promote(seconds(60)).await;
    let refused = fixture.store.patch(ALL, &id("a"), due_in(0), None).await.expect("answers");
    assert_eq!(refused, Err(Refusal::InState(State::Dead)));
    assert_eq!(reserve_any(&*fixture.store).await, None);
}

async fn a_patch_leaves_the_fingerprint_alone(fixture: StoreFixture) {
    add(&*fixture.store, delayed("a", seconds(10))).await;
    let changed = patch(&fixture, "a", due_in(99)).await;
    assert_eq!(add_any(&*fixture.store, delayed("a", seconds(10))).await, Ok(Added::Replayed(changed)));
}

async fn many_reschedules_leave_one_delivery(fixture: StoreFixture) {
    add(&*fixture.store, delayed("a", seconds(50))).await;
    for n in 0..200 {
        patch(&fixture, "a", due_in([0, 3, 700, 20][n % 4])).await;
    }
    patch(&fixture, "a", due_in(10)).await;
    let stats = fixture.store.topic(&topic("t")).await.expect("reads").expect("is there");
    assert_eq!((stats.delayed, stats.ready, stats.reserved, stats.dead), (1, 0, 0, 0));
    fixture.advance_and_promote(seconds(9)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
    fixture.advance_and_promote(seconds(1)).await;
    let reserved = reserve(&*fixture.store).await;
    fixture.store.finish(ALL, finish(&id("a"), &reserved.receipt)).await.expect("finishes");
    fixture.advance_and_promote(seconds(1_000)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
    assert_eq!(fixture.store.topic(&topic("t")).await.expect("reads"), None);
}
