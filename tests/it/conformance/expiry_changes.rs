//! What patches, requeues and changes of listed jobs do to the expiry of a job.

use linger::{
    job::{Expire, Expiry, ExpiryChange, Job, OnExpiry, State, Timestamp},
    store::{ChangeJob, JobChange, Outcome, Patch, Refusal, Requeue, SeenJob, Steps},
};

use super::expiring::{assert_expired, expiring, expiry_at, get, with_expiry};
use crate::harness::{jobs::*, stores::StoreFixture};

super::on_every_engine! {
    ;
    a_patch_of_the_due_time_moves_a_duration_and_no_moment,
    a_patch_changes_the_expiry,
    a_dead_letter_whose_expiry_has_passed_needs_another_one,
    a_requeue_counts_a_duration_anew,
    a_change_of_a_listed_job_follows_the_same_rules,
}

async fn patch(fixture: &StoreFixture, name: &str, patch: Patch) -> Outcome<Job> {
    fixture.store.patch(ALL, &id(name), patch, None).await.expect("answers")
}

async fn a_patch_of_the_due_time_moves_a_duration_and_no_moment(fixture: StoreFixture) {
    let moment = fixture.now().after(seconds(50));
    add(&*fixture.store, expiring("a", 10)).await;
    add(&*fixture.store, with_expiry(job("b"), expiry_at(moment))).await;
    let due = |wait| Patch { due: Some(after(seconds(wait))), ..Patch::default() };
    for (name, expected) in [("a", fixture.now().after(seconds(40))), ("b", moment)] {
        let Ok(job) = patch(&fixture, name, due(30)).await else { panic!("{name}") };
        assert_eq!(job.expires_at, Some(expected));
        assert_eq!(get(&fixture, name).await, job);
    }
    assert_eq!(patch(&fixture, "b", due(51)).await, Err(Refusal::ExpiresFirst));
    assert_eq!(get(&fixture, "b").await.due_at, fixture.now().after(seconds(30)), "nothing changed");
    fixture.advance_and_promote(seconds(39)).await;
    assert_eq!(get(&fixture, "a").await.state(), State::Ready);
    fixture.advance_and_promote(seconds(11)).await;
    assert_eq!(
        (get(&fixture, "a").await.state(), get(&fixture, "b").await.state()),
        (State::Dead, State::Dead)
    );
}

async fn a_patch_changes_the_expiry(fixture: StoreFixture) {
    let change = |expiry| Patch { expiry, ..Patch::default() };
    let set = |expire, on_expiry| change(ExpiryChange::Set(expire, on_expiry));
    let begin = fixture.now();
    add(&*fixture.store, delayed("a", seconds(10))).await;
    add(&*fixture.store, job("b")).await;
    let after_ = |wait| Expire::After(delay(seconds(wait)));
    let Ok(job) = patch(&fixture, "a", set(after_(5), Some(OnExpiry::Delete))).await else {
        panic!("is not changed")
    };
    assert_eq!((job.expires_at, job.state()), (Some(begin.after(seconds(15))), State::Delayed));
    let at = begin.after(seconds(12));
    let Ok(job) = patch(&fixture, "a", set(Expire::At(at), None)).await else { panic!("is not changed") };
    let expected = Expiry { expire: Expire::At(at), on_expiry: OnExpiry::Delete };
    assert_eq!((job.expires_at, job.spec.expiry), (Some(at), Some(expected)), "what happens then stays");
    let early = set(Expire::At(begin.after(seconds(9))), None);
    assert_eq!(patch(&fixture, "a", early).await, Err(Refusal::ExpiresFirst));
    assert_eq!(get(&fixture, "a").await.expires_at, Some(at), "nothing changed");
    assert!(patch(&fixture, "b", set(after_(3), None)).await.is_ok());
    assert!(patch(&fixture, "b", change(ExpiryChange::Clear)).await.is_ok());
    fixture.advance_and_promote(seconds(12)).await;
    assert_eq!(fixture.store.get(ALL, &id("a")).await.expect("answers"), None);
    let kept = get(&fixture, "b").await;
    assert_eq!((kept.state(), kept.expires_at, kept.spec.expiry), (State::Ready, None, None));
    assert_eq!(reserve(&*fixture.store).await.job.id, id("b"));
}

async fn requeue(fixture: &StoreFixture, name: &str, requeue: Requeue) -> Outcome<Job> {
    fixture.store.requeue(ALL, &id(name), requeue, None).await.expect("answers")
}

async fn a_dead_letter_whose_expiry_has_passed_needs_another_one(fixture: StoreFixture) {
    let names = ["a", "b", "c"];
    for name in names {
        add(&*fixture.store, expiring(name, 10)).await;
    }
    fixture.advance_and_promote(seconds(10)).await;
    for name in names {
        assert_eq!(requeue(&fixture, name, Requeue::default()).await, Err(Refusal::Expired));
    }
    let with = |expiry| Requeue { expiry, ..Requeue::default() };
    let past = ExpiryChange::Set(Expire::At(Timestamp::from_millis(5)), None);
    assert_eq!(requeue(&fixture, "a", with(past)).await, Err(Refusal::ExpiresFirst));
    assert_eq!(get(&fixture, "a").await.state(), State::Dead);
    let again = ExpiryChange::Set(Expire::After(delay(seconds(3))), None);
    let Ok(job) = requeue(&fixture, "a", with(again)).await else { panic!("is not requeued") };
    assert_eq!((job.state(), job.expires_at), (State::Ready, Some(fixture.now().after(seconds(3)))));
    let Ok(job) = requeue(&fixture, "b", with(ExpiryChange::Clear)).await else { panic!("is not requeued") };
    assert_eq!((job.state(), job.expires_at, job.reason.clone()), (State::Ready, None, None));
    fixture.advance_and_promote(seconds(3)).await;
    assert_expired(&fixture, "a", fixture.now()).await;
    assert_eq!(reserve(&*fixture.store).await.job.id, id("b"));
    assert_eq!(get(&fixture, "c").await.state(), State::Dead);
}

async fn a_requeue_counts_a_duration_anew(fixture: StoreFixture) {
    add(&*fixture.store, expiring("a", 100)).await;
    let held = reserve(&*fixture.store).await;
    fixture.store.bury(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    fixture.clock.advance(seconds(60));
    let Ok(job) = requeue(&fixture, "a", after(seconds(30)).into()).await else { panic!("is not requeued") };
    assert_eq!(job.expires_at, Some(fixture.now().after(seconds(130))));
}

async fn change_now(fixture: &StoreFixture, name: &str, change: JobChange) -> bool {
    let change = ChangeJob { seen: SeenJob::new(&get(fixture, name).await), change };
    one(fixture.store.change(vec![change], None).await.expect("answers"))
}

async fn a_change_of_a_listed_job_follows_the_same_rules(fixture: StoreFixture) {
    let moment = fixture.now().after(seconds(50));
    add(&*fixture.store, expiring("a", 10)).await;
    add(&*fixture.store, with_expiry(job("b"), expiry_at(moment))).await;
    let reschedule = |wait| JobChange::Reschedule(after(seconds(wait)));
    assert!(change_now(&fixture, "a", reschedule(30)).await);
    assert_eq!(get(&fixture, "a").await.expires_at, Some(fixture.now().after(seconds(40))));
    assert!(!change_now(&fixture, "b", reschedule(51)).await);
    assert_eq!(get(&fixture, "b").await.state(), State::Ready);
    fixture.advance_and_promote(seconds(50)).await;
    assert!(!change_now(&fixture, "a", JobChange::Requeue(Requeue::default())).await);
    let cleared = Requeue { expiry: ExpiryChange::Clear, ..Requeue::default() };
    assert!(change_now(&fixture, "a", JobChange::Requeue(cleared)).await);
    assert_eq!(reserve(&*fixture.store).await.job.id, id("a"));
}
