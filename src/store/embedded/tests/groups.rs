//! Groups: operations that share a transaction see each other, and are rolled back together.

use std::{future::Future, pin::pin, task::Context};

use rusqlite::ffi;

use super::fixture::*;
use crate::{
    job::{Body, Outlet, State},
    store::{Added, Claim, DeletedJob, Error, JobFilter, Order, Step, StepAction, Steps, Store, Wait},
};

/// The engine's error for an SQLite result code.
fn failure(code: i32) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
}

#[tokio::test]
async fn operations_of_one_group_see_each_other() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    let gate = Gate::close(&store).await;
    let both = tokio::join!(
        async {
            let first = store.add(vec![job("a")]);
            let delete = store.delete(ALL, vec![id("a")], DeleteRule::AnyState);
            let again = store.add(vec![delayed("a", seconds(9)), job("b"), job("c")]);
            let (one, two) = (reserve(&store, 1), reserve(&store, 5));
            tokio::join!(first, delete, again, one, two)
        },
        async {
            tokio::task::yield_now().await;
            gate.open().await;
        }
    );
    let (first, delete, again, one, two) = both.0;
    assert!(matches!(first.expect("adds")[..], [Ok(Added::Created(_))]));
    assert_eq!(delete.expect("deletes"), [Ok(DeletedJob { topic: topic("t"), state: State::Ready })]);
    assert!(matches!(again.expect("adds")[0], Ok(Added::Created(_))), "the id is free again");
    assert_eq!((names(&one), names(&two)), (vec!["b"], vec!["c"]), "no job is granted twice");
    let kept = store.get(ALL, &id("a")).await.expect("gets").expect("is there");
    assert_eq!(kept.state(), State::Delayed);
    consistent(&store).await;
}

#[tokio::test]
async fn two_equal_ids_in_one_batch_are_one_job() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    let added = store.add(vec![job("a"), job("a"), delayed("a", seconds(1))]).await.expect("adds");
    assert!(
        matches!(added[..], [Ok(Added::Created(_)), Ok(Added::Replayed(_)), Ok(Added::Replayed(_))]),
        "{added:?}"
    );
    assert_eq!(names(&reserve(&store, 5).await), ["a"]);
    consistent(&store).await;
}

#[tokio::test]
async fn of_a_group_that_meets_a_full_disk_only_what_has_no_room_is_refused() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [job("before"), delayed("far", seconds(3_000))]).await;
    sql(&store, "PRAGMA max_page_count = 40").await;
    let large = |n: usize| {
        let body = Body::from_stored(format!("\"{}\"", "x".repeat(3_000)).into());
        crate::store::AddJob { body, ..job(&format!("large-{n}")) }
    };
    let gate = Gate::close(&store).await;
    let both = tokio::join!(
        async {
            let finished = store.delete(ALL, vec![id("before")], DeleteRule::AnyState);
            let small = store.add(vec![job("small")]);
            let large = store.add((0..100).map(large).collect());
            tokio::join!(finished, small, large)
        },
        async {
            tokio::task::yield_now().await;
            gate.open().await;
        }
    );
    let (deleted, small, large_ones) = both.0;
    assert!(matches!(deleted.expect("deletes")[..], [Ok(_)]));
    assert!(matches!(small.expect("adds")[..], [Ok(Added::Created(_))]));
    assert!(matches!(large_ones, Err(Error::Full(_))), "{large_ones:?}");
    consistent(&store).await;
    store.check().await.expect("goes on");
    assert_eq!(names(&reserve(&store, 5).await), ["small"], "nothing of the large add has happened");
    sql(&store, "PRAGMA max_page_count = 1000000").await;
    add(&store, (0..100).map(large)).await;
    consistent(&store).await;
}

#[tokio::test]
async fn after_a_failed_write_nothing_is_acknowledged_until_a_restart() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [job("a")]).await;
    let held = reserve(&store, 1).await;
    let failed = store
        .run(|txn| {
            crate::store::embedded::ops::apply(
                txn,
                &[Step::unscoped(id("a"), StepAction::Delete(DeleteRule::AnyState), None)],
            )?
            .expect("needs no space");
            Err::<(), _>(failure(ffi::SQLITE_IOERR_FSYNC))
        })
        .await;
    assert!(matches!(failed, Err(Error::Stopped(_))), "{failed:?}");
    for answer in [
        store.check().await,
        store.add(vec![job("b")]).await.map(drop),
        store.delete(ALL, vec![id("a")], DeleteRule::AnyState).await.map(drop),
        store.promote(10).await.map(drop),
        store.list(&JobFilter::all(State::Dead), Order::Ascending, None, 1).await.map(drop),
    ] {
        assert!(matches!(answer, Err(Error::Stopped(_))), "{answer:?}");
    }
    assert!(matches!(store.close().await, Err(Error::Stopped(_))));
    drop(store);
    let store = fixture.open().await;
    finish(&store, &held[0]).await;
    assert_eq!(store.get(ALL, &id("b")).await.expect("gets"), None);
    consistent(&store).await;
}

#[tokio::test]
async fn corruption_that_sqlite_reports_stops_writes() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    let failed = store.run(|_| Err::<(), _>(failure(ffi::SQLITE_CORRUPT))).await;
    assert!(matches!(failed, Err(Error::Stopped(_))), "{failed:?}");
    assert!(matches!(store.add(vec![job("a")]).await, Err(Error::Stopped(_))));
}

#[tokio::test]
async fn a_file_locked_by_another_program_is_no_damage() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    let failed = store.run(|_| Err::<(), _>(failure(ffi::SQLITE_BUSY))).await;
    assert!(matches!(failed, Err(Error::Refused { .. })), "{failed:?}");
    add(&store, [job("a")]).await;
}

#[tokio::test]
async fn a_panic_in_the_writer_fails_all_callers() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [job("a")]).await;
    let gate = Gate::close(&store).await;
    let all = tokio::join!(
        store.run(|_| -> rusqlite::Result<()> { panic!("on purpose") }),
        store.add(vec![job("b")]),
        async {
            tokio::task::yield_now().await;
            gate.open().await;
        }
    );
    assert!(matches!(all.0, Err(Error::Stopped(_) | Error::Unavailable(_))), "{:?}", all.0);
    assert!(matches!(all.1, Err(Error::Stopped(_) | Error::Unavailable(_))), "{:?}", all.1);
    assert!(matches!(store.close().await, Err(Error::Stopped(_))), "closing does not wait for a dead thread");
    assert!(matches!(store.add(vec![job("c")]).await, Err(Error::Stopped(_))));
    drop(store);
    let store = fixture.open().await;
    assert_eq!(names(&reserve(&store, 5).await), ["a"]);
}

#[tokio::test]
async fn reservations_without_a_receiver_are_cancelled() {
    let fixture = Fixture::new();
    let store = fixture.open().await;
    add(&store, [job("a"), job("b")]).await;
    let name = topic("t");
    let (outlet, claim) = (Outlet::plain(name.clone()), [Claim::default()]);
    // One caller goes away before the writer runs its operation.
    let gate = Gate::close(&store).await;
    {
        let mut asked = pin!(store.reserve(&outlet, &claim, Wait::No));
        assert!(asked.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
    }
    gate.open().await;
    // Another caller goes away after the job is reserved, and never reads the reply.
    let gate = Gate::close(&store).await;
    {
        let mut asked = pin!(store.reserve(&outlet, &claim, Wait::No));
        assert!(asked.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
        gate.open().await;
        let granted = store.topic(&name).await.expect("reads").expect("is there").reserved;
        assert_eq!(granted, 1);
    }
    let stats = store.topic(&name).await.expect("reads").expect("is there");
    assert_eq!((stats.ready, stats.reserved), (2, 0));
    assert_eq!(store.get(ALL, &id("a")).await.expect("gets").expect("is there").attempts, 0);
    consistent(&store).await;
}
