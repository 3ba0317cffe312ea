//! The limits of a request, apart from those of a job: a request over a limit is refused as a whole.

use super::on_every_engine;
use crate::harness::{
    api::{Api, error_locations},
    stores::Engine,
};

on_every_engine!(
    ;
    small_requests_over_their_limit_are_refused,
    too_many_fields_and_too_long_names_are_refused,
);

async fn small_requests_over_their_limit_are_refused(engine: Engine) {
    let api = Api::new(engine).await;
    let padded = format!("{{{}}}", " ".repeat(64 * 1_024));
    for (method, target) in [
        ("POST", "/jobs/a/finish"),
        ("POST", "/jobs/a/release"),
        ("POST", "/jobs/a/touch"),
        ("POST", "/jobs/a/bury"),
        ("POST", "/jobs/a/requeue"),
        ("POST", "/topics/t/pop"),
        ("POST", "/batch/pop"),
        ("PUT", "/topics/t"),
        ("POST", "/topics/t/pause"),
        ("POST", "/topics/t/resume"),
        ("POST", "/topics/t/dead/requeue"),
    ] {
        let response = api.send(method, target, &padded).await;
        assert_eq!(response.header("connection"), "close", "the rest of the body is not read");
        response.expect_problem(413, "body_too_large");
    }
    assert_eq!(
        api.get("/topics").await.expect(200).body,
        "{\"topics\":[]}\n",
        "the refused request changed nothing"
    );
}

async fn too_many_fields_and_too_long_names_are_refused(engine: Engine) {
    let api = Api::new(engine).await;
    let fields: Vec<_> = (0..65).map(|n| format!("\"f{n}\":1")).collect();
    let problem = api.send("POST", "/jobs", &format!("{{{}}}", fields.join(","))).await;
    let problem = problem.expect_problem(422, "invalid_job");
    assert_eq!(error_locations(&problem), [""]);
    assert_eq!(problem["errors"][0]["detail"], "must have at most 64 fields");
    let order = format!(r#"{{"topic":"t","{}":1}}"#, "x".repeat(10_000));
    let response = api.send("POST", "/jobs", &order).await;
    assert!(response.body.len() < 1_000, "the name is not repeated in full: {}", response.body.len());
    assert_eq!(error_locations(&response.expect_problem(422, "invalid_job")), [""]);
    assert_eq!(
        api.get("/topics").await.expect(200).body,
        "{\"topics\":[]}\n",
        "the refused request changed nothing"
    );
}
