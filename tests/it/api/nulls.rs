//! `null` in place of a value: a field that is left out, or the body of a job. A patch refuses it, and so do conditions.

use serde_json::json;

use super::on_every_engine;
use crate::harness::{
    api::{Api, error_locations, text},
    stores::Engine,
};

on_every_engine!(
    an_add_with_nulls_is_the_add_without_those_fields,
    a_body_of_null_is_a_body,
    a_put_with_nulls_sets_the_defaults,
    a_holder_may_send_nulls;
    a_patch_says_how_to_clear_a_value,
    a_required_field_is_not_given_by_null,
    other_bodies_take_nulls,
);

/// Sends a body with nulls, which the schemas do not list.
async fn succeed(api: &Api, method: &str, target: &str, json: &str, status: u16) -> serde_json::Value {
    let response = api.call(method, target).json(json).without_contract_check().send().await.expect(status);
    if response.body.is_empty() { json!(null) } else { response.json() }
}

async fn an_add_with_nulls_is_the_add_without_those_fields(engine: Engine) {
    let api = Api::new(engine).await;
    let nulls = r#""delay":null,"at":null,"ttr":null,"max_attempts":null,"retry":null,"callback":null,
        "traceparent":null,"tracestate":null"#;
    let job = succeed(&api, "POST", "/jobs", &format!(r#"{{"topic":"t","id":"a",{nulls}}}"#), 201).await;
    assert_eq!((&job["state"], &job["ttr"], &job["max_attempts"]), (&json!("ready"), &json!(60), &json!(16)));
    let plain = api.send("POST", "/jobs", r#"{"topic":"t","id":"a"}"#).await.expect(200);
    assert_eq!(plain.header("idempotent-replayed"), "true", "the content is the same");
    let named = succeed(&api, "POST", "/jobs", r#"{"topic":"t","id":null}"#, 201).await;
    assert_eq!(text(&named["id"]).len(), 36, "the server made an id: {named}");
    let later =
        succeed(&api, "POST", "/jobs", r#"{"topic":"t","delay":null,"at":"2026-11-21T06:10:00Z"}"#, 201);
    assert_eq!(later.await["due_at"], "2026-11-21T06:10:00.000Z", "only one of the two is given");
    let batch = format!(r#"{{"jobs":[{{"topic":"t","id":"a",{nulls}}},{{"topic":"t","id":null}}]}}"#);
    let results = succeed(&api, "POST", "/batch/jobs", &batch, 200).await;
    assert_eq!(
        (&results["results"][0]["status"], &results["results"][1]["status"]),
        (&json!(200), &json!(201))
    );
}

async fn a_body_of_null_is_a_body(engine: Engine) {
    let api = Api::new(engine).await;
    let added =
        api.send("POST", "/jobs", r#"{"topic":"t","id":"a","delay":9,"body": null }"#).await.expect(201);
    assert!(added.body.ends_with(b"\"body\":null}\n"), "{:?}", added.body);
    api.send("PATCH", "/jobs/a", r#"{"body":[1]}"#).await.expect(200);
    let cleared = api.send("PATCH", "/jobs/a", r#"{"body":null}"#).await.expect(200);
    assert!(cleared.body.ends_with(b"\"body\":null}\n"), "{:?}", cleared.body);
}

async fn a_put_with_nulls_sets_the_defaults(engine: Engine) {
    let api = Api::new(engine).await;
    let set = r#"{"ttr":5,"max_attempts":3,"retry":[1],"require_receipt":true,"callback":{"concurrency":2}}"#;
    api.send("PUT", "/topics/t", set).await.expect(200);
    let nulls = r#"{"ttr":null,"max_attempts":null,"retry":null,"require_receipt":null,"callback":null}"#;
    succeed(&api, "PUT", "/topics/t", nulls, 200).await;
    api.get("/topics/t").await.expect_problem(404, "topic_not_found");
    let inner = r#"{"callback":{"url":null,"method":null,"headers":null,"timeout":null,"rate":null,"concurrency":2}}"#;
    succeed(&api, "PUT", "/topics/t", inner, 200).await;
    assert_eq!(
        api.get("/topics/t").await.expect(200).json()["settings"],
        json!({"require_receipt":false,"callback":{"concurrency":2}})
    );
}

async fn a_holder_may_send_nulls(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    let receipt = api.pop("t").await["receipt"].clone();
    let touch = json!({"receipt": receipt, "ttr": null}).to_string();
    let touched = succeed(&api, "POST", "/jobs/a/touch", &touch, 200).await;
    assert_eq!(touched["reserved_until"], "2026-11-21T05:41:00.000Z");
    let release = json!({"receipt": receipt, "delay": null, "at": null, "reason": null}).to_string();
    let released = succeed(&api, "POST", "/jobs/a/release", &release, 200).await;
    assert_eq!(released["due_at"], "2026-11-21T05:40:01.000Z", "the first step of the back-off");
    api.send("PATCH", "/jobs/a", r#"{"delay":0}"#).await.expect(200);
    let pop = r#"{"topics":["t"],"max":null,"wait":null,"ttr":null,"worker":null}"#;
    let popped = succeed(&api, "POST", "/batch/pop", pop, 200).await;
    let bury = json!({"receipt": popped["jobs"][0]["receipt"], "reason": null}).to_string();
    assert_eq!(succeed(&api, "POST", "/jobs/a/bury", &bury, 200).await["reason"], "buried");
    let requeue = r#"{"delay":null,"at":null}"#;
    assert_eq!(succeed(&api, "POST", "/jobs/a/requeue", requeue, 200).await["state"], "ready");
    api.pop("t").await;
    let lost = api.send("POST", "/jobs/a/finish", r#"{"receipt":null}"#).await;
    let lost = lost.expect_problem(422, "invalid_request");
    assert_eq!(
        text(&lost["detail"]),
        "/receipt must not be null: leave it out to finish the job whichever client holds it"
    );
    let batch = r#"{"jobs":[{"id":"a","receipt":null}]}"#;
    let results = api.send("POST", "/batch/finish", batch).await.expect(200).json();
    assert_eq!(results["results"][0]["status"], 422);
    assert_eq!(api.get("/jobs/a").await.expect(200).json()["state"], "reserved");
}

async fn a_patch_says_how_to_clear_a_value(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","delay":"1h","retry":[5],"max_attempts":3}"#).await;
    for (field, how) in [
        ("delay", "leave it out to keep the due time, or send \"delay\": 0 for now"),
        ("at", "leave it out to keep the due time"),
        ("ttr", "leave it out to keep the value, or send another one"),
        ("max_attempts", "send 0 for no limit"),
        ("retry", "send [] for no list"),
        ("callback", "cannot be changed"),
    ] {
        let patch = format!(r#"{{"{field}":null,"body":2}}"#);
        let problem = api.send("PATCH", "/jobs/a", &patch).await.expect_problem(422, "invalid_job");
        assert_eq!(error_locations(&problem), [format!("/{field}")]);
        assert!(text(&problem["detail"]).contains(how), "{problem}");
    }
    let job = api.get("/jobs/a").await.expect(200).json();
    assert_eq!((&job["body"], &job["retry"], &job["max_attempts"]), (&json!(null), &json!([5]), &json!(3)));
    let cleared = api.send("PATCH", "/jobs/a", r#"{"retry":[],"max_attempts":0}"#).await.expect(200).json();
    assert!(cleared.get("retry").is_none() && cleared["max_attempts"] == 0, "{cleared}");
}

async fn a_required_field_is_not_given_by_null(engine: Engine) {
    let api = Api::new(engine).await;
    for (target, body, detail) in [
        ("/jobs", r#"{"topic":null}"#, "/topic is required"),
        ("/batch/jobs", r#"{"jobs":null}"#, "/jobs is required"),
        ("/batch/delete", r#"{"ids":null}"#, "/ids is required"),
        ("/batch/pop", r#"{"topics":null}"#, "/topics is required"),
        ("/jobs/a/release", r#"{"receipt":null}"#, "/receipt is required, here or in the query"),
        ("/jobs", r#"{"topic":"t","callback":{"url":null}}"#, "/callback/url is required"),
        ("/jobs", r#"{"topic":"t","retry":[null]}"#, "/retry/0 must be a number of seconds"),
        ("/jobs", r#"{"topic":"t","delay":null,"delay":null}"#, "/delay must be given once"),
        ("/jobs", r#"{"topic":"t","unknown":null}"#, "/unknown is not a field of this object"),
        ("/bulk", r#"{"action":null,"filter":{"topic":"t"}}"#, "/action is required"),
        (
            "/bulk",
            r#"{"action":"delete","filter":{"topic":null,"state":"dead"}}"#,
            "/filter/topic is required",
        ),
    ] {
        let problem = api.send("POST", target, body).await.expect(422).json();
        assert!(text(&problem["detail"]).starts_with(detail), "{target} {body}: {problem}");
    }
    assert_eq!(api.get("/topics").await.expect(200).body, "{\"topics\":[]}\n");
}

async fn other_bodies_take_nulls(engine: Engine) {
    let api = Api::new(engine).await;
    let paused = succeed(&api, "POST", "/topics/t/pause", r#"{"delivery":null,"intake":null}"#, 200).await;
    assert_eq!(paused, succeed(&api, "POST", "/topics/t/pause", "{}", 200).await, "both");
    succeed(&api, "POST", "/topics/t/resume", r#"{"delivery":true,"intake":null}"#, 200).await;
    let one = api.get("/topics/t").await.expect(200).json();
    assert_eq!(one["paused"], json!({"delivery": false, "intake": true}));
    succeed(&api, "POST", "/topics/t/dead/requeue", r#"{"limit":null}"#, 200).await;
    let bulk = json!({
        "action": "delete", "at": null, "delay": null, "shift": null, "spread": null, "dry_run": null, "limit": null,
        "id": null, "filter": {"topic": "t", "all_topics": null, "state": "dead"},
    });
    assert_eq!(succeed(&api, "POST", "/bulk", &bulk.to_string(), 200).await["dry_run"], true);
    for condition in ["from", "to", "id_prefix", "reason_prefix", "reserved_by"] {
        let bulk =
            format!(r#"{{"action":"delete","filter":{{"topic":"t","state":"dead","{condition}":null}}}}"#);
        let problem = api.send("POST", "/bulk", &bulk).await.expect_problem(422, "invalid_request");
        assert_eq!(error_locations(&problem), [format!("/filter/{condition}")], "it would match more jobs");
    }
    let requeue = r#"{"action":"requeue","filter":{"topic":"t","state":null}}"#;
    assert_eq!(succeed(&api, "POST", "/bulk", requeue, 200).await["dry_run"], true);
    succeed(&api, "POST", "/topics/t/secrets", r#"{"secret":null}"#, 201).await;
}
