//! The real program while its Redis does not run, with the default settings: health checks and metrics are answered at
//! once, and the log reports the failure once.

use std::time::Duration;

use linger::clock::{Clock, SystemClock};

use crate::harness::{process::Server, redis::RedisServer, resp::Resp};

/// How many times a scrape has asked the store in vain.
const ASKED: &str = "linger_store_operation_duration_seconds_count{operation=\"topics\",outcome=\"error\"}";
/// Longer than any attempt of the timer or the sweep.
const OUTAGE: Duration = Duration::from_secs(8);

#[test]
fn health_checks_and_metrics_are_answered_at_once_and_the_failure_is_logged_once() {
    let directory = tempfile::tempdir().expect("a directory");
    // With persistence, because the log would otherwise warn that there is none; and what was acknowledged must be there again.
    let always = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
    let redis = RedisServer::start_with(&always);
    let linger = Server::serve(&["--store", "redis", "--redis-url", &redis.url()], &[], directory.path());
    assert_eq!(linger.call("POST", "/jobs", r#"{"topic":"t","id":"a","delay":1}"#).status, 201);
    assert_eq!(linger.metric("linger_store_up"), Some(1.0));
    assert!(linger.call("GET", "/metrics", "").body.contains("linger_jobs{"));
    let (clock, address) = (SystemClock::new(), redis.address());
    redis.kill();
    linger.wait_until_unready();
    let asked = linger.metric(ASKED);
    for _ in 0..5 {
        assert_eq!(linger.call("GET", "/readyz", "").status, 503);
        assert_eq!(linger.call("GET", "/livez", "").status, 200);
        let metrics = linger.call("GET", "/metrics", "").body;
        assert!(metrics.contains("linger_store_up 0\n") && !metrics.contains("linger_jobs{"), "{metrics}");
    }
    assert_eq!(linger.metric(ASKED), asked, "a scrape would have waited until its call was given up");
    // The timer, the sweep and this call are retried until they fail.
    assert_eq!(linger.call("POST", "/jobs", r#"{"topic":"t","id":"b"}"#).status, 503);
    let began_us = clock.now_micros();
    while Duration::from_micros((clock.now_micros() - began_us).unsigned_abs()) < OUTAGE {
        assert_eq!(linger.call("GET", "/topics/t", "").status, 503);
    }
    redis.restart();
    linger.wait_until_ready();
    linger.wait_for_log("the store is available again");
    assert_eq!(linger.metric("linger_store_up"), Some(1.0));
    let log = linger.log();
    let failures: Vec<&str> = log.lines().filter(|line| line.contains("the store is unavailable")).collect();
    assert_eq!(failures.len(), 1, "{log}");
    assert!(
        failures[0].contains(&address.to_string()) && failures[0].contains("Connection refused"),
        "{}",
        failures[0]
    );
    assert_eq!(log.matches("the store is available again").count(), 1, "{log}");
    for unwanted in ["send this again", "fred", "log.file", "due jobs", "sweep"] {
        assert!(!log.contains(unwanted), "{unwanted}: {log}");
    }
    let of_the_store = |line: &&str| {
        ["linger::queue", "linger::store"].iter().any(|target| line.contains(target))
            && !line.contains("\"INFO\"")
    };
    assert_eq!(log.lines().filter(of_the_store).count(), 1, "{log}");
}

#[test]
fn a_redis_that_answers_but_takes_no_writes_is_not_called_silent() {
    let directory = tempfile::tempdir().expect("a directory");
    let redis = RedisServer::start();
    let linger = Server::serve(&["--store", "redis", "--redis-url", &redis.url()], &[], directory.path());
    let send = |words: &[&str]| drop(Resp::connect(redis.address()).expect("connects").call(words));
    for (fault, repair) in [
        (&["REPLICAOF", "127.0.0.1", "1"][..], &["REPLICAOF", "NO", "ONE"][..]),
        (&["CONFIG", "SET", "min-replicas-to-write", "1"], &["CONFIG", "SET", "min-replicas-to-write", "0"]),
    ] {
        send(fault);
        linger.wait_until_unready();
        // Several at once: a refused call closes the connection of the others.
        let refused: Vec<_> = std::thread::scope(|scope| {
            let add = || linger.call("POST", "/jobs", r#"{"topic":"t"}"#);
            let calls: Vec<_> = (0..16).map(|_| scope.spawn(add)).collect();
            calls.into_iter().map(|call| call.join().expect("does not panic")).collect()
        });
        for refused in &refused {
            assert_eq!((refused.status, refused.json()["code"].as_str()), (503, Some("store_unavailable")));
        }
        let ready = linger.call("GET", "/readyz", "");
        for body in refused.iter().chain([&ready]).map(|answer| &answer.body) {
            assert!(body.contains("replica") && !body.contains("does not answer"), "{fault:?}: {body}");
        }
        send(repair);
        linger.wait_until_ready();
    }
}
