//! Expired jobs in the lists and indexes of a shard.

use linger::{
    job::{Expire, Expiry, OnExpiry, State},
    store::{AddJob, Store, redis::Options},
};

use super::{Process, Raw, options, permissions::contents, proxy::Proxy};
use crate::harness::{
    jobs::*,
    redis::{RedisServer, shared},
    wait::TimeLimit,
};

/// A ready job of topic `t` that expires after five seconds.
fn expiring(n: usize) -> AddJob {
    let expiry = Expiry { expire: Expire::After(delay(seconds(5))), on_expiry: OnExpiry::Dead };
    AddJob { spec: JobSpec { expiry: Some(expiry), ..JobSpec::default() }, ..job(&n.to_string()) }
}

async fn count(store: &dyn Store, name: &str, state: State) -> u64 {
    store.topic(&topic(name)).await.expect("answers").map_or(0, |stats| stats.count(state))
}

/// Ready jobs that expire leave entries in their list, which no worker may ever pop.
#[tokio::test]
async fn the_list_of_expired_jobs_is_compacted() {
    let options = Options { shards: Some(1), ..options() };
    let process = Process::start(&options).await;
    let store = process.store();
    store.add((0..1_200).map(expiring).collect()).await.expect("adds");
    store.add(["a", "b"].map(job).to_vec()).await.expect("adds");
    process.clock.advance(seconds(5));
    promote(store).await;
    assert_eq!((count(store, "t", State::Ready).await, count(store, "t", State::Dead).await), (2, 1_200));
    let raw = Raw::connect(&shared().url()).await;
    let ready = format!("{{{}:0}}:ready:t", options.prefix);
    let time_limit = TimeLimit::new();
    while raw.send(&["LLEN", &ready]).await.as_u64() != Some(2) {
        time_limit.check(|| "the list was not compacted".to_owned());
        time_limit.pause().await;
    }
}

#[tokio::test]
async fn a_mass_expiry_does_not_delay_due_jobs() {
    let process = Process::start(&Options { shards: Some(1), ..options() }).await;
    let store = process.store();
    store.add((0..300).map(expiring).collect()).await.expect("adds");
    add(store, AddJob { topic: topic("u"), ..delayed("due", seconds(5)) }).await;
    process.clock.advance(seconds(5));
    assert!(store.promote(100).await.expect("promotes").more);
    assert_eq!(count(store, "u", State::Ready).await, 1);
    assert!(count(store, "t", State::Dead).await < 300);
    promote(store).await;
    assert_eq!(count(store, "t", State::Dead).await, 300);
}

/// The clock of Redis is seen two hours behind at first, so that it is ahead of what the process expects once it is seen as it
/// is.
#[tokio::test]
async fn a_clock_of_redis_that_was_set_deletes_nothing() {
    for is_set in [false, true] {
        let proxy = Proxy::start(shared().port).await;
        let process = Process::start(&Options { mode: proxy.mode(), shards: Some(1), ..options() }).await;
        proxy.step_clock(if is_set { -7_200 } else { 0 });
        promote(process.store()).await;
        proxy.step_clock(0);
        for name in ["at-once", "later"] {
            let expiry = Expiry { expire: Expire::After(delay(seconds(5))), on_expiry: OnExpiry::Delete };
            let spec = JobSpec { expiry: Some(expiry), ..JobSpec::default() };
            add(process.store(), AddJob { spec, ..job(name) }).await;
            process.clock.advance(seconds(5));
            promote(process.store()).await;
            let job = process.store.get(ALL, &id(name)).await.expect("answers");
            let state = job.map(|job| job.state());
            assert_eq!(state, is_set.then_some(State::Dead), "{name}, the clock was set: {is_set}");
        }
    }
}

/// A pop that meets an expired job writes to more keys than others do.
#[tokio::test]
async fn a_pop_that_cannot_pass_over_an_expired_job_fails_and_changes_nothing() {
    let server = RedisServer::start();
    let process = Process::start(&Options { shards: Some(1), ..Options::new(&server.url()) }).await;
    let raw = Raw::connect(&server.url()).await;
    for key in ["{linger:0}:due", "{linger:0}:timeline"] {
        add(process.store(), expiring(7)).await;
        process.clock.advance(seconds(5));
        raw.send(&["SET", key, "foreign"]).await;
        let before = contents(&raw).await;
        let outcome = process.store.reserve(&plain("t"), &claims(1), Wait::No).await;
        assert!(outcome.is_err(), "{key}: {outcome:?}");
        assert_eq!(contents(&raw).await, before, "{key}");
        raw.send(&["DEL", key]).await;
        assert_eq!(reserve_any(process.store()).await, None, "it has expired");
        promote(process.store()).await;
        assert_eq!(count(process.store(), "t", State::Dead).await, 1);
        process.store.purge(&topic("t"), None, 10).await.expect("purges");
    }
}
