//! Scrapes of the metrics: what they read, and several at the same time.

use linger::{job::PausedOperations, queue::NewPause};

use super::{Fixture, NOW, delivered_ids, pop};
use crate::harness::{
    jobs::{seconds, topic},
    wait::until,
};

#[tokio::test]
async fn pauses_and_parked_polls_are_shown_for_as_long_as_they_last() {
    let fixture = Fixture::new();
    fixture.add("delayed", seconds(3_600)).await;
    let delivery = PausedOperations { delivery: true, intake: false };
    fixture.queue.pause(&topic("t"), delivery, NewPause::default()).await.expect("pauses");
    let poll = fixture.park(pop(seconds(30))).await;
    fixture.queue.refresh_metrics().await.expect("reads");
    let (paused, parked) = (
        "linger_topic_paused{topic=\"t\",what=\"delivery\"} 1\n",
        "linger_topic_parked_polls{topic=\"t\"} 1\n",
    );
    let text = fixture.metrics.encode();
    assert!(text.contains(paused) && text.contains(parked), "{text}");
    assert!(!text.contains("what=\"intake\""), "{text}");
    fixture.add("ready", NOW).await;
    fixture.queue.resume(&topic("t"), delivery).await.expect("resumes");
    assert_eq!(delivered_ids(poll).await, ["ready"]);
    fixture.clock.advance(seconds(3));
    fixture.queue.refresh_metrics().await.expect("reads");
    let text = fixture.metrics.encode();
    assert!(!text.contains("linger_topic_paused{") && !text.contains("linger_topic_parked_polls{"), "{text}");
    fixture.close().await;
}

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
