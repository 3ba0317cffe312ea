//! What it costs Redis to read many topics: a scrape of the metrics, sorted topics, topics that begin with a prefix.

use std::sync::Arc;

use linger::{
    clock::{Clock, ManualClock, SystemClock},
    job::{Timestamp, TopicFilter},
    metrics::{MAX_TOPICS, Metrics},
    queue::{Limits, Queue, StoreEvents, TopicSort},
    store::{
        AddJob, Store,
        redis::{self, Options, TimeSource},
    },
};

use super::{Raw, SEVERAL_SHARDS};
use crate::harness::{jobs::*, redis::RedisServer, stores::START};

/// How often scripts have run.
async fn scripts(raw: &Raw) -> usize {
    calls(raw, "evalsha").await + calls(raw, "eval").await
}

/// How often a command was called, also by scripts.
async fn calls(raw: &Raw, name: &str) -> usize {
    let info = raw.send(&["INFO", "commandstats"]).await.into_string().expect("a text");
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
    line.map_or(0, |line| line.split(',').next().and_then(|calls| calls.parse().ok()).expect("a number"))
}

/// What the sweep may have done since this began. A busy machine gives it time for much.
struct Sweeps {
    clock: SystemClock,
    began: Timestamp,
}

impl Sweeps {
    fn begin() -> Self {
        let clock = SystemClock::new();
        Self { began: clock.now(), clock }
    }

    /// How often so much time has passed, rounded down.
    fn times(&self, interval_ms: i64) -> usize {
        let passed_ms = self.clock.now().as_millis() - self.began.as_millis();
        usize::try_from(passed_ms / interval_ms).expect("this clock never goes back")
    }

    /// How often the sweep has read the settings at most: once in each round.
    fn readings_of_settings(&self) -> usize {
        self.times(500) + 2
    }
}

fn on_several_shards(server: &RedisServer) -> Options {
    Options { shards: Some(SEVERAL_SHARDS), ..Options::new(&server.url()) }
}

/// Adds a ready job to each of so many topics, whose names end in `end`.
async fn fill(store: &dyn Store, topics: usize, end: &str) {
    let jobs = (0..topics).map(|n| AddJob { topic: topic(&format!("t-{n}{end}")), ..job(&n.to_string()) });
    let jobs: Vec<_> = jobs.collect();
    for jobs in jobs.chunks(500) {
        store.add(jobs.to_vec()).await.expect("adds");
    }
}

#[tokio::test]
async fn a_scrape_reads_all_topics_once_however_many_there_are() {
    const TOPICS: usize = 4_000;
    let server = RedisServer::start();
    let clock = ManualClock::new(Timestamp::parse(START).expect("a moment"));
    let (events, metrics) = (Arc::new(StoreEvents::default()), Metrics::new());
    let (options, time) = (on_several_shards(&server), TimeSource::Manual(clock.clone()));
    let store =
        redis::connect(options, time, events.clone(), metrics.engine.clone()).await.expect("connects");
    fill(&*store, TOPICS, "").await;
    clock.advance(seconds(7));
    let queue = Queue::new(store, &events, clock.clone(), Limits::default(), metrics.queue.clone());
    let raw = Raw::connect(&server.url()).await;
    let (before, reads, sweeps) = (scripts(&raw).await, calls(&raw, "hgetall").await, Sweeps::begin());
    let scrapes = futures_util::future::join_all((0..6).map(|_| queue.refresh_metrics())).await;
    assert!(scrapes.into_iter().all(|scrape| scrape.is_ok()));
    let ran = scripts(&raw).await - before;
    // One or two calls for each shard, one for each topic with a label, and those of the sweep.
    let slices = 2 * usize::from(SEVERAL_SHARDS);
    assert!(ran < MAX_TOPICS + slices + 200, "{ran} scripts for {TOPICS} topics");
    // The counts of a shard are read whole: once for the scrape, and at most once by the sweep meanwhile.
    let reads = calls(&raw, "hgetall").await - reads;
    let most = 2 * usize::from(SEVERAL_SHARDS) + sweeps.readings_of_settings();
    assert!(reads <= most, "{reads} times all counts of a shard");
    let page = metrics.encode();
    let shown = |start: &str, end: &str| {
        page.lines().filter(|line| line.starts_with(start) && line.ends_with(end)).count()
    };
    assert_eq!(shown("linger_jobs{topic=\"t-", "\"ready\"} 1"), MAX_TOPICS);
    assert_eq!(shown("linger_oldest_overdue_seconds{topic=\"t-", " 7.0"), MAX_TOPICS);
    let others = format!("linger_jobs{{topic=\"other\",state=\"ready\"}} {}", TOPICS - MAX_TOPICS);
    assert!(page.contains(&others), "the others share a label");
}

#[tokio::test]
async fn sorted_topics_are_read_once_and_few_of_them_one_by_one() {
    const TOPICS: usize = 1_000;
    let server = RedisServer::start();
    let clock = ManualClock::new(Timestamp::parse(START).expect("a moment"));
    let (events, metrics) = (Arc::new(StoreEvents::default()), Metrics::new());
    let (options, time) = (on_several_shards(&server), TimeSource::Manual(clock.clone()));
    let store =
        redis::connect(options, time, events.clone(), metrics.engine.clone()).await.expect("connects");
    // The two topics whose jobs wait longest. The second one is not among the topics with most ready jobs.
    for (name, count) in [("y", 2), ("z", 1)] {
        let jobs = (0..count).map(|n| AddJob { topic: topic(name), ..job(&format!("{name}-{n}")) });
        store.add(jobs.collect()).await.expect("adds");
    }
    clock.advance(seconds(5));
    fill(&*store, TOPICS, "").await;
    let queue = Queue::new(store, &events, clock.clone(), Limits::default(), metrics.queue.clone());
    let raw = Raw::connect(&server.url()).await;
    let before = scripts(&raw).await;
    let viewers = (0..6).map(|_| queue.sorted_topics(ALL, TopicSort::Overdue, 5));
    let viewed = futures_util::future::join_all(viewers).await;
    let ran = scripts(&raw).await - before;
    // One or two calls for each shard, one for each of a hundred topics, and those of the sweep.
    assert!(ran < 100 + 2 * usize::from(SEVERAL_SHARDS) + 200, "{ran} scripts for {TOPICS} topics");
    for topics in viewed {
        let topics = topics.expect("reads");
        assert_eq!((topics.len(), topics[0].0.as_str()), (5, "y"));
        assert!(topics.iter().all(|(_, view)| view.stats.oldest_ready.is_some()));
    }
    let all = queue.sorted_topics(ALL, TopicSort::Overdue, usize::MAX).await.expect("reads");
    let known = all.iter().filter(|(_, view)| view.stats.oldest_ready.is_some()).count();
    assert_eq!((all.len(), known), (TOPICS + 2, 100), "the others come behind them");
    assert!(all[..known].iter().all(|(_, view)| view.stats.oldest_ready.is_some()));
    assert_eq!(all.last().map(|(name, _)| name.as_str()), Some("z"));
}

#[tokio::test]
async fn callers_and_the_pages_of_a_list_share_a_reading_of_the_counts() {
    const TOPICS: usize = 1_000;
    let server = RedisServer::start();
    let clock = ManualClock::new(Timestamp::parse(START).expect("a moment"));
    let (events, metrics) = (Arc::new(StoreEvents::default()), Metrics::new());
    let (options, time) = (on_several_shards(&server), TimeSource::Manual(clock));
    let store = redis::connect(options, time, events, metrics.engine.clone()).await.expect("connects");
    fill(&*store, TOPICS, "").await;
    let raw = Raw::connect(&server.url()).await;
    let reads = async || calls(&raw, "hgetall").await + calls(&raw, "hscan").await;
    // Two readings, one of which may have begun before the last caller came, another one whenever that has been kept for two
    // seconds, and those of the sweep.
    let most = |sweeps: &Sweeps| {
        (3 + sweeps.times(2_000)) * usize::from(SEVERAL_SHARDS) + sweeps.readings_of_settings()
    };
    let (before, sweeps) = (reads().await, Sweeps::begin());
    let lists = (0..16).map(|_| store.topics(ALL, None, 10));
    for list in futures_util::future::join_all(lists).await {
        assert_eq!(list.expect("lists").len(), 10);
    }
    let shared = reads().await - before;
    assert!(shared <= most(&sweeps), "{shared} readings of a shard for 16 callers");
    let (before, sweeps, mut found, mut after) = (reads().await, Sweeps::begin(), 0, None);
    loop {
        let page = store.topics(ALL, after.as_ref(), 50).await.expect("lists");
        found += page.len();
        after = page.last().map(|(topic, _)| topic.clone());
        if page.len() < 50 {
            break;
        }
    }
    let walked = reads().await - before;
    assert_eq!(found, TOPICS);
    assert!(walked <= most(&sweeps), "{walked} readings of a shard for 21 pages");
    add(&*store, AddJob { topic: topic("a"), ..job("new") }).await;
    assert_eq!(store.topics(ALL, None, 1).await.expect("lists")[0].0, topic("a"), "a first page is not old");
}

#[tokio::test]
async fn only_counts_of_the_prefix_leave_the_server() {
    let server = RedisServer::start();
    let clock = ManualClock::new(Timestamp::parse(START).expect("a moment"));
    let (events, metrics) = (Arc::new(StoreEvents::default()), Metrics::new());
    // On one shard, there are too many counts for a single reply.
    let options = Options { shards: Some(1), ..Options::new(&server.url()) };
    let time = TimeSource::Manual(clock.clone());
    let store = redis::connect(options, time, events, metrics.engine.clone()).await.expect("connects");
    let raw = Raw::connect(&server.url()).await;
    // Long names, beside which the replies to others are short.
    for topics in [3_500, 4_500] {
        fill(&*store, topics, &"x".repeat(110)).await;
        let sent = async |scope: &TopicFilter| {
            let before = sent_bytes(&raw).await;
            let found = store.topics(scope, None, usize::MAX).await.expect("reads").len();
            (found, sent_bytes(&raw).await - before)
        };
        let (all, bytes_of_all) = sent(ALL).await;
        assert_eq!(all, topics);
        let found = (0..topics).filter(|n| format!("{n}").starts_with("49")).count();
        let mut bytes = usize::MAX;
        // At most one of the three meets the sweep, which reads all counts every half minute.
        for _ in 0..3 {
            let (listed, sent) = sent(&only(&["t-49*"])).await;
            assert_eq!(listed, found);
            bytes = bytes.min(sent);
        }
        assert!(bytes * 4 < bytes_of_all, "{bytes} bytes for {found} topics, {bytes_of_all} for {all}");
    }
}

/// How many bytes the server has sent.
async fn sent_bytes(raw: &Raw) -> usize {
    let info = raw.send(&["INFO", "stats"]).await.into_string().expect("a text");
    let line = info.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    line.and_then(|bytes| bytes.parse().ok()).expect("a number")
}
