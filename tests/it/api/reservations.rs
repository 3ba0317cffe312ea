//! What the holder of a reservation does: finish, release, touch, bury; and the refusal of a stale receipt.

use serde_json::{Value, json};

use super::on_every_engine;
use crate::harness::{
    api::{Api, Setup, error_locations, text},
    jobs::{millis, seconds},
    stores::Engine,
};

on_every_engine!(
    a_finished_job_is_gone,
    finish_without_a_receipt_works_while_the_job_is_reserved,
    finish_without_a_receipt_is_refused_where_receipts_are_required,
    finish_works_past_the_ttr_until_the_reservation_is_ended,
    a_finish_after_the_next_pop_is_refused_and_the_second_holder_finishes,
    a_stale_receipt_changes_nothing,
    release_uses_the_delay_the_retry_list_or_the_back_off,
    release_waits_until_a_moment,
    touch_extends_from_now,
    a_note_goes_with_a_touch_and_outlives_the_reservation,
    a_note_has_1_to_256_bytes,
    a_revoked_job_is_ready_again,
    bury_keeps_the_reason,
    a_job_without_attempts_left_becomes_a_dead_letter,
    delete_works_in_every_state,
    a_delete_may_leave_what_a_worker_holds,
    unknown_jobs_are_not_found,
    receipts_are_checked_before_anything_else,
    a_receipt_may_be_in_the_query_or_in_the_body,
    the_error_for_a_missing_receipt_says_where_to_send_it,
    null_reads_as_no_body_if_a_body_may_be_left_out,
);

/// Adds and pops a job. Returns its id and receipt.
async fn add_and_pop(api: &Api, json: &str) -> (String, String) {
    let id = text(&api.add(json).await["id"]).to_owned();
    let topic: Value = serde_json::from_str(json).expect("JSON");
    let job = api.pop(text(&topic["topic"])).await;
    assert_eq!(job["id"], id);
    (id, text(&job["receipt"]).to_owned())
}

async fn a_finished_job_is_gone(engine: Engine) {
    let api = Api::new(engine).await;
    let (id, receipt) = add_and_pop(&api, r#"{"topic":"t","id":"a"}"#).await;
    let finish = format!("/jobs/{id}/finish?receipt={receipt}");
    assert!(api.post(&finish).await.expect(204).body.is_empty());
    api.post(&finish).await.expect_problem(404, "job_not_found");
    api.get("/jobs/a").await.expect_problem(404, "job_not_found");
    api.get("/topics/t").await.expect_problem(404, "topic_not_found");
}

async fn finish_without_a_receipt_works_while_the_job_is_reserved(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","delay":1}"#).await;
    api.post("/jobs/a/finish").await.expect_problem(409, "not_reserved");
    api.advance_and_promote(seconds(1)).await;
    api.post("/jobs/a/finish").await.expect_problem(409, "not_reserved");
    api.pop("t").await;
    api.call("POST", "/jobs/a/finish").json("{}").send().await.expect(204);
}

async fn finish_without_a_receipt_is_refused_where_receipts_are_required(engine: Engine) {
    let api = Api::new(engine).await;
    api.send("PUT", "/topics/t", r#"{"require_receipt":true}"#).await.expect(200);
    let (_, receipt) = add_and_pop(&api, r#"{"topic":"t","id":"a"}"#).await;
    api.post("/jobs/a/finish").await.expect_problem(422, "receipt_required");
    api.post(&format!("/jobs/a/finish?receipt={receipt}")).await.expect(204);
}

async fn finish_works_past_the_ttr_until_the_reservation_is_ended(engine: Engine) {
    let api = Api::with(engine, Setup { no_timer: true, ..Setup::default() }).await;
    let (_, receipt) = add_and_pop(&api, r#"{"topic":"t","id":"a","ttr":5}"#).await;
    api.clock.advance(seconds(7));
    let touch = format!(r#"{{"receipt":"{receipt}"}}"#);
    api.send("POST", "/jobs/a/touch", &touch).await.expect(200);
    api.clock.advance(seconds(7));
    api.post(&format!("/jobs/a/finish?receipt={receipt}")).await.expect(204);
}

async fn a_finish_after_the_next_pop_is_refused_and_the_second_holder_finishes(engine: Engine) {
    let api = Api::new(engine).await;
    let (_, first) = add_and_pop(&api, r#"{"topic":"t","id":"a","ttr":5}"#).await;
    api.advance_and_promote(seconds(5)).await;
    let second = api.pop("t").await;
    assert_eq!(second["attempt"], 2);
    api.post(&format!("/jobs/a/finish?receipt={first}")).await.expect_problem(409, "lease_lost");
    assert_eq!(api.get("/jobs/a").await.json()["state"], "reserved", "nothing changed");
    api.post(&format!("/jobs/a/finish?receipt={}", text(&second["receipt"]))).await.expect(204);
}

async fn a_stale_receipt_changes_nothing(engine: Engine) {
    let api = Api::new(engine).await;
    let (_, stale) = add_and_pop(&api, r#"{"topic":"t","id":"a","ttr":5}"#).await;
    api.advance_and_promote(seconds(5)).await;
    api.pop("t").await;
    let before = api.get("/jobs/a").await.json();
    let foreign = "0123456789abcdef0123456789abcdef";
    for receipt in [stale.as_str(), foreign] {
        let body = format!(r#"{{"receipt":"{receipt}"}}"#);
        for step in ["release", "touch", "bury"] {
            api.send("POST", &format!("/jobs/a/{step}"), &body).await.expect_problem(409, "lease_lost");
        }
        let batch = format!(r#"{{"jobs":[{{"id":"a","receipt":"{receipt}"}}]}}"#);
        let results = api.send("POST", "/batch/finish", &batch).await.expect(200).json();
        assert_eq!(results["results"][0]["problem"]["code"], "lease_lost");
    }
    assert_eq!(api.get("/jobs/a").await.json(), before);
}

async fn release_uses_the_delay_the_retry_list_or_the_back_off(engine: Engine) {
    let api = Api::new(engine).await;
    for (job, release, due_at) in [
        (r#"{"topic":"a"}"#, r#","delay":"1m""#, "2026-11-21T05:41:00.000Z"),
        (r#"{"topic":"b","retry":[7]}"#, "", "2026-11-21T05:40:07.000Z"),
        (r#"{"topic":"c","retry":[7]}"#, r#","delay":0"#, "2026-11-21T05:40:00.000Z"),
        (r#"{"topic":"d"}"#, "", "2026-11-21T05:40:01.000Z"),
    ] {
        let (id, receipt) = add_and_pop(&api, job).await;
        let body = format!(r#"{{"receipt":"{receipt}","reason":"closed"{release}}}"#);
        let job = api.send("POST", &format!("/jobs/{id}/release"), &body).await.expect(200).json();
        assert_eq!(job["due_at"], due_at, "{job}");
        assert_eq!(job["reason"], "closed");
        assert_eq!(job["attempts"], 1, "a released attempt counts");
        assert!(job.get("reserved_until").is_none());
    }
}

async fn release_waits_until_a_moment(engine: Engine) {
    let api = Api::new(engine).await;
    let (_, receipt) = add_and_pop(&api, r#"{"topic":"t","id":"a","retry":[60],"max_attempts":0}"#).await;
    let release =
        json!({"receipt": receipt, "at": "2026-11-21T09:00:00+01:00", "reason": "closed until nine"});
    let released = api.send("POST", "/jobs/a/release", &release.to_string()).await.expect(200).json();
    let seen = (&released["state"], &released["due_at"], &released["reason"]);
    assert_eq!(seen, (&json!("delayed"), &json!("2026-11-21T08:00:00.000Z"), &json!("closed until nine")));
    api.advance_and_promote(seconds(8_400) - millis(1)).await;
    api.get("/topics/t/pop").await.expect(204);
    api.advance_and_promote(millis(1)).await;
    let receipt = api.pop("t").await["receipt"].clone();
    let past = json!({"receipt": receipt, "at": "2001-01-01T00:00:00Z"});
    let released = api.send("POST", "/jobs/a/release", &past.to_string()).await.expect(200).json();
    assert_eq!(released["state"], "ready");
}

async fn touch_extends_from_now(engine: Engine) {
    let api = Api::new(engine).await;
    let (_, receipt) = add_and_pop(&api, r#"{"topic":"t","id":"a","ttr":10}"#).await;
    api.advance_and_promote(seconds(9)).await;
    let own =
        api.send("POST", "/jobs/a/touch", &format!(r#"{{"receipt":"{receipt}"}}"#)).await.expect(200).json();
    assert_eq!(own["reserved_until"], "2026-11-21T05:40:19.000Z");
    assert!(own.get("receipt").is_none(), "only the pop returns the receipt");
    let body = format!(r#"{{"receipt":"{receipt}","ttr":"5m"}}"#);
    let more = api.send("POST", "/jobs/a/touch", &body).await.expect(200).json();
    assert_eq!(more["reserved_until"], "2026-11-21T05:45:09.000Z");
}

async fn a_note_goes_with_a_touch_and_outlives_the_reservation(engine: Engine) {
    let api = Api::new(engine).await;
    let (_, receipt) = add_and_pop(&api, r#"{"topic":"t","id":"a"}"#).await;
    api.advance_and_promote(seconds(9)).await;
    let body = json!({"receipt": receipt, "note": "3 of 7 \"files\" é"}).to_string();
    let touched = api.send("POST", "/jobs/a/touch", &body).await.expect(200).json();
    let has_note = |job: &Value| {
        assert_eq!(job["note"], "3 of 7 \"files\" é", "{job}");
        assert_eq!(job["noted_at"], "2026-11-21T05:40:09.000Z", "{job}");
    };
    has_note(&touched);
    has_note(&api.get("/jobs/a").await.expect(200).json());
    has_note(&api.get("/jobs?state=reserved").await.expect(200).json()["jobs"][0]);
    let body = json!({"receipt": receipt, "delay": 0}).to_string();
    has_note(&api.send("POST", "/jobs/a/release", &body).await.expect(200).json());
    let again = api.pop("t").await;
    has_note(&again);
    let items = json!([{"id": "a", "receipt": again["receipt"], "note": "5 of 7"}]);
    let body = json!({"jobs": items}).to_string();
    assert_eq!(api.send("POST", "/batch/touch", &body).await.expect(200).json()["results"][0]["status"], 200);
    api.advance_and_promote(seconds(60)).await;
    assert_eq!(api.pop("t").await["note"], "5 of 7");
}

async fn a_note_has_1_to_256_bytes(engine: Engine) {
    let api = Api::new(engine).await;
    let (_, receipt) = add_and_pop(&api, r#"{"topic":"t","id":"a"}"#).await;
    let longest = "é".repeat(128);
    let body = json!({"receipt": receipt, "note": longest}).to_string();
    assert_eq!(api.send("POST", "/jobs/a/touch", &body).await.expect(200).json()["note"], longest);
    let bounds = "/note must be 1 to 256 bytes long";
    for (note, detail) in [
        (json!(""), bounds),
        (json!(format!("{longest}x")), bounds),
        (json!(3), "/note must be a string"),
        (json!(null), "/note must not be null: leave it out to keep the note, or send another one"),
    ] {
        let body = json!({"receipt": receipt, "note": note}).to_string();
        let refused = api.send("POST", "/jobs/a/touch", &body).await.expect_problem(422, "invalid_request");
        assert_eq!(text(&refused["detail"]), detail, "{note}");
        let body = json!({"jobs": [{"id": "a", "receipt": receipt, "note": note}]}).to_string();
        let results = api.send("POST", "/batch/touch", &body).await.expect(200).json();
        assert_eq!(error_locations(&results["results"][0]["problem"]), ["/jobs/0/note"], "{note}");
    }
    assert_eq!(api.get("/jobs/a").await.expect(200).json()["note"], longest);
}

async fn a_revoked_job_is_ready_again(engine: Engine) {
    let api = Api::new(engine).await;
    let (_, receipt) = add_and_pop(&api, r#"{"topic":"t","id":"a","retry":[30],"max_attempts":3}"#).await;
    api.advance_and_promote(seconds(2)).await;
    let job = api.post("/jobs/a/revoke").await.expect(200).json();
    assert_eq!((&job["state"], &job["attempts"]), (&json!("ready"), &json!(1)));
    let entry = &job["history"][0];
    assert_eq!((&entry["ended"], &entry["took"]), (&json!("revoked"), &json!(2)));
    assert_eq!(entry["reason"], "revoked", "it is not known who did it");
    api.post(&format!("/jobs/a/finish?receipt={receipt}")).await.expect_problem(409, "lease_lost");
    api.post("/jobs/a/revoke").await.expect_problem(409, "not_reserved");
    api.post("/jobs/none/revoke").await.expect_problem(404, "job_not_found");

    api.pop("t").await;
    let other = r#"{"attempt":1}"#;
    api.send("POST", "/jobs/a/revoke", other).await.expect_problem(409, "other_attempt");
    let body = r#"{"attempt":2,"delay":"10m","reason":"w-7 is gone"}"#;
    let job = api.send("POST", "/jobs/a/revoke", body).await.expect(200).json();
    assert_eq!((&job["state"], &job["due_at"]), (&json!("delayed"), &json!("2026-11-21T05:50:02.000Z")));
    assert_eq!(
        (&job["reason"], &job["history"][1]["reason"]),
        (&json!("revoked: w-7 is gone"), &json!("revoked: w-7 is gone"))
    );
    api.send("POST", "/jobs/a/revoke", r#"{"receipt":"9f"}"#).await.expect_problem(422, "invalid_request");
    let metrics = String::from_utf8(api.get("/metrics").await.expect(200).body.to_vec()).expect("text");
    assert!(metrics.contains("linger_jobs_released_total{topic=\"t\"} 2"), "{metrics}");

    // The holder of a version that was replaced loses the job, too.
    api.add(r#"{"topic":"t","id":"b"}"#).await;
    api.pop("t").await;
    api.send("POST", "/jobs", r#"{"topic":"t","id":"b","body":2,"if_exists":"replace"}"#).await.expect(200);
    let job = api.post("/jobs/b/revoke").await.expect(200).json();
    assert_eq!((&job["state"], &job["attempts"], &job["body"]), (&json!("ready"), &json!(0), &json!(2)));
}

async fn bury_keeps_the_reason(engine: Engine) {
    let api = Api::new(engine).await;
    let (_, receipt) = add_and_pop(&api, r#"{"topic":"t","id":"a"}"#).await;
    let body = format!(r#"{{"receipt":"{receipt}","reason":"no such \"order\" é"}}"#);
    let job = api.send("POST", "/jobs/a/bury", &body).await.expect(200).json();
    assert_eq!((&job["state"], &job["reason"]), (&json!("dead"), &json!("no such \"order\" é")));
    assert_eq!(job["dead_at"], "2026-11-21T05:40:00.000Z");
    api.post(&format!("/jobs/a/finish?receipt={receipt}")).await.expect_problem(409, "lease_lost");
}

async fn a_job_without_attempts_left_becomes_a_dead_letter(engine: Engine) {
    let api = Api::new(engine).await;
    let (_, receipt) = add_and_pop(&api, r#"{"topic":"t","id":"a","max_attempts":1}"#).await;
    let body = format!(r#"{{"receipt":"{receipt}"}}"#);
    let job = api.send("POST", "/jobs/a/release", &body).await.expect(200).json();
    assert_eq!((&job["state"], &job["reason"]), (&json!("dead"), &json!("attempts_used")));
    add_and_pop(&api, r#"{"topic":"t","id":"b","max_attempts":1,"ttr":5}"#).await;
    api.advance_and_promote(seconds(5)).await;
    let job = api.get("/jobs/b").await.json();
    assert_eq!((&job["state"], &job["reason"]), (&json!("dead"), &json!("ttr_expired")));
}

async fn delete_works_in_every_state(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"dead","id":"dead"}"#).await;
    api.bury("dead").await;
    api.add(r#"{"topic":"reserved","id":"reserved"}"#).await;
    let job = api.pop("reserved").await;
    api.add(r#"{"topic":"ready","id":"ready"}"#).await;
    api.add(r#"{"topic":"delayed","id":"delayed","delay":5}"#).await;
    for state in ["dead", "reserved", "ready", "delayed"] {
        assert_eq!(api.get(&format!("/jobs/{state}")).await.json()["state"], state);
        let deleted = api.delete(&format!("/jobs/{state}")).await.expect(204);
        assert!(deleted.body.is_empty());
        assert_eq!(deleted.header("linger-state"), state);
        api.delete(&format!("/jobs/{state}")).await.expect_problem(404, "job_not_found");
    }
    api.post(&format!("/jobs/reserved/finish?receipt={}", text(&job["receipt"])))
        .await
        .expect_problem(404, "job_not_found");
    api.advance_and_promote(seconds(5)).await;
    api.get("/topics/delayed/pop").await.expect(204);
}

async fn a_delete_may_leave_what_a_worker_holds(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"held"}"#).await;
    api.pop("t").await;
    api.add(r#"{"topic":"t","id":"waits","delay":5}"#).await;
    api.delete("/jobs/held?unless_reserved=true").await.expect_problem(409, "job_reserved");
    let body = r#"{"ids":["held","waits"],"unless_reserved":true}"#;
    let results = api.send("POST", "/batch/delete", body).await.expect(200).json()["results"].clone();
    assert_eq!(results[0]["problem"]["code"], "job_reserved");
    assert_eq!(results[1], json!({ "status": 204, "id": "waits", "state": "delayed" }));
    let refused = api.delete("/jobs/held?unless_reserved=yes").await;
    refused.expect_problem(400, "invalid_parameter");
    let deleted = api.delete("/jobs/held?unless_reserved=false").await.expect(204);
    assert_eq!(deleted.header("linger-state"), "reserved");
}

async fn unknown_jobs_are_not_found(engine: Engine) {
    let api = Api::new(engine).await;
    let receipt = "0123456789abcdef0123456789abcdef";
    let body = format!(r#"{{"receipt":"{receipt}"}}"#);
    for step in ["release", "touch", "bury"] {
        api.send("POST", &format!("/jobs/nobody/{step}"), &body).await.expect_problem(404, "job_not_found");
    }
    api.post("/jobs/nobody/requeue").await.expect_problem(404, "job_not_found");
    api.post("/jobs/nobody/finish").await.expect_problem(404, "job_not_found");
    api.post(&format!("/jobs/nobody/finish?receipt={receipt}")).await.expect_problem(404, "job_not_found");
    api.get("/jobs/nobody").await.expect_problem(404, "job_not_found");
    api.delete("/jobs/nobody").await.expect_problem(404, "job_not_found");
}

async fn receipts_are_checked_before_anything_else(engine: Engine) {
    let api = Api::new(engine).await;
    add_and_pop(&api, r#"{"topic":"t","id":"a"}"#).await;
    let long = "a".repeat(5_000);
    for bad in
        ["", "short", "ABCDEF0123456789ABCDEF0123456789", "%00", "0123456789abcdef0123456789abcdeg", &long]
    {
        api.post(&format!("/jobs/a/finish?receipt={bad}")).await.expect_problem(400, "invalid_parameter");
    }
    for bad in ["null", "1", "\"\"", "\"short\"", "[]"] {
        for step in ["finish", "release", "touch", "bury"] {
            let response =
                api.send("POST", &format!("/jobs/a/{step}"), &format!(r#"{{"receipt":{bad}}}"#)).await;
            assert_eq!(error_locations(&response.expect_problem(422, "invalid_request")), ["/receipt"]);
        }
    }
    let foreign = r#"{"receipt":"0123456789abcdef0123456789abcdef"}"#;
    api.send("POST", "/jobs/a/finish", foreign).await.expect_problem(409, "lease_lost");
    assert_eq!(api.get("/jobs/a").await.json()["state"], "reserved");
}

async fn a_receipt_may_be_in_the_query_or_in_the_body(engine: Engine) {
    let api = Api::new(engine).await;
    let other = "0123456789abcdef0123456789abcdef";
    for (step, status) in [("touch", 200), ("finish", 204), ("release", 200), ("bury", 200)] {
        for (id, in_query, in_body) in [("q", true, false), ("b", false, true), ("both", true, true)] {
            let topic = format!("{step}-{id}");
            let (id, receipt) = add_and_pop(&api, &format!(r#"{{"topic":"{topic}","id":"{topic}"}}"#)).await;
            let differs = format!(r#"{{"receipt":"{other}"}}"#);
            let problem = api.send("POST", &format!("/jobs/{id}/{step}?receipt={receipt}"), &differs).await;
            let problem = problem.expect_problem(422, "invalid_request");
            assert_eq!(error_locations(&problem), ["/receipt"], "{step}");
            let target = match in_query {
                true => format!("/jobs/{id}/{step}?receipt={receipt}"),
                false => format!("/jobs/{id}/{step}"),
            };
            let body = if in_body { format!(r#"{{"receipt":"{receipt}"}}"#) } else { String::new() };
            let call = api.call("POST", &target);
            let call = if in_body { call.json(&body) } else { call };
            call.send().await.expect(status);
        }
    }
}

async fn the_error_for_a_missing_receipt_says_where_to_send_it(engine: Engine) {
    let api = Api::new(engine).await;
    add_and_pop(&api, r#"{"topic":"t","id":"a"}"#).await;
    for step in ["release", "touch", "bury"] {
        let target = format!("/jobs/a/{step}");
        for problem in [api.post(&target).await, api.send("POST", &target, "{}").await] {
            let problem = problem.expect_problem(422, "invalid_request");
            assert_eq!(error_locations(&problem), ["/receipt"]);
            assert_eq!(text(&problem["detail"]), "/receipt is required, here or in the query");
        }
        let problem =
            api.post(&format!("{target}?receipt=short")).await.expect_problem(400, "invalid_parameter");
        assert_eq!(error_locations(&problem), ["receipt"]);
    }
}

/// Generated clients send `null` for a body that is left out.
async fn null_reads_as_no_body_if_a_body_may_be_left_out(engine: Engine) {
    let api = Api::new(engine).await;
    let (_, receipt) = add_and_pop(&api, r#"{"topic":"t","id":"a"}"#).await;
    api.send("POST", &format!("/jobs/a/touch?receipt={receipt}"), "null").await.expect(200);
    api.send("POST", &format!("/jobs/a/bury?receipt={receipt}"), " null\n").await.expect(200);
    api.send("POST", "/jobs/a/requeue", "null").await.expect(200);
    api.send("POST", "/topics/t/pause", "null").await.expect(200);
    api.send("POST", "/topics/t/resume", "null").await.expect(200);
    api.send("POST", "/topics/t/dead/requeue", "null").await.expect(200);
    api.send("POST", "/topics/t/pop", "null").await.expect(200);
    api.send("POST", "/jobs/a/finish", "null").await.expect(204);
    api.send("POST", "/jobs", "null").await.expect_problem(422, "invalid_job");
}
