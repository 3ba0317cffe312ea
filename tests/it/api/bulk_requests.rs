//! Requests for bulk operations: what they need, and which are refused.

use serde_json::{Value, json};

use super::on_every_engine;
use crate::harness::{
    api::{Api, error_locations},
    stores::Engine,
};

on_every_engine!(
    invalid_requests_for_bulk_operations_are_named,
    a_request_needs_a_limit_and_a_topic_or_all_topics
);

async fn faults(api: &Api, request: &Value) -> Vec<String> {
    let response = api.send("POST", "/bulk", &request.to_string()).await;
    error_locations(&response.expect_problem(422, "invalid_request"))
}

async fn invalid_requests_for_bulk_operations_are_named(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"job","delay":60}"#).await;
    let before = api.get("/jobs/job").await.json();
    let of_t = |state: &str| json!({ "topic": "t", "state": state });
    for (request, pointers) in [
        (json!({}), &["/action", "/filter"][..]),
        (json!({ "action": "purge", "filter": of_t("ready") }), &["/action"]),
        (json!({ "action": "delete", "filter": { "topic": "t" } }), &["/filter/state"]),
        (json!({ "action": "delete", "filter": of_t("gone") }), &["/filter/state"]),
        (json!({ "action": "delete", "filter": [] }), &["/filter"]),
        (json!({ "action": "delete", "filter": of_t("ready"), "at": "2026-11-21T05:42:00Z" }), &["/at"]),
        (
            json!({ "action": "delete", "filter": of_t("ready"), "delay": 1, "shift": "1m", "spread": 1 }),
            &["/shift", "/delay", "/spread"],
        ),
        (json!({ "action": "requeue", "filter": of_t("ready") }), &["/filter/state"]),
        (json!({ "action": "requeue", "filter": of_t("dead"), "shift": "1m" }), &["/shift"]),
        (json!({ "action": "revoke", "filter": of_t("ready") }), &["/filter/state"]),
        (
            json!({ "action": "revoke", "filter": of_t("reserved"), "shift": "1m", "expire": "1h" }),
            &["/shift", "/expire"],
        ),
        (json!({ "action": "requeue", "filter": of_t("dead"), "reason": "x" }), &["/reason"]),
        (json!({ "action": "revoke", "filter": of_t("reserved"), "reason": 7 }), &["/reason"]),
        (json!({ "action": "reschedule", "filter": of_t("delayed") }), &[""]),
        (json!({ "action": "reschedule", "filter": of_t("reserved"), "delay": 1 }), &["/filter/state"]),
        (
            json!({ "action": "reschedule", "filter": of_t("delayed"), "delay": 1, "at": "2026-11-21T05:42:00Z" }),
            &["/at"],
        ),
        (
            json!({ "action": "reschedule", "filter": of_t("delayed"), "delay": 1, "shift": "1m" }),
            &["/shift"],
        ),
        (json!({ "action": "reschedule", "filter": of_t("delayed"), "shift": "0s" }), &["/shift"]),
        (json!({ "action": "reschedule", "filter": of_t("delayed"), "shift": 60 }), &["/shift"]),
        (json!({ "action": "reschedule", "filter": of_t("delayed"), "shift": "--1m" }), &["/shift"]),
        (
            json!({ "action": "reschedule", "filter": of_t("delayed"), "shift": "1m", "spread": "1m" }),
            &["/spread"],
        ),
        (json!({ "action": "requeue", "filter": of_t("dead"), "spread": "4000d" }), &["/spread"]),
        (
            json!({ "action": "delete", "filter": { "topic": "t", "state": "ready", "reason_prefix": "x" } }),
            &["/filter/reason_prefix"],
        ),
        (
            json!({ "action": "delete", "filter": { "topic": "t", "state": "ready", "reserved_by": "w" } }),
            &["/filter/reserved_by"],
        ),
        (
            json!({ "action": "delete", "filter": { "topic": "t", "state": "ready", "id_prefix": "a b", "from": "x" } }),
            &["/filter/from", "/filter/id_prefix"],
        ),
        (
            json!({ "action": "delete", "filter": { "topic": "t", "state": "ready", "ids": [] } }),
            &["/filter/ids"],
        ),
        (
            json!({ "action": "delete", "filter": of_t("ready"), "dry_run": "no", "id": "a/b" }),
            &["/dry_run", "/id", "/id"],
        ),
        (json!({ "action": "delete", "filter": of_t("ready"), "dry_run": false, "limit": 0 }), &["/limit"]),
    ] {
        assert_eq!(faults(&api, &request).await, pointers, "{request}");
    }
    assert_eq!(api.get("/jobs/job").await.json(), before);
    assert_eq!(api.get("/bulk").await.json(), json!({ "operations": [] }));
    for id in ["/bulk/a%20b", "/bulk/a%20b/stop"] {
        let method = if id.ends_with("stop") { "POST" } else { "GET" };
        let problem = api.call(method, id).send().await.expect_problem(400, "invalid_parameter");
        assert_eq!(error_locations(&problem), ["id"]);
    }
    api.get("/bulk/unknown").await.expect_problem(404, "operation_not_found");
    api.post("/bulk/unknown/stop").await.expect_problem(404, "operation_not_found");
}

async fn a_request_needs_a_limit_and_a_topic_or_all_topics(engine: Engine) {
    let api = Api::new(engine).await;
    let request = json!({ "action": "delete", "filter": { "state": "delayed" }, "dry_run": false });
    assert_eq!(faults(&api, &request).await, ["/filter/topic", "/limit"]);
    let both = json!({ "action": "delete", "filter": { "state": "dead", "topic": "t", "all_topics": true } });
    assert_eq!(faults(&api, &both).await, ["/filter/all_topics"]);
    let named = json!({ "action": "delete", "filter": { "state": "dead", "topic": "t" }, "id": "known" });
    assert_eq!(faults(&api, &named).await, ["/id"], "a dry run has no id");
}
