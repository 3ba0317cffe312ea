//! Request bodies through sockets: their timeouts, memory budgets and transfer codings, and bytes sent after a poll.

use std::time::Duration;

use linger::{
    clock::{Clock, SystemClock},
    http::HttpOptions,
};

use crate::harness::{
    socket::{Client, Server, ServerOptions, get, post},
    wait::until,
};

/// A timeout that is short enough to wait for.
const SOON: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_whole_body_has_a_timeout() {
    let options = HttpOptions { body_timeout: 3 * SOON, ..HttpOptions::default() };
    let (server, clock) = (Server::start(options).await, SystemClock::new());
    let mut client = server.connect().await;
    // A second is given for each part that has arrived.
    const PACE: Duration = Duration::from_millis(1_200);
    let part = "x".repeat(64 * 1_024);
    let head =
        post("/jobs", "").replace("Content-Length: 0", &format!("Content-Length: {}", 10 * part.len()));
    client.send(&head).await;
    // Each part arrives in time, and all of them together do not.
    for _ in 0..10 {
        if server.connections_cut("body") > 0 || client.try_send(&part).await.is_err() {
            break;
        }
        clock.sleep(PACE).await;
    }
    client.read_response().await.expect(408);
    assert_eq!(server.connections_cut("body"), 1);
    server.shut_down().await;
}

#[tokio::test]
async fn requests_without_a_body_do_not_use_the_budget_for_bodies() {
    let options = HttpOptions { max_buffered_bytes: 100, ..HttpOptions::default() };
    let server = Server::start(options).await;
    let request_with_body =
        |method: &str, target: &str, len: usize| post(target, &"x".repeat(len)).replace("POST", method);
    let mut holders = Vec::new();
    for target in ["/livez", "/readyz", "/jobs/a", "/topics", "/nowhere"] {
        let mut holder = server.connect().await;
        let request = request_with_body("GET", target, 4_000);
        holder.send(&request[..request.len() - 1]).await;
        holders.push(holder);
    }
    until(|| server.metric("linger_http_requests_in_flight") == 5).await;
    assert_eq!(server.metric("linger_http_buffered_bytes"), 0);
    server.connect().await.call(&post("/jobs", r#"{"topic":"t","id":"a"}"#)).await.expect(201);
    for (holder, status) in holders.iter_mut().zip([200, 200, 400, 400, 404]) {
        holder.send("x").await;
        holder.read_response().await.expect(status);
    }
    for (method, target) in [("GET", "/livez"), ("DELETE", "/jobs/a"), ("POST", "/nowhere")] {
        let mut client = server.connect().await;
        client.call(&request_with_body(method, target, 5_000)).await.expect(413);
        assert_eq!(client.read_to_end().await, b"");
    }
    server.shut_down().await;
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
    holder.send(&first[..first.len() - 1]).await;
    until(|| server.metric("linger_http_buffered_bytes") > 0).await;
    let refused = connect_from(2).await.call(&whole("b")).await.expect(503);
    assert_eq!(refused.code(), "overloaded");
    connect_from(3).await.call(&whole("c")).await.expect(201);
    holder.send(&first[first.len() - 1..]).await;
    holder.read_response().await.expect(201);
    connect_from(2).await.call(&whole("b")).await.expect(201);
    server.shut_down().await;
}

#[tokio::test]
async fn a_parked_poll_releases_its_body() {
    let server = Server::start(ServerOptions::default()).await;
    let mut poll = server.connect().await;
    let padded = format!(r#"{{"topics":["t"],"wait":50{}}}"#, " ".repeat(30_000));
    poll.send(&post("/batch/pop", &padded)).await;
    until(|| server.queue.waiting() > 0).await;
    assert_eq!(server.metric("linger_http_buffered_bytes"), 0);
    server.shut_down().await;
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
    server.connect().await.call(&with("Chunked")).await.expect(201);
    let twice = "chunked\r\nTransfer-Encoding: chunked";
    for coding in ["gzip, chunked", "identity, chunked", "chunked, chunked", twice] {
        let mut client = server.connect().await;
        let response = client.call(&with(coding)).await.expect(400);
        assert_eq!(
            (response.code().as_str(), &response.headers["connection"]),
            ("malformed_request", &"close".parse().expect("a value")),
            "{coding}"
        );
        assert_eq!(client.read_to_end().await, b"");
    }
    server.shut_down().await;
}

#[tokio::test]
async fn too_many_bytes_after_a_poll_end_it() {
    let server = Server::start(ServerOptions::default()).await;
    let mut poll = server.park("t").await;
    // hyper buffers at most the largest head.
    let too_many = "x".repeat(200_000);
    let _ = poll.try_send(&too_many).await;
    until(|| server.queue.waiting() == 0).await;
    assert_eq!(server.connections_cut("ahead"), 1);
    server.shut_down().await;
}

#[tokio::test]
async fn a_request_sent_after_a_poll_is_answered_after_it() {
    let server = Server::start(ServerOptions::default()).await;
    let mut poll = server.park("t").await;
    poll.send(&get("/livez")).await;
    poll.send(&get("/jobs/nobody")).await;
    let mut client = server.connect().await;
    client.call(&post("/jobs", r#"{"topic":"t","id":"a"}"#)).await.expect(201);
    for status in [200, 200, 404] {
        poll.read_response().await.expect(status);
    }
    server.shut_down().await;
}
