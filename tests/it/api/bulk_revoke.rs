//! The bulk operation that takes reserved jobs back from their workers.

use serde_json::json;

use super::{bulk::run, on_every_engine};
use crate::harness::{
    api::{Api, text},
    stores::Engine,
};

on_every_engine!(the_jobs_of_a_worker_are_taken_back);

async fn the_jobs_of_a_worker_are_taken_back(engine: Engine) {
    let api = Api::new(engine).await;
    for (name, attempts) in [("a", 3), ("b", 3), ("last", 1), ("kept", 3)] {
        api.add(&format!(r#"{{"topic":"t","id":"{name}","max_attempts":{attempts}}}"#)).await;
        let worker = if name == "kept" { "w-8" } else { "w-7" };
        api.post(&format!("/topics/t/pop?worker={worker}")).await.expect(200);
    }
    let request = json!({
        "action": "revoke", "filter": { "topic": "t", "reserved_by": "w-7" }, "delay": "5m", "spread": "1m",
        "reason": "its host is gone",
    });
    let counted = api.send("POST", "/bulk", &request.to_string()).await.expect(200).json();
    assert_eq!(counted["matched"], 3);
    let mut revoke = request.clone();
    revoke.as_object_mut().expect("an object").extend(
        [("dry_run", json!(false)), ("limit", json!(10)), ("id", json!("take-back"))]
            .map(|(name, value)| (name.to_owned(), value)),
    );
    let done = run(&api, &revoke).await;
    assert_eq!([&done["changed"], &done["skipped"]], [&json!(3), &json!(0)], "{done}");
    assert_eq!(
        [&done["action"], &done["reason"]],
        ["revoke", "its host is gone"].map(|text| json!(text)).each_ref()
    );
    assert_eq!(
        [&done["delay"], &done["spread"], &done["filter"]["state"]],
        [&json!(300), &json!(60), &json!("reserved")]
    );
    for name in ["a", "b"] {
        let job = api.get(&format!("/jobs/{name}")).await.json();
        assert_eq!([&job["state"], &job["attempts"]], [&json!("delayed"), &json!(1)], "{job}");
        let reason = text(&job["reason"]);
        assert!(reason.starts_with("revoked") && reason.ends_with(": its host is gone"), "{reason}");
        assert_eq!(job["history"][0]["ended"], "revoked");
        let due = text(&job["due_at"]);
        assert!(("2026-11-21T05:45:38.719Z".."2026-11-21T05:46:38.719Z").contains(&due), "{due}");
    }
    assert_eq!(api.get("/jobs/last").await.json()["state"], "dead");
    assert_eq!(api.get("/jobs/kept").await.json()["state"], "reserved");
    let counted = async || {
        let minute = api.get("/stats").await.json()["minute"].clone();
        ["released", "died", "due"].map(|event| minute[event].as_u64().expect("a number"))
    };
    assert_eq!(
        counted().await,
        [3, 1, 4],
        "as if each was revoked alone; four were due when they were added"
    );
    let at_once = json!({
        "action": "revoke", "filter": { "topic": "t", "reserved_by": "w-8" }, "dry_run": false, "limit": 1,
    });
    assert_eq!(run(&api, &at_once).await["changed"], 1);
    assert_eq!(api.get("/jobs/kept").await.json()["state"], "ready");
    assert_eq!(counted().await, [4, 1, 5], "due again");
}
