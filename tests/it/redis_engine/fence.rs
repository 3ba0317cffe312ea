//! The fence of a move: a process that is still running cannot change a closed store, whatever it sends.

use std::{fmt::Debug, sync::Arc, time::Duration};

use linger::{
    job::{Due, SecretId, SigningKey, State, TopicSettings},
    metrics::Metrics,
    store::{
        Error, Movable, Patch, Release, Result, ScheduleUpdates, Steps, Store, TopicUpdates, Wait, redis,
    },
};

use super::{
    Process, options,
    proxy::{Fault, Proxy},
};
use crate::harness::{
    jobs::*,
    records::{all_records, all_schedules, record, schedule, topic_record},
    redis::shared,
    stores::{Engine, Recorder, StoreFixture},
};

fn assert_refused<T: Debug>(operation: &str, result: Result<T>) {
    match result {
        Err(Error::Refused { reason, .. }) => {
            assert!(reason.contains("moved to another store"), "{operation}: {reason}");
        }
        other => panic!("{operation}: {other:?}"),
    }
}

/// A job in each state, named as its state.
async fn fill(store: &dyn Store) {
    add(store, job("dead")).await;
    let held = reserve(store).await;
    store.bury(ALL, &held.job.id, &held.receipt, None).await.expect("answers").expect("is held");
    add(store, job("reserved")).await;
    add(store, delayed("delayed", seconds(1))).await;
}

#[tokio::test]
async fn a_closed_store_takes_no_changes() {
    let options = options();
    let process = Process::start(&options).await;
    let store = process.store();
    fill(store).await;
    let held = reserve(store).await;
    let receipt = &held.receipt;
    add(store, job("ready")).await;
    let secret = SigningKey::generate();
    store.add_secret(&topic("t"), signing_secret(SecretId([1; 8]), secret.clone())).await.expect("adds");
    let [daily, new] = ["daily", "new"].map(|name| schedule(name, None, "{}"));
    store.put_schedules(vec![daily.clone()]).await.expect("puts");

    let (listener, metrics) = (Arc::new(Recorder::default()), Metrics::new().engine);
    let mover = redis::open_offline(redis::OpenMode::Source, options.clone(), listener, metrics)
        .await
        .expect("connects");
    assert!(mover.set_fence(2, true).await.expect("closes"));
    let before = all_records(&*mover).await;
    assert_eq!(before.1.len(), 4);
    // All that time can do is due.
    process.clock.advance(Duration::from_secs(24 * 3600));

    assert_refused("add", store.add(vec![job("new")]).await);
    assert_refused("add again", store.add(vec![job("ready")]).await);
    assert_refused("reserve", store.reserve(&plain("t"), &claims(1), Wait::No).await);
    assert_refused("promote", store.promote(10).await);
    assert_refused("finish", store.finish(ALL, finish(&held.job.id, receipt)).await);
    assert_refused("release", store.release(ALL, &id("reserved"), receipt, Release::default()).await);
    assert_refused("touch", store.touch(ALL, &id("reserved"), receipt, None).await);
    assert_refused("bury", store.bury(ALL, &id("reserved"), receipt, None).await);
    assert_refused("requeue", store.requeue(ALL, &id("dead"), after(seconds(0)), None).await);
    let later = Patch { due: Some(Due::After(delay(seconds(9)))), ..Patch::default() };
    assert_refused("patch", store.patch(ALL, &id("delayed"), later, None).await);
    assert_refused("delete", store.delete(ALL, vec![id("delayed")], DeleteRule::AnyState).await);
    assert_refused("purge", store.purge(&topic("t"), None, 10).await);
    let fixture = StoreFixture::new(Engine::Naive).await;
    assert_refused("put", store.put(vec![record(&fixture, "imported")]).await);
    assert_refused("put_topic", store.put_topic(topic_record("imported")).await);
    assert_refused("put_settings", store.put_settings(&topic("t"), TopicSettings::default()).await);
    let pause = PausedOperations { delivery: true, intake: true };
    assert_refused("pause", store.pause(&topic("t"), pause, Pause::ENDLESS).await);
    assert_refused(
        "add_secret",
        store.add_secret(&topic("t"), signing_secret(SecretId([2; 8]), secret)).await,
    );
    assert_refused("delete_secret", store.delete_secret(&topic("t"), SecretId([1; 8])).await);
    assert_refused("put_schedules", store.put_schedules(vec![new]).await);
    let delete = vec![(daily.name.clone(), None)];
    assert_refused("replace_schedules", store.replace_schedules(delete).await);
    assert_refused("check", store.check().await);

    assert!(all_records(&*mover).await == before);
    assert_eq!(all_schedules(&*mover).await, [daily]);
    assert_eq!(
        store.get(ALL, &id("reserved")).await.expect("reads").expect("is there").state(),
        State::Reserved
    );

    assert!(!mover.set_fence(1, false).await.expect("answers"), "an earlier run opens nothing");
    assert_refused("add after that", store.add(vec![job("new")]).await);
    assert!(mover.set_fence(3, false).await.expect("opens"));
    assert!(!mover.set_fence(2, true).await.expect("answers"), "an earlier run closes nothing");
    store.check().await.expect("accepts writes");
    assert_eq!(store.promote(10).await.expect("promotes").moves.len(), 2);
    store.add(vec![job("new")]).await.expect("adds");
    // A mover changes nothing without a fence of its own.
    assert_refused("a mover", Steps::delete(&*mover, ALL, vec![id("new")], DeleteRule::AnyState).await);
}

/// The first run added one of two jobs, because the other one existed. That one ends, and the store is moved.
#[tokio::test]
async fn an_add_that_is_resent_adds_nothing_more_to_a_closed_store() {
    let proxy = Proxy::start(shared().port).await;
    let options = redis::Options { retry_for: seconds(60), shards: Some(1), ..options() };
    let process = Process::start(&redis::Options { mode: proxy.mode(), ..options.clone() }).await;
    let other = Process::with_clock_of(&process, &options).await;
    add(other.store(), job("there")).await;
    proxy.arm_marked_then("victim", Fault::CutAfter, Fault::CutBefore);
    let store = process.store.clone();
    let adding = tokio::spawn(async move { store.add(vec![job("victim"), job("there")]).await });
    proxy.until_seen(2).await;
    other.store.delete(ALL, vec![id("there")], DeleteRule::AnyState).await.expect("deletes");
    let (listener, metrics) = (Arc::new(Recorder::default()), Metrics::new().engine);
    let mover =
        redis::open_offline(redis::OpenMode::Source, options, listener, metrics).await.expect("connects");
    assert!(mover.set_fence(2, true).await.expect("closes"));
    proxy.disarm();
    assert_refused("the rest of the add", adding.await.expect("does not panic"));
    assert_eq!(other.store.get(ALL, &id("there")).await.expect("reads"), None);
    assert!(other.store.get(ALL, &id("victim")).await.expect("reads").is_some());
}
