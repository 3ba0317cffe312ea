//! Who has a job and what happened to it, and what became of one that is gone.

use linger::job::CallbackUrl;
use serde_json::{Value, json};

use super::{
    calling::{self, Endpoint, job_in, pass, set_url},
    on_every_engine,
};
use crate::harness::{
    api::{Api, error_locations, text},
    jobs::{millis, seconds},
    stores::Engine,
    wait::TimeLimit,
};

on_every_engine!(
    a_worker_is_named_while_it_has_a_job_and_in_its_history,
    a_history_has_an_entry_for_each_requeue_and_new_due_time,
    a_worker_of_a_batch_is_named,
    a_wrong_name_of_a_worker_is_refused,
    a_name_can_hold_any_text_but_control_characters,
    a_job_that_is_gone_says_how_it_ended,
    calls_are_in_the_history_with_their_endpoint,
);

async fn get(api: &Api, id: &str) -> Value {
    api.get(&format!("/jobs/{id}")).await.expect(200).json()
}

async fn pop(api: &Api, query: &str) -> Value {
    api.get(&format!("/topics/t/pop?{query}")).await.expect(200).json()
}

async fn a_worker_is_named_while_it_has_a_job_and_in_its_history(engine: Engine) {
    let api = Api::new(engine).await;
    let added = api.add(r#"{"topic":"t","id":"a","max_attempts":0}"#).await;
    assert!(added.get("history").is_none(), "{added}");
    let popped = pop(&api, "worker=w-1").await;
    assert!(popped.get("reserved_by").is_none(), "the worker knows its own name: {popped}");
    let reserved = get(&api, "a").await;
    assert_eq!(
        (&reserved["reserved_at"], &reserved["reserved_by"]),
        (&json!("2026-11-21T05:40:00.000Z"), &json!("w-1"))
    );
    let listed = api.get("/jobs?state=reserved").await.expect(200).json();
    assert_eq!(listed["jobs"][0]["reserved_by"], "w-1");
    api.advance_and_promote(millis(1_500)).await;
    let release = json!({"receipt": popped["receipt"], "delay": 0, "reason": "psp timeout"});
    let released = api.send("POST", "/jobs/a/release", &release.to_string()).await.expect(200).json();
    let first = json!({"kind": "attempt", "n": 1, "at": "2026-11-21T05:40:00.000Z", "took": 1.5, "ended": "released",
        "by": "w-1", "reason": "psp timeout"});
    assert_eq!(released["history"], json!([first]));
    assert!(released.get("reserved_by").is_none() && released.get("reserved_at").is_none(), "{released}");

    pop(&api, "").await;
    api.advance_and_promote(seconds(60)).await;
    let second = json!({"kind": "attempt", "n": 2, "at": "2026-11-21T05:40:01.500Z", "took": 60, "ended": "timed_out"});
    assert_eq!(get(&api, "a").await["history"], json!([first, second]));
    let popped = pop(&api, "worker=w-2").await;
    let bury = json!({"receipt": popped["receipt"], "reason": "no such order"});
    api.send("POST", "/jobs/a/bury", &bury.to_string()).await.expect(200);
    let third = json!({"kind": "attempt", "n": 3, "at": "2026-11-21T05:41:01.500Z", "took": 0, "ended": "buried",
        "by": "w-2", "reason": "no such order"});
    assert_eq!(get(&api, "a").await["history"], json!([first, second, third]));
}

async fn a_history_has_an_entry_for_each_requeue_and_new_due_time(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a","delay":"1h"}"#).await;
    api.send("PATCH", "/jobs/a", r#"{"ttr":"2m"}"#).await.expect(200);
    assert!(get(&api, "a").await.get("history").is_none(), "the due time stays");
    api.advance_and_promote(seconds(1)).await;
    api.send("PATCH", "/jobs/a", r#"{"delay":0}"#).await.expect(200);
    api.bury("t").await;
    api.advance_and_promote(seconds(1)).await;
    api.send("POST", "/jobs/a/requeue", "{}").await.expect(200);
    let history = get(&api, "a").await["history"].clone();
    let brief: Vec<_> =
        history.as_array().expect("a list").iter().map(|entry| (&entry["kind"], &entry["at"])).collect();
    let (from, to) = (json!("2026-11-21T06:40:00.000Z"), json!("2026-11-21T05:40:01.000Z"));
    assert_eq!((&history[0]["from"], &history[0]["to"]), (&from, &to));
    assert!(history[2].get("from").is_none(), "{history}");
    assert_eq!(
        brief,
        [
            (&json!("rescheduled"), &json!("2026-11-21T05:40:01.000Z")),
            (&json!("attempt"), &json!("2026-11-21T05:40:01.000Z")),
            (&json!("requeued"), &json!("2026-11-21T05:40:02.000Z")),
        ]
    );
}

async fn a_worker_of_a_batch_is_named(engine: Engine) {
    let api = Api::new(engine).await;
    for id in ["a", "b"] {
        api.add(&format!(r#"{{"topic":"t","id":"{id}"}}"#)).await;
    }
    let request = r#"{"topics":["t"],"max":2,"worker":"batcher"}"#;
    let popped = api.send("POST", "/batch/pop", request).await.expect(200).json();
    assert_eq!(popped["jobs"].as_array().map(Vec::len), Some(2));
    for id in ["a", "b"] {
        assert_eq!(get(&api, id).await["reserved_by"], "batcher", "{id}");
    }
}

async fn a_wrong_name_of_a_worker_is_refused(engine: Engine) {
    let api = Api::new(engine).await;
    let long = "w".repeat(65);
    for worker in ["", &long, "a%0Ab", "%00", "%C2%85"] {
        for method in ["GET", "POST"] {
            let call = api.call(method, &format!("/topics/t/pop?worker={worker}"));
            let problem = call.without_contract_check().send().await.expect_problem(400, "invalid_parameter");
            assert_eq!(error_locations(&problem), ["worker"], "{worker:?}");
        }
    }
    for worker in [json!(""), json!(long), json!("a\nb"), json!(7)] {
        let request = json!({"topics": ["t"], "worker": worker}).to_string();
        let call = api.call("POST", "/batch/pop").json(&request);
        let problem = call.without_contract_check().send().await.expect_problem(422, "invalid_request");
        assert_eq!(error_locations(&problem), ["/worker"], "{worker}");
    }
}

async fn a_name_can_hold_any_text_but_control_characters(engine: Engine) {
    let api = Api::new(engine).await;
    for (n, name) in ["<img src=x onerror=alert(1)>", "\u{202e}gpj.exe", "😀".repeat(64).as_str(), "\"\\"]
        .iter()
        .enumerate()
    {
        api.add(&format!(r#"{{"topic":"t","id":"{n}"}}"#)).await;
        let request = json!({"topics": ["t"], "worker": name}).to_string();
        let popped = api.send("POST", "/batch/pop", &request).await.expect(200).json();
        let (id, receipt) = (text(&popped["jobs"][0]["id"]), &popped["jobs"][0]["receipt"]);
        assert_eq!(get(&api, id).await["reserved_by"], *name);
        let bury = json!({"receipt": receipt}).to_string();
        api.send("POST", &format!("/jobs/{id}/bury"), &bury).await.expect(200);
        assert_eq!(get(&api, id).await["history"][0]["by"], *name);
    }
}

async fn a_job_that_is_gone_says_how_it_ended(engine: Engine) {
    let api = Api::new(engine).await;
    for id in ["finished", "deleted", "several-1", "several-2", "again"] {
        api.add(&format!(r#"{{"topic":"t","id":"{id}","delay":"1h"}}"#)).await;
    }
    api.get("/jobs/never").await.expect_problem(404, "job_not_found");
    let unknown = api.get("/jobs/never").await.expect_problem(404, "job_not_found");
    assert!(unknown.get("ended").is_none(), "{unknown}");
    api.send("PATCH", "/jobs/finished", r#"{"delay":0}"#).await.expect(200);
    pop(&api, "").await;
    api.advance_and_promote(seconds(2)).await;
    api.post("/jobs/finished/finish").await.expect(204);
    api.delete("/jobs/deleted").await.expect(204);
    api.send("POST", "/batch/delete", r#"{"ids":["several-1","several-2","nobody"]}"#).await.expect(200);
    for (id, how) in
        [("finished", "finished"), ("deleted", "deleted"), ("several-1", "deleted"), ("several-2", "deleted")]
    {
        let problem = api.get(&format!("/jobs/{id}")).await.expect_problem(404, "job_not_found");
        assert_eq!(problem["ended"], json!({"how": how, "at": "2026-11-21T05:40:02.000Z"}), "{id}");
        assert!(text(&problem["detail"]).contains(how), "{problem}");
    }
    api.delete("/jobs/again").await.expect(204);
    api.add(r#"{"topic":"t","id":"again"}"#).await;
    assert_eq!(get(&api, "again").await["state"], "ready", "an id can be used again");
    let still_gone = api.delete("/jobs/deleted").await.expect_problem(404, "job_not_found");
    assert!(still_gone.get("ended").is_none(), "a delete has no holder who asks: {still_gone}");
    let ended = json!({"how": "finished", "at": "2026-11-21T05:40:02.000Z"});
    let receipt = r#"{"receipt":"9f86d081884c7d659a2feaa0c55ad015"}"#;
    for step in ["finish", "release", "touch", "bury"] {
        let gone = api.send("POST", &format!("/jobs/finished/{step}"), receipt).await;
        let gone = gone.expect_problem(404, "job_not_found");
        assert_eq!(gone["ended"], ended, "{step}");
        let never = api.send("POST", &format!("/jobs/never/{step}"), receipt).await;
        assert!(never.expect_problem(404, "job_not_found").get("ended").is_none(), "{step}");
    }
    let batch = r#"{"jobs":[{"id":"finished"},{"id":"never"},{"id":"deleted"},{"id":"again"}]}"#;
    let results = api.send("POST", "/batch/finish", batch).await.expect(200).json()["results"].clone();
    let of = |n: usize| (&results[n]["status"], &results[n]["problem"]["ended"]["how"]);
    let none = json!(null);
    assert_eq!(of(0), (&json!(404), &json!("finished")));
    assert_eq!(of(1), (&json!(404), &none));
    assert_eq!(of(2), (&json!(404), &json!("deleted")));
    assert_eq!(of(3), (&json!(409), &none), "it lives again");
}

/// Both a topic's callback and a job's own one are named by their host and port.
async fn calls_are_in_the_history_with_their_endpoint(engine: Engine) {
    let answers = vec![(500, Vec::new(), "no database"), (503, Vec::new(), "")];
    let (api, endpoint) = (calling::api(engine).await, Endpoint::start(answers).await);
    let origin = CallbackUrl::parse(&endpoint.url).expect("valid").origin().clone();
    let by = json!(format!("127.0.0.1:{}", origin.port));
    set_url(&api, Some(&endpoint.url)).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    endpoint.received(1).await;
    job_in(&api, "a", "delayed").await;
    api.add(
        &json!({"topic": "t", "id": "own", "retry": [60], "callback": {"url": endpoint.url}}).to_string(),
    )
    .await;
    endpoint.received(2).await;
    for (id, reason) in [("a", "http_500: no database"), ("own", "http_503")] {
        let job = job_in(&api, id, "delayed").await;
        let attempt = &job["history"][0];
        let brief = (&attempt["ended"], &attempt["by"], &attempt["reason"]);
        assert_eq!(brief, (&json!("released"), &by, &json!(reason)), "{id}");
    }
    pass(&api, seconds(66)).await;
    endpoint.received(4).await;
    for id in ["a", "own"] {
        job_in(&api, id, "gone").await;
        // It is remembered a moment after the job has gone.
        let limit = TimeLimit::new();
        let ended = loop {
            let mut problem = api.get(&format!("/jobs/{id}")).await.expect_problem(404, "job_not_found");
            if problem.get("ended").is_some() {
                break problem["ended"].take();
            }
            limit.check(|| problem.to_string());
            limit.pause().await;
        };
        assert_eq!((&ended["how"], &ended["by"]), (&json!("finished"), &by), "{id}");
    }
}
