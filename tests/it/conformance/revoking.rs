//! Changes of listed jobs that take them back from their workers. The guard is in `guards`.

use linger::{
    job::{Due, Job, Reason, State},
    store::{AddJob, Added, FinishJob, JobChange, Refusal, Release, Steps},
};

use super::changing::change_now;
use crate::harness::{jobs::*, lists::*, stores::StoreFixture};

super::on_every_engine! {
    ;
    a_revoked_job_is_as_if_revoked_alone,
    a_revoked_job_whose_attempts_are_used_is_a_dead_letter,
    a_revoked_reservation_of_an_older_version_ends,
}

fn revoke(due: Due) -> JobChange {
    JobChange::Revoke { due, reason: Reason::new("the host is gone") }
}

async fn a_revoked_job_is_as_if_revoked_alone(fixture: StoreFixture) {
    let store = &*fixture.store;
    let spec = JobSpec { retry: retry(&[15]), late_finish: true, ..JobSpec::default() };
    for name in ["listed", "alone"] {
        add(store, AddJob { spec: spec.clone(), ..job(name) }).await;
    }
    let receipts = [reserve(store).await.receipt, reserve(store).await.receipt];
    fixture.clock.advance(millis(700));
    let due = after(seconds(5));
    assert!(change_now(store, "listed", revoke(due)).await);
    let asked = Release { due: Some(due), reason: Reason::new("the host is gone") };
    let alone = store.revoke(ALL, &id("alone"), None, asked).await.expect("answers").expect("is held");
    let listed = get(store, "listed").await;
    assert_eq!(listed.state(), State::Delayed);
    let like_alone = Job { id: listed.id.clone(), body: listed.body.clone(), ..alone };
    assert_eq!(listed, like_alone);
    // The receipt is good for nothing any more, not even for a late finish.
    for receipt in receipts {
        for name in ["listed", "alone"] {
            let late = FinishJob { id: id(name), receipt: Some(receipt.clone()) };
            assert_eq!(store.finish(ALL, vec![late]).await.expect("answers")[..], [Err(Refusal::Lost)]);
        }
    }
    fixture.advance_and_promote(seconds(5)).await;
    let again = reserve(store).await;
    assert_eq!(again.job.attempts, 2);
    fixture.notifications.take_ready();
    assert!(change_now(store, again.job.id.as_str(), revoke(Due::default())).await);
    assert_eq!(get(store, again.job.id.as_str()).await.state(), State::Ready);
    assert!(fixture.notifications.take_ready().contains(&plain("t")), "it must be told");
}

async fn a_revoked_job_whose_attempts_are_used_is_a_dead_letter(fixture: StoreFixture) {
    let store = &*fixture.store;
    for (name, reason, dead_of) in [
        ("told", Reason::new("the host is gone"), "the host is gone"),
        ("untold", None, Reason::ATTEMPTS_USED),
    ] {
        add(store, AddJob { spec: JobSpec { max_attempts: 1, ..JobSpec::default() }, ..job(name) }).await;
        reserve(store).await;
        assert!(change_now(store, name, JobChange::Revoke { due: Due::default(), reason }).await);
        let dead = get(store, name).await;
        assert_eq!((dead.state(), dead.reason), (State::Dead, Reason::new(dead_of)));
    }
}

async fn a_revoked_reservation_of_an_older_version_ends(fixture: StoreFixture) {
    let store = &*fixture.store;
    add(store, job("a")).await;
    let older = reserve(store).await;
    let newer = AddJob { if_exists: replace_by("ann"), body: body("2"), ..delayed("a", seconds(30)) };
    assert!(matches!(add_any(store, newer).await, Ok(Added::Replaced(_))));
    assert_eq!(get(store, "a").await.state(), State::Reserved);
    assert!(change_now(store, "a", revoke(Due::default())).await);
    let newer = get(store, "a").await;
    assert_eq!((newer.state(), newer.attempts, newer.reason), (State::Delayed, 0, None));
    assert_eq!(newer.due_at, fixture.now().after(seconds(30)), "its own due time");
    let finish = FinishJob { id: id("a"), receipt: Some(older.receipt) };
    assert_eq!(store.finish(ALL, vec![finish]).await.expect("answers")[..], [Err(Refusal::Lost)]);
}
