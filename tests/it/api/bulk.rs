//! Bulk operations: dry runs, what each action does, limits, repeats and stops.

use std::time::Duration;

use linger::{clock::Clock, store::Error};
use serde_json::{Value, json};

use super::on_every_engine;
use crate::harness::{
    api::{Api, text},
    failing::Failure,
    stores::Engine,
    wait::{StepLimit, TimeLimit, assert_waits},
};

on_every_engine!(
    a_dry_run_counts_and_changes_nothing,
    whole_minutes_are_counted_by_the_timeline,
    a_long_dry_run_goes_on_as_an_operation,
    jobs_of_one_reason_are_replayed_and_spread,
    dead_letters_are_requeued_at_a_moment_and_spread_behind_it,
    a_shift_moves_each_job_once,
    a_shift_moves_each_job_once_after_the_clock_was_set,
    rescheduled_jobs_are_not_met_again,
    jobs_that_die_again_are_not_requeued_again,
    jobs_in_any_state_are_deleted_up_to_the_limit,
    a_repeated_request_starts_nothing,
    an_operation_can_be_stopped,
    few_operations_run_at_the_same_time,
    a_failure_of_the_store_ends_an_operation,
    the_shutdown_stops_operations,
);

async fn start(api: &Api, request: &Value) -> Value {
    let response = api.send("POST", "/bulk", &request.to_string()).await.expect(202);
    let operation = response.json();
    assert_eq!(response.header("location"), format!("/bulk/{}", text(&operation["id"])));
    operation
}

/// Waits for the end of an operation.
pub async fn ended(api: &Api, id: &str) -> Value {
    let time_limit = TimeLimit::new();
    loop {
        let operation = api.get(&format!("/bulk/{id}")).await.expect(200).json();
        if operation["state"] != "running" {
            return operation;
        }
        time_limit.check(|| operation.to_string());
        tokio::task::yield_now().await;
    }
}

/// Starts an operation, and waits for its end.
pub async fn run(api: &Api, request: &Value) -> Value {
    let started = start(api, request).await;
    ended(api, text(&started["id"])).await
}

async fn add_delayed(api: &Api, count: usize) {
    let job = |n: usize| format!(r#"{{"topic":"t","id":"job-{n:03}","delay":{}}}"#, 60 * (n + 1));
    let jobs: Vec<String> = (0..count).map(job).collect();
    api.send("POST", "/batch/jobs", &format!(r#"{{"jobs":[{}]}}"#, jobs.join(","))).await.expect(200);
}

async fn due_times(api: &Api) -> Vec<String> {
    let page = api.get("/jobs?topic=t&limit=200").await.expect(200).json();
    let jobs = page["jobs"].as_array().expect("a list");
    jobs.iter().map(|job| text(&job["due_at"]).to_owned()).collect()
}

async fn count(api: &Api, state: &str) -> Value {
    api.get("/topics/t").await.json()["counts"][state].clone()
}

async fn a_dry_run_counts_and_changes_nothing(engine: Engine) {
    let api = Api::new(engine).await;
    add_delayed(&api, 12).await;
    let before = due_times(&api).await;
    for (filter, matched, shown) in [
        (json!({ "topic": "t" }), 12, 10),
        (json!({ "all_topics": true }), 12, 10),
        (json!({ "topic": "nobody" }), 0, 0),
        (json!({ "topic": "t", "id_prefix": "job-00" }), 10, 10),
        (json!({ "topic": "t", "to": "2026-11-21T05:43:00Z" }), 2, 2),
    ] {
        let request = json!({ "action": "reschedule", "filter": filter, "shift": "1h", "limit": 3 });
        let result = api.send("POST", "/bulk", &request.to_string()).await.expect(200).json();
        assert_eq!((&result["dry_run"], &result["matched"]), (&json!(true), &json!(matched)), "{request}");
        assert_eq!(result["jobs"].as_array().map(Vec::len), Some(shown), "{request}");
    }
    assert_eq!(due_times(&api).await, before);
    assert_eq!(api.get("/bulk").await.json(), json!({ "operations": [] }));
}

async fn whole_minutes_are_counted_by_the_timeline(engine: Engine) {
    let api = Api::new(engine).await;
    add_delayed(&api, 30).await;
    api.add(r#"{"topic":"other","delay":"90s"}"#).await;
    let timelines = api.store.count_calls("timeline");
    let day = "2026-11-21T05";
    let mut expected = 0;
    for (filter, from, to, matched, is_by_timeline) in [
        (json!({ "topic": "t" }), "42:00Z", "57:00Z", 15, true),
        (json!({ "topic": "t" }), "41:00Z", "42:00Z", 1, true),
        (json!({ "all_topics": true }), "41:00Z", "43:00Z", 3, true),
        (json!({ "topic": "t" }), "42:00.001Z", "57:00Z", 14, false),
        (json!({ "topic": "t" }), "42:00Z", "57:00.001Z", 16, false),
        (json!({ "topic": "t", "id_prefix": "job-01" }), "42:00Z", "57:00Z", 6, false),
        (json!({ "topic": "t", "state": "dead" }), "42:00Z", "57:00Z", 0, false),
    ] {
        let mut request = json!({ "action": "delete", "filter": { "state": "delayed" } });
        let fields = request["filter"].as_object_mut().expect("an object");
        fields.extend(filter.as_object().expect("an object").clone());
        fields.insert("from".to_owned(), json!(format!("{day}:{from}")));
        fields.insert("to".to_owned(), json!(format!("{day}:{to}")));
        let result = api.send("POST", "/bulk", &request.to_string()).await.expect(200).json();
        expected += usize::from(is_by_timeline);
        assert_eq!((&result["matched"], timelines()), (&json!(matched), expected), "{request}");
        assert_eq!(result["jobs"].as_array().map(Vec::len), Some(matched.min(10)), "{request}");
    }
}

async fn a_long_dry_run_goes_on_as_an_operation(engine: Engine) {
    let api = Api::new(engine).await;
    add_delayed(&api, 3).await;
    let hung = api.store.hang_lists();
    let request = r#"{"action":"delete","filter":{"topic":"t","state":"delayed"}}"#;
    let started = tokio::spawn(api.call("POST", "/bulk").json(request).send());
    api.until(|| hung.hung_calls() >= 1).await;
    // The clock passes only the caller's wait: the operation is announced in real time, and no job may become due.
    let wait = Duration::from_millis(100);
    let wait_ends_us = api.clock.now_micros() + i64::try_from(wait.as_micros()).expect("fits");
    api.until(|| api.clock.has_sleeper_until(wait_ends_us)).await;
    api.clock.advance(wait);
    let operation = started.await.expect("the call does not panic").expect(202).json();
    assert_eq!((&operation["state"], &operation["dry_run"]), (&json!("running"), &json!(true)));
    hung.release();
    let operation = ended(&api, text(&operation["id"])).await;
    assert_eq!((&operation["state"], &operation["matched"]), (&json!("done"), &json!(3)));
    assert_eq!(operation["jobs"].as_array().map(Vec::len), Some(3));
    assert_eq!(count(&api, "delayed").await, 3);
}

async fn jobs_of_one_reason_are_replayed_and_spread(engine: Engine) {
    let api = Api::new(engine).await;
    for n in 0..40 {
        let reason = if n % 2 == 0 { "http_503" } else { "no such customer" };
        api.add(&format!(r#"{{"topic":"t","id":"job-{n}"}}"#)).await;
        let held = api.pop("t").await;
        let body = json!({ "receipt": held["receipt"], "reason": reason }).to_string();
        api.send("POST", &format!("/jobs/{}/bury", text(&held["id"])), &body).await.expect(200);
    }
    let filter = json!({ "topic": "t", "reason_prefix": "http_" });
    let request =
        json!({ "action": "requeue", "filter": filter, "spread": "10m", "dry_run": false, "limit": 40 });
    let operation = run(&api, &request).await;
    assert_eq!(
        (&operation["state"], &operation["changed"], &operation["matched"]),
        (&json!("done"), &json!(20), &json!(20))
    );
    assert_eq!(count(&api, "dead").await, 20);
    let due = due_times(&api).await;
    let minutes: std::collections::BTreeSet<&str> = due.iter().map(|due| &due[..16]).collect();
    assert!(minutes.len() > 4 && due.iter().all(|due| due.as_str() < "2026-11-21T05:50"), "{due:?}");
    let metrics = String::from_utf8(api.get("/metrics").await.body.to_vec()).expect("text");
    assert!(metrics.contains("linger_jobs_requeued_total{topic=\"t\"} 20"), "{metrics}");
}

async fn dead_letters_are_requeued_at_a_moment_and_spread_behind_it(engine: Engine) {
    let api = Api::new(engine).await;
    for n in 0..20 {
        api.add(&format!(r#"{{"topic":"t","id":"job-{n}"}}"#)).await;
        let held = api.pop("t").await;
        let body = json!({ "receipt": held["receipt"] }).to_string();
        api.send("POST", &format!("/jobs/{}/bury", text(&held["id"])), &body).await.expect(200);
    }
    let at = "2026-11-22T08:00:00.000Z";
    let request = json!({
        "action": "requeue", "filter": { "topic": "t" }, "at": at, "spread": "10m", "dry_run": false, "limit": 20,
    });
    let operation = run(&api, &request).await;
    assert_eq!((&operation["at"], &operation["delay"]), (&json!(at), &Value::Null));
    assert_eq!((&operation["state"], &operation["changed"]), (&json!("done"), &json!(20)));
    let due = due_times(&api).await;
    assert!(
        due.len() == 20
            && due.iter().all(|due| "2026-11-22T08:00" <= &due[..16] && &due[..16] < "2026-11-22T08:10")
    );
    let both = json!({ "action": "requeue", "filter": { "topic": "t" }, "at": at, "delay": "1m" });
    api.send("POST", "/bulk", &both.to_string()).await.expect_problem(422, "invalid_request");
}

async fn a_shift_moves_each_job_once(engine: Engine) {
    for (shift, first, last) in
        [("90m", "07:11", "11:40"), ("-1m", "05:40", "10:09"), ("-2h", "05:40", "08:10")]
    {
        let api = Api::new(engine).await;
        // More than two slices, and the shift is longer than a slice.
        add_delayed(&api, 270).await;
        let request = json!({
            "action": "reschedule", "filter": { "topic": "t" }, "shift": shift, "dry_run": false, "limit": 1000,
        });
        let operation = run(&api, &request).await;
        assert_eq!((&operation["changed"], &operation["skipped"]), (&json!(270), &json!(0)), "{shift}");
        let mut due = Vec::new();
        for state in ["ready", "delayed"] {
            let mut query = format!("/jobs?topic=t&state={state}&limit=200");
            let mut step_limit = StepLimit::new();
            loop {
                step_limit.step();
                let page = api.get(&query).await.expect(200).json();
                let jobs = page["jobs"].as_array().expect("a list");
                due.extend(jobs.iter().map(|job| text(&job["due_at"])[11..16].to_owned()));
                let Some(cursor) = page.get("next_cursor") else { break };
                query = format!("/jobs?topic=t&state={state}&limit=200&cursor={}", text(cursor));
            }
        }
        due.sort();
        assert_eq!((due[0].as_str(), due[269].as_str()), (first, last), "{shift}");
    }
}

/// The embedded engine keeps these jobs in the order in which their delays end. What a shift gives them are moments of the
/// machine's clock, which are elsewhere in that order.
async fn a_shift_moves_each_job_once_after_the_clock_was_set(engine: Engine) {
    for (step, shift) in [(3_600_000, "-15m"), (-3_600_000, "15m")] {
        let api = Api::new(engine).await;
        add_delayed(&api, 270).await;
        api.clock.step_wall(step);
        let request = json!({
            "action": "reschedule", "filter": { "topic": "t" }, "shift": shift, "dry_run": false, "limit": 1000,
        });
        let operation = run(&api, &request).await;
        let expected = (&json!(270), &json!(270), &json!(0));
        assert_eq!(
            (&operation["matched"], &operation["changed"], &operation["skipped"]),
            expected,
            "{shift}"
        );
    }
}

async fn rescheduled_jobs_are_not_met_again(engine: Engine) {
    let api = Api::new(engine).await;
    add_delayed(&api, 150).await;
    let request = json!({
        "action": "reschedule", "filter": { "topic": "t" }, "delay": "1d", "spread": "1h", "dry_run": false, "limit": 1000,
    });
    let operation = run(&api, &request).await;
    assert_eq!((&operation["matched"], &operation["changed"]), (&json!(150), &json!(150)));
    let due = due_times(&api).await;
    let day_later = |due: &String| ("2026-11-22T05:40"..="2026-11-22T06:40").contains(&&due[..16]);
    assert!(due.len() == 150 && due.iter().all(day_later), "{due:?}");
    let again = run(&api, &request).await;
    assert_eq!(again["changed"], 150);
    assert_eq!(due_times(&api).await, due, "an id is always spread in the same way");
}

async fn jobs_that_die_again_are_not_requeued_again(engine: Engine) {
    let api = Api::new(engine).await;
    for n in 0..120 {
        api.add(&format!(r#"{{"topic":"t","id":"job-{n:03}"}}"#)).await;
        api.bury("t").await;
    }
    let first = api.store.hang_lists();
    let request = json!({
        "action": "requeue", "filter": { "topic": "t" }, "delay": "0s", "dry_run": false, "limit": 1000,
    });
    let started = start(&api, &request).await;
    api.until(|| first.hung_calls() == 1).await;
    let second = api.store.hang_lists();
    first.release();
    api.until(|| second.hung_calls() == 1).await;
    // One of the first slice dies again, behind all others.
    api.clock.advance(Duration::from_secs(1));
    api.bury("t").await;
    second.release();
    let operation = ended(&api, text(&started["id"])).await;
    assert_eq!((&operation["matched"], &operation["changed"]), (&json!(120), &json!(120)));
    assert_eq!(count(&api, "dead").await, 1);
}

async fn jobs_in_any_state_are_deleted_up_to_the_limit(engine: Engine) {
    let api = Api::new(engine).await;
    add_delayed(&api, 5).await;
    for _ in 0..3 {
        api.add(r#"{"topic":"t"}"#).await;
    }
    api.pop("t").await;
    api.bury("t").await;
    for (state, limit, left) in [("delayed", 4, 1), ("ready", 9, 0), ("reserved", 9, 0), ("dead", 9, 0)] {
        let request = json!({ "action": "delete", "filter": { "topic": "t", "state": state }, "dry_run": false, "limit": limit });
        let operation = run(&api, &request).await;
        assert_eq!(operation["state"], "done", "{operation}");
        assert_eq!(count(&api, state).await, left, "{state}");
    }
    api.get("/jobs/job-004").await.expect(200);
}

async fn a_repeated_request_starts_nothing(engine: Engine) {
    let api = Api::new(engine).await;
    add_delayed(&api, 3).await;
    let request = json!({
        "id": "later", "action": "reschedule", "filter": { "topic": "t" }, "shift": "1h", "dry_run": false, "limit": 3,
    });
    let first = run(&api, &request).await;
    let due = due_times(&api).await;
    let second = start(&api, &request).await;
    assert_eq!((first["id"].as_str(), &second), (Some("later"), &first));
    let other = json!({ "id": "later", "action": "delete", "filter": { "topic": "t", "state": "delayed" }, "dry_run": false, "limit": 3 });
    api.send("POST", "/bulk", &other.to_string()).await.expect_problem(409, "operation_exists");
    assert_eq!(due_times(&api).await, due);
    assert_eq!(api.get("/bulk").await.json(), json!({ "operations": [first] }));
}

async fn an_operation_can_be_stopped(engine: Engine) {
    let api = Api::new(engine).await;
    add_delayed(&api, 120).await;
    let hung = api.store.hang_lists();
    let request = json!({
        "id": "long", "action": "delete", "filter": { "topic": "t", "state": "delayed" }, "dry_run": false, "limit": 120,
    });
    start(&api, &request).await;
    api.until(|| hung.hung_calls() >= 1).await;
    let stop = tokio::spawn(api.call("POST", "/bulk/long/stop").send());
    assert_waits(&stop, "the slice is under way").await;
    hung.release();
    let stopped = stop.await.expect("answers").expect(200).json();
    assert_eq!((&stopped["state"], &stopped["changed"]), (&json!("stopped"), &json!(100)));
    assert_eq!(count(&api, "delayed").await, 20);
    let again = api.post("/bulk/long/stop").await.expect(200).json();
    assert_eq!(again, stopped, "an operation that has ended stays as it is");
}

async fn few_operations_run_at_the_same_time(engine: Engine) {
    let api = Api::new(engine).await;
    let hung = api.store.hang_lists();
    let request = json!({ "action": "delete", "filter": { "topic": "t", "state": "dead" }, "dry_run": false, "limit": 1 });
    for _ in 0..4 {
        start(&api, &request).await;
    }
    let fifth = api.send("POST", "/bulk", &request.to_string()).await;
    fifth.expect_problem(409, "too_many_operations");
    hung.release();
    let operations = api.get("/bulk").await.json();
    for operation in operations["operations"].as_array().expect("a list") {
        assert_eq!(ended(&api, text(&operation["id"])).await["state"], "done");
    }
    let first = text(&operations["operations"][3]["id"]);
    for _ in 0..70 {
        run(&api, &request).await;
    }
    let kept = api.get("/bulk").await.json()["operations"].as_array().map(Vec::len);
    assert_eq!(kept, Some(74), "also those that are no longer in memory");
    assert_eq!(api.get(&format!("/bulk/{first}")).await.expect(200).json()["state"], "done");
}

async fn a_failure_of_the_store_ends_an_operation(engine: Engine) {
    let api = Api::new(engine).await;
    let request = json!({ "action": "delete", "filter": { "topic": "t", "state": "dead" }, "dry_run": false, "limit": 1 });
    for failure in [Failure::Error(Error::Unavailable("redis://secret".to_owned())), Failure::Panic] {
        api.store.fail(Some(failure));
        let started = start(&api, &request).await;
        let operation = ended(&api, text(&started["id"])).await;
        api.store.fail(None);
        assert_eq!((&operation["state"], &operation["changed"]), (&json!("failed"), &json!(0)));
        assert!(operation["error"].is_string() && !operation.to_string().contains("secret"), "{operation}");
    }
    api.store.fail(Some(Failure::Error(Error::Unavailable("gone".to_owned()))));
    let count = json!({ "action": "delete", "filter": { "topic": "t", "state": "dead" } });
    let counted = start(&api, &count).await;
    api.store.fail(None);
    let kept = ended(&api, text(&counted["id"])).await;
    assert_eq!((&kept["state"], &kept["dry_run"]), (&json!("failed"), &json!(true)));
}

async fn the_shutdown_stops_operations(engine: Engine) {
    let api = Api::new(engine).await;
    add_delayed(&api, 120).await;
    let hung = api.store.hang_lists();
    let request = json!({
        "id": "long", "action": "delete", "filter": { "topic": "t", "state": "delayed" }, "dry_run": false, "limit": 120,
    });
    start(&api, &request).await;
    api.until(|| hung.hung_calls() >= 1).await;
    api.drain();
    hung.release();
    let operation = ended(&api, "long").await;
    assert_eq!((&operation["state"], &operation["changed"]), (&json!("stopped"), &json!(100)));
    assert_eq!(count(&api, "delayed").await, 20);
    let request = r#"{"action":"delete","filter":{"topic":"t","state":"dead"}}"#;
    api.send("POST", "/bulk", request).await.expect_problem(503, "draining");
}
