//! Several real processes: at the same time on one Redis, and one after the other on one directory.

mod bulk;
mod pauses;
mod stats;

use std::path::Path;

use hyper::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{
    client::{Client, Response},
    process::Server,
    redis::{fresh_prefix, shared},
    wait::TimeLimit,
};

/// A directory with a `settings.toml`, by which every server started in it uses the same Redis prefix.
struct SharedPrefix(tempfile::TempDir);

impl SharedPrefix {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let url = shared().url();
        let settings = format!(
            "[store]\nengine = \"redis\"\n[redis]\nurl = \"{url}\"\nprefix = \"{}\"\n",
            fresh_prefix()
        );
        std::fs::write(directory.path().join("settings.toml"), settings).expect("writes");
        Self(directory)
    }

    fn start(&self) -> (Server, Client) {
        start(&["--config", "settings.toml"], self.0.path())
    }
}

fn start(arguments: &[&str], directory: &Path) -> (Server, Client) {
    let arguments: Vec<&str> =
        ["serve", "--listen", "127.0.0.1:0"].into_iter().chain(arguments.iter().copied()).collect();
    let server = Server::start(&arguments, directory);
    let client = Client::new(server.address);
    (server, client)
}

async fn add(client: &mut Client, job: Value) -> Response {
    let response = client.post("/jobs", &job).await.expect("answers");
    assert!(matches!(response.status, 200 | 201), "{response:?}");
    response
}

async fn get(client: &mut Client, path: &str) -> Response {
    client.get(path).await.expect("answers")
}

async fn finish(client: &mut Client, popped: &Response) -> u16 {
    let path = format!("/jobs/{}/finish?receipt={}", popped.text("id"), popped.text("receipt"));
    client.send(Method::POST, &path, None).await.expect("answers").status
}

/// Waits until the process behind `client` has `n` parked polls of the topic `t`.
async fn wait_for_parked_polls(client: &mut Client, n: u64) {
    let time_limit = TimeLimit::new();
    loop {
        let topic = get(client, "/topics/t").await.json();
        if topic["waiting"] == json!(n) {
            return;
        }
        time_limit.check(|| topic.to_string());
        time_limit.pause().await;
    }
}

async fn slow_worker_gets_409_and_the_next_finishes(mut client: Client, address: std::net::SocketAddr) {
    add(&mut client, json!({"topic": "t", "id": "a", "ttr": 1})).await;
    let slow = get(&mut client, "/topics/t/pop").await;
    assert_eq!(slow.status, 200);
    // The timer ends the reservation after a second and wakes the next worker.
    let mut other = Client::new(address);
    let next = get(&mut other, "/topics/t/pop?wait=30s&ttr=60").await;
    assert_eq!((next.status, next.json()["attempt"].clone()), (200, json!(2)));
    assert_ne!(next.text("receipt"), slow.text("receipt"));
    let late = client
        .send(Method::POST, &format!("/jobs/a/finish?receipt={}", slow.text("receipt")), None)
        .await
        .expect("answers");
    assert_eq!((late.status, late.text("code").as_str()), (409, "lease_lost"));
    assert_eq!(finish(&mut other, &next).await, 204);
    assert_eq!(get(&mut client, "/jobs/a").await.status, 404);
}

#[tokio::test]
async fn a_worker_past_its_ttr_gets_409_while_the_next_finishes_embedded() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, client) = start(&[], directory.path());
    slow_worker_gets_409_and_the_next_finishes(client, server.address).await;
}

#[tokio::test]
async fn a_worker_past_its_ttr_gets_409_while_the_next_finishes_redis() {
    let directory = SharedPrefix::new();
    let (server, client) = directory.start();
    slow_worker_gets_409_and_the_next_finishes(client, server.address).await;
}

#[tokio::test]
async fn a_job_added_through_one_process_wakes_a_poller_parked_at_another() {
    let directory = SharedPrefix::new();
    let ((_one, mut one), (two, mut two_client)) = (directory.start(), directory.start());
    add(&mut one, json!({"topic": "t", "id": "keeps-the-topic", "delay": "1h"})).await;
    for (id, delay) in [("now", 0.0), ("later", 0.2)] {
        let mut poller = Client::new(two.address);
        let poll = tokio::spawn(async move { poller.get("/topics/t/pop?wait=60s").await });
        wait_for_parked_polls(&mut two_client, 1).await;
        add(&mut one, json!({"topic": "t", "id": id, "delay": delay})).await;
        let popped = poll.await.expect("ends").expect("answers");
        assert_eq!(popped.text("id"), id);
        assert_eq!(finish(&mut one, &popped).await, 204, "the receipt works at either process");
    }
}

#[tokio::test]
async fn jobs_of_a_killed_process_are_promoted_by_the_others() {
    let directory = SharedPrefix::new();
    let ((mut one, mut one_client), (_two, mut two_client)) = (directory.start(), directory.start());
    // First, so that no other job is due, however late the pop comes.
    add(&mut one_client, json!({"topic": "t", "id": "held", "ttr": 1})).await;
    assert_eq!(get(&mut one_client, "/topics/t/pop").await.text("id"), "held");
    add(&mut one_client, json!({"topic": "t", "id": "delayed", "delay": 0.5})).await;
    one.kill();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let popped = get(&mut two_client, "/topics/t/pop?wait=60s&ttr=60").await;
        assert_eq!(finish(&mut two_client, &popped).await, 204);
        ids.push(popped.text("id"));
    }
    ids.sort();
    assert_eq!(ids, ["delayed", "held"]);
}

#[tokio::test]
async fn pauses_and_settings_reach_every_process() {
    let directory = SharedPrefix::new();
    let ((_one, mut one), (two, mut two_client)) = (directory.start(), directory.start());
    let pause = one.post("/topics/t/pause", &json!({"delivery": true, "intake": false})).await;
    assert_eq!(pause.expect("answers").status, 200);
    let settings = one.send(Method::PUT, "/topics/t", Some(&json!({"ttr": 7}))).await;
    assert_eq!(settings.expect("answers").status, 200);
    // The settings arrive within a second; adds are repeated until one has them.
    let time_limit = TimeLimit::new();
    for n in 0.. {
        let id = format!("probe-{n}");
        let added = add(&mut two_client, json!({"topic": "t", "id": id, "delay": "1h"})).await;
        if added.json()["ttr"] == json!(7) {
            break;
        }
        time_limit.check(|| added.json().to_string());
        time_limit.pause().await;
    }
    add(&mut two_client, json!({"topic": "t", "id": "job"})).await;
    assert_eq!(
        get(&mut two_client, "/topics/t/pop").await.status,
        204,
        "delivery was paused through the other process"
    );
    let mut poller = Client::new(two.address);
    let poll = tokio::spawn(async move { poller.get("/topics/t/pop?wait=60s").await });
    wait_for_parked_polls(&mut two_client, 1).await;
    let resume = one.post("/topics/t/resume", &json!({"delivery": true})).await;
    assert_eq!(resume.expect("answers").status, 200);
    assert_eq!(poll.await.expect("ends").expect("answers").text("id"), "job");
}

#[tokio::test]
async fn processes_with_another_number_of_shards_are_refused() {
    let directory = SharedPrefix::new();
    let (_server, _client) = directory.start();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--config", "settings.toml"];
    let mut command = crate::harness::process::linger(&arguments, directory.0.path());
    let refused = command.env("LINGER__REDIS__SHARDS", "8").output().expect("runs");
    assert!(!refused.status.success());
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("first used with redis.shards = 1, and 8 is configured"), "{message}");
    assert_eq!(refused.stdout, b"");
}

#[tokio::test]
async fn a_stopped_process_loses_no_job_and_refuses_its_stale_receipt() {
    let directory = SharedPrefix::new();
    let ((one, mut one_client), (_two, mut two_client)) = (directory.start(), directory.start());
    add(&mut one_client, json!({"topic": "t", "id": "a", "ttr": 1})).await;
    let slow = get(&mut one_client, "/topics/t/pop").await;
    one.suspend();
    let next = get(&mut two_client, "/topics/t/pop?wait=60s&ttr=60").await;
    one.signal(Signal::CONT);
    assert_eq!(next.text("id"), "a");
    // Calls that may have arrived during the pause are refused.
    let time_limit = TimeLimit::new();
    let mut status = finish(&mut one_client, &slow).await;
    while status == 503 {
        time_limit.check(|| "the process still counts as paused".to_owned());
        time_limit.pause().await;
        status = finish(&mut one_client, &slow).await;
    }
    assert_eq!(status, 409);
    assert_eq!(finish(&mut two_client, &next).await, 204);
}

#[tokio::test]
async fn acknowledged_jobs_survive_kill_9_in_every_state() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut server, mut client) = start(&[], directory.path());
    for (id, delay) in [("delayed", 3_600), ("ready", 0), ("finished", 0)] {
        add(&mut client, json!({"topic": id, "id": id, "delay": delay, "body": {"of": id}})).await;
    }
    add(&mut client, json!({"topic": "held", "id": "held", "ttr": 3_600})).await;
    let held = get(&mut client, "/topics/held/pop").await;
    let done = get(&mut client, "/topics/finished/pop").await;
    assert_eq!(finish(&mut client, &done).await, 204);
    let before: Vec<Value> = {
        let mut jobs = Vec::new();
        for id in ["delayed", "ready", "held"] {
            jobs.push(get(&mut client, &format!("/jobs/{id}")).await.json());
        }
        jobs
    };
    server.kill();
    let (_restarted, mut client) = start(&[], directory.path());
    for job in before {
        let id = job["id"].as_str().expect("an id").to_owned();
        assert_eq!(get(&mut client, &format!("/jobs/{id}")).await.json(), job);
    }
    assert_eq!(get(&mut client, "/jobs/finished").await.status, 404, "a finished job stays finished");
    assert_eq!(finish(&mut client, &held).await, 204, "a reservation survives the crash");
    assert_eq!(get(&mut client, "/topics/ready/pop").await.text("id"), "ready");
}
