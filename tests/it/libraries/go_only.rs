//! What only the library for Go has: transports and contexts.

use serde_json::json;

use super::{Language, Program, Site};

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
