//! The commands that open the store themselves use the same settings of TLS as a server.

use std::{fs, path::Path};

use crate::harness::{
    certificates::Authority,
    process::{Server, linger, run_to_end, stderr, stdout},
    redis::RedisServer,
};

use super::configure;

/// Runs a command that must succeed. Returns what it printed.
#[track_caller]
fn run(words: &[&str], directory: &Path) -> String {
    let mut command = linger(words, directory);
    command.env("TMPDIR", directory);
    let output = run_to_end(command);
    let printed = stdout(&output) + &stderr(&output);
    assert!(output.status.success(), "{words:?}: {printed}");
    printed
}

#[test]
fn commands_that_open_the_store_use_tls() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().expect("a directory"));
    let path = directory.path();
    let files = authority.issue_into(path, &["127.0.0.1"], 4096);
    let redis = RedisServer::start_with_tls(&files, &["--tls-auth-clients", "yes"]);
    let tls = "ca_file = 'ca.pem'\nclient_certificate = 'cert.pem'\nclient_key = 'key.pem'";
    configure(path, &redis.url(), tls);
    let server = Server::serve(&[], &[], path);
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t","id":"a","delay":"1h"}"#).status, 201);
    assert!(run(&["verify"], path).contains("jobs       1 (1 delayed"));
    assert_eq!(run(&["export", "jobs.export"], path), "jobs.export: 1 job and 0 topics\n");
    assert!(server.stop().success());
    assert!(run(&["import", "jobs.export"], path).contains("already there: 1"));

    fs::write(path.join("embedded.toml"), "[embedded]\ndata_dir = 'moved'\n").expect("writes");
    run(&["move", "--to", "embedded.toml", "--last"], path);
    let back =
        format!("[store]\nengine = 'redis'\n[redis]\nurl = '{}'\nprefix = 'back'\n{tls}\n", redis.url());
    fs::write(path.join("back.toml"), back).expect("writes");
    run(&["move", "--config", "embedded.toml", "--to", "back.toml", "--last"], path);
    assert!(run(&["verify", "--config", "back.toml"], path).contains("jobs       1 (1 delayed"));

    let bench =
        ["bench", "throughput", "--json", "--jobs", "20", "--connections", "2", "--config", "back.toml"];
    let printed = run(&bench, path);
    assert!(printed.contains("\"jobs\":20") || printed.contains("\"jobs\": 20"), "{printed}");
}
