//! Request bodies through sockets: their timeouts, memory budgets and transfer codings, and bytes sent after a poll.

use std::time::Duration;

use linger::{
    clock::{Clock, SystemClock},
    http::HttpOptions,
};

use crate::harness::{
    wait::until,
    wire::{Client, Server, ServerOptions, get, post},
};

/// Short enough to wait for: the timeouts under test are the server's own.
const SOON: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_whole_body_has_a_timeout() {
    let (body_timeout, rate) = (3 * SOON, 1_024 * 1_024 * 1_024);
    let options = HttpOptions { body_timeout, min_body_rate: rate, ..HttpOptions::default() };
    let (server, pace) = (Server::start(options).await, SystemClock::new());
    let mut client = server.connect().await;
    let part = "x".repeat(64 * 1_024);
    let head =
        post("/jobs", "").replace("Content-Length: 0", &format!("Content-Length: {}", 100 * part.len()));
    client.say(&head).await;
    // Each part arrives in time, but all of them together take seconds.
    while server.cut("body") == 0 {
        if client.try_say(&part).await.is_err() {
            break;
        }
        pace.sleep(SOON).await;
    }
    client.hear().await.expect(408);
    assert_eq!(server.cut("body"), 1);
    server.end().await;
}

#[tokio::test]
async fn requests_without_a_body_do_not_use_the_budget_for_bodies() {
    let options = HttpOptions { max_buffered_bytes: 100, ..HttpOptions::default() };
    let server = Server::start(options).await;
    let unasked =
        |method: &str, target: &str, len: usize| post(target, &"x".repeat(len)).replace("POST", method);
    let mut holders = Vec::new();
    for target in ["/livez", "/readyz", "/jobs/a", "/topics", "/nowhere"] {
        let mut holder = server.connect().await;
        let request = unasked("GET", target, 4_000);
        holder.say(&request[..request.len() - 1]).await;
        holders.push(holder);
    }
    until(|| server.figure("linger_http_requests_in_flight") == 5).await;
    assert_eq!(server.figure("linger_http_buffered_bytes"), 0);
    server.connect().await.ask(&post("/jobs", r#"{"topic":"t","id":"a"}"#)).await.expect(201);
    for (holder, status) in holders.iter_mut().zip([200, 200, 200, 200, 404]) {
        holder.say("x").await;
        holder.hear().await.expect(status);
    }
    for (method, target) in [("GET", "/livez"), ("DELETE", "/jobs/a"), ("POST", "/nowhere")] {
        let mut client = server.connect().await;
        client.ask(&unasked(method, target, 5_000)).await.expect(413);
        assert_eq!(client.closed().await, b"");
    }
    server.end().await;
}

#[tokio::test]
async fn no_caller_exceeds_its_budget_for_bodies() {
    let server =
        Server::start(HttpOptions { max_buffered_bytes_per_caller: 100, ..HttpOptions::default() }).await;
    let whole =
        |id: &str| post("/jobs", &format!(r#"{{"topic":"t","id":"{id}","body":"{}"}}"#, "x".repeat(50)));
    let connect_from = |last: u8| Client::connect_from([127, 0, 0, last].into(), server.address);
    let mut holder = connect_from(2).await;
    let first = whole("a");
    holder.say(&first[..first.len() - 1]).await;
    until(|| server.figure("linger_http_buffered_bytes") > 0).await;
    let refused = connect_from(2).await.ask(&whole("b")).await.expect(503);
    assert_eq!(refused.code(), "overloaded");
    connect_from(3).await.ask(&whole("c")).await.expect(201);
    holder.say(&first[first.len() - 1..]).await;
    holder.hear().await.expect(201);
    connect_from(2).await.ask(&whole("b")).await.expect(201);
    server.end().await;
}

#[tokio::test]
async fn a_parked_poll_releases_its_body() {
    let server = Server::start(ServerOptions::default()).await;
    let mut poll = server.connect().await;
    let padded = format!(r#"{{"topics":["t"],"wait":50{}}}"#, " ".repeat(30_000));
    poll.say(&post("/batch/pop", &padded)).await;
    until(|| server.queue.waiting() > 0).await;
    assert_eq!(server.figure("linger_http_buffered_bytes"), 0);
    server.end().await;
}

#[tokio::test]
async fn only_the_chunked_coding_is_accepted() {
    let server = Server::start(ServerOptions::default()).await;
    let with = |coding: &str| {
        format!(
            "POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Transfer-Encoding: {coding}\r\n\r\ne\r\n{{\"topic\":\"t\"}} \r\n0\r\n\r\n"
        )
    };
    server.connect().await.ask(&with("Chunked")).await.expect(201);
    let twice = "chunked\r\nTransfer-Encoding: chunked";
    for coding in ["gzip, chunked", "identity, chunked", "chunked, chunked", twice] {
        let mut client = server.connect().await;
        let answer = client.ask(&with(coding)).await.expect(400);
        assert_eq!(
            (answer.code().as_str(), &answer.headers["connection"]),
            ("malformed_request", &"close".parse().expect("a value")),
            "{coding}"
        );
        assert_eq!(client.closed().await, b"");
    }
    server.end().await;
}

#[tokio::test]
async fn too_many_bytes_after_a_poll_end_it() {
    let server = Server::start(ServerOptions::default()).await;
    let mut poll = server.parked("t").await;
    // hyper buffers at most the largest head.
    let much = "x".repeat(200_000);
    let _ = poll.try_say(&much).await;
    until(|| server.queue.waiting() == 0).await;
    assert_eq!(server.cut("ahead"), 1);
    server.end().await;
}

#[tokio::test]
async fn a_request_sent_after_a_poll_is_answered_after_it() {
    let server = Server::start(ServerOptions::default()).await;
    let mut poll = server.parked("t").await;
    poll.say(&get("/livez")).await;
    poll.say(&get("/jobs/nobody")).await;
    let mut client = server.connect().await;
    client.ask(&post("/jobs", r#"{"topic":"t","id":"a"}"#)).await.expect(201);
    for status in [200, 200, 404] {
        poll.hear().await.expect(status);
    }
    server.end().await;
}
