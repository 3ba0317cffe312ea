//! Jobs that are replaced while a worker holds the older version: until when it is in the way, and what its receipt still does.

use linger::{
    job::{Body, Receipt, State},
    store::{AddJob, FinishJob, Put, Refusal, Release, Reservation, Steps, Store},
};

use super::replacing::{counts, finish_a, get_a, newer, replace};
use crate::harness::{jobs::*, records::all_records, stores::StoreFixture};

super::on_every_engine! {
    a_held_job_is_replaced_beside_its_holder,
    the_holder_of_an_older_version_ends_its_reservation,
    a_touch_does_not_prolong_the_reservation_of_an_older_version,
    an_older_version_that_times_out_gives_way,
    a_reservation_of_an_older_version_that_no_client_saw_gives_way,
    a_version_is_replaced_again_beside_the_first_holder,
    a_late_finish_does_not_outlive_a_replacement,
    a_replaced_job_waits_for_a_restart,
    a_replaced_job_moves_with_its_holder,
    a_finish_of_an_older_version_keeps_a_large_body,
}

/// Adds job `a`, reserves it for its TTR of a minute, and replaces it by a version that is due after `wait` seconds.
async fn hold_and_replace(store: &dyn Store, wait: u64) -> Reservation {
    add(store, job("a")).await;
    let held = reserve(store).await;
    replace(store, newer("2", wait)).await;
    held
}

async fn a_held_job_is_replaced_beside_its_holder(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, job("a")).await;
    let held = reserve(store).await;
    let newer = replace(store, newer("2", 0)).await;
    assert_eq!(newer.reserved(), held.job.reserved(), "the reservation stays");
    assert!(newer.waits_for_older());
    assert_eq!((newer.attempts, &newer.body), (0, &body("2")));
    assert_eq!(get_a(store).await, newer);
    assert_eq!(counts(store).await, [0, 0, 1, 0]);
    fixture.advance_and_promote(seconds(59)).await;
    assert_eq!(reserve_any(store).await, None, "the holder still has the job");
}

async fn the_holder_of_an_older_version_ends_its_reservation(fixture: StoreFixture) {
    let store = &*fixture.store;
    for wait in [0, 90] {
        for end in ["finish", "finish without receipt", "release", "revoke", "bury"] {
            let held = hold_and_replace(store, wait).await;
            fixture.advance_and_promote(seconds(1)).await;
            let foreign = finish_a(store, Some(&Receipt::generate())).await;
            assert_eq!(foreign, Err(Refusal::Lost), "{end}: only its receipt does");
            let (id, receipt) = (id("a"), &held.receipt);
            let refusal = match end {
                "finish" => finish_a(store, Some(receipt)).await.map(drop),
                "finish without receipt" => finish_a(store, None).await.map(drop),
                "release" => {
                    let release = Release { due: Some(after(seconds(500))), reason: None };
                    store.release(ALL, &id, receipt, release).await.expect("answers").map(drop)
                }
                "revoke" => {
                    store.revoke(ALL, &id, None, Release::default()).await.expect("answers").map(drop)
                }
                _ => store.bury(ALL, &id, receipt, None).await.expect("answers").map(drop),
            };
            assert_eq!(refusal, Err(Refusal::Replaced), "{end}");
            let job = get_a(store).await;
            assert_eq!((job.attempts, job.due_at), (0, job.created_at.after(seconds(wait))), "{end}");
            assert_eq!(job.history.entries().count(), 1, "{end}: only that it was replaced");
            assert_eq!(counts(store).await, if wait == 0 { [0, 1, 0, 0] } else { [1, 0, 0, 0] }, "{end}");
            assert_eq!(finish_a(store, Some(receipt)).await, Err(Refusal::Lost), "{end}: once");
            fixture.advance_and_promote(seconds(wait)).await;
            let delivered = reserve(store).await;
            assert_eq!((delivered.job.attempts, &delivered.job.body), (1, &body("2")), "{end}");
            assert_eq!(finish_a(store, Some(&delivered.receipt)).await, finished(), "{end}");
        }
    }
}

async fn a_touch_does_not_prolong_the_reservation_of_an_older_version(fixture: StoreFixture) {
    let store = &*fixture.store;
    let held = hold_and_replace(store, 0).await;
    let before = get_a(store).await;
    fixture.clock.advance(seconds(30));
    let touched = store.touch(ALL, &id("a"), &held.receipt, Some(ttr(600))).await.expect("answers");
    assert_eq!(touched, Err(Refusal::Replaced));
    assert_eq!(get_a(store).await, before);
    fixture.advance_and_promote(seconds(30)).await;
    assert_eq!(reserve(store).await.job.body, body("2"));
}

async fn an_older_version_that_times_out_gives_way(fixture: StoreFixture) {
    let store = &*fixture.store;
    // One attempt of the older version is none of the newer one.
    let one_try = JobSpec { max_attempts: 1, retry: retry(&[500]), ..JobSpec::default() };
    for wait in [0, 90] {
        add(store, job("a")).await;
        let held = reserve(store).await;
        replace(store, AddJob { spec: one_try.clone(), ..newer("2", wait) }).await;
        fixture.advance_and_promote(seconds(60)).await;
        assert_eq!(counts(store).await, if wait == 0 { [0, 1, 0, 0] } else { [1, 0, 0, 0] });
        assert_eq!(
            finish_a(store, Some(&held.receipt)).await,
            Err(Refusal::Lost),
            "no late finish of another version"
        );
        assert_eq!(get_a(store).await.history.entries().count(), 1);
        if wait > 0 {
            fixture.advance_and_promote(seconds(29)).await;
            assert_eq!(reserve_any(store).await, None, "not before it is due");
            fixture.advance_and_promote(seconds(1)).await;
        }
        let delivered = reserve(store).await;
        assert_eq!((delivered.job.attempts, &delivered.job.body), (1, &body("2")));
        assert_eq!(finish_a(store, Some(&delivered.receipt)).await, finished());
    }
}

async fn a_reservation_of_an_older_version_that_no_client_saw_gives_way(fixture: StoreFixture) {
    let store = &*fixture.store;
    for wait in [0, 90] {
        for postpones in [false, true] {
            let held = hold_and_replace(store, wait).await;
            let grants = vec![(id("a"), held.receipt.clone())];
            if postpones {
                store.postpone(grants, delay(seconds(700))).await.expect("postpones");
            } else {
                store.cancel(grants).await.expect("cancels");
            }
            let job = get_a(store).await;
            assert_eq!((job.attempts, job.due_at), (0, job.created_at.after(seconds(wait))));
            if wait > 0 {
                assert_eq!((job.state(), reserve_any(store).await), (State::Delayed, None));
                fixture.advance_and_promote(seconds(wait)).await;
            }
            let delivered = reserve(store).await;
            assert_eq!((delivered.job.attempts, &delivered.job.body), (1, &body("2")));
            assert_eq!(finish_a(store, Some(&delivered.receipt)).await, finished());
        }
    }
}

async fn a_version_is_replaced_again_beside_the_first_holder(fixture: StoreFixture) {
    let store = &*fixture.store;
    let held = hold_and_replace(store, 90).await;
    fixture.clock.advance(seconds(5));
    let third = replace(store, newer("3", 0)).await;
    assert_eq!(third.reserved(), held.job.reserved());
    assert_eq!(finish_a(store, Some(&held.receipt)).await, Err(Refusal::Replaced));
    let delivered = reserve(store).await;
    assert_eq!(delivered.job.body, body("3"));
    // That reservation is one of the third version itself.
    let touched = store.touch(ALL, &id("a"), &delivered.receipt, None).await.expect("answers");
    assert_eq!(touched.map(|job| job.attempts), Ok(1));
    assert_eq!(finish_a(store, Some(&delivered.receipt)).await, finished());
}

async fn a_late_finish_does_not_outlive_a_replacement(fixture: StoreFixture) {
    let store = &*fixture.store;
    for max_attempts in [1, 16] {
        add(store, AddJob { spec: JobSpec { max_attempts, ..JobSpec::default() }, ..job("a") }).await;
        let held = reserve(store).await;
        fixture.advance_and_promote(seconds(60)).await;
        replace(store, newer("2", 0)).await;
        assert_eq!(finish_a(store, Some(&held.receipt)).await, Err(Refusal::Lost), "{max_attempts}");
        let delivered = reserve(store).await;
        assert_eq!(delivered.job.body, body("2"));
        assert_eq!(finish_a(store, Some(&delivered.receipt)).await, finished());
    }
}

async fn a_replaced_job_waits_for_a_restart(mut fixture: StoreFixture) {
    for wait in [0, 90] {
        let held = hold_and_replace(&*fixture.store, wait).await;
        let before = get_a(&*fixture.store).await;
        fixture.reopen().await;
        let store = &*fixture.store;
        assert_eq!(get_a(store).await, before);
        assert_eq!(reserve_any(store).await, None);
        assert_eq!(finish_a(store, Some(&held.receipt)).await, Err(Refusal::Replaced));
        fixture.advance_and_promote(seconds(wait)).await;
        let delivered = reserve(store).await;
        assert_eq!(delivered.job.body, body("2"));
        assert_eq!(finish_a(store, Some(&delivered.receipt)).await, finished());
    }
}

async fn a_replaced_job_moves_with_its_holder(fixture: StoreFixture) {
    let store = &*fixture.store;
    let held = hold_and_replace(store, 0).await;
    let record = one(all_records(store).await.1);
    store.delete(ALL, vec![id("a")], DeleteRule::AnyState).await.expect("deletes");
    assert_eq!(store.put(vec![record.clone()]).await.expect("puts"), [Put::Done]);
    assert_eq!(all_records(store).await.1, [record]);
    assert_eq!(finish_a(store, Some(&held.receipt)).await, Err(Refusal::Replaced));
    assert_eq!(reserve(store).await.job.body, body("2"));
}

/// One batch names the job three times: its older version, an unknown job between, and what is left then.
async fn a_finish_of_an_older_version_keeps_a_large_body(fixture: StoreFixture) {
    let store = &*fixture.store;
    let large = Body::parse(format!("\"{}\"", "x".repeat(60_000)).into()).expect("a valid body");
    add(store, job("a")).await;
    let held = reserve(store).await;
    replace(store, AddJob { body: large.clone(), ..newer("2", 0) }).await;
    let item = |name: &str| FinishJob { id: id(name), receipt: Some(held.receipt.clone()) };
    let outcomes = store.finish(ALL, vec![item("a"), item("b"), item("a")]).await.expect("answers");
    assert_eq!(outcomes, [Err(Refusal::Replaced), Err(Refusal::Gone), Err(Refusal::Lost)]);
    let delivered = reserve(store).await;
    assert_eq!((delivered.job.attempts, &delivered.job.body), (1, &large));
    assert_eq!(finish_a(store, Some(&delivered.receipt)).await, finished());
}
