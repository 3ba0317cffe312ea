//! Failures: a store that is unavailable, full, damaged or not durable, and bugs of the server.

use linger::store::Error;

use crate::harness::{
    api::{Api, Response},
    failing::Failure,
    stores::Engine,
};

/// Every request that reaches the store. All are valid.
const CALLS: [(&str, &str, &str); 27] = [
    ("POST", "/jobs", r#"{"topic":"t"}"#),
    ("GET", "/jobs/a", ""),
    ("PATCH", "/jobs/a", r#"{"delay":5}"#),
    ("DELETE", "/jobs/a", ""),
    ("POST", "/jobs/a/finish", ""),
    ("POST", "/jobs/a/release", RECEIPT),
    ("POST", "/jobs/a/touch", RECEIPT),
    ("POST", "/jobs/a/bury", RECEIPT),
    ("POST", "/jobs/a/requeue", ""),
    ("GET", "/topics/t/pop", ""),
    ("POST", "/topics/t/pop", ""),
    ("POST", "/batch/jobs", r#"{"jobs":[{"topic":"t"},7]}"#),
    ("POST", "/batch/pop", r#"{"topics":["t"]}"#),
    ("POST", "/batch/finish", r#"{"jobs":[{"id":"a"}]}"#),
    ("POST", "/batch/release", r#"{"jobs":[{"id":"a","receipt":"0123456789abcdef0123456789abcdef"}]}"#),
    ("POST", "/batch/touch", r#"{"jobs":[{"id":"a","receipt":"0123456789abcdef0123456789abcdef"}]}"#),
    ("POST", "/batch/bury", r#"{"jobs":[{"id":"a","receipt":"0123456789abcdef0123456789abcdef"}]}"#),
    ("POST", "/batch/delete", r#"{"ids":["a"]}"#),
    ("GET", "/topics", ""),
    ("GET", "/topics/t", ""),
    ("PUT", "/topics/t", "{}"),
    ("DELETE", "/topics/t?confirm=t", ""),
    ("POST", "/topics/t/pause", ""),
    ("POST", "/topics/t/resume", ""),
    ("GET", "/topics/t/dead", ""),
    ("POST", "/topics/t/dead/requeue", ""),
    ("DELETE", "/topics/t/dead", ""),
];

const RECEIPT: &str = r#"{"receipt":"0123456789abcdef0123456789abcdef"}"#;

async fn call(api: &Api, (method, target, body): (&str, &str, &str)) -> Response {
    let call = api.call(method, target);
    if body.is_empty() { call.send().await } else { call.json(body).send().await }
}

/// Every request is answered with `status` and `code`, in the form of the contract and without the cause.
async fn every_call_is_refused(failure: Error, status: u16, code: &str, retry: bool) {
    let api = Api::new(Engine::Naive).await;
    api.store.fail(Some(Failure::Error(failure)));
    for request in CALLS {
        let response = call(&api, request).await;
        assert_eq!(response.headers.contains_key("retry-after"), retry, "{request:?}");
        assert!(
            !String::from_utf8_lossy(&response.body).contains("10.0.0.7"),
            "the response does not reveal the cause"
        );
        response.expect_problem(status, code);
    }
    api.store.fail(None);
    for request in CALLS {
        assert!(call(&api, request).await.status.as_u16() < 500, "{request:?} recovers");
    }
}

#[tokio::test]
async fn every_call_to_an_unavailable_store_is_refused() {
    every_call_is_refused(
        Error::Unavailable("10.0.0.7 is unreachable".to_owned()),
        503,
        "store_unavailable",
        true,
    )
    .await;
}

#[tokio::test]
async fn every_call_to_a_damaged_store_is_refused() {
    every_call_is_refused(Error::Damaged("10.0.0.7 is damaged".to_owned()), 503, "store_unavailable", true)
        .await;
}

#[tokio::test]
async fn every_call_to_a_stopped_store_is_refused() {
    every_call_is_refused(Error::Stopped("10.0.0.7 has failed".to_owned()), 503, "store_unavailable", true)
        .await;
}

#[tokio::test]
async fn every_change_that_is_not_durable_is_refused() {
    every_call_is_refused(Error::NotDurable("10.0.0.7 lags".to_owned()), 503, "not_durable", true).await;
}

#[tokio::test]
async fn a_full_store_refuses_everything_but_reads() {
    let api = Api::new(Engine::Naive).await;
    api.store.fail(Some(Failure::Error(Error::Full("10.0.0.7 is full".to_owned()))));
    // Reads need no disk space.
    for request in CALLS.into_iter().filter(|(method, target, _)| *method != "GET" || target.ends_with("pop"))
    {
        call(&api, request).await.expect_problem(507, "store_full");
    }
}

#[tokio::test]
async fn an_unavailable_store_makes_the_server_unready_but_alive() {
    let api = Api::new(Engine::Naive).await;
    api.store.fail(Some(Failure::Error(Error::Unavailable("unreachable".to_owned()))));
    api.queue.check_store().await;
    api.get("/readyz").await.expect_problem(503, "store_unavailable");
    let problem = api.get("/readyz?verbose").await.expect_problem(503, "store_unavailable");
    assert_eq!(problem["checks"][0]["status"], "ok");
    assert_eq!(problem["checks"][1]["status"], "failed");
    for page in ["/livez", "/version", "/metrics", "/openapi.yaml", "/openapi.json"] {
        api.get(page).await.expect(200);
    }
    api.store.fail(None);
    api.get("/readyz").await.expect_problem(503, "store_unavailable");
    api.queue.check_store().await;
    api.get("/readyz").await.expect(200);
}

#[tokio::test]
async fn a_panic_affects_only_its_own_request() {
    let api = Api::new(Engine::Naive).await;
    api.store.fail(Some(Failure::Panic));
    let problem = api.get("/jobs/a").await.expect_problem(500, "internal");
    assert!(!problem.to_string().contains("demanded"), "the response does not reveal the panic's message");
    api.store.fail(None);
    api.get("/jobs/a").await.expect_problem(404, "job_not_found");
}
