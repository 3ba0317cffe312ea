//! Many jobs in one request.

use serde_json::{Value, json};

use super::on_every_engine;
use crate::harness::{
    api::{Api, Setup, error_locations, text},
    jobs::{millis, seconds},
    stores::Engine,
};
use linger::{http::HttpOptions, queue::Limits};

on_every_engine!(
    each_item_of_an_add_has_its_own_status,
    each_item_of_a_finish_has_its_own_status,
    each_item_of_a_delete_has_its_own_status,
    each_item_of_what_holders_ask_has_its_own_status,
    the_items_of_one_job_are_carried_out_in_their_order,
    an_empty_batch_returns_no_results,
    a_batch_over_the_limit_is_refused_as_a_whole,
    a_pop_tries_topics_in_the_given_order,
    a_pop_returns_at_most_max_jobs,
    a_pop_waits_for_the_first_job,
    invalid_batches_are_refused,
    the_same_job_twice_in_a_batch_is_added_once,
    a_batch_is_carried_out_only_if_its_response_fits_the_budget;
    the_response_to_a_batch_of_faults_stays_small,
);

fn statuses(response: &Value) -> Vec<u64> {
    let results = response["results"].as_array().expect("results");
    results.iter().map(|result| result["status"].as_u64().expect("a status")).collect()
}

async fn each_item_of_an_add_has_its_own_status(engine: Engine) {
    let limits = Limits { max_body: 20, ..Limits::default() };
    let api = Api::with(engine, Setup { limits, ..Setup::default() }).await;
    api.add(r#"{"topic":"t","id":"there"}"#).await;
    api.send("POST", "/topics/closed/pause", r#"{"intake":true}"#).await.expect(200);
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let long = "x".repeat(30);
    let jobs = format!(
        r#"{{"jobs":[
            {{"topic":"t","id":"new","body":{{"a": 1}}}},
            {{"topic":"bad topic","id":"named"}},
            {{"topic":"t","id":"there"}},
            {{"topic":"t","id":"there","delay":1}},
            7,
            {{"topic":"t","body":{deep}}},
            {{"topic":"t","body":"{long}"}},
            {{"topic":"closed"}},
            {{"topic":"t"}}
        ]}}"#
    );
    let response = api.call("POST", "/batch/jobs").json(&jobs).send().await.expect(200).json();
    assert_eq!(statuses(&response), [201, 422, 200, 409, 422, 400, 413, 409, 201]);
    let results = &response["results"];
    assert_eq!(results[0], json!({"status": 201, "id": "new"}));
    assert_eq!(results[1]["id"], "named", "the id shows which item failed");
    assert_eq!(error_locations(&results[1]["problem"]), ["/jobs/1/topic"]);
    assert_eq!(results[3]["problem"]["code"], "job_exists");
    assert_eq!(results[3]["problem"]["state"], "ready");
    assert_eq!(error_locations(&results[4]["problem"]), ["/jobs/4"]);
    assert_eq!(results[5]["problem"]["code"], "malformed_request");
    assert_eq!(results[6]["problem"]["code"], "body_too_large");
    assert_eq!(results[7]["problem"]["code"], "intake_paused");
    assert!(!text(&results[8]["id"]).is_empty(), "the response has the generated id");
    assert!(api.get("/jobs/new").await.expect(200).body.ends_with(b"\"body\":{\"a\": 1}}\n"));
    assert_eq!(api.get("/topics/t").await.json()["counts"]["ready"], 3);
}

async fn each_item_of_a_finish_has_its_own_status(engine: Engine) {
    let api = Api::new(engine).await;
    for id in ["a", "b", "c"] {
        api.add(&format!(r#"{{"topic":"t","id":"{id}","delay":0}}"#)).await;
    }
    let popped = api.send("POST", "/batch/pop", r#"{"topics":["t"],"max":2}"#).await.expect(200).json();
    let reserved = popped["jobs"].as_array().expect("jobs").clone();
    assert_eq!(reserved.len(), 2);
    let ready = ["a", "b", "c"]
        .into_iter()
        .find(|id| reserved.iter().all(|job| job["id"] != *id))
        .expect("one job is still ready");
    let jobs = format!(
        r#"{{"jobs":[{{"id":{},"receipt":{}}},{{"id":{},"receipt":{}}},{{"id":{}}},{{"id":"{ready}"}},{{"id":"nobody"}},
            {{"id":"a b"}},{{"receipt":"0123456789abcdef0123456789abcdef"}},{{"id":"x","receipt":"short"}}]}}"#,
        reserved[0]["id"],
        reserved[0]["receipt"],
        reserved[1]["id"],
        reserved[0]["receipt"],
        reserved[1]["id"],
    );
    let response = api.send("POST", "/batch/finish", &jobs).await.expect(200).json();
    assert_eq!(statuses(&response), [204, 409, 204, 409, 404, 422, 422, 422]);
    let codes: Vec<_> = (0..8).map(|n| response["results"][n]["problem"]["code"].clone()).collect();
    assert_eq!(
        (&codes[1], &codes[3], &codes[4]),
        (&json!("lease_lost"), &json!("not_reserved"), &json!("job_not_found"))
    );
    assert_eq!(error_locations(&response["results"][6]["problem"]), ["/jobs/6/id"]);
    assert_eq!(error_locations(&response["results"][7]["problem"]), ["/jobs/7/receipt"]);
}

async fn each_item_of_a_delete_has_its_own_status(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    let response =
        api.send("POST", "/batch/delete", r#"{"ids":["a","b","a b",7,"a"]}"#).await.expect(200).json();
    assert_eq!(statuses(&response), [204, 404, 422, 422, 404]);
    assert_eq!(response["results"][0], json!({"status": 204, "id": "a", "state": "ready"}));
    assert_eq!(error_locations(&response["results"][2]["problem"]), ["/ids/2"]);
}

/// The ids and receipts of as many reserved jobs of topic `t`.
async fn reserved(api: &Api, count: usize) -> Vec<(String, String)> {
    for n in 0..count {
        api.add(&format!(r#"{{"topic":"t","id":"job-{n}","ttr":"30s"}}"#)).await;
    }
    let pop = format!(r#"{{"topics":["t"],"max":{count}}}"#);
    let popped = api.send("POST", "/batch/pop", &pop).await.expect(200).json();
    let jobs = popped["jobs"].as_array().expect("jobs").iter();
    jobs.map(|job| (text(&job["id"]).to_owned(), text(&job["receipt"]).to_owned())).collect()
}

async fn each_item_of_what_holders_ask_has_its_own_status(engine: Engine) {
    for (verb, asked, state, member, value) in [
        ("release", r#""delay":"1h","reason":"later""#, "delayed", "reason", json!("later")),
        ("touch", r#""ttr":"2h""#, "reserved", "reserved_until", json!("2026-11-21T07:40:00.000Z")),
        ("bury", r#""reason":"no such customer""#, "dead", "reason", json!("no such customer")),
    ] {
        let api = Api::new(engine).await;
        let held = reserved(&api, 9).await;
        let item = |id: &str, receipt: &str| format!(r#"{{"id":"{id}","receipt":"{receipt}",{asked}}}"#);
        let mut items: Vec<String> = held.iter().map(|(id, receipt)| item(id, receipt)).collect();
        items.push(item(&held[0].0, &held[1].1));
        items.push(item("unknown", &held[0].1));
        items.push(format!(r#"{{"id":"{}",{asked}}}"#, held[0].0));
        items.push(item(&held[0].0, "short"));
        let body = format!(r#"{{"jobs":[{}]}}"#, items.join(","));
        let response = api.send("POST", &format!("/batch/{verb}"), &body).await.expect(200).json();
        assert_eq!(
            statuses(&response),
            [200, 200, 200, 200, 200, 200, 200, 200, 200, 409, 404, 422, 422],
            "{verb}"
        );
        assert_eq!(response["results"][0], json!({ "status": 200, "id": held[0].0 }));
        assert_eq!(response["results"][9]["problem"]["code"], "lease_lost", "{verb}");
        assert_eq!(error_locations(&response["results"][11]["problem"]), ["/jobs/11/receipt"]);
        for (id, _) in &held {
            let job = api.get(&format!("/jobs/{id}")).await.expect(200).json();
            assert_eq!((&job["state"], &job[member]), (&json!(state), &value), "{verb} {id}");
        }
    }
}

async fn the_items_of_one_job_are_carried_out_in_their_order(engine: Engine) {
    let api = Api::new(engine).await;
    let held = reserved(&api, 2).await;
    let item =
        |n: usize, asked: &str| format!(r#"{{"id":"{}","receipt":"{}"{asked}}}"#, held[n].0, held[n].1);
    let items =
        [item(0, r#","ttr":"1h""#), item(1, ""), item(0, r#","ttr":"2h""#), item(1, r#","ttr":"3h""#)];
    let body = format!(r#"{{"jobs":[{}]}}"#, items.join(","));
    let touched = api.send("POST", "/batch/touch", &body).await.expect(200).json();
    assert_eq!(statuses(&touched), [200; 4]);
    for (n, until) in ["2026-11-21T07:40:00.000Z", "2026-11-21T08:40:00.000Z"].into_iter().enumerate() {
        let job = api.get(&format!("/jobs/{}", held[n].0)).await.expect(200).json();
        assert_eq!(job["reserved_until"], until);
    }
    let body = format!(r#"{{"jobs":[{},{}]}}"#, item(0, ""), item(0, ""));
    let released = api.send("POST", "/batch/release", &body).await.expect(200).json();
    assert_eq!(statuses(&released), [200, 409], "the receipt works once");
}

async fn an_empty_batch_returns_no_results(engine: Engine) {
    let api = Api::new(engine).await;
    for (target, body) in [
        ("/batch/jobs", r#"{"jobs":[]}"#),
        ("/batch/finish", r#"{"jobs":[]}"#),
        ("/batch/release", r#"{"jobs":[]}"#),
        ("/batch/touch", r#"{"jobs":[]}"#),
        ("/batch/bury", r#"{"jobs":[]}"#),
        ("/batch/delete", r#"{"ids":[]}"#),
    ] {
        assert_eq!(api.send("POST", target, body).await.expect(200).body, "{\"results\":[]}\n");
    }
}

async fn a_batch_over_the_limit_is_refused_as_a_whole(engine: Engine) {
    let limits = Limits { max_batch: 2, max_batch_pop: 3, ..Limits::default() };
    let api = Api::with(engine, Setup { limits, ..Setup::default() }).await;
    let job = r#"{"topic":"t"}"#;
    let problem = api.send("POST", "/batch/jobs", &format!("{{\"jobs\":[{job},{job},{job}]}}")).await;
    let problem = problem.expect_problem(413, "batch_too_large");
    assert_eq!((&problem["limit"], &problem["got"]), (&json!(2), &json!(3)));
    api.send("POST", "/batch/finish", r#"{"jobs":[1,2,3]}"#).await.expect_problem(413, "batch_too_large");
    api.send("POST", "/batch/delete", r#"{"ids":["a","b","c"]}"#)
        .await
        .expect_problem(413, "batch_too_large");
    let topics: Vec<String> = (0..101).map(|n| n.to_string()).collect();
    let pop = json!({"topics": topics, "max": 4}).to_string();
    let problem = api.send("POST", "/batch/pop", &pop).await.expect_problem(422, "invalid_request");
    assert_eq!(error_locations(&problem), ["/topics", "/max"]);
    assert_eq!(api.get("/topics").await.expect(200).body, "{\"topics\":[]}\n");
}

async fn a_pop_tries_topics_in_the_given_order(engine: Engine) {
    let api = Api::new(engine).await;
    for (id, topic) in [("1", "low"), ("2", "high"), ("3", "low"), ("4", "high")] {
        api.add(&format!(r#"{{"topic":"{topic}","id":"{id}"}}"#)).await;
    }
    let pop = r#"{"topics":["high","low","high"],"max":3,"ttr":"90s"}"#;
    let jobs = api.send("POST", "/batch/pop", pop).await.expect(200).json();
    let topics: Vec<_> =
        jobs["jobs"].as_array().expect("jobs").iter().map(|job| job["topic"].clone()).collect();
    assert_eq!(topics, ["high", "high", "low"]);
    assert_eq!(jobs["jobs"][0]["reserved_until"], "2026-11-21T05:41:30.000Z");
}

async fn a_pop_returns_at_most_max_jobs(engine: Engine) {
    let api = Api::new(engine).await;
    let jobs: Vec<_> = (0..40).map(|n| format!(r#"{{"topic":"t","id":"{n}"}}"#)).collect();
    api.send("POST", "/batch/jobs", &format!("{{\"jobs\":[{}]}}", jobs.join(","))).await.expect(200);
    let popped = |max: usize| {
        let body = format!(r#"{{"topics":["t"],"max":{max}}}"#);
        let api = api.clone();
        async move {
            api.send("POST", "/batch/pop", &body).await.expect(200).json()["jobs"].as_array().map(Vec::len)
        }
    };
    assert_eq!(popped(25).await, Some(25));
    assert_eq!(popped(25).await, Some(15));
    assert_eq!(popped(25).await, Some(0));
    let one = api.send("POST", "/batch/pop", r#"{"topics":["t"]}"#).await.expect(200);
    assert_eq!(one.body, "{\"jobs\":[]}\n");
}

async fn a_pop_waits_for_the_first_job(engine: Engine) {
    let api = Api::new(engine).await;
    let pop = r#"{"topics":["a","b"],"max":5,"wait":"20s"}"#;
    let poll = api.park(api.call("POST", "/batch/pop").json(pop)).await;
    api.add(r#"{"topic":"b","id":"x","delay":2}"#).await;
    api.advance_and_promote(seconds(2)).await;
    let jobs = poll.await.expect("is answered").expect(200).json();
    assert_eq!(jobs["jobs"][0]["id"], "x");
    let poll = api.park(api.call("POST", "/batch/pop").json(pop)).await;
    api.clock.advance(seconds(20) - millis(1));
    api.assert_waits(&poll, "its wait has not ended").await;
    api.clock.advance(millis(1));
    assert_eq!(poll.await.expect("is answered").expect(200).body, "{\"jobs\":[]}\n");
}

async fn invalid_batches_are_refused(engine: Engine) {
    let api = Api::new(engine).await;
    for (target, body, at) in [
        ("/batch/jobs", "{}", "/jobs"),
        ("/batch/jobs", r#"{"jobs":{}}"#, "/jobs"),
        ("/batch/jobs", r#"{"jobs":[],"atomic":true}"#, "/atomic"),
        ("/batch/finish", r#"{"jobs":null}"#, "/jobs"),
        ("/batch/release", r#"{"jobs":[],"delay":5}"#, "/delay"),
        ("/batch/touch", r#"{"jobs":[],"ids":["a"]}"#, "/ids"),
        ("/batch/bury", r#"{"jobs":7}"#, "/jobs"),
        ("/batch/delete", r#"{"ids":"a"}"#, "/ids"),
        ("/batch/pop", "{}", "/topics"),
        ("/batch/pop", r#"{"topics":[]}"#, "/topics"),
        ("/batch/pop", r#"{"topics":"t"}"#, "/topics"),
        ("/batch/pop", r#"{"topics":["t","a b"]}"#, "/topics/1"),
        ("/batch/pop", r#"{"topics":["t"],"max":0}"#, "/max"),
        ("/batch/pop", r#"{"topics":["t"],"max":1001}"#, "/max"),
        ("/batch/pop", r#"{"topics":["t"],"max":1.5}"#, "/max"),
        ("/batch/pop", r#"{"topics":["t"],"wait":"soon"}"#, "/wait"),
        ("/batch/pop", r#"{"topics":["t"],"ttr":0}"#, "/ttr"),
    ] {
        let problem = api.send("POST", target, body).await.expect_problem(422, "invalid_request");
        assert_eq!(error_locations(&problem), [at], "{body}");
    }
}

async fn the_same_job_twice_in_a_batch_is_added_once(engine: Engine) {
    let api = Api::new(engine).await;
    let jobs = r#"{"jobs":[{"topic":"t","id":"a"},{"topic":"t","id":"a"},{"topic":"u","id":"a"}]}"#;
    let response = api.send("POST", "/batch/jobs", jobs).await.expect(200).json();
    assert_eq!(statuses(&response), [201, 200, 409]);
    assert_eq!(api.get("/topics/t").await.json()["counts"]["ready"], 1);
}

async fn the_response_to_a_batch_of_faults_stays_small(engine: Engine) {
    let api = Api::new(engine).await;
    let fields: Vec<_> = (0..40).map(|n| format!("\"f{n}\":1")).collect();
    let long = format!("{{\"topic\":1,\"{}\":1}}", "x".repeat(6_000));
    for job in [format!("{{{}}}", fields.join(",")), long] {
        let body = format!("{{\"jobs\":[{}]}}", vec![job.as_str(); 1_000].join(","));
        let response = api.send("POST", "/batch/jobs", &body).await.expect(200);
        assert!(response.body.len() < 300_000, "{} bytes for {:.60}", response.body.len(), body);
        let response = response.json();
        let results = response["results"].as_array().expect("results");
        let reported: usize = results.iter().map(|result| error_locations(&result["problem"]).len()).sum();
        assert_eq!((results.len(), reported), (1_000, 32), "the response has 32 faults over the whole batch");
        let last = &results[999]["problem"];
        assert!(
            text(&last["detail"]).starts_with("/jobs/999/topic "),
            "each item still reports its first fault: {last}"
        );
    }
}

async fn a_batch_is_carried_out_only_if_its_response_fits_the_budget(engine: Engine) {
    let options = HttpOptions { max_answer_bytes: 64 * 1_024, ..HttpOptions::default() };
    let api = Api::with(engine, Setup { options, ..Setup::default() }).await;
    let large = format!(r#"{{"topic":"large","id":"large","body":"{}"}}"#, "x".repeat(60_000));
    api.add(&large).await;
    // A client that has not read its response yet.
    let mut unread = api.call("GET", "/jobs/large").head().await;
    let bytes = http_body_util::BodyExt::frame(unread.body_mut()).await.expect("a frame");
    let jobs = vec![r#"{"topic":"t"}"#; 100].join(",");
    let ids: Vec<_> = (0..100).map(|n| format!("\"{n}\"")).collect();
    let finishes: Vec<_> = (0..100).map(|n| format!("{{\"id\":\"{n}\"}}")).collect();
    let calls = [
        ("/batch/jobs", format!("{{\"jobs\":[{jobs}]}}")),
        ("/batch/finish", format!("{{\"jobs\":[{}]}}", finishes.join(","))),
        ("/batch/delete", format!("{{\"ids\":[{}]}}", ids.join(","))),
    ];
    for (target, body) in &calls {
        api.send("POST", target, body).await.expect_problem(503, "overloaded");
    }
    api.get("/topics/t").await.expect_problem(404, "topic_not_found");
    api.add(r#"{"topic":"single"}"#).await;
    drop((bytes, unread));
    for (target, body) in &calls {
        api.send("POST", target, body).await.expect(200);
    }
    assert_eq!(api.get("/topics/t").await.json()["counts"]["ready"], 100);
}
