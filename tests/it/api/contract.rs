//! The contract itself: every operation is exercised, every example is valid.

use std::collections::BTreeSet;

use super::on_every_engine;
use crate::harness::{
    api::{Api, text},
    jobs::seconds,
    openapi::contract,
    stores::Engine,
};

on_every_engine!(every_documented_success_of_every_operation_occurs);

#[test]
fn every_operation_has_an_example_and_every_example_is_valid() {
    assert!(contract().check_examples() > contract().operations().len());
}

#[test]
fn operation_ids_are_unique() {
    let ids: BTreeSet<_> = contract().operations().iter().map(|operation| &operation.id).collect();
    assert_eq!(ids.len(), contract().operations().len());
}

/// The router accepts exactly the methods that the contract documents.
#[tokio::test]
async fn every_path_allows_only_the_documented_methods() {
    let api = Api::new(Engine::Naive).await;
    let paths: BTreeSet<_> = contract().operations().iter().map(|operation| &operation.template).collect();
    for path in paths {
        let operations = contract().operations().iter().filter(|operation| operation.template == *path);
        let mut documented: BTreeSet<_> = operations.map(|operation| operation.method.as_str()).collect();
        if documented.contains("GET") && !path.ends_with("/pop") {
            documented.insert("HEAD");
        }
        let target = path.replace("{id}", "a").replace("{topic}", "t").replace("{name}", "n");
        let response = api.call("BREW", &target).send().await.expect(405);
        let allowed: BTreeSet<_> = response.header("allow").split(", ").collect();
        assert_eq!(allowed, documented, "{path}");
    }
}

/// Readers rely on the examples to be what the server sends.
#[tokio::test]
async fn the_examples_of_errors_are_what_the_server_answers() {
    let document: serde_json::Value =
        serde_saphyr::from_str(include_str!("../../../openapi.yaml")).expect("YAML");
    let responses = &document["components"]["responses"];
    let example = |response: &str, media: &str, name: &str| {
        responses[response]["content"][media]["examples"][name]["value"].clone()
    };
    let problem = |response: &str, name: &str| example(response, "application/problem+json", name);
    let results = example("Results", "application/json", "one_of_each");
    let api = Api::new(Engine::Naive).await;
    api.add(r#"{"topic":"order-close","id":"a","delay":"30m"}"#).await;
    let other = r#"{"topic":"order-close","id":"a","delay":"31m"}"#;
    let typo = r#"{"topic":"order-close","delays":"30m"}"#;
    let finish = api.send("POST", "/batch/finish", r#"{"jobs":[{"id":"b"}]}"#).await.json();
    let pairs = [
        (problem("BadRequest", "wait"), api.get("/topics/t/pop?wiat=1s").await.json()),
        (problem("Conflict", "exists"), api.send("POST", "/jobs", other).await.json()),
        (problem("Invalid", "typo"), api.send("POST", "/jobs", typo).await.json()),
        (results["results"][1]["problem"].clone(), finish["results"][0]["problem"].clone()),
    ];
    for (example, response) in pairs {
        assert!(example["detail"].is_string(), "{example}");
        for member in ["type", "title", "status", "code", "detail", "errors", "state"] {
            assert_eq!(example[member], response[member], "{member} of {response}");
        }
    }
}

/// Calls the whole API once. A new operation, or a new success status of an old one, fails here until it is covered.
async fn every_documented_success_of_every_operation_occurs(engine: Engine) {
    let api = Api::new(engine).await;
    one_job(&api).await;
    reservations(&api).await;
    batches(&api).await;
    topics(&api).await;
    dead_letters(&api).await;
    bulk(&api).await;
    schedules(&api).await;
    for page in [
        "/whoami",
        "/workers",
        "/callbacks",
        "/audit",
        "/stats",
        "/livez",
        "/readyz",
        "/readyz?verbose=",
        "/version",
        "/metrics",
        "/openapi.yaml",
        "/openapi.json",
    ] {
        api.get(page).await.expect(200);
    }
    let documented: BTreeSet<_> = contract()
        .operations()
        .iter()
        .flat_map(|operation| operation.statuses.iter().map(|status| (operation.id.clone(), *status)))
        .filter(|(_, status)| *status < 300)
        .collect();
    let missed: Vec<_> = documented.difference(&api.exercised()).cloned().collect();
    assert!(missed.is_empty(), "never exercised: {missed:?}");
}

async fn one_job(api: &Api) {
    let order = r#"{"topic":"orders","id":"o:1","delay":"30m","ttr":"60s","body":{"order":1001}}"#;
    api.add(order).await;
    api.send("POST", "/jobs", order).await.expect(200);
    api.get("/jobs/o:1").await.expect(200);
    api.send("PATCH", "/jobs/o:1", r#"{"delay":"1h"}"#).await.expect(200);
    api.get("/jobs?topic=orders").await.expect(200);
    api.delete("/jobs/o:1").await.expect(204);
}

async fn reservations(api: &Api) {
    for id in ["a", "b", "c", "d"] {
        api.add(&format!(r#"{{"topic":"work","id":"{id}"}}"#)).await;
    }
    // The order of jobs is not guaranteed.
    let first = api.pop("work").await;
    let finish = format!("/jobs/{}/finish?receipt={}", text(&first["id"]), text(&first["receipt"]));
    api.post(&finish).await.expect(204);
    let second = api.post("/topics/work/pop?ttr=30s").await.expect(200).json();
    let receipt = format!("{{\"receipt\":{}}}", second["receipt"]);
    api.send("POST", &format!("/jobs/{}/touch", text(&second["id"])), &receipt).await.expect(200);
    api.post(&format!("/jobs/{}/revoke", text(&second["id"]))).await.expect(200);
    let second = api.pop("work").await;
    let receipt = format!("{{\"receipt\":{}}}", second["receipt"]);
    for step in ["touch", "release"] {
        let target = format!("/jobs/{}/{step}", text(&second["id"]));
        api.send("POST", &target, &receipt).await.expect(200);
    }
    let dead = api.bury("work").await;
    api.send("POST", &format!("/jobs/{}/requeue", text(&dead["id"])), "{}").await.expect(200);
    api.get("/topics/nobody/pop").await.expect(204);
    api.post("/topics/nobody/pop?wait=0").await.expect(204);
}

async fn batches(api: &Api) {
    let jobs = r#"{"jobs":[{"topic":"bulk","id":"x"},{"topic":"bulk","id":"y"}]}"#;
    api.send("POST", "/batch/jobs", jobs).await.expect(200);
    let popped = api.send("POST", "/batch/pop", r#"{"topics":["bulk"],"max":1}"#).await.expect(200).json();
    let held = format!(r#"{{"jobs":[{{"id":"x","receipt":{}}}]}}"#, popped["jobs"][0]["receipt"]);
    api.send("POST", "/batch/touch", &held).await.expect(200);
    api.send("POST", "/batch/bury", &held).await.expect(200);
    api.send("POST", "/batch/release", &held).await.expect(200);
    api.send("POST", "/batch/finish", r#"{"jobs":[{"id":"x"}]}"#).await.expect(200);
    api.send("POST", "/batch/delete", r#"{"ids":["y"]}"#).await.expect(200);
}

async fn topics(api: &Api) {
    api.send("PUT", "/topics/set", r#"{"ttr":"5m","retry":["15s",180]}"#).await.expect(200);
    api.get("/topics").await.expect(200);
    api.get("/topics?sort=overdue&prefix=s").await.expect(200);
    api.get("/timeline?span=24h&by=topic").await.expect(200);
    api.get("/topics/set").await.expect(200);
    api.send("POST", "/topics/set/pause", r#"{"delivery":true}"#).await.expect(200);
    api.post("/topics/set/resume").await.expect(200);
    api.delete("/topics/set?confirm=set").await.expect(200);
    let own = r#"{"secret":"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"}"#;
    api.get("/topics/set/callbacks").await.expect(200);
    api.post("/topics/set/callbacks/call").await.expect(204);
    let secret = api.send("POST", "/topics/set/secrets", own).await.expect(201).json();
    api.send("POST", "/topics/set/secrets", own).await.expect(200);
    api.get("/topics/set/secrets").await.expect(200);
    api.delete(&format!("/topics/set/secrets/{}", text(&secret["id"]))).await.expect(204);
}

async fn dead_letters(api: &Api) {
    api.add(r#"{"topic":"grave","max_attempts":1}"#).await;
    api.pop("grave").await;
    api.advance_and_promote(seconds(60)).await;
    api.get("/topics/grave/dead").await.expect(200);
    api.get("/topics/grave/dead/reasons").await.expect(200);
    api.get("/dead/reasons").await.expect(200);
    api.post("/topics/grave/dead/requeue").await.expect(200);
    api.bury("grave").await;
    api.delete("/topics/grave/dead").await.expect(200);
}

async fn bulk(api: &Api) {
    let count = r#"{"action":"requeue","filter":{"topic":"grave"}}"#;
    api.send("POST", "/bulk", count).await.expect(200);
    let replay = r#"{"id":"r","action":"requeue","filter":{"topic":"grave"},"dry_run":false,"limit":1}"#;
    api.send("POST", "/bulk", replay).await.expect(202);
    api.get("/bulk").await.expect(200);
    api.get("/bulk/r").await.expect(200);
    api.post("/bulk/r/stop").await.expect(200);
}

async fn schedules(api: &Api) {
    let schedule = r#"{"cron":"@daily","job":{"topic":"night"}}"#;
    api.send("PUT", "/schedules/nightly", schedule).await.expect(201);
    api.send("PUT", "/schedules/nightly", schedule).await.expect(200);
    api.get("/schedules").await.expect(200);
    api.get("/schedules/nightly").await.expect(200);
    api.get("/schedules/nightly/next?count=1").await.expect(200);
    for step in ["pause", "resume"] {
        api.post(&format!("/schedules/nightly/{step}")).await.expect(200);
    }
    api.send("POST", "/schedules/nightly/run", r#"{"id":"a"}"#).await.expect(201);
    api.send("POST", "/schedules/nightly/run", r#"{"id":"a"}"#).await.expect(200);
    api.delete("/schedules/nightly").await.expect(204);
}
