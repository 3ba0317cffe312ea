//! SIGHUP reads the files of TLS to Redis again.

use rustix::process::Signal;

use crate::harness::{certificates::Authority, process::Server, redis::RedisServer};

use super::{configure, deliver};

const END: &str = "linger_certificate_not_after_seconds{certificate=\"redis_client\"}";

#[test]
fn new_connections_use_the_files_that_were_read_last() {
    let (of_redis, own) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let first = Authority::new();
    let files = first.issue_into(of_redis.path(), &["localhost", "127.0.0.1"], 4096);
    first.issue_into(own.path(), &["linger"], 2100);
    let always = ["--appendonly", "yes", "--appendfsync", "always"];
    let redis = RedisServer::start_with_tls(&files, &[&["--tls-auth-clients", "yes"][..], &always].concat());
    let lines = "ca_file = 'ca.pem'\nclient_certificate = 'cert.pem'\nclient_key = 'key.pem'";
    configure(own.path(), &redis.url(), lines);
    let server = Server::serve(&[], &[], own.path());
    deliver(&server, "first");
    assert_eq!(server.metric(END), Some(4_102_444_800.0));

    std::fs::write(own.path().join("key.pem"), "").expect("writes");
    server.signal(Signal::HUP);
    server.wait_for_log("cannot reload the certificates for Redis; the old ones stay in force");
    assert!(server.log().contains("redis.client_key: key.pem holds no private key"), "{}", server.log());
    assert_eq!(server.metric(END), Some(4_102_444_800.0));
    deliver(&server, "second");

    // From now on Redis knows the second authority alone, and Linger knows it only once it was told.
    let second = Authority::new();
    second.issue_into(of_redis.path(), &["localhost", "127.0.0.1"], 4096);
    redis.restart();
    server.wait_until_unready();
    second.issue_into(own.path(), &["linger"], 2101);
    server.signal(Signal::HUP);
    server.wait_for_log("reloaded the certificates for Redis");
    server.wait_until_ready();
    deliver(&server, "third");
    assert_eq!(server.metric(END), Some(4_133_980_800.0));
    second.issue_into(own.path(), &["linger"], 2025);
    server.signal(Signal::HUP);
    server.wait_for_log("the client certificate for Redis has expired");
    assert!(server.stop().success());
}
