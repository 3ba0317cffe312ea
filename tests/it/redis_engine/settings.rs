//! The settings and pauses of topics, of which every process has a copy.

use linger::store::TopicUpdates;

use super::{Process, Raw, options};
use crate::harness::{jobs::*, redis::shared, wait::TimeLimit};

#[tokio::test]
async fn settings_and_pauses_reach_the_other_processes() {
    let options = options();
    let (one, other) = (Process::start(&options).await, Process::start(&options).await);
    let pause = PausedOperations { delivery: true, intake: false };
    one.store.pause(&topic("t"), pause, Pause::ENDLESS).await.expect("pauses");
    assert_eq!(one.store.topic_config(&topic("t")).pause, pause.into(), "at once in the process that paused");
    let time_limit = TimeLimit::new();
    while other.store.topic_config(&topic("t")).pause != pause.into() {
        time_limit.check(|| "the other process has not received the pause".to_owned());
        time_limit.pause().await;
    }
    other.events.take_ready();
    one.store.resume(&topic("t"), PausedOperations::ALL).await.expect("resumes");
    other.wait_for_ready_event("t").await;
    assert_eq!(
        other.store.topics(ALL, None, 10).await.expect("reads"),
        [],
        "a topic without anything is forgotten"
    );
}

/// A replica becomes the primary that has not received the last change, and the next change brings it to as many.
#[tokio::test]
async fn a_change_after_a_failover_that_lost_one_reaches_every_process() {
    let options = options();
    let (one, other) = (Process::start(&options).await, Process::start(&options).await);
    let raw = Raw::connect(&shared().url()).await;
    let key = format!("{{{}}}:settings", options.prefix);
    let pause = PausedOperations { delivery: true, intake: false };
    let set = async |name| one.store.pause(&topic(name), pause, Pause::ENDLESS).await.expect("pauses");
    let paused = |process: &Process| {
        let is_paused = |name: &&str| process.store.topic_config(&topic(name)).pause == pause.into();
        ["first", "lost", "later"].into_iter().filter(is_paused).collect::<Vec<_>>()
    };
    let wait_for = async |names: &[&str]| {
        let time_limit = TimeLimit::new();
        while [&one, &other].iter().any(|process| paused(process) != names) {
            time_limit.check(|| format!("{:?} and {:?}, not {names:?}", paused(&one), paused(&other)));
            time_limit.pause().await;
        }
    };
    set("first").await;
    let replicated = raw.send(&["DUMP", &key]).await.into_bytes().expect("is there");
    set("lost").await;
    wait_for(&["first", "lost"]).await;
    let restored = vec![key.as_str().into(), "0".into(), replicated.into(), "REPLACE".into()];
    raw.send_values("RESTORE", restored).await;
    set("later").await;
    wait_for(&["first", "later"]).await;
}
