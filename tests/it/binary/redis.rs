//! The real program on Redis.

use crate::harness::{
    process::{Server, refused, stderr},
    redis::{self, fresh_prefix},
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
    let place = format!("engine redis (127.0.0.1:{}), durability ", redis::shared().port);
    assert!(first.line.contains(&place), "{}", first.line);
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
fn what_an_acknowledgement_means_is_told_in_the_log_the_version_and_the_figures() {
    let directory = tempfile::tempdir().expect("a directory");
    let always = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
    let server = redis::RedisServer::start_with(&always);
    let linger = Server::serve(&["--store", "redis", "--redis-url", &server.url()], &[], directory.path());
    assert!(linger.line.ends_with(", durability aof always\n"), "{}", linger.line);
    linger.logged("aof always");
    assert_eq!(linger.call("GET", "/version", "").json()["durability"], "aof always");
    let figures = linger.call("GET", "/metrics", "").body;
    let shown = figures.lines().find(|line| line.starts_with("linger_store_info{")).expect("is shown");
    assert!(shown.contains("engine=\"redis\"") && shown.contains("durability=\"aof always\""), "{shown}");
}

#[test]
fn a_redis_that_is_not_there_is_said_in_one_line_without_its_password() {
    let directory = tempfile::tempdir().expect("a directory");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = nobody.local_addr().expect("has an address").port();
    drop(nobody);
    let url = format!("redis://app:hunter2@127.0.0.1:{port}");
    let output =
        refused(&["--store", "redis", "--redis-url", &url, "--listen", "127.0.0.1:0"], directory.path());
    assert_eq!(output.status.code(), Some(1));
    let last = stderr(&output).lines().last().map(str::to_owned).expect("a line");
    assert!(last.starts_with("linger: cannot open the store: cannot use Redis at "), "{last}");
    assert!(!stderr(&output).contains("hunter2"), "{}", stderr(&output));
}
