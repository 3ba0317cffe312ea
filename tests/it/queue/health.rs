//! What is known of the store, and what is answered from it.

use linger::{queue::Error, store};

use super::Bench;
use crate::harness::{failing::Failure, jobs::seconds, wait::until};

fn is_unavailable(bench: &Bench) -> bool {
    matches!(bench.queue.store_state(), Err(Error::Unavailable(_)))
}

fn up(bench: &Bench) -> &'static str {
    let figures = bench.metrics.encode();
    if figures.contains("linger_store_up 1\n") { "up" } else { "down" }
}

/// Lets the store be asked again.
async fn pass_until(bench: &Bench, reached: impl Fn() -> bool) {
    until(|| {
        bench.clock.advance(seconds(1));
        reached()
    })
    .await;
}

#[tokio::test]
async fn a_store_that_fails_and_recovers_is_known_without_being_asked_by_those_who_want_to_know() {
    let bench = Bench::new();
    let watch = bench.watch_store();
    assert_eq!((bench.queue.store_state(), up(&bench)), (Ok(()), "up"));
    bench.store.fail(Some(Failure::Error(store::Error::Unavailable("away".to_owned()))));
    pass_until(&bench, || is_unavailable(&bench)).await;
    assert_eq!(up(&bench), "down");
    bench.store.fail(None);
    pass_until(&bench, || bench.queue.store_state() == Ok(())).await;
    assert_eq!(up(&bench), "up");
    bench.stop.cancel();
    watch.await.expect("ends");
}

#[tokio::test]
async fn a_store_that_hangs_is_asked_once_and_does_not_hang_those_who_want_to_know() {
    let bench = Bench::new();
    let hung = bench.store.hang_checks();
    let watch = bench.watch_store();
    pass_until(&bench, || is_unavailable(&bench)).await;
    assert_eq!((hung.hung_calls(), up(&bench)), (1, "down"));
    assert!(bench.queue.refresh_metrics().await.is_err(), "nor does a scrape ask it");
    bench.clock.advance(seconds(60));
    assert_eq!(hung.hung_calls(), 1);
    hung.release();
    until(|| bench.queue.store_state() == Ok(())).await;
    bench.stop.cancel();
    watch.await.expect("ends");
}

#[tokio::test]
async fn a_scrape_that_waits_for_the_store_ends_when_the_store_is_known_to_be_away() {
    let bench = Bench::new();
    let hung = bench.store.hang_topics();
    let scrape = tokio::spawn({
        let queue = bench.queue.clone();
        async move { queue.refresh_metrics().await }
    });
    until(|| hung.hung_calls() == 1).await;
    bench.store.fail(Some(Failure::Error(store::Error::Unavailable("away".to_owned()))));
    bench.queue.check_store().await;
    assert!(scrape.await.expect("ends").is_err());
}
