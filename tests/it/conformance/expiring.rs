//! Expiry: from its moment on a job is not delivered any more, and becomes a dead letter or is deleted.

use linger::{
    job::{Due, Expire, Expiry, Job, OnExpiry, State, Timestamp},
    store::{AddJob, Added, Move, MoveKind, Put, Refusal, Release, Steps},
};

use crate::harness::{jobs::*, records::record, stores::StoreFixture};

super::on_every_engine! {
    many_jobs_of_several_topics_expire_at_once,
    expiries_survive_a_restart;
    a_job_expires_at_its_moment_and_not_a_millisecond_before,
    an_expired_job_is_not_reserved_before_it_is_promoted,
    an_expired_job_does_not_keep_others_from_being_reserved,
    a_duration_counts_from_the_due_time,
    a_job_that_expires_when_it_is_due_is_never_ready,
    a_job_may_be_deleted_when_it_expires,
    an_expiry_before_the_due_time_is_refused,
    a_repeated_add_is_recognised_after_the_expiry,
    a_reservation_outlives_the_expiry,
    a_job_whose_reservation_ends_after_the_expiry_expires,
    neither_a_release_nor_a_timeout_moves_the_expiry,
    a_job_that_was_put_expires,
    the_listener_is_notified_of_an_expiry,
}

super::on_engine!(embedded_engine, Embedded, a_mass_expiry_does_not_delay_due_jobs);

pub(super) fn expiry_after(wait: u64) -> Expiry {
    Expiry { expire: Expire::After(delay(seconds(wait))), on_expiry: OnExpiry::Dead }
}

pub(super) fn expiry_at(moment: Timestamp) -> Expiry {
    Expiry { expire: Expire::At(moment), on_expiry: OnExpiry::Dead }
}

pub(super) fn with_expiry(job: AddJob, expiry: Expiry) -> AddJob {
    AddJob { spec: JobSpec { expiry: Some(expiry), ..job.spec.clone() }, ..job }
}

/// A ready job that expires after so many seconds.
pub(super) fn expiring(name: &str, wait: u64) -> AddJob {
    with_expiry(job(name), expiry_after(wait))
}

pub(super) async fn get(fixture: &StoreFixture, name: &str) -> Job {
    fixture.store.get(ALL, &id(name)).await.expect("answers").expect("is there")
}

/// Asserts that a job became a dead letter because it expired, now or after its moment.
pub(super) async fn assert_expired(fixture: &StoreFixture, name: &str, moment: Timestamp) {
    let job = get(fixture, name).await;
    let reason = job.reason.as_ref().map(|reason| reason.as_str());
    assert_eq!((job.state(), reason), (State::Dead, Some("expired")), "{job:?}");
    assert_eq!(job.expires_at, Some(moment));
    assert!(job.dead_at() >= Some(moment), "{job:?}");
}

async fn a_job_expires_at_its_moment_and_not_a_millisecond_before(fixture: StoreFixture) {
    let moment = fixture.now().after(seconds(10));
    assert_eq!(add(&*fixture.store, expiring("a", 10)).await.expires_at, Some(moment));
    add(&*fixture.store, with_expiry(job("b"), expiry_at(moment))).await;
    add(&*fixture.store, with_expiry(delayed("c", seconds(4)), expiry_after(6))).await;
    fixture.advance_and_promote(millis(9_999)).await;
    for name in ["a", "b", "c"] {
        assert_eq!(get(&fixture, name).await.state(), State::Ready, "{name}");
    }
    fixture.advance_and_promote(millis(1)).await;
    for name in ["a", "b", "c"] {
        assert_expired(&fixture, name, moment).await;
        assert_eq!(get(&fixture, name).await.dead_at(), Some(moment), "{name}");
    }
    assert_eq!(reserve_any(&*fixture.store).await, None);
}

async fn an_expired_job_is_not_reserved_before_it_is_promoted(fixture: StoreFixture) {
    add(&*fixture.store, expiring("a", 10)).await;
    add(&*fixture.store, with_expiry(job("b"), expiry_at(fixture.now().after(seconds(11))))).await;
    fixture.clock.advance(seconds(10));
    assert_eq!(reserve(&*fixture.store).await.job.id, id("b"));
    assert_eq!(reserve_any(&*fixture.store).await, None);
    promote(&*fixture.store).await;
    assert_expired(&fixture, "a", fixture.now()).await;
}

async fn an_expired_job_does_not_keep_others_from_being_reserved(fixture: StoreFixture) {
    for n in 0..20 {
        let name = n.to_string();
        let added = if n % 2 == 0 { expiring(&name, 1) } else { job(&name) };
        add(&*fixture.store, added).await;
    }
    fixture.clock.advance(seconds(1));
    let claims = claims(20);
    let reserved = fixture.store.reserve(&plain("t"), &claims, Wait::No).await.expect("reserves");
    let mut ids: Vec<_> = reserved.iter().map(|held| held.job.id.as_str().parse().unwrap_or(0)).collect();
    ids.sort();
    assert_eq!(ids, [1, 3, 5, 7, 9, 11, 13, 15, 17, 19]);
    promote(&*fixture.store).await;
    let stats = fixture.store.topic(&topic("t")).await.expect("answers").expect("is there");
    assert_eq!((stats.ready, stats.reserved, stats.dead), (0, 10, 10));
}

async fn a_duration_counts_from_the_due_time(fixture: StoreFixture) {
    let due_at = fixture.now().after(seconds(30));
    for (name, due) in [("a", Due::At(due_at)), ("b", after(seconds(30)))] {
        let added = add(&*fixture.store, with_expiry(AddJob { due, ..job(name) }, expiry_after(5))).await;
        assert_eq!((added.due_at, added.expires_at), (due_at, Some(due_at.after(seconds(5)))), "{name}");
        assert_eq!(get(&fixture, name).await, added);
    }
}

async fn a_job_that_expires_when_it_is_due_is_never_ready(fixture: StoreFixture) {
    let moment = fixture.now().after(seconds(5));
    add(&*fixture.store, with_expiry(delayed("a", seconds(5)), expiry_at(moment))).await;
    add(&*fixture.store, with_expiry(delayed("b", seconds(5)), expiry_after(0))).await;
    fixture.clock.advance(seconds(5));
    let moves = fixture.store.promote(100).await.expect("promotes").moves;
    assert_eq!(moves.iter().map(|moved| moved.kind).collect::<Vec<_>>(), [MoveKind::Expired; 2]);
    assert_expired(&fixture, "a", moment).await;
    assert_expired(&fixture, "b", moment).await;
}

async fn a_job_may_be_deleted_when_it_expires(fixture: StoreFixture) {
    let deletes = |wait| Expiry { on_expiry: OnExpiry::Delete, ..expiry_after(wait) };
    add(&*fixture.store, with_expiry(job("a"), deletes(3))).await;
    add(&*fixture.store, with_expiry(called("b", "http://a.example/"), deletes(3))).await;
    fixture.clock.advance(millis(3_007));
    let mut moves = fixture.store.promote(100).await.expect("promotes").moves;
    moves.extend(fixture.store.promote(100).await.expect("promotes").moves);
    moves.sort_by_key(|moved| moved.deleted.as_ref().map(ToString::to_string));
    let moved = |name| Move {
        topic: topic("t"),
        kind: MoveKind::Expired,
        late: millis(7),
        is_ready: false,
        deleted: Some(id(name)),
    };
    assert_eq!(moves, [moved("a"), moved("b")]);
    assert_eq!(fixture.store.topic(&topic("t")).await.expect("answers"), None);
    assert!(matches!(add_any(&*fixture.store, job("a")).await, Ok(Added::Created(_))), "its id is free");
}

async fn an_expiry_before_the_due_time_is_refused(fixture: StoreFixture) {
    let soon = fixture.now().after(seconds(5));
    let past = Timestamp::from_millis(fixture.now().as_millis() - 1);
    for (name, added) in [
        ("a", with_expiry(delayed("a", millis(5_001)), expiry_at(soon))),
        ("b", with_expiry(AddJob { due: Due::At(soon.after(millis(1))), ..job("b") }, expiry_at(soon))),
        ("c", with_expiry(job("c"), expiry_at(past))),
        ("d", with_expiry(AddJob { due: Due::At(past), ..job("d") }, expiry_at(past))),
    ] {
        assert_eq!(add_any(&*fixture.store, added).await, Err(Refusal::ExpiresFirst), "{name}");
        assert_eq!(fixture.store.get(ALL, &id(name)).await.expect("answers"), None);
    }
    let refused = with_expiry(job("c"), expiry_at(past));
    let batch = vec![job("x"), refused, job("y")];
    let added = fixture.store.add(batch).await.expect("adds");
    let is_created: Vec<bool> = added.iter().map(|added| matches!(added, Ok(Added::Created(_)))).collect();
    assert_eq!(is_created, [true, false, true], "the others of a batch are added");
}

async fn a_repeated_add_is_recognised_after_the_expiry(fixture: StoreFixture) {
    let added = with_expiry(job("a"), expiry_at(fixture.now().after(seconds(5))));
    add(&*fixture.store, added.clone()).await;
    fixture.advance_and_promote(seconds(6)).await;
    let Ok(Added::Replayed(dead)) = add_any(&*fixture.store, added).await else { panic!("not recognised") };
    assert_eq!(dead.state(), State::Dead);
}

async fn a_reservation_outlives_the_expiry(fixture: StoreFixture) {
    add(&*fixture.store, expiring("a", 10)).await;
    let held = reserve(&*fixture.store).await;
    fixture.advance_and_promote(seconds(20)).await;
    assert_eq!(get(&fixture, "a").await.state(), State::Reserved);
    let touched = fixture.store.touch(ALL, &id("a"), &held.receipt, None).await.expect("answers");
    assert_eq!(touched.expect("is held").expires_at, held.job.expires_at);
    let finished = fixture.store.finish(ALL, finish(&id("a"), &held.receipt)).await.expect("answers");
    assert!(matches!(&finished[..], [Ok(_)]), "{finished:?}");
}

async fn a_job_whose_reservation_ends_after_the_expiry_expires(fixture: StoreFixture) {
    let moment = fixture.now().after(seconds(10));
    let mut held = Vec::new();
    for name in ["timed out", "released", "cancelled", "postponed"].map(|name| name.replace(' ', "-")) {
        add(&*fixture.store, expiring(&name, 10)).await;
        held.push(reserve(&*fixture.store).await);
    }
    fixture.clock.advance(seconds(59));
    let released = fixture.store.release(ALL, &held[1].job.id, &held[1].receipt, Release::default());
    assert_eq!(released.await.expect("answers").expect("is held").expires_at, Some(moment));
    let grant = |n: usize| vec![(held[n].job.id.clone(), held[n].receipt.clone())];
    fixture.store.cancel(grant(2)).await.expect("answers");
    fixture.store.postpone(grant(3), delay(seconds(5))).await.expect("answers");
    assert_eq!(reserve_any(&*fixture.store).await, None, "the cancelled job is not delivered again");
    promote(&*fixture.store).await;
    for held in &held[1..] {
        assert_expired(&fixture, held.job.id.as_str(), moment).await;
    }
    fixture.advance_and_promote(seconds(1)).await;
    promote(&*fixture.store).await;
    assert_expired(&fixture, "timed-out", moment).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
}

async fn neither_a_release_nor_a_timeout_moves_the_expiry(fixture: StoreFixture) {
    let moment = fixture.now().after(seconds(100));
    let slow = |name| {
        let spec = JobSpec { retry: retry(&[70]), ttr: ttr(20), ..expiring(name, 100).spec };
        AddJob { spec, ..job(name) }
    };
    add(&*fixture.store, slow("a")).await;
    let held = reserve(&*fixture.store).await;
    let release = Release { due: Some(after(seconds(200))), reason: None };
    let released = fixture.store.release(ALL, &id("a"), &held.receipt, release).await.expect("answers");
    assert_eq!(released.expect("is held").expires_at, Some(moment));
    add(&*fixture.store, slow("b")).await;
    reserve(&*fixture.store).await;
    fixture.advance_and_promote(seconds(20)).await;
    let timed_out = get(&fixture, "b").await;
    assert_eq!((timed_out.state(), timed_out.expires_at), (State::Delayed, Some(moment)));
    fixture.advance_and_promote(seconds(80)).await;
    assert_expired(&fixture, "a", moment).await;
    assert_expired(&fixture, "b", moment).await;
}

async fn a_job_that_was_put_expires(fixture: StoreFixture) {
    let mut records = ["ready", "reserved", "passed"].map(|name| record(&fixture, name));
    let moment = fixture.now().after(seconds(5));
    for record in &mut records {
        record.job.spec.expiry = Some(expiry_at(moment));
        record.job.expires_at = Some(moment);
    }
    records[1] = {
        let mut reserved = crate::harness::records::reserved_record(&fixture, "reserved");
        (reserved.job.spec.expiry, reserved.job.expires_at) = (Some(expiry_at(moment)), Some(moment));
        reserved
    };
    let past = Timestamp::from_millis(fixture.now().as_millis() - 5);
    (records[2].job.spec.expiry, records[2].job.expires_at) = (Some(expiry_at(past)), Some(past));
    assert_eq!(fixture.store.put(records.to_vec()).await.expect("puts"), [Put::Done; 3]);
    promote(&*fixture.store).await;
    assert_expired(&fixture, "passed", past).await;
    fixture.advance_and_promote(seconds(5)).await;
    assert_expired(&fixture, "ready", moment).await;
    assert_eq!(get(&fixture, "reserved").await.state(), State::Reserved);
    fixture.advance_and_promote(seconds(20)).await;
    promote(&*fixture.store).await;
    assert_expired(&fixture, "reserved", moment).await;
}

async fn many_jobs_of_several_topics_expire_at_once(fixture: StoreFixture) {
    for part in 0..5 {
        let job = |n: usize| {
            let name = format!("{part}-{n}");
            let due = if n.is_multiple_of(2) { after(seconds(1)) } else { Due::default() };
            let topic = topic(["t", "u", "v"][n % 3]);
            with_expiry(AddJob { topic, due, ..job(&name) }, expiry_at(fixture.now().after(seconds(9))))
        };
        fixture.store.add((0..200).map(job).collect()).await.expect("adds");
    }
    fixture.advance_and_promote(seconds(9)).await;
    promote(&*fixture.store).await;
    let mut dead = 0;
    for name in ["t", "u", "v"] {
        let stats = fixture.store.topic(&topic(name)).await.expect("answers").expect("is there");
        assert_eq!((stats.delayed, stats.ready, stats.reserved), (0, 0, 0));
        dead += stats.dead;
    }
    assert_eq!(dead, 1_000);
}

async fn a_mass_expiry_does_not_delay_due_jobs(fixture: StoreFixture) {
    let expiring = |n: usize| expiring(&n.to_string(), 5);
    fixture.store.add((0..300).map(expiring).collect()).await.expect("adds");
    add(&*fixture.store, AddJob { topic: topic("u"), ..delayed("due", seconds(5)) }).await;
    fixture.clock.advance(seconds(5));
    let promoted = fixture.store.promote(100).await.expect("promotes");
    assert!(promoted.more);
    let stats = fixture.store.topic(&topic("u")).await.expect("answers").expect("is there");
    assert_eq!(stats.ready, 1);
    let stats = fixture.store.topic(&topic("t")).await.expect("answers").expect("is there");
    assert_eq!((stats.ready, stats.dead), (250, 50));
    assert_eq!(reserve_any(&*fixture.store).await, None);
    let stats = fixture.store.topic(&topic("t")).await.expect("answers").expect("is there");
    assert_eq!((stats.delayed, stats.ready), (250, 0), "they are passed over once");
    promote(&*fixture.store).await;
    let stats = fixture.store.topic(&topic("t")).await.expect("answers").expect("is there");
    assert_eq!((stats.delayed, stats.dead), (0, 300));
}

async fn expiries_survive_a_restart(mut fixture: StoreFixture) {
    let moment = fixture.now().after(seconds(10));
    add(&*fixture.store, expiring("held", 10)).await;
    reserve(&*fixture.store).await;
    add(&*fixture.store, expiring("ready", 10)).await;
    add(&*fixture.store, with_expiry(delayed("delayed", seconds(5)), expiry_after(5))).await;
    let at = with_expiry(AddJob { due: Due::At(moment), ..job("at") }, expiry_after(10));
    add(&*fixture.store, at).await;
    fixture.reopen().await;
    fixture.advance_and_promote(seconds(10)).await;
    assert_expired(&fixture, "ready", moment).await;
    assert_expired(&fixture, "delayed", moment).await;
    fixture.advance_and_promote(seconds(50)).await;
    promote(&*fixture.store).await;
    assert_expired(&fixture, "held", moment).await;
    assert_expired(&fixture, "at", moment.after(seconds(10))).await;
}

async fn the_listener_is_notified_of_an_expiry(fixture: StoreFixture) {
    fixture.store.promote(100).await.expect("promotes");
    fixture.notifications.take_due_in();
    add(&*fixture.store, expiring("a", 10)).await;
    let earliest = fixture.notifications.take_due_in().into_iter().min();
    assert!(earliest.is_some_and(|next| next <= seconds(10)), "{earliest:?}");
}
