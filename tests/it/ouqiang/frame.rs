//! What the dialect shares with the native API, and how it answers what the framework refuses.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
};

use rustix::process::Signal;

use super::{Engine, Site, on_each_engine, refusal};

on_each_engine! {
    an_unknown_path_is_answered_as_there,
    refusals_of_the_framework_have_the_form_of_the_dialect,
    nothing_is_changed_for_a_client_that_has_left,
    both_listeners_share_the_limit_of_connections,
    a_shutdown_answers_the_pops_that_wait,
}

fn an_unknown_path_is_answered_as_there(engine: Engine) {
    let site = Site::new(engine);
    for (method, path) in [("GET", "/"), ("POST", "/push/"), ("POST", "/jobs"), ("GET", "/livez")] {
        let answer = site.send(method, path, "", "{}");
        assert!(answer.head.starts_with("HTTP/1.1 404 "), "{answer:?}");
        assert!(answer.head.contains("content-type: text/plain; charset=utf-8\r\n"), "{answer:?}");
        assert!(answer.head.contains("x-content-type-options: nosniff"), "{answer:?}");
        assert_eq!(answer.body, "404 page not found\n");
    }
    site.native("POST", "/push", "{}", 404);
}

fn refusals_of_the_framework_have_the_form_of_the_dialect(engine: Engine) {
    let site = Site::new(engine);
    let body = r#"{"id":"a"}"#;
    for (headers, message) in [
        ("Host: evil.example\r\n", "this host name is not known here"),
        ("Origin: http://evil.example\r\n", "calls from another site's pages are refused"),
    ] {
        let answer = site.send("POST", "/delete", headers, body);
        assert!(answer.head.starts_with("HTTP/1.1 200 "), "{answer:?}");
        let start = format!(r#"{{"code":1,"message":"{message}"#);
        assert!(answer.body.starts_with(&start), "{answer:?}");
    }
    let large = format!(r#"{{"id":"{}"}}"#, "x".repeat(70_000));
    let answer = site.send("POST", "/get", "", large);
    assert!(answer.body.contains("the request's body is over the limit of 65536 bytes"), "{answer:?}");
    let head = "POST /get HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let broken = site.send_raw(format!("{head}Transfer-Encoding: chunked\r\n\r\nx\r\n").as_bytes());
    assert_eq!(broken.body, refusal("读取request body失败"));
    let counted = |status: u16| {
        site.server
            .metric(&format!(r#"linger_http_requests_total{{route="/get",method="POST",status="{status}"}}"#))
    };
    assert_eq!((counted(413), counted(200)), (Some(1.0), None), "they count by what they are");
    assert_eq!(site.server.metric(r#"linger_limit{limit="ouqiang_max_wait_seconds"}"#), Some(178.0));
}

/// Whatever the method: it does not tell what a call does.
fn nothing_is_changed_for_a_client_that_has_left(engine: Engine) {
    let site = Site::new(engine);
    let job = r#"{"topic":"t","id":"a","delay":1,"ttr":5,"body":"x"}"#;
    for method in ["POST", "GET"] {
        let head = format!("{method} /push HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}", job.len());
        // While the process is stopped: otherwise it may begin the call before the sending side is closed.
        site.server.suspend();
        let mut client = TcpStream::connect(site.address).expect("connects");
        client.write_all(format!("{head}\r\n\r\n{job}").as_bytes()).expect("is sent");
        client.shutdown(Shutdown::Write).expect("is closed");
        site.server.signal(Signal::CONT);
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("is answered");
        assert!(answer.contains("nothing was done"), "{method}: {answer}");
    }
    site.native("GET", "/topics/t", "", 404);
}

fn both_listeners_share_the_limit_of_connections(engine: Engine) {
    let site = Site::with(engine, &[("LINGER__SERVER__MAX_CONNECTIONS", "1")]);
    let mut native = TcpStream::connect(site.server.address).expect("connects");
    native.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sends");
    assert!(native.read(&mut [0; 1_024]).expect("is answered") > 0);
    let answer = site.send("POST", "/get", "", r#"{"id":"a"}"#);
    assert_eq!(answer.body, refusal("too many connections are open; send this again in a moment"));
}

fn a_shutdown_answers_the_pops_that_wait(engine: Engine) {
    let site = Site::new(engine);
    let answer = std::thread::scope(|scope| {
        let pop = scope.spawn(|| site.send("POST", "/pop", "", r#"{"topic":"t"}"#));
        site.server.wait_for_parked_polls(1);
        site.server.signal(Signal::TERM);
        pop.join().expect("is answered")
    });
    assert_eq!(answer.body, super::DONE);
}
