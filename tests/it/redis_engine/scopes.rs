//! The cost of calls with a token that is limited to some topics: a job that a call names many times is read once, and
//! the body of a job of another topic never leaves the server.

use std::sync::Arc;

use bytes::Bytes;
use linger::{
    clock::{Clock, SystemClock},
    job::{Body, Receipt, TopicFilter},
    metrics::Metrics,
    queue::{Error, FinishJob, Limits, Queue, StoreEvents},
    store::{
        AddJob,
        redis::{self, Options},
    },
};

use super::Raw;
use crate::harness::{jobs::*, redis::RedisServer};

/// The largest body that the defaults allow.
const LARGE: usize = 256 * 1_024;

struct Server {
    queue: Arc<Queue>,
    raw: Raw,
    _server: RedisServer,
}

impl Server {
    /// A queue with the default settings on a server of its own, with one large job of topic `t`.
    async fn start() -> Self {
        let server = RedisServer::start();
        let (events, metrics, clock) =
            (Arc::new(StoreEvents::default()), Metrics::new(), Arc::new(SystemClock::new()));
        let options = Options::new(&server.url());
        let store =
            redis::connect(options, redis::TimeSource::Server, events.clone(), metrics.engine.clone()).await;
        let store = store.expect("connects");
        let text = Bytes::from(format!("\"{}\"", "x".repeat(LARGE - 2)));
        add(&*store, AddJob { body: Body::from_stored(text), ..job("large") }).await;
        let queue = Queue::new(store, &events, clock, Limits::default(), metrics.queue);
        let raw = Raw::connect(&server.url()).await;
        Self { queue, raw, _server: server }
    }

    /// Bytes that the server has sent so far, and its calls of `HGET`.
    async fn cost(&self) -> (u64, u64) {
        let info = self.raw.send(&["INFO", "everything"]).await.into_string().expect("a text");
        let after = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        let reads = after("cmdstat_hget:calls=").and_then(|rest| rest.split(',').next()).unwrap_or("0");
        let sent = after("total_net_output_bytes:").expect("INFO reports it").trim();
        (sent.parse().expect("a number"), reads.parse().expect("a number"))
    }
}

#[tokio::test]
async fn a_job_named_a_thousand_times_is_read_once() {
    let server = Server::start().await;
    let wrong = || FinishJob { id: id("large"), receipt: Some(Receipt::generate()) };
    for scope in [only(&["other"]), only(&["t"]), TopicFilter::ALL] {
        let before = server.cost().await;
        let finished = server.queue.finish_batch(&scope, vec![wrong(); 500], None).await.expect("answers");
        assert!(
            finished.iter().all(|item| matches!(item, Err(Error::JobNotFound | Error::LeaseLost { .. })))
        );
        let finished = server
            .queue
            .finish_batch(&scope, (0..500).map(|_| wrong()).collect(), None)
            .await
            .expect("answers");
        assert!(
            finished.iter().all(|item| matches!(item, Err(Error::JobNotFound | Error::LeaseLost { .. })))
        );
        if scope == only(&["other"]) {
            let deleted = server
                .queue
                .delete_batch(&scope, vec![id("large"); 1_000], DeleteRule::AnyState, None)
                .await
                .expect("answers");
            assert!(deleted.iter().all(|item| matches!(item, Err(Error::JobNotFound))));
        }
        let after = server.cost().await;
        // INFO alone is some kilobytes; other tasks of the engine read little.
        assert!(after.0 - before.0 < 256 * 1_024, "{scope:?}: {} bytes were sent", after.0 - before.0);
        assert!(after.1 - before.1 < 100, "{scope:?}: {} reads", after.1 - before.1);
    }
}

#[tokio::test]
async fn the_body_of_another_topics_job_does_not_leave_the_server() {
    let server = Server::start().await;
    let (scope, large) = (only(&["other"]), id("large"));
    let before = server.cost().await;
    for _ in 0..4 {
        assert!(matches!(server.queue.get(&scope, &large).await, Err(Error::JobNotFound)));
        let receipt = Receipt::generate();
        assert!(matches!(server.queue.touch(&scope, &large, &receipt, None).await, Err(Error::JobNotFound)));
        assert!(matches!(
            server.queue.delete(&scope, &large, DeleteRule::AnyState, None).await,
            Err(Error::JobNotFound)
        ));
    }
    // The server copies a large record before the script sees its topic. The time of the answer must not show that.
    let clock = SystemClock::new();
    for name in ["large", "nobody"] {
        let began_us = clock.now_micros();
        assert!(matches!(server.queue.get(&scope, &id(name)).await, Err(Error::JobNotFound)));
        let took_us = clock.now_micros() - began_us;
        assert!(took_us >= 5_000, "{name}: answered after {took_us} us, which shows how long it took");
    }
    let sent = server.cost().await.0 - before.0;
    assert!(sent < 256 * 1_024, "{sent} bytes were sent");
    let seen = server.queue.get(&only(&["t"]), &large).await.expect("is there");
    assert_eq!(seen.body.as_bytes().len(), LARGE);
}
