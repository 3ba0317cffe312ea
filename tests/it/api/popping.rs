//! Pops: the response, long polls, and clients that leave.

use http_body_util::BodyExt;
use serde_json::json;

use super::on_every_engine;
use crate::harness::{
    api::{Api, Setup, text},
    jobs::{ALL, id, millis, seconds, topic},
    stores::Engine,
    wait::bounded,
};
use linger::{job::State, queue::Limits};

on_every_engine!(
    fault_a_reservation_that_has_ended_is_not_handed_out,
    a_popped_job_carries_its_receipt_deadline_and_lateness,
    an_empty_pop_has_no_body,
    a_poll_waits_for_an_unknown_topic,
    trap_head_pops_nothing,
    get_and_post_are_the_same,
    the_reservation_lasts_for_the_requested_ttr,
    no_response_may_be_cached,
    trap_a_long_poll_wakes_for_a_delayed_job_that_becomes_due,
    a_long_poll_wakes_for_a_new_job,
    a_long_poll_wakes_for_a_job_whose_ttr_ends,
    trap_a_long_poll_does_not_return_empty_because_the_head_was_deleted,
    a_wait_over_the_limit_is_clamped,
    trap_an_unread_response_returns_the_job_uncounted,
    trap_a_client_that_leaves_while_it_waits_leaves_nothing_behind,
    shutdown_answers_parked_polls_and_refuses_new_ones,
    too_many_polls_are_refused,
    a_non_blocking_pop_is_answered_behind_any_number_of_blocking_ones,
    invalid_parameters_are_refused,
    jobs_are_popped_by_due_time,
    a_pop_with_jobs_searches_further_for_at_most_half_a_second,
);

async fn a_popped_job_carries_its_receipt_deadline_and_lateness(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","delay":1,"retry":[5],"body":{"n":1}}"#).await;
    api.advance_and_promote(millis(1_250)).await;
    let job = api.pop("t").await;
    let receipt = text(&job["receipt"]).to_owned();
    assert_eq!(receipt.len(), 32, "a receipt has 128 bits");
    let expected = json!({
        "id": "a", "topic": "t", "state": "reserved", "created_at": "2026-11-21T05:40:00.000Z",
        "due_at": "2026-11-21T05:40:01.000Z", "ttr": 60, "attempts": 1, "max_attempts": 2, "retry": [5],
        "reserved_until": "2026-11-21T05:41:01.250Z", "receipt": receipt, "attempt": 1, "late": 0.25,
        "body": {"n": 1},
    });
    assert_eq!(job, expected);
    api.advance_and_promote(seconds(60)).await;
    api.advance_and_promote(seconds(5)).await;
    let again = api.pop("t").await;
    assert_eq!(again["attempt"], 2);
    assert_ne!(again["receipt"], receipt, "every reservation has its own receipt");
}

async fn an_empty_pop_has_no_body(engine: Engine) {
    let api = Api::new(engine).await;
    let response = api.get("/topics/t/pop").await.expect(204);
    assert!(response.body.is_empty());
    let many = api.send("POST", "/batch/pop", r#"{"topics":["t","u"],"max":5}"#).await.expect(200);
    assert_eq!(many.body, "{\"jobs\":[]}\n");
}

async fn a_poll_waits_for_an_unknown_topic(engine: Engine) {
    let api = Api::new(engine).await;
    let poll = api.park(api.call("GET", "/topics/unheard/pop?wait=5s")).await;
    api.assert_waits(&poll, "it may wait for 5 s").await;
    api.clock.advance(seconds(5));
    poll.await.expect("is answered").expect(204);
    api.get("/topics/unheard").await.expect_problem(404, "topic_not_found");
}

async fn trap_head_pops_nothing(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    let response = api.call("HEAD", "/topics/t/pop?wait=5s").send().await.expect(405);
    assert_eq!(response.header("allow"), "GET, POST");
    assert!(response.body.is_empty());
    let job = api.get("/jobs/a").await.json();
    assert_eq!((&job["state"], &job["attempts"]), (&json!("ready"), &json!(0)));
}

async fn get_and_post_are_the_same(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    let job = api.post("/topics/t/pop?wait=1s&ttr=90s").await.expect(200).json();
    assert_eq!(job["reserved_until"], "2026-11-21T05:41:30.000Z");
    let problem =
        api.send("POST", "/topics/t/pop", r#"{"wait":"20s"}"#).await.expect_problem(422, "invalid_request");
    assert_eq!(problem["errors"][0]["pointer"], "/wait", "the parameters belong in the query");
}

async fn the_reservation_lasts_for_the_requested_ttr(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","ttr":10}"#).await;
    let job = api.get("/topics/t/pop?ttr=20s").await.expect(200).json();
    assert_eq!(job["reserved_until"], "2026-11-21T05:40:20.000Z");
    assert_eq!(job["ttr"], 10, "the job's own TTR does not change");
    api.advance_and_promote(millis(19_999)).await;
    api.get("/topics/t/pop").await.expect(204);
    api.advance_and_promote(millis(1)).await;
    assert_eq!(api.pop("t").await["attempt"], 2);
}

async fn no_response_may_be_cached(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t"}"#).await;
    let calls = [
        api.call("GET", "/topics/t/pop"),
        api.call("GET", "/topics/t/pop"),
        api.call("POST", "/topics/t/pop"),
        api.call("GET", "/topics/t/pop?wait=x"),
        api.call("HEAD", "/topics/t/pop"),
        api.call("POST", "/batch/pop").json(r#"{"topics":["t"]}"#),
    ];
    for call in calls {
        assert_eq!(call.send().await.header("cache-control"), "no-store");
    }
}

async fn trap_a_long_poll_wakes_for_a_delayed_job_that_becomes_due(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","delay":"10s"}"#).await;
    let poll = api.park(api.call("GET", "/topics/t/pop?wait=30s")).await;
    api.advance_and_promote(millis(9_999)).await;
    api.assert_waits(&poll, "the job is not due yet").await;
    api.advance_and_promote(millis(1)).await;
    assert_eq!(poll.await.expect("is answered").expect(200).json()["id"], "a");
}

async fn a_long_poll_wakes_for_a_new_job(engine: Engine) {
    let api = Api::new(engine).await;
    let poll = api.park(api.call("GET", "/topics/t/pop?wait=30s")).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    assert_eq!(poll.await.expect("is answered").expect(200).json()["id"], "a");
}

async fn a_long_poll_wakes_for_a_job_whose_ttr_ends(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","ttr":5}"#).await;
    api.pop("t").await;
    let poll = api.park(api.call("GET", "/topics/t/pop?wait=30s")).await;
    api.advance_and_promote(seconds(5)).await;
    assert_eq!(poll.await.expect("is answered").expect(200).json()["attempt"], 2);
}

async fn trap_a_long_poll_does_not_return_empty_because_the_head_was_deleted(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"gone","delay":1}"#).await;
    api.add(r#"{"topic":"t","id":"moved","delay":2}"#).await;
    api.advance_and_promote(seconds(2)).await;
    api.delete("/jobs/gone").await.expect(204);
    api.send("PATCH", "/jobs/moved", r#"{"delay":10}"#).await.expect(200);
    let poll = api.park(api.call("GET", "/topics/t/pop?wait=30s")).await;
    api.assert_waits(&poll, "its job was moved").await;
    api.advance_and_promote(seconds(10)).await;
    assert_eq!(poll.await.expect("is answered").expect(200).json()["id"], "moved");
}

async fn a_wait_over_the_limit_is_clamped(engine: Engine) {
    let api = Api::new(engine).await;
    let poll = api.park(api.call("GET", "/topics/t/pop?wait=1h")).await;
    api.clock.advance(millis(59_999));
    api.assert_waits(&poll, "its wait has not ended").await;
    api.clock.advance(millis(1));
    poll.await.expect("is answered").expect(204);
}

async fn trap_an_unread_response_returns_the_job_uncounted(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","max_attempts":1}"#).await;
    for call in [
        api.call("GET", "/topics/t/pop"),
        api.call("POST", "/topics/t/pop"),
        api.call("POST", "/batch/pop").json(r#"{"topics":["t"]}"#),
    ] {
        // The response is complete, but the connection never takes its bytes.
        let response = call.head().await;
        assert_eq!(response.status(), 200);
        assert_eq!(api.get("/jobs/a").await.json()["state"], "reserved");
        drop(response);
        // Waits for the returned job, so that the test need not poll for its state.
        let returned = api.get("/topics/t/pop?wait=60s").await.expect(200).json();
        assert_eq!(returned["attempt"], 1, "the lost response was not counted");
        api.delete("/jobs/a").await.expect(204);
        api.add(r#"{"topic":"t","id":"a","max_attempts":1}"#).await;
    }
}

async fn trap_a_client_that_leaves_while_it_waits_leaves_nothing_behind(engine: Engine) {
    let api = Api::new(engine).await;
    let leaves = api.park(api.call("GET", "/topics/t/pop?wait=30s")).await;
    let stays = api.park(api.call("GET", "/topics/t/pop?wait=30s")).await;
    leaves.abort();
    api.until(|| api.queue.waiting() == 1).await;
    api.add(r#"{"topic":"t","id":"a","max_attempts":1}"#).await;
    let job = stays.await.expect("is answered").expect(200).json();
    assert_eq!((&job["id"], &job["attempt"]), (&json!("a"), &json!(1)));
}

async fn shutdown_answers_parked_polls_and_refuses_new_ones(engine: Engine) {
    let api = Api::new(engine).await;
    let one = api.park(api.call("GET", "/topics/t/pop?wait=30s")).await;
    let many = api.park(api.call("POST", "/batch/pop").json(r#"{"topics":["t","u"],"wait":30}"#)).await;
    api.drain();
    one.await.expect("is answered").expect(204);
    assert_eq!(many.await.expect("is answered").expect(200).body, "{\"jobs\":[]}\n");
    let refused = api.get("/topics/t/pop?wait=30s").await;
    assert!(refused.header("retry-after").parse::<u32>().is_ok());
    refused.expect_problem(503, "draining");
}

async fn too_many_polls_are_refused(engine: Engine) {
    let limits = Limits { max_waiting: 1, ..Limits::default() };
    let api = Api::with(engine, Setup { limits, ..Setup::default() }).await;
    let parked = api.park(api.call("GET", "/topics/t/pop?wait=30s")).await;
    let refused = api.get("/topics/t/pop?wait=30s").await;
    assert_eq!(refused.header("retry-after"), "1");
    refused.expect_problem(503, "too_many_waiting");
    parked.abort();
}

async fn invalid_parameters_are_refused(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    for query in [
        "wiat=20s",
        "wait=soon",
        "wait=-1",
        "wait=NaN",
        "wait=1e300",
        "wait=",
        "wait=1&wait=2",
        "wait=%ff",
        "ttr=0",
        "ttr=31d",
        "ttr=x",
        "wait=1&limit=5",
        "max=3",
    ] {
        api.get(&format!("/topics/t/pop?{query}")).await.expect_problem(400, "invalid_parameter");
    }
    let both = api.get("/topics/t/pop?wait=x&ttr=y&z=1").await.expect_problem(400, "invalid_parameter");
    assert_eq!(
        crate::harness::api::error_locations(&both),
        ["wait", "ttr", "z"],
        "all faults are reported together"
    );
    assert_eq!(api.get("/jobs/a").await.json()["attempts"], 0);
}

async fn jobs_are_popped_by_due_time(engine: Engine) {
    let api = Api::new(engine).await;
    for delay in [3, 1, 2] {
        api.add(&format!(r#"{{"topic":"t","id":"{delay}","delay":{delay}}}"#)).await;
    }
    api.advance_and_promote(seconds(3)).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(text(&api.pop("t").await["id"]).to_owned());
    }
    assert_eq!(ids, ["1", "2", "3"]);
}

async fn a_non_blocking_pop_is_answered_behind_any_number_of_blocking_ones(engine: Engine) {
    let api = Api::new(engine).await;
    // More jobs than one call to the store reserves.
    let many = r#"{"topics":["t"],"max":300,"wait":30}"#;
    let parked = api.park(api.call("POST", "/batch/pop").json(many)).await;
    let behind = async {
        api.get("/topics/t/pop").await.expect(204);
        let response = api.send("POST", "/batch/pop", r#"{"topics":["u","t"],"max":5}"#).await.expect(200);
        assert_eq!(response.body, "{\"jobs\":[]}\n");
    };
    tokio::time::timeout(seconds(60), behind).await.expect("is answered at once");
    let second = api.park(api.call("POST", "/batch/pop").json(r#"{"topics":["u","t"],"wait":30}"#)).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    assert_eq!(parked.await.expect("ends").expect(200).json()["jobs"][0]["id"], "a");
    api.add(r#"{"topic":"t","id":"b"}"#).await;
    assert_eq!(second.await.expect("ends").expect(200).json()["jobs"][0]["id"], "b");
}

async fn a_pop_with_jobs_searches_further_for_at_most_half_a_second(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    api.add(r#"{"topic":"u","id":"b"}"#).await;
    let (second, third) = (api.store.hang(&topic("u")), api.store.hang(&topic("v")));
    let request = r#"{"topics":["t","u","v"],"max":5}"#;
    let pop = tokio::spawn(api.call("POST", "/batch/pop").json(request).send());
    api.until(|| second.hung_calls() == 1).await;
    api.clock.advance(millis(500));
    let popped = pop.await.expect("ends").expect(200).json();
    let ids: Vec<_> = popped["jobs"].as_array().expect("jobs").iter().map(|job| text(&job["id"])).collect();
    assert_eq!(ids, ["a"]);
    assert_eq!(third.hung_calls(), 0, "no time was left to search another topic");
    second.release();
    let late = api.get("/topics/u/pop?wait=30").await.expect(200).json();
    assert_eq!((text(&late["id"]), &late["attempt"]), ("b", &json!(1)), "the job was returned uncounted");
}

/// Pops and polls of an empty topic cost the embedded engine nothing.
#[tokio::test]
async fn a_pop_does_not_ask_the_store_for_a_topic_without_ready_jobs() {
    let api = Api::new(Engine::Embedded).await;
    let reserved = async || {
        let page = api.get("/metrics").await.expect(200).body;
        let metrics = std::str::from_utf8(&page).expect("text");
        metrics.contains(r#"linger_store_operation_duration_seconds_count{operation="reserve""#)
    };
    api.add(r#"{"topic":"t","id":"a","delay":5}"#).await;
    api.get("/topics/t/pop").await.expect(204);
    api.send("POST", "/batch/pop", r#"{"topics":["u","t"],"max":5}"#).await.expect(200);
    let parked = api.park(api.call("GET", "/topics/t/pop?wait=30")).await;
    assert!(!reserved().await);
    api.advance_and_promote(seconds(5)).await;
    assert_eq!(parked.await.expect("ends").expect(200).json()["id"], "a");
    assert!(reserved().await);
}

/// As if the process had been stopped for a while: another client may have reserved the job by then.
async fn fault_a_reservation_that_has_ended_is_not_handed_out(engine: Engine) {
    for many in [false, true] {
        let api = Api::with(engine, Setup { no_timer: true, ..Setup::default() }).await;
        api.add(r#"{"topic":"t","id":"a","ttr":5}"#).await;
        let call = || match many {
            false => api.call("GET", "/topics/t/pop"),
            true => api.call("POST", "/batch/pop").json(r#"{"topics":["t"],"max":3}"#),
        };
        let response = call().head().await;
        api.clock.advance(seconds(5));
        assert!(response.into_body().collect().await.is_err(), "the response is cut off");
        let queue = api.queue.clone();
        let job = bounded("the job is returned", async {
            loop {
                let job = queue.get(ALL, &id("a")).await.expect("is there");
                if job.state() == State::Ready {
                    break job;
                }
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(job.await.attempts, 0, "the attempt is not counted");
        // Just before its end, the reservation is still handed out.
        let response = call().head().await;
        api.clock.advance(seconds(4));
        assert!(response.into_body().collect().await.is_ok());
    }
}

#[tokio::test]
async fn fault_a_reservation_that_ends_before_the_store_has_answered_is_not_handed_out() {
    let api = Api::with(Engine::Naive, Setup { no_timer: true, ..Setup::default() }).await;
    api.add(r#"{"topic":"t","id":"a","ttr":5}"#).await;
    let hung = api.store.hang(&topic("t"));
    let pop = tokio::spawn(api.call("GET", "/topics/t/pop").send());
    api.until(|| hung.hung_calls() > 0).await;
    api.clock.advance(seconds(5));
    hung.release();
    bounded("the pop", pop).await.expect("is answered").expect(204);
}
