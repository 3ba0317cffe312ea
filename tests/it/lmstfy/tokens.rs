//! Tokens: those of the file that the native API has.

use linger::auth::{Scope, token_entry};
use linger::job::TopicPattern;

use super::{Engine, Site, error, on_each_engine};

on_each_engine! {
    each_call_needs_its_scope,
    a_token_is_for_its_topics,
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
    for (method, path, allowed) in [
        ("PUT", "orders/q", "po"),
        ("PUT", "orders/q/bulk", "po"),
        ("PUT", "orders/q/job/x", "po"),
        ("GET", "orders/q", "wo"),
        ("GET", "orders/q/peek", "wo"),
        ("GET", "orders/q/job/x", "wo"),
        ("GET", "orders/q/size", "wo"),
        ("GET", "orders/q/deadletter/size", "wo"),
        ("DELETE", "orders/q/job/x", "pwo"),
        ("DELETE", "orders/q", "o"),
        ("GET", "orders/q/deadletter", "o"),
        ("PUT", "orders/q/deadletter", "o"),
        ("DELETE", "orders/q/deadletter", "o"),
    ] {
        for token in ["p", "w", "o", "v"] {
            let (status, body) = answer(&site, token, method, path);
            let is_forbidden = status == 403 && body.contains("this token does not allow this call");
            assert_eq!(is_forbidden, !allowed.contains(token), "{token} {method} {path}: {status} {body}");
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
