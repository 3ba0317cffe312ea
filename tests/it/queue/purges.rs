//! Purges: they outlive their callers, are joined, and end with the process.

use linger::store::Error as StoreError;

use super::*;
use crate::harness::failing::{Failure, Fault, HungCalls};

const JOBS: usize = 1_200;

impl Fixture {
    async fn with_jobs() -> Self {
        let fixture = Self::new();
        for n in 0..JOBS {
            fixture.add(&n.to_string(), NOW).await;
        }
        fixture
    }

    /// Has the next calls of purge take effect and then hang.
    fn hang_purges(&self) -> Arc<HungCalls> {
        let hung = HungCalls::new();
        let of_purges = hung.clone();
        self.store.choose_faults(Some(Box::new(move |operation| {
            let hung = (operation == "purge").then(|| of_purges.clone());
            Fault { takes_effect: true, hung, failure: None }
        })));
        hung
    }

    fn purge(&self) -> JoinHandle<Result<u64, Error>> {
        let queue = self.queue.clone();
        tokio::spawn(async move { queue.purge(&topic("t")).await })
    }

    /// Starts a purge whose caller leaves while its first slice is being deleted.
    async fn purge_and_leave(&self) -> Arc<HungCalls> {
        let hung = self.hang_purges();
        let caller = self.purge();
        self.until(|| hung.hung_calls() == 1).await;
        caller.abort();
        assert!(caller.await.expect_err("it left").is_cancelled());
        hung
    }
}

#[tokio::test]
async fn a_purge_goes_on_when_its_caller_has_left() {
    let fixture = Fixture::with_jobs().await;
    let hung = fixture.purge_and_leave().await;
    hung.release();
    let all = format!("linger_jobs_deleted_total{{topic=\"t\"}} {JOBS}");
    fixture.until(|| fixture.metrics.encode().contains(&all)).await;
    assert_eq!(fixture.queue.topic(&topic("t")).await, Err(Error::TopicNotFound));
    fixture.close().await;
}

#[tokio::test]
async fn a_second_purge_of_a_topic_waits_for_the_first() {
    let fixture = Fixture::with_jobs().await;
    let hung = fixture.purge_and_leave().await;
    let (second, third) = (fixture.purge(), fixture.purge());
    hung.release();
    for caller in [second, third] {
        assert_eq!(bounded("a purge", caller).await.expect("ends"), Ok(JOBS as u64));
    }
    assert_eq!(hung.hung_calls(), 3, "the slices of one purge");
    assert_eq!(fixture.queue.purge(&topic("t")).await, Ok(0), "the next one is another");
    fixture.close().await;
}

#[tokio::test]
async fn the_shutdown_ends_a_purge() {
    let fixture = Fixture::with_jobs().await;
    let hung = fixture.hang_purges();
    let caller = fixture.purge();
    fixture.until(|| hung.hung_calls() == 1).await;
    fixture.queue.drain();
    hung.release();
    assert_eq!(bounded("a purge", caller).await.expect("ends"), Err(Error::Draining));
    let left = fixture.queue.topic(&topic("t")).await.expect("has jobs").stats.ready;
    assert_eq!(left, JOBS as u64 - 500);
    bounded("the shutdown", fixture.close()).await;
}

#[tokio::test]
async fn a_purge_that_fails_makes_room_for_the_next() {
    let fixture = Fixture::with_jobs().await;
    for failure in [Failure::Error(StoreError::Full("as the test demanded".to_owned())), Failure::Panic] {
        fixture.store.fail(Some(failure));
        let failed = bounded("a purge", fixture.purge()).await.expect("ends");
        assert!(matches!(failed, Err(Error::Full(_) | Error::Unavailable(_))), "{failed:?}");
    }
    fixture.store.fail(None);
    assert_eq!(fixture.queue.purge(&topic("t")).await, Ok(JOBS as u64));
    fixture.close().await;
}
