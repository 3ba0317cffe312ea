//! Old and native clients at one topic.

use serde_json::json;

use super::{Engine, Site, on_each_engine, payload};

on_each_engine! {
    a_published_job_is_worked_on_natively,
    a_native_job_is_consumed,
}

fn a_published_job_is_worked_on_natively(engine: Engine) {
    let site = Site::new(engine);
    let id = site.publish("n/q?delay=3600", r#"{"uid": 1}"#);
    site.native("PATCH", &format!("/jobs/{id}"), r#"{"delay":"0s"}"#, 200);
    let popped = site.native("GET", "/topics/n:q/pop?wait=20s", "", 200);
    assert_eq!((&popped["id"], &popped["body"]), (&json!(id), &json!({"uid": 1})));
    let receipt = popped["receipt"].as_str().expect("a receipt");
    site.native("POST", &format!("/jobs/{id}/finish?receipt={receipt}"), "", 204);
    site.expect(404, "GET", &format!("n/q/job/{id}"), "");
    let id = site.publish("n/q", [0xff]);
    assert_eq!(site.native("GET", &format!("/jobs/{id}"), "", 200)["body"], json!({"linger:base64": "/w=="}));
    site.native("DELETE", &format!("/jobs/{id}"), "", 204);
    site.expect(404, "GET", "n/q", "");
}

fn a_native_job_is_consumed(engine: Engine) {
    let site = Site::new(engine);
    for (id, body, expected) in
        [("user=42", r#"{"b":1.50}"#, r#"{"b":1.50}"#), ("b", r#"{"linger:text":"no JSON"}"#, "no JSON")]
    {
        let job = format!(r#"{{"topic":"n:q","id":"{id}","max_attempts":0,"body":{body}}}"#);
        site.native("POST", "/jobs", &job, 201);
        let job = site.consume("n/q");
        assert_eq!((&job["job_id"], payload(&job)), (&json!(id), expected.as_bytes().to_vec()));
        assert_eq!((&job["remain_tries"], &job["ttl"]), (&json!(65_535), &json!(0)));
        site.expect(204, "DELETE", &format!("n/q/job/{id}"), "");
        assert_eq!(site.server.job(id), json!(null));
    }
}
