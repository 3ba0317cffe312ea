//! Old and native clients at one topic.

use serde_json::json;

use super::{DONE, Engine, Site, on_each_engine};

on_each_engine! {
    a_job_of_an_old_client_is_worked_on_natively,
    a_native_job_is_worked_on_by_an_old_client,
    jobs_of_a_callback_are_not_popped,
    a_finish_without_receipt_fails_where_one_is_required,
}

fn a_job_of_an_old_client_is_worked_on_natively(engine: Engine) {
    let site = Site::new(engine);
    site.push("t", "a", 60, r#"{"uid": 1}"#);
    let seen = site.native("GET", "/jobs/a", "", 200);
    assert_eq!(
        (&seen["state"], &seen["body"], &seen["ttr"]),
        (&"delayed".into(), &json!({"uid": 1}), &60.into())
    );
    let popped = site.native("GET", "/topics/t/pop?wait=20s", "", 200);
    assert_eq!((&popped["id"], &popped["body"]), (&"a".into(), &json!({"uid": 1})));
    let receipt = popped["receipt"].as_str().expect("a receipt");
    site.native("POST", &format!("/jobs/a/finish?receipt={receipt}"), "", 204);
    assert_eq!(site.call("/get", r#"{"id":"a"}"#), DONE);
    site.push("t", "b", 60, "no JSON");
    assert_eq!(site.native("GET", "/jobs/b", "", 200)["body"], json!({"linger:text": "no JSON"}));
    site.native("DELETE", "/jobs/b", "", 204);
    assert_eq!(site.call("/get", r#"{"id":"b"}"#), DONE);
}

fn a_native_job_is_worked_on_by_an_old_client(engine: Engine) {
    let site = Site::new(engine);
    for (id, body, payload) in [
        ("user=42", r#"{"b":1.50, "a":[]}"#, r#"{"b":1.50, "a":[]}"#),
        ("b", r#"{"linger:text": "no JSON"}"#, "no JSON"),
        ("c", r#"{"linger:base64":"YQ=="}"#, "a"),
    ] {
        site.native("POST", "/jobs", &format!(r#"{{"topic":"t","id":"{id}","ttr":7.5,"body":{body}}}"#), 201);
        let seen: serde_json::Value =
            serde_json::from_str(&site.call("/get", json!({"id": id}).to_string())).expect("is JSON");
        assert_eq!((&seen["data"]["body"], &seen["data"]["ttr"]), (&payload.into(), &7.into()));
        assert_eq!(site.pop("t"), json!({"id": id, "body": payload}));
        assert_eq!(site.call("/finish", json!({"id": id}).to_string()), DONE);
        assert_eq!(site.server.job(id), json!(null));
    }
    site.native("POST", "/jobs", r#"{"topic":"t","id":"d"}"#, 201);
    assert_eq!(site.call("/delete", r#"{"id":"d"}"#), DONE);
    assert_eq!(site.server.job("d"), json!(null));
}

fn jobs_of_a_callback_are_not_popped(engine: Engine) {
    let site = Site::new(engine);
    let settings = r#"{"callback":{"url":"http://127.0.0.1:8000/"}}"#;
    site.native("PUT", "/topics/called", settings, 200);
    let answer = site.call("/pop", r#"{"topic":"t,called"}"#);
    assert!(
        answer.starts_with(r#"{"code":1,"message":"the jobs of topic called go to its callback"#),
        "{answer}"
    );
}

fn a_finish_without_receipt_fails_where_one_is_required(engine: Engine) {
    let site = Site::new(engine);
    site.native("PUT", "/topics/t", r#"{"require_receipt":true}"#, 200);
    site.push("t", "a", 60, "");
    let refused = super::refusal("the receipt that came with the reservation is required here");
    // Also before a worker has the job: a late worker must not end it.
    assert_eq!(site.call("/finish", r#"{"id":"a"}"#), refused);
    site.pop("t");
    assert_eq!(site.call("/finish", r#"{"id":"a"}"#), refused);
    assert_eq!(site.server.job("a")["state"], "reserved");
    assert_eq!(site.call("/delete", r#"{"id":"a"}"#), DONE);
    assert_eq!(site.server.job("a"), json!(null));
}
