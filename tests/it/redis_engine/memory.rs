//! Full memory: an operation that needs memory changes nothing and fails; all others work.

use std::sync::Arc;

use linger::store::{Error, Store, redis::Options};

use super::{
    Process, Raw,
    proxy::{Fault, Proxy},
    steps::{Step, StepFixture, prepare_for},
};
use crate::harness::{jobs::*, naive::Naive, redis::RedisServer, stores::Recorder};

fn needs_memory(step: Step) -> bool {
    let adds =
        matches!(step, Step::Add | Step::AddDelayed | Step::AddBatch | Step::Replace | Step::AddRemembered);
    let patches = matches!(step, Step::PatchInPlace | Step::PatchNow | Step::PatchLater);
    adds || patches || matches!(step, Step::PutSettings | Step::AddSecret)
}

#[tokio::test]
async fn with_a_full_memory_every_step_is_refused_whole_or_works() {
    let server = RedisServer::start();
    let process = Process::start(&Options::new(&server.url())).await;
    let raw = Raw::connect(&server.url()).await;
    let events = Arc::new(Recorder::default());
    let naive: Arc<dyn Store> = Naive::new(process.clock.clone(), events, None);
    for (number, step) in Step::ALL.into_iter().enumerate() {
        let name = format!("case{number}");
        let expected = StepFixture::prepare(&naive, &naive, &name).await;
        let actual = StepFixture::prepare(&process.store, &process.store, &name).await;
        prepare_for(step, &process.clock, &[&expected, &actual]).await;
        let before = expected.jobs().await;
        let (answer, _) = expected.perform(step).await.expect("the naive store is never full");
        raw.send(&["CONFIG", "SET", "maxmemory", "1"]).await;
        match actual.perform(step).await {
            Err(Error::Full(_)) if needs_memory(step) => {
                assert_eq!(actual.jobs().await, before, "{step:?} was refused and did something");
            }
            Ok((actual_answer, _)) if !needs_memory(step) => {
                assert_eq!(actual_answer, answer, "{step:?}");
                assert_eq!(actual.jobs().await, expected.jobs().await, "{step:?}");
            }
            other => panic!("{step:?} with a full memory: {other:?}"),
        }
        assert_eq!(process.store.verify().await.expect("verifies").faults, Vec::<String>::new(), "{step:?}");
        raw.send(&["CONFIG", "SET", "maxmemory", "0"]).await;
        expected.clear().await;
        actual.clear().await;
    }
}

#[tokio::test]
async fn memory_that_runs_out_in_the_middle_of_a_batch_leaves_no_partial_effects() {
    let server = RedisServer::start();
    let process = Process::start(&Options { shards: Some(1), ..Options::new(&server.url()) }).await;
    let raw = Raw::connect(&server.url()).await;
    let used = raw.send(&["INFO", "memory"]).await.into_string().expect("a text");
    let used = used.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("INFO reports it");
    let limit = used.trim().parse::<u64>().expect("a number") + 500_000;
    raw.send(&["CONFIG", "SET", "maxmemory", &limit.to_string()]).await;
    let mut added = 0;
    let refused = loop {
        let batch = (0..100).map(|n| delayed(&format!("{added}-{n}"), seconds(9)));
        match process.store.add(batch.collect()).await {
            Ok(_) => added += 1,
            Err(error) => break error,
        }
        assert!(added < 1_000, "500 kB hold no more");
    };
    assert!(matches!(refused, Error::Full(_)), "{refused:?}");
    let verified = process.store.verify().await.expect("verifies");
    assert_eq!(
        (verified.jobs, verified.faults),
        (100 * added, vec![]),
        "each batch was added whole or not at all"
    );
}

/// A first attempt may have done it, so the error does not say that nothing has happened.
#[tokio::test]
async fn memory_that_runs_out_before_a_call_is_resent_is_no_refusal_of_the_call() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port).await;
    let process = Process::start(&Options::new(&proxy.url())).await;
    let raw = Raw::connect(&server.url()).await;
    proxy.arm_marked_then("victim", Fault::CutAfter, Fault::CutBefore);
    let store = process.store.clone();
    let adding = tokio::spawn(async move { store.add(vec![job("victim")]).await });
    proxy.until_seen(2).await;
    raw.send(&["CONFIG", "SET", "maxmemory", "1"]).await;
    proxy.disarm();
    let added = adding.await.expect("does not panic");
    assert!(matches!(added, Err(Error::Unavailable(_))), "{added:?}");
    assert!(process.store.get(ALL, &id("victim")).await.expect("reads").is_some());
    let refused = process.store.add(vec![job("other")]).await;
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
}
