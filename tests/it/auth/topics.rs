//! Tokens for some topics, beyond single requests: the items of batches, and ids that move to another topic.

use linger::{auth::Scope, job::Receipt};

use super::{api_with_tokens, with};
use crate::harness::{
    api::{Api, text},
    stores::Engine,
};

const TOKENS: [(&str, &[Scope], &[&str]); 4] = [
    ("ops", &[Scope::Admin], &[]),
    ("shop", &[Scope::Add, Scope::Work], &["orders-*"]),
    ("reader", &[Scope::Read], &["sms", "orders-*"]),
    ("manager", &[Scope::Admin], &["orders-*"]),
];

async fn send(
    api: &Api,
    token: &str,
    method: &str,
    target: &str,
    body: &str,
) -> crate::harness::api::Response {
    let call = with(api.call(method, target), token);
    if body.is_empty() { call } else { call.json(body) }.send().await
}

async fn statuses(api: &Api, target: &str, body: &str) -> Vec<u64> {
    let response = send(api, "shop", "POST", target, body).await.expect(200).json();
    let results = response["results"].as_array().expect("results").clone();
    results.iter().map(|result| result["status"].as_u64().expect("a status")).collect()
}

macro_rules! on_every_engine {
    ($($case:ident),+ $(,)?) => {
        $(mod $case {
            use super::*;

            #[tokio::test]
            async fn naive() {
                super::$case(api_with_tokens(Engine::Naive, &TOKENS).await).await;
            }

            #[tokio::test]
            async fn embedded() {
                super::$case(api_with_tokens(Engine::Embedded, &TOKENS).await).await;
            }

            #[tokio::test]
            async fn redis() {
                super::$case(api_with_tokens(Engine::Redis, &TOKENS).await).await;
            }
        })+
    };
}

on_every_engine!(
    every_item_of_a_batch_is_checked,
    a_worker_sees_only_its_topics,
    an_id_taken_by_another_topic_is_not_found,
    a_finish_requires_its_receipt,
    a_client_is_named_by_its_token,
    a_list_of_topics_shows_only_those_of_the_token,
    a_schedule_belongs_to_the_topic_of_its_jobs,
);

async fn a_schedule_belongs_to_the_topic_of_its_jobs(api: Api) {
    let of = |topic: &str| format!(r#"{{"every":"1h","job":{{"topic":"{topic}"}}}}"#);
    send(&api, "ops", "PUT", "/schedules/mail", &of("mail")).await.expect(201);
    for name in ["a", "z"] {
        send(&api, "manager", "PUT", &format!("/schedules/{name}"), &of("orders-eu")).await.expect(201);
    }
    send(&api, "manager", "PUT", "/schedules/new", &of("mail")).await.expect_problem(403, "forbidden");
    let taken = send(&api, "manager", "PUT", "/schedules/mail", &of("orders-eu")).await;
    let problem = taken.expect_problem(409, "schedule_exists");
    assert!(!problem.to_string().contains("1h") && problem.get("state").is_none(), "{problem}");
    // Moving a schedule to another topic needs both.
    send(&api, "manager", "PUT", "/schedules/a", &of("mail")).await.expect_problem(403, "forbidden");
    send(&api, "manager", "PUT", "/schedules/a", &of("orders-us")).await.expect(200);
    for (method, path) in [
        ("GET", ""),
        ("GET", "/next"),
        ("DELETE", ""),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("POST", "/run"),
    ] {
        let foreign = send(&api, "manager", method, &format!("/schedules/mail{path}"), "").await;
        foreign.expect_problem(404, "schedule_not_found");
    }
    let names = async |token: &str, query: &str| {
        let page = send(&api, token, "GET", &format!("/schedules{query}"), "").await.expect(200).json();
        let names = page["schedules"].as_array().expect("a list").iter();
        (
            names.map(|schedule| text(&schedule["name"]).to_owned()).collect::<Vec<_>>(),
            page.get("next_cursor").cloned(),
        )
    };
    assert_eq!(names("ops", "").await.0, ["a", "mail", "z"]);
    assert_eq!(names("reader", "").await, (vec!["a".to_owned(), "z".to_owned()], None));
    let (first, cursor) = names("reader", "?limit=1").await;
    assert_eq!(first, ["a"]);
    let cursor = cursor.expect("there may be more");
    assert_eq!(names("reader", &format!("?limit=1&cursor={}", text(&cursor))).await.0, ["z"]);
    send(&api, "shop", "GET", "/schedules", "").await.expect_problem(403, "forbidden");
    let mail = send(&api, "ops", "GET", "/schedules/mail", "").await.expect(200).json();
    assert_eq!((&mail["revision"], &mail["state"]), (&1.into(), &"active".into()));
}

async fn every_item_of_a_batch_is_checked(api: Api) {
    let jobs = r#"{"jobs":[{"topic":"orders-eu","id":"a"},{"topic":"mail","id":"b"},{"topic":"bad topic"},{"topic":"orders-us","id":"c"}]}"#;
    assert_eq!(statuses(&api, "/batch/jobs", jobs).await, [201, 403, 422, 201]);
    send(&api, "ops", "GET", "/jobs/b", "").await.expect_problem(404, "job_not_found");
    send(&api, "ops", "POST", "/jobs", r#"{"topic":"mail","id":"b"}"#).await.expect(201);
    let ids = r#"{"ids":["b","a","nobody","c","a"]}"#;
    assert_eq!(statuses(&api, "/batch/delete", ids).await, [404, 204, 404, 204, 404]);
    send(&api, "ops", "GET", "/jobs/b", "").await.expect(200);
    send(&api, "shop", "POST", "/batch/pop", r#"{"topics":["orders-eu","mail"]}"#)
        .await
        .expect_problem(403, "forbidden");
    let job = send(&api, "ops", "GET", "/jobs/b", "").await.expect(200).json();
    assert_eq!((&job["state"], &job["attempts"]), (&"ready".into(), &0.into()));
}

async fn a_worker_sees_only_its_topics(api: Api) {
    send(&api, "shop", "POST", "/jobs", r#"{"topic":"orders-eu","id":"a"}"#).await.expect(201);
    send(&api, "ops", "POST", "/jobs", r#"{"topic":"mail","id":"b"}"#).await.expect(201);
    let own = send(&api, "shop", "GET", "/topics/orders-eu/pop", "").await.expect(200).json();
    let foreign = send(&api, "ops", "GET", "/topics/mail/pop", "").await.expect(200).json();
    // A job of another topic is not found, even with its receipt.
    let held = format!(r#"{{"receipt":{}}}"#, foreign["receipt"]);
    for step in ["release", "touch", "bury"] {
        let target = format!("/jobs/b/{step}");
        send(&api, "shop", "POST", &target, &held).await.expect_problem(404, "job_not_found");
    }
    let finish = |job: &serde_json::Value| {
        format!("/jobs/{}/finish?receipt={}", text(&job["id"]), text(&job["receipt"]))
    };
    send(&api, "shop", "POST", &finish(&foreign), "").await.expect_problem(404, "job_not_found");
    let touch = format!(r#"{{"receipt":{},"ttr":"5m"}}"#, own["receipt"]);
    send(&api, "shop", "POST", "/jobs/a/touch", &touch).await.expect(200);
    let both = format!(
        r#"{{"jobs":[{{"id":"b","receipt":{}}},{{"id":"a","receipt":{}}}]}}"#,
        foreign["receipt"], own["receipt"]
    );
    assert_eq!(statuses(&api, "/batch/finish", &both).await, [404, 204]);
    send(&api, "ops", "POST", &finish(&foreign), "").await.expect(204);
}

async fn a_client_is_named_by_its_token(api: Api) {
    for id in ["a", "b"] {
        let job = format!(r#"{{"topic":"orders-eu","id":"{id}","max_attempts":0}}"#);
        send(&api, "shop", "POST", "/jobs", &job).await.expect(201);
    }
    let popped = send(&api, "shop", "GET", "/topics/orders-eu/pop", "").await.expect(200).json();
    let id = text(&popped["id"]);
    let job = send(&api, "ops", "GET", &format!("/jobs/{id}"), "").await.expect(200).json();
    assert_eq!(job["reserved_by"], "shop");
    let bury = format!(r#"{{"receipt":{}}}"#, popped["receipt"]);
    send(&api, "shop", "POST", &format!("/jobs/{id}/bury"), &bury).await.expect(200);
    send(&api, "ops", "POST", &format!("/jobs/{id}/requeue"), "").await.expect(200);
    send(&api, "shop", "PATCH", &format!("/jobs/{id}"), r#"{"delay":"1h"}"#).await.expect(200);
    let job = send(&api, "ops", "GET", &format!("/jobs/{id}"), "").await.expect(200).json();
    let by: Vec<_> = (0..3).map(|n| text(&job["history"][n]["by"])).collect();
    assert_eq!(by, ["shop", "ops", "shop"]);
    let named = send(&api, "shop", "GET", "/topics/orders-eu/pop?worker=w-7", "").await.expect(200).json();
    let job = send(&api, "ops", "GET", &format!("/jobs/{}", text(&named["id"])), "").await.expect(200).json();
    assert_eq!(job["reserved_by"], "w-7", "its own name comes first");
    send(&api, "ops", "POST", "/jobs", r#"{"topic":"mail","id":"c"}"#).await.expect(201);
    for (token, id) in [("shop", id), ("ops", "c")] {
        send(&api, token, "DELETE", &format!("/jobs/{id}"), "").await.expect(204);
        let gone =
            send(&api, "ops", "GET", &format!("/jobs/{id}"), "").await.expect_problem(404, "job_not_found");
        assert_eq!((&gone["ended"]["how"], &gone["ended"]["by"]), (&"deleted".into(), &token.into()));
    }
}

async fn an_id_taken_by_another_topic_is_not_found(api: Api) {
    send(&api, "shop", "POST", "/jobs", r#"{"topic":"orders-eu","id":"a","delay":"1h"}"#).await.expect(201);
    send(&api, "shop", "DELETE", "/jobs/a", "").await.expect(204);
    send(&api, "ops", "POST", "/jobs", r#"{"topic":"mail","id":"a","delay":"1h"}"#).await.expect(201);
    send(&api, "shop", "DELETE", "/jobs/a", "").await.expect_problem(404, "job_not_found");
    send(&api, "shop", "PATCH", "/jobs/a", r#"{"delay":0}"#).await.expect_problem(404, "job_not_found");
    // Ids are global, so the response must reveal that this one is taken, and nothing more.
    let mine = r#"{"topic":"orders-eu","id":"a"}"#;
    let problem = send(&api, "shop", "POST", "/jobs", mine).await.expect_problem(409, "job_exists");
    assert!(problem.get("state").is_none() && problem.get("due_at").is_none(), "{problem}");
    send(&api, "shop", "POST", "/jobs", r#"{"topic":"orders-eu","id":"own"}"#).await.expect(201);
    let both = format!(r#"{{"jobs":[{mine},{{"topic":"orders-us","id":"own"}}]}}"#);
    let results =
        send(&api, "shop", "POST", "/batch/jobs", &both).await.expect(200).json()["results"].clone();
    let shown = |n: usize| {
        let problem = &results[n]["problem"];
        (problem["code"].clone(), problem.get("state").cloned(), problem.get("due_at").is_some())
    };
    assert_eq!(shown(0), ("job_exists".into(), None, false));
    assert_eq!(shown(1), ("job_exists".into(), Some("ready".into()), true), "a job of a topic of its own");
    let all = send(&api, "ops", "POST", "/jobs", mine).await.expect_problem(409, "job_exists");
    assert_eq!((&all["state"], all.get("due_at").is_some()), (&"delayed".into(), true));
    let job = send(&api, "ops", "GET", "/jobs/a", "").await.expect(200).json();
    assert_eq!((&job["topic"], &job["state"]), (&"mail".into(), &"delayed".into()));
}

async fn a_finish_requires_its_receipt(api: Api) {
    send(&api, "shop", "POST", "/jobs", r#"{"topic":"orders-eu","id":"a"}"#).await.expect(201);
    send(&api, "shop", "GET", "/topics/orders-eu/pop", "").await.expect(200);
    send(&api, "shop", "POST", "/jobs/a/finish", "").await.expect_problem(422, "receipt_required");
    send(&api, "ops", "POST", "/jobs", r#"{"topic":"mail","id":"foreign"}"#).await.expect(201);
    let receipt = Receipt::generate();
    let batch = format!(
        r#"{{"jobs":[{{"id":"a"}},{{"id":"nobody","receipt":"{receipt}"}},{{"id":"nobody"}},{{"id":"foreign"}}]}}"#
    );
    // Without a receipt the response is the same whether the job exists or not.
    assert_eq!(statuses(&api, "/batch/finish", &batch).await, [422, 404, 422, 422]);
    send(&api, "ops", "POST", "/jobs/a/finish", "").await.expect(204);
}

async fn a_list_of_topics_shows_only_those_of_the_token(api: Api) {
    for name in ["mail", "orders", "orders-eu", "orders-us", "sms", "zzz"] {
        send(&api, "ops", "POST", "/jobs", &format!(r#"{{"topic":"{name}"}}"#)).await.expect(201);
    }
    for _ in 0..2 {
        send(&api, "ops", "POST", "/jobs", r#"{"topic":"orders-us"}"#).await.expect(201);
        send(&api, "ops", "POST", "/jobs", r#"{"topic":"mail"}"#).await.expect(201);
    }
    send(&api, "shop", "GET", "/topics", "").await.expect_problem(403, "forbidden");
    let listed = async |token: &str, query: &str| {
        let page = send(&api, token, "GET", &format!("/topics?{query}"), "").await.expect(200).json();
        let topics = page["topics"].as_array().expect("topics").iter();
        let names: Vec<_> = topics.map(|topic| text(&topic["topic"]).to_owned()).collect();
        (names, page.get("next_cursor").map(|cursor| text(cursor).to_owned()))
    };
    // What others read a moment ago is kept for all callers.
    assert_eq!(listed("ops", "sort=ready&limit=2").await.0, ["mail", "orders-us"]);
    for (query, expected) in [
        ("limit=9", &["orders-eu", "orders-us", "sms"][..]),
        ("sort=ready", &["orders-us", "orders-eu", "sms"]),
        ("sort=overdue&limit=2", &["orders-eu", "orders-us"]),
        ("prefix=o", &["orders-eu", "orders-us"]),
        ("prefix=orders-e", &["orders-eu"]),
        ("prefix=s&sort=dead", &["sms"]),
        ("prefix=mail", &[]),
        ("prefix=m&sort=ready", &[]),
        // A cursor from another token's list shows no more.
        ("cursor=6d61696c", &["orders-eu", "orders-us", "sms"]),
    ] {
        assert_eq!(
            listed("reader", query).await,
            (expected.iter().map(|name| (*name).to_owned()).collect(), None)
        );
    }
    let (first, cursor) = listed("reader", "limit=2").await;
    assert_eq!(first, ["orders-eu", "orders-us"]);
    let cursor = cursor.expect("there is another page");
    assert_eq!(listed("reader", &format!("limit=2&cursor={cursor}")).await, (vec!["sms".to_owned()], None));
}

#[tokio::test]
async fn head_requires_the_same_scope_as_get_and_unknown_paths_reveal_nothing() {
    let api = api_with_tokens(Engine::Naive, &TOKENS).await;
    for (method, target, status) in [
        ("HEAD", "/version", 401),
        ("HEAD", "/livez", 200),
        ("GET", "/nothing/here", 401),
        ("BREW", "/jobs", 401),
        ("OPTIONS", "/jobs", 401),
    ] {
        api.call(method, target).send().await.expect(status);
    }
    with(api.call("GET", "/nothing/here"), "ops").send().await.expect_problem(404, "not_found");
    with(api.call("BREW", "/jobs"), "ops").send().await.expect_problem(405, "method_not_allowed");
    let twice = with(with(api.call("GET", "/version"), "ops"), "ops");
    twice.send().await.expect_problem(401, "unauthorized");
    let basic = api.call("GET", "/version").header("authorization", "Basic b3BzOm9wcw==");
    basic.send().await.expect_problem(401, "unauthorized");
}
