//! Concurrent scrapes of the metrics.

use super::Fixture;
use crate::harness::{jobs::seconds, wait::until};

/// While one scrape reads the store, another returns the metrics of the previous reading.
#[tokio::test]
async fn metrics_stay_complete_while_they_are_read_again() {
    let fixture = Fixture::new();
    fixture.add("a", seconds(0)).await;
    fixture.queue.refresh_metrics().await.expect("reads");
    let shows_the_job = || fixture.metrics.encode().contains("linger_jobs{topic=\"t\",state=\"ready\"} 1\n");
    assert!(shows_the_job(), "{}", fixture.metrics.encode());
    fixture.clock.advance(seconds(10));
    let hung = fixture.store.hang_topics();
    let scrape = tokio::spawn({
        let queue = fixture.queue.clone();
        async move { queue.refresh_metrics().await }
    });
    until(|| hung.hung_calls() == 1).await;
    assert!(shows_the_job(), "{}", fixture.metrics.encode());
    hung.release();
    scrape.await.expect("ends").expect("reads");
    assert!(shows_the_job(), "{}", fixture.metrics.encode());
}
