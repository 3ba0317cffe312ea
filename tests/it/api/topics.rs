//! Topics: counts, settings, pause, purge, pages.

use serde_json::{Value, json};

use super::on_every_engine;
use crate::harness::{
    api::{Api, error_locations, text},
    jobs::{millis, seconds},
    stores::Engine,
};

on_every_engine!(
    a_topic_shows_its_counts_times_and_waiting_polls,
    an_unknown_topic_is_not_found,
    settings_are_replaced_as_a_whole_and_can_be_read_back,
    settings_are_copied_into_new_jobs_only,
    all_invalid_settings_are_reported_together,
    a_paused_delivery_hands_out_no_jobs,
    a_pause_ends_by_itself,
    a_pause_ends_at_the_last_end_that_it_was_given,
    a_pause_says_since_when_why_and_until_when,
    a_pause_that_would_be_over_is_refused,
    flags_are_paused_and_resumed_separately,
    a_purge_requires_the_name_twice,
    a_purge_deletes_every_state_and_keeps_settings,
);

async fn a_topic_shows_its_counts_times_and_waiting_polls(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","delay":1}"#).await;
    api.advance_and_promote(seconds(3)).await;
    api.add(r#"{"topic":"t","delay":10}"#).await;
    api.add(r#"{"topic":"t","delay":5}"#).await;
    let view = api.get("/topics/t").await.expect(200).json();
    // Where there may be other processes, they may not know yet that they are asked.
    let polls = |polls: u64| if engine == Engine::Embedded { json!(polls) } else { json!(null) };
    let expected = json!({
        "topic": "t", "counts": {"delayed": 2, "ready": 1, "reserved": 0, "dead": 0},
        "next_due_at": "2026-11-21T05:40:08.000Z", "oldest_overdue_at": "2026-11-21T05:40:01.000Z",
        "waiting": 0, "polls": polls(0), "paused": {"delivery": false, "intake": false}, "settings": {"require_receipt": false},
        "cause": if engine == Engine::Embedded { json!({"kind": "no_worker"}) } else { json!(null) },
    });
    assert_eq!(view, expected);
    api.pop("t").await;
    let poll = api.park(api.call("GET", "/topics/t/pop?wait=5s")).await;
    let view = api.get("/topics/t").await.expect(200).json();
    assert_eq!(view["counts"], json!({"delayed": 2, "ready": 0, "reserved": 1, "dead": 0}));
    assert_eq!((&view["waiting"], &view["oldest_overdue_at"]), (&json!(1), &json!(null)));
    assert_eq!(view["polls"], polls(2), "one has ended and one is parked");
    poll.abort();
}

async fn an_unknown_topic_is_not_found(engine: Engine) {
    let api = Api::new(engine).await;
    api.get("/topics/t").await.expect_problem(404, "topic_not_found");
    assert_eq!(api.get("/topics/t/dead").await.expect(200).body, "{\"jobs\":[]}\n");
    assert_eq!(api.delete("/topics/t/dead").await.expect(200).body, "{\"deleted\":0}\n");
    assert_eq!(api.delete("/topics/t?confirm=t").await.expect(200).body, "{\"deleted\":0}\n");
    assert_eq!(api.post("/topics/t/dead/requeue").await.expect(200).body, "{\"requeued\":0,\"skipped\":0}\n");
}

async fn settings_are_replaced_as_a_whole_and_can_be_read_back(engine: Engine) {
    let api = Api::new(engine).await;
    let settings = r#"{"ttr":"5m","max_attempts":0,"retry":["15s",180],"require_receipt":true}"#;
    let view = api.send("PUT", "/topics/t", settings).await.expect(200).json();
    let shown = json!({"ttr": 300, "max_attempts": 0, "retry": [15, 180], "require_receipt": true});
    assert_eq!(view["settings"], shown);
    let again = api.send("PUT", "/topics/t", &shown.to_string()).await.expect(200).json();
    assert_eq!(again["settings"], shown, "the settings that were read can be written");
    let bare = api.send("PUT", "/topics/t", "{}").await.expect(200).json();
    assert_eq!(bare["settings"], json!({"require_receipt": false}));
    api.get("/topics/t").await.expect_problem(404, "topic_not_found");
}

async fn settings_are_copied_into_new_jobs_only(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"old"}"#).await;
    api.send("PUT", "/topics/t", r#"{"ttr":300,"retry":[1,2]}"#).await.expect(200);
    let new = api.add(r#"{"topic":"t","id":"new"}"#).await;
    assert_eq!((&new["ttr"], &new["max_attempts"], &new["retry"]), (&json!(300), &json!(3), &json!([1, 2])));
    assert_eq!(api.get("/jobs/old").await.json()["ttr"], 60);
    let replay = api.send("POST", "/jobs", r#"{"topic":"t","id":"old"}"#).await.expect(200).json();
    assert_eq!(replay["ttr"], 60, "a repeat is compared with what was sent, not with the defaults");
}

async fn all_invalid_settings_are_reported_together(engine: Engine) {
    let api = Api::new(engine).await;
    let bad = r#"{"ttr":0,"max_attempts":-1,"retry":["x"],"require_receipt":"yes","priority":1}"#;
    let problem = api.send("PUT", "/topics/t", bad).await.expect_problem(422, "invalid_request");
    assert_eq!(
        error_locations(&problem),
        ["/ttr", "/max_attempts", "/retry/0", "/require_receipt", "/priority"]
    );
    let problem =
        api.send("POST", "/topics/t/pause", r#"{"delivery":1}"#).await.expect_problem(422, "invalid_request");
    assert_eq!(error_locations(&problem), ["/delivery"]);
    api.get("/topics/t").await.expect_problem(404, "topic_not_found");
}

async fn a_paused_delivery_hands_out_no_jobs(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    api.send("POST", "/topics/t/pause", r#"{"delivery":true}"#).await.expect(200);
    api.get("/topics/t/pop").await.expect(204);
    let poll = api.park(api.call("GET", "/topics/t/pop?wait=30s")).await;
    api.assert_waits(&poll, "delivery is paused").await;
    api.post("/topics/t/resume").await.expect(200);
    assert_eq!(poll.await.expect("is answered").expect(200).json()["id"], "a");
}

async fn a_pause_ends_by_itself(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    api.send("POST", "/topics/t/pause", r#"{"until":"20s"}"#).await.expect(200);
    api.send("POST", "/jobs", r#"{"topic":"t"}"#).await.expect_problem(409, "intake_paused");
    let poll = api.park(api.call("GET", "/topics/t/pop?wait=60s")).await;
    api.assert_waits(&poll, "delivery is paused").await;
    api.clock.advance(seconds(20) - millis(1));
    api.assert_waits(&poll, "delivery is paused").await;
    api.send("POST", "/jobs", r#"{"topic":"t"}"#).await.expect_problem(409, "intake_paused");
    api.clock.advance(millis(1));
    assert_eq!(poll.await.expect("is answered").expect(200).json()["id"], "a");
    api.send("POST", "/jobs", r#"{"topic":"t"}"#).await.expect(201);
    let view = api.get("/topics/t").await.expect(200).json();
    assert_eq!(
        (&view["paused"], &view["pauses"]),
        (&json!({"delivery": false, "intake": false}), &Value::Null)
    );
}

/// The end is a moment of the machine's clock.
#[tokio::test]
async fn a_pause_ends_within_seconds_of_a_clock_that_was_set_past_its_end() {
    let api = Api::new(Engine::Embedded).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    api.send("POST", "/topics/t/pause", r#"{"until":"1h"}"#).await.expect(200);
    let poll = api.park(api.call("GET", "/topics/t/pop?wait=60s")).await;
    api.clock.step_wall(3_600_000);
    api.clock.advance(seconds(5));
    assert_eq!(poll.await.expect("is answered").expect(200).json()["id"], "a");
}

async fn a_pause_ends_at_the_last_end_that_it_was_given(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    api.send("POST", "/topics/t/pause", r#"{"until":"20s"}"#).await.expect(200);
    let poll = api.park(api.call("GET", "/topics/t/pop?wait=1h")).await;
    api.send("POST", "/topics/t/pause", r#"{"until":"60s"}"#).await.expect(200);
    api.clock.advance(seconds(20));
    api.assert_waits(&poll, "the pause was given a later end").await;
    // Earlier than that one, later than the first.
    api.send("POST", "/topics/t/pause", r#"{"until":"10s"}"#).await.expect(200);
    api.clock.advance(seconds(10) - millis(1));
    api.assert_waits(&poll, "the end has not come").await;
    api.clock.advance(millis(1));
    assert_eq!(poll.await.expect("is answered").expect(200).json()["id"], "a");
}

async fn a_pause_says_since_when_why_and_until_when(engine: Engine) {
    let api = Api::new(engine).await;
    let pause = r#"{"delivery":true,"reason":"the bank is down","until":"2026-11-21T06:00:00Z"}"#;
    let paused = async |body: &str| {
        api.send("POST", "/topics/t/pause", body).await.expect(200).json()["pauses"].clone()
    };
    let expected = json!({"delivery": {
        "since": "2026-11-21T05:40:00.000Z", "reason": "the bank is down", "until": "2026-11-21T06:00:00.000Z",
    }});
    assert_eq!(paused(pause).await, expected);
    api.clock.advance(seconds(60));
    assert_eq!(api.get("/topics/t").await.expect(200).json()["pauses"], expected);
    let again = paused("{}").await;
    assert_eq!(again["delivery"], json!({"since": "2026-11-21T05:40:00.000Z"}));
    assert_eq!(again["intake"], json!({"since": "2026-11-21T05:41:00.000Z"}));
}

async fn a_pause_that_would_be_over_is_refused(engine: Engine) {
    let api = Api::new(engine).await;
    for until in ["0s", "2026-11-21T05:40:00Z", "2020-01-01T00:00:00Z", "tomorrow"] {
        let body = format!(r#"{{"until":"{until}"}}"#);
        let problem = api.send("POST", "/topics/t/pause", &body).await.expect_problem(422, "invalid_request");
        assert_eq!(error_locations(&problem), ["/until"], "{until}");
    }
    api.send("POST", "/topics/t/resume", r#"{"until":"5s"}"#).await.expect_problem(422, "invalid_request");
    api.get("/topics/t").await.expect_problem(404, "topic_not_found");
}

async fn flags_are_paused_and_resumed_separately(engine: Engine) {
    let api = Api::new(engine).await;
    for (step, body, delivery, intake) in [
        ("pause", r#"{"delivery":true}"#, true, false),
        ("pause", r#"{"intake":true,"delivery":false}"#, true, true),
        ("resume", r#"{"delivery":true}"#, false, true),
        ("resume", "{}", false, false),
        ("pause", "{}", true, true),
        ("resume", r#"{"intake":true}"#, true, false),
    ] {
        let view = api.send("POST", &format!("/topics/t/{step}"), body).await.expect(200).json();
        assert_eq!(view["paused"], json!({"delivery": delivery, "intake": intake}), "{step} {body}");
    }
    assert_eq!(api.post("/topics/t/pause").await.expect(200).json()["paused"]["intake"], true);
    assert_eq!(api.post("/topics/t/resume").await.expect(200).json()["paused"]["delivery"], false);
}

async fn a_purge_requires_the_name_twice(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    for query in ["", "?confirm=", "?confirm=u", "?confirm=T", "?confirm"] {
        api.delete(&format!("/topics/t{query}")).await.expect_problem(400, "confirmation_required");
    }
    api.get("/jobs/a").await.expect(200);
}

async fn a_purge_deletes_every_state_and_keeps_settings(engine: Engine) {
    let api = Api::new(engine).await;
    api.send("PUT", "/topics/t", r#"{"ttr":90}"#).await.expect(200);
    api.add(r#"{"topic":"t","id":"dead"}"#).await;
    api.bury("t").await;
    api.add(r#"{"topic":"t","id":"reserved"}"#).await;
    let reserved = api.pop("t").await;
    api.add(r#"{"topic":"t","id":"ready"}"#).await;
    api.add(r#"{"topic":"t","id":"delayed","delay":9}"#).await;
    api.add(r#"{"topic":"other","id":"stays"}"#).await;
    assert_eq!(api.delete("/topics/t?confirm=t").await.expect(200).body, "{\"deleted\":4}\n");
    let view = api.get("/topics/t").await.expect(200).json();
    assert_eq!(view["counts"], json!({"delayed": 0, "ready": 0, "reserved": 0, "dead": 0}));
    assert_eq!(view["settings"]["ttr"], 90);
    let finish = format!("/jobs/reserved/finish?receipt={}", text(&reserved["receipt"]));
    api.post(&finish).await.expect_problem(404, "job_not_found");
    api.get("/jobs/stays").await.expect(200);
}
