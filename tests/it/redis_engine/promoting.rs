//! How many calls it takes to promote due jobs.

use linger::{
    job::{Expire, Expiry, OnExpiry},
    store::{AddJob, MoveKind},
};

use super::{Process, options, proxy::Proxy};
use crate::harness::{jobs::*, redis::shared};

/// One call promotes the due jobs of topics that had due jobs recently. Other topics take a second call.
#[tokio::test]
async fn due_jobs_of_recent_topics_are_promoted_by_one_call() {
    let proxy = Proxy::start(shared().port).await;
    let mode = proxy.mode();
    let process = Process::start(&linger::store::redis::Options { mode, ..options() }).await;
    proxy.learn_background().await;
    let topics: Vec<String> = (0..20).map(|n| format!("t{n}")).collect();
    let rounds = [(&topics[..3], 2), (&topics[..3], 1), (&topics[1..2], 1), (&topics[..], 2)];
    for (round, (topics, calls)) in rounds.into_iter().enumerate() {
        for name in topics {
            let topic = topic(name);
            add(process.store(), AddJob { topic, ..delayed(&format!("{name}-{round}"), seconds(1)) }).await;
        }
        process.clock.advance(seconds(1));
        // Every script but the three of the sweep.
        proxy.count("");
        let promoted = process.store.promote(100).await.expect("promotes");
        assert_eq!(proxy.disarm(), (0, calls), "calls in round {round}");
        assert_eq!((promoted.moves.len(), promoted.more), (topics.len(), false), "in round {round}");
    }
}

/// There are more due jobs, in more topics, than one run may promote or get the keys of.
#[tokio::test]
async fn all_due_jobs_of_many_topics_are_promoted() {
    for (shards, jobs, limit) in [(2, 2, 1), (4, 40, 1), (4, 1_300, 1_000), (256, 300, 1_000)] {
        let options = linger::store::redis::Options { shards: Some(shards), ..options() };
        let process = Process::start(&options).await;
        let names = (0..jobs).map(|n| format!("n{n}"));
        let due = names.map(|name| AddJob { topic: topic(&name), ..delayed(&name, seconds(1)) });
        process.store.add(due.collect()).await.expect("adds");
        process.clock.advance(seconds(1));
        let (mut moved, mut runs, mut more) = (0, 0, true);
        while more {
            let promoted = process.store.promote(limit).await.expect("promotes");
            (moved, more, runs) = (moved + promoted.moves.len(), promoted.more, runs + 1);
            assert!(runs <= jobs + 1, "each run promotes something: {moved} of {jobs} over {shards} shards");
        }
        assert_eq!(moved, jobs, "over {shards} shards");
    }
}

/// Otherwise a reservation would last until the last of a million due jobs is promoted.
#[tokio::test]
async fn a_reservation_ends_before_due_jobs_are_promoted() {
    let process = Process::start(&linger::store::redis::Options { shards: Some(1), ..options() }).await;
    add(process.store(), job("reserved")).await;
    reserve(process.store()).await;
    let due = (0..10).map(|n| delayed(&format!("due-{n}"), seconds(1)));
    process.store.add(due.collect()).await.expect("adds");
    process.clock.advance(seconds(60));
    let promoted = process.store.promote(1).await.expect("promotes");
    let kinds: Vec<_> = promoted.moves.iter().map(|moved| moved.kind).collect();
    assert_eq!((kinds, promoted.more), (vec![MoveKind::TimedOut], true));
}

/// Jobs that may expire are promoted one by one, all others together.
#[tokio::test]
async fn due_jobs_become_ready_in_the_order_in_which_they_were_due() {
    let process = Process::start(&linger::store::redis::Options { shards: Some(1), ..options() }).await;
    let expiry = Expiry { expire: Expire::After(delay(seconds(60))), on_expiry: OnExpiry::Dead };
    for (n, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        let expiry = (n % 2 == 1).then_some(expiry);
        let spec = JobSpec { expiry, ..JobSpec::default() };
        add(process.store(), AddJob { spec, ..delayed(name, seconds(1 + n as u64)) }).await;
    }
    process.clock.advance(seconds(5));
    promote(process.store()).await;
    let held = process.store.reserve(&plain("t"), &claims(5), Wait::No).await.expect("reserves");
    assert_eq!(held.iter().map(|held| held.job.id.as_str()).collect::<Vec<_>>(), ["a", "b", "c", "d", "e"]);
}
