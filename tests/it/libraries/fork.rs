//! Processes that fork while a client of Python has connections. Go's runtime does not fork.

use rustix::process::Signal;
use serde_json::json;

use super::{Language, Program, Site, serve_tls};
use crate::harness::process::Server;

/// The children run workers that were made before; the parent goes on. A thread may have held the client's lock at the fork.
#[test]
fn a_child_has_connections_of_its_own() {
    let site = Site::new();
    let mut program = Program::start(Language::Python, &site.server.url(), &["fork"]);
    // One for each process.
    site.server.wait_for_parked_polls(3);
    for topic in ["c", "b", "a"] {
        site.add(&format!("job-of-{topic}"), "", json!({ "topic": topic }));
    }
    for topic in ["a", "b"] {
        let id = format!("job-of-{topic}");
        let pid = program.wait_for(&json!({ "runs": id, "topic": topic }))["pid"].take();
        let name = site.server.job(&id)["reserved_by"].take();
        assert!(
            name.as_str().is_some_and(|name| name.ends_with(&format!(":{pid}"))),
            "{name} is not of {pid}"
        );
    }
    // A byte for each child.
    program.send("ab");
    program.wait_for(&json!({ "popped": "job-of-c" }));
    let lines = program.ends();
    assert_eq!(lines.last(), Some(&json!({ "ends": [0, 0], "same_connection": true })));
    for topic in ["a", "b", "c"] {
        assert!(site.server.job(&format!("job-of-{topic}")).is_null(), "the job of {topic} is not finished");
    }
}

/// It sends neither a record nor the end of the session, which would both end its parent's.
#[test]
fn a_child_leaves_its_parents_tls_session_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let (_server, url) = serve_tls(directory.path());
    let trusted = directory.path().join("cert.pem");
    let variables = [("SSL_CERT_FILE", trusted.as_path())];
    let mut program = Program::start_with(Language::Python, &url, &["fork-between-calls"], &variables);
    assert_eq!(program.ends(), [json!({ "ends": [0], "same_connection": true })]);
}

/// The server would hand a job to a process that has ended.
#[test]
fn a_child_does_not_keep_its_parents_poll_open() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[("LINGER__QUEUE__MAX_WAIT", "10m")], directory.path());
    let mut program = Program::start(Language::Python, &server.url(), &["fork-while-polling"]);
    server.wait_for_parked_polls(1);
    program.send("fork");
    let child = program.wait_for(&json!({}))["child"].take();
    assert!(child.is_number(), "{child}");
    program.signal(Signal::KILL);
    server.wait_for_parked_polls(0);
}
