//! Parked polls: who is served, in which order, and what wakes them.

use futures_util::FutureExt;
use linger::{
    clock::Clock,
    job::{Delay, NewJob, State, TopicPause},
    queue::{Error, Limits, Pop, Release},
    store,
};

use super::{Bench, NOW, names, new_job, pop, taken};
use crate::harness::{
    failing::Failure,
    jobs::{ALL, id, millis, seconds, topic, ttr},
};

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

/// The next attempt could take as long again, and they would wait for both.
#[tokio::test]
async fn a_store_that_fails_fails_all_who_do_not_wait_at_once() {
    let bench = Bench::new();
    let hung = bench.store.hang(&topic("t"));
    let queue = bench.queue.clone();
    let first = tokio::spawn(async move { queue.pop(pop(NOW)).await });
    bench.until(|| hung.hung_calls() == 1).await;
    let mut second = Box::pin(bench.queue.pop(pop(NOW)));
    assert!(second.as_mut().now_or_never().is_none(), "it stands in the line");
    bench.store.fail(Some(Failure::Error(store::Error::Unavailable("away".to_owned()))));
    hung.release();
    for answer in [first.await.expect("does not panic"), second.await] {
        assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    }
    assert_eq!(hung.hung_calls(), 1, "the store was not asked once more");
    bench.end().await;
}

/// Where only those who wait stand in line, hearsay is enough for the store; not so for others.
#[tokio::test]
async fn who_must_be_answered_or_wants_several_is_not_answered_from_hearsay() {
    let bench = Bench::new();
    bench.store.ignore_waiting_callers();
    let parked = bench.park(pop(seconds(30))).await;
    bench.add("first", NOW).await;
    bench.until(|| bench.store.waiting_reserves() > 0).await;
    assert_eq!(taken(bench.queue.pop(pop(NOW)).await.expect("answers")), [""; 0]);
    assert_eq!(names(parked).await, ["first"], "who does not wait had the line looked at");
    bench.add("second", NOW).await;
    assert_eq!(names(bench.park(Pop { max: 2, ..pop(seconds(30)) }).await).await, ["second"]);
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
    bench.queue.release(ALL, &id("job"), &held.receipt, at_once).await.expect("is held");
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
        let unseen = bench.queue.pop(pop(seconds(1))).await.expect("answers");
        assert_eq!(bench.get("job").await.state, State::Reserved);
        drop(unseen);
        let poll = bench.park(pop(seconds(1))).await;
        let delivery = poll.await.expect("ends").expect("answers");
        assert_eq!(delivery.jobs()[0].job.attempts, 1);
    }
    let time_limit = crate::harness::wait::TimeLimit::new();
    while bench.get("job").await != added {
        time_limit.check(|| format!("not yet {added:?}"));
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
