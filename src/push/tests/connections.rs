//! Connections: which are used again, and when a request is sent once more.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use socket2::{Domain, Socket, Type};

use super::{
    fixture::{Fixture, LONG_AGE, NO_CONTENT, addresses, let_others_run, networks},
    receiver::{Receiver, soon},
};
use crate::{
    config::CallbackSettings,
    push::{CallFailure, connect::CONNECT_TIMEOUT},
};

#[tokio::test]
async fn a_connection_is_used_again_after_its_answer_was_read() {
    let fixture = Fixture::new().await;
    let (called, mut peer) = fixture.call_answered(NO_CONTENT).await;
    assert_eq!(called.expect("an answer").status, 204);
    for answer in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"[..],
        b"HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\nlocation: /x\r\n\r\n",
        NO_CONTENT,
    ] {
        let (called, request) = fixture.call(peer.answer(answer)).await;
        called.expect("an answer");
        assert!(request.starts_with("POST /hook HTTP/1.1\r\n") && request.ends_with("{\"order\":1001}"));
    }
}

#[tokio::test]
async fn a_connection_is_not_used_again_if_its_end_is_unclear() {
    let large = format!("HTTP/1.1 200 OK\r\ncontent-length: 20000\r\n\r\n{}", "x".repeat(20_000));
    for answer in [
        "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n",
        "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\n",
        "HTTP/1.1 204 No Content\r\n\r\nx",
        &large,
    ] {
        let fixture = Fixture::new().await;
        let (called, peer) = fixture.call_answered(answer.as_bytes()).await;
        called.expect("an answer");
        soon(peer.closed()).await;
        let (called, _) = fixture.call_answered(NO_CONTENT).await;
        assert_eq!(called.expect("an answer").status, 204, "{answer:.60}");
    }
}

#[tokio::test]
async fn another_origin_gets_a_connection_of_its_own() {
    let fixture = Fixture::new().await;
    let (called, _kept) = fixture.call_answered(NO_CONTENT).await;
    called.expect("an answer");
    // The same address by another name.
    let request = fixture.request_to("http://localhost");
    let both = async { tokio::join!(fixture.caller.call(request), fixture.receiver.answer(NO_CONTENT)) };
    soon(both).await.0.expect("an answer");
}

#[tokio::test]
async fn a_request_on_a_kept_connection_that_ends_is_sent_once_more() {
    for reset in [false, true] {
        for part in [&b""[..], b"HTTP/1.1 20"] {
            let fixture = Fixture::new().await;
            let (called, mut peer) = fixture.call_answered(NO_CONTENT).await;
            called.expect("an answer");
            let (called, (first, second)) = fixture
                .call(async {
                    let first = peer.answer(part).await;
                    if reset {
                        peer.reset()
                    } else {
                        drop(peer)
                    }
                    let mut peer = fixture.receiver.accept().await;
                    (first, peer.answer(NO_CONTENT).await)
                })
                .await;
            assert_eq!(called.expect("an answer").status, 204);
            assert_eq!(first, second);
        }
    }
}

#[tokio::test]
async fn a_request_is_sent_twice_at_most() {
    let fixture = Fixture::new().await;
    let (called, mut peer) = fixture.call_answered(NO_CONTENT).await;
    called.expect("an answer");
    let (called, ()) = fixture
        .call(async {
            peer.read_request().await;
            peer.reset();
            fixture.receiver.answer(b"").await.reset();
        })
        .await;
    assert_eq!(called.expect_err("no answer"), CallFailure::Reset);
}

#[tokio::test]
async fn a_bad_answer_or_a_timeout_on_a_kept_connection_is_not_tried_again() {
    for is_late in [false, true] {
        let fixture = Fixture::new().await;
        let (called, mut peer) = fixture.call_answered(NO_CONTENT).await;
        called.expect("an answer");
        let (called, ()) = fixture
            .call(async {
                peer.answer(if is_late { b"" } else { b"SSH-2.0-OpenSSH_9.6\r\n" }).await;
                if is_late {
                    fixture.clock.advance(Duration::from_secs(30));
                }
            })
            .await;
        let failure = called.expect_err("no answer");
        assert_eq!(failure == CallFailure::Timeout, is_late, "{failure}");
    }
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_not_used() {
    let fixture = Fixture::new().await;
    let (called, peer) = fixture.call_answered(NO_CONTENT).await;
    called.expect("an answer");
    drop(peer);
    let_others_run().await;
    let (called, _) = fixture.call_answered(NO_CONTENT).await;
    assert_eq!(called.expect("an answer over another connection").status, 204);
}

#[tokio::test]
async fn bytes_that_arrive_while_a_connection_is_idle_are_no_answer() {
    let fixture = Fixture::new().await;
    let (called, mut peer) = fixture.call_answered(NO_CONTENT).await;
    called.expect("an answer");
    assert!(peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await);
    let_others_run().await;
    let (called, _) = fixture.call_answered(NO_CONTENT).await;
    assert_eq!(called.expect("an answer").status, 204);
}

#[tokio::test]
async fn an_old_connection_is_closed() {
    let fixture = Fixture::new().await;
    let (called, peer) = fixture.call_answered(NO_CONTENT).await;
    called.expect("an answer");
    let_others_run().await;
    fixture.clock.advance(LONG_AGE);
    soon(peer.closed()).await;
}

#[tokio::test]
async fn a_connection_that_is_too_old_is_not_used_before_it_is_closed() {
    let fixture = Fixture::new().await;
    let (called, _peer) = fixture.call_answered(NO_CONTENT).await;
    called.expect("an answer");
    // No other task runs before the call.
    fixture.clock.advance(LONG_AGE);
    let (called, _) = fixture.call_answered(NO_CONTENT).await;
    called.expect("an answer over another connection");
}

#[tokio::test]
async fn a_name_that_moves_is_followed_within_a_minute_however_often_it_is_called() {
    let settings = CallbackSettings { networks: networks(&["loopback"]), ..CallbackSettings::default() };
    let fixture = Fixture::with(settings).await;
    let moved = Receiver::listen(Ipv4Addr::new(127, 0, 0, 2), fixture.receiver.port()).await;
    let call = || fixture.caller.call(fixture.request_to("http://moves.example"));
    // Known since the lookup, and moved right after it.
    let (called, mut peer) = soon(async { tokio::join!(call(), fixture.receiver.answer(NO_CONTENT)) }).await;
    called.expect("an answer");
    fixture.resolver.push(Ok(addresses(&["127.0.0.2"])));
    for _ in 0..110 {
        fixture.clock.advance(Duration::from_millis(500));
        let (called, _) = soon(async { tokio::join!(call(), peer.answer(NO_CONTENT)) }).await;
        called.expect("an answer over the same connection");
    }
    fixture.clock.advance(Duration::from_millis(500));
    let (called, _) = soon(async { tokio::join!(call(), moved.answer(NO_CONTENT)) }).await;
    called.expect("an answer at the new address");
}

#[tokio::test]
async fn a_call_that_is_dropped_closes_its_connection() {
    let fixture = Fixture::new().await;
    let receiving = async {
        let mut peer = fixture.receiver.accept().await;
        peer.read_request().await;
        peer
    };
    let peer = soon(async {
        tokio::select! {
            _ = fixture.caller.call(fixture.request()) => panic!("the call ended without an answer"),
            peer = receiving => peer,
        }
    });
    let peer = peer.await;
    soon(peer.closed()).await;
}

#[tokio::test]
async fn as_many_connections_are_kept_as_calls_are_allowed() {
    let fixture = Fixture::with(CallbackSettings {
        max_calls: 2,
        max_calls_per_host: 1,
        networks: networks(&["loopback"]),
        ..CallbackSettings::default()
    })
    .await;
    let mut peers = Vec::new();
    for host in ["http://127.0.0.1", "http://a.example", "http://b.example"] {
        let request = fixture.request_to(host);
        let both = async { tokio::join!(fixture.caller.call(request), fixture.receiver.answer(NO_CONTENT)) };
        let (called, peer) = soon(both).await;
        called.expect("an answer");
        peers.push(peer);
        fixture.clock.advance(Duration::from_millis(1));
    }
    assert_eq!(fixture.caller.idle_connections(), 2);
    soon(peers.remove(0).closed()).await;
}

#[tokio::test]
async fn a_host_that_refuses_connections_fails_the_call() {
    let fixture = Fixture::new().await;
    let request = fixture.request();
    drop(fixture.receiver);
    let failure = soon(fixture.caller.call(request)).await.expect_err("nothing listens");
    assert!(matches!(failure, CallFailure::Connect(_)), "{failure}");
}

#[tokio::test]
async fn settings_forbid_calls_before_anything_is_looked_up() {
    let settings = CallbackSettings {
        allow_http: false,
        allow_hosts: vec!["a.example".to_owned()],
        ..CallbackSettings::default()
    };
    let fixture = Fixture::with(settings).await;
    for (host, key) in
        [("http://a.example", "callbacks.allow_http"), ("https://b.example", "callbacks.allow_hosts")]
    {
        let failure = fixture.caller.call(fixture.request_to(host)).await.expect_err("is forbidden");
        assert_eq!(failure, CallFailure::AddressRefused { key });
    }
    assert_eq!(fixture.resolver.lookups(), 0);
}

#[tokio::test]
async fn an_address_that_never_answers_leaves_time_for_the_next() {
    let settings = CallbackSettings { networks: networks(&["127.0.0.0/8"]), ..CallbackSettings::default() };
    let fixture = Fixture::with(settings).await;
    let silent = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), fixture.receiver.port()));
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&silent.into()).expect("a free port");
    socket.listen(0).expect("listens");
    // The queue of connections is full with one, and the system drops further attempts without an answer.
    let _waiting = TcpStream::connect(silent).expect("connects");
    fixture.resolver.push(Ok(addresses(&["127.0.0.2", "127.0.0.1"])));
    let answering = async {
        let_others_run().await;
        fixture.clock.advance(CONNECT_TIMEOUT / 2);
        fixture.receiver.answer(NO_CONTENT).await
    };
    let call = fixture.caller.call(fixture.request_to("http://two.example"));
    let (called, _) = soon(async { tokio::join!(call, answering) }).await;
    assert_eq!(called.expect("an answer").status, 204);
}
