//! The files of the dashboard: their headers, their addresses, and who gets them. `scripts/ui-tests` opens them in a
//! browser.

use linger::{auth::Scope, config::UiSettings};

use crate::{
    auth::api_with_tokens,
    harness::{
        api::{Api, Setup},
        stores::Engine,
    },
};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

#[tokio::test]
async fn every_file_has_the_headers_that_protect_its_users() {
    let api = Api::new(Engine::Naive).await;
    for (target, media_type) in [
        ("/ui/", "text/html; charset=utf-8"),
        ("/ui/index.html", "text/html; charset=utf-8"),
        ("/ui/app.css", "text/css; charset=utf-8"),
        ("/ui/js/main.js", "text/javascript; charset=utf-8"),
        ("/ui/vendor/preact.mjs", "text/javascript; charset=utf-8"),
        ("/ui/favicon.svg", "image/svg+xml"),
        ("/ui/vendor/LICENSE-htm.txt", "text/plain; charset=utf-8"),
        ("/ui/settings.json", "application/json"),
    ] {
        let response = api.get(target).await.expect(200);
        for (name, expected) in [
            ("content-type", media_type),
            ("content-security-policy", POLICY),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("referrer-policy", "same-origin"),
            ("x-content-type-options", "nosniff"),
            ("cache-control", if target == "/ui/settings.json" { "no-store" } else { "no-cache" }),
        ] {
            assert_eq!(response.header(name), expected, "{target}: {name}");
        }
    }
}

#[tokio::test]
async fn a_file_that_the_browser_has_is_not_sent_again() {
    let api = Api::new(Engine::Naive).await;
    let first = api.get("/ui/app.css").await.expect(200);
    let etag = first.header("etag").to_owned();
    let strong = etag.trim_start_matches("W/").to_owned();
    for known in [etag.clone(), strong, format!("\"other\", {etag}"), "*".to_owned()] {
        let response =
            api.call("GET", "/ui/app.css").header("if-none-match", &known).send().await.expect(304);
        assert!(response.body.is_empty(), "{known}");
        assert_eq!((response.header("etag"), response.header("cache-control")), (&*etag, "no-cache"));
    }
    let other = api.get("/ui/js/main.js").await.expect(200).header("etag").to_owned();
    assert_ne!(other, etag);
    api.call("GET", "/ui/app.css").header("if-none-match", &other).send().await.expect(200);
}

#[tokio::test]
async fn only_files_of_the_dashboard_are_found() {
    let api = Api::new(Engine::Naive).await;
    assert_eq!(api.get("/ui").await.expect(307).header("location"), "ui/", "any path of a proxy works");
    for target in ["/ui/nothing", "/ui/js", "/ui/../Cargo.toml", "/ui/%2e%2e/Cargo.toml", "/ui/js//main.js"] {
        api.get(target).await.expect_problem(404, "not_found");
    }
    for target in ["/ui", "/ui/", "/ui/app.css"] {
        let refused = api.send("POST", target, "{}").await;
        assert_eq!(refused.header("allow"), "GET, HEAD");
        refused.expect_problem(405, "method_not_allowed");
        api.call("HEAD", target).send().await;
    }
}

#[tokio::test]
async fn a_browser_is_led_from_the_root_to_the_dashboard() {
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let open = |api: &Api, accept: &str| api.call("GET", "/").header("accept", accept).send();
    let with_token = api_with_tokens(Engine::Naive, &[("ops", &[Scope::Admin], &[])]).await;
    for api in [Api::new(Engine::Naive).await, with_token] {
        let led = open(&api, browser).await.expect(307);
        assert_eq!(led.header("location"), "ui/", "any path of a proxy works");
        let link = api.call("GET", "/").header("accept", browser).header("sec-fetch-site", "cross-site");
        link.send().await.expect(307);
        for accept in ["*/*", "application/json"] {
            let problem = open(&api, accept).await.expect_problem(404, "not_found");
            let detail = problem["detail"].as_str().expect("a detail");
            assert!(detail.contains("the dashboard is at /ui/"), "{detail}");
        }
    }
    let ui = UiSettings { enabled: false, ..UiSettings::default() };
    let off = Api::with(Engine::Naive, Setup { ui, ..Setup::default() }).await;
    let problem = open(&off, browser).await.expect_problem(404, "not_found");
    assert!(!problem.to_string().contains("/ui/"), "{problem}");
}

#[tokio::test]
async fn the_files_need_no_token_and_links_may_point_at_them() {
    let api = api_with_tokens(Engine::Naive, &[("ops", &[Scope::Admin], &[])]).await;
    for target in ["/ui/", "/ui/js/main.js", "/ui/settings.json"] {
        api.get(target).await.expect(200);
        let link = api.call("GET", target).header("sec-fetch-site", "cross-site");
        link.header("referer", "https://wiki.example/").send().await.expect(200);
    }
    api.get("/topics").await.expect_problem(401, "unauthorized");
}

#[tokio::test]
async fn the_settings_reach_the_pages_and_can_switch_them_off() {
    let settings = |ui: UiSettings| Setup { ui, ..Setup::default() };
    let ui = UiSettings { enabled: true, title: "a \"b\" <c>".to_owned(), hide_bodies: true };
    let api = Api::with(Engine::Naive, settings(ui.clone())).await;
    let shown = api.get("/ui/settings.json").await.expect(200).json();
    assert_eq!(shown, serde_json::json!({ "title": "a \"b\" <c>", "hide_bodies": true }));
    let api = Api::with(Engine::Naive, settings(UiSettings { enabled: false, ..ui })).await;
    for target in ["/ui", "/ui/", "/ui/app.css", "/ui/settings.json"] {
        api.get(target).await.expect_problem(404, "not_found");
    }
}
