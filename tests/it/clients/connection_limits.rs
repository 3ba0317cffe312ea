//! The limits on connections (in total and per address), open files and headers, and the responses beyond a limit.

use std::{net::IpAddr, time::Duration};

use linger::{
    clock::{Clock, SystemClock},
    http::HttpOptions,
    net::ListenerOptions,
};

use crate::harness::{
    process, process_stats,
    socket::{Client, Response, Server, get, post},
    wait::{TimeLimit, until},
};

const ALL: &str = "linger_http_connections_refused_total{reason=\"all\"}";
const ADDRESS: &str = "linger_http_connections_refused_total{reason=\"address\"}";
const SYSTEM: &str = "linger_http_connections_refused_total{reason=\"system\"}";

fn assert_overloaded(response: Response) {
    let response = response.expect(503);
    assert_eq!(response.headers["retry-after"], "1");
    assert_eq!(response.headers["connection"], "close");
    assert_eq!(response.headers["content-type"], "application/problem+json");
    assert_eq!(response.code(), "overloaded");
}

#[tokio::test]
async fn connections_over_the_limit_are_answered_at_once_and_closed() {
    let server = Server::start(ListenerOptions { max_connections: 2, ..ListenerOptions::default() }).await;
    let (mut first, mut second) = (server.connect().await, server.connect().await);
    first.call(&get("/livez")).await.expect(200);
    second.call(&get("/livez")).await.expect(200);
    let body = post("/jobs", &format!(r#"{{"topic":"t","body":"{}"}}"#, "x".repeat(200_000)));
    for (n, request) in [get("/livez"), get("/topics/t/pop?wait=50s"), body].into_iter().enumerate() {
        let mut third = server.connect().await;
        third.send(&request).await;
        assert_overloaded(third.read_response().await);
        assert_eq!(third.read_to_end().await, b"");
        assert_eq!((server.metric(ALL), server.connections()), (n + 1, 2));
    }
    first.call(&get("/livez")).await.expect(200);
    drop(first);
    until(|| server.connections() == 1).await;
    server.connect().await.call(&get("/livez")).await.expect(200);
    server.shut_down().await;
}

#[tokio::test]
async fn one_address_cannot_use_all_connections() {
    let options =
        ListenerOptions { max_connections: 10, max_connections_per_address: 2, ..ListenerOptions::default() };
    let server = Server::start(options).await;
    let own = |last: u8| IpAddr::from([127, 0, 0, last]);
    let mut open = Vec::new();
    for last in [2, 2, 3] {
        let mut client = Client::connect_from(own(last), server.address).await;
        client.call(&get("/livez")).await.expect(200);
        open.push(client);
    }
    assert_overloaded(Client::connect_from(own(2), server.address).await.call(&get("/livez")).await);
    assert_eq!((server.metric(ADDRESS), server.metric(ALL), server.connections()), (1, 0, 3));
    Client::connect_from(own(4), server.address).await.call(&get("/livez")).await.expect(200);
    open.remove(0);
    until(|| server.connections() == 2).await;
    Client::connect_from(own(2), server.address).await.call(&get("/livez")).await.expect(200);
    server.shut_down().await;
}

#[tokio::test]
async fn refused_clients_that_send_nothing_are_closed_and_a_flood_of_them_does_no_harm() {
    let linger = Duration::from_millis(100);
    let server =
        Server::start(ListenerOptions { max_connections: 1, linger, ..ListenerOptions::default() }).await;
    let mut first = server.connect().await;
    first.call(&get("/livez")).await.expect(200);
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(server.connect().await);
    }
    for mut client in silent {
        assert!(!client.read_byte().await, "the connection is closed without a response");
    }
    first.call(&get("/livez")).await.expect(200);
    assert_eq!((server.metric(ALL), server.connections()), (300, 1));
    server.shut_down().await;
}

#[tokio::test]
async fn shutdown_does_not_wait_for_refused_connections() {
    let hour = Duration::from_secs(3_600);
    let server =
        Server::start(ListenerOptions { max_connections: 1, linger: hour, ..ListenerOptions::default() })
            .await;
    let _first = server.connect().await;
    until(|| server.connections() == 1).await;
    let mut silent = server.connect().await;
    until(|| server.metric(ALL) == 1).await;
    server.shut_down().await;
    assert_eq!(silent.read_to_end().await, b"");
}

#[tokio::test]
async fn too_many_headers_are_refused_and_counted() {
    let server = Server::start(ListenerOptions::default()).await;
    let with = |headers: usize| {
        get("/livez").replace("\r\n\r\n", &format!("{}\r\n\r\n", "\r\nX: y".repeat(headers)))
    };
    server.connect().await.call(&with(99)).await.expect(200);
    let mut client = server.connect().await;
    client.call(&with(100)).await.expect(431);
    assert_eq!(client.read_to_end().await, b"");
    assert_eq!((server.connections_cut("head_too_large"), server.connections_cut("malformed")), (1, 0));
    server.shut_down().await;
}

#[tokio::test]
async fn every_refusal_of_a_request_is_counted_by_its_code() {
    let server = Server::start(HttpOptions { max_request_bytes: 1_000, ..HttpOptions::default() }).await;
    for request in [get("/nowhere"), post("/jobs", &"x".repeat(2_000)), post("/jobs", "{")] {
        server.connect().await.call(&request).await;
    }
    for code in ["not_found", "body_too_large", "malformed_request"] {
        assert_eq!(server.metric(&format!("linger_http_problems_total{{code=\"{code}\"}}")), 1, "{code}");
    }
    let whole = post("/jobs", r#"{"topic":"t"}"#);
    let mut slow = server.connect().await;
    slow.send(&whole[..whole.len() - 3]).await;
    until(|| server.metric("linger_http_buffered_bytes") == 10).await;
    slow.send(&whole[whole.len() - 3..]).await;
    slow.read_response().await.expect(201);
    until(|| server.metric("linger_http_buffered_bytes") == 0).await;
    server.shut_down().await;
}

#[tokio::test]
async fn a_full_file_table_neither_stops_nor_spins_the_accept_loop() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = process::Server::serve(&[], &[], directory.path());
    let mut first = Client::connect(server.address).await;
    first.call(&get("/livez")).await.expect(200);
    let pid = server.pid();
    process_stats::limit_open_files(pid, process_stats::open_files(pid) + 5);
    let mut open = Vec::new();
    for _ in 0..20 {
        open.push(Client::connect(server.address).await);
    }
    server.wait_for_log("connections cannot be accepted");
    let failures = async |client: &mut Client| {
        let page = client.call(&get("/metrics")).await.expect(200).body;
        let page = String::from_utf8(page).expect("text");
        let value = page.lines().find_map(|line| line.strip_prefix(SYSTEM)).expect("refusals are counted");
        value.trim().parse::<u64>().expect("a number")
    };
    // The server makes about ten attempts per second, and not as many as the processor can make.
    let (clock, before, used) =
        (SystemClock::new(), failures(&mut first).await, process_stats::processor_time(pid));
    let began_us = clock.now_micros();
    // Measuring a rate takes some time; the assertion uses the time that really passed.
    clock.sleep(Duration::from_secs(1)).await;
    let (tries, used) = (failures(&mut first).await - before, process_stats::processor_time(pid) - used);
    let seconds = (clock.now_micros() - began_us) as f64 / 1_000_000.0;
    assert!(tries >= 1 && (tries as f64) < 100.0 * seconds, "{tries} tries in {seconds} s");
    assert_eq!(server.log().matches("connections cannot be accepted").count(), 1, "{}", server.log());
    drop(open);
    let time_limit = TimeLimit::new();
    while !server.log().contains("connections are accepted again") {
        time_limit.check(|| server.log());
        time_limit.pause().await;
    }
    Client::connect(server.address).await.call(&get("/livez")).await.expect(200);
    println!(
        "proof: what=full_file_table, tries={tries}, seconds={seconds:.1}, cpu_ms={}, faults=1",
        used.as_millis()
    );
}
