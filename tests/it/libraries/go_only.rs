//! What only the library for Go has: a module, transports and contexts.

use std::{fs, process::Command};

use serde_json::json;

use super::{Language, Program, Site, folder};

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

/// They have no deadline, and do not end with it, since running handlers have the drain.
#[test]
fn handlers_have_the_values_of_the_context_of_run() {
    let site = Site::new();
    site.add("a", "", json!({}));
    let mut program = Program::start(Language::Go, &site.server.url(), &["values"]);
    assert_eq!(program.ends(), [json!({ "value": "a value", "deadline": false, "ended": false })]);
    assert!(site.server.job("a").is_null(), "it is finished");
}
