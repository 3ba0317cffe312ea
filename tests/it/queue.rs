//! The queue above the engines: parked polls, the timer, deliveries that nobody takes, topic settings.
//!
//! On the naive model, so that only the queue is under test; the same paths run on the engines in
//! the API tests.

use std::{sync::Arc, time::Duration};

use linger::{
    clock::{Clock, ManualClock},
    job::{Delay, Due, Job, NewJob, State, Timestamp, Topic, TopicPause, TopicSettings},
    metrics::Metrics,
    queue::{Delivery, Error, FinishJob, Hints, Limits, Pop, Queue, Release},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::{
    jobs::{body, delay, id, millis, retry, seconds, topic, ttr},
    naive::Naive,
    stores::START,
};

/// A queue on the naive model with its timer running.
struct Bench {
    queue: Arc<Queue>,
    clock: Arc<ManualClock>,
    metrics: Metrics,
    stop: CancellationToken,
    timer: JoinHandle<()>,
}

impl Bench {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let clock = ManualClock::new(Timestamp::parse(START).expect("a moment"));
        let (hints, metrics, stop) = (Arc::new(Hints::default()), Metrics::new(), CancellationToken::new());
        let store = Naive::new(clock.clone(), hints.clone(), None);
        let queue = Queue::new(store, &hints, clock.clone(), limits, metrics.queue.clone());
        let timer = tokio::spawn({
            let (queue, stop) = (queue.clone(), stop.clone());
            async move { queue.run_timer(stop).await }
        });
        Self { queue, clock, metrics, stop, timer }
    }

    async fn add(&self, name: &str, wait: Duration) -> Job {
        self.queue.add(new_job(name, wait)).await.expect("adds").job
    }

    /// A poll in a task of its own, parked by the time this returns.
    async fn park(&self, pop: Pop) -> JoinHandle<Result<Delivery, Error>> {
        let before = self.queue.waiting();
        let queue = self.queue.clone();
        let poll = tokio::spawn(async move { queue.pop(pop).await });
        self.until(|| self.queue.waiting() > before || poll.is_finished()).await;
        poll
    }

    /// Lets the other tasks run until `reached`.
    #[track_caller]
    fn until(&self, reached: impl Fn() -> bool) -> impl Future<Output = ()> {
        crate::harness::wait::until(reached)
    }

    async fn get(&self, name: &str) -> Job {
        self.queue.get(&id(name)).await.expect("is there")
    }

    async fn finish(&self, delivery: Delivery) {
        let jobs: Vec<_> = delivery
            .jobs()
            .iter()
            .map(|r| FinishJob { id: r.job.id.clone(), receipt: Some(r.receipt.clone()) })
            .collect();
        delivery.accept();
        for outcome in self.queue.finish_batch(jobs).await.expect("answers") {
            outcome.expect("finishes");
        }
    }

    async fn end(self) {
        self.stop.cancel();
        self.timer.await.expect("the timer ends");
        self.queue.close().await.expect("closes");
    }
}

fn new_job(name: &str, wait: Duration) -> NewJob {
    NewJob {
        id: Some(id(name)),
        topic: topic("t"),
        due: Due::After(delay(wait)),
        ttr: None,
        max_attempts: None,
        retry: None,
        body: body("1"),
    }
}

fn pop(wait: Duration) -> Pop {
    Pop { topics: vec![topic("t")], max: 1, wait, ttr: None }
}

async fn names(poll: JoinHandle<Result<Delivery, Error>>) -> Vec<String> {
    taken(poll.await.expect("the poll ends").expect("is answered"))
}

fn taken(delivery: Delivery) -> Vec<String> {
    let names = delivery.jobs().iter().map(|r| r.job.id.to_string()).collect();
    delivery.accept();
    names
}

const NOW: Duration = Duration::ZERO;

#[tokio::test]
async fn polls_are_served_first_come_first_served() {
    let bench = Bench::new();
    let mut polls = Vec::new();
    for _ in 0..5 {
        polls.push(bench.park(pop(seconds(30))).await);
    }
    for (n, poll) in polls.into_iter().enumerate() {
        let name = format!("job-{n}");
        bench.add(&name, NOW).await;
        assert_eq!(names(poll).await, [name]);
    }
    bench.end().await;
}

#[tokio::test]
async fn a_poll_that_does_not_wait_stands_behind_those_that_do() {
    let bench = Bench::new();
    let parked = bench.park(pop(seconds(30))).await;
    bench.queue.pause(&topic("t"), TopicPause { delivery: true, intake: false }).await.expect("pauses");
    bench.add("only", NOW).await;
    bench.queue.resume(&topic("t"), TopicPause { delivery: true, intake: true }).await.expect("resumes");
    assert_eq!(taken(bench.queue.pop(pop(NOW)).await.expect("answers")), [""; 0]);
    assert_eq!(names(parked).await, ["only"]);
    bench.end().await;
}

#[tokio::test]
async fn a_parked_poll_wakes_for_whatever_makes_a_job_ready() {
    let bench = Bench::new();
    bench.add("job", seconds(10)).await;
    let poll = bench.park(pop(seconds(60))).await;
    bench.clock.advance(millis(9_999));
    bench.until(|| bench.queue.waiting() == 1).await;
    bench.clock.advance(millis(1));
    let first = poll.await.expect("ends").expect("wakes when the delayed job is due");
    let held = first.jobs()[0].clone();
    first.accept();

    let poll = bench.park(pop(seconds(60))).await;
    let at_once = Release { delay: Some(Delay::default()), reason: None };
    bench.queue.release(&id("job"), &held.receipt, at_once).await.expect("is held");
    assert_eq!(names(poll).await, ["job"], "wakes when it is released");

    let poll = bench.park(Pop { ttr: Some(ttr(5)), ..pop(seconds(60)) }).await;
    bench.clock.advance(seconds(59));
    bench.until(|| bench.queue.waiting() == 1).await;
    assert!(!poll.is_finished());
    bench.clock.advance(millis(999));
    let poll = bench.park(Pop { ttr: Some(ttr(5)), ..pop(seconds(60)) }).await;
    bench.clock.advance(millis(1));
    let delivery = poll.await.expect("ends").expect("answers");
    assert_eq!(delivery.jobs()[0].job.attempts, 3, "wakes when the TTR ends");
    bench.finish(delivery).await;
    bench.end().await;
}

#[tokio::test]
async fn a_poll_whose_wait_ends_is_answered_with_nothing() {
    let bench = Bench::new();
    let poll = bench.park(pop(seconds(20))).await;
    bench.clock.advance(millis(19_999));
    bench.until(|| bench.queue.waiting() == 1).await;
    assert!(!poll.is_finished());
    bench.clock.advance(millis(1));
    assert_eq!(names(poll).await, [""; 0]);
    assert_eq!(bench.queue.waiting(), 0);
    let clamped = bench.park(pop(seconds(86_400))).await;
    bench.clock.advance(seconds(60));
    assert_eq!(names(clamped).await, [""; 0], "a longer wait is clamped");
    bench.end().await;
}

#[tokio::test]
async fn fault_a_client_that_leaves_while_it_waits_holds_no_place() {
    let bench = Bench::new();
    let leaver = bench.park(pop(seconds(30))).await;
    let stayer = bench.park(pop(seconds(30))).await;
    leaver.abort();
    assert!(leaver.await.expect_err("was aborted").is_cancelled());
    assert_eq!(bench.queue.waiting(), 1);
    bench.add("job", NOW).await;
    assert_eq!(names(stayer).await, ["job"]);
    bench.end().await;
}

#[tokio::test]
async fn fault_a_delivery_that_nobody_takes_goes_back_at_once_and_uncounted() {
    let bench = Bench::new();
    let added = bench.add("job", NOW).await;
    for _ in 0..3 {
        let unseen = bench.queue.pop(pop(NOW)).await.expect("answers");
        assert_eq!(bench.get("job").await.state, State::Reserved);
        drop(unseen);
        let poll = bench.park(pop(seconds(1))).await;
        let delivery = poll.await.expect("ends").expect("answers");
        assert_eq!(delivery.jobs()[0].job.attempts, 1);
    }
    let patience = crate::harness::wait::Patience::new();
    while bench.get("job").await != added {
        patience.or_fail(|| format!("not yet {added:?}"));
        tokio::task::yield_now().await;
    }
    assert!(bench.metrics.encode().contains("linger_jobs_cancelled_total{topic=\"t\"} 6"));
    assert!(!bench.metrics.encode().contains("linger_jobs_delivered_total{"), "nothing was delivered");
    bench.end().await;
}

#[tokio::test]
async fn a_poll_for_many_takes_what_is_there() {
    let bench = Bench::new();
    for name in ["a", "b", "c"] {
        bench.add(name, NOW).await;
    }
    let many = |max| Pop { max, ..pop(NOW) };
    assert_eq!(taken(bench.queue.pop(many(2)).await.expect("answers")), ["a", "b"]);
    assert_eq!(taken(bench.queue.pop(many(10)).await.expect("answers")), ["c"]);
    let waiting = bench.park(Pop { max: 10, ..pop(seconds(5)) }).await;
    bench.add("d", NOW).await;
    assert_eq!(names(waiting).await, ["d"], "and does not wait for more once there is something");
    bench.end().await;
}

#[tokio::test]
async fn several_topics_are_asked_in_order_and_parked_for_together() {
    let bench = Bench::new();
    let add = |name: &'static str, of: &'static str| {
        let job = NewJob { topic: topic(of), ..new_job(name, NOW) };
        let queue = bench.queue.clone();
        async move { queue.add(job).await.expect("adds") }
    };
    add("low-1", "low").await;
    add("high-1", "high").await;
    let both = |max, wait| Pop { topics: ["high", "low", "high"].map(topic).to_vec(), max, wait, ttr: None };
    assert_eq!(taken(bench.queue.pop(both(2, NOW)).await.expect("answers")), ["high-1", "low-1"]);
    for (name, of) in [("low-2", "low"), ("high-2", "high")] {
        let poll = bench.park(both(1, seconds(9))).await;
        assert_eq!(bench.queue.waiting(), 1, "in two lines, counted once");
        add(name, of).await;
        assert_eq!(names(poll).await, [name]);
        assert_eq!(bench.queue.waiting(), 0);
    }
    bench.end().await;
}

#[tokio::test]
async fn a_poll_in_several_lines_is_answered_once() {
    let bench = Bench::new();
    let both = Pop { topics: ["x", "y"].map(topic).to_vec(), max: 1, wait: seconds(9), ttr: None };
    let poll = bench.park(both).await;
    for name in ["x", "y"] {
        bench.queue.add(NewJob { topic: topic(name), ..new_job(name, NOW) }).await.expect("adds");
    }
    let served = names(poll).await;
    let other = if served == ["x"] { "y" } else { "x" };
    let rest = bench.park(Pop { topics: vec![topic(other)], ..pop(seconds(9)) }).await;
    let delivery = rest.await.expect("ends").expect("answers");
    assert_eq!(delivery.jobs()[0].job.attempts, 1, "what came for it twice went back uncounted");
    bench.finish(delivery).await;
    bench.end().await;
}

#[tokio::test]
async fn draining_answers_every_parked_poll_and_refuses_new_ones() {
    let bench = Bench::new();
    let mut polls = Vec::new();
    for _ in 0..3 {
        polls.push(bench.park(pop(seconds(30))).await);
    }
    bench.queue.drain();
    for poll in polls {
        assert_eq!(names(poll).await, [""; 0]);
    }
    assert_eq!(bench.queue.pop(pop(seconds(1))).await.err(), Some(Error::Draining));
    bench.add("late", NOW).await;
    bench.end().await;
}

#[tokio::test]
async fn too_many_parked_polls_are_refused() {
    let bench = Bench::with(Limits { max_waiting: 2, ..Limits::default() });
    let first = bench.park(pop(seconds(30))).await;
    let _second = bench.park(pop(seconds(30))).await;
    assert_eq!(bench.queue.pop(pop(seconds(1))).await.err(), Some(Error::TooManyWaiting { limit: 2 }));
    assert!(bench.queue.pop(pop(NOW)).await.is_ok(), "who does not wait takes no place");
    first.abort();
    let _ = first.await;
    assert!(!bench.park(pop(seconds(30))).await.is_finished());
    bench.end().await;
}

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
    assert_eq!(bench.queue.delete_batch(ids).await, Err(Error::BatchTooLarge { limit: 2, got: 3 }));
    let many = Pop { max: 4, ..pop(NOW) };
    assert_eq!(bench.queue.pop(many).await.err(), Some(Error::BatchTooLarge { limit: 3, got: 4 }));
    let topics = Pop { topics: vec![topic("a"), topic("b")], ..pop(NOW) };
    assert_eq!(bench.queue.pop(topics).await.err(), Some(Error::BatchTooLarge { limit: 1, got: 2 }));
    let patch = linger::queue::Patch { body: Some(body("\"0123456789\"")), ..Default::default() };
    let refused = bench.queue.patch(&id("a"), patch).await;
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
    bench.queue.refresh_metrics().await.expect("reads");
    let text = bench.metrics.encode();
    assert!(text.contains("linger_ready_wait_seconds_sum{topic=\"t\"} 2.0"), "{text}");
    assert!(text.contains("linger_jobs_finished_total{topic=\"t\"} 1"));
    assert!(!text.contains("linger_jobs{"), "a deleted topic is forgotten");
    bench.end().await;
}

#[tokio::test]
async fn the_timer_sleeps_until_the_next_deadline_or_a_nudge() {
    let bench = Bench::new();
    bench.add("later", seconds(50)).await;
    bench.add("sooner", seconds(5)).await;
    let poll = bench.park(pop(seconds(60))).await;
    bench.clock.advance(seconds(5));
    assert_eq!(names(poll).await, ["sooner"]);
    let poll = bench.park(pop(seconds(60))).await;
    bench.clock.advance(seconds(45));
    assert_eq!(names(poll).await, ["later"]);
    assert_eq!(bench.clock.now().as_millis() % 1_000, 0);
    bench.end().await;
}
