//! Other programs that have the database open: readiness follows what calls get, and heals when they are gone.

use rusqlite::Connection;

use crate::harness::{process::Server, wait::TimeLimit};

fn open(directory: &tempfile::TempDir) -> Connection {
    Connection::open(directory.path().join("data/linger.db")).expect("opens")
}

fn readiness(server: &Server) -> String {
    server.call("GET", "/readyz?verbose", "").body
}

#[test]
fn a_lock_of_another_program_makes_the_server_unready_until_it_is_released() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t","id":"a","delay":"1h"}"#).status, 201);
    let other = open(&directory);
    other.execute_batch("BEGIN IMMEDIATE").expect("locks");
    server.wait_until_unready();
    // A check that waits for the lock has no answer at first.
    let time_limit = TimeLimit::new();
    let body = loop {
        let body = readiness(&server);
        if body.contains("locked by another program") {
            break body;
        }
        time_limit.check(|| body);
        time_limit.pause_thread();
    };
    assert!(!body.contains("does not answer"), "{body}");
    assert_eq!(server.metric("linger_store_up"), Some(0.0));
    let refused = server.call("POST", "/jobs", r#"{"topic":"t","id":"b"}"#);
    assert_eq!((refused.status, refused.json()["code"].as_str()), (503, Some("store_unavailable")));
    assert!(refused.body.contains("locked by another program"), "{}", refused.body);
    assert_eq!(server.call("GET", "/jobs/a", "").status, 200, "reads need no lock");
    assert_eq!(server.call("GET", "/readyz", "").status, 503, "the lock is still there");
    other.execute_batch("ROLLBACK").expect("unlocks");
    server.wait_until_ready();
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t","id":"b"}"#).status, 201);
    server.wait_for_log("the store is available again");
    assert_eq!(server.log().matches("the store is unavailable").count(), 1, "{}", server.log());
}

#[test]
fn a_reader_that_keeps_the_log_from_being_emptied_is_reported_until_it_ends() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    let job = format!(r#"{{"topic":"t","body":"{}"}}"#, "x".repeat(250_000));
    let jobs = format!(r#"{{"jobs":[{}]}}"#, vec![job; 30].join(","));
    assert_eq!(server.call("POST", "/batch/jobs", &jobs).status, 200);
    let other = open(&directory);
    other.execute_batch("BEGIN; SELECT count(*) FROM rec").expect("reads");
    let time_limit = TimeLimit::new();
    while !readiness(&server).contains("a program reads the database for long") {
        assert_eq!(server.call("POST", "/batch/jobs", &jobs).status, 200);
        time_limit.check(|| format!("{:?}", server.metric("linger_store_log_bytes")));
    }
    assert_eq!(server.call("GET", "/readyz", "").status, 200, "calls succeed");
    assert!(server.metric("linger_store_log_bytes") > Some(144.0 * 1024.0 * 1024.0));
    other.execute_batch("COMMIT").expect("ends");
    // Without another write.
    let time_limit = TimeLimit::new();
    while readiness(&server).contains("a program reads the database for long") {
        time_limit.check(|| server.log());
        time_limit.pause_thread();
    }
    server.wait_for_log("the log of the database can be emptied again");
}
