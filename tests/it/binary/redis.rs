//! The real program on Redis.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::Path,
    process::Stdio,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{
    cluster::Cluster,
    process::{Server, linger, refused, stderr},
    redis::{self, RedisServer, fresh_prefix},
    resp::Resp,
    wait::TimeLimit,
};

fn start(directory: &std::path::Path, prefix: &str) -> Server {
    let url = redis::shared().url();
    let words = ["--store", "redis", "--redis-url", &url];
    Server::serve(&words, &[("LINGER__REDIS__PREFIX", prefix)], directory)
}

#[test]
fn the_same_program_serves_on_redis_and_several_share_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let prefix = fresh_prefix();
    let (first, second) = (start(directory.path(), &prefix), start(directory.path(), &prefix));
    let expected = format!("engine redis (127.0.0.1:{}), durability ", redis::shared().port);
    assert!(first.line.contains(&expected), "{}", first.line);
    assert_eq!(first.call("POST", "/jobs", r#"{"topic":"t","id":"shared","body":1}"#).status, 201);
    let popped = second.call("GET", "/topics/t/pop?wait=10s", "");
    assert_eq!((popped.status, popped.json()["id"].as_str()), (200, Some("shared")));
    let receipt = popped.json()["receipt"].as_str().expect("a receipt").to_owned();
    assert_eq!(first.call("POST", &format!("/jobs/shared/finish?receipt={receipt}"), "").status, 204);
    assert!(!directory.path().join("data").exists());
    assert!(first.stop().success());
    assert!(second.stop().success());
}

#[test]
fn the_durability_is_shown_in_the_log_the_version_and_the_metrics() {
    let directory = tempfile::tempdir().expect("a directory");
    let always = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
    let server = redis::RedisServer::start_with(&always);
    let linger = Server::serve(&["--store", "redis", "--redis-url", &server.url()], &[], directory.path());
    assert!(linger.line.ends_with(", durability aof always\n"), "{}", linger.line);
    linger.wait_for_log("aof always");
    assert_eq!(linger.call("GET", "/version", "").json()["durability"], "aof always");
    let metrics = linger.call("GET", "/metrics", "").body;
    let shown = metrics.lines().find(|line| line.starts_with("linger_store_info{")).expect("is shown");
    assert!(shown.contains("engine=\"redis\"") && shown.contains("durability=\"aof always\""), "{shown}");
}

#[test]
fn an_unreachable_redis_is_reported_in_one_line_without_its_password() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("redis://app:hunter2@127.0.0.1:{}", redis::free_port());
    std::fs::write(directory.path().join("short.toml"), "[redis]\nstart_timeout = \"0s\"\n").expect("writes");
    let words =
        ["--store", "redis", "--redis-url", &url, "--listen", "127.0.0.1:0", "--config", "short.toml"];
    let output = refused(&words, directory.path());
    assert_eq!(output.status.code(), Some(1));
    let last = stderr(&output).lines().last().map(str::to_owned).expect("a line");
    assert!(last.starts_with("linger: cannot open the store: cannot use Redis at "), "{last}");
    assert!(!stderr(&output).contains("hunter2"), "{}", stderr(&output));
}

/// Starts a server with these words, lets `repair` change something once it has logged `reason`, and returns the server
/// when it listens.
fn start_waiting(words: &[&str], directory: &Path, reason: &str, repair: impl FnOnce(Pid)) -> Server {
    let log = directory.join("log");
    let mut command = linger(&["serve", "--listen", "127.0.0.1:0"], directory);
    command.args(words).stdout(Stdio::piped()).stderr(File::create(&log).expect("a file"));
    let child = command.spawn().expect("linger starts");
    let time_limit = TimeLimit::new();
    let logged = || std::fs::read_to_string(&log).expect("is text");
    while !logged().lines().any(|line| line.contains("waiting for Redis") && line.contains(reason)) {
        time_limit.check(logged);
        time_limit.pause_thread();
    }
    repair(Pid::from_child(&child));
    Server::from_child(child)
}

/// Restarted, too: what is there can only be worked off by a server that runs.
#[test]
fn a_server_on_a_full_redis_is_ready_and_refuses_adds_alone() {
    let (directory, redis) = (tempfile::tempdir().expect("a directory"), RedisServer::start());
    let words = ["--store", "redis", "--redis-url", &redis.url()];
    let server = Server::serve(&words, &[], directory.path());
    let add = |server: &Server, id: &str| {
        server.call("POST", "/jobs", &format!(r#"{{"topic":"t","id":"{id}","body":1}}"#)).status
    };
    assert_eq!([add(&server, "a"), add(&server, "b")], [201, 201]);
    assert!(server.stop().success());
    let mut raw = Resp::connect(redis.address()).expect("connects");
    raw.call(&["CONFIG", "SET", "maxmemory", "1"]);

    let server = Server::serve(&words, &[], directory.path());
    server.wait_until_ready();
    let full = |server: &Server| {
        let checks = server.call("GET", "/readyz?verbose", "").json()["checks"].clone();
        checks.as_array().expect("checks").iter().any(|check| check["name"] == "memory")
    };
    // As of the last check, which comes each second.
    let time_limit = TimeLimit::new();
    while !full(&server) {
        time_limit.check(|| server.log());
        time_limit.pause_thread();
    }
    assert_eq!(add(&server, "c"), 507);
    server.wait_for_metric("linger_store_up", 1.0);
    assert_eq!(server.metric("linger_store_free_bytes"), Some(0.0));
    assert_eq!(server.metric("linger_jobs{topic=\"t\",state=\"ready\"}"), Some(2.0));
    for _ in 0..2 {
        let popped = server.call("GET", "/topics/t/pop?wait=10s", "").json();
        let (id, receipt) =
            (popped["id"].as_str().expect("an id"), popped["receipt"].as_str().expect("a receipt"));
        assert_eq!(server.call("POST", &format!("/jobs/{id}/finish?receipt={receipt}"), "").status, 204);
    }
    raw.call(&["CONFIG", "SET", "maxmemory", "0"]);
    let time_limit = TimeLimit::new();
    while full(&server) {
        time_limit.check(|| server.log());
        time_limit.pause_thread();
    }
    assert_eq!(add(&server, "c"), 201);
}

#[test]
fn a_start_waits_for_a_redis_that_does_not_run_yet() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = RedisServer::start();
    server.kill();
    let words = ["--store", "redis", "--redis-url", &server.url()];
    let linger = start_waiting(&words, directory.path(), "Connection refused", |linger| {
        // It ends a process that does not catch it.
        kill_process(linger, Signal::HUP).expect("it runs");
        server.restart();
    });
    assert_eq!(linger.call("GET", "/readyz", "").status, 200);
}

#[test]
fn a_start_waits_for_a_server_of_a_cluster_that_does_not_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let cluster = Cluster::start(60_000);
    std::fs::write(directory.path().join("settings.toml"), cluster.settings(&fresh_prefix()))
        .expect("writes");
    let stopped = &cluster.servers[1];
    stopped.kill();
    let reason = format!("cannot use Redis at {}", stopped.address());
    let words = ["--config", "settings.toml"];
    let linger = start_waiting(&words, directory.path(), &reason, |_| stopped.restart());
    assert_eq!(linger.call("POST", "/jobs", r#"{"topic":"t","body":1}"#).status, 201);
}

/// Starts a server that loads its data for ever: `INFO` reports that, and every other command fails with `LOADING`.
fn start_loading_server() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("has an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut answers = stream.try_clone().expect("a second handle");
                // A command consists of the number of its words, and two lines per word: its length and the word.
                let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
                while let Some(count) = lines.next() {
                    let count: usize = count.trim_start_matches('*').parse().expect("a number of words");
                    let words: Vec<String> = lines.by_ref().take(2 * count).collect();
                    let info = "redis_version:7.0.15\r\nrole:master\r\nloading:1\r\n";
                    let response = match words.get(1).map(|word| word.to_ascii_uppercase()) {
                        Some(word) if word == "INFO" => format!("${}\r\n{info}\r\n", info.len()),
                        _ => "-LOADING Redis is loading the dataset in memory\r\n".to_owned(),
                    };
                    if answers.write_all(response.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn a_start_fails_if_redis_does_not_stop_loading() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("settings.toml"), "[redis]\nstart_timeout = \"1s\"\n")
        .expect("writes");
    let url = format!("redis://{}", start_loading_server());
    let words =
        ["--store", "redis", "--redis-url", &url, "--listen", "127.0.0.1:0", "--config", "settings.toml"];
    let output = refused(&words, directory.path());
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    let last = message.lines().last().expect("a line");
    assert!(last.contains("LOADING") && last.contains("waited 1s"), "{message}");
    assert!(message.contains("waiting for Redis"), "{message}");
}

#[test]
fn faults_that_waiting_cannot_mend_are_refused_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let primary = RedisServer::start();
    let follow = format!("127.0.0.1 {}", primary.port);
    let cases: [(&[&str], &str); 3] = [
        (&["--requirepass", "hunter2"], "it requires a password"),
        (&["--maxmemory-policy", "allkeys-lru"], "maxmemory-policy is allkeys-lru"),
        (&["--replicaof", &follow], "it is a replica"),
    ];
    for (arguments, why) in cases {
        let server = RedisServer::start_with(arguments);
        let words = ["--store", "redis", "--redis-url", &server.url(), "--listen", "127.0.0.1:0"];
        let output = refused(&words, directory.path());
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(why), "{message}");
        assert!(!message.contains("waiting for Redis"), "{message}");
    }
}

#[test]
fn a_warning_about_a_redis_that_writes_nothing_to_disk_names_the_remedy() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = start(directory.path(), &fresh_prefix());
    server.wait_for_log("the Redis server writes nothing to disk");
    let log = server.log();
    let line =
        log.lines().find(|line| line.contains("writes nothing to disk")).expect("the warning is logged");
    assert!(line.contains("WARN") && line.contains("appendonly yes"), "{line}");
}
