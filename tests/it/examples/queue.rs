//! Each worker processes a queue of the real program until it is empty, and each producer adds to one.

use std::collections::BTreeSet;

use super::{BASH, GO, JAVA, Language, NODE, PHP, PYTHON};
use crate::harness::process::Server;

const JOBS: usize = 25;

/// Runs a worker on [`JOBS`] jobs, some of which are ready before it starts and some of which become due while it polls.
/// Asserts that the queue is empty afterwards and that each body was printed once.
fn empties_a_queue(language: &Language) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    let add = |n: usize, delay: &str| {
        let job =
            format!(r#"{{"topic":"work","id":"job-{n}:a+b=c@d~","delay":"{delay}","body":{{"n":{n}}}}}"#);
        assert_eq!(server.call("POST", "/jobs", &job).status, 201);
    };
    (0..JOBS - 5).for_each(|n| add(n, "0"));
    let mut worker = language.worker(&server.url(), directory.path());
    let mut bodies = BTreeSet::new();
    let mut read = |bodies: &mut BTreeSet<u64>| {
        let line = worker.line();
        let body: serde_json::Value = serde_json::from_str(&line).expect("a body per line");
        assert!(bodies.insert(body["n"].as_u64().expect("the body of the test")), "{line} was printed twice");
    };
    (0..JOBS - 5).for_each(|_| read(&mut bodies));
    // The worker polls again only after its last finish.
    let all_finished = || {
        server.wait_for_parked_polls(1);
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

/// Asserts that a producer that runs twice adds its job once.
fn adds_once(language: &Language) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    for _ in 0..2 {
        let (status, printed, errors) = language.producer(&server.url(), directory.path()).wait();
        assert!(status.success(), "{status}: {errors}");
        let job: serde_json::Value = serde_json::from_str(&printed).expect("the job");
        assert_eq!((&job["id"], &job["state"]), (&"orders:1001:close".into(), &"delayed".into()));
    }
    let topic: serde_json::Value =
        serde_json::from_str(&server.call("GET", "/topics/work", "").body).expect("JSON");
    assert_eq!(topic["counts"]["delayed"], 1, "{topic}");
}

macro_rules! each_language {
    ($($name:ident $language:ident,)*) => {
        $(mod $name {
            #[test]
            fn worker_empties_a_queue() {
                super::empties_a_queue(&super::$language);
            }

            #[test]
            fn producer_adds_once() {
                super::adds_once(&super::$language);
            }
        })*
    };
}

each_language! {
    bash BASH,
    python PYTHON,
    node NODE,
    php PHP,
    go GO,
    java JAVA,
}
