//! Tokens: those of the file that the native API has.

use linger::auth::{Scope, token_entry};
use linger::job::TopicPattern;
use serde_json::json;

use super::{Engine, Site, error, on_each_engine};
use crate::harness::blocking_http::call_with_until_begun;

on_each_engine! {
    each_call_needs_its_scope,
    a_token_is_for_its_topics,
    changes_of_administrators_are_noted,
}

fn site(engine: Engine) -> (tempfile::TempDir, Site) {
    let orders = TopicPattern::parse("orders:*").expect("is a pattern");
    let entries = [
        token_entry("producer", "p", &[Scope::Add], &[]),
        token_entry("worker", "w", &[Scope::Work], &[orders]),
        token_entry("owner", "o", &[Scope::Admin], &[]),
        token_entry("viewer", "v", &[Scope::Read], &[]),
    ];
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tokens.toml");
    std::fs::write(&file, entries.concat()).expect("writes");
    let variable = [("LINGER__AUTH__TOKENS_FILE", file.to_str().expect("is text"))];
    let site = Site::with(engine, &variable);
    (directory, site)
}

fn answer(site: &Site, token: &str, method: &str, path: &str) -> (u16, String) {
    let answer = site.send(method, &format!("/api/{path}"), &format!("X-Token: {token}\r\n"), "x");
    (answer.status(), answer.body)
}

fn each_call_needs_its_scope(engine: Engine) {
    let (_directory, site) = site(engine);
    for (method, path, allowed, expected) in [
        ("PUT", "orders/q", "po", 201),
        ("PUT", "orders/q/bulk", "po", 400),
        ("PUT", "orders/q/job/x", "po", 201),
        ("GET", "orders/none", "wo", 404),
        ("GET", "orders/q/peek", "wo", 200),
        ("GET", "orders/q/job/x", "wo", 404),
        ("GET", "orders/q/size", "wo", 200),
        ("GET", "orders/q/deadletter/size", "wo", 200),
        ("DELETE", "orders/q/job/x", "pwo", 204),
        ("GET", "orders/q/deadletter", "o", 200),
        ("PUT", "orders/q/deadletter", "o", 200),
        ("DELETE", "orders/q/deadletter", "o", 204),
        ("DELETE", "orders/q", "o", 204),
    ] {
        for token in ["p", "w", "o", "v"] {
            let (status, body) = answer(&site, token, method, path);
            if allowed.contains(token) {
                assert_eq!(status, expected, "{token} {method} {path}: {body}");
            } else {
                let says_why = body.contains("this token does not allow this call");
                assert_eq!((status, says_why), (403, true), "{token} {method} {path}: {body}");
            }
        }
        assert_eq!(answer(&site, "x", method, path), (401, error("invalid token")), "{method} {path}");
        assert_eq!(answer(&site, "", method, path), (401, error("token not found")), "{method} {path}");
    }
}

fn a_token_is_for_its_topics(engine: Engine) {
    let (_directory, site) = site(engine);
    assert_eq!(answer(&site, "w", "GET", "orders/a,b").0, 404);
    assert_eq!(answer(&site, "default:w", "GET", "orders/a").0, 404);
    let (status, body) = answer(&site, "w", "GET", "mail/a");
    assert_eq!((status, body), (403, error("this token is not for this topic")));
    assert_eq!(answer(&site, "o", "PUT", "mail/a").0, 201);
    let by = site.send("GET", "/api/mail/a?token=o", "", "");
    assert_eq!(by.status(), 200, "{by:?}");
}

fn changes_of_administrators_are_noted(engine: Engine) {
    let (_directory, site) = site(engine);
    for (token, method, path) in [
        ("p", "PUT", "orders/q"),
        ("o", "GET", "orders/q/deadletter"),
        ("o", "DELETE", "orders/q"),
        ("o", "DELETE", "orders/q/deadletter?limit=5&dry_run=true"),
    ] {
        answer(&site, token, method, path);
    }
    site.send("PUT", "/api/orders/q/deadletter?token=o", "", "");
    // A change from a page is noted, too. Its body is that of a job.
    let from_page = format!("X-Token: o\r\nOrigin: http://{}\r\n", site.address);
    assert_eq!(site.send("PUT", "/api/orders/q", &from_page, r#"{"topic":"a","to":"b"}"#).status(), 201);
    let bearer = "Authorization: Bearer o\r\n";
    let noted =
        call_with_until_begun(site.server.address, "GET", "/audit", bearer, "").expect("answers").json();
    let calls = noted["calls"].as_array().expect("a list");
    assert!(calls.iter().all(|call| call.get("request").is_none()), "{noted}");
    let brief = calls
        .iter()
        .map(|call| json!([call["by"], call["method"], call["path"], call["topic"], call["status"]]));
    let expected = [
        json!(["owner", "PUT", "/api/orders/q", "orders:q", 201]),
        json!(["owner", "PUT", "/api/orders/q/deadletter", "orders:q", 200]),
        json!(["owner", "DELETE", "/api/orders/q/deadletter", "orders:q", 204]),
        json!(["owner", "DELETE", "/api/orders/q", "orders:q", 204]),
    ];
    assert_eq!(brief.collect::<Vec<_>>(), expected);
}
