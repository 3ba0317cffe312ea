//! The figures of several processes on one store.

use std::sync::Arc;

use linger::{
    clock::{Clock, ManualClock},
    job::Timestamp,
    metrics::{Event, Metrics},
    queue::{Error, Limits, Queue, StatsView, StoreEvents},
    store::{Listener, NoticeContent, NoticeKind, Store},
};

use super::new_job;
use crate::harness::{
    failing::FailingStore,
    jobs::{ALL, seconds, topic},
    naive::Naive,
    stores::{Recorder, START},
    wait::{bounded, until},
};

struct Process {
    store: Arc<FailingStore>,
    events: StoreEvents,
    queue: Arc<Queue>,
    metrics: Metrics,
}

impl Process {
    async fn add(&self, names: &[&str]) {
        for name in names {
            self.queue.add(ALL, new_job(name, seconds(60)), None).await.expect("adds");
        }
    }

    async fn stats(&self) -> StatsView {
        self.queue.stats().await.expect("reads")
    }

    /// Notifies the process that a client reads the figures, and waits until it has published its own.
    async fn note(&self) {
        let before = self.store.written_notices();
        self.events.watched();
        until(|| self.store.written_notices() > before).await;
    }

    async fn age(&self, kind: NoticeKind) -> Option<u64> {
        let notices = self.store.notices().list(kind).await.expect("reads");
        notices.first().map(|notice| notice.age.as_secs())
    }
}

fn processes() -> (Arc<ManualClock>, Process, Process) {
    let clock = ManualClock::new(Timestamp::parse(START).expect("START is a timestamp"));
    let naive = Naive::new(clock.clone(), Arc::new(Recorder::default()), None);
    let process = || {
        let (store, events, metrics) =
            (FailingStore::new(naive.clone()), StoreEvents::default(), Metrics::new());
        let (limits, for_queue) = (Limits::default(), metrics.queue.clone());
        let queue = Queue::new(store.clone(), &events, clock.clone(), limits, for_queue);
        Process { store, events, queue, metrics }
    };
    let (one, two) = (process(), process());
    (clock, one, two)
}

async fn pass(clock: &ManualClock, seconds_to_pass: u64) {
    for _ in 0..seconds_to_pass {
        clock.advance(seconds(1));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn the_figures_are_those_of_all_processes() {
    let (clock, one, two) = processes();
    one.add(&["a", "b"]).await;
    two.add(&["c", "d", "e"]).await;
    two.metrics.queue.became_ready("t", seconds(30));
    two.metrics.queue.delivered("t", seconds(100), seconds(70));
    let first = one.stats().await;
    assert_eq!((first.minute.count(Event::Added), first.processes.len()), (2, 1));
    two.note().await;
    pass(&clock, 1).await;
    let both = one.stats().await;
    assert_eq!((both.minute.count(Event::Added), both.hour.count(Event::Added)), (5, 5));
    let late = [both.hour.ready_late, both.hour.delivered_late].map(|late| late.quantile(990));
    assert_eq!((late, both.hour.count(Event::Delivered)), ([Some(seconds(30)), Some(seconds(120))], 1));
    let start = Timestamp::parse(START).expect("is a timestamp");
    let seen: Vec<_> = both.processes.iter().map(|process| (process.started_at, process.seen_at)).collect();
    assert_eq!(seen, [(start, clock.now()), (start, start)]);
    assert!(both.processes.iter().all(|process| process.version == env!("CARGO_PKG_VERSION")));
    assert!(both.processes.iter().all(|process| process.load.resident_bytes.is_some_and(|bytes| bytes > 0)));
    assert!(both.processes.iter().all(|process| process.load.operations == Some(0)));
    one.add(&["f"]).await;
    assert_eq!(one.stats().await.minute.count(Event::Added), 6, "its own figures are always new");
    let other_way = two.stats().await;
    assert_eq!((other_way.minute.count(Event::Added), other_way.processes.len()), (3, 1), "one was not told");
}

/// How many jobs were added in the last minute to each topic that the figures name.
fn added(stats: &StatsView) -> Vec<(&str, u64)> {
    stats.by_topic.topics.iter().map(|(topic, minute)| (&**topic, minute.count(Event::Added))).collect()
}

#[tokio::test]
async fn the_last_minute_by_topic_is_that_of_all_processes() {
    let (clock, one, two) = processes();
    one.metrics.queue.count(Event::Added, "mail", 1);
    two.metrics.queue.count(Event::Added, "mail", 2);
    two.metrics.queue.count(Event::Added, "news", 4);
    two.metrics.queue.became_ready("mail", seconds(30));
    one.metrics.queue.delivered("mail", seconds(1), seconds(0));
    two.metrics.queue.delivered("mail", seconds(100), seconds(70));
    two.note().await;
    let both = one.stats().await;
    assert_eq!((added(&both), both.by_topic.is_complete), (vec![("mail", 3), ("news", 4)], true));
    let mail = both.by_topic.topics["mail"];
    assert_eq!(mail.ready_late.quantile(990), Some(seconds(30)));
    let late = [500, 990].map(|permille| mail.delivered_late.quantile(permille));
    assert_eq!((late, mail.count(Event::Delivered)), ([Some(seconds(1)), Some(seconds(120))], 2));
    clock.advance(seconds(90));
    two.note().await;
    let later = one.stats().await;
    assert_eq!((added(&later), later.by_topic.is_complete), (vec![], true), "the minute is over");
    assert_eq!((later.processes.len(), later.hour.count(Event::Added)), (2, 7));
}

#[tokio::test]
async fn topics_that_a_notice_has_no_room_for_are_not_passed_over_in_silence() {
    let (clock, one, two) = processes();
    let name = |n: usize| format!("{n:04}{}", "x".repeat(124));
    for n in 0..1_000 {
        two.metrics.queue.count(Event::Added, &name(n), n as u64);
    }
    let own = two.stats().await;
    assert!(own.by_topic.is_complete && own.by_topic.topics.len() == 1_000);
    two.note().await;
    let seen = one.stats().await;
    assert_eq!((seen.processes.len(), seen.minute.count(Event::Added)), (2, 499_500));
    let topics = added(&seen);
    assert!(!seen.by_topic.is_complete && topics.len() > 150 && topics.len() < 1_000, "{}", topics.len());
    assert_eq!(topics.last(), Some(&(&*name(999), 999)), "the topics with most events are named");
    // One more than the topics that have labels is not counted apart.
    two.metrics.queue.count(Event::Added, "one-more", 1);
    let own = two.stats().await;
    assert!(!own.by_topic.is_complete && !own.by_topic.topics.contains_key("one-more"));
    pass(&clock, 75).await;
    assert!(two.stats().await.by_topic.is_complete, "nothing happened for a minute");
}

#[tokio::test]
async fn figures_are_published_only_while_a_client_reads_them() {
    let (clock, one, two) = processes();
    one.add(&["a"]).await;
    pass(&clock, 30).await;
    assert_eq!((one.store.written_notices(), two.store.written_notices()), (0, 0));
    let mut ages = Vec::new();
    for _ in 0..11 {
        one.stats().await;
        ages.push(one.age(NoticeKind::Watch).await);
        two.events.watched();
        pass(&clock, 1).await;
    }
    let expected = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0].map(Some);
    assert_eq!(ages, expected, "the viewer renews its notice every five seconds");
    assert_eq!(two.store.written_notices(), 6, "every two seconds");
    assert_eq!(one.stats().await.processes.len(), 2);
    pass(&clock, 30).await;
    assert!(two.store.written_notices() <= 8, "{} were written", two.store.written_notices());
    assert!(two.age(NoticeKind::Process).await > Some(20));
    assert_eq!(one.stats().await.processes.len(), 1, "an old notice does not count");
    two.note().await;
    pass(&clock, 1).await;
    assert_eq!(one.stats().await.processes.len(), 2);
}

#[tokio::test]
async fn a_process_that_ends_is_no_longer_counted() {
    let (clock, one, two) = processes();
    two.add(&["a"]).await;
    two.note().await;
    assert_eq!(one.stats().await.processes.len(), 2);
    bounded("the close", two.queue.close()).await.expect("closes");
    two.events.watched();
    pass(&clock, 1).await;
    let stats = one.stats().await;
    assert_eq!((stats.minute.count(Event::Added), stats.processes.len()), (0, 1));
    assert_eq!(two.age(NoticeKind::Process).await, None);
}

#[tokio::test]
async fn notices_that_cannot_be_read_do_not_count() {
    let (clock, one, two) = processes();
    let wrong = NoticeContent::new("{\"name\":7}").expect("is short");
    one.store.notices().put(NoticeKind::Process, "other", wrong).await.expect("writes");
    two.note().await;
    assert_eq!(one.stats().await.processes.len(), 2);
    one.store.fail_notices(true);
    pass(&clock, 1).await;
    assert!(matches!(one.queue.stats().await, Err(Error::Unavailable(_))));
    one.store.fail_notices(false);
    pass(&clock, 1).await;
    assert_eq!(one.stats().await.processes.len(), 2);
}

/// The polls of the topic `t`, as a process shows them.
async fn polls(process: &Process) -> Option<u64> {
    process.queue.topic(&topic("t")).await.expect("reads").polls
}

/// Two seconds in which a process goes on to publish its figures.
async fn publish(clock: &ManualClock, process: &Process) {
    for _ in 0..2 {
        process.events.watched();
        pass(clock, 1).await;
    }
}

#[tokio::test]
async fn polls_that_are_not_known_are_not_said_to_be_none() {
    let (clock, one, two) = processes();
    one.add(&["a"]).await;
    let now_us = || clock.now_micros();
    one.metrics.queue.polls.began("t", now_us());
    let elsewhere = two.metrics.queue.polls.began("t", now_us());
    assert_eq!(polls(&one).await, None, "the other process is not asked yet");
    publish(&clock, &two).await;
    assert_eq!(polls(&one).await, None, "a third one could still answer");
    publish(&clock, &two).await;
    assert_eq!(polls(&one).await, Some(2));
    two.metrics.queue.polls.ended(&elsewhere, now_us());
    // What another version publishes without polls, or what this one cannot read, says nothing of them.
    for strange in [
        r#"{"name":"old/1","version":"0","started_ms":0,"minute":{"events":{},"late":[]},"hour":{"events":{},"late":[]},"topics":[],"has_all_topics":true}"#,
        "{}",
    ] {
        let content = NoticeContent::new(strange).expect("is short");
        one.store.notices().put(NoticeKind::Process, "strange", content).await.expect("writes");
        publish(&clock, &two).await;
        assert_eq!(polls(&one).await, None, "{strange}");
    }
    one.store.notices().delete(NoticeKind::Process, "strange").await.expect("writes");
    publish(&clock, &two).await;
    assert_eq!(polls(&one).await, Some(2), "a poll counts for a minute after its end");
    // The other process is not asked for longer than its notice counts.
    pass(&clock, 30).await;
    assert_eq!(polls(&one).await, None);
}

#[tokio::test]
async fn polls_leave_the_figures_of_events_complete() {
    let (_clock, one, two) = processes();
    two.metrics.queue.count(Event::Added, "t", 1);
    for n in 0..2_000 {
        two.metrics.queue.polls.began(&format!("idle-{n:04}-{}", "x".repeat(100)), 0);
    }
    two.note().await;
    let seen = one.stats().await;
    assert_eq!((added(&seen), seen.by_topic.is_complete), (vec![("t", 1)], true));
}
