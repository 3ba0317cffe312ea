//! Shards whose counts, or whose agenda, do not match what they hold: they are mended while others use them.

use std::time::Duration;

use linger::{
    clock::Clock,
    store::{AddJob, ScheduleUpdates, redis::Options},
};

use super::{
    AUDIT_INTERVAL, Process, Raw, options,
    proxy::{Fault, Proxy},
};
use crate::harness::{jobs::*, records::schedule, redis::shared, wait::TimeLimit};

/// A run of the script ends before a page with topics whose keys it does not have: the pages that it tallied before count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_counts_are_mended_where_every_job_has_a_topic_of_its_own() {
    mend_counts_of_many_topics(false).await;
}

/// The scan starts over: what was tallied before does not count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_counts_are_mended_although_the_scan_meets_another_server() {
    mend_counts_of_many_topics(true).await;
}

async fn wait_until_sound(process: &Process) {
    let limit = TimeLimit::new();
    loop {
        let faults = process.store.verify().await.expect("verifies").faults;
        if faults.is_empty() {
            break;
        }
        limit.check(|| format!("{faults:?}"));
        limit.pause().await;
    }
}

async fn mend_counts_of_many_topics(meets_another_server: bool) {
    const TOPICS: usize = 1_200;
    let proxy = Proxy::start(shared().port).await;
    let options = Options { mode: proxy.mode(), shards: Some(1), ..options() };
    let process = Process::start(&options).await;
    let of_topic =
        |n: usize| AddJob { topic: topic(&format!("t{n}")), ..delayed(&format!("job-{n}"), seconds(900)) };
    for first in (0..TOPICS).step_by(100) {
        process.store.add((first..first + 100).map(of_topic).collect()).await.expect("adds");
    }
    let counts = format!("{{{}:0}}:counts", options.prefix);
    Raw::connect(&shared().url()).await.send(&["HSET", &counts, "dt0", "7", "dghost", "1"]).await;
    let faults = process.store.verify().await.expect("verifies").faults;
    assert!(!faults.is_empty());
    if meets_another_server {
        proxy.move_next_cursor();
    }
    process.clock.advance(AUDIT_INTERVAL);
    wait_until_sound(&process).await;
    assert!(proxy.has_moved_cursor(), "no scan had several runs");
}

/// A schedule that is not in the agenda would never run.
#[tokio::test]
async fn an_agenda_that_lacks_a_schedule_or_has_one_too_many_is_mended() {
    let options = Options { shards: Some(1), ..options() };
    let process = Process::start(&options).await;
    let raw = Raw::connect(&shared().url()).await;
    let agenda = format!("{{{}:0}}:agenda", options.prefix);
    let next = process.clock.now().after(seconds(3_600));
    let schedules = (0..300).map(|n| schedule(&format!("s{n:03}"), Some(next).filter(|_| n != 7), "{}"));
    process.store.put_schedules(schedules.collect()).await.expect("puts");
    // The moment of the third one is wrong, too, which only the mending of the others finds.
    let break_agenda: [&[&str]; 4] = [
        &["ZREM", &agenda, "s299"],
        &["ZADD", &agenda, "5", "ghost"],
        &["ZINCRBY", &agenda, "1", "s003"],
        &["ZADD", &agenda, "5", "s007"],
    ];
    for command in break_agenda {
        raw.send(command).await;
    }
    assert_eq!(process.store.verify().await.expect("verifies").faults.len(), 4);
    for broken in [None, Some(&["ZREM", &agenda, "s000"])] {
        if let Some(command) = broken {
            raw.send(command).await;
        }
        process.clock.advance(AUDIT_INTERVAL);
        wait_until_sound(&process).await;
    }
    process.clock.advance(seconds(3_600));
    let due = process.store.due_schedules(Duration::ZERO, 1_000).await.expect("reads").schedules;
    assert_eq!(due.len(), 299);
}

/// The count was of another job when the scan began, and is of this one when it ends: the scan has seen neither.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_that_looks_unchanged_keeps_the_ready_job_that_the_scan_has_missed() {
    const DELAYED: usize = 1_000;
    let proxy = Proxy::start(shared().port).await;
    let direct = Options { shards: Some(1), ..options() };
    let process = Process::start(&Options { mode: proxy.mode(), ..direct.clone() }).await;
    // Its clock stands still, so that it compares nothing and leaves the repair to the first one.
    let other = Process::start(&direct).await;
    for first in (0..DELAYED).step_by(100) {
        let jobs = (first..first + 100).map(|n| delayed(&format!("job-{n}"), seconds(900)));
        process.store.add(jobs.collect()).await.expect("adds");
    }
    let counts = format!("{{{}:0}}:counts", direct.prefix);
    let raw = Raw::connect(&shared().url()).await;
    raw.send(&["HSET", &counts, "rlate", "1", "rghost", "1"]).await;
    // Only the correction of counts, after the scan, names this one.
    proxy.arm_marked_then("rlate", Fault::CutBefore, Fault::CutBefore);
    process.clock.advance(AUDIT_INTERVAL);
    proxy.until_seen(1).await;
    add(other.store(), AddJob { topic: topic("late"), ..job("late") }).await;
    raw.send(&["HINCRBY", &counts, "rlate", "-1"]).await;
    proxy.disarm();
    // The same run of the script corrects this one.
    let time_limit = TimeLimit::new();
    while raw.send(&["HEXISTS", &counts, "rghost"]).await.as_i64() == Some(1) {
        time_limit.check(|| "the counts are not corrected".to_owned());
        time_limit.pause().await;
    }
    assert_eq!(other.store.verify().await.expect("verifies").faults, Vec::<String>::new());
    let stats = other.store.topic(&topic("late")).await.expect("reads").expect("is there");
    assert_eq!(stats.ready, 1);
}
