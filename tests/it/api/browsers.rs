//! Attacks through a user's browser.

use super::on_every_engine;
use crate::harness::{
    api::{Api, Setup},
    stores::Engine,
};
use linger::http::HttpOptions;

on_every_engine!(
    ;
    trap_a_web_page_cannot_pop_or_add,
    trap_a_rebound_host_name_is_refused,
    pages_for_operators_may_be_linked_to,
    preflights_allow_nothing,
);

async fn trap_a_web_page_cannot_pop_or_add(engine: Engine) {
    let api = Api::new(engine).await;
    api.add(r#"{"topic":"t","id":"a"}"#).await;
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("referer", "https://evil.example/"),
    ] {
        for (method, target) in
            [("GET", "/topics/t/pop"), ("POST", "/topics/t/pop"), ("GET", "/jobs/a"), ("DELETE", "/jobs/a")]
        {
            let call = api.call(method, target).header(name, value);
            call.send().await.expect_problem(403, "cross_site_refused");
        }
        let add = api.call("POST", "/jobs").json(r#"{"topic":"t","id":"b"}"#).header(name, value);
        add.send().await.expect_problem(403, "cross_site_refused");
    }
    let job = api.get("/jobs/a").await.expect(200).json();
    assert_eq!((&job["state"], &job["attempts"]), (&"ready".into(), &0.into()));
    api.get("/jobs/b").await.expect(404);
    let own = api.call("GET", "/topics/t/pop").header("sec-fetch-site", "same-origin");
    own.header("origin", "http://localhost").send().await.expect(200);
}

async fn trap_a_rebound_host_name_is_refused(engine: Engine) {
    let options = HttpOptions {
        check_host: true,
        allowed_hosts: vec!["queue.test".to_owned()],
        ..HttpOptions::default()
    };
    let api = Api::with(engine, Setup { options, ..Setup::default() }).await;
    let pop_with_host =
        |host: &str| api.call("GET", "/topics/t/pop").without("host").header("host", host).send();
    pop_with_host("evil.example:9277").await.expect_problem(403, "host_refused");
    pop_with_host("127.0.0.1:9277").await.expect(204);
    pop_with_host("[::1]:9277").await.expect(204);
    pop_with_host("queue.test").await.expect(204);
    api.call("GET", "/livez").without("host").send().await.expect_problem(400, "malformed_request");
}

async fn pages_for_operators_may_be_linked_to(engine: Engine) {
    let api = Api::new(engine).await;
    for page in ["/livez", "/readyz", "/version", "/metrics", "/openapi.yaml", "/openapi.json"] {
        let link = api.call("GET", page).header("sec-fetch-site", "cross-site");
        link.header("referer", "https://wiki.example/").send().await.expect(200);
    }
}

async fn preflights_allow_nothing(engine: Engine) {
    let api = Api::new(engine).await;
    let preflight = api.call("OPTIONS", "/jobs").header("origin", "https://evil.example");
    let response = preflight.header("access-control-request-method", "POST").send().await;
    assert!(response.headers.keys().all(|name| !name.as_str().starts_with("access-control-")));
    assert_eq!(response.header("allow"), "POST, GET, HEAD", "only methods that exist are allowed");
    response.expect_problem(403, "cross_site_refused");
}
