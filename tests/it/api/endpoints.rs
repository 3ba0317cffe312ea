//! What the server learns of the endpoints of callbacks, what it says of them, and when a change of a topic reaches outlets
//! that wait.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use linger::{clock::Clock, config::CallbackSettings, job::CallbackUrl, store::Store};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{
    calling::{Endpoint, api, job_in, pass, set_url},
    logs::{Log, record},
    on_every_engine,
};
use crate::harness::{
    api::{Api, Setup},
    failing::{Fault, HungCalls},
    jobs::{called, millis, seconds},
    stores::Engine,
    wait::{TimeLimit, until},
};

on_every_engine!(
    a_new_url_is_called_while_the_old_one_rests,
    an_endpoint_that_rests_is_called_at_once_on_demand,
    a_new_url_is_called_while_all_calls_to_the_old_one_hang,
    a_raised_rate_reaches_jobs_that_wait_for_it,
    a_raised_concurrency_reaches_jobs_that_wait_for_it,
    a_stored_job_is_not_called_where_jobs_may_have_no_callbacks,
);

const ANSWER: &[u8] = b"HTTP/1.1 204 Done\r\nconnection: close\r\n\r\n";

/// An endpoint that takes requests and never answers.
pub(super) struct Silent {
    pub(super) url: String,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Silent {
    pub(super) async fn start() -> Self {
        Self::start_after(0).await
    }

    /// An endpoint that has answered this number of calls, each on a connection of its own, before it falls silent.
    async fn start_after(answers: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("http://{}/", listener.local_addr().expect("has an address"));
        let connections: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let kept = connections.clone();
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let number = kept.lock().expect("not poisoned").len();
                if number < answers {
                    let _ = connection.read(&mut [0; 4_096]).await;
                    connection.write_all(ANSWER).await.expect("is read");
                }
                kept.lock().expect("not poisoned").push(connection);
            }
        });
        Self { url, connections }
    }

    /// How many connections it has had.
    pub(super) fn calls(&self) -> usize {
        self.connections.lock().expect("not poisoned").len()
    }

    pub(super) async fn called(&self, times: usize) {
        until(|| self.calls() >= times).await;
    }
}

/// An endpoint whose host has another number than that of `url`.
async fn other_endpoint(api: &Api, url: &str) -> Endpoint {
    let number = |url: &str| api.queue.host_number(CallbackUrl::parse(url).expect("valid").origin());
    loop {
        let endpoint = Endpoint::start(Vec::new()).await;
        if number(&endpoint.url) != number(url) {
            return endpoint;
        }
    }
}

/// Waits until the endpoint of topic `t` rests.
async fn resting(api: &Api) {
    let limit = TimeLimit::new();
    loop {
        let shown = api.get("/topics/t/callbacks").await.expect(200).json();
        if shown["endpoints"][0]["resting_until"].is_string() {
            return;
        }
        limit.check(|| shown.to_string());
        limit.pause().await;
    }
}

async fn a_new_url_is_called_while_the_old_one_rests(engine: Engine) {
    let api = api(engine).await;
    let old = Endpoint::start(vec![(503, vec![("retry-after", "60")], "")]).await;
    let new = other_endpoint(&api, &old.url).await;
    set_url(&api, Some(&old.url)).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    job_in(&api, "a", "delayed").await;
    resting(&api).await;
    api.add(r#"{"topic":"t","id":"b"}"#).await;
    set_url(&api, Some(&new.url)).await;
    new.received(1).await;
    job_in(&api, "b", "gone").await;
    old.received(1).await;
}

async fn an_endpoint_that_rests_is_called_at_once_on_demand(engine: Engine) {
    let api = api(engine).await;
    let away = || (503, vec![("retry-after", "60")], "");
    let endpoint = Endpoint::start(vec![away(), away()]).await;
    set_url(&api, Some(&endpoint.url)).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    job_in(&api, "a", "delayed").await;
    resting(&api).await;
    api.add(r#"{"topic":"t","id":"b"}"#).await;
    api.post("/topics/t/callbacks/call").await.expect(204);
    endpoint.received(2).await;
    job_in(&api, "b", "delayed").await;
    resting(&api).await;
    // Not while delivery is paused; the third answer is a success.
    api.add(r#"{"topic":"t","id":"c"}"#).await;
    api.send("POST", "/topics/t/pause", r#"{"delivery":true}"#).await.expect(200);
    api.clock.advance(millis(1));
    api.post("/topics/t/callbacks/call").await.expect(204);
    assert_eq!(api.get("/jobs/c").await.expect(200).json()["state"], "ready");
    api.post("/topics/t/resume").await.expect(200);
    job_in(&api, "c", "gone").await;
    endpoint.received(3).await;
    api.post("/topics/none/callbacks/call").await.expect_problem(404, "topic_not_found");
}

async fn a_new_url_is_called_while_all_calls_to_the_old_one_hang(engine: Engine) {
    let (api, old) = (api(engine).await, Silent::start().await);
    let new = other_endpoint(&api, &old.url).await;
    set_url(&api, Some(&old.url)).await;
    add_jobs(&api, 2).await;
    old.called(1).await;
    set_url(&api, Some(&new.url)).await;
    new.received(1).await;
}

async fn add_jobs(api: &Api, count: usize) {
    let jobs: Vec<_> = (0..count).map(|n| json!({"topic": "t", "id": n.to_string()})).collect();
    api.send("POST", "/batch/jobs", &json!({"jobs": jobs}).to_string()).await.expect(200);
}

async fn put_callback(api: &Api, callback: Value) {
    api.send("PUT", "/topics/t", &json!({"callback": callback}).to_string()).await.expect(200);
}

async fn a_raised_rate_reaches_jobs_that_wait_for_it(engine: Engine) {
    let (api, endpoint) = (api(engine).await, Endpoint::start(Vec::new()).await);
    put_callback(&api, json!({"url": endpoint.url, "rate": 0.01})).await;
    add_jobs(&api, 2).await;
    endpoint.received(1).await;
    put_callback(&api, json!({"url": endpoint.url, "rate": 1_000})).await;
    let (began_us, limit) = (api.clock.now_micros(), TimeLimit::new());
    while endpoint.calls() < 2 {
        limit.check(|| "one job waits".to_owned());
        limit.pause().await;
        api.clock.advance(Duration::from_millis(1));
    }
    let took_us = api.clock.now_micros() - began_us;
    assert!(took_us < 99_000_000, "the second call came by the old rate, after {took_us} us");
}

async fn a_raised_concurrency_reaches_jobs_that_wait_for_it(engine: Engine) {
    let (api, endpoint) = (api(engine).await, Silent::start_after(1).await);
    put_callback(&api, json!({"url": endpoint.url, "concurrency": 1})).await;
    api.add(r#"{"topic":"t","id":"first"}"#).await;
    job_in(&api, "first", "gone").await;
    add_jobs(&api, 2).await;
    endpoint.called(2).await;
    put_callback(&api, json!({"url": endpoint.url, "concurrency": 2})).await;
    endpoint.called(3).await;
}

async fn a_stored_job_is_not_called_where_jobs_may_have_no_callbacks(engine: Engine) {
    let callbacks = Some(CallbackSettings { in_jobs: false, ..CallbackSettings::default() });
    let api = Api::with(engine, Setup { callbacks, ..Setup::default() }).await;
    let endpoint = Endpoint::start(Vec::new()).await;
    // As if it had been added before the setting was changed, or imported.
    api.store.add(vec![called("a", &endpoint.url)]).await.expect("adds");
    let job = job_in(&api, "a", "delayed").await;
    assert_eq!(job["reason"], "address_refused: forbidden by the setting callbacks.in_jobs");
    // The topic's own URL may be called.
    set_url(&api, Some(&endpoint.url)).await;
    api.add(r#"{"topic":"t","id":"b"}"#).await;
    assert_eq!(endpoint.received(1).await[0].header("linger-job"), "b");
}

#[tokio::test]
async fn a_slow_store_is_handed_the_set_aside_jobs_of_one_turn_at_a_time() {
    const JOBS: usize = 200;
    let api = api(Engine::Naive).await;
    let away = Endpoint::start(vec![(503, vec![("retry-after", "60")], "")]).await;
    let other = Endpoint::start(Vec::new()).await;
    let own = |id: usize| json!({"topic": "t", "id": id.to_string(), "callback": {"url": away.url}});
    api.add(&own(0).to_string()).await;
    job_in(&api, "0", "delayed").await;
    resting(&api).await;
    let hung = HungCalls::new();
    let of_store = hung.clone();
    api.store.choose_faults(Some(Box::new(move |called| {
        let hung = (called == "postpone").then(|| of_store.clone());
        Fault { hung, ..Fault::default() }
    })));
    let jobs: Vec<_> = (1..=JOBS).map(own).collect();
    api.send("POST", "/batch/jobs", &json!({"jobs": jobs}).to_string()).await.expect(200);
    // The window of an endpoint whose first call failed: so many jobs are reserved, and set aside.
    until(|| hung.hung_calls() == 4).await;
    // The pause that follows is over; the job of another topic shows that all turns that may begin now have begun.
    api.clock.advance(seconds(1));
    let job = json!({"topic": "other", "id": "other", "callback": {"url": other.url}});
    api.add(&job.to_string()).await;
    job_in(&api, "other", "gone").await;
    let counts = async || api.get("/topics/t").await.expect(200).json()["counts"].clone();
    assert_eq!((hung.hung_calls(), counts().await["reserved"].as_u64()), (4, Some(4)));
    hung.release();
    let limit = TimeLimit::new();
    while counts().await["delayed"] != JOBS + 1 {
        limit.check(|| "not all jobs wait for the end of the rest".to_owned());
        limit.pause().await;
        api.clock.advance(millis(10));
    }
    away.received(1).await;
}

#[tokio::test]
async fn the_duration_of_a_call_ends_with_the_head_of_the_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let url = format!("http://{}/", listener.local_addr().expect("has an address"));
    let endpoint = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.expect("is called");
        connection.write_all(b"HTTP/1.1 500 No\r\ncontent-length: 10\r\n\r\n").await.expect("is read");
        connection
    });
    let api = api(Engine::Naive).await;
    set_url(&api, Some(&url)).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    let _connection = endpoint.await.expect("answers");
    // The body is waited for, for a second.
    let body_ends_us = api.clock.now_micros() + 1_000_000;
    until(|| api.clock.has_sleeper_until(body_ends_us)).await;
    pass(&api, seconds(1)).await;
    job_in(&api, "a", "delayed").await;
    let limit = TimeLimit::new();
    loop {
        let page = String::from_utf8(api.get("/metrics").await.expect(200).body.to_vec()).expect("is text");
        if page.contains(r#"linger_callback_seconds_count{result="failed"} 1"#) {
            let sum = r#"linger_callback_seconds_sum{result="failed"} 0.0"#;
            assert!(page.lines().any(|line| line == sum), "{page}");
            return;
        }
        limit.check(|| page.clone());
        limit.pause().await;
    }
}

#[tokio::test]
async fn rests_are_logged_with_the_topic_and_the_host_alone() {
    let log = Log::default();
    let _recording = record(&log, tracing::Level::INFO);
    let api = api(Engine::Naive).await;
    let endpoint = Endpoint::start(vec![(503, vec![("retry-after", "20")], "a body")]).await;
    set_url(&api, Some(&endpoint.url)).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    job_in(&api, "a", "delayed").await;
    resting(&api).await;
    pass(&api, seconds(20)).await;
    job_in(&api, "a", "gone").await;
    until(|| log.text().contains("its rest is over")).await;
    let log = log.text();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("linger::push")).collect();
    assert_eq!(lines.len(), 2, "{log}");
    let origin = endpoint.url.trim_end_matches("/hook?a=b");
    for (line, parts) in lines.iter().zip([["WARN", "2026-11-21T05:40:20.000Z"], ["INFO", "after_s=20"]]) {
        for part in parts.into_iter().chain(["topic=t", &format!("origin={origin} ")]) {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains("hook") && !line.contains("body"), "{line}");
    }
}
