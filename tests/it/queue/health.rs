//! The regular check of the store, and what callers learn from its result.

use linger::{queue::Error, store};

use super::Fixture;
use crate::harness::{failing::Failure, jobs::seconds, wait::until};

fn is_unavailable(fixture: &Fixture) -> bool {
    matches!(fixture.queue.store_state(), Err(Error::Unavailable(_)))
}

fn up(fixture: &Fixture) -> &'static str {
    let metrics = fixture.metrics.encode();
    if metrics.contains("linger_store_up 1\n") { "up" } else { "down" }
}

/// Advances the clock, so that the store is checked again, until `condition` is true.
async fn advance_until(fixture: &Fixture, condition: impl Fn() -> bool) {
    until(|| {
        fixture.clock.advance(seconds(1));
        condition()
    })
    .await;
}

#[tokio::test]
async fn callers_learn_of_a_failure_and_a_recovery_without_a_call_to_the_store() {
    let fixture = Fixture::new();
    let check = fixture.watch_store();
    assert_eq!((fixture.queue.store_state(), up(&fixture)), (Ok(()), "up"));
    fixture.store.fail(Some(Failure::Error(store::Error::Unavailable("unreachable".to_owned()))));
    advance_until(&fixture, || is_unavailable(&fixture)).await;
    assert_eq!(up(&fixture), "down");
    fixture.store.fail(None);
    advance_until(&fixture, || fixture.queue.store_state() == Ok(())).await;
    assert_eq!(up(&fixture), "up");
    fixture.stop.cancel();
    check.await.expect("ends");
}

#[tokio::test]
async fn a_store_that_hangs_is_checked_once_and_does_not_block_callers() {
    let fixture = Fixture::new();
    let hung = fixture.store.hang_checks();
    let check = fixture.watch_store();
    advance_until(&fixture, || is_unavailable(&fixture)).await;
    assert_eq!((hung.hung_calls(), up(&fixture)), (1, "down"));
    assert!(fixture.queue.refresh_metrics().await.is_err(), "a scrape does not call the store");
    fixture.clock.advance(seconds(60));
    assert_eq!(hung.hung_calls(), 1);
    hung.release();
    until(|| fixture.queue.store_state() == Ok(())).await;
    fixture.stop.cancel();
    check.await.expect("ends");
}

#[tokio::test]
async fn a_scrape_that_waits_for_the_store_ends_once_the_store_is_known_to_be_unavailable() {
    let fixture = Fixture::new();
    let hung = fixture.store.hang_topics();
    let scrape = tokio::spawn({
        let queue = fixture.queue.clone();
        async move { queue.refresh_metrics().await }
    });
    until(|| hung.hung_calls() == 1).await;
    fixture.store.fail(Some(Failure::Error(store::Error::Unavailable("unreachable".to_owned()))));
    fixture.queue.check_store().await;
    assert!(scrape.await.expect("ends").is_err());
}
