//! Finish and delete: with which receipts and in which states.

use linger::{
    job::{Receipt, State},
    store::{AddJob, Deleted, FinishJob, Finished, NotHeld, Release, TopicStats},
};

use crate::harness::{jobs::*, stores::Bench};

super::on_every_engine! {
    a_finished_job_is_gone,
    a_finish_works_past_the_ttr_until_the_timer_took_the_job_back,
    only_the_present_receipt_finishes,
    a_finish_without_a_receipt_needs_a_reservation,
    a_job_that_requires_its_receipt_says_so,
    a_batch_of_finishes_is_answered_item_by_item,
    a_job_is_deleted_in_any_state,
    a_deleted_job_is_delivered_no_more,
    fault_a_late_finish_ends_nobody_elses_delivery,
    fault_a_late_finish_ends_no_newer_job_with_the_id,
    fault_a_negative_acknowledgement_after_the_finish_adds_nothing,
}

fn done() -> Finished {
    Finished::Done { topic: topic("t") }
}

async fn a_finished_job_is_gone(bench: Bench) {
    add(&*bench.store, job("a")).await;
    let reserved = reserve(&*bench.store).await;
    let request = finish(&id("a"), &reserved.receipt);
    assert_eq!(bench.store.finish(ALL, request.clone()).await.expect("finishes"), [done()]);
    assert_eq!(bench.store.finish(ALL, request).await.expect("answers"), [Finished::Gone]);
    assert_eq!(bench.store.get(ALL, &id("a")).await.expect("gets"), None);
    bench.pass(seconds(86_400)).await;
    assert_eq!(reserve_any(&*bench.store).await, None);
}

async fn a_finish_works_past_the_ttr_until_the_timer_took_the_job_back(bench: Bench) {
    add(&*bench.store, job("a")).await;
    let first = reserve(&*bench.store).await;
    bench.clock.advance(seconds(61));
    let touched = bench.store.touch(ALL, &id("a"), &first.receipt, None).await.expect("answers");
    assert!(touched.is_ok(), "the timer has not come by yet");
    bench.clock.advance(seconds(61));
    assert_eq!(bench.store.finish(ALL, finish(&id("a"), &first.receipt)).await.expect("finishes"), [done()]);
}

async fn only_the_present_receipt_finishes(bench: Bench) {
    add(&*bench.store, job("a")).await;
    let foreign = finish(&id("a"), &Receipt::generate());
    assert_eq!(bench.store.finish(ALL, foreign.clone()).await.expect("answers"), [Finished::Lost]);
    let first = reserve(&*bench.store).await;
    assert_eq!(bench.store.finish(ALL, foreign).await.expect("answers"), [Finished::Lost]);
    assert_eq!(bench.store.get(ALL, &id("a")).await.expect("gets"), Some(first.job));
    let unknown = finish(&id("b"), &first.receipt);
    assert_eq!(bench.store.finish(ALL, unknown).await.expect("answers"), [Finished::Gone]);
}

async fn a_finish_without_a_receipt_needs_a_reservation(bench: Bench) {
    let bare = || vec![FinishJob { id: id("a"), receipt: None }];
    assert_eq!(bench.store.finish(ALL, bare()).await.expect("answers"), [Finished::Gone]);
    add(&*bench.store, AddJob { max_attempts: 1, ..delayed("a", seconds(1)) }).await;
    assert_eq!(bench.store.finish(ALL, bare()).await.expect("answers"), [Finished::NotReserved]);
    bench.pass(seconds(1)).await;
    assert_eq!(bench.store.finish(ALL, bare()).await.expect("answers"), [Finished::NotReserved]);
    reserve(&*bench.store).await;
    bench.pass(seconds(60)).await;
    assert_eq!(
        bench.store.finish(ALL, bare()).await.expect("answers"),
        [Finished::NotReserved],
        "it is dead"
    );
    add(&*bench.store, job("b")).await;
    reserve(&*bench.store).await;
    let other = vec![FinishJob { id: id("b"), receipt: None }];
    assert_eq!(bench.store.finish(ALL, other).await.expect("finishes"), [done()]);
}

async fn a_job_that_requires_its_receipt_says_so(bench: Bench) {
    add(&*bench.store, AddJob { require_receipt: true, ..job("a") }).await;
    let reserved = reserve(&*bench.store).await;
    let bare = vec![FinishJob { id: id("a"), receipt: None }];
    assert_eq!(bench.store.finish(ALL, bare).await.expect("answers"), [Finished::ReceiptRequired]);
    assert_eq!(
        bench.store.finish(ALL, finish(&id("a"), &reserved.receipt)).await.expect("finishes"),
        [done()]
    );
}

async fn a_batch_of_finishes_is_answered_item_by_item(bench: Bench) {
    for name in ["a", "b", "c"] {
        add(&*bench.store, job(name)).await;
    }
    let held = bench.store.reserve(&topic("t"), &[None, None], Wait::No).await.expect("reserves");
    let with = |n: usize| FinishJob { id: held[n].job.id.clone(), receipt: Some(held[n].receipt.clone()) };
    let crossed = FinishJob { receipt: Some(held[0].receipt.clone()), ..with(1) };
    let rest: Vec<_> =
        ["a", "b", "c"].into_iter().map(id).filter(|id| held.iter().all(|r| r.job.id != *id)).collect();
    let waiting = FinishJob { id: rest[0].clone(), receipt: None };
    let batch = vec![crossed, with(0), with(0), waiting, with(1)];
    let answers = bench.store.finish(ALL, batch).await.expect("answers");
    assert_eq!(answers, [Finished::Lost, done(), Finished::Gone, Finished::NotReserved, done()]);
}

async fn a_job_is_deleted_in_any_state(bench: Bench) {
    add(&*bench.store, AddJob { max_attempts: 1, ..job("dead") }).await;
    reserve(&*bench.store).await;
    bench.pass(seconds(60)).await;
    add(&*bench.store, job("reserved")).await;
    reserve(&*bench.store).await;
    add(&*bench.store, job("ready")).await;
    add(&*bench.store, delayed("delayed", seconds(5))).await;
    let names = ["delayed", "ready", "reserved", "dead"];
    for (name, state) in names.into_iter().zip(State::ALL) {
        assert_eq!(bench.store.get(ALL, &id(name)).await.expect("gets").expect("is there").state, state);
    }
    let ids = ["delayed", "unknown", "ready", "reserved", "dead", "dead"].map(id);
    let gone = bench.store.delete(ALL, ids.to_vec()).await.expect("deletes");
    let expected = [1, 0, 1, 1, 1, 0].map(|there| match there {
        1 => Deleted::Done { topic: topic("t") },
        _ => Deleted::Gone,
    });
    assert_eq!(gone, expected);
    assert_eq!(bench.store.topic(&topic("t")).await.expect("reads"), None);
}

async fn a_deleted_job_is_delivered_no_more(bench: Bench) {
    add(&*bench.store, delayed("delayed", seconds(5))).await;
    add(&*bench.store, job("reserved")).await;
    let reserved = reserve(&*bench.store).await;
    add(&*bench.store, job("ready")).await;
    bench.store.delete(ALL, ["delayed", "ready", "reserved"].map(id).to_vec()).await.expect("deletes");
    let late = bench.store.finish(ALL, finish(&id("reserved"), &reserved.receipt)).await.expect("answers");
    assert_eq!(late, [Finished::Gone]);
    bench.pass(seconds(86_400)).await;
    assert_eq!(reserve_any(&*bench.store).await, None);
}

async fn fault_a_late_finish_ends_nobody_elses_delivery(bench: Bench) {
    add(&*bench.store, job("a")).await;
    let slow = reserve(&*bench.store).await;
    bench.pass(seconds(60)).await;
    assert_eq!(
        bench.store.finish(ALL, finish(&id("a"), &slow.receipt)).await.expect("answers"),
        [Finished::Lost]
    );
    let second = reserve(&*bench.store).await;
    assert_eq!(
        bench.store.finish(ALL, finish(&id("a"), &slow.receipt)).await.expect("answers"),
        [Finished::Lost]
    );
    assert_eq!(bench.store.get(ALL, &id("a")).await.expect("gets"), Some(second.job));
    assert_eq!(bench.store.finish(ALL, finish(&id("a"), &second.receipt)).await.expect("finishes"), [done()]);
}

async fn fault_a_late_finish_ends_no_newer_job_with_the_id(bench: Bench) {
    add(&*bench.store, job("a")).await;
    let old = reserve(&*bench.store).await;
    bench.store.delete(ALL, vec![id("a")]).await.expect("deletes");
    add(&*bench.store, job("a")).await;
    assert_eq!(
        bench.store.finish(ALL, finish(&id("a"), &old.receipt)).await.expect("answers"),
        [Finished::Lost]
    );
    let new = reserve(&*bench.store).await;
    assert_eq!(
        bench.store.finish(ALL, finish(&id("a"), &old.receipt)).await.expect("answers"),
        [Finished::Lost]
    );
    assert_eq!(new.job.attempts, 1);
}

async fn fault_a_negative_acknowledgement_after_the_finish_adds_nothing(bench: Bench) {
    add(&*bench.store, job("a")).await;
    let reserved = reserve(&*bench.store).await;
    bench.store.finish(ALL, finish(&id("a"), &reserved.receipt)).await.expect("finishes");
    let release = Release { delay: Some(delay(seconds(0))), reason: None };
    let late = bench.store.release(ALL, &id("a"), &reserved.receipt, release).await.expect("answers");
    assert_eq!(late, Err(NotHeld::Gone));
    let buried = bench.store.bury(ALL, &id("a"), &reserved.receipt, None).await.expect("answers");
    assert_eq!(buried, Err(NotHeld::Gone));
    assert_eq!(bench.store.topic(&topic("t")).await.expect("reads"), None::<TopicStats>);
}
