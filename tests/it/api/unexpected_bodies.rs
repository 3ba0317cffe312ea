//! Bodies of calls that take none.

use super::on_every_engine;
use crate::harness::{api::Api, stores::Engine};

on_every_engine!(
    ;
    a_body_where_none_belongs_is_refused,
);

/// Ignoring it would ignore a condition, such as the receipt of a delete.
async fn a_body_where_none_belongs_is_refused(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    for (method, target) in [
        ("DELETE", "/jobs/a"),
        ("GET", "/jobs/a"),
        ("GET", "/topics/t/pop"),
        ("GET", "/jobs?state=ready"),
        ("DELETE", "/topics/t?confirm=t"),
        ("DELETE", "/topics/t/dead"),
        ("GET", "/version"),
        ("GET", "/metrics"),
        ("GET", "/ui/"),
    ] {
        for body in [r#"{"receipt":"9f86d081884c7d659a2feaa0c55ad015"}"#, "[]"] {
            let problem = api.send(method, target, body).await.expect_problem(400, "malformed_request");
            assert!(problem["detail"].to_string().contains("takes no body"), "{target}: {problem}");
        }
    }
    let job = api.get("/jobs/a").await.expect(200).json();
    assert_eq!((&job["state"], &job["attempts"]), (&"ready".into(), &0.into()));
    for nothing in ["{}", " null\n"] {
        api.send("GET", "/jobs/a", nothing).await.expect(200);
    }
    api.send("GET", "/nowhere", "{}").await.expect_problem(404, "not_found");
    api.send("DELETE", "/topics/t/pop", "{}").await.expect_problem(405, "method_not_allowed");
    for probe in ["/livez", "/readyz"] {
        api.send("GET", probe, "{}").await.expect(200);
    }
    api.send("DELETE", "/jobs/a", "").await.expect(204);
}
