//! Topics that remember ids: what an add of a job that is gone is answered, and the setting.

use serde_json::json;

use super::on_every_engine;
use crate::harness::{api::Api, jobs::seconds, stores::Engine};

on_every_engine!(
    a_repeat_of_a_finished_job_is_recognised,
    a_deleted_id_is_refused,
    a_batch_recognises_repeats,
    the_window_is_a_setting_of_the_topic,
);

const JOB: &str = r#"{"topic":"t","id":"a","body":1}"#;

async fn remembering(engine: Engine) -> Api {
    let api = Api::new(engine).await;
    api.send("PUT", "/topics/t", r#"{"dedup":"24h"}"#).await.expect(200);
    api
}

async fn finish_next(api: &Api) {
    let held = api.pop("t").await;
    let path = format!("/jobs/{}/finish", held["id"].as_str().expect("a text"));
    let receipt = format!(r#"{{"receipt":{}}}"#, held["receipt"]);
    api.send("POST", &path, &receipt).await.expect(204);
}

async fn a_repeat_of_a_finished_job_is_recognised(engine: Engine) {
    let api = remembering(engine).await;
    api.add(JOB).await;
    api.advance_and_promote(seconds(5)).await;
    finish_next(&api).await;
    api.advance_and_promote(seconds(3_600)).await;
    let repeat = api.send("POST", "/jobs", JOB).await.expect(200);
    assert_eq!(repeat.header("idempotent-replayed"), "true");
    let ended = json!({ "how": "finished", "at": "2026-11-21T05:40:05.000Z" });
    assert_eq!(repeat.json(), json!({ "id": "a", "topic": "t", "state": "finished", "ended": ended }));
    let other = r#"{"topic":"t","id":"a","body":2}"#;
    let problem = api.send("POST", "/jobs", other).await.expect_problem(409, "job_exists");
    assert_eq!(problem["ended"], ended);
    api.get("/topics/t/pop").await.expect(204);
    let elsewhere = r#"{"topic":"u","id":"a"}"#;
    api.send("PUT", "/topics/u", r#"{"dedup":1}"#).await.expect(200);
    let problem = api.send("POST", "/jobs", elsewhere).await.expect_problem(409, "job_exists");
    assert_eq!(problem["ended"], ended, "the caller may use all topics");
    let anew = r#"{"topic":"t","id":"a","if_exists":"replace","body":3}"#;
    assert!(!api.send("POST", "/jobs", anew).await.expect(201).headers.contains_key("linger-replaced"));
}

async fn a_deleted_id_is_refused(engine: Engine) {
    let api = remembering(engine).await;
    api.add(JOB).await;
    api.delete("/jobs/a").await.expect(204);
    for add in [JOB, r#"{"topic":"t","id":"a","body":2}"#] {
        let problem = api.send("POST", "/jobs", add).await.expect_problem(409, "job_deleted");
        assert_eq!(problem["ended"], json!({ "how": "deleted", "at": "2026-11-21T05:40:00.000Z" }));
    }
    api.advance_and_promote(seconds(86_400)).await;
    api.add(JOB).await;
}

async fn a_batch_recognises_repeats(engine: Engine) {
    let api = remembering(engine).await;
    for id in ["a", "b"] {
        api.add(&JOB.replace("\"a\"", &format!("\"{id}\""))).await;
        finish_next(&api).await;
    }
    let jobs = format!(r#"{{"jobs":[{JOB},{{"topic":"t","id":"b","body":9}},{{"topic":"t","id":"c"}}]}}"#);
    let results = api.send("POST", "/batch/jobs", &jobs).await.expect(200).json()["results"].clone();
    let ended = json!({ "how": "finished", "at": "2026-11-21T05:40:00.000Z" });
    assert_eq!(results[0], json!({ "status": 200, "id": "a", "replayed": true, "ended": ended }));
    assert_eq!((&results[1]["status"], &results[1]["problem"]["code"]), (&json!(409), &json!("job_exists")));
    assert_eq!(results[2]["status"], 201);
}

async fn the_window_is_a_setting_of_the_topic(engine: Engine) {
    let api = Api::new(engine).await;
    for (window, seconds) in [("\"7d\"", json!(604_800)), ("1.5", json!(1.5))] {
        let settings = format!(r#"{{"dedup":{window}}}"#);
        let topic = api.send("PUT", "/topics/t", &settings).await.expect(200).json();
        assert_eq!(topic["settings"]["dedup"], seconds);
        assert_eq!(api.get("/topics/t").await.expect(200).json()["settings"]["dedup"], seconds);
    }
    for window in ["0", "0.999", "\"8d\"", "-1", "\"soon\"", "true"] {
        let settings = format!(r#"{{"dedup":{window}}}"#);
        let problem = api.send("PUT", "/topics/t", &settings).await.expect_problem(422, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], "/dedup", "{window}");
    }
    // It is copied into jobs when they are added.
    api.add(JOB).await;
    api.send("PUT", "/topics/t", "{}").await.expect(200);
    finish_next(&api).await;
    api.add(JOB).await;
    finish_next(&api).await;
    api.send("PUT", "/topics/t", r#"{"dedup":"1h"}"#).await.expect(200);
    api.advance_and_promote(seconds(2)).await;
    let repeat = api.send("POST", "/jobs", JOB).await;
    assert_eq!(repeat.status, 201, "the window of the first job has passed, and the second had none");
}
