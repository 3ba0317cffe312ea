//! Every refusal.

use super::{Engine, Site, TOKEN, error, on_each_engine};

on_each_engine! {
    every_refusal_has_its_text,
    names_are_checked_before_tokens,
    what_only_this_server_refuses_says_why,
}

fn every_refusal_has_its_text(engine: Engine) {
    let site = Site::with(engine, &[("LINGER__QUEUE__MAX_BODY", "100B")]);
    let (long, many) = ("x".repeat(101), format!("[{}]", vec!["1"; 65].join(",")));
    let value = format!("[{long:?}]");
    // It is not JSON for us, and is stored as text whose quotes are escaped.
    let longer = format!(r#"[1,{{"linger:text":"{}"}}]"#, "x".repeat(80));
    for (status, method, path, body, text) in [
        (400, "PUT", "n/q?delay=x&ttl=x", "", "invalid delay"),
        (400, "PUT", "n/q?ttl=-1", "", "invalid ttl"),
        (400, "PUT", "n/q?ttl=1&delay=2", "", "ttl is shorter than delay"),
        (400, "PUT", "n/q?tries=65536", "", "invalid tries"),
        (400, "PUT", "n/q?tries=0", "", "tries shouldn't be zero"),
        (413, "PUT", "n/q", &long, "body too large"),
        (413, "PUT", "n/q/job/a", &long, "body too large"),
        (400, "PUT", "n/q/bulk?delay=x", "[", "invalid delay"),
        (400, "PUT", "n/q/bulk", "{}", "request body should be an array of objects"),
        (400, "PUT", "n/q/bulk", "[]", "no jobs"),
        (400, "PUT", "n/q/bulk", &many, "too many jobs"),
        (413, "PUT", "n/q/bulk", &value, "job too large"),
        (413, "PUT", "n/q/bulk", &longer, "job too large"),
        (400, "GET", "n/q?ttr=", "", "invalid ttr"),
        (400, "GET", "n/q?timeout=4294967296", "", "invalid timeout"),
        (400, "GET", "n/q?count=101", "", "invalid count"),
        (400, "GET", "n/,", "", "invalid queue name(s)"),
        (400, "PUT", "n/q/deadletter?limit=0", "", "invalid limit"),
        (400, "PUT", "n/q/deadletter?ttl=-1", "", "invalid ttl"),
        (400, "DELETE", "n/q/deadletter?limit=x", "", "invalid limit"),
    ] {
        assert_eq!(site.expect(status, method, path, body), error(text), "{method} {path}");
    }
    assert_eq!(site.size("n/q/size"), 0);
    let versioned = format!("{TOKEN}Enable-Job-Version: YES\r\n");
    let with_attribute = format!("{versioned}Job-Attr-Trace: 1\r\n");
    let refused = site.send("PUT", "/api/n/q", &with_attribute, "x");
    assert_eq!((refused.status(), refused.body), (400, error("job attributes are not supported")));
    let published = site.send("PUT", "/api/n/q", &versioned, "x");
    assert!(published.body.starts_with(r#"{"job_id":"10"#), "{published:?}");
    assert_eq!(site.send("PUT", "/api/n/q", &format!("{TOKEN}Job-Attr-Trace: 1\r\n"), "x").status(), 201);
}

fn names_are_checked_before_tokens(engine: Engine) {
    let site = Site::new(engine);
    let long = "x".repeat(256);
    for (path, status, text) in [
        (format!("/api/{long}/a.b"), 400, "namespace or queue name too long"),
        ("/api/a.b/_q".to_owned(), 400, "namespace name contains forbidden characters"),
        ("/api/n/_q?token=other:1".to_owned(), 400, "queue name contains forbidden characters"),
        ("/api/n/q?token=other:1".to_owned(), 404, "pool not found"),
        ("/api/n/q?token=default:".to_owned(), 401, "token not found"),
        ("/api/n/q?delay=x".to_owned(), 401, "token not found"),
        ("/api/n/q?delay=x&token=default:1".to_owned(), 400, "invalid delay"),
    ] {
        let answer = site.send("PUT", &path, "", "x");
        assert_eq!((answer.status(), answer.body), (status, error(text)), "{path}");
    }
    // As there, a size needs none, but a queue of that name does.
    for path in ["/api/n/q/size", "/api/n/q/deadletter/size"] {
        assert_eq!(site.send("GET", path, "", "").status(), 200, "{path}");
    }
    for path in ["/api/n/size", "/api/n/q/job/size"] {
        assert_eq!(site.send("GET", path, "", "").status(), 401, "{path}");
    }
    assert_eq!(site.expect(404, "GET", "n/_q,q", ""), r#"{"msg":"no job available"}"#);
}

fn what_only_this_server_refuses_says_why(engine: Engine) {
    let site = Site::new(engine);
    site.native("PUT", "/topics/n:called", r#"{"callback":{"url":"http://127.0.0.1:8000/"}}"#, 200);
    site.native("PUT", "/topics/n:strict", r#"{"require_receipt":true}"#, 200);
    site.native("POST", "/topics/n:closed/pause", r#"{"intake":true}"#, 200);
    let held = site.publish("n/strict", "x");
    for (method, path, text) in [
        ("GET", "n/called", "the jobs of topic n:called go to its callback".to_owned()),
        ("DELETE", &*format!("n/strict/job/{held}"), "the receipt that came with the reservation".to_owned()),
        ("PUT", "n/closed", "intake is paused".to_owned()),
        ("GET", "n/q?ttr=4294967295", "ttr must be at most".to_owned()),
        ("GET", &*format!("n/{}", "q".repeat(127)), "namespace or queue name too long".to_owned()),
    ] {
        let answer = site.call(method, path, "x");
        assert!((400..500).contains(&answer.status()), "{method} {path}: {answer:?}");
        assert!(answer.body.starts_with(r#"{"error":""#) && answer.body.contains(&text), "{answer:?}");
    }
    assert_eq!(site.server.job(&held)["state"], "ready");
}
