//! Parked polls: the order in which they receive jobs, and what wakes them.

use futures_util::FutureExt;
use linger::{
    clock::Clock,
    job::{Due, NewJob, PausedOperations, State},
    queue::{Error, Limits, NewPause, Pop, Release},
    store::{self, Store},
};

use super::{Fixture, NOW, accepted_ids, delivered_ids, delivery, new_job, pop};
use crate::harness::{
    failing::{Failure, Fault, HungCalls},
    jobs::{ALL, id, millis, seconds, topic, ttr},
    wait::{assert_waits, bounded},
};

#[tokio::test]
async fn polls_are_served_first_come_first_served() {
    let fixture = Fixture::new();
    let mut polls = Vec::new();
    for _ in 0..5 {
        polls.push(fixture.park(pop(seconds(30))).await);
    }
    for (n, poll) in polls.into_iter().enumerate() {
        let name = format!("job-{n}");
        fixture.add(&name, NOW).await;
        assert_eq!(delivered_ids(poll).await, [name]);
    }
    fixture.close().await;
}

#[tokio::test]
async fn a_non_blocking_poll_is_served_after_the_waiting_ones() {
    let fixture = Fixture::new();
    let parked = fixture.park(pop(seconds(30))).await;
    fixture
        .queue
        .pause(&topic("t"), PausedOperations { delivery: true, intake: false }, NewPause::default())
        .await
        .expect("pauses");
    fixture.add("only", NOW).await;
    fixture
        .queue
        .resume(&topic("t"), PausedOperations { delivery: true, intake: true })
        .await
        .expect("resumes");
    assert_eq!(accepted_ids(fixture.queue.pop(pop(NOW)).await.expect("answers")), [""; 0]);
    assert_eq!(delivered_ids(parked).await, ["only"]);
    fixture.close().await;
}

/// A further call to the store could take as long again, and the callers would wait for both.
#[tokio::test]
async fn a_failure_of_the_store_fails_all_non_blocking_polls_at_once() {
    let fixture = Fixture::new();
    let hung = fixture.store.hang(&topic("t"));
    let queue = fixture.queue.clone();
    let first = tokio::spawn(async move { queue.pop(pop(NOW)).await });
    fixture.until(|| hung.hung_calls() == 1).await;
    let mut second = Box::pin(fixture.queue.pop(pop(NOW)));
    assert!(second.as_mut().now_or_never().is_none(), "the second poll waits behind the first");
    fixture.store.fail(Some(Failure::Error(store::Error::Unavailable("unreachable".to_owned()))));
    hung.release();
    for answer in [first.await.expect("does not panic"), second.await] {
        assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    }
    assert_eq!(hung.hung_calls(), 1, "the store is not called once more");
    fixture.close().await;
}

#[tokio::test]
async fn a_panic_of_the_store_fails_the_polls_of_the_topic() {
    let fixture = Fixture::new();
    let parked = fixture.park(pop(seconds(30))).await;
    fixture.store.fail(Some(Failure::Panic));
    let answer = bounded("a poll that does not wait", fixture.queue.pop(pop(NOW))).await;
    assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    let answer = bounded("a parked poll", parked).await.expect("does not panic");
    assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    assert_eq!(fixture.queue.waiting(), 0);
    fixture.store.fail(None);
    let parked = fixture.park(pop(seconds(30))).await;
    fixture.add("job", NOW).await;
    assert_eq!(delivered_ids(parked).await, ["job"], "later polls are served");
    fixture.close().await;
}

/// If only waiting polls are in line, the store may answer from announcements alone. For others it must look.
#[tokio::test]
async fn polls_that_do_not_wait_or_want_several_jobs_are_not_answered_from_announcements() {
    let fixture = Fixture::new();
    fixture.store.ignore_waiting_callers(true);
    let parked = fixture.park(pop(seconds(30))).await;
    fixture.add("first", NOW).await;
    fixture.until(|| fixture.store.waiting_reserves() > 0).await;
    assert_eq!(accepted_ids(fixture.queue.pop(pop(NOW)).await.expect("answers")), [""; 0]);
    assert_eq!(delivered_ids(parked).await, ["first"], "the non-blocking poll made the queue look for jobs");
    fixture.add("second", NOW).await;
    assert_eq!(delivered_ids(fixture.park(Pop { max: 2, ..pop(seconds(30)) }).await).await, ["second"]);
    fixture.close().await;
}

#[tokio::test]
async fn a_parked_poll_wakes_for_whatever_makes_a_job_ready() {
    let fixture = Fixture::new();
    fixture.add("job", seconds(10)).await;
    let poll = fixture.park(pop(seconds(60))).await;
    fixture.clock.advance(millis(9_999));
    assert_waits(&poll, "the job is not due yet").await;
    fixture.clock.advance(millis(1));
    let first = delivery(poll).await;
    let reserved = first.jobs()[0].clone();
    first.accept();

    let poll = fixture.park(pop(seconds(60))).await;
    let at_once = Release { due: Some(Due::default()), reason: None };
    fixture.queue.release(ALL, &id("job"), &reserved.receipt, at_once).await.expect("the job is reserved");
    assert_eq!(delivered_ids(poll).await, ["job"], "the poll wakes when the job is released");

    let poll = fixture.park(Pop { ttr: Some(ttr(5)), ..pop(seconds(60)) }).await;
    fixture.clock.advance(seconds(59));
    assert_waits(&poll, "the TTR has not ended").await;
    fixture.clock.advance(millis(999));
    let poll = fixture.park(Pop { ttr: Some(ttr(5)), ..pop(seconds(60)) }).await;
    fixture.clock.advance(millis(1));
    let third = delivery(poll).await;
    assert_eq!(third.jobs()[0].job.attempts, 3, "the poll wakes when the TTR ends");
    fixture.finish(third).await;
    fixture.close().await;
}

#[tokio::test]
async fn a_poll_whose_wait_ends_is_answered_with_nothing() {
    let fixture = Fixture::new();
    let poll = fixture.park(pop(seconds(20))).await;
    fixture.clock.advance(millis(19_999));
    assert_waits(&poll, "its wait has not ended").await;
    fixture.clock.advance(millis(1));
    assert_eq!(delivered_ids(poll).await, [""; 0]);
    assert_eq!(fixture.queue.waiting(), 0);
    let clamped = fixture.park(pop(seconds(86_400))).await;
    fixture.clock.advance(seconds(60));
    assert_eq!(delivered_ids(clamped).await, [""; 0], "a longer wait is clamped");
    fixture.close().await;
}

#[tokio::test]
async fn fault_a_client_that_leaves_while_it_waits_receives_no_job() {
    let fixture = Fixture::new();
    let leaves = fixture.park(pop(seconds(30))).await;
    let stays = fixture.park(pop(seconds(30))).await;
    leaves.abort();
    assert!(leaves.await.expect_err("was aborted").is_cancelled());
    assert_eq!(fixture.queue.waiting(), 1);
    fixture.add("job", NOW).await;
    assert_eq!(delivered_ids(stays).await, ["job"]);
    fixture.close().await;
}

#[tokio::test]
async fn fault_a_delivery_that_no_connection_takes_is_returned_at_once_and_uncounted() {
    let fixture = Fixture::new();
    let added = fixture.add("job", NOW).await;
    for _ in 0..3 {
        let unread = fixture.queue.pop(pop(seconds(1))).await.expect("answers");
        assert_eq!(fixture.get("job").await.state(), State::Reserved);
        drop(unread);
        let poll = fixture.park(pop(seconds(1))).await;
        assert_eq!(delivery(poll).await.jobs()[0].job.attempts, 1);
    }
    let time_limit = crate::harness::wait::TimeLimit::new();
    while fixture.get("job").await != added {
        time_limit.check(|| format!("the job is not yet {added:?}"));
        time_limit.pause().await;
    }
    assert!(fixture.metrics.encode().contains("linger_jobs_cancelled_total{topic=\"t\"} 6"));
    assert!(!fixture.metrics.encode().contains("linger_jobs_delivered_total{"), "nothing was delivered");
    fixture.close().await;
}

#[tokio::test]
async fn a_poll_for_several_jobs_takes_those_that_are_ready() {
    let fixture = Fixture::new();
    for name in ["a", "b", "c"] {
        fixture.add(name, NOW).await;
    }
    let many = |max| Pop { max, ..pop(NOW) };
    assert_eq!(accepted_ids(fixture.queue.pop(many(2)).await.expect("answers")), ["a", "b"]);
    assert_eq!(accepted_ids(fixture.queue.pop(many(10)).await.expect("answers")), ["c"]);
    let waiting = fixture.park(Pop { max: 10, ..pop(seconds(5)) }).await;
    fixture.add("d", NOW).await;
    assert_eq!(delivered_ids(waiting).await, ["d"], "a poll does not wait for more jobs once it has one");
    fixture.close().await;
}

#[tokio::test]
async fn a_poll_for_several_topics_tries_them_in_order_and_waits_for_all() {
    let fixture = Fixture::new();
    let add = |name: &'static str, topic_name: &'static str| {
        let job = NewJob { topic: topic(topic_name), ..new_job(name, NOW) };
        let queue = fixture.queue.clone();
        async move { queue.add(ALL, job, None).await.expect("adds") }
    };
    add("low-1", "low").await;
    add("high-1", "high").await;
    let both = |max, wait| Pop {
        topics: ["high", "low", "high"].map(topic).to_vec(),
        max,
        wait,
        ttr: None,
        by: None,
        address: None,
    };
    assert_eq!(accepted_ids(fixture.queue.pop(both(2, NOW)).await.expect("answers")), ["high-1", "low-1"]);
    for (name, topic_name) in [("low-2", "low"), ("high-2", "high")] {
        let poll = fixture.park(both(1, seconds(9))).await;
        assert_eq!(fixture.queue.waiting(), 1, "a poll for two topics is counted once");
        add(name, topic_name).await;
        assert_eq!(delivered_ids(poll).await, [name]);
        assert_eq!(fixture.queue.waiting(), 0);
    }
    fixture.close().await;
}

#[tokio::test]
async fn a_poll_for_several_topics_is_answered_once() {
    let fixture = Fixture::new();
    let both = Pop {
        topics: ["x", "y"].map(topic).to_vec(),
        max: 1,
        wait: seconds(9),
        ttr: None,
        by: None,
        address: None,
    };
    let poll = fixture.park(both).await;
    for name in ["x", "y"] {
        fixture
            .queue
            .add(ALL, NewJob { topic: topic(name), ..new_job(name, NOW) }, None)
            .await
            .expect("adds");
    }
    let served = delivered_ids(poll).await;
    let other = if served == ["x"] { "y" } else { "x" };
    let rest = fixture.park(Pop { topics: vec![topic(other)], ..pop(seconds(9)) }).await;
    let second = delivery(rest).await;
    assert_eq!(second.jobs()[0].job.attempts, 1, "the second job was returned uncounted");
    fixture.finish(second).await;
    fixture.close().await;
}

#[tokio::test]
async fn draining_answers_every_parked_poll_and_refuses_new_ones() {
    let fixture = Fixture::new();
    let mut polls = Vec::new();
    for _ in 0..3 {
        polls.push(fixture.park(pop(seconds(30))).await);
    }
    fixture.queue.drain();
    for poll in polls {
        assert_eq!(delivered_ids(poll).await, [""; 0]);
    }
    assert_eq!(fixture.queue.pop(pop(seconds(1))).await.err(), Some(Error::Draining));
    fixture.add("late", NOW).await;
    fixture.close().await;
}

#[tokio::test]
async fn too_many_parked_polls_are_refused() {
    let fixture = Fixture::with(Limits { max_waiting: 2, ..Limits::default() });
    let first = fixture.park(pop(seconds(30))).await;
    let _second = fixture.park(pop(seconds(30))).await;
    assert_eq!(fixture.queue.pop(pop(seconds(1))).await.err(), Some(Error::TooManyWaiting { limit: 2 }));
    assert!(fixture.queue.pop(pop(NOW)).await.is_ok(), "a non-blocking poll does not count");
    first.abort();
    let _ = first.await;
    let third = fixture.park(pop(seconds(30))).await;
    assert_waits(&third, "there is room for it").await;
    fixture.close().await;
}

#[tokio::test]
async fn the_timer_goes_on_after_the_store_has_failed() {
    let fixture = Fixture::new();
    fixture.add("job", seconds(5)).await;
    let poll = fixture.park(pop(seconds(60))).await;
    fixture.store.fail(Some(Failure::Error(store::Error::Unavailable("unreachable".to_owned()))));
    fixture.clock.advance(seconds(5));
    let failed = r#"linger_store_operation_duration_seconds_count{operation="promote",outcome="error"} 1"#;
    fixture.until(|| fixture.metrics.encode().contains(failed)).await;
    fixture.store.fail(None);
    // The longest pause after a failure.
    fixture.clock.advance(seconds(2));
    assert_eq!(delivered_ids(poll).await, ["job"]);
    fixture.close().await;
}

/// A job that no client has received uses up no attempt and waits for no TTR, also over a restart.
#[tokio::test]
async fn closing_waits_for_jobs_that_are_on_their_way_back() {
    let fixture = Fixture::new();
    let added = fixture.add("job", NOW).await;
    let delivery = fixture.queue.pop(pop(NOW)).await.expect("answers");
    assert_eq!(fixture.get("job").await.state(), State::Reserved);
    fixture.stop.cancel();
    fixture.timer.await.expect("the timer ends");
    drop(delivery);
    fixture.queue.close().await.expect("closes");
    assert_eq!(fixture.store.get(ALL, &id("job")).await.expect("gets"), Some(added));
}

#[tokio::test]
async fn the_timer_sleeps_until_the_next_deadline_or_an_earlier_one_appears() {
    let fixture = Fixture::new();
    fixture.add("later", seconds(50)).await;
    fixture.add("sooner", seconds(5)).await;
    let poll = fixture.park(pop(seconds(60))).await;
    fixture.clock.advance(seconds(5));
    assert_eq!(delivered_ids(poll).await, ["sooner"]);
    let poll = fixture.park(pop(seconds(60))).await;
    fixture.clock.advance(seconds(45));
    assert_eq!(delivered_ids(poll).await, ["later"]);
    assert_eq!(fixture.clock.now().as_millis() % 1_000, 0);
    fixture.close().await;
}

#[tokio::test]
async fn a_late_answer_of_the_store_makes_no_job_late() {
    let fixture = Fixture::new();
    // No poll waits for the first job: its reservation would wake the timer as soon as the answer comes.
    let elsewhere = NewJob { topic: topic("other"), ..new_job("first", seconds(5)) };
    fixture.queue.add(ALL, elsewhere, None).await.expect("adds");
    fixture.add("second", seconds(10)).await;
    let poll = fixture.park(pop(seconds(60))).await;
    let hung = HungCalls::new();
    let promotions = hung.clone();
    fixture.store.choose_faults(Some(Box::new(move |operation| match operation {
        "promote" => Fault { takes_effect: true, hung: Some(promotions.clone()), failure: None },
        _ => Fault::default(),
    })));
    fixture.clock.advance(seconds(5));
    fixture.until(|| hung.hung_calls() == 1).await;
    // The store answers at last: the second job is due 5 seconds after the promotion began, 1 second after the answer.
    fixture.clock.advance(seconds(4));
    fixture.store.choose_faults(None);
    hung.release();
    fixture.clock.advance(seconds(1));
    assert_eq!(delivered_ids(poll).await, ["second"]);
    fixture.close().await;
}
