//! The bytes that one pop delivers are bounded.

use linger::queue::Limits;
use serde_json::Value;

use crate::harness::{
    api::{Api, Setup},
    stores::Engine,
};

/// A server with one job per body, of these sizes in bytes.
async fn api_with_jobs(engine: Engine, max_delivery: usize, bodies: &[usize]) -> Api {
    let limits = Limits { max_body: 100, max_delivery, ..Limits::default() };
    let api = Api::with(engine, Setup { limits, ..Setup::default() }).await;
    for (n, bytes) in bodies.iter().enumerate() {
        let body = "x".repeat(bytes - 2);
        api.add(&format!(r#"{{"topic":"t","id":"{n}","body":"{body}"}}"#)).await;
    }
    api
}

/// The ids that a pop of up to `max` jobs delivers.
async fn pop(api: &Api, max: usize, wait: &str) -> Vec<String> {
    let request = format!(r#"{{"topics":["t"],"max":{max},"wait":"{wait}"}}"#);
    let response = api.send("POST", "/batch/pop", &request).await.expect(200).json();
    let id = |job: &Value| job["id"].as_str().expect("an id").to_owned();
    response["jobs"].as_array().expect("a list").iter().map(id).collect()
}

#[tokio::test]
async fn a_batch_stops_before_its_bodies_exceed_the_limit() {
    for engine in [Engine::Naive, Engine::Embedded] {
        let api = api_with_jobs(engine, 250, &[60; 10]).await;
        for wait in ["0s", "30s"] {
            // Two bodies fit and leave space, so a third of any size is added, which leaves none.
            assert_eq!(pop(&api, 10, wait).await.len(), 3, "{engine:?}");
        }
        let stats = api.get("/topics/t").await.expect(200).json();
        assert_eq!(
            (&stats["counts"]["ready"], &stats["counts"]["reserved"]),
            (&4.into(), &6.into()),
            "{engine:?}"
        );
        let waiting = api.get("/jobs/9").await.expect(200).json();
        assert_eq!(waiting["attempts"], 0, "{engine:?}");
    }
}

#[tokio::test]
async fn small_bodies_are_delivered_in_full_and_in_order() {
    for engine in [Engine::Naive, Engine::Embedded] {
        let api = api_with_jobs(engine, 250, &[3; 20]).await;
        let ids = pop(&api, 15, "0s").await;
        assert_eq!(ids, (0..15).map(|n| n.to_string()).collect::<Vec<_>>(), "{engine:?}");
        assert_eq!(pop(&api, 15, "30s").await.len(), 5, "{engine:?}");
    }
}

#[tokio::test]
async fn a_job_larger_than_the_limit_is_handed_out_alone() {
    for engine in [Engine::Naive, Engine::Embedded] {
        let api = api_with_jobs(engine, 10, &[60; 2]).await;
        assert_eq!(pop(&api, 10, "0s").await, ["0"], "{engine:?}");
        assert_eq!(pop(&api, 10, "0s").await, ["1"], "{engine:?}");
    }
}
