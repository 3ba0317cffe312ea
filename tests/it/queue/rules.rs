//! Limits, batches, the settings of topics, and the figures.

use linger::{
    job::{NewJob, Topic, TopicPause, TopicSettings},
    queue::{Error, Limits, Pop},
};

use super::{Bench, NOW, names, new_job, pop, taken};
use crate::harness::jobs::{ALL, body, id, retry, seconds, topic, ttr};

#[tokio::test]
async fn every_limit_is_refused_with_its_number() {
    let limits =
        Limits { max_body: 10, max_batch: 2, max_batch_pop: 3, max_pop_topics: 1, ..Limits::default() };
    let bench = Bench::with(limits);
    let large = NewJob { body: body("\"0123456789\""), ..new_job("a", NOW) };
    assert_eq!(bench.queue.add(large).await, Err(Error::BodyTooLarge { limit: 10, got: 12 }));
    let three = vec![new_job("a", NOW); 3];
    assert_eq!(bench.queue.add_batch(three).await, Err(Error::BatchTooLarge { limit: 2, got: 3 }));
    let ids = vec![id("a"); 3];
    assert_eq!(bench.queue.delete_batch(ALL, ids).await, Err(Error::BatchTooLarge { limit: 2, got: 3 }));
    let many = Pop { max: 4, ..pop(NOW) };
    assert_eq!(bench.queue.pop(many).await.err(), Some(Error::BatchTooLarge { limit: 3, got: 4 }));
    let topics = Pop { topics: vec![topic("a"), topic("b")], ..pop(NOW) };
    assert_eq!(bench.queue.pop(topics).await.err(), Some(Error::BatchTooLarge { limit: 1, got: 2 }));
    let patch = linger::queue::Patch { body: Some(body("\"0123456789\"")), ..Default::default() };
    let refused = bench.queue.patch(ALL, &id("a"), patch).await;
    assert_eq!(refused, Err(Error::BodyTooLarge { limit: 10, got: 12 }));
    bench.end().await;
}

#[tokio::test]
async fn a_refused_item_does_not_harm_the_batch() {
    let bench = Bench::with(Limits { max_body: 10, ..Limits::default() });
    let other = NewJob { body: body("2"), ..new_job("a", NOW) };
    let large = NewJob { body: body("\"0123456789\""), ..new_job("b", NOW) };
    let batch = vec![new_job("a", NOW), large, other, new_job("a", NOW), new_job("c", NOW)];
    let outcomes = bench.queue.add_batch(batch).await.expect("answers");
    let codes: Vec<_> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Ok(outcome) if outcome.replayed => "replayed",
            Ok(_) => "added",
            Err(error) => error.code(),
        })
        .collect();
    assert_eq!(codes, ["added", "body_too_large", "job_exists", "replayed", "added"]);
    bench.end().await;
}

#[tokio::test]
async fn topic_settings_are_copied_into_new_jobs_only() {
    let bench = Bench::new();
    let plain = bench.add("before", NOW).await;
    let settings = TopicSettings {
        ttr: Some(ttr(5)),
        max_attempts: None,
        retry: Some(retry(&[1, 2, 3])),
        require_receipt: true,
    };
    bench.queue.put_settings(&topic("t"), settings).await.expect("puts");
    let job = bench.add("after", NOW).await;
    assert_eq!((job.ttr, job.max_attempts, job.require_receipt), (ttr(5), 4, true));
    assert_eq!(job.retry, retry(&[1, 2, 3]));
    let own = NewJob { ttr: Some(ttr(9)), max_attempts: Some(0), ..new_job("own", NOW) };
    let own = bench.queue.add(own).await.expect("adds").job;
    assert_eq!((own.ttr, own.max_attempts), (ttr(9), 0));
    assert_eq!(bench.get("before").await, plain);
    // A retried request still matches after the settings changed.
    assert!(bench.queue.add(new_job("before", NOW)).await.expect("answers").replayed);
    bench.end().await;
}

#[tokio::test]
async fn a_paused_delivery_parks_and_a_paused_intake_refuses() {
    let bench = Bench::new();
    let name = topic("t");
    bench.queue.pause(&name, TopicPause { delivery: true, intake: false }).await.expect("pauses");
    bench.add("a", NOW).await;
    let poll = bench.park(pop(seconds(30))).await;
    bench.queue.pause(&name, TopicPause { delivery: false, intake: true }).await.expect("pauses");
    assert_eq!(bench.queue.add(new_job("b", NOW)).await, Err(Error::IntakePaused));
    assert!(!poll.is_finished());
    bench.queue.resume(&name, TopicPause { delivery: true, intake: false }).await.expect("resumes");
    assert_eq!(names(poll).await, ["a"]);
    assert_eq!(bench.queue.add(new_job("b", NOW)).await, Err(Error::IntakePaused));
    let view = bench.queue.resume(&name, TopicPause { delivery: true, intake: true }).await.expect("resumes");
    assert_eq!(view.stats.config.pause, TopicPause::default());
    bench.add("b", NOW).await;
    bench.end().await;
}

#[tokio::test]
async fn bulk_steps_go_through_all_slices() {
    let bench = Bench::new();
    let name: Topic = topic("t");
    for n in 0..1_200 {
        let once = NewJob { max_attempts: Some(1), ..new_job(&n.to_string(), NOW) };
        bench.queue.add(once).await.expect("adds");
    }
    taken(bench.queue.pop(Pop { max: 1_000, ..pop(NOW) }).await.expect("answers"));
    taken(bench.queue.pop(Pop { max: 200, ..pop(NOW) }).await.expect("answers"));
    bench.clock.advance(seconds(60));
    bench.queue.promote_due().await.expect("promotes");
    assert_eq!(bench.queue.requeue_dead(&name, 501).await.expect("requeues"), 501);
    assert_eq!(bench.queue.delete_dead(&name).await.expect("deletes"), 699);
    assert_eq!(bench.queue.purge(&name).await.expect("purges"), 501);
    assert_eq!(bench.queue.topic(&name).await, Err(Error::TopicNotFound));
    bench.end().await;
}

#[tokio::test]
async fn the_figures_tell_what_happened() {
    let bench = Bench::new();
    bench.add("a", seconds(5)).await;
    bench.clock.advance(seconds(8));
    bench.queue.promote_due().await.expect("promotes");
    bench.clock.advance(seconds(2));
    bench.queue.refresh_metrics().await.expect("reads");
    let text = bench.metrics.encode();
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
    let delivery = bench.queue.pop(pop(NOW)).await.expect("answers");
    bench.finish(delivery).await;
    let shown = "linger_jobs{topic=\"t\",state=\"ready\"} 1";
    bench.queue.refresh_metrics().await.expect("reads");
    assert!(bench.metrics.encode().contains(shown), "a reading is shared by those who come soon");
    bench.clock.advance(seconds(3));
    bench.queue.refresh_metrics().await.expect("reads");
    let text = bench.metrics.encode();
    assert!(text.contains("linger_ready_wait_seconds_sum{topic=\"t\"} 2.0"), "{text}");
    assert!(text.contains("linger_jobs_finished_total{topic=\"t\"} 1"));
    assert!(!text.contains("linger_jobs{"), "a deleted topic is forgotten");
    bench.end().await;
}
