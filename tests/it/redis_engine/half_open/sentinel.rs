//! Behind Sentinel.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
};

use linger::store::redis::{Credentials, Mode, Node, Options};

use super::{
    Process, Proxy, adds_recover, announcements_arrive_again, one_job, options, reopened_at_rest,
    reopened_under_traffic, shared,
};

/// A sentinel that names the server at `named` as the primary. A mute sentinel never replies.
pub fn sentinel(named: SocketAddr, mute: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("has an address").port();
    let words = [named.ip().to_string(), named.port().to_string()];
    let [host, named] = words.map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let answer = format!("*2\r\n{host}{named}");
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepts");
            let mut request = [0; 1_024];
            if mute {
                kept.push(stream);
            } else if stream.read(&mut request).is_ok() {
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    });
    port
}

pub fn behind_sentinels(ports: &[u16]) -> Mode {
    let nodes = ports.iter().map(|port| Node { host: "127.0.0.1".to_owned(), port: *port }).collect();
    Mode::Sentinel { nodes, service: "main".to_owned(), credentials: Credentials::default() }
}

fn on_loopback(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

/// A process that a sentinel leads to the proxy.
async fn behind_a_sentinel() -> (Process, Proxy) {
    let proxy = Proxy::start(shared().port).await;
    let named = sentinel(on_loopback(proxy.port), false);
    let process = Process::start(&Options { mode: behind_sentinels(&[named]), ..options() }).await;
    (process, proxy)
}

#[tokio::test]
async fn a_primary_with_sentinel_is_used_again_under_traffic() {
    let (process, proxy) = behind_a_sentinel().await;
    reopened_under_traffic(&process, &proxy).await;
}

#[tokio::test]
async fn a_primary_with_sentinel_is_used_again_without_traffic() {
    let (process, proxy) = behind_a_sentinel().await;
    reopened_at_rest(&process, &[proxy]).await;
}

#[tokio::test]
async fn announcements_arrive_again_from_a_primary_with_sentinel() {
    let (_process, proxy) = behind_a_sentinel().await;
    announcements_arrive_again(&[proxy]).await;
}

#[tokio::test]
async fn a_half_open_sentinel_delays_no_call() {
    let primary = on_loopback(shared().port);
    let ports = [sentinel(primary, true), sentinel(primary, false), sentinel(primary, false)];
    let process = Process::start(&Options { mode: behind_sentinels(&ports), ..options() }).await;
    adds_recover(&process.store, "one-mute", one_job).await;
}
