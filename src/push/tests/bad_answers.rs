//! Answers of every kind, and those that never come.

use std::time::Duration;

use super::{
    fixture::{Fixture, NO_CONTENT, let_others_run},
    receiver::soon,
};
use crate::{
    job::Timestamp,
    push::{
        CallFailure,
        outcome::{Outcome, judge},
    },
};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_silent_endpoint_costs_the_timeout_and_no_more() {
    let fixture = Fixture::new().await;
    let (called, peer) = fixture
        .call(async {
            let mut peer = fixture.receiver.accept().await;
            peer.read_request().await;
            fixture.clock.advance(30 * SECOND);
            peer
        })
        .await;
    assert_eq!(called.expect_err("no answer"), CallFailure::Timeout);
    soon(peer.closed()).await;
}

#[tokio::test]
async fn an_endpoint_that_drips_a_byte_at_a_time_is_given_up() {
    let fixture = Fixture::new().await;
    let called = fixture.call_during(async {
        let mut peer = fixture.receiver.accept().await;
        peer.read_request().await;
        let head = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(60));
        for byte in head.bytes() {
            assert!(peer.send(&[byte]).await, "given up before the timeout");
            let_others_run().await;
            fixture.clock.advance(SECOND);
            let_others_run().await;
        }
    });
    assert_eq!(called.await.expect_err("no answer in 30 s"), CallFailure::Timeout);
}

#[tokio::test]
async fn informational_answers_are_skipped_but_do_not_prolong_a_call() {
    let fixture = Fixture::new().await;
    let early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    let (called, _) = fixture.call_answered(&[early, NO_CONTENT].concat()).await;
    assert_eq!(called.expect("an answer").status, 204);
    let fixture = Fixture::new().await;
    let called = fixture.call_during(async {
        let mut peer = fixture.receiver.accept().await;
        peer.read_request().await;
        while peer.send(early).await {
            fixture.clock.advance(SECOND);
            let_others_run().await;
        }
    });
    assert_eq!(called.await.expect_err("no answer in 30 s"), CallFailure::Timeout);
}

#[tokio::test]
async fn informational_answers_without_a_pause_do_not_prolong_a_call() {
    let fixture = Fixture::new().await;
    let peer = async {
        let mut peer = fixture.receiver.accept().await;
        peer.read_request().await;
        peer.stream.into_std().expect("is open")
    };
    let (clock, call) = (fixture.clock.clone(), fixture.caller.call(fixture.request()));
    let flooding = async {
        let mut stream = soon(peer).await;
        stream.set_nonblocking(false).expect("can be set");
        let many = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(8_192);
        // On a thread of its own, so that the caller always finds something to read.
        let flood = tokio::task::spawn_blocking(move || {
            let mut sent = 0_usize;
            while std::io::Write::write_all(&mut stream, &many).is_ok() {
                sent += 1;
                if sent == 4 {
                    clock.advance(30 * SECOND);
                }
            }
        });
        flood.await.expect("does not panic");
    };
    let (called, ()) = soon(async { tokio::join!(call, flooding) }).await;
    assert_eq!(called.expect_err("no answer in 30 s"), CallFailure::Timeout);
}

#[tokio::test]
async fn of_a_huge_body_only_the_beginning_is_read() {
    let fixture = Fixture::new().await;
    let (called, sent) = fixture
        .call(async {
            let mut peer =
                fixture.receiver.answer(b"HTTP/1.1 500 No\r\ncontent-length: 1073741824\r\n\r\n").await;
            let chunk = vec![b'x'; 65_536];
            let mut sent = 0;
            while sent < 1 << 30 && peer.send(&chunk).await {
                sent += chunk.len();
            }
            sent
        })
        .await;
    let answer = called.expect("an answer");
    assert_eq!((answer.status.as_u16(), answer.body), (500, vec![b'x'; 512]));
    assert!(sent < 1 << 26, "{sent} bytes fit in the buffers of a connection");
}

#[tokio::test]
async fn a_body_that_does_not_end_is_given_up_after_a_second() {
    for head in ["content-length: 100", "transfer-encoding: chunked", "connection: close"] {
        let fixture = Fixture::new().await;
        let (called, peer) = fixture
            .call(async {
                let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n");
                let peer = fixture.receiver.answer(answer.as_bytes()).await;
                let_others_run().await;
                fixture.clock.advance(SECOND);
                peer
            })
            .await;
        assert_eq!(called.expect("an answer").status, 200, "{head}");
        soon(peer.closed()).await;
    }
}

#[tokio::test]
async fn a_reset_at_any_byte_fails_the_call_unless_the_head_is_whole() {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
    let head = answer.len() - 3;
    let fixture = Fixture::new().await;
    for length in 0..answer.len() {
        let answering = async {
            fixture.receiver.answer(&answer[..length]).await.reset();
        };
        let (called, ()) = fixture.call(answering).await;
        match called {
            Err(failure) => assert!(length < head && failure == CallFailure::Reset, "{length}: {failure}"),
            Ok(answer) => assert!(length >= head && answer.status == 200, "{length}"),
        }
    }
}

#[tokio::test]
async fn an_end_at_any_byte_fails_the_call_unless_the_head_is_whole() {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
    let fixture = Fixture::new().await;
    for length in 0..answer.len() {
        let answering = async { drop(fixture.receiver.answer(&answer[..length]).await) };
        let (called, ()) = fixture.call(answering).await;
        assert_eq!(called.is_ok(), length >= answer.len() - 3, "{length}");
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let fixture = Fixture::new().await;
    for status in [301, 302, 303, 307, 308] {
        let location = "http://169.254.169.254/latest/meta-data";
        let head = format!("HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let (called, peer) = fixture.call_answered(head.as_bytes()).await;
        assert_eq!(called.as_ref().expect("an answer").status, status);
        let Outcome::Fail { reason, .. } = judge(&called, SECOND, Timestamp::from_millis(0)) else {
            panic!("a redirect fails");
        };
        assert_eq!(reason.as_str(), format!("http_{status}: not followed to {location}"));
        drop(peer);
    }
    assert_eq!(fixture.resolver.lookups(), 0);
}

#[tokio::test]
async fn a_switch_of_protocols_is_an_answer_and_the_end_of_the_connection() {
    let fixture = Fixture::new().await;
    let answer = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    let (called, peer) = fixture.call_answered(answer).await;
    assert_eq!(called.expect("an answer").status, 101);
    soon(peer.closed()).await;
}

#[tokio::test]
async fn what_is_not_http_is_a_bad_answer() {
    let long_head = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(16_384));
    let endless_head = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(20_000));
    let many_headers = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(101));
    for answer in [
        "SSH-2.0-OpenSSH_9.6\r\n",
        "220 mail.example ESMTP\r\n",
        "<html>hello</html>",
        "\x15\x03\x01\x00\x02\x02\x46",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        &long_head,
        &endless_head,
        &many_headers,
    ] {
        let fixture = Fixture::new().await;
        let (called, peer) = fixture.call_answered(answer.as_bytes()).await;
        let failure = called.expect_err(answer);
        assert!(matches!(failure, CallFailure::BadAnswer(_)), "{answer:.40}: {failure}");
        soon(peer.closed()).await;
    }
}

#[tokio::test]
async fn the_largest_head_is_accepted() {
    let fixture = Fixture::new().await;
    let many_headers = format!("HTTP/1.1 204 OK\r\n{}\r\n", "x: y\r\n".repeat(100));
    let status_line = "HTTP/1.1 204 OK\r\nx: ";
    let long_head = format!("{status_line}{}\r\n\r\n", "y".repeat(16_384 - status_line.len() - 4));
    for head in [many_headers, long_head] {
        let (called, _) = fixture.call_answered(head.as_bytes()).await;
        assert_eq!(called.expect("an answer").status, 204);
    }
}

#[tokio::test]
async fn an_answer_may_come_before_the_request_was_read() {
    let fixture = Fixture::new().await;
    let mut request = fixture.request();
    // More than the buffers of a connection.
    request.body = vec![b'x'; 1 << 25].into();
    request.headers.insert("content-length", request.body.len().into());
    let refusing = async {
        let mut peer = fixture.receiver.accept().await;
        assert!(peer.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n").await);
        peer
    };
    let (called, peer) = soon(async { tokio::join!(fixture.caller.call(request), refusing) }).await;
    assert_eq!(called.expect("an answer").status, 413);
    // The rest of the request is not sent, so no other request can follow it.
    soon(peer.closed()).await;
}
