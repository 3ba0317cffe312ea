//! Finishes by the receipt of a reservation that has timed out: until when, and of which jobs.

use linger::{
    job::{Expire, Expiry, OnExpiry, Receipt, State},
    store::{
        AddJob, FinishJob, Finished, JobChange, JobRecord, Outcome, Patch, Put, Refusal, Release, Requeue,
        Steps, Store,
    },
};

use crate::harness::{
    jobs::*,
    lists::{change, see},
    records::all_records,
    stores::StoreFixture,
};

super::on_every_engine! {
    a_batch_of_late_finishes_is_answered_in_order;
    a_job_that_timed_out_is_finished_late_in_each_state,
    a_late_finish_needs_the_receipt,
    the_next_reservation_ends_a_late_finish,
    a_change_of_the_job_ends_a_late_finish,
    a_requeued_job_with_as_many_attempts_takes_no_late_finish,
    a_reservation_that_no_client_saw_counts_as_none,
    the_holder_who_gives_a_job_back_cannot_finish_it_late,
    a_job_that_wants_no_late_finish_refuses_it,
    an_expired_job_is_finished_late,
    a_late_finish_waits_for_a_restart,
    a_job_with_a_callback_is_finished_late,
    a_late_finish_moves_with_its_job,
}

/// Adds job `a` with this spec, reserves it and has it time out after its TTR of a minute.
async fn time_out(fixture: &StoreFixture, spec: JobSpec) -> Receipt {
    let store = &*fixture.store;
    add(store, AddJob { spec, ..job("a") }).await;
    let held = reserve(store).await;
    fixture.advance_and_promote(seconds(60)).await;
    held.receipt
}

async fn finish_a(store: &dyn Store, receipt: &Receipt) -> Outcome<Finished> {
    one(store.finish(ALL, finish(&id("a"), receipt)).await.expect("answers"))
}

async fn state(store: &dyn Store) -> State {
    store.get(ALL, &id("a")).await.expect("gets").expect("is there").state()
}

/// Specs with which a job that timed out is ready, delayed or dead.
fn specs() -> [(JobSpec, State); 3] {
    [
        (JobSpec::default(), State::Ready),
        (JobSpec { retry: retry(&[5]), ..JobSpec::default() }, State::Delayed),
        (JobSpec { max_attempts: 1, ..JobSpec::default() }, State::Dead),
    ]
}

async fn a_job_that_timed_out_is_finished_late_in_each_state(fixture: StoreFixture) {
    let store = &*fixture.store;
    let waits = JobSpec { retry: retry(&[5]), ..JobSpec::default() };
    for (spec, expected) in specs() {
        let receipt = time_out(&fixture, spec).await;
        assert_eq!(state(store).await, expected);
        assert_eq!(finish_a(store, &receipt).await, finished_late(), "{expected}");
        assert_eq!(finish_a(store, &receipt).await, Err(Refusal::Gone), "{expected}");
        assert_eq!(store.topic(&topic("t")).await.expect("reads"), None, "{expected}: no count includes it");
    }
    let receipt = time_out(&fixture, waits).await;
    fixture.advance_and_promote(seconds(5)).await;
    assert_eq!(state(store).await, State::Ready);
    assert_eq!(finish_a(store, &receipt).await, finished_late(), "it has become due since");
    fixture.advance_and_promote(seconds(86_400)).await;
    assert_eq!(reserve_any(store).await, None);
    add(store, job("a")).await;
    assert_eq!(reserve(store).await.job.attempts, 1, "its id can be used again");
}

async fn a_late_finish_needs_the_receipt(fixture: StoreFixture) {
    let store = &*fixture.store;
    for (spec, expected) in specs() {
        let receipt = time_out(&fixture, spec).await;
        let bare = vec![FinishJob { id: id("a"), receipt: None }];
        assert_eq!(one(store.finish(ALL, bare).await.expect("answers")), Err(Refusal::NotReserved));
        assert_eq!(finish_a(store, &Receipt::generate()).await, Err(Refusal::Lost));
        let foreign = store.finish(&only(&["other"]), finish(&id("a"), &receipt)).await.expect("answers");
        assert_eq!(one(foreign), Err(Refusal::Gone));
        assert_eq!(state(store).await, expected);
        assert_eq!(finish_a(store, &receipt).await, finished_late());
    }
}

async fn the_next_reservation_ends_a_late_finish(fixture: StoreFixture) {
    let store = &*fixture.store;
    let first = time_out(&fixture, JobSpec::default()).await;
    let second = reserve(store).await;
    assert_eq!(finish_a(store, &first).await, Err(Refusal::Lost), "another worker has it");
    assert_eq!(store.touch(ALL, &id("a"), &first, None).await.expect("answers"), Err(Refusal::Lost));
    fixture.advance_and_promote(seconds(60)).await;
    assert_eq!(finish_a(store, &first).await, Err(Refusal::Lost), "another worker has had it");
    let third = reserve(store).await;
    store
        .release(ALL, &id("a"), &third.receipt, Release::default())
        .await
        .expect("answers")
        .expect("is held");
    for receipt in [&first, &second.receipt, &third.receipt] {
        assert_eq!(finish_a(store, receipt).await, Err(Refusal::Lost));
    }
    fixture.advance_and_promote(seconds(4)).await;
    let fourth = reserve(store).await;
    fixture.advance_and_promote(seconds(60)).await;
    assert_eq!(finish_a(store, &fourth.receipt).await, finished_late(), "the last one counts");
}

async fn a_change_of_the_job_ends_a_late_finish(fixture: StoreFixture) {
    let store = &*fixture.store;
    let by_id = [
        Patch { body: Some(body("2")), ..Patch::default() },
        Patch { ttr: Some(ttr(60)), ..Patch::default() },
        Patch { due: Some(after(seconds(9))), ..Patch::default() },
    ];
    for patch in by_id {
        let receipt = time_out(&fixture, JobSpec::default()).await;
        store.patch(ALL, &id("a"), patch.clone(), None).await.expect("answers").expect("is not refused");
        assert_eq!(finish_a(store, &receipt).await, Err(Refusal::Lost), "{patch:?}");
        let touched = store.touch(ALL, &id("a"), &receipt, None).await.expect("answers");
        assert_eq!(touched, Err(Refusal::Lost), "{patch:?}");
        store.delete(ALL, vec![id("a")], DeleteRule::AnyState).await.expect("deletes");
    }
    let (later, again) = (after(seconds(9)), Requeue::from(after(seconds(0))));
    for how in [JobChange::Reschedule(later), JobChange::Requeue(again)] {
        let attempts = u32::from(matches!(how, JobChange::Requeue(_)));
        let receipt = time_out(&fixture, JobSpec { max_attempts: attempts, ..JobSpec::default() }).await;
        let seen = see(store, "a").await;
        assert_eq!(store.change(change(&seen, how.clone()), None).await.expect("answers"), [true]);
        assert_eq!(finish_a(store, &receipt).await, Err(Refusal::Lost), "{how:?}");
        store.delete(ALL, vec![id("a")], DeleteRule::AnyState).await.expect("deletes");
    }
}

async fn a_requeued_job_with_as_many_attempts_takes_no_late_finish(fixture: StoreFixture) {
    let store = &*fixture.store;
    let first = time_out(&fixture, JobSpec { max_attempts: 1, ..JobSpec::default() }).await;
    store.requeue(ALL, &id("a"), after(seconds(0)), None).await.expect("answers").expect("is dead");
    assert_eq!(finish_a(store, &first).await, Err(Refusal::Lost));
    let second = reserve(store).await;
    store.bury(ALL, &id("a"), &second.receipt, None).await.expect("answers").expect("is held");
    for receipt in [&first, &second.receipt] {
        assert_eq!(finish_a(store, receipt).await, Err(Refusal::Lost));
    }
}

async fn a_reservation_that_no_client_saw_counts_as_none(fixture: StoreFixture) {
    let store = &*fixture.store;
    for postpones in [false, true] {
        let receipt = time_out(&fixture, JobSpec::default()).await;
        let unseen = reserve(store).await;
        assert_eq!(finish_a(store, &receipt).await, Err(Refusal::Lost));
        let grants = vec![(id("a"), unseen.receipt.clone())];
        if postpones {
            store.postpone(grants, delay(seconds(5))).await.expect("postpones");
        } else {
            store.cancel(grants).await.expect("cancels");
        }
        assert_eq!(finish_a(store, &unseen.receipt).await, Err(Refusal::Lost));
        assert_eq!(finish_a(store, &receipt).await, finished_late(), "{postpones}");
    }
}

async fn the_holder_who_gives_a_job_back_cannot_finish_it_late(fixture: StoreFixture) {
    let store = &*fixture.store;
    for buries in [false, true] {
        add(store, job("a")).await;
        let held = reserve(store).await;
        if buries {
            store.bury(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
        } else {
            let release = Release::default();
            store.release(ALL, &id("a"), &held.receipt, release).await.expect("answers").expect("is held");
        }
        fixture.advance_and_promote(seconds(60)).await;
        assert_eq!(finish_a(store, &held.receipt).await, Err(Refusal::Lost), "{buries}");
        store.delete(ALL, vec![id("a")], DeleteRule::AnyState).await.expect("deletes");
    }
}

async fn a_job_that_wants_no_late_finish_refuses_it(fixture: StoreFixture) {
    let store = &*fixture.store;
    for (spec, expected) in specs() {
        let receipt = time_out(&fixture, JobSpec { late_finish: false, ..spec }).await;
        assert_eq!(finish_a(store, &receipt).await, Err(Refusal::Lost), "{expected}");
        let touched = store.touch(ALL, &id("a"), &receipt, None).await.expect("answers");
        assert_eq!(touched, Err(Refusal::Lost), "{expected}");
        assert_eq!(state(store).await, expected);
        store.delete(ALL, vec![id("a")], DeleteRule::AnyState).await.expect("deletes");
    }
}

async fn an_expired_job_is_finished_late(fixture: StoreFixture) {
    let store = &*fixture.store;
    let expiry = Expiry { expire: Expire::After(delay(seconds(90))), on_expiry: OnExpiry::Dead };
    let spec = JobSpec { expiry: Some(expiry), ..JobSpec::default() };
    let receipt = time_out(&fixture, spec).await;
    fixture.advance_and_promote(seconds(30)).await;
    assert_eq!(state(store).await, State::Dead);
    assert_eq!(finish_a(store, &receipt).await, finished_late());
    assert_eq!(store.topic(&topic("t")).await.expect("reads"), None);
}

async fn a_late_finish_waits_for_a_restart(mut fixture: StoreFixture) {
    for (spec, expected) in specs() {
        let receipt = time_out(&fixture, spec).await;
        fixture.reopen().await;
        assert_eq!(state(&*fixture.store).await, expected);
        assert_eq!(finish_a(&*fixture.store, &receipt).await, finished_late(), "{expected}");
    }
}

async fn a_job_with_a_callback_is_finished_late(fixture: StoreFixture) {
    const URL: &str = "http://a.example/";
    let store = &*fixture.store;
    for (spec, expected) in specs() {
        let callback = called("a", URL).spec.callback;
        add(store, AddJob { spec: JobSpec { callback, ..spec }, ..job("a") }).await;
        let outlet = outlet_to(store, "t", URL);
        let held = one(store.reserve(&outlet, &claims(1), Wait::No).await.expect("reserves"));
        fixture.advance_and_promote(seconds(60)).await;
        assert_eq!(state(store).await, expected);
        assert_eq!(finish_a(store, &held.receipt).await, finished_late(), "{expected}");
        assert_eq!(store.topic(&topic("t")).await.expect("reads"), None, "{expected}");
    }
}

async fn a_late_finish_moves_with_its_job(fixture: StoreFixture) {
    let store = &*fixture.store;
    for (spec, expected) in specs() {
        let receipt = time_out(&fixture, spec).await;
        let record: JobRecord = one(all_records(store).await.1);
        store.delete(ALL, vec![id("a")], DeleteRule::AnyState).await.expect("deletes");
        assert_eq!(store.put(vec![record.clone()]).await.expect("puts"), [Put::Done]);
        assert_eq!(all_records(store).await.1, [record]);
        assert_eq!(finish_a(store, &receipt).await, finished_late(), "{expected}");
    }
}

async fn a_batch_of_late_finishes_is_answered_in_order(fixture: StoreFixture) {
    let store = &*fixture.store;
    let names = ["a", "b", "c", "d", "e", "f"];
    for (n, name) in names.into_iter().enumerate() {
        let max_attempts = if n % 2 == 0 { 1 } else { 0 };
        add(store, AddJob { spec: JobSpec { max_attempts, ..JobSpec::default() }, ..job(name) }).await;
    }
    let held = store.reserve(&plain("t"), &claims(6), Wait::No).await.expect("reserves");
    fixture.advance_and_promote(seconds(60)).await;
    add(store, job("reserved")).await;
    let mut present = Vec::new();
    while let Some(reserved) = reserve_any(store).await {
        present.push(reserved);
    }
    let receipt =
        |name: &str| held.iter().find(|held| held.job.id == id(name)).map(|held| held.receipt.clone());
    let item = |name: &str, receipt: Option<Receipt>| FinishJob { id: id(name), receipt };
    let own = present.iter().find(|present| present.job.id == id("reserved")).expect("is reserved");
    let batch = vec![
        item("a", receipt("a")),
        item("a", receipt("a")),
        item("b", receipt("b")),
        item("reserved", Some(own.receipt.clone())),
        item("c", receipt("c")),
        item("c", None),
        item("e", Some(Receipt::generate())),
        item("e", receipt("e")),
        item("e", Some(Receipt::generate())),
        item("none", receipt("a")),
    ];
    let (gone, lost) = (|| Err(Refusal::Gone), || Err(Refusal::Lost));
    let expected = [
        finished_late(),
        gone(),
        lost(),
        finished(),
        finished_late(),
        gone(),
        lost(),
        finished_late(),
        gone(),
        gone(),
    ];
    assert_eq!(store.finish(ALL, batch).await.expect("answers"), expected);
    let stats = store.topic(&topic("t")).await.expect("reads").expect("is there");
    assert_eq!((stats.ready, stats.reserved, stats.dead), (0, 3, 0), "{names:?}");
}
