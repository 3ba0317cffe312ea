//! Jobs whose call cannot be settled at once, is not made, or is cut off. The store fails as a case demands, and the
//! clock is manual.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use linger::{clock::Clock, store::Error};
use serde_json::json;
use tokio::io::AsyncReadExt;

use super::{
    calling::{Endpoint, PlannedAnswer, api, job_in, pass, set_url},
    on_every_engine,
};
use crate::harness::{
    api::Api,
    failing::{Failure, Fault, HungCalls},
    jobs::{millis, seconds},
    stores::Engine,
    wait::TimeLimit,
};

on_every_engine!(
    an_outcome_is_applied_once_if_the_first_try_fails_or_its_reply_is_lost,
    a_job_whose_outcome_cannot_be_applied_before_its_ttr_ends_is_called_again,
    a_call_that_is_settled_after_its_ttr_leaves_the_job_to_the_next_call,
    a_2xx_that_comes_after_the_ttr_finishes_the_job_until_the_next_call,
    a_call_begins_only_while_its_timeout_is_left,
    what_was_not_sent_when_the_calls_stop_goes_back_uncounted,
    a_call_that_is_cut_off_keeps_its_reservation,
);

/// An answer, the operation of the store that applies it, the result of the call, and the state of the job afterwards.
struct Case {
    answer: PlannedAnswer,
    operation: &'static str,
    result: &'static str,
    state: &'static str,
}

const fn case(
    answer: PlannedAnswer,
    operation: &'static str,
    result: &'static str,
    state: &'static str,
) -> Case {
    Case { answer, operation, result, state }
}

/// The cases whose operation ends the reservation.
fn endings() -> Vec<Case> {
    vec![
        case((204, Vec::new(), ""), "finish", "ok", "gone"),
        case((500, Vec::new(), "no"), "release", "failed", "delayed"),
        case((410, Vec::new(), "no"), "bury", "refused", "dead"),
    ]
}

fn hold() -> PlannedAnswer {
    (202, vec![("linger-hold", "10m")], "")
}

/// Makes the first `count` calls of an operation fail, after they took effect or before. Returns the number of calls.
fn fail_first(api: &Api, operation: &'static str, count: usize, takes_effect: bool) -> Arc<AtomicUsize> {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    api.store.choose_faults(Some(Box::new(move |called| {
        if called != operation || counted.fetch_add(1, Ordering::Relaxed) >= count {
            return Fault::default();
        }
        let failure = Failure::Error(Error::Unavailable("as the test demanded".to_owned()));
        Fault { takes_effect, failure: Some(failure), hung: None }
    })));
    calls
}

/// Makes the calls of an operation hang from now on, after they took effect or before.
fn hang(api: &Api, operation: &'static str, takes_effect: bool) -> Arc<HungCalls> {
    let hung = HungCalls::new();
    let hung_calls = hung.clone();
    api.store.choose_faults(Some(Box::new(move |called| {
        if called == operation {
            Fault { takes_effect, hung: Some(hung_calls.clone()), failure: None }
        } else {
            Fault::default()
        }
    })));
    hung
}

/// What the metrics say about the calls of topic `t`: each result and how often there was one, sorted.
async fn results(api: &Api) -> Vec<String> {
    let page = String::from_utf8(api.get("/metrics").await.expect(200).body.to_vec()).expect("is text");
    let results =
        page.lines().filter_map(|line| line.strip_prefix(r#"linger_callbacks_total{topic="t",result=""#));
    let mut results: Vec<String> = results.map(|result| result.replace(r#""}"#, "")).collect();
    results.sort();
    results
}

/// Lets time pass in steps of `step` until as many calls have ended as expected, and compares their results.
async fn pass_until_results(api: &Api, step: Duration, expected: &[&str]) {
    fn calls(results: &[impl AsRef<str>]) -> u32 {
        let counts =
            results.iter().filter_map(|result| result.as_ref().split(' ').nth(1)?.parse::<u32>().ok());
        counts.sum()
    }
    let limit = TimeLimit::new();
    loop {
        let results = results(api).await;
        if calls(&results) >= calls(expected) {
            assert_eq!(results, expected);
            return;
        }
        limit.check(|| format!("{results:?}, not {expected:?}"));
        pass(api, step).await;
        limit.pause().await;
    }
}

async fn an_outcome_is_applied_once_if_the_first_try_fails_or_its_reply_is_lost(engine: Engine) {
    for takes_effect in [true, false] {
        let mut cases = endings();
        cases.push(case(hold(), "touch", "held", "reserved"));
        for Case { answer, operation, result, state } in cases {
            let (api, endpoint) = (api(engine).await, Endpoint::start(vec![answer]).await);
            set_url(&api, Some(&endpoint.url)).await;
            let tries = fail_first(&api, operation, 1, takes_effect);
            api.add(r#"{"topic":"t","id":"a"}"#).await;
            api.until(|| tries.load(Ordering::Relaxed) > 0).await;
            pass_until_results(&api, millis(10), &[&format!("{result} 1")]).await;
            assert_eq!(tries.load(Ordering::Relaxed), 2, "{operation}");
            let job = job_in(&api, "a", state).await;
            assert!(state == "gone" || job["attempts"] == 1, "{job}");
            endpoint.received(1).await;
        }
    }
}

async fn a_job_whose_outcome_cannot_be_applied_before_its_ttr_ends_is_called_again(engine: Engine) {
    for Case { answer, operation, .. } in endings() {
        let endpoint = Endpoint::start(vec![answer.clone(), answer]).await;
        let api = api(engine).await;
        set_url(&api, Some(&endpoint.url)).await;
        let tries = fail_first(&api, operation, usize::MAX, false);
        api.add(r#"{"topic":"t","id":"a"}"#).await;
        api.add(r#"{"topic":"t","id":"last","max_attempts":1}"#).await;
        endpoint.received(2).await;
        api.until(|| tries.load(Ordering::Relaxed) >= 2).await;
        let (began_us, limit) = (api.clock.now_micros(), TimeLimit::new());
        while results(&api).await.is_empty() {
            limit.check(|| format!("{} tries", tries.load(Ordering::Relaxed)));
            pass(&api, millis(500)).await;
            limit.pause().await;
        }
        // A reservation lasts for the timeout of 30 s and 10 s more, and a try is repeated after 2 s at the latest.
        let tried_for_us = api.clock.now_micros() - began_us;
        assert!(
            (40_000_000..=43_000_000).contains(&tried_for_us),
            "{operation} was tried for {tried_for_us} us"
        );
        assert!(tries.load(Ordering::Relaxed) >= 20, "{tries:?} tries");
        pass_until_results(&api, millis(500), &["lost 2"]).await;
        let dead = job_in(&api, "last", "dead").await;
        assert_eq!((&dead["reason"], &dead["attempts"]), (&json!("ttr_expired"), &json!(1)));
        assert_eq!(job_in(&api, "a", "delayed").await["attempts"], 1);
        // The store is back, and the job is due after its step of 15 s.
        api.store.choose_faults(None);
        pass(&api, seconds(15)).await;
        assert_eq!(endpoint.received(3).await[2].header("linger-attempt"), "2");
        job_in(&api, "a", "gone").await;
    }
}

async fn a_call_that_is_settled_after_its_ttr_leaves_the_job_to_the_next_call(engine: Engine) {
    for Case { answer, operation, .. } in endings() {
        let endpoint = Endpoint::start(vec![answer, hold()]).await;
        let api = api(engine).await;
        set_url(&api, Some(&endpoint.url)).await;
        let settling = hang(&api, operation, false);
        api.add(r#"{"topic":"t","id":"a"}"#).await;
        api.until(|| settling.hung_calls() > 0).await;
        // The TTR ends, and the step of 15 s passes.
        pass(&api, seconds(40)).await;
        pass(&api, seconds(15)).await;
        pass_until_results(&api, Duration::ZERO, &["held 1"]).await;
        let held = job_in(&api, "a", "reserved").await;
        settling.release();
        pass_until_results(&api, Duration::ZERO, &["held 1", "lost 1"]).await;
        assert_eq!(job_in(&api, "a", "reserved").await, held, "{operation}");
        assert_eq!((&held["attempts"], endpoint.calls()), (&json!(2), 2));
    }
}

async fn a_2xx_that_comes_after_the_ttr_finishes_the_job_until_the_next_call(engine: Engine) {
    let endpoint = Endpoint::start(vec![(204, Vec::new(), ""), (204, Vec::new(), "")]).await;
    let api = api(engine).await;
    set_url(&api, Some(&endpoint.url)).await;
    let settling = hang(&api, "finish", false);
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    api.add(r#"{"topic":"t","id":"last","max_attempts":1}"#).await;
    api.until(|| settling.hung_calls() >= 2).await;
    // The TTR ends, and the step of 15 s does not pass.
    pass(&api, seconds(40)).await;
    assert_eq!(job_in(&api, "a", "delayed").await["attempts"], 1);
    job_in(&api, "last", "dead").await;
    settling.release();
    pass_until_results(&api, Duration::ZERO, &["ok 2"]).await;
    for id in ["a", "last"] {
        job_in(&api, id, "gone").await;
    }
    let hour = api.get("/stats").await.expect(200).json()["hour"].take();
    assert_eq!((&hour["finished"], &hour["finished_late"]), (&json!(2), &json!(2)));
    pass(&api, seconds(15)).await;
    endpoint.received(2).await;
}

async fn a_call_begins_only_while_its_timeout_is_left(engine: Engine) {
    // The reservation lasts for the timeout of 30 s and 10 s more.
    for (reserved_for, is_called) in [(millis(10_000), true), (millis(10_001), false)] {
        let (api, endpoint) = (api(engine).await, Endpoint::start(Vec::new()).await);
        set_url(&api, Some(&endpoint.url)).await;
        let first = hang(&api, "reserve", true);
        api.add(r#"{"topic":"t","id":"a"}"#).await;
        job_in(&api, "a", "reserved").await;
        let next = hang(&api, "reserve", false);
        api.clock.advance(reserved_for);
        first.release();
        api.until(|| next.hung_calls() > 0 || endpoint.calls() > 0).await;
        assert_eq!(endpoint.calls() > 0, is_called, "{reserved_for:?} after the reservation");
        if !is_called {
            assert_eq!(job_in(&api, "a", "ready").await["attempts"], 0);
        }
        next.release();
        assert_eq!(endpoint.received(1).await[0].header("linger-attempt"), "1");
        job_in(&api, "a", "gone").await;
    }
}

async fn what_was_not_sent_when_the_calls_stop_goes_back_uncounted(engine: Engine) {
    let (api, endpoint) = (api(engine).await, Endpoint::start(Vec::new()).await);
    set_url(&api, Some(&endpoint.url)).await;
    let reserves = hang(&api, "reserve", true);
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    assert_eq!(job_in(&api, "a", "reserved").await["attempts"], 1);
    api.stop_calls();
    reserves.release();
    assert_eq!(job_in(&api, "a", "ready").await["attempts"], 0);
    endpoint.received(0).await;
    assert_eq!(results(&api).await, [""; 0]);
}

async fn a_call_that_is_cut_off_keeps_its_reservation(engine: Engine) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let url = format!("http://{}/", listener.local_addr().expect("has an address"));
    let endpoint = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.expect("is called");
        connection.read_exact(&mut [0; 4]).await.expect("a request");
        connection
    });
    let api = api(engine).await;
    set_url(&api, Some(&url)).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    let _connection = endpoint.await.expect("is called");
    api.stop_calls();
    pass_until_results(&api, Duration::ZERO, &["cut 1"]).await;
    // The endpoint may be at work, so the job returns as after a crash.
    assert_eq!(job_in(&api, "a", "reserved").await["attempts"], 1);
    pass(&api, seconds(40)).await;
    assert_eq!(job_in(&api, "a", "delayed").await["attempts"], 1);
}
