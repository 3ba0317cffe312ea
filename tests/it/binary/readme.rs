//! The curl sessions, the worker and the endpoint of README.md, run word for word, except for the ports.

use std::{
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
};

use crate::harness::{
    pages::{TRY_CURL, blocks_after},
    process::{Server, read_first_line},
    redis::free_port,
    wait::TimeLimit,
};

const SESSION_MARK: &str = "<!-- scripts/smoke runs the next block word for word -->";
const WORKER_MARK: &str = "<!-- tests/it/binary/readme.rs runs the next block -->";
const CALLBACK_MARK: &str = "<!-- tests/it/binary/readme.rs runs the next two blocks -->";

/// The code block after a mark, with the server's address in place of the default one.
fn block_after(mark: &str, server: &Server) -> String {
    let block = blocks_after("README.md", mark).swap_remove(0).code;
    assert!(block.contains("localhost:9277"), "{block}");
    block.replace("localhost:9277", &server.address.to_string())
}

/// Runs a session, which a response of 400 or more ends. Returns what it printed.
fn run_session(session: &str) -> String {
    let script = format!("set -euo pipefail\n{TRY_CURL}curl() {{ try_curl \"$@\"; }}\n{session}");
    let output = Command::new("bash").args(["-c", &script]).output().expect("bash runs");
    assert!(output.status.success(), "{script}\n{output:?}");
    String::from_utf8(output.stdout).expect("responses are text")
}

#[test]
fn the_session_of_the_readme_works() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    let printed = run_session(&block_after(SESSION_MARK, &server));
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
    let (line, _) = read_first_line(worker.0.stdout.take().expect("piped"));
    assert_eq!(line, "closing order 1001\n");
    let time_limit = TimeLimit::new();
    while server.call("GET", "/topics", "").body.contains("order-close") {
        time_limit.check(|| "the job is not finished".to_owned());
        time_limit.pause_thread();
    }
}

#[test]
fn the_callback_of_the_readme_reaches_its_endpoint() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    let blocks = blocks_after("README.md", CALLBACK_MARK);
    let [endpoint, session] = [&blocks[0].code, &blocks[1].code];
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let child = Command::new("python3")
        .args(["-c", &endpoint.replace("8000", &address.port().to_string())])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut endpoint = Worker(child.expect("python3 starts; scripts/test installs it"));
    let time_limit = TimeLimit::new();
    while TcpStream::connect(address).is_err() {
        time_limit.check(|| "the endpoint does not listen".to_owned());
        time_limit.pause_thread();
    }
    let session = session.replace("localhost:9277", &server.address.to_string());
    let printed = run_session(&session.replace("localhost:8000", &format!("localhost:{}", address.port())));
    assert!(printed.contains("\"state\":\"delayed\""), "{printed}");
    let (line, _) = read_first_line(endpoint.0.stdout.take().expect("piped"));
    assert_eq!(line, "payments:2001:paid {\"payment\":2001}\n");
    while server.call("GET", "/jobs/payments:2001:paid", "").status != 404 {
        time_limit.check(|| format!("the job is not finished: {}", server.log()));
        time_limit.pause_thread();
    }
    assert!(server.stop().success());
}
