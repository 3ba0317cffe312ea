//! Scrapes of the metrics beside each other.

use super::Bench;
use crate::harness::{jobs::seconds, wait::until};

/// While one scraper reads the store, another sees the figures of the reading before.
#[tokio::test]
async fn figures_stay_complete_while_they_are_read_anew() {
    let bench = Bench::new();
    bench.add("a", seconds(0)).await;
    bench.queue.refresh_metrics().await.expect("reads");
    let shows_the_job = || bench.metrics.encode().contains("linger_jobs{topic=\"t\",state=\"ready\"} 1\n");
    assert!(shows_the_job(), "{}", bench.metrics.encode());
    bench.clock.advance(seconds(10));
    let hung = bench.store.hang_topics();
    let scrape = tokio::spawn({
        let queue = bench.queue.clone();
        async move { queue.refresh_metrics().await }
    });
    until(|| hung.hung_calls() == 1).await;
    assert!(shows_the_job(), "{}", bench.metrics.encode());
    hung.release();
    scrape.await.expect("ends").expect("reads");
    assert!(shows_the_job(), "{}", bench.metrics.encode());
}
