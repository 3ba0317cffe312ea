//! Concurrent processes on one prefix, with the default settings.

use linger::{
    job::State,
    store::{Steps, TopicUpdates, redis::Options},
};

use super::{Process, options};
use crate::harness::jobs::*;

/// Each process changes one flag from a copy that may be out of date.
#[tokio::test]
async fn pauses_of_two_processes_are_all_kept() {
    let options = options();
    let (one, other) = (Process::start(&options).await, Process::start(&options).await);
    let delivery = PausedOperations { delivery: true, intake: false };
    let intake = PausedOperations { delivery: false, intake: true };
    for n in 0..40 {
        let name = topic(&n.to_string());
        let first = one.store.pause(&name, delivery, Pause::ENDLESS);
        let second = other.store.pause(&name, intake, Pause::ENDLESS);
        let (first, second) = match n % 2 {
            0 => tokio::join!(first, second),
            _ => (first.await, second.await),
        };
        let (first, second) = (first.expect("pauses"), second.expect("pauses"));
        assert!(first.delivery.is_some() && second.intake.is_some(), "each answer shows its own change");
        assert!(first == TopicPause::ALL || second == TopicPause::ALL, "one of them was the later");
    }
    let third = Process::start(&options).await;
    for n in 0..40 {
        assert_eq!(third.store.topic_config(&topic(&n.to_string())).pause, TopicPause::ALL, "topic {n}");
    }
}

/// Processes share the dead letters, so the process with the shortest retention deletes them for all.
#[tokio::test]
async fn the_shortest_retention_counts_for_all_processes() {
    let options = options();
    let with = |retention| Options { dead_retention: Some(seconds(retention)), ..options.clone() };
    let short = Process::start(&with(100)).await;
    let long = Process::with_clock_of(&short, &with(1_000)).await;
    add(long.store(), job("a")).await;
    let held = reserve(long.store()).await;
    long.store.bury(ALL, &held.job.id, &held.receipt, None).await.expect("answers").expect("is held");
    short.clock.advance(seconds(101));
    promote(long.store()).await;
    let kept = long.store.get(ALL, &held.job.id).await.expect("gets").expect("is kept by its own setting");
    assert_eq!(kept.state(), State::Dead);
    promote(short.store()).await;
    assert_eq!(long.store.get(ALL, &held.job.id).await.expect("gets"), None);
}
