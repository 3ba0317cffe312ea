//! The shutdown after a signal: it is orderly, and nothing is lost.

use std::{
    io::{Read, Write},
    net::TcpStream,
    os::unix::process::ExitStatusExt,
};

use rustix::process::Signal;

use crate::harness::{
    blocking_http::{call_until_begun, is_not_begun},
    process::Server,
    wait::TimeLimit,
};

#[test]
fn a_signal_answers_parked_polls_and_ends_the_process_with_success() {
    for signal in [Signal::TERM, Signal::INT] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut server = Server::serve(&[], &[], directory.path());
        let address = server.address;
        let polls: Vec<_> = (0..3)
            .map(|_| {
                std::thread::spawn(move || call_until_begun(address, "GET", "/topics/quiet/pop?wait=60s", ""))
            })
            .collect();
        server.wait_for_parked_polls(3);
        server.signal(signal);
        for poll in polls {
            assert_eq!(poll.join().expect("does not panic").expect("is answered").status, 204);
        }
        assert_eq!(server.wait().0.code(), Some(0), "{}", server.log());
        assert!(server.log().contains("\"message\":\"stopped\""), "{}", server.log());
    }
}

#[test]
fn a_request_in_flight_is_finished() {
    let time_limit = TimeLimit::new();
    while !finishes_a_request_in_flight() {
        time_limit.check(|| "no request was begun".to_owned());
    }
}

/// Has a server shut down while a request arrives. Returns whether the server has begun the request; if it was paused meanwhile, it
/// may say that it has not.
fn finishes_a_request_in_flight() -> bool {
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = Server::serve(&[], &[], directory.path());
    let body = r#"{"topic":"t","id":"in-flight","body":1}"#;
    let (first, second) = body.split_at(10);
    let mut stream = TcpStream::connect(server.address).expect("connects");
    let head = format!(
        "POST /jobs HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        server.address,
        body.len()
    );
    // The interim response 100 shows that the server has begun to handle the request.
    let head = head.replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("is read");
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).expect("is answered");
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(first.as_bytes()).expect("is read");
    server.signal(Signal::TERM);
    server.wait_for_log("shutting down");
    stream.write_all(second.as_bytes()).expect("is read");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("is answered");
    let is_begun = !says_not_begun(&response);
    assert!(!is_begun || response.starts_with("HTTP/1.1 201 Created"), "{response}");
    assert_eq!(server.wait().0.code(), Some(0), "{}", server.log());
    let restarted = Server::serve(&[], &[], directory.path());
    let expected = if is_begun { 200 } else { 404 };
    assert_eq!(restarted.call("GET", "/jobs/in-flight", "").status, expected);
    is_begun
}

/// Whether a response, head and body, says that the request was not begun.
fn says_not_begun(response: &str) -> bool {
    response.starts_with("HTTP/1.1 503 ") && is_not_begun(503, response.as_bytes())
}

/// Sends a request that never ends, so that an orderly shutdown takes longer than the grace period.
fn send_half_a_request(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).expect("connects");
    let head = format!(
        "POST /jobs HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\
         Expect: 100-continue\r\n\r\n",
        server.address
    );
    stream.write_all(head.as_bytes()).expect("is read");
    stream.read_exact(&mut [0; 25]).expect("is answered");
    stream
}

#[test]
fn a_shutdown_that_takes_too_long_is_a_failure() {
    let directory = tempfile::tempdir().expect("a directory");
    let variables = [("LINGER__SERVER__SHUTDOWN_GRACE", "200ms")];
    let mut server = Server::serve(&[], &variables, directory.path());
    let hanging = send_half_a_request(&server);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0.code(), Some(1), "{}", server.log());
    assert!(server.log().contains("longer than server.shutdown_grace"), "{}", server.log());
    drop(hanging);
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let directory = tempfile::tempdir().expect("a directory");
        let variables = [("LINGER__SERVER__SHUTDOWN_GRACE", "1h"), ("LINGER__SERVER__BODY_TIMEOUT", "1h")];
        let mut server = Server::serve(&[], &variables, directory.path());
        let hanging = send_half_a_request(&server);
        server.signal(Signal::TERM);
        server.wait_for_log("shutting down");
        let time_limit = TimeLimit::new();
        while !server.has_ended() {
            time_limit.check(|| "the server still runs".to_owned());
            time_limit.pause_thread();
            server.signal(signal);
        }
        let status = server.wait().0;
        assert_eq!((status.code(), status.signal()), (Some(code), None), "{}", server.log());
        drop(hanging);
    }
}

#[test]
fn a_second_signal_that_comes_with_the_first_is_ignored() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = Server::serve(&[], &[], directory.path());
    let mut hanging = send_half_a_request(&server);
    // GNU timeout sends its signal to the process and to its group. Both are there when the server goes on.
    server.suspend();
    server.signal(Signal::TERM);
    server.signal(Signal::INT);
    server.signal(Signal::CONT);
    server.wait_for_log("shutting down");
    hanging.write_all(b"123456789").expect("is read");
    let mut response = String::new();
    hanging.read_to_string(&mut response).expect("is answered");
    assert!(response.starts_with("HTTP/1.1 422 ") || says_not_begun(&response), "{response}");
    assert_eq!(server.wait().0.code(), Some(0), "{}", server.log());
}

#[test]
fn during_the_drain_delay_the_server_is_unready_and_everything_works() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = Server::serve(&[], &[("LINGER__SERVER__DRAIN_DELAY", "1h")], directory.path());
    assert_eq!(server.call("GET", "/readyz", "").status, 200);
    let address = server.address;
    let poll = std::thread::spawn(move || call_until_begun(address, "GET", "/topics/t/pop?wait=60s", ""));
    server.wait_for_parked_polls(1);
    server.signal(Signal::TERM);
    server.wait_for_log("shutting down");
    let time_limit = TimeLimit::new();
    while server.call("GET", "/readyz", "").status != 503 {
        time_limit.check(|| "the server is still ready".to_owned());
        time_limit.pause_thread();
    }
    assert_eq!(server.call("GET", "/readyz", "").json()["code"], "draining");
    assert_eq!(server.call("GET", "/livez", "").status, 200);
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t","id":"a","body":1}"#).status, 201);
    assert_eq!(poll.join().expect("does not panic").expect("is answered").json()["id"], "a");
    while !server.has_ended() {
        time_limit.check(|| "the server still runs".to_owned());
        time_limit.pause_thread();
        server.signal(Signal::TERM);
    }
    assert_eq!(server.wait().0.code(), Some(143));
}

#[test]
fn an_orderly_shutdown_follows_the_drain_delay() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[("LINGER__SERVER__DRAIN_DELAY", "50ms")], directory.path());
    assert!(server.stop().success());
}

#[test]
fn jobs_survive_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    let added = server.call(
        "POST",
        "/jobs",
        r#"{"topic":"t","id":"kept","delay":"1h","body":{"big":12345678901234567890123}}"#,
    );
    assert_eq!(added.status, 201);
    server.call("POST", "/jobs", r#"{"topic":"t","id":"gone","body":1}"#);
    assert_eq!(server.call("DELETE", "/jobs/gone", "").status, 204);
    assert!(server.stop().success());
    let restarted = Server::serve(&[], &[], directory.path());
    let kept = restarted.call("GET", "/jobs/kept", "");
    assert_eq!((kept.status, kept.body), (200, added.body));
    assert_eq!(restarted.call("GET", "/jobs/gone", "").status, 404);
}
