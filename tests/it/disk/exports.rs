//! Exports and imports that fill the disk: they fail with a reason. An export leaves nothing that looks like one, and an
//! import can be completed.

use std::fs;

use super::full_disk::mount_tmpfs;
use crate::harness::{
    not_here::not_run_here,
    process::{Server, run, run_to_end, stderr, stdout},
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

#[test]
fn an_import_that_fills_the_disk_says_so_and_is_completed_on_a_larger_one() {
    let namespace = match mount_tmpfs("8m") {
        Ok(namespace) => namespace,
        Err(why) => return not_run_here("import_on_a_full_disk", &why),
    };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let server = Server::serve(&[], &[], path);
    for n in 0..300 {
        let job = format!(r#"{{"topic":"t","id":"{n}","delay":3600,"body":"{}"}}"#, "x".repeat(50_000));
        assert_eq!(server.call("POST", "/jobs", &job).status, 201);
    }
    assert!(server.stop().success());
    let exported = run(&["export", "jobs.export"], path);
    assert!(exported.status.success(), "{}", stderr(&exported));
    // The namespace has the directory at the same path.
    let export = path.join("jobs.export").display().to_string();
    let import = || run_to_end(namespace.linger(&["import", &export], "small/data"));
    let output = import();
    let errors = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("not everything was imported") && errors.contains("full"), "{errors}");
    namespace.run_ok("mount -o remount,size=256m small");
    let output = import();
    assert!(output.status.success(), "{}", stderr(&output));
    let output = run_to_end(namespace.linger(&["verify"], "small/data"));
    assert!(stdout(&output).contains("jobs       300 (300 delayed"), "{output:?}");
}
