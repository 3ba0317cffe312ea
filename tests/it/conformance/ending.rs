//! Finish and delete: with which receipts and in which states.

use linger::{
    job::{Receipt, State},
    store::{AddJob, Applied, FinishJob, Refusal, Release, Step, StepAction, Steps, TopicStats},
};

use crate::harness::{jobs::*, stores::StoreFixture};

super::on_every_engine! {
    a_batch_of_finishes_is_answered_item_by_item;
    a_finished_job_is_gone,
    a_finish_works_past_the_ttr_until_the_timer_took_the_job_back,
    only_the_present_receipt_finishes,
    a_finish_without_a_receipt_needs_a_reservation,
    a_job_that_requires_its_receipt_says_so,
    a_job_is_deleted_in_any_state,
    a_delete_may_leave_reserved_jobs,
    a_deleted_job_is_delivered_no_more,
    fault_a_late_finish_ends_no_later_delivery,
    fault_a_late_finish_ends_no_newer_job_with_the_id,
    fault_a_negative_acknowledgement_after_the_finish_adds_nothing,
}

async fn a_finished_job_is_gone(fixture: StoreFixture) {
    add(&*fixture.store, job("a")).await;
    let reserved = reserve(&*fixture.store).await;
    let request = finish(&id("a"), &reserved.receipt);
    assert_eq!(fixture.store.finish(ALL, request.clone()).await.expect("finishes"), [finished()]);
    assert_eq!(fixture.store.finish(ALL, request).await.expect("answers"), [Err(Refusal::Gone)]);
    assert_eq!(fixture.store.get(ALL, &id("a")).await.expect("gets"), None);
    fixture.advance_and_promote(seconds(86_400)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
}

async fn a_finish_works_past_the_ttr_until_the_timer_took_the_job_back(fixture: StoreFixture) {
    add(&*fixture.store, job("a")).await;
    let first = reserve(&*fixture.store).await;
    fixture.clock.advance(seconds(61));
    let touched = fixture.store.touch(ALL, &id("a"), &first.receipt, None).await.expect("answers");
    assert!(touched.is_ok(), "the timer has not come by yet");
    fixture.clock.advance(seconds(61));
    assert_eq!(
        fixture.store.finish(ALL, finish(&id("a"), &first.receipt)).await.expect("finishes"),
        [finished()]
    );
}

async fn only_the_present_receipt_finishes(fixture: StoreFixture) {
    add(&*fixture.store, job("a")).await;
    let foreign = finish(&id("a"), &Receipt::generate());
    assert_eq!(fixture.store.finish(ALL, foreign.clone()).await.expect("answers"), [Err(Refusal::Lost)]);
    let first = reserve(&*fixture.store).await;
    assert_eq!(fixture.store.finish(ALL, foreign).await.expect("answers"), [Err(Refusal::Lost)]);
    assert_eq!(fixture.store.get(ALL, &id("a")).await.expect("gets"), Some(first.job));
    let unknown = finish(&id("b"), &first.receipt);
    assert_eq!(fixture.store.finish(ALL, unknown).await.expect("answers"), [Err(Refusal::Gone)]);
}

async fn a_finish_without_a_receipt_needs_a_reservation(fixture: StoreFixture) {
    let bare = || vec![FinishJob { id: id("a"), receipt: None }];
    assert_eq!(fixture.store.finish(ALL, bare()).await.expect("answers"), [Err(Refusal::Gone)]);
    add(
        &*fixture.store,
        AddJob { spec: JobSpec { max_attempts: 1, ..JobSpec::default() }, ..delayed("a", seconds(1)) },
    )
    .await;
    assert_eq!(fixture.store.finish(ALL, bare()).await.expect("answers"), [Err(Refusal::NotReserved)]);
    fixture.advance_and_promote(seconds(1)).await;
    assert_eq!(fixture.store.finish(ALL, bare()).await.expect("answers"), [Err(Refusal::NotReserved)]);
    reserve(&*fixture.store).await;
    fixture.advance_and_promote(seconds(60)).await;
    assert_eq!(
        fixture.store.finish(ALL, bare()).await.expect("answers"),
        [Err(Refusal::NotReserved)],
        "it is dead"
    );
    add(&*fixture.store, job("b")).await;
    reserve(&*fixture.store).await;
    let other = vec![FinishJob { id: id("b"), receipt: None }];
    assert_eq!(fixture.store.finish(ALL, other).await.expect("finishes"), [finished()]);
}

async fn a_job_that_requires_its_receipt_says_so(fixture: StoreFixture) {
    add(
        &*fixture.store,
        AddJob { spec: JobSpec { require_receipt: true, ..JobSpec::default() }, ..job("a") },
    )
    .await;
    let reserved = reserve(&*fixture.store).await;
    let bare = vec![FinishJob { id: id("a"), receipt: None }];
    assert_eq!(fixture.store.finish(ALL, bare).await.expect("answers"), [Err(Refusal::ReceiptRequired)]);
    assert_eq!(
        fixture.store.finish(ALL, finish(&id("a"), &reserved.receipt)).await.expect("finishes"),
        [finished()]
    );
}

async fn a_batch_of_finishes_is_answered_item_by_item(fixture: StoreFixture) {
    for name in ["a", "b", "c"] {
        add(&*fixture.store, job(name)).await;
    }
    let held = fixture.store.reserve(&plain("t"), &claims(2), Wait::No).await.expect("reserves");
    let with = |n: usize| FinishJob { id: held[n].job.id.clone(), receipt: Some(held[n].receipt.clone()) };
    let crossed = FinishJob { receipt: Some(held[0].receipt.clone()), ..with(1) };
    let rest: Vec<_> =
        ["a", "b", "c"].into_iter().map(id).filter(|id| held.iter().all(|r| r.job.id != *id)).collect();
    let waiting = FinishJob { id: rest[0].clone(), receipt: None };
    let batch = vec![crossed, with(0), with(0), waiting, with(1)];
    let answers = fixture.store.finish(ALL, batch).await.expect("answers");
    assert_eq!(
        answers,
        [Err(Refusal::Lost), finished(), Err(Refusal::Gone), Err(Refusal::NotReserved), finished()]
    );
}

async fn a_job_is_deleted_in_any_state(fixture: StoreFixture) {
    add(&*fixture.store, AddJob { spec: JobSpec { max_attempts: 1, ..JobSpec::default() }, ..job("dead") })
        .await;
    reserve(&*fixture.store).await;
    fixture.advance_and_promote(seconds(60)).await;
    add(&*fixture.store, job("reserved")).await;
    reserve(&*fixture.store).await;
    add(&*fixture.store, job("ready")).await;
    add(&*fixture.store, delayed("delayed", seconds(5))).await;
    let names = ["delayed", "ready", "reserved", "dead"];
    for (name, state) in names.into_iter().zip(State::ALL) {
        assert_eq!(fixture.store.get(ALL, &id(name)).await.expect("gets").expect("is there").state(), state);
    }
    let ids = ["delayed", "unknown", "ready", "reserved", "dead", "dead"].map(id);
    let spared = fixture.store.delete(ALL, vec![id("reserved")], DeleteRule::UnlessReserved).await;
    assert_eq!(spared.expect("answers"), [Err(Refusal::InState(State::Reserved))]);
    let gone = fixture.store.delete(ALL, ids.to_vec(), DeleteRule::AnyState).await.expect("deletes");
    let [delayed, ready, reserved, dead] = State::ALL.map(deleted);
    assert_eq!(gone, [delayed, Err(Refusal::Gone), ready, reserved, dead, Err(Refusal::Gone)]);
    assert_eq!(fixture.store.topic(&topic("t")).await.expect("reads"), None);
}

async fn a_delete_may_leave_reserved_jobs(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, job("held")).await;
    let held = reserve(store).await;
    add(store, job("ready")).await;
    add(store, delayed("delayed", seconds(5))).await;
    let ids = ["ready", "held", "delayed", "unknown"].map(id).to_vec();
    let outcomes = store.delete(ALL, ids, DeleteRule::UnlessReserved).await.expect("answers");
    assert_eq!(
        outcomes,
        [
            deleted(State::Ready),
            Err(Refusal::InState(State::Reserved)),
            deleted(State::Delayed),
            Err(Refusal::Gone)
        ]
    );
    assert_eq!(store.get(ALL, &id("held")).await.expect("gets"), Some(held.job));
    add(store, delayed("other", seconds(90))).await;
    // Each step has its own rule, in the order of the steps.
    let delete = |name: &str, rule| Step::unscoped(id(name), StepAction::Delete(rule), None);
    let steps = [delete("held", DeleteRule::UnlessReserved), delete("other", DeleteRule::AnyState)];
    let applied = store.apply(steps.to_vec()).await.expect("answers");
    assert_eq!(
        applied,
        [Err(Refusal::InState(State::Reserved)), deleted(State::Delayed).map(Applied::Deleted)]
    );
    fixture.advance_and_promote(seconds(60)).await;
    let came_back = store.delete(ALL, vec![id("held")], DeleteRule::UnlessReserved).await;
    assert_eq!(came_back.expect("answers"), [deleted(State::Ready)]);
}

async fn a_deleted_job_is_delivered_no_more(fixture: StoreFixture) {
    add(&*fixture.store, delayed("delayed", seconds(5))).await;
    add(&*fixture.store, job("reserved")).await;
    let reserved = reserve(&*fixture.store).await;
    add(&*fixture.store, job("ready")).await;
    fixture
        .store
        .delete(ALL, ["delayed", "ready", "reserved"].map(id).to_vec(), DeleteRule::AnyState)
        .await
        .expect("deletes");
    let late = fixture.store.finish(ALL, finish(&id("reserved"), &reserved.receipt)).await.expect("answers");
    assert_eq!(late, [Err(Refusal::Gone)]);
    fixture.advance_and_promote(seconds(86_400)).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
}

async fn fault_a_late_finish_ends_no_later_delivery(fixture: StoreFixture) {
    add(&*fixture.store, job("a")).await;
    let slow = reserve(&*fixture.store).await;
    fixture.advance_and_promote(seconds(60)).await;
    let second = reserve(&*fixture.store).await;
    assert_eq!(
        fixture.store.finish(ALL, finish(&id("a"), &slow.receipt)).await.expect("answers"),
        [Err(Refusal::Lost)]
    );
    assert_eq!(fixture.store.get(ALL, &id("a")).await.expect("gets"), Some(second.job));
    assert_eq!(
        fixture.store.finish(ALL, finish(&id("a"), &second.receipt)).await.expect("finishes"),
        [finished()]
    );
}

async fn fault_a_late_finish_ends_no_newer_job_with_the_id(fixture: StoreFixture) {
    add(&*fixture.store, job("a")).await;
    let old = reserve(&*fixture.store).await;
    fixture.store.delete(ALL, vec![id("a")], DeleteRule::AnyState).await.expect("deletes");
    add(&*fixture.store, job("a")).await;
    assert_eq!(
        fixture.store.finish(ALL, finish(&id("a"), &old.receipt)).await.expect("answers"),
        [Err(Refusal::Lost)]
    );
    let new = reserve(&*fixture.store).await;
    assert_eq!(
        fixture.store.finish(ALL, finish(&id("a"), &old.receipt)).await.expect("answers"),
        [Err(Refusal::Lost)]
    );
    assert_eq!(new.job.attempts, 1);
}

async fn fault_a_negative_acknowledgement_after_the_finish_adds_nothing(fixture: StoreFixture) {
    add(&*fixture.store, job("a")).await;
    let reserved = reserve(&*fixture.store).await;
    fixture.store.finish(ALL, finish(&id("a"), &reserved.receipt)).await.expect("finishes");
    let release = Release { due: Some(after(seconds(0))), reason: None };
    let late = fixture.store.release(ALL, &id("a"), &reserved.receipt, release).await.expect("answers");
    assert_eq!(late, Err(Refusal::Gone));
    let buried = fixture.store.bury(ALL, &id("a"), &reserved.receipt, None).await.expect("answers");
    assert_eq!(buried, Err(Refusal::Gone));
    assert_eq!(fixture.store.topic(&topic("t")).await.expect("reads"), None::<TopicStats>);
}
