//! Limits, batches, the settings of topics, and the metrics.

use linger::{
    job::{NewJob, PausedOperations, Topic, TopicPause, TopicSettings},
    queue::{AddOutcome, Error, Limits, NewPause, Pop},
    store::Requeue,
};

use super::{Fixture, NOW, accepted_ids, delivered_ids, new_job, pop};
use crate::harness::{
    jobs::{ALL, DeleteRule, body, id, retry, seconds, topic, ttr},
    wait::assert_waits,
};

#[tokio::test]
async fn the_error_for_each_limit_has_the_limit_and_the_value() {
    let limits = Limits { max_body: 10, max_batch: 2, max_batch_pop: 3, ..Limits::default() };
    let fixture = Fixture::with(limits);
    let large = NewJob { body: body("\"0123456789\""), ..new_job("a", NOW) };
    assert_eq!(fixture.queue.add(ALL, large, None).await, Err(Error::BodyTooLarge { limit: 10, got: 12 }));
    let three = vec![new_job("a", NOW); 3];
    assert_eq!(
        fixture.queue.add_batch(ALL, three, None).await,
        Err(Error::BatchTooLarge { limit: 2, got: 3 })
    );
    let ids = vec![id("a"); 3];
    assert_eq!(
        fixture.queue.delete_batch(ALL, ids, DeleteRule::AnyState, None).await,
        Err(Error::BatchTooLarge { limit: 2, got: 3 })
    );
    let many = Pop { max: 4, ..pop(NOW) };
    assert_eq!(fixture.queue.pop(many).await.err(), Some(Error::BatchTooLarge { limit: 3, got: 4 }));
    let topics = Pop { topics: (0..101).map(|n| topic(&n.to_string())).collect(), ..pop(NOW) };
    assert_eq!(fixture.queue.pop(topics).await.err(), Some(Error::BatchTooLarge { limit: 100, got: 101 }));
    let patch = linger::queue::Patch { body: Some(body("\"0123456789\"")), ..Default::default() };
    let refused = fixture.queue.patch(ALL, &id("a"), patch, None).await;
    assert_eq!(refused, Err(Error::BodyTooLarge { limit: 10, got: 12 }));
    fixture.close().await;
}

#[tokio::test]
async fn a_refused_item_does_not_affect_the_rest_of_the_batch() {
    let fixture = Fixture::with(Limits { max_body: 10, ..Limits::default() });
    let other = NewJob { body: body("2"), ..new_job("a", NOW) };
    let large = NewJob { body: body("\"0123456789\""), ..new_job("b", NOW) };
    let batch = vec![new_job("a", NOW), large, other, new_job("a", NOW), new_job("c", NOW)];
    let outcomes = fixture.queue.add_batch(ALL, batch, None).await.expect("answers");
    let codes: Vec<_> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Ok(AddOutcome::Replayed(_)) => "replayed",
            Ok(_) => "added",
            Err(error) => error.code(),
        })
        .collect();
    assert_eq!(codes, ["added", "body_too_large", "job_exists", "replayed", "added"]);
    fixture.close().await;
}

#[tokio::test]
async fn topic_settings_are_copied_into_new_jobs_only() {
    let fixture = Fixture::new();
    let plain = fixture.add("before", NOW).await;
    let settings = TopicSettings {
        ttr: Some(ttr(5)),
        max_attempts: None,
        retry: Some(retry(&[1, 2, 3])),
        require_receipt: true,
        ..TopicSettings::default()
    };
    fixture.queue.put_settings(&topic("t"), settings).await.expect("puts");
    let job = fixture.add("after", NOW).await;
    assert_eq!((job.spec.ttr, job.spec.max_attempts, job.spec.require_receipt), (ttr(5), 4, true));
    assert_eq!(job.spec.retry, retry(&[1, 2, 3]));
    let own = NewJob { ttr: Some(ttr(9)), max_attempts: Some(0), ..new_job("own", NOW) };
    let AddOutcome::Created(own) = fixture.queue.add(ALL, own, None).await.expect("adds") else {
        panic!("is not new")
    };
    assert_eq!((own.spec.ttr, own.spec.max_attempts), (ttr(9), 0));
    assert_eq!(fixture.get("before").await, plain);
    // A retried request still matches after the settings changed.
    let repeated = fixture.queue.add(ALL, new_job("before", NOW), None).await.expect("answers");
    assert!(matches!(repeated, AddOutcome::Replayed(_)), "{repeated:?}");
    fixture.close().await;
}

#[tokio::test]
async fn polls_wait_while_delivery_is_paused_and_adds_are_refused_while_intake_is() {
    let fixture = Fixture::new();
    let name = topic("t");
    fixture
        .queue
        .pause(&name, PausedOperations { delivery: true, intake: false }, NewPause::default())
        .await
        .expect("pauses");
    fixture.add("a", NOW).await;
    let poll = fixture.park(pop(seconds(30))).await;
    fixture
        .queue
        .pause(&name, PausedOperations { delivery: false, intake: true }, NewPause::default())
        .await
        .expect("pauses");
    assert_eq!(fixture.queue.add(ALL, new_job("b", NOW), None).await, Err(Error::IntakePaused));
    assert_waits(&poll, "delivery is paused").await;
    fixture.queue.resume(&name, PausedOperations { delivery: true, intake: false }).await.expect("resumes");
    assert_eq!(delivered_ids(poll).await, ["a"]);
    assert_eq!(fixture.queue.add(ALL, new_job("b", NOW), None).await, Err(Error::IntakePaused));
    let view = fixture
        .queue
        .resume(&name, PausedOperations { delivery: true, intake: true })
        .await
        .expect("resumes");
    assert_eq!(view.stats.config.pause, TopicPause::default());
    fixture.add("b", NOW).await;
    fixture.close().await;
}

/// Adds jobs that are dead letters after their only attempt.
async fn bury(fixture: &Fixture, jobs: usize) {
    for n in 0..jobs {
        let once = NewJob { max_attempts: Some(1), ..new_job(&n.to_string(), NOW) };
        fixture.queue.add(ALL, once, None).await.expect("adds");
    }
    let mut left = jobs;
    while left > 0 {
        let max = left.min(1_000);
        left -= accepted_ids(fixture.queue.pop(Pop { max, ..pop(NOW) }).await.expect("answers")).len();
    }
    fixture.clock.advance(seconds(60));
    fixture.queue.promote_due().await.expect("promotes");
}

#[tokio::test]
async fn bulk_steps_go_through_all_slices() {
    let fixture = Fixture::new();
    let name: Topic = topic("t");
    bury(&fixture, 1_200).await;
    let requeued = fixture.queue.requeue_dead(&name, Requeue::default(), 501, None).await;
    assert_eq!(requeued.expect("requeues").changed, 501);
    for (limit, deleted) in [(99, 99), (usize::MAX, 600)] {
        assert_eq!(fixture.queue.delete_dead(&name, limit, None).await.expect("deletes"), deleted);
    }
    assert_eq!(fixture.queue.purge(&name).await.expect("purges"), 501);
    assert_eq!(fixture.queue.topic(&name).await, Err(Error::TopicNotFound));
    fixture.close().await;
}

/// A few can be changed during the shutdown, too.
#[tokio::test]
async fn the_shutdown_ends_a_change_of_many_dead_letters() {
    let fixture = Fixture::new();
    let name: Topic = topic("t");
    bury(&fixture, 250).await;
    fixture.queue.drain();
    let requeued = fixture.queue.requeue_dead(&name, Requeue::default(), 120, None).await;
    assert_eq!(requeued.map(|changed| changed.changed), Err(Error::Draining));
    assert_eq!(fixture.queue.delete_dead(&name, 99, None).await, Ok(99));
    assert_eq!(fixture.queue.delete_dead(&name, usize::MAX, None).await, Ok(51));
    assert_eq!(fixture.queue.delete_ready(&name, None).await, Ok(100), "those that were requeued");
    fixture.close().await;
}

#[tokio::test]
async fn the_metrics_count_every_step() {
    let fixture = Fixture::new();
    fixture.add("a", seconds(5)).await;
    fixture.clock.advance(seconds(8));
    fixture.queue.promote_due().await.expect("promotes");
    fixture.clock.advance(seconds(2));
    fixture.queue.refresh_metrics().await.expect("reads");
    let text = fixture.metrics.encode();
    for line in [
        "linger_jobs{topic=\"t\",state=\"ready\"} 1",
        "linger_jobs{topic=\"t\",state=\"delayed\"} 0",
        "linger_jobs_added_total{topic=\"t\"} 1",
        "linger_oldest_overdue_seconds{topic=\"t\"} 5.0",
        "linger_ready_lateness_seconds_sum{topic=\"t\"} 3.0",
        "linger_limit{limit=\"max_body_bytes\"} 262144",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    let delivery = fixture.queue.pop(pop(NOW)).await.expect("answers");
    fixture.finish(delivery).await;
    let shown = "linger_jobs{topic=\"t\",state=\"ready\"} 1";
    fixture.queue.refresh_metrics().await.expect("reads");
    assert!(fixture.metrics.encode().contains(shown), "scrapes within a short time share one reading");
    fixture.clock.advance(seconds(3));
    fixture.queue.refresh_metrics().await.expect("reads");
    let text = fixture.metrics.encode();
    assert!(text.contains("linger_ready_wait_seconds_sum{topic=\"t\"} 2.0"), "{text}");
    assert!(text.contains("linger_delivered_lateness_seconds_sum{topic=\"t\"} 5.0"), "{text}");
    assert!(text.contains("linger_jobs_finished_total{topic=\"t\"} 1"));
    assert!(!text.contains("linger_jobs{"), "a topic without jobs has no metrics");
    fixture.close().await;
}
