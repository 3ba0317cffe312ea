//! Figures of the whole queue, and what a caller may do.

use linger::auth::Scope;
use serde_json::json;

use super::{bulk::ended, on_every_engine};
use crate::{
    auth::{api_with_tokens, with},
    harness::{
        api::{Api, text},
        jobs::seconds,
        stores::Engine,
    },
};

on_every_engine!(the_figures_tell_what_is_there_and_what_happened, jobs_are_counted_each_time_they_come_due,);

async fn the_figures_tell_what_is_there_and_what_happened(engine: Engine) {
    let api = Api::new(engine).await;
    for delay in [0, 0, 0, 60, 7_200] {
        api.add(&format!(r#"{{"topic":"t","delay":{delay}}}"#)).await;
    }
    let popped = api.pop("t").await;
    api.post(&format!("/jobs/{}/finish?receipt={}", text(&popped["id"]), text(&popped["receipt"])))
        .await
        .expect(204);
    api.bury("t").await;
    let seen = api.get("/stats").await.expect(200).json();
    assert_eq!(seen["counts"], json!({ "delayed": 2, "ready": 1, "reserved": 0, "dead": 1 }));
    let expected = json!({
        "added": 5, "due": 3, "delivered": 2, "finished": 1, "finished_late": 0, "released": 0, "timed_out": 0, "died": 1, "expired": 0, "requeued": 0,
        "deleted": 0, "cancelled": 0, "delivered_late_p50": 0.001, "delivered_late_p99": 0.001,
    });
    assert_eq!((&seen["minute"], &seen["hour"]), (&expected, &expected));
    assert_eq!(seen["processes"].as_array().map(Vec::len), Some(1));
    let used = seen["store"]["used_bytes"].as_u64();
    assert_eq!(used.is_some_and(|bytes| bytes > 0), engine != Engine::Naive, "{seen}");
    assert_eq!(seen["store"]["free_bytes"].is_u64(), engine == Engine::Embedded, "no limit is set for Redis");
    let process = &seen["processes"][0];
    assert!(process["resident_bytes"].as_u64().is_some_and(|bytes| bytes > 1_000_000), "{seen}");
    assert_eq!((&process["operations"], &process["failing_topics"]), (&json!(0), &json!(0)));
    let none_known = (engine == Engine::Embedded).then_some(&json!(null));
    assert_eq!(seen["store"].get("backup_at"), none_known, "{seen}");
    api.add(r#"{"topic":"a","delay":0}"#).await;
    let by_topic = api.get("/stats?by=topic").await.expect(200).json();
    let mut of_a = expected.clone();
    (of_a["added"], of_a["due"], of_a["delivered"], of_a["finished"], of_a["died"]) =
        (json!(1), json!(1), json!(0), json!(0), json!(0));
    for late in ["delivered_late_p50", "delivered_late_p99"] {
        of_a.as_object_mut().expect("an object").remove(late);
    }
    let topics = json!([{ "topic": "a", "minute": of_a }, { "topic": "t", "minute": expected }]);
    assert_eq!((&by_topic["topics"], &by_topic["topics_complete"]), (&topics, &json!(true)));
    for absent in ["topics", "topics_complete", "minutes"] {
        assert!(seen.get(absent).is_none(), "{seen}");
    }
    // The clock shows 05:40:00.
    let minutes = api.get("/stats?by=minute").await.expect(200).json()["minutes"].take();
    let last = |event: &str| minutes[event].as_array().and_then(|counts| counts.last()).cloned();
    assert_eq!(minutes["from"], "2026-11-21T04:41:00.000Z");
    let counts = ["added", "due", "delivered", "finished", "died"].map(last);
    assert_eq!(counts, [6, 4, 2, 1, 1].map(|count| Some(json!(count))));
    api.get("/stats?by=state").await.expect_problem(400, "invalid_parameter");
    api.advance_and_promote(seconds(90)).await;
    let later = api.get("/stats").await.expect(200).json();
    assert_eq!(later["counts"]["ready"], 3);
    assert_eq!((&later["minute"]["added"], &later["hour"]["added"]), (&json!(0), &json!(6)));
    assert_eq!((&later["minute"]["due"], &later["hour"]["due"]), (&json!(1), &json!(5)), "a delay has ended");
    assert_eq!((&later["minute"]["late_p50"], &later["hour"]["late_p99"]), (&json!(30), &json!(30)));
    assert_eq!(later["minute"].get("delivered_late_p50"), None, "no job was delivered in this minute");
    assert_eq!(later["hour"]["delivered_late_p99"], json!(0.001));
    // One of them was due at once, 90 seconds ago, the other 30 seconds ago.
    for _ in 0..2 {
        api.pop("t").await;
    }
    let delivered = api.get("/stats?by=topic").await.expect(200).json();
    for minute in [&delivered["minute"], &delivered["topics"][0]["minute"]] {
        assert_eq!((&minute["delivered_late_p50"], &minute["delivered_late_p99"]), (&json!(30), &json!(120)));
    }
    let past = api.get("/stats?by=minute").await.expect(200).json();
    let added = past["minutes"]["added"].as_array().expect("a list").clone();
    assert_eq!(
        (added.len(), &added[58], &added[59]),
        (60, &json!(6), &json!(0)),
        "a minute and a half later"
    );
}

async fn jobs_are_counted_each_time_they_come_due(engine: Engine) {
    let api = Api::new(engine).await;
    let due = async || api.get("/stats").await.expect(200).json()["hour"]["due"].as_u64();
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    api.add(r#"{"topic":"t","id":"b","delay":5,"retry":[10]}"#).await;
    assert_eq!(due().await, Some(1), "one is ready at once");
    let first = api.pop("t").await;
    let release = json!({ "receipt": first["receipt"], "delay": 0 });
    api.send("POST", "/jobs/a/release", &release.to_string()).await.expect(200);
    assert_eq!(due().await, Some(2), "it was released at once");
    api.pop("t").await;
    api.advance_and_promote(seconds(5)).await;
    assert_eq!(due().await, Some(3), "the delay of the other has ended");
    api.pop("t").await;
    api.advance_and_promote(seconds(55)).await;
    assert_eq!(due().await, Some(4), "the TTR of the first has ended, which has no retry schedule");
    api.advance_and_promote(seconds(5)).await;
    assert_eq!(due().await, Some(4), "after its TTR the other waits for a retry");
    api.advance_and_promote(seconds(10)).await;
    assert_eq!(due().await, Some(5));
    let dead = api.bury("t").await;
    api.post(&format!("/jobs/{}/requeue", text(&dead["id"]))).await.expect(200);
    assert_eq!(due().await, Some(6), "it was requeued at once");
    for (id, body, expected) in
        [("c", r#"{"delay":0}"#, 7), ("d", r#"{"delay":60}"#, 7), ("e", r#"{"ttr":5}"#, 7)]
    {
        api.add(&format!(r#"{{"topic":"u","id":"{id}","delay":3600}}"#)).await;
        api.send("PATCH", &format!("/jobs/{id}"), body).await.expect(200);
        assert_eq!(due().await, Some(expected), "{id} {body}");
    }
    let all = json!({ "action": "reschedule", "filter": { "topic": "u", "state": "delayed" }, "delay": 0, "limit": 10, "dry_run": false });
    let started = api.send("POST", "/bulk", &all.to_string()).await.expect(202).json();
    ended(&api, text(&started["id"])).await;
    assert_eq!(due().await, Some(9), "the other two");
}

#[tokio::test]
async fn a_caller_learns_what_its_token_may_do() {
    let tokens: [(&str, &[Scope], &[&str]); 2] =
        [("all", &[Scope::Admin], &[]), ("some", &[Scope::Read, Scope::Work], &["mail", "ord*"])];
    let api = api_with_tokens(Engine::Naive, &tokens).await;
    let seen = async |token| with(api.call("GET", "/whoami"), token).send().await.expect(200).json();
    assert_eq!(seen("all").await, json!({ "name": "all", "scopes": ["admin"], "title": "" }));
    let some = json!({ "name": "some", "scopes": ["read", "work"], "topics": ["mail", "ord*"], "title": "" });
    assert_eq!(seen("some").await, some);
    api.call("GET", "/whoami").send().await.expect_problem(401, "unauthorized");
}
