//! Pops of many jobs, which call several shards at the same time.

use std::collections::{BTreeMap, BTreeSet};

use linger::{
    clock::Clock,
    job::{JobId, State, Ttr},
    store::{AddJob, Error, Reservation, redis::Options},
};

use super::{
    Process, Raw, options,
    proxy::{Fault, Proxy},
    tag,
};
use crate::harness::{
    jobs::*,
    redis::shared,
    wait::{TimeLimit, until},
};

/// Enough jobs that every shard has some.
const JOBS: usize = 400;

/// Every server counts as prompt, however busy the machine is: these tests count the jobs of one pop.
fn patient(options: Options) -> Options {
    Options { prompt_timeout: seconds(60), ..options }
}

fn jobs() -> Vec<AddJob> {
    (0..JOBS).map(|n| job(&format!("job-{n}"))).collect()
}

fn ids(held: &[Reservation]) -> BTreeSet<JobId> {
    held.iter().map(|held| held.job.id.clone()).collect()
}

#[tokio::test]
async fn the_jobs_of_all_shards_come_in_one_pop() {
    for shards in [1, 4, 16, 256] {
        let options = patient(Options { shards: Some(shards), ..options() });
        let process = Process::start(&options).await;
        process.store().add(jobs()).await.expect("adds");
        // A process that was notified of nothing before its first reservation.
        let other = Process::with_clock_of(&process, &options).await;
        let few = other.store().reserve(&plain("t"), &claims(3), Wait::No).await.expect("reserves");
        assert_eq!(few.len(), 3, "of {shards} shards");
        let mut held =
            process.store().reserve(&plain("t"), &claims(JOBS - 5), Wait::No).await.expect("reserves");
        assert_eq!(held.len(), JOBS - 5, "of {shards} shards");
        let rest = other.store().reserve(&plain("t"), &claims(JOBS), Wait::No).await.expect("reserves");
        assert_eq!(rest.len(), 2, "of {shards} shards");
        held.extend(few.into_iter().chain(rest));
        assert_eq!(ids(&held).len(), JOBS, "each came once");
        for held in held {
            let done =
                process.store().finish(ALL, finish(&held.job.id, &held.receipt)).await.expect("finishes");
            assert_eq!(one(done), finished());
        }
    }
}

/// A ready probe finds the job for callers that wait, and notifies them.
#[tokio::test]
async fn waiting_callers_are_notified_of_jobs_without_an_announcement() {
    /// Makes a delayed job of the topic `t` ready as an engine does, but without an announcement.
    const MAKE_READY: &str = "local raw = redis.call('HGET', KEYS[1], ARGV[1])
        local flags, gen = struct.unpack('>BI4', raw, 2)
        redis.call('HSET', KEYS[1], ARGV[1], struct.pack('>BBI4', 34, flags, gen + 1) .. string.sub(raw, 7))
        redis.call('ZREM', KEYS[2], ARGV[1])
        redis.call('RPUSH', KEYS[3], struct.pack('>I4I6', gen + 1, 0) .. ARGV[1])
        redis.call('HINCRBY', KEYS[4], 'dt', -1)
        redis.call('HINCRBY', KEYS[4], 'rt', 1)";
    let proxy = Proxy::start(shared().port).await;
    let mode = proxy.mode();
    let options = Options { mode, ..options() };
    let process = Process::start(&options).await;
    // The first sweeps after a start check all shards. From then on the process relies on announcements.
    proxy.learn_background().await;
    until(|| proxy.background_seen() >= 12).await;
    add(process.store(), delayed("a", seconds(60))).await;
    let tag = tag(&options, &id("a"));
    let keys = ["jobs", "due", "ready:t", "counts"].map(|name| format!("{tag}:{name}"));
    let words = ["EVAL", MAKE_READY, "4", &keys[0], &keys[1], &keys[2], &keys[3], "a"];
    Raw::connect(&shared().url()).await.send(&words).await;
    let none = process.store().reserve(&plain("t"), &claims(1), Wait::Yes).await.expect("answers");
    assert_eq!(none, []);
    process.wait_for_ready_event("t").await;
    let held = process.store().reserve(&plain("t"), &claims(2), Wait::Yes).await.expect("answers");
    assert_eq!(one(held).job.id, id("a"));
}

#[tokio::test]
async fn waiting_callers_learn_why_the_probe_fails() {
    let proxy = Proxy::start(shared().port).await;
    let mode = proxy.mode();
    let process = Process::start(&Options { mode, retry_for: millis(200), ..options() }).await;
    proxy.learn_background().await;
    proxy.arm(0, usize::MAX, Fault::CutBefore);
    let none = process.store().reserve(&plain("t"), &claims(1), Wait::Yes).await.expect("answers");
    assert_eq!(none, []);
    process.wait_for_ready_event("t").await;
    let error =
        process.store().reserve(&plain("t"), &claims(1), Wait::Yes).await.expect_err("the probe fails");
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    proxy.disarm();
    // The connections are opened again at growing intervals.
    let time_limit = TimeLimit::new();
    while process.store.check().await.is_err() {
        time_limit.check(|| "Redis is not used again".to_owned());
        time_limit.pause().await;
    }
    add(process.store(), job("a")).await;
    let held = process.store().reserve(&plain("t"), &claims(1), Wait::Yes).await.expect("answers");
    assert_eq!(one(held).job.id, id("a"));
}

#[tokio::test]
async fn each_job_is_reserved_for_the_ttr_at_its_index() {
    let options = patient(Options { shards: Some(16), ..options() });
    let process = Process::start(&options).await;
    process.store().add(jobs()).await.expect("adds");
    let own = jobs()[0].spec.ttr;
    let alike: fn(usize) -> Option<Ttr> = |_| Some(ttr(7));
    let mixed: fn(usize) -> Option<Ttr> =
        |n| [None, Some(ttr(7)), Some(ttr(9))].get(n % 7).copied().flatten();
    let halves: fn(usize) -> Option<Ttr> = |n| (n >= 40).then(|| ttr(300));
    for wanted in [alike, mixed, halves] {
        let claims: Vec<Claim> = (0..80).map(|n| Claim { ttr: wanted(n), by: None }).collect();
        let held = process.store().reserve(&plain("t"), &claims, Wait::No).await.expect("reserves");
        assert_eq!(held.len(), claims.len());
        for (at, (held, claim)) in held.iter().zip(claims).enumerate() {
            let till = held.job.reserved_until().expect("is reserved");
            assert_eq!(
                till.since(process.clock.now()),
                claim.ttr.unwrap_or(own).as_duration(),
                "the job at {at}"
            );
        }
    }
}

/// No worker waits for the job of another one: no shard gets its request before all are on the way.
#[tokio::test]
async fn the_shards_are_asked_at_the_same_time_for_equal_and_for_different_claims() {
    const SHARDS: usize = 4;
    let proxy = Proxy::start(shared().port).await;
    let mode = proxy.mode();
    let options = patient(Options { mode, shards: Some(4), ..options() });
    let process = Process::start(&options).await;
    proxy.learn_background().await;
    let of_each_shard: BTreeMap<String, AddJob> =
        jobs().into_iter().map(|job| (tag(&options, &job.id), job)).collect();
    assert_eq!(of_each_shard.len(), SHARDS);
    let different: Vec<Claim> = (0..SHARDS).map(|n| claim_for(ttr(60 + n as u64))).collect();
    for claims in [claims(SHARDS), different] {
        process.store().add(of_each_shard.values().cloned().collect()).await.expect("adds");
        proxy.arm(0, SHARDS, Fault::Together(SHARDS));
        let held = process.store().reserve(&plain("t"), &claims, Wait::No).await.expect("reserves");
        assert_eq!((held.len(), proxy.disarm()), (SHARDS, (SHARDS, SHARDS)));
        for held in held {
            process.store().finish(ALL, finish(&held.job.id, &held.receipt)).await.expect("finishes");
        }
    }
}

#[tokio::test]
async fn a_shard_that_fails_takes_nothing_from_the_others() {
    let raw = Raw::connect(&shared().url()).await;
    for broken in 0..4 {
        let options = patient(Options { shards: Some(4), ..options() });
        let process = Process::start(&options).await;
        process.store().add(jobs()).await.expect("adds");
        process.events.take_ready();
        let broken = format!("{{{}:{broken}}}", options.prefix);
        let (ready, aside) = (format!("{broken}:ready:t"), format!("{broken}:aside"));
        raw.send(&["RENAME", &ready, &aside]).await;
        raw.send(&["SET", &ready, "no list"]).await;
        let held = process
            .store()
            .reserve(&plain("t"), &claims(JOBS), Wait::No)
            .await
            .expect("the other shards reserve");
        let mut seen = ids(&held);
        let tags: BTreeSet<String> = seen.iter().map(|id| tag(&options, id)).collect();
        assert!(tags.len() == 3 && !tags.contains(&broken), "{tags:?}");
        assert!(process.events.take_ready().contains(&plain("t")), "there may be more");
        raw.send(&["RENAME", &aside, &ready]).await;
        for held in process.store().reserve(&plain("t"), &claims(JOBS), Wait::No).await.expect("reserves") {
            assert_eq!(held.job.attempts, 1);
            assert!(seen.insert(held.job.id));
        }
        assert_eq!(seen.len(), JOBS);
    }
}

/// As after a repair of a list that was not the fault.
#[tokio::test]
async fn a_job_that_is_twice_in_its_list_is_reserved_once() {
    let options = Options { shards: Some(1), ..options() };
    let process = Process::start(&options).await;
    process.store.add(["a", "b"].map(job).to_vec()).await.expect("adds");
    let raw = Raw::connect(&shared().url()).await;
    let [ready, copy] = ["ready:t", "copy"].map(|name| format!("{{{}:0}}:{name}", options.prefix));
    raw.send(&["COPY", &ready, &copy]).await;
    raw.send(&["LMOVE", &copy, &ready, "LEFT", "LEFT"]).await;
    let held = process.store.reserve(&plain("t"), &claims(3), Wait::No).await.expect("reserves");
    assert_eq!(held.iter().map(|held| held.job.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let stats = process.store.topic(&topic("t")).await.expect("answers").expect("has jobs");
    assert_eq!((stats.count(State::Ready), stats.count(State::Reserved)), (0, 2));
}
