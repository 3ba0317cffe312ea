//! Which changes are synced to disk, with the default durability.

use std::collections::BTreeMap;

use super::strace::{Trace, check_available};
use crate::harness::{not_here::not_run_here, process::Server};

/// Its delivery would wait for it. A start knows by the due time that the job is ready.
#[test]
fn a_job_that_becomes_due_costs_no_sync() {
    if let Err(why) = check_available() {
        return not_run_here("syncs", &why);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = Server::serve(&[], &[], directory.path());
    let add = || assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t","delay":1,"body":""}"#).status, 201);
    // The first change after a start also syncs the header of the log.
    add();
    let trace = Trace::new(directory.path().join("trace"));
    let mut tracer =
        trace.attach(server.pid(), &directory.path().join("data"), &["fsync", "fdatasync"], None);
    add();
    for _ in 0..2 {
        assert_eq!(server.call("GET", "/topics/t/pop?wait=60s", "").status, 200);
    }
    server.kill();
    tracer.wait().expect("is a child");
    assert_eq!(trace.counts(), BTreeMap::from([("fsync".to_owned(), 3)]), "one add and two pops");
}
