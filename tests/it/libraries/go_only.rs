//! What only the library for Go has: a module, transports and contexts.

use std::{fs, process::Command};

use rustix::process::Signal;
use serde_json::json;

use super::{Language, Program, Site, events, folder};

/// By a `replace` directive. The path is that of the folder, where `go get` would look, and ends with the package's name.
#[test]
fn the_module_can_be_required() {
    let source = folder("go/linger");
    let text = fs::read_to_string(source.join("go.mod")).expect("is there");
    let module = text.lines().find_map(|line| line.strip_prefix("module ")).expect("has a path");
    assert!(module.ends_with("/clients/go/linger"), "{module}");
    let directory = tempfile::tempdir().expect("a directory");
    let replaced = format!("require {module} v0.0.0\n\nreplace {module} => {}\n", source.display());
    let program = "func main() {\n\t_, _ = linger.New(\"http://localhost\", \"\")\n}\n";
    for (name, text) in [
        ("go.mod", format!("module shop\n\ngo 1.19\n\n{replaced}")),
        ("main.go", format!("package main\n\nimport \"{module}\"\n\n{program}")),
    ] {
        fs::write(directory.path().join(name), text).expect("can be written");
    }
    let mut check = Command::new("go");
    check.args(["vet", "."]).env("GOFLAGS", "-mod=mod").env("GOPROXY", "off").current_dir(directory.path());
    let checked = check.output().expect("go starts; scripts/test installs it");
    assert!(checked.status.success(), "{checked:?}");
}

/// The usual one, a wrapper that counts, and none.
#[test]
fn a_program_may_have_replaced_the_default_transport() {
    let site = Site::new();
    let mut program = Program::start(Language::Go, &site.server.url(), &["transports"]);
    assert_eq!(program.ends(), [json!({ "counted": 1 })], "the wrapper is used");
    assert_eq!(site.counts()["ready"], 4);
}

/// With HTTP/2 all calls would share a connection, and go on into one that is dead.
#[test]
fn a_proxy_that_offers_http_2_is_spoken_to_in_http_1() {
    let site = Site::new();
    let mut program = Program::start(Language::Go, &site.server.url(), &["protocol"]);
    assert_eq!(program.ends(), [json!({ "protocol": "HTTP/1.1" }), json!({ "code": "job_exists" })]);
}

#[test]
fn the_longest_drain_leaves_time_for_reports() {
    let site = Site::new();
    site.add("a", "wait", json!({}));
    let mut worker = Program::start(Language::Go, &site.server.url(), &["worker", "2", "0", "-1"]);
    worker.wait_for(&json!({ "runs": "a" }));
    site.server.wait_for_parked_polls(1);
    worker.signal(Signal::TERM);
    site.server.wait_for_parked_polls(0);
    worker.send("a");
    assert_eq!(events(&worker.ends()), [""; 0]);
    assert!(site.server.job("a").is_null(), "it is finished");
}

/// They have no deadline, and do not end with it, since running handlers have the drain.
#[test]
fn handlers_have_the_values_of_the_context_of_run() {
    let site = Site::new();
    site.add("a", "", json!({}));
    let mut program = Program::start(Language::Go, &site.server.url(), &["values"]);
    assert_eq!(program.ends(), [json!({ "value": "a value", "deadline": false, "ended": false })]);
    assert!(site.server.job("a").is_null(), "it is finished");
}
