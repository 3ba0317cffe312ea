//! Patching: rescheduling and the other fields of a patch.

use linger::{
    job::{Due, Job, State},
    store::{AddJob, Added, Patch, Patched},
};

use crate::harness::{jobs::*, stores::Bench};

super::on_every_engine! {
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

async fn patch(bench: &Bench, name: &str, patch: Patch) -> Job {
    match bench.store.patch(ALL, &id(name), patch).await.expect("answers") {
        Patched::Done(job) => {
            assert_eq!(bench.store.get(ALL, &job.id).await.expect("gets").as_ref(), Some(&job));
            job
        }
        other => panic!("expected a change, got {other:?}"),
    }
}

async fn one_delivery_now(bench: &Bench) {
    reserve(&*bench.store).await;
    bench.clock.advance(seconds(30));
    promote(&*bench.store).await;
    assert_eq!(reserve_any(&*bench.store).await, None);
}

async fn every_field_can_be_changed_and_the_rest_stays(bench: Bench) {
    let added = add(&*bench.store, delayed("a", seconds(10))).await;
    bench.clock.advance(seconds(1));
    let change = Patch {
        due: Some(Due::At(bench.now().after(seconds(99)))),
        ttr: Some(ttr(7)),
        max_attempts: Some(3),
        retry: Some(retry(&[1, 2])),
        body: Some(body("[\"longer than it was before\"]")),
    };
    let changed = patch(&bench, "a", change).await;
    let expected = Job {
        due_at: bench.now().after(seconds(99)),
        ttr: ttr(7),
        max_attempts: 3,
        retry: retry(&[1, 2]),
        body: body("[\"longer than it was before\"]"),
        ..added
    };
    assert_eq!(changed, expected);
    assert_eq!(patch(&bench, "a", Patch::default()).await, expected, "an empty patch changes nothing");
    assert_eq!(bench.store.patch(ALL, &id("b"), due_in(0)).await.expect("answers"), Patched::Gone);
}

async fn rescheduled_earlier_it_is_delivered_once_at_the_new_time(bench: Bench) {
    add(&*bench.store, delayed("a", seconds(20))).await;
    patch(&bench, "a", due_in(5)).await;
    bench.pass(millis(4_999)).await;
    assert_eq!(reserve_any(&*bench.store).await, None);
    bench.pass(millis(1)).await;
    one_delivery_now(&bench).await;
}

async fn rescheduled_later_it_is_delivered_once_at_the_new_time(bench: Bench) {
    add(&*bench.store, delayed("a", seconds(5))).await;
    patch(&bench, "a", due_in(20)).await;
    bench.pass(seconds(19)).await;
    assert_eq!(reserve_any(&*bench.store).await, None);
    bench.pass(seconds(1)).await;
    one_delivery_now(&bench).await;
}

async fn rescheduled_to_now_it_is_ready_at_once(bench: Bench) {
    add(&*bench.store, delayed("a", seconds(10))).await;
    bench.clock.advance(seconds(1));
    let ready = patch(&bench, "a", due_in(0)).await;
    assert_eq!((ready.state, ready.due_at), (State::Ready, bench.now()));
    one_delivery_now(&bench).await;
}

async fn a_ready_job_can_be_put_off(bench: Bench) {
    add(&*bench.store, job("a")).await;
    let later = patch(&bench, "a", due_in(20)).await;
    assert_eq!((later.state, later.due_at), (State::Delayed, bench.now().after(seconds(20))));
    assert_eq!(reserve_any(&*bench.store).await, None);
    bench.pass(seconds(20)).await;
    one_delivery_now(&bench).await;
}

async fn a_patch_without_a_due_time_keeps_the_place(bench: Bench) {
    let added = add(&*bench.store, job("a")).await;
    bench.clock.advance(seconds(5));
    let change = Patch { body: Some(body("2")), ..Patch::default() };
    let changed = patch(&bench, "a", change).await;
    assert_eq!(changed, Job { body: body("2"), ..added });
    let reserved = reserve(&*bench.store).await;
    assert_eq!((reserved.job.body, reserved.late), (body("2"), seconds(5)));
    assert_eq!(reserve_any(&*bench.store).await, None);
}

async fn a_reserved_or_dead_job_is_refused_and_unchanged(bench: Bench) {
    add(&*bench.store, AddJob { max_attempts: 1, ..job("a") }).await;
    let held = reserve(&*bench.store).await;
    let refused = bench.store.patch(ALL, &id("a"), due_in(0)).await.expect("answers");
    assert_eq!(refused, Patched::Refused(State::Reserved));
    assert_eq!(bench.store.get(ALL, &id("a")).await.expect("gets"), Some(held.job));
    bench.pass(seconds(60)).await;
    let refused = bench.store.patch(ALL, &id("a"), due_in(0)).await.expect("answers");
    assert_eq!(refused, Patched::Refused(State::Dead));
    assert_eq!(reserve_any(&*bench.store).await, None);
}

async fn a_patch_leaves_the_fingerprint_alone(bench: Bench) {
    add(&*bench.store, delayed("a", seconds(10))).await;
    let changed = patch(&bench, "a", due_in(99)).await;
    assert_eq!(add_any(&*bench.store, delayed("a", seconds(10))).await, Added::Replayed(changed));
}

async fn many_reschedules_leave_one_delivery(bench: Bench) {
    add(&*bench.store, delayed("a", seconds(50))).await;
    for n in 0..200 {
        patch(&bench, "a", due_in([0, 3, 700, 20][n % 4])).await;
    }
    patch(&bench, "a", due_in(10)).await;
    let stats = bench.store.topic(&topic("t")).await.expect("reads").expect("is there");
    assert_eq!((stats.delayed, stats.ready, stats.reserved, stats.dead), (1, 0, 0, 0));
    bench.pass(seconds(9)).await;
    assert_eq!(reserve_any(&*bench.store).await, None);
    bench.pass(seconds(1)).await;
    let reserved = reserve(&*bench.store).await;
    bench.store.finish(ALL, finish(&id("a"), &reserved.receipt)).await.expect("finishes");
    bench.pass(seconds(1_000)).await;
    assert_eq!(reserve_any(&*bench.store).await, None);
    assert_eq!(bench.store.topic(&topic("t")).await.expect("reads"), None);
}
