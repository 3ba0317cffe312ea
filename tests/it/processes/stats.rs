//! The figures of two processes on one Redis.

use hyper::Method;
use serde_json::{Value, json};

use super::{SharedPrefix, add, get, wait_for_parked_polls};
use crate::harness::{
    client::Client,
    receiver::{Answer, Receiver},
    wait::TimeLimit,
};

/// Looks until the figures are of this number of processes.
async fn stats_of(client: &mut Client, processes: usize) -> Value {
    let time_limit = TimeLimit::new();
    loop {
        let stats = get(client, "/stats?by=topic").await.json();
        if stats["processes"].as_array().map(Vec::len) == Some(processes) {
            return stats;
        }
        time_limit.check(|| stats.to_string());
        time_limit.pause().await;
    }
}

#[tokio::test]
async fn the_figures_are_those_of_all_processes_that_live() {
    let directory = SharedPrefix::new();
    let ((first, mut one), (mut two, mut two_client)) = (directory.start(), directory.start());
    for (id, topic) in [("a", "t"), ("b", "u")] {
        add(&mut two_client, json!({"topic": topic, "id": id, "delay": "1h"})).await;
    }
    add(&mut one, json!({"topic": "t", "id": "c", "delay": "1h"})).await;
    let both = stats_of(&mut one, 2).await;
    assert_eq!((&both["hour"]["added"], &both["counts"]["delayed"]), (&json!(3), &json!(3)), "{both}");
    let topics: Vec<_> =
        [0, 1].map(|n| (&both["topics"][n]["topic"], &both["topics"][n]["minute"]["added"])).into();
    assert_eq!(topics, [(&json!("t"), &json!(2)), (&json!("u"), &json!(1))], "{both}");
    assert_eq!(both["topics_complete"], json!(true));
    let past = get(&mut one, "/stats?by=minute").await.json();
    let added = past["minutes"]["added"].as_array().expect("a list").iter().filter_map(Value::as_u64);
    assert_eq!(added.sum::<u64>(), 3, "{past}");
    let names: Vec<&str> = [0, 1].map(|n| both["processes"][n]["name"].as_str().expect("a name")).to_vec();
    let pids = [first.pid(), two.pid()];
    assert!(names.iter().zip(pids).all(|(name, pid)| name.ends_with(&format!("/{pid}"))), "{names:?}");
    let memory = [0, 1].map(|n| both["processes"][n]["resident_bytes"].as_u64());
    assert!(memory.iter().all(|bytes| bytes.is_some_and(|bytes| bytes > 1_000_000)), "{both}");
    two.kill();
    let left = stats_of(&mut one, 1).await;
    assert_eq!((&left["hour"]["added"], &left["counts"]["delayed"]), (&json!(1), &json!(3)), "{left}");
}

/// Looks until the topic `t` has this number of polls at all processes.
async fn wait_for_polls(client: &mut Client, polls: Value) {
    let time_limit = TimeLimit::new();
    loop {
        let topic = get(client, "/topics/t").await.json();
        if topic["polls"] == polls {
            return;
        }
        assert_ne!(topic["polls"], json!(0), "polls that are not known are not none");
        time_limit.check(|| topic.to_string());
        time_limit.pause().await;
    }
}

#[tokio::test]
async fn the_workers_of_all_processes_are_shown() {
    let directory = SharedPrefix::new();
    let ((_first, mut one), (_second, mut two)) = (directory.start(), directory.start());
    let time_limit = TimeLimit::new();
    add(&mut one, json!({"topic": "t", "id": "a", "ttr": "1h"})).await;
    assert_eq!(get(&mut two, "/topics/t/pop?worker=w-2").await.status, 200);
    assert_eq!(get(&mut one, "/topics/t/pop?worker=w-2").await.status, 204);
    assert_eq!(get(&mut two, "/topics/u/pop?worker=w-3").await.status, 204);
    loop {
        let shown = get(&mut one, "/workers").await.json();
        if shown["complete"] == true {
            let rows = shown["workers"].as_array().expect("a list");
            let brief: Vec<_> =
                rows.iter().map(|row| (&row["topic"], &row["worker"], &row["reserved"])).collect();
            let expected = [(&json!("t"), &json!("w-2"), &json!(1)), (&json!("u"), &json!("w-3"), &json!(0))];
            assert_eq!(brief, expected, "{shown}");
            assert!(rows.iter().all(|row| row["polled_at"].is_string()), "{shown}");
            return;
        }
        time_limit.check(|| shown.to_string());
        time_limit.pause().await;
    }
}

#[tokio::test]
async fn a_topic_shows_the_polls_of_all_processes() {
    let directory = SharedPrefix::new();
    let ((_first, mut one), (second, mut two)) = (directory.start(), directory.start());
    add(&mut one, json!({"topic": "t", "id": "later", "delay": "1h"})).await;
    let mut parked = Client::new(second.address);
    let poll = tokio::spawn(async move { get(&mut parked, "/topics/t/pop?wait=1h").await.status });
    wait_for_parked_polls(&mut two, 1).await;
    wait_for_polls(&mut one, json!(1)).await;
    assert_eq!(get(&mut two, "/topics/t/pop").await.status, 204);
    wait_for_polls(&mut one, json!(2)).await;
    add(&mut one, json!({"topic": "t", "id": "now"})).await;
    assert_eq!(poll.await.expect("ends"), 200);
    // It counts for a minute after its end.
    wait_for_polls(&mut one, json!(2)).await;
}

/// Looks until all processes have published their calls, and these were so many in the last minute.
async fn wait_for_calls(client: &mut Client, calls: u64) -> Value {
    let time_limit = TimeLimit::new();
    loop {
        let shown = get(client, "/callbacks").await.json();
        if shown["complete"] == true && shown["endpoints"][0]["minute"]["calls"] == calls {
            return shown;
        }
        time_limit.check(|| shown.to_string());
        time_limit.pause().await;
    }
}

#[tokio::test]
async fn an_endpoint_shows_the_calls_of_all_processes() {
    let receiver =
        Receiver::start(1, |call| Answer::WhenOpen(if call.job() == "a" { 204 } else { 500 })).await;
    let directory = SharedPrefix::new();
    let ((_first, mut one), (_second, _two)) = (directory.start(), directory.start());
    let settings = json!({"callback": {"url": receiver.url(0, "/hook")}, "retry": ["1h"]});
    assert_eq!(one.send(Method::PUT, "/topics/t", Some(&settings)).await.expect("answers").status, 200);
    // A process calls a new endpoint once at a time, so that the second call is one of the other process.
    for id in ["a", "b"] {
        add(&mut one, json!({"topic": "t", "id": id})).await;
        receiver.wait_for_calls_of(id, 1).await;
    }
    receiver.open_gate();
    let both = wait_for_calls(&mut one, 2).await;
    assert_eq!(both["endpoints"].as_array().map(Vec::len), Some(1), "{both}");
    assert_eq!(both["endpoints"][0]["minute"]["succeeded"], 1, "{both}");
}
