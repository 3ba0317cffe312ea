//! What users see of callbacks, on real servers with the default settings.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use super::{Home, now, on_both_engines};
use crate::{
    harness::{
        blocking_http::call_until_begun,
        process::Server,
        receiver::{Answer, Receiver},
        wait::TimeLimit,
    },
    load::setting,
};

/// Jobs of a dead endpoint in the normal run, and of each that is called beside it.
const DEAD: u64 = 5_000;
const MANY: usize = 1_000;
const BATCH: usize = 1_000;
/// Most calls in progress to a host, and jobs that an outlet reserves in one turn to set them aside.
const MOST_CALLS: usize = 64;
const MOST_SET_ASIDE: usize = 64;
/// How long a connection may take, and the default timeout of a call.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(30);

on_both_engines! {
    a_job_that_is_deleted_during_its_call_is_not_called_again,
    a_good_endpoint_is_called_beside_a_dead_and_a_silent_one,
    a_topic_with_a_url_refuses_pops_until_the_url_is_removed,
    setting_a_url_has_the_jobs_that_wait_for_workers_called,
    jobs_that_were_ready_before_the_start_are_called_without_another_add,
    an_endpoint_that_holds_a_job_finishes_it_later,
}

#[track_caller]
pub fn call(server: &Server, method: &str, path: &str, body: &Value, status: u16) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let response = server.call(method, path, &body);
    assert_eq!(response.status, status, "{method} {path}: {response:?}");
    if response.body.is_empty() { Value::Null } else { response.json() }
}

#[track_caller]
pub fn add(server: &Server, job: Value) {
    call(server, "POST", "/jobs", &job, 201);
}

/// Waits until a job has gone.
pub async fn wait_until_gone(server: &Server, job: &str) {
    let time_limit = TimeLimit::new();
    loop {
        let response = server.call("GET", &format!("/jobs/{job}"), "");
        if response.status == 404 {
            return;
        }
        time_limit.check(|| format!("{response:?}"));
        time_limit.pause().await;
    }
}

/// The value of a metric with one label besides the topic.
pub fn callbacks_total(server: &Server, topic: &str, result: &str) -> f64 {
    let name = format!("linger_callbacks_total{{topic=\"{topic}\",result=\"{result}\"}}");
    server.metric(&name).unwrap_or_default()
}

pub async fn wait_for_callbacks(server: &Server, topic: &str, result: &str, count: f64) {
    let time_limit = TimeLimit::new();
    while callbacks_total(server, topic, result) < count {
        time_limit.check(|| server.call("GET", "/metrics", "").body);
        time_limit.pause().await;
    }
}

async fn a_job_that_is_deleted_during_its_call_is_not_called_again(home: Home) {
    let server = home.start();
    let receiver = Receiver::start(1, |call| match call.job() {
        "finishes" | "fails" => Answer::WhenOpen(if call.job() == "fails" { 500 } else { 204 }),
        _ => Answer::Status(204),
    })
    .await;
    let callback = json!({ "url": receiver.url(0, "/") });
    // Each of a topic of its own: a topic calls an endpoint that has never answered once at a time.
    for id in ["finishes", "fails"] {
        add(&server, json!({"topic": id, "id": id, "body": 1, "retry": [0], "callback": callback}));
        receiver.wait_for_calls_of(id, 1).await;
        call(&server, "DELETE", &format!("/jobs/{id}"), &Value::Null, 204);
    }
    receiver.open_gate();
    for topic in ["finishes", "fails"] {
        wait_for_callbacks(&server, topic, "lost", 1.0).await;
        add(&server, json!({"topic": topic, "id": format!("later-{topic}"), "callback": callback}));
    }
    for topic in ["finishes", "fails"] {
        let later = format!("later-{topic}");
        receiver.wait_for_calls_of(&later, 1).await;
        wait_until_gone(&server, &later).await;
        assert_eq!(receiver.calls_of(topic).len(), 1);
        assert_eq!(callbacks_total(&server, topic, "lost"), 1.0);
    }
}

/// The URL of a port that refuses connections, and the socket that keeps it from being given to others.
fn dead_port() -> (Socket, String) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port");
    let address = socket.local_addr().ok().and_then(|address| address.as_socket()).expect("has an address");
    (socket, format!("http://{address}/"))
}

/// Adds jobs, and does so again where the store did not answer in time: that is safe.
fn add_batch(server: &Server, body: &Value) -> Value {
    let time_limit = TimeLimit::new();
    loop {
        let answer = server.call("POST", "/batch/jobs", &body.to_string());
        if answer.status == 200 {
            return answer.json();
        }
        assert!(answer.body.contains("store_unavailable"), "{}", answer.body);
        time_limit.check(|| answer.body.clone());
    }
}

fn add_many(server: &Server, topic: &str, prefix: &str, url: &str, count: usize) {
    let jobs = |first: usize| -> Vec<Value> {
        let ids = (first..first + BATCH).map(|n| format!("{prefix}-{n}"));
        ids.map(|id| json!({"topic": topic, "id": id, "callback": {"url": url}})).collect()
    };
    for first in (0..count).step_by(BATCH) {
        let body = json!({ "jobs": jobs(first) });
        let response = add_batch(server, &body);
        let is_added = |result: &Value| result["status"] == 201 || result["status"] == 200;
        assert!(response["results"].as_array().expect("results").iter().all(is_added), "{response}");
    }
}

async fn a_good_endpoint_is_called_beside_a_dead_and_a_silent_one(home: Home) {
    let dead = usize::try_from(setting("LINGER_PROVE_DEAD_ENDPOINT", DEAD)).expect("fits");
    let server = home.start();
    let receiver =
        Receiver::start(2, |call| if call.port == 0 { Answer::Status(204) } else { Answer::Silence }).await;
    let (_dead, dead_url) = dead_port();
    add_many(&server, "t", "dead", &dead_url, dead);
    add_many(&server, "t", "silent", &receiver.url(1, "/"), MANY);
    add_many(&server, "t", "good", &receiver.url(0, "/"), MANY);
    wait_for_callbacks(&server, "t", "ok", MANY as f64).await;
    let calls = |prefix: &str| receiver.calls().iter().filter(|call| call.job().starts_with(prefix)).count();
    assert_eq!(calls("good"), MANY);
    // Where it shares the dead one's outlet, which one of 256 does, its jobs are behind those.
    let time_limit = TimeLimit::new();
    while calls("silent") == 0 {
        time_limit.check(|| "the silent endpoint was not called".to_owned());
        time_limit.pause().await;
    }
    // An outage does not use up the attempts: the jobs wait, and few of them were tried.
    let unreachable = callbacks_total(&server, "t", "unreachable");
    assert!((1.0..100.0).contains(&unreachable), "{unreachable} calls of the dead endpoint");
    assert!(calls("silent") <= MOST_CALLS, "{} calls of the silent endpoint", calls("silent"));
    let counts = call(&server, "GET", "/topics/t", &Value::Null, 200);
    let count = |state: &str| counts["counts"][state].as_u64().unwrap_or_default() as usize;
    assert_eq!(count("delayed") + count("ready") + count("reserved"), dead + MANY, "{counts}");
    // No job is reserved that is neither being called nor, one turn's at a time, being set aside behind those of other hosts.
    // The hosts that have jobs left are two, and each may have an outlet of its own. Only the silent one holds its calls.
    assert!(count("reserved") <= MOST_CALLS + 2 * MOST_SET_ASIDE, "{counts}");
}

async fn a_topic_with_a_url_refuses_pops_until_the_url_is_removed(home: Home) {
    let server = home.start();
    let address = server.address;
    let receiver = Receiver::start(1, |_| Answer::Silence).await;
    let poll = std::thread::spawn(move || call_until_begun(address, "GET", "/topics/t/pop?wait=60s", ""));
    server.wait_for_parked_polls(1);
    let callback = json!({ "url": receiver.url(0, "/") });
    call(&server, "PUT", "/topics/t", &json!({ "callback": callback }), 200);
    assert_eq!(poll.join().expect("does not panic").expect("is answered").status, 204);
    let refused = call(&server, "GET", "/topics/t/pop", &Value::Null, 409);
    assert_eq!(refused["code"], "topic_has_callback", "{refused}");
    let refused = call(&server, "POST", "/batch/pop", &json!({"topics": ["other", "t"], "max": 3}), 409);
    assert_eq!(refused["code"], "topic_has_callback", "{refused}");
    // While the topic is paused, its jobs wait for what is set when it is resumed.
    call(&server, "POST", "/topics/t/pause", &json!({"delivery": true}), 200);
    add(&server, json!({"topic": "t", "id": "a"}));
    call(&server, "PUT", "/topics/t", &json!({}), 200);
    call(&server, "POST", "/topics/t/resume", &json!({"delivery": true}), 200);
    let popped = call(&server, "GET", "/topics/t/pop?wait=60s", &Value::Null, 200);
    assert_eq!(popped["id"], "a");
    assert_eq!(receiver.calls().len(), 0);
}

async fn setting_a_url_has_the_jobs_that_wait_for_workers_called(home: Home) {
    let server = home.start();
    let receiver = Receiver::start(1, |_| Answer::Status(204)).await;
    add(&server, json!({"topic": "t", "id": "a"}));
    let callback = json!({ "url": receiver.url(0, "/") });
    call(&server, "PUT", "/topics/t", &json!({ "callback": callback }), 200);
    let calls = receiver.wait_for_calls_of("a", 1).await;
    assert_eq!(calls[0].attempt(), 1);
    wait_until_gone(&server, "a").await;
}

/// The variable of a process that leaves the calls to others.
const CALLS_NOBODY: [(&str, &str); 1] = [("LINGER__CALLBACKS__MAX_CALLS", "0")];

/// Adds jobs until one of them is called with this path: other processes follow a change within a second.
async fn wait_until_path_is_called(server: &Server, receiver: &Receiver, change: u32) {
    let (path, time_limit) = (format!("/{change}"), TimeLimit::new());
    for n in 0.. {
        let id = format!("probe-{change}-{n}");
        add(server, json!({"topic": "t", "id": id}));
        if receiver.wait_for_calls_of(&id, 1).await[0].target == path {
            return;
        }
        time_limit.check(|| format!("no call of {path}"));
        time_limit.pause().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_one_process_sets_and_changes_is_called_by_the_other() {
    const CHANGES: u32 = 3;
    let home = Home::redis();
    let (one, other) = (home.start_with(&CALLS_NOBODY), home.start());
    let receiver = Receiver::start(1, |call| match call.job() {
        "again" if call.attempt() < CHANGES => Answer::Status(500),
        _ => Answer::Status(204),
    })
    .await;
    let due_now = || call(&one, "PATCH", "/jobs/again", &json!({"delay": 0}), 200);
    let set_path = |change: u32| {
        let callback = json!({ "url": receiver.url(0, &format!("/{change}")) });
        call(&one, "PUT", "/topics/t", &json!({ "callback": callback }), 200);
    };
    // It waits for a worker when the other process learns of the URL.
    add(&other, json!({"topic": "t", "id": "waits"}));
    set_path(1);
    let waited = receiver.wait_for_calls_of("waits", 1).await;
    assert_eq!((waited[0].target.as_str(), waited[0].attempt()), ("/1", 1));
    add(&one, json!({"topic": "t", "id": "again", "retry": ["1h"], "max_attempts": CHANGES}));
    for change in 2..=CHANGES {
        receiver.wait_for_calls_of("again", change as usize - 1).await;
        wait_for_callbacks(&other, "t", "failed", f64::from(change - 1)).await;
        set_path(change);
        wait_until_path_is_called(&one, &receiver, change).await;
        due_now();
    }
    let calls = receiver.wait_for_calls_of("again", CHANGES as usize).await;
    let targets: Vec<&str> = calls.iter().map(|call| call.target.as_str()).collect();
    assert_eq!(targets, ["/1", "/2", "/3"]);
    wait_until_gone(&one, "again").await;
}

async fn jobs_that_were_ready_before_the_start_are_called_without_another_add(home: Home) {
    let receiver = Receiver::start(2, |_| Answer::Status(204)).await;
    let server = home.start_with(&CALLS_NOBODY);
    let [own, hooks] = [0, 1].map(|port| json!({ "url": receiver.url(port, "/") }));
    call(&server, "PUT", "/topics/hooks", &json!({ "callback": hooks }), 200);
    add(&server, json!({"topic": "hooks", "id": "a"}));
    add(&server, json!({"topic": "own", "id": "b", "callback": own}));
    for topic in ["hooks", "own"] {
        let topic = call(&server, "GET", &format!("/topics/{topic}"), &Value::Null, 200);
        assert_eq!(topic["counts"]["ready"], 1, "{topic}");
    }
    assert_eq!(receiver.calls().len(), 0);
    assert!(server.stop().success());
    let server = home.start();
    for id in ["a", "b"] {
        receiver.wait_for_calls_of(id, 1).await;
        wait_until_gone(&server, id).await;
    }
}

/// A port whose queue of connections is full: the system drops further attempts without an answer, as a firewall does.
fn full_port() -> ((Socket, TcpStream), String) {
    let (socket, url) = dead_port();
    socket.listen(0).expect("listens");
    let address = socket.local_addr().ok().and_then(|address| address.as_socket()).expect("has an address");
    let waiting = TcpStream::connect(address).expect("is the one connection that may wait");
    ((socket, waiting), url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_drops_attempts_to_connect_costs_the_connect_timeout() {
    let home = Home::embedded();
    let server = home.start();
    let (_full, url) = full_port();
    let began = now();
    add(&server, json!({"topic": "t", "id": "a", "retry": ["1h"], "callback": {"url": url}}));
    wait_for_callbacks(&server, "t", "unreachable", 1.0).await;
    let took = began.elapsed();
    assert!((CONNECT_TIMEOUT..TIMEOUT).contains(&took), "{took:?}");
    let job = call(&server, "GET", "/jobs/a", &Value::Null, 200);
    let reason = "connect_timeout: not connected in time";
    assert_eq!(
        (&job["state"], &job["attempts"], &job["reason"]),
        (&json!("delayed"), &json!(1), &json!(reason))
    );
    let failures = server.metric("linger_callback_failures_total{reason=\"connect_timeout\"}");
    assert_eq!(failures, Some(1.0));
}

/// The endpoint works for longer than its call, and uses the receipt like a worker.
async fn an_endpoint_that_holds_a_job_finishes_it_later(home: Home) {
    let server = home.start();
    let receiver = Receiver::start(1, |_| Answer::Hold(Duration::from_secs(600))).await;
    add(&server, json!({"topic": "t", "id": "a", "callback": {"url": receiver.url(0, "/")}}));
    let calls = receiver.wait_for_calls_of("a", 1).await;
    wait_for_callbacks(&server, "t", "held", 1.0).await;
    let job = call(&server, "GET", "/jobs/a", &Value::Null, 200);
    assert_eq!(job["state"], "reserved", "{job}");
    call(&server, "POST", &format!("/jobs/a/finish?receipt={}", calls[0].receipt()), &Value::Null, 204);
    wait_until_gone(&server, "a").await;
}
