//! Callbacks, from the job that is due to the settled one. The endpoints are real servers on loopback; the clock is manual.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use axum::{
    Router,
    body::{Bytes, to_bytes},
    extract::Request,
    http::{HeaderMap, Response as Answer},
};
use linger::{
    clock::Clock,
    config::CallbackSettings,
    job::{Callback, CallbackUrl, RetrySchedule, Topic, TopicCallback, TopicSettings},
};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::on_every_engine;
use crate::harness::{
    api::{Api, Setup, text},
    jobs::{millis, seconds},
    stores::Engine,
};

on_every_engine!(
    a_due_job_is_posted_to_the_url_of_its_topic_and_finished,
    a_failed_call_is_repeated_by_the_schedule,
    a_job_whose_attempts_are_used_is_dead_with_the_reason,
    an_endpoint_may_hold_a_job_and_finish_it_itself,
    an_endpoint_may_refuse_a_job_for_good,
    a_topic_with_a_url_is_not_popped,
    a_new_url_reaches_jobs_that_wait_and_its_removal_gives_them_to_workers,
    a_topic_is_called_only_when_its_pause_is_over,
    the_endpoints_of_a_topic_are_shown,
    a_job_is_finished_before_the_body_of_the_answer_has_ended,
    a_job_with_a_callback_of_its_own_is_never_popped,
    a_topic_is_called_at_its_rate,
    a_hint_without_a_job_costs_no_call,
    a_job_whose_ttr_was_made_short_is_called,
);

/// A request as an endpoint received it.
#[derive(Debug, Clone)]
pub(super) struct Received {
    line: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Received {
    pub(super) fn header(&self, name: &str) -> &str {
        self.text(name).unwrap_or_else(|| panic!("{name} is missing: {self:?}"))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("is text"))
    }
}

pub(super) type PlannedAnswer = (u16, Vec<(&'static str, &'static str)>, &'static str);

/// An endpoint that answers as planned, and then 204.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Endpoint {
    pub(super) async fn start(answers: Vec<PlannedAnswer>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("http://{}/hook?a=b", listener.local_addr().expect("has an address"));
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let (log, answers) = (received.clone(), Arc::new(Mutex::new(VecDeque::from(answers))));
        let handler = async move |request: Request| {
            let (head, body) = request.into_parts();
            let body = to_bytes(body, usize::MAX).await.expect("is sent whole");
            let line = format!("{} {} {:?}", head.method, head.uri, head.version);
            lock(&log).push(Received { line, headers: head.headers, body });
            let (status, headers, body) = lock(&answers).pop_front().unwrap_or((204, Vec::new(), ""));
            let answer = headers
                .into_iter()
                .fold(Answer::builder().status(status), |answer, (name, value)| answer.header(name, value));
            answer.body(axum::body::Body::from(body)).expect("is valid")
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(handler)).await });
        Self { url, received }
    }

    /// How many requests it has received.
    pub(super) fn calls(&self) -> usize {
        lock(&self.received).len()
    }

    /// Waits until it has received `n` requests in all, and returns them.
    pub(super) async fn received(&self, n: usize) -> Vec<Received> {
        crate::harness::wait::until(|| self.calls() >= n).await;
        let received = lock(&self.received).clone();
        assert_eq!(received.len(), n, "{received:?}");
        received
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("not poisoned")
}

pub(super) async fn api(engine: Engine) -> Api {
    Api::with(engine, Setup { callbacks: Some(CallbackSettings::default()), ..Setup::default() }).await
}

/// Sets the callback of topic `t`, with a schedule of 15 s and 3 min.
pub(super) async fn set_url(api: &Api, url: Option<&str>) {
    let steps = vec![seconds(15), seconds(180)];
    let target = url.map(|url| Callback::to(CallbackUrl::parse(url).expect("valid")));
    let settings = TopicSettings {
        retry: Some(RetrySchedule::new(steps).expect("valid")),
        callback: TopicCallback { target, ..TopicCallback::default() },
        ..TopicSettings::default()
    };
    api.queue.put_settings(&topic(), settings).await.expect("is set");
}

fn topic() -> Topic {
    Topic::parse("t").expect("valid")
}

/// Waits until the job is in `state`, and returns it.
pub(super) async fn job_in(api: &Api, id: &str, state: &str) -> serde_json::Value {
    let limit = crate::harness::wait::TimeLimit::new();
    loop {
        let response = api.get(&format!("/jobs/{id}")).await;
        let job = if response.status == 404 { json!({"state": "gone"}) } else { response.json() };
        if job["state"] == state {
            return job;
        }
        limit.check(|| job.to_string());
        limit.pause().await;
    }
}

/// Makes what is due within `time` ready.
pub(super) async fn pass(api: &Api, time: Duration) {
    api.advance_and_promote(time).await;
}

async fn a_due_job_is_posted_to_the_url_of_its_topic_and_finished(engine: Engine) {
    let (api, endpoint) = (api(engine).await, Endpoint::start(Vec::new()).await);
    set_url(&api, Some(&endpoint.url)).await;
    let added =
        api.add(r#"{"topic":"t","id":"orders:1001:close","delay":"30m","body":{"order": 1001}}"#).await;
    pass(&api, seconds(1_799)).await;
    assert_eq!(endpoint.calls(), 0, "not early");
    pass(&api, seconds(1)).await;
    let request = endpoint.received(1).await.remove(0);
    job_in(&api, "orders:1001:close", "gone").await;
    assert_eq!(request.line, "POST /hook?a=b HTTP/1.1");
    assert_eq!(request.body, &b"{\"order\": 1001}"[..], "byte for byte");
    let host = endpoint.url.trim_start_matches("http://").split('/').next().expect("a host");
    for (name, value) in [
        ("host", host),
        ("user-agent", concat!("Linger/", env!("CARGO_PKG_VERSION"))),
        ("content-type", "application/json"),
        ("content-length", "15"),
        ("webhook-timestamp", "1795241400"),
        ("linger-topic", "t"),
        ("linger-job", "orders:1001:close"),
        ("linger-attempt", "1"),
        ("linger-due", "2026-11-21T06:10:00.000Z"),
    ] {
        assert_eq!(request.header(name), value, "{name}");
    }
    assert_eq!(text(&added["due_at"]), "2026-11-21T06:10:00.000Z");
    let id = request.header("webhook-id").strip_prefix("msg_").expect("begins with msg_");
    assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
    assert_eq!(request.header("linger-receipt").len(), 32);
    assert!(!request.headers.contains_key("webhook-signature"), "there is no secret");
}

async fn a_failed_call_is_repeated_by_the_schedule(engine: Engine) {
    let endpoint = Endpoint::start(vec![(500, Vec::new(), "no\ndatabase"), (503, Vec::new(), "")]).await;
    let api = api(engine).await;
    set_url(&api, Some(&endpoint.url)).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    let mut earliest_s = 15.0;
    for (attempt, reason) in [(1, "http_500: no database"), (2, "http_503")] {
        let request = endpoint.received(attempt).await.remove(attempt - 1);
        assert_eq!(request.header("linger-attempt"), attempt.to_string());
        let job = job_in(&api, "a", "delayed").await;
        assert_eq!((&job["reason"], &job["attempts"]), (&json!(reason), &json!(attempt)));
        // The step, up to a tenth longer.
        pass(&api, Duration::from_secs_f64(earliest_s - 0.001)).await;
        assert_eq!(endpoint.calls(), attempt, "not before its step");
        pass(&api, Duration::from_secs_f64(earliest_s / 10.0 + 0.002)).await;
        earliest_s = 180.0;
    }
    let requests = endpoint.received(3).await;
    job_in(&api, "a", "gone").await;
    let ids: Vec<_> = requests.iter().map(|request| request.header("webhook-id")).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let mut receipts: Vec<_> = requests.iter().map(|request| request.header("linger-receipt")).collect();
    receipts.dedup();
    assert_eq!(receipts.len(), 3, "each attempt has its own");
}

async fn a_job_whose_attempts_are_used_is_dead_with_the_reason(engine: Engine) {
    let endpoint = Endpoint::start(vec![(302, vec![("location", "http://169.254.169.254/")], "")]).await;
    let api = api(engine).await;
    set_url(&api, Some(&endpoint.url)).await;
    api.add(r#"{"topic":"t","id":"a","max_attempts":1}"#).await;
    let job = job_in(&api, "a", "dead").await;
    assert_eq!(job["reason"], "http_302: not followed to http://169.254.169.254/");
    endpoint.received(1).await;
}

async fn an_endpoint_may_hold_a_job_and_finish_it_itself(engine: Engine) {
    let endpoint = Endpoint::start(vec![(202, vec![("linger-hold", "10m")], "")]).await;
    let api = api(engine).await;
    set_url(&api, Some(&endpoint.url)).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    let request = endpoint.received(1).await.remove(0);
    let limit = crate::harness::wait::TimeLimit::new();
    while job_in(&api, "a", "reserved").await["reserved_until"] != "2026-11-21T05:50:00.000Z" {
        limit.check(|| "the reservation is not extended".to_owned());
        limit.pause().await;
    }
    let finish = format!("/jobs/a/finish?receipt={}", request.header("linger-receipt"));
    api.post(&finish).await.expect(204);
}

async fn an_endpoint_may_refuse_a_job_for_good(engine: Engine) {
    let no = vec![("linger-retry", "no")];
    let endpoint = Endpoint::start(vec![(410, Vec::new(), "gone"), (422, no, "no such order")]).await;
    let api = api(engine).await;
    set_url(&api, Some(&endpoint.url)).await;
    for (id, reason) in [("a", "http_410: gone"), ("b", "http_422: no such order")] {
        api.add(&format!(r#"{{"topic":"t","id":"{id}"}}"#)).await;
        assert_eq!(job_in(&api, id, "dead").await["reason"], reason);
    }
}

async fn a_topic_with_a_url_is_not_popped(engine: Engine) {
    let (api, endpoint) = (api(engine).await, Endpoint::start(Vec::new()).await);
    let parked = api.park(api.call("GET", "/topics/t/pop?wait=60s")).await;
    set_url(&api, Some(&endpoint.url)).await;
    parked.await.expect("ends").expect(204);
    for refused in [
        api.get("/topics/t/pop").await,
        api.post("/topics/t/pop").await,
        api.send("POST", "/batch/pop", r#"{"topics":["other","t"]}"#).await,
    ] {
        assert_eq!(refused.expect(409).json()["code"], "topic_has_callback");
    }
    api.get("/topics/other/pop").await.expect(204);
}

async fn a_new_url_reaches_jobs_that_wait_and_its_removal_gives_them_to_workers(engine: Engine) {
    let (api, endpoint) = (api(engine).await, Endpoint::start(Vec::new()).await);
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    set_url(&api, Some(&endpoint.url)).await;
    endpoint.received(1).await;
    job_in(&api, "a", "gone").await;
    set_url(&api, None).await;
    api.add(r#"{"topic":"t","id":"b"}"#).await;
    assert_eq!(api.pop("t").await["id"], "b");
    endpoint.received(1).await;
}

async fn a_topic_is_called_only_when_its_pause_is_over(engine: Engine) {
    let (api, endpoint) = (api(engine).await, Endpoint::start(Vec::new()).await);
    set_url(&api, Some(&endpoint.url)).await;
    api.send("POST", "/topics/t/pause", r#"{"delivery":true}"#).await.expect(200);
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    // A call for another topic begins after the paused one had its turn.
    let other = Endpoint::start(Vec::new()).await;
    let target = Callback::to(CallbackUrl::parse(&other.url).expect("valid"));
    let callback = TopicCallback { target: Some(target), ..TopicCallback::default() };
    let settings = TopicSettings { callback, ..TopicSettings::default() };
    api.queue.put_settings(&Topic::parse("other").expect("valid"), settings).await.expect("is set");
    api.add(r#"{"topic":"other","id":"b"}"#).await;
    other.received(1).await;
    // The pause that counts is the last one.
    api.send("POST", "/topics/t/pause", r#"{"delivery":true,"until":"20s"}"#).await.expect(200);
    api.clock.advance(seconds(20) - millis(1));
    assert_eq!(job_in(&api, "a", "ready").await["attempts"], 0);
    api.clock.advance(millis(1));
    endpoint.received(1).await;
    job_in(&api, "a", "gone").await;
}

async fn the_endpoints_of_a_topic_are_shown(engine: Engine) {
    let asks_for_rest = vec![(503, vec![("retry-after", "20")], "")];
    let (api, endpoint) = (api(engine).await, Endpoint::start(asks_for_rest).await);
    api.get("/topics/t/callbacks").await.expect(404);
    set_url(&api, Some(&endpoint.url)).await;
    assert_eq!(api.get("/topics/t/callbacks").await.expect(200).json()["endpoints"], json!([]));
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    job_in(&api, "a", "delayed").await;
    // The call is counted when its last step has ended, which may be after the job is seen.
    let (counted, limit) =
        (r#"linger_callbacks_total{topic="t",result="failed"} 1"#, crate::harness::wait::TimeLimit::new());
    let page = loop {
        let page = String::from_utf8(api.get("/metrics").await.expect(200).body.to_vec()).expect("is text");
        if page.contains(counted) {
            break page;
        }
        limit.check(|| format!("{counted} is missing in {page}"));
        tokio::task::yield_now().await;
    };
    let shown = api.get("/topics/t/callbacks").await.expect(200).json();
    let origin = endpoint.url.trim_end_matches("/hook?a=b");
    let expected = json!({
        "topic": "t", "host": origin, "in_flight": 0, "window": 4, "resting_until": "2026-11-21T05:40:20.000Z",
        "last_failure": {"at": "2026-11-21T05:40:00.000Z", "reason": "http_503"}, "minute": {"calls": 1, "succeeded": 0},
    });
    assert_eq!(shown["endpoints"], json!([expected]));
    for line in [
        "linger_callback_failures_total{reason=\"http_503\"} 1",
        "linger_callbacks_in_flight 0",
        "linger_callback_outlets{state=\"resting\"} 1",
    ] {
        assert!(page.contains(line), "{line} is missing in {page}");
    }
}

async fn a_job_is_finished_before_the_body_of_the_answer_has_ended(engine: Engine) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let url = format!("http://{}/", listener.local_addr().expect("has an address"));
    let endpoint = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.expect("is called");
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n").await.expect("is read");
        connection
    });
    let api = api(engine).await;
    set_url(&api, Some(&url)).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    let _connection = endpoint.await.expect("answers");
    job_in(&api, "a", "gone").await;
}

async fn a_job_with_a_callback_of_its_own_is_never_popped(engine: Engine) {
    let (api, endpoint) = (api(engine).await, Endpoint::start(vec![(500, Vec::new(), "")]).await);
    let own =
        json!({"topic": "t", "id": "own", "retry": [60], "callback": {"url": endpoint.url, "method": "PUT"}});
    api.add(&own.to_string()).await;
    api.add(r#"{"topic":"t","id":"plain"}"#).await;
    let request = endpoint.received(1).await.remove(0);
    assert_eq!(request.line, "PUT /hook?a=b HTTP/1.1");
    job_in(&api, "own", "delayed").await;
    let popped = api.pop("t").await;
    assert_eq!(popped["id"], "plain");
    api.post(&format!("/jobs/plain/finish?receipt={}", text(&popped["receipt"]))).await.expect(204);
    pass(&api, seconds(66)).await;
    assert_eq!(endpoint.received(2).await[1].header("linger-attempt"), "2");
    job_in(&api, "own", "gone").await;
    api.get("/topics/t/pop").await.expect(204);
}

async fn a_topic_is_called_at_its_rate(engine: Engine) {
    let (api, endpoint) = (api(engine).await, Endpoint::start(Vec::new()).await);
    let settings = json!({"callback": {"url": endpoint.url, "rate": 2}});
    api.send("PUT", "/topics/t", &settings.to_string()).await.expect(200);
    let jobs: Vec<_> = (0..4).map(|n| json!({"topic": "t", "id": n.to_string()})).collect();
    api.send("POST", "/batch/jobs", &json!({"jobs": jobs}).to_string()).await.expect(200);
    let (began_us, limit) = (api.clock.now_micros(), crate::harness::wait::TimeLimit::new());
    while endpoint.calls() < 4 {
        limit.check(|| format!("{} calls", endpoint.calls()));
        limit.pause().await;
        api.clock.advance(Duration::from_millis(20));
    }
    let took_us = api.clock.now_micros() - began_us;
    assert!(took_us >= 1_500_000, "four calls at two a second within {took_us} us");
}

async fn a_hint_without_a_job_costs_no_call(engine: Engine) {
    let (api, endpoint) = (api(engine).await, Endpoint::start(Vec::new()).await);
    let settings = json!({"callback": {"url": endpoint.url, "rate": 0.01}});
    api.send("PUT", "/topics/t", &settings.to_string()).await.expect(200);
    api.store.ignore_waiting_callers(true);
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    api.until(|| api.store.waiting_reserves() > 0).await;
    api.store.ignore_waiting_callers(false);
    api.add(r#"{"topic":"t","id":"b"}"#).await;
    endpoint.received(1).await;
}

async fn a_job_whose_ttr_was_made_short_is_called(engine: Engine) {
    let (api, endpoint) = (api(engine).await, Endpoint::start(Vec::new()).await);
    let job = json!({"topic": "t", "id": "a", "delay": 60, "callback": {"url": endpoint.url, "timeout": 20}});
    assert_eq!(api.add(&job.to_string()).await["ttr"], 60);
    api.send("PATCH", "/jobs/a", r#"{"ttr":1}"#).await.expect(200);
    pass(&api, seconds(60)).await;
    endpoint.received(1).await;
    job_in(&api, "a", "gone").await;
}
