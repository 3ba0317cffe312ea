//! Bulk operations of two processes on one Redis.

use serde_json::{Value, json};

use super::{SharedPrefix, get};
use crate::harness::{
    client::{Client, Response},
    wait::TimeLimit,
};

/// So many that an operation on all of them takes seconds.
const JOBS: usize = 20_000;

async fn add_jobs(client: &mut Client) {
    for batch in 0..JOBS / 1_000 {
        let job = |n: usize| json!({"topic": "t", "id": format!("job-{batch}-{n}"), "delay": "1h"});
        let jobs: Vec<Value> = (0..1_000).map(job).collect();
        let added = client.post("/batch/jobs", &json!({ "jobs": jobs })).await.expect("answers");
        assert_eq!(added.status, 200, "{added:?}");
        let results = added.json()["results"].as_array().expect("a list").clone();
        assert_eq!(results.iter().find(|result| result["status"] != 201), None);
    }
}

/// Starts an operation on all jobs.
async fn start(client: &mut Client, id: &str) -> Response {
    let request = json!({
        "id": id, "action": "reschedule", "filter": {"topic": "t"}, "shift": "1h", "dry_run": false, "limit": JOBS,
    });
    let started = client.post("/bulk", &request).await.expect("answers");
    assert_eq!(started.status, 202, "{started:?}");
    started
}

/// Waits until an operation, as this process knows it, is as wanted.
async fn wait_for(client: &mut Client, id: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let time_limit = TimeLimit::new();
    loop {
        let operation = get(client, &format!("/bulk/{id}")).await;
        assert_eq!(operation.status, 200, "{operation:?}");
        if is_wanted(&operation.json()) {
            return operation.json();
        }
        time_limit.check(|| operation.json().to_string());
        time_limit.pause().await;
    }
}

fn changed(operation: &Value) -> u64 {
    operation["changed"].as_u64().expect("a number")
}

#[tokio::test]
async fn an_operation_is_seen_and_stopped_from_another_process() {
    let directory = SharedPrefix::new();
    let ((_one, mut one), (_two, mut two)) = (directory.start(), directory.start());
    add_jobs(&mut one).await;
    start(&mut one, "long").await;
    assert_eq!(start(&mut two, "long").await.text("state"), "running", "it is not started again");
    wait_for(&mut two, "long", |operation| operation["state"] == "running" && changed(operation) > 0).await;
    let stopped = two.post("/bulk/long/stop", &json!({})).await.expect("answers");
    assert_eq!((stopped.status, stopped.text("state").as_str()), (200, "stopped"));
    assert!(changed(&stopped.json()) < JOBS as u64, "{stopped:?}");
    assert_eq!(get(&mut one, "/bulk/long").await.json(), stopped.json());
    assert_eq!(get(&mut two, "/bulk").await.json(), json!({ "operations": [stopped.json()] }));
}

#[tokio::test]
async fn an_operation_of_a_killed_process_is_abandoned() {
    let directory = SharedPrefix::new();
    let ((mut one, mut one_client), (_two, mut two)) = (directory.start(), directory.start());
    add_jobs(&mut one_client).await;
    start(&mut one_client, "long").await;
    one.kill();
    assert_eq!(get(&mut two, "/bulk/long").await.text("state"), "running");
    let abandoned = wait_for(&mut two, "long", |operation| operation["state"] != "running").await;
    assert_eq!(abandoned["state"], "abandoned");
    assert!(changed(&abandoned) < JOBS as u64 && abandoned.get("ended_at").is_none(), "{abandoned}");
    assert_eq!(start(&mut two, "long").await.json(), abandoned, "its id is taken");
}
