//! Counting: each job is in one state, counts are right at every moment, topics exist while they have jobs.

use linger::{
    job::{State, TopicSettings},
    store::{AddJob, Patch, Release, Steps, TopicConfig, TopicStats, TopicUpdates},
};

use crate::harness::{jobs::*, stores::StoreFixture};

super::on_every_engine! {
    counts_are_right_after_every_step,
    the_next_due_and_the_oldest_ready_are_reported,
    a_topic_is_forgotten_with_its_last_job,
    settings_and_pauses_are_kept_until_they_are_taken_back,
    topics_are_independent,
    fault_a_deleted_job_counts_nowhere_and_leaves_nothing_to_wait_for,
}

async fn stats(fixture: &StoreFixture) -> Option<TopicStats> {
    let stats = fixture.store.topic(&topic("t")).await.expect("reads");
    let listed = fixture.store.topics(ALL, None, 10).await.expect("lists");
    let of_t = listed.into_iter().find(|(name, _)| *name == topic("t")).map(|(_, stats)| stats);
    for state in State::ALL {
        let count = |stats: &Option<TopicStats>| stats.as_ref().map_or(0, |stats| stats.count(state));
        assert_eq!(count(&stats), count(&of_t), "the list and the topic agree on {state}");
    }
    stats
}

async fn expect(fixture: &StoreFixture, delayed: u64, ready: u64, reserved: u64, dead: u64) {
    let stats = stats(fixture).await.unwrap_or_default();
    let seen = (stats.delayed, stats.ready, stats.reserved, stats.dead);
    assert_eq!(seen, (delayed, ready, reserved, dead), "(delayed, ready, reserved, dead)");
}

async fn counts_are_right_after_every_step(fixture: StoreFixture) {
    add(&*fixture.store, delayed("a", seconds(5))).await;
    add(&*fixture.store, AddJob { spec: JobSpec { max_attempts: 2, ..JobSpec::default() }, ..job("b") })
        .await;
    expect(&fixture, 1, 1, 0, 0).await;
    add_any(&*fixture.store, delayed("a", seconds(5))).await.expect("is not refused");
    expect(&fixture, 1, 1, 0, 0).await;
    fixture.advance_and_promote(seconds(5)).await;
    expect(&fixture, 0, 2, 0, 0).await;
    let held = fixture.store.reserve(&plain("t"), &claims(5), Wait::No).await.expect("reserves");
    expect(&fixture, 0, 0, 2, 0).await;
    let of = |name| held.iter().find(|r| r.job.id == id(name)).expect("is held").receipt.clone();
    fixture.store.cancel(vec![(id("a"), of("a"))]).await.expect("cancels");
    expect(&fixture, 0, 1, 1, 0).await;
    fixture
        .store
        .release(ALL, &id("b"), &of("b"), Release::default())
        .await
        .expect("answers")
        .expect("is held");
    expect(&fixture, 1, 1, 0, 0).await;
    let put_off = Patch { due: Some(linger::job::Due::After(delay(seconds(9)))), ..Patch::default() };
    fixture.store.patch(ALL, &id("a"), put_off, None).await.expect("patches").expect("is not refused");
    expect(&fixture, 2, 0, 0, 0).await;
    fixture.advance_and_promote(seconds(1)).await;
    expect(&fixture, 1, 1, 0, 0).await;
    let b = reserve(&*fixture.store).await;
    fixture.store.touch(ALL, &id("b"), &b.receipt, None).await.expect("answers").expect("is held");
    expect(&fixture, 1, 0, 1, 0).await;
    fixture.advance_and_promote(seconds(60)).await;
    expect(&fixture, 0, 1, 0, 1).await;
    let a = reserve(&*fixture.store).await;
    fixture.store.bury(ALL, &id("a"), &a.receipt, None).await.expect("answers").expect("is held");
    expect(&fixture, 0, 0, 0, 2).await;
    fixture
        .store
        .requeue(ALL, &id("a"), after(seconds(3)), None)
        .await
        .expect("requeues")
        .expect("is not refused");
    fixture
        .store
        .requeue(ALL, &id("b"), after(seconds(0)), None)
        .await
        .expect("requeues")
        .expect("is not refused");
    expect(&fixture, 1, 1, 0, 0).await;
    let b = reserve(&*fixture.store).await;
    fixture.store.finish(ALL, finish(&b.job.id, &b.receipt)).await.expect("finishes");
    expect(&fixture, 1, 0, 0, 0).await;
    fixture.store.delete(ALL, vec![id("a")], DeleteRule::AnyState).await.expect("deletes");
    assert_eq!(stats(&fixture).await, None);
}

async fn the_next_due_and_the_oldest_ready_are_reported(fixture: StoreFixture) {
    let start = fixture.now();
    for (name, wait) in [("b", 20), ("a", 10), ("c", 30)] {
        add(&*fixture.store, delayed(name, seconds(wait))).await;
    }
    let at = |n| Some(start.after(seconds(n)));
    let seen = stats(&fixture).await.expect("is there");
    assert_eq!((seen.next_due, seen.oldest_ready), (at(10), None));
    fixture.advance_and_promote(seconds(25)).await;
    let seen = stats(&fixture).await.expect("is there");
    assert_eq!((seen.next_due, seen.oldest_ready), (at(30), at(10)));
    fixture.store.delete(ALL, vec![id("a"), id("c")], DeleteRule::AnyState).await.expect("deletes");
    let seen = stats(&fixture).await.expect("is there");
    assert_eq!((seen.next_due, seen.oldest_ready), (None, at(20)));
    let now = fixture.now();
    add(&*fixture.store, delayed("d", seconds(2_000_000))).await;
    let seen = stats(&fixture).await.expect("is there");
    assert_eq!(seen.next_due, Some(now.after(seconds(2_000_000))), "however far ahead it is");
}

async fn a_topic_is_forgotten_with_its_last_job(fixture: StoreFixture) {
    assert_eq!(fixture.store.topics(ALL, None, 10).await.expect("lists"), []);
    for n in 0..3 {
        add(&*fixture.store, job(&n.to_string())).await;
        let held = reserve(&*fixture.store).await;
        fixture.store.finish(ALL, finish(&held.job.id, &held.receipt)).await.expect("finishes");
        assert_eq!(stats(&fixture).await, None);
    }
}

async fn settings_and_pauses_are_kept_until_they_are_taken_back(mut fixture: StoreFixture) {
    let settings = TopicSettings {
        ttr: Some(ttr(5)),
        max_attempts: Some(0),
        retry: Some(retry(&[1, 2])),
        require_receipt: true,
        ..TopicSettings::default()
    };
    let pause = PausedOperations { delivery: true, intake: false };
    fixture.store.put_settings(&topic("t"), settings.clone()).await.expect("puts");
    assert_eq!(fixture.store.topic_config(&topic("t")).settings, settings, "seen at once by who wrote it");
    fixture.store.pause(&topic("t"), pause, Pause::ENDLESS).await.expect("puts");
    let config = TopicConfig { settings, pause: pause.into(), ..TopicConfig::default() };
    assert_eq!(*fixture.store.topic_config(&topic("t")), config);
    assert_eq!(stats(&fixture).await.expect("is there").config, config);
    add(&*fixture.store, job("a")).await;
    fixture.reopen().await;
    assert_eq!(*fixture.store.topic_config(&topic("t")), config);
    let held = reserve(&*fixture.store).await;
    assert_eq!(held.job.spec.ttr, ttr(60), "the store does not apply settings, the queue did");
    fixture.store.finish(ALL, finish(&id("a"), &held.receipt)).await.expect("finishes");
    assert_eq!(stats(&fixture).await.expect("its settings keep it").config, config);
    fixture.store.put_settings(&topic("t"), TopicSettings::default()).await.expect("puts");
    fixture.store.resume(&topic("t"), PausedOperations::ALL).await.expect("puts");
    assert_eq!(stats(&fixture).await, None);
    assert!(fixture.store.topic_config(&topic("t")).is_default());
}

async fn topics_are_independent(fixture: StoreFixture) {
    let names = ["a", "a:b", "b", "ab", "a.b", "A"];
    for (n, name) in names.into_iter().enumerate() {
        add(&*fixture.store, AddJob { topic: topic(name), ..job(&n.to_string()) }).await;
    }
    for name in names {
        let got = fixture.store.reserve(&plain(name), &claims(2), Wait::No).await.expect("reserves");
        assert_eq!(one(got).job.topic, topic(name));
    }
}

async fn fault_a_deleted_job_counts_nowhere_and_leaves_nothing_to_wait_for(fixture: StoreFixture) {
    add(&*fixture.store, delayed("a", seconds(365 * 86_400))).await;
    add(&*fixture.store, delayed("b", seconds(1))).await;
    fixture.store.delete(ALL, vec![id("a"), id("b")], DeleteRule::AnyState).await.expect("deletes");
    expect(&fixture, 0, 0, 0, 0).await;
    fixture.clock.advance(seconds(1));
    let promoted = fixture.store.promote(100).await.expect("promotes");
    assert_eq!((promoted.moves, promoted.more), (vec![], false), "no index entry was left");
}
