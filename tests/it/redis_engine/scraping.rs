//! What a scrape of the metrics costs Redis, with the default settings.

use std::sync::Arc;

use linger::{
    clock::{Clock, ManualClock},
    job::Timestamp,
    metrics::{MAX_TOPICS, Metrics},
    queue::{Limits, Queue, StoreEvents},
    store::{
        AddJob, Store,
        redis::{self, Options, TimeSource},
    },
};

use super::{Raw, SHARDS};
use crate::harness::{jobs::*, redis::RedisServer, stores::START};

/// How often scripts have run.
async fn scripts(raw: &Raw) -> usize {
    let info = raw.send(&["INFO", "commandstats"]).await.into_string().expect("a text");
    let calls = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")))?;
        line.split(',').next()?.parse::<usize>().ok()
    };
    calls("evalsha").unwrap_or(0) + calls("eval").unwrap_or(0)
}

#[tokio::test]
async fn a_scrape_reads_all_topics_once_however_many_there_are() {
    const TOPICS: usize = 4_000;
    let server = RedisServer::start();
    let clock = ManualClock::new(Timestamp::parse(START).expect("a moment"));
    let (events, metrics) = (Arc::new(StoreEvents::default()), Metrics::new());
    let (options, time) = (Options::new(&server.url()), TimeSource::Manual(clock.clone()));
    let store =
        redis::connect(options, time, events.clone(), metrics.engine.clone()).await.expect("connects");
    let jobs = (0..TOPICS).map(|n| AddJob { topic: topic(&format!("t-{n}")), ..job(&n.to_string()) });
    let jobs: Vec<_> = jobs.collect();
    for jobs in jobs.chunks(500) {
        store.add(jobs.to_vec()).await.expect("adds");
    }
    clock.advance(seconds(7));
    let queue = Queue::new(store, &events, clock.clone(), Limits::default(), metrics.queue.clone());
    let raw = Raw::connect(&server.url()).await;
    let before = scripts(&raw).await;
    let scrapes = futures_util::future::join_all((0..6).map(|_| queue.refresh_metrics())).await;
    assert!(scrapes.into_iter().all(|scrape| scrape.is_ok()));
    let ran = scripts(&raw).await - before;
    // One or two calls for each shard, one for each topic with a label, and those of the sweep.
    let slices = 2 * usize::from(SHARDS);
    assert!(ran < MAX_TOPICS + slices + 200, "{ran} scripts for {TOPICS} topics");
    let page = metrics.encode();
    let shown = |start: &str, end: &str| {
        page.lines().filter(|line| line.starts_with(start) && line.ends_with(end)).count()
    };
    assert_eq!(shown("linger_jobs{topic=\"t-", "\"ready\"} 1"), MAX_TOPICS);
    assert_eq!(shown("linger_oldest_overdue_seconds{topic=\"t-", " 7.0"), MAX_TOPICS);
    let others = format!("linger_jobs{{topic=\"other\",state=\"ready\"}} {}", TOPICS - MAX_TOPICS);
    assert!(page.contains(&others), "the others share a label");
    assert!(clock.now() > Timestamp::parse(START).expect("a moment"));
}
