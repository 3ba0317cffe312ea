//! The curl session and the worker of README.md, run word for word, except for the port.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use crate::harness::{pages::blocks_after, process::Server, wait::TimeLimit};

const SESSION_MARK: &str = "<!-- scripts/smoke runs the next block word for word -->";
const WORKER_MARK: &str = "<!-- tests/it/binary/readme.rs runs the next block -->";

/// The code block after a mark, with the server's address in place of the default one.
fn block_after(mark: &str, server: &Server) -> String {
    let block = blocks_after("README.md", mark).swap_remove(0).code;
    assert!(block.contains("localhost:9277"), "{block}");
    block.replace("localhost:9277", &server.address.to_string())
}

#[test]
fn the_session_of_the_readme_works() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    // A response of 400 or more ends the session.
    let script = format!(
        "set -euo pipefail\ncurl() {{ command curl --fail-with-body -sS \"$@\"; }}\n{}",
        block_after(SESSION_MARK, &server)
    );
    let output = Command::new("bash").args(["-c", &script]).output().expect("bash runs");
    assert!(output.status.success(), "{script}\n{output:?}");
    let printed = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = printed.lines().collect();
    let [added, popped, topics] = lines[..] else { panic!("three responses should have a body: {printed}") };
    assert!(added.contains("\"state\":\"delayed\""), "{added}");
    assert!(popped.contains("\"receipt\":"), "{popped}");
    assert_eq!(topics, "{\"topics\":[]}", "every job is finished");
    assert!(server.stop().success());
}

/// A process that ends with the test.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_worker_of_the_readme_works_and_finishes_a_job() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    let script = block_after(WORKER_MARK, &server);
    let child = Command::new("python3").args(["-c", &script]).stdout(Stdio::piped()).spawn();
    let mut worker = Worker(child.expect("python3 starts; scripts/test installs it"));
    // The worker waits in its long poll before the job is added.
    server.wait_for_parked_polls(1);
    let added = server.call("POST", "/jobs", r#"{"topic":"order-close","body":{"order":1001}}"#);
    assert_eq!(added.status, 201, "{added:?}");
    let mut line = String::new();
    let stdout = worker.0.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("stdout is text");
    assert_eq!(line, "closing order 1001\n");
    let time_limit = TimeLimit::new();
    while server.call("GET", "/topics", "").body.contains("order-close") {
        time_limit.check(|| "the job is not finished".to_owned());
        std::thread::yield_now();
    }
}
