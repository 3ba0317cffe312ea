//! An export that fills the disk: it fails with a reason, and leaves nothing that looks like an export.

use std::fs;

use super::full_disk::mount_tmpfs;
use crate::harness::{
    not_here::not_run_here,
    process::{Server, run, stderr},
};

#[test]
fn an_export_that_fills_the_disk_leaves_no_file() {
    let namespace = match mount_tmpfs("256k") {
        Ok(namespace) => namespace,
        Err(why) => return not_run_here("export_on_a_full_disk", &why),
    };
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    for n in 0..40 {
        let job = format!(r#"{{"topic":"t","id":"{n}","delay":60,"body":"{}"}}"#, "x".repeat(10_000));
        assert_eq!(server.call("POST", "/jobs", &job).status, 201);
    }
    let target = namespace.path("small/jobs.export");
    let output = run(&["export", target.to_str().expect("is text")], directory.path());
    let errors = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("jobs.export: No space left on device"), "{errors}");
    let left = fs::read_dir(namespace.path("small")).expect("is there").count();
    assert_eq!(left, 0, "no part of it is left");
}
