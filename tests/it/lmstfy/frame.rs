//! What the dialect shares with the native API, and how it answers what the framework refuses.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use super::{Engine, Site, TOKEN, error, on_each_engine};

on_each_engine! {
    an_unknown_call_is_answered_as_there,
    refusals_of_the_framework_have_the_form_of_the_dialect,
    both_listeners_share_the_limit_of_connections,
    a_shutdown_answers_the_consumes_that_wait,
}

fn an_unknown_call_is_answered_as_there(engine: Engine) {
    let site = Site::new(engine);
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/api/n"),
        ("POST", "/api/n/q"),
        ("PATCH", "/api/n/q/job/a"),
        ("GET", "/api/n/q/bulk"),
        ("POST", "/jobs"),
        ("GET", "/livez"),
        ("GET", "/metrics"),
    ] {
        let answer = site.send(method, path, "", "{}");
        assert_eq!((answer.status(), &*answer.body), (404, &*error("api not found")), "{method} {path}");
        assert!(answer.head.contains("content-type: application/json; charset=utf-8\r\n"), "{answer:?}");
    }
    assert_eq!(site.send("HEAD", "/api/n/q", TOKEN, "").status(), 404);
    site.native("GET", "/api/n/q", "", 404);
}

fn refusals_of_the_framework_have_the_form_of_the_dialect(engine: Engine) {
    let site = Site::new(engine);
    for (headers, text) in [
        ("Host: evil.example\r\n", "this host name is not known here"),
        ("Origin: http://evil.example\r\n", "calls from another site's pages are refused"),
    ] {
        let answer = site.send("PUT", "/api/n/q", &format!("{TOKEN}{headers}"), "x");
        assert!(answer.status() == 403 && answer.body.contains(text), "{answer:?}");
        assert!(answer.body.starts_with(r#"{"error":""#), "{answer:?}");
    }
    let head = format!("PUT /api/n/q HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{TOKEN}");
    let broken = site.send_raw(format!("{head}Transfer-Encoding: chunked\r\n\r\nx\r\n").as_bytes());
    assert_eq!((broken.status(), broken.body), (400, error("failed to read body")));
    assert_eq!(site.server.metric(r#"linger_limit{limit="lmstfy_max_wait_seconds"}"#), Some(600.0));
}

fn both_listeners_share_the_limit_of_connections(engine: Engine) {
    let site = Site::with(engine, &[("LINGER__SERVER__MAX_CONNECTIONS", "1")]);
    let mut native = TcpStream::connect(site.server.address).expect("connects");
    native.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sends");
    assert!(native.read(&mut [0; 1_024]).expect("is answered") > 0);
    let answer = site.send("PUT", "/api/n/q", TOKEN, "x");
    let text = "too many connections are open; send this again in a moment";
    assert_eq!((answer.status(), answer.body), (503, error(text)));
}

fn a_shutdown_answers_the_consumes_that_wait(engine: Engine) {
    let site = Site::new(engine);
    let answer = std::thread::scope(|scope| {
        let consume = scope.spawn(|| site.call("GET", "n/q?timeout=200", ""));
        site.server.wait_for_parked_polls(1);
        site.server.signal(rustix::process::Signal::TERM);
        consume.join().expect("is answered")
    });
    assert_eq!((answer.status(), &*answer.body), (404, r#"{"msg":"no job available"}"#));
}
