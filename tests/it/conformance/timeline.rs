//! The timeline: each delayed job counts once, in the minute in which it is due.

use linger::{
    job::{Due, Topic},
    store::{Minute, Patch, Release, Span, Steps, Timeline, Totals},
};

use crate::harness::{jobs::*, stores::StoreFixture};

super::on_every_engine! {
    jobs_count_in_the_minute_in_which_they_are_due,
    a_timeline_follows_every_change_of_a_due_time,
    whole_hours_and_parts_of_hours_are_counted,
    jobs_outside_of_the_span_are_told_apart,
    jobs_for_hosts_count_with_their_topic,
    jobs_due_in_the_same_millisecond_all_count,
    an_empty_topic_has_an_empty_timeline,
    a_timeline_survives_a_restart,
}

/// `steps` steps of `step` minutes from the present minute on.
async fn timeline(fixture: &StoreFixture, topic: Option<&Topic>, step: u32, steps: u32) -> Timeline {
    let span = Span::new(Minute::containing(fixture.now()), step, steps).expect("is short");
    fixture.store.timeline(topic, span).await.expect("reads")
}

/// The jobs of topic `t` due in the present minute and the next ones; those of all topics are the same.
async fn minutes(fixture: &StoreFixture, steps: u32) -> Vec<u64> {
    let of_t = timeline(fixture, Some(&topic("t")), 1, steps).await;
    assert_eq!(timeline(fixture, None, 1, steps).await, of_t, "there is only one topic");
    of_t.counts
}

/// Goes on to the beginning of a minute.
async fn begin_minute(fixture: &StoreFixture) {
    let next = Minute(Minute::containing(fixture.now()).0 + 1).start();
    fixture.advance_and_promote(next.since(fixture.now())).await;
}

async fn jobs_count_in_the_minute_in_which_they_are_due(fixture: StoreFixture) {
    begin_minute(&fixture).await;
    for (name, wait) in
        [("a", millis(59_999)), ("b", seconds(60)), ("c", millis(119_999)), ("d", seconds(180))]
    {
        add(&*fixture.store, delayed(name, wait)).await;
    }
    add(&*fixture.store, job("ready")).await;
    assert_eq!(minutes(&fixture, 4).await, [1, 2, 0, 1]);
    let seen = timeline(&fixture, None, 2, 2).await;
    assert_eq!(
        (seen.counts, seen.totals),
        (vec![3, 1], Totals { delayed: 4, ready: 1, ..Totals::default() })
    );
}

async fn a_timeline_follows_every_change_of_a_due_time(fixture: StoreFixture) {
    begin_minute(&fixture).await;
    let store = &*fixture.store;
    let patch = |due| Patch { due: Some(due), ..Patch::default() };
    add(store, delayed("a", seconds(60))).await;
    add_any(store, delayed("a", seconds(60))).await.expect("is not refused");
    assert_eq!(minutes(&fixture, 4).await, [0, 1, 0, 0], "a repeated add counts once");
    store
        .patch(ALL, &id("a"), patch(Due::After(delay(seconds(120)))), None)
        .await
        .expect("patches")
        .expect("is not refused");
    assert_eq!(minutes(&fixture, 4).await, [0, 0, 1, 0], "put off");
    store.patch(ALL, &id("a"), patch(Due::default()), None).await.expect("patches").expect("is not refused");
    assert_eq!(minutes(&fixture, 4).await, [0; 4], "ready at once");
    store
        .patch(ALL, &id("a"), patch(Due::After(delay(seconds(180)))), None)
        .await
        .expect("patches")
        .expect("is not refused");
    assert_eq!(minutes(&fixture, 4).await, [0, 0, 0, 1], "ready, then put off");
    fixture.advance_and_promote(seconds(180)).await;
    assert_eq!(minutes(&fixture, 4).await, [0; 4], "promoted");
    let held = reserve(store).await;
    let later = Release { due: Some(after(seconds(60))), ..Release::default() };
    store.release(ALL, &id("a"), &held.receipt, later).await.expect("answers").expect("is held");
    assert_eq!(minutes(&fixture, 4).await, [0, 1, 0, 0], "released");
    fixture.advance_and_promote(seconds(60)).await;
    let held = reserve(store).await;
    store.bury(ALL, &id("a"), &held.receipt, None).await.expect("answers").expect("is held");
    assert_eq!(minutes(&fixture, 4).await, [0; 4], "dead");
    store.requeue(ALL, &id("a"), after(seconds(120)), None).await.expect("requeues").expect("is not refused");
    assert_eq!(minutes(&fixture, 4).await, [0, 0, 1, 0], "requeued");
    store.delete(ALL, vec![id("a")], DeleteRule::AnyState).await.expect("deletes");
    assert_eq!(minutes(&fixture, 4).await, [0; 4], "deleted");
    let steps =
        linger::store::AddJob { spec: JobSpec { retry: retry(&[60]), ..JobSpec::default() }, ..job("b") };
    add(store, steps).await;
    reserve(store).await;
    fixture.advance_and_promote(seconds(60)).await;
    assert_eq!(minutes(&fixture, 4).await, [0, 1, 0, 0], "timed out, and waits for its next step");
    purge(store, &topic("t"), 10).await;
    assert_eq!(minutes(&fixture, 4).await, [0; 4], "purged");
}

async fn whole_hours_and_parts_of_hours_are_counted(fixture: StoreFixture) {
    begin_minute(&fixture).await;
    for hour in 0..30 {
        for (n, minute) in [0, 1, 59].into_iter().enumerate() {
            let wait = seconds(60 * (hour * 60 + minute) + 1);
            add(&*fixture.store, delayed(&format!("{hour}-{n}"), wait)).await;
        }
    }
    for (step, steps) in [(1, 400), (7, 200), (60, 30), (61, 29), (90, 20), (360, 5), (1_440, 2)] {
        let by_hand = (0..steps).map(|n| {
            let due = |minute: &u32| (n * step..(n + 1) * step).contains(minute);
            (0..30).flat_map(|hour| [0, 1, 59].map(|minute| hour * 60 + minute)).filter(due).count() as u64
        });
        let seen = timeline(&fixture, Some(&topic("t")), step, steps).await;
        assert_eq!(seen.counts, by_hand.collect::<Vec<_>>(), "{steps} steps of {step} minutes");
        assert_eq!(timeline(&fixture, None, step, steps).await, seen);
    }
}

async fn jobs_outside_of_the_span_are_told_apart(fixture: StoreFixture) {
    begin_minute(&fixture).await;
    add(&*fixture.store, delayed("overdue", seconds(30))).await;
    add(&*fixture.store, delayed("near", seconds(90))).await;
    add(&*fixture.store, delayed("far", seconds(3_600))).await;
    // Nothing is promoted meanwhile.
    fixture.clock.advance(seconds(60));
    let seen = timeline(&fixture, Some(&topic("t")), 1, 1).await;
    assert_eq!((seen.counts.as_slice(), seen.outside()), (&[1][..], 2));
}

async fn jobs_for_hosts_count_with_their_topic(fixture: StoreFixture) {
    begin_minute(&fixture).await;
    for (name, url) in [("a", "http://one.example/"), ("b", "http://two.example/")] {
        let later = linger::store::AddJob { due: delayed(name, seconds(60)).due, ..called(name, url) };
        add(&*fixture.store, later).await;
    }
    add(&*fixture.store, delayed("c", seconds(60))).await;
    assert_eq!(minutes(&fixture, 2).await, [0, 3]);
    fixture.store.delete(ALL, vec![id("a"), id("c")], DeleteRule::AnyState).await.expect("deletes");
    assert_eq!(minutes(&fixture, 2).await, [0, 1]);
}

async fn jobs_due_in_the_same_millisecond_all_count(fixture: StoreFixture) {
    begin_minute(&fixture).await;
    let jobs = (0..500).map(|n| delayed(&format!("job-{n}"), seconds(60))).collect();
    fixture.store.add(jobs).await.expect("adds");
    assert_eq!(minutes(&fixture, 3).await, [0, 500, 0]);
}

async fn an_empty_topic_has_an_empty_timeline(fixture: StoreFixture) {
    add(&*fixture.store, delayed("a", seconds(60))).await;
    let seen = timeline(&fixture, Some(&topic("nobody")), 15, 96).await;
    assert_eq!(seen, Timeline { counts: vec![0; 96], totals: Totals::default() });
}

async fn a_timeline_survives_a_restart(mut fixture: StoreFixture) {
    begin_minute(&fixture).await;
    add(&*fixture.store, delayed("a", seconds(60))).await;
    add(&*fixture.store, job("b")).await;
    let held = reserve(&*fixture.store).await;
    let later = Release { due: Some(Due::default()), ..Release::default() };
    fixture.store.release(ALL, &id("b"), &held.receipt, later).await.expect("answers").expect("is held");
    let before = timeline(&fixture, None, 1, 3).await;
    fixture.reopen().await;
    assert_eq!(timeline(&fixture, None, 1, 3).await, before);
    assert_eq!(minutes(&fixture, 3).await, [0, 1, 0]);
}
