//! Connections through sockets: clients that are silent, slow or send invalid input, clients that leave, and connections after an error.

use std::time::Duration;

use linger::{
    clock::{Clock, SystemClock},
    http::HttpOptions,
    job::{Job, State},
    net::ListenerOptions,
};

use crate::harness::{
    jobs::{ALL, DeleteRule, id},
    socket::{Client, Server, ServerOptions, get, post},
    wait::{TimeLimit, until},
};

/// A timeout that is short enough to wait for.
const SOON: Duration = Duration::from_millis(100);

/// Options with short timeouts for requests.
fn short_timeouts() -> ListenerOptions {
    ListenerOptions { header_timeout: SOON, keep_alive_timeout: SOON, ..ListenerOptions::default() }
}

async fn job(server: &Server, name: &str) -> Job {
    server.queue.get(ALL, &id(name)).await.expect("is there")
}

async fn add(client: &mut Client, name: &str) {
    client.call(&post("/jobs", &format!(r#"{{"topic":"t","id":"{name}"}}"#))).await.expect(201);
}

#[tokio::test]
async fn the_four_calls_work_over_one_connection() {
    let server = Server::start(ServerOptions::default()).await;
    let mut client = server.connect().await;
    client.call(&post("/jobs", r#"{"topic":"t","id":"a","body":{"n": 1}}"#)).await.expect(201);
    let popped = client.call(&get("/topics/t/pop?wait=5s")).await.expect(200);
    assert!(popped.body.ends_with(b"\"body\":{\"n\": 1}}\n"));
    client.call(&post("/jobs/a/finish", "")).await.expect(204);
    let gone = client.call("DELETE /jobs/a HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect(404);
    assert_eq!(gone.code(), "job_not_found");
    server.shut_down().await;
}

#[tokio::test]
async fn trap_head_pops_nothing_over_a_socket() {
    let server = Server::start(ServerOptions::default()).await;
    let mut client = server.connect().await;
    add(&mut client, "a").await;
    // The response to HEAD announces a body that is not sent.
    client.send("HEAD /topics/t/pop HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    let response = String::from_utf8(client.read_to_end().await).expect("text");
    assert!(response.starts_with("HTTP/1.1 405 "), "{response}");
    assert!(response.to_lowercase().contains("\r\nallow: get, post\r\n"), "{response}");
    assert!(response.ends_with("\r\n\r\n"), "no body: {response}");
    let job = job(&server, "a").await;
    assert_eq!((job.state(), job.attempts), (State::Ready, 0));
    server.shut_down().await;
}

#[tokio::test]
async fn trap_a_client_that_leaves_a_long_poll_returns_the_job_uncounted() {
    let server = Server::start(ServerOptions::default()).await;
    for (n, request) in [
        get("/topics/t/pop?wait=50s"),
        post("/topics/t/pop?wait=50s", ""),
        post("/batch/pop", r#"{"topics":["t","u"],"wait":50}"#),
        // Bytes sent after the poll must not hide that the client left.
        format!("{}G", get("/topics/t/pop?wait=50s")),
        format!("{}\r\n", get("/topics/t/pop?wait=50s")),
        [get("/topics/t/pop?wait=50s"), get("/livez"), get("/livez")].concat(),
        format!("{}x", post("/batch/pop", r#"{"topics":["t","u"],"wait":50}"#)),
    ]
    .into_iter()
    .enumerate()
    {
        let mut gone = server.connect().await;
        gone.send(&request).await;
        until(|| server.queue.waiting() > 0).await;
        drop(gone);
        until(|| server.queue.waiting() == 0).await;
        assert!(
            !server.metrics.encode().contains("pop\",method=\"GET\",status=\"20"),
            "the poll ended because its client left, not because its wait ended: call {n}"
        );
        let (mut client, name) = (server.connect().await, format!("job-{n}"));
        add(&mut client, &name).await;
        let job = job(&server, &name).await;
        assert_eq!((job.state(), job.attempts), (State::Ready, 0), "call {n}");
        server.queue.delete(ALL, &id(&name), DeleteRule::AnyState, None).await.expect("deletes");
    }
    server.shut_down().await;
}

#[tokio::test]
async fn a_client_without_a_token_is_named_by_its_address() {
    let server = Server::start(ServerOptions::default()).await;
    let mut client = server.connect().await;
    add(&mut client, "a").await;
    client.call(&get("/topics/t/pop")).await.expect(200);
    let reserved = job(&server, "a").await;
    assert_eq!(reserved.reserved_by().cloned().map(|by| by.to_string()).as_deref(), Some("127.0.0.1"));
    server.shut_down().await;
}

#[tokio::test]
async fn trap_a_connection_that_never_ends_its_headers_is_cut() {
    // The other timeouts are the defaults, so that a pause of this test, on a busy machine, is not taken for silence.
    let options = ListenerOptions { header_timeout: SOON, ..ListenerOptions::default() };
    let server = Server::start(options).await;
    for sent in ["G", "GET /livez HTTP/1.1\r\n", "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: "] {
        let mut client = server.connect().await;
        client.send(sent).await;
        assert_eq!(client.read_to_end().await, b"", "{sent:?}");
    }
    // A client that sends byte by byte gets no more time than a silent one.
    let (mut client, clock) = (server.connect().await, SystemClock::new());
    client.send("GET /livez HTTP/1.1\r\nX-Slow: ").await;
    until(|| server.connections() == 1).await;
    while server.connections() == 1 && client.try_send("x").await.is_ok() {
        // The client's speed is the subject of the test; this is not a wait for a result.
        clock.sleep(SOON / 20).await;
    }
    // Likewise a client that begins a second request without ending it.
    let mut client = server.connect().await;
    client.call(&get("/livez")).await.expect(200);
    client.send("GET /livez").await;
    assert_eq!(client.read_to_end().await, b"");
    for (reason, connections) in [("first_byte", 0), ("head", 5), ("idle", 0), ("answer", 0)] {
        assert_eq!(server.connections_cut(reason), connections, "{reason}");
    }
    server.shut_down().await;
}

#[tokio::test]
async fn each_wait_for_a_client_ends_and_is_counted_by_its_kind() {
    let long = Duration::from_secs(3_600);
    let without_timeouts =
        ListenerOptions { header_timeout: long, keep_alive_timeout: long, ..ListenerOptions::default() };
    for (after_request, sent, reason, options) in [
        (false, "", "first_byte", ListenerOptions { header_timeout: SOON, ..without_timeouts.clone() }),
        (false, "GET", "head", ListenerOptions { header_timeout: SOON, ..without_timeouts.clone() }),
        (true, "", "idle", ListenerOptions { keep_alive_timeout: SOON, ..without_timeouts.clone() }),
        (true, "GET", "head", ListenerOptions { header_timeout: SOON, ..without_timeouts.clone() }),
    ] {
        let server = Server::start(options).await;
        let mut client = server.connect().await;
        if after_request {
            client.call(&get("/livez")).await.expect(200);
        }
        client.send(sent).await;
        assert_eq!(client.read_to_end().await, b"", "{reason}");
        assert_eq!(server.connections_cut(reason), 1, "{reason}");
        server.shut_down().await;
    }
}

#[tokio::test]
async fn trap_a_long_poll_outlasts_every_timeout() {
    let options = ServerOptions {
        http: HttpOptions { body_timeout: SOON, ..HttpOptions::default() },
        listener: ListenerOptions { write_timeout: SOON, ..short_timeouts() },
    };
    let server = Server::start(options).await;
    let mut poll = server.park("t").await;
    // Measures time by three silent connections, which are cut one after the other.
    for _ in 0..3 {
        assert_eq!(server.connect().await.read_to_end().await, b"");
    }
    let mut client = server.connect().await;
    add(&mut client, "a").await;
    poll.read_response().await.expect(200);
    server.shut_down().await;
}

#[tokio::test]
async fn a_slow_body_is_refused_and_closed() {
    let server = Server::start(HttpOptions { body_timeout: SOON, ..HttpOptions::default() }).await;
    let mut client = server.connect().await;
    let whole = post("/jobs", r#"{"topic":"t","id":"a"}"#);
    client.send(&whole[..whole.len() - 1]).await;
    let response = client.read_response().await.expect(408);
    assert_eq!(response.code(), "request_timeout");
    assert_eq!(response.headers["connection"], "close");
    assert_eq!(client.read_to_end().await, b"");
    assert!(server.queue.get(ALL, &id("a")).await.is_err());
    server.shut_down().await;
}

#[tokio::test]
async fn a_body_longer_than_announced_is_cut_off_and_the_rest_is_not_a_request() {
    let server = Server::start(ServerOptions::default()).await;
    let mut client = server.connect().await;
    let announced = post("/jobs", r#"{"topic":"t","id":"a"}"#);
    client.send(&format!("{announced},\"delay\":9}}\r\n\r\n")).await;
    client.read_response().await.expect(201);
    client.read_response().await.expect(400);
    assert_eq!(client.read_to_end().await, b"");
    assert_eq!(job(&server, "a").await.state(), State::Ready);
    server.shut_down().await;
}

#[tokio::test]
async fn a_body_shorter_than_announced_adds_nothing() {
    let server = Server::start(ServerOptions::default()).await;
    let mut client = server.connect().await;
    let order = r#"{"topic":"t","id":"a"}"#;
    let request = post("/jobs", order).replace("Content-Length: 22", "Content-Length: 23");
    client.send(&request).await;
    drop(client);
    until(|| server.connections() == 0).await;
    assert!(server.queue.get(ALL, &id("a")).await.is_err());
    server.shut_down().await;
}

#[tokio::test]
async fn a_request_over_the_limit_receives_its_response_while_it_still_sends() {
    let server = Server::start(HttpOptions { max_request_bytes: 1_000, ..HttpOptions::default() }).await;
    let big = "x".repeat(4 * 1_024 * 1_024);
    let chunked = format!(
        "POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{big}\r\n0\r\n\r\n",
        big.len()
    );
    for request in [post("/jobs", &big), chunked] {
        let mut client = server.connect().await;
        client.send(&request).await;
        let response = client.read_response().await.expect(413);
        assert_eq!(response.code(), "body_too_large");
        assert_eq!(client.read_to_end().await, b"");
    }
    server.shut_down().await;
}

#[tokio::test]
async fn bodies_beyond_the_budget_are_refused() {
    let server = Server::start(HttpOptions { max_buffered_bytes: 100, ..HttpOptions::default() }).await;
    let mut holder = server.connect().await;
    let whole = post("/jobs", &format!(r#"{{"topic":"t","id":"a","body":"{}"}}"#, "x".repeat(50)));
    holder.send(&whole[..whole.len() - 1]).await;
    let other = post("/jobs", &format!(r#"{{"topic":"t","body":"{}"}}"#, "x".repeat(50)));
    let time_limit = TimeLimit::new();
    let refused = loop {
        // This one fits until the first client's bytes have arrived.
        let response = server.connect().await.call(&other).await;
        if response.status != 201 {
            break response;
        }
        time_limit.check(|| format!("{response:?}"));
    };
    assert_eq!(refused.code(), "overloaded");
    assert_eq!(refused.headers["retry-after"], "1");
    holder.send(&whole[whole.len() - 1..]).await;
    holder.read_response().await.expect(201);
    server.connect().await.call(&other).await.expect(201);
    server.shut_down().await;
}

#[tokio::test]
async fn a_connection_stays_usable_after_every_refusal() {
    let server = Server::start(ServerOptions::default()).await;
    let mut client = server.connect().await;
    let (junk, large) = ("x".repeat(60_000), "x".repeat(300_000));
    for (request, status) in [
        (get("/nowhere"), 404),
        (post("/nowhere", &junk[..3_000]), 404),
        ("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 404),
        ("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 404),
        (post("/livez", &junk), 405),
        (post("/jobs", &junk), 400),
        (post("/jobs", "{}"), 422),
        (post("/jobs", "{}").replace("application/json", "text/plain"), 415),
        (post("/jobs", r#"{"topic":"t"}"#).replace("Host: localhost", "Host: evil.example"), 403),
        (post("/jobs", r#"{"topic":"t"}"#).replace("Host:", "Origin: http://evil.example\r\nHost:"), 403),
        (post("/jobs", &format!(r#"{{"topic":"t","body":"{large}"}}"#)), 413),
        (get("/topics/t/pop?wiat=1"), 400),
        (post("/jobs", r#"{"topic":"t"}"#), 201),
    ] {
        client.call(&request).await.expect(status);
    }
    server.shut_down().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = Server::start(ServerOptions::default()).await;
    let mut client = server.connect().await;
    let requests =
        [post("/jobs", r#"{"topic":"t","id":"a"}"#), get("/jobs/a"), get("/nowhere"), get("/livez")];
    client.send(&requests.concat()).await;
    for status in [201, 200, 404, 200] {
        client.read_response().await.expect(status);
    }
    server.shut_down().await;
}

#[tokio::test]
async fn input_other_than_http_is_refused_and_closed() {
    let options = ListenerOptions { max_header_bytes: 1_000, ..ListenerOptions::default() };
    let server = Server::start(options).await;
    let long = format!("GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "x".repeat(2_000));
    for (sent, status) in [("nonsense\r\n\r\n", 400), ("GET / HTTP/7.0\r\n\r\n", 400), (long.as_str(), 431)] {
        let mut client = server.connect().await;
        client.send(sent).await;
        client.read_response().await.expect(status);
        assert_eq!(client.read_to_end().await, b"");
    }
    server.shut_down().await;
}

#[tokio::test]
async fn http_1_0_is_supported() {
    let server = Server::start(ServerOptions::default()).await;
    let mut client = server.connect().await;
    let response = client.call("GET /livez HTTP/1.0\r\n\r\n").await.expect(200);
    assert_eq!(response.body, b"{\"status\":\"ok\"}\n");
    assert_eq!(client.read_to_end().await, b"");
    server.shut_down().await;
}

#[tokio::test]
async fn shutdown_answers_requests_in_flight_and_closes_idle_connections() {
    let server = Server::start(ServerOptions::default()).await;
    let mut poll = server.park("t").await;
    let mut idle = server.connect().await;
    idle.call(&get("/livez")).await.expect(200);
    let mut fresh = server.connect().await;
    until(|| server.connections() == 3).await;
    let address = server.address;
    server.shut_down().await;
    let response = poll.read_response().await.expect(204);
    assert_eq!(response.headers["connection"], "close");
    assert_eq!(poll.read_to_end().await, b"");
    assert_eq!(idle.read_to_end().await, b"");
    assert_eq!(fresh.read_to_end().await, b"");
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the server no longer listens");
}
