//! Clients that read their responses slowly.

use std::{net::SocketAddr, time::Duration};

use linger::{
    clock::{Clock, SystemClock},
    http::HttpOptions,
    net::ListenerOptions,
};
use tokio::net::TcpSocket;

use crate::harness::{
    socket::{Client, Response, Server, ServerOptions, get, post},
    wait::{TimeLimit, until},
};

/// A timeout that is short enough to wait for.
const SOON: Duration = Duration::from_millis(100);
/// More responses than fit the buffers of two sockets.
const RESPONSES: usize = 100;
const BODY_BYTES: usize = 200_000;

/// A client with a small receive buffer.
async fn slow_client(address: SocketAddr) -> Client {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(16_384).expect("a size");
    Client::from_stream(socket.connect(address).await.expect("connects"))
}

/// A client that has requested many large responses.
async fn client_with_many_requests(address: SocketAddr) -> Client {
    let mut client = slow_client(address).await;
    client.send(&get("/jobs/large").repeat(RESPONSES)).await;
    client
}

async fn server(options: impl Into<ServerOptions>) -> Server {
    let server = Server::start(options).await;
    let job = format!(r#"{{"topic":"t","id":"large","body":"{}"}}"#, "x".repeat(BODY_BYTES));
    server.connect().await.call(&post("/jobs", &job)).await.expect(201);
    until(|| server.connections() == 0).await;
    server
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_disconnected() {
    let server =
        server(ListenerOptions { write_timeout: SOON, linger: SOON, ..ListenerOptions::default() }).await;
    let _client = client_with_many_requests(server.address).await;
    until(|| server.connections_cut("answer") == 1 && server.connections() == 0).await;
    server.shut_down().await;
}

#[tokio::test]
async fn a_client_that_reads_too_little_is_disconnected() {
    let server =
        server(ListenerOptions { write_timeout: SOON, linger: SOON, ..ListenerOptions::default() }).await;
    let (mut client, clock, time_limit) =
        (client_with_many_requests(server.address).await, SystemClock::new(), TimeLimit::new());
    // The client always reads something before the timeout, but never enough.
    while server.connections_cut("answer") == 0 {
        time_limit.check(|| format!("{} connections", server.connections()));
        client.read_byte().await;
        clock.sleep(SOON / 10).await;
    }
    until(|| server.connections() == 0).await;
    server.shut_down().await;
}

#[tokio::test]
async fn a_client_that_reads_fast_enough_receives_everything() {
    // Longer than a busy machine stands still.
    let write_timeout = Duration::from_secs(8);
    let options = ListenerOptions {
        header_timeout: SOON,
        keep_alive_timeout: SOON,
        write_timeout,
        ..ListenerOptions::default()
    };
    let server = server(options).await;
    let (mut client, clock) = (client_with_many_requests(server.address).await, SystemClock::new());
    // Longer in total than every timeout, so that only the reading speed matters.
    let pause = write_timeout * 2 / u32::try_from(RESPONSES).expect("fits");
    for _ in 0..RESPONSES {
        assert_eq!(client.read_response().await.expect(200).body.len() / BODY_BYTES, 1);
        clock.sleep(pause).await;
    }
    assert_eq!(server.connections_cut("answer"), 0);
    server.shut_down().await;
}

#[tokio::test]
async fn unread_responses_are_bounded_in_total() {
    // The budget is smaller than the response that fills it.
    let server = server(HttpOptions { max_answer_bytes: 39 * BODY_BYTES, ..HttpOptions::default() }).await;
    let mut quick = server.connect().await;
    for n in 0..60 {
        let job = format!(r#"{{"topic":"many","id":"{n}","body":"{}"}}"#, "x".repeat(BODY_BYTES));
        quick.call(&post("/jobs", &job)).await.expect(201);
    }
    let pop = |max: usize| post("/batch/pop", &format!(r#"{{"topics":["many"],"max":{max}}}"#));
    let mut client = slow_client(server.address).await;
    client.send(&pop(40)).await;
    let unread_bytes = || server.metric("linger_http_answer_bytes");
    until(|| unread_bytes() > 40 * BODY_BYTES).await;
    let refused = quick.call(&pop(20)).await.expect(503);
    assert_eq!(refused.code(), "overloaded");
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(refused.headers["cache-control"], "no-store");
    quick.call(&get("/jobs/59")).await.expect(503);
    let job = format!(r#"{{"topic":"t","body":"{}"}}"#, "x".repeat(BODY_BYTES));
    quick.call(&post("/jobs", &job)).await.expect(201);
    quick.call(&get("/topics/many")).await.expect(200);
    let jobs = |response: Response| response.expect(200).json()["jobs"].as_array().expect("jobs").len();
    assert_eq!(jobs(client.read_response().await), 40);
    until(|| unread_bytes() == 0).await;
    let job = quick.call(&get("/jobs/59")).await.expect(200).json();
    assert_eq!(
        (&job["state"], &job["attempts"]),
        (&"ready".into(), &0.into()),
        "the job was returned uncounted"
    );
    assert_eq!(jobs(quick.call(&pop(20)).await), 20);
    server.shut_down().await;
}
