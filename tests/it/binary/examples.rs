//! The worker loops under `examples/`: each works off a queue on the real program, exactly once.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::harness::process::Server;

const JOBS: usize = 25;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

/// A worker at work, ended with all that it started when dropped.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        // Its own process group: `go run` and the shell have children.
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

fn start(mut command: Command, server: &Server) -> Worker {
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let child = command
        .env("LINGER_URL", server.url())
        .env("TOPIC", "work")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} does not start ({error}); run scripts/test"));
    Worker(child)
}

/// Runs a worker over [`JOBS`] jobs of which some are there before it and some come due while it
/// polls; then the queue is empty and each body was printed once.
fn works_off_a_queue(interpreter: &[&str], name: &str) {
    let lines = std::fs::read_to_string(example(name)).expect("the example is there").lines().count();
    assert!(lines <= 30, "{name} has {lines} lines");
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    let add = |n: usize, delay: &str| {
        let job =
            format!(r#"{{"topic":"work","id":"job-{n}:a+b=c@d~","delay":"{delay}","body":{{"n":{n}}}}}"#);
        assert_eq!(server.call("POST", "/jobs", &job).status, 201);
    };
    (0..JOBS - 5).for_each(|n| add(n, "0"));
    let mut command = Command::new(interpreter[0]);
    command.args(&interpreter[1..]).arg(example(name)).current_dir(directory.path());
    let mut worker = start(command, &server);
    let mut printed = BufReader::new(worker.0.stdout.take().expect("piped")).lines();
    let mut bodies = BTreeSet::new();
    let mut read = |bodies: &mut BTreeSet<u64>| {
        let line = printed.next().expect("goes on").expect("is text");
        let body: serde_json::Value = serde_json::from_str(&line).expect("a body per line");
        assert!(bodies.insert(body["n"].as_u64().expect("our body")), "{line} twice");
    };
    (0..JOBS - 5).for_each(|_| read(&mut bodies));
    // It polls again only after its last finish.
    let all_finished = || {
        server.parked(1);
        assert_eq!(server.call("GET", "/topics/work", "").status, 404, "a job is left");
    };
    all_finished();
    (JOBS - 5..JOBS).for_each(|n| add(n, "300ms"));
    (0..5).for_each(|_| read(&mut bodies));
    all_finished();
    assert_eq!(bodies.len(), JOBS);
    drop(worker);
    assert!(server.stop().success());
}

#[test]
fn bash() {
    works_off_a_queue(&["bash"], "worker.sh");
}

#[test]
fn python() {
    works_off_a_queue(&["python3"], "worker.py");
}

#[test]
fn node() {
    works_off_a_queue(&["node"], "worker.js");
}

#[test]
fn php() {
    works_off_a_queue(&["php"], "worker.php");
}

#[test]
fn go() {
    works_off_a_queue(&["go", "run"], "worker.go");
}

#[test]
fn java() {
    works_off_a_queue(&["java"], "Worker.java");
}
