//! What only the library for Python has: workers that are run wrongly, and `with` blocks.

use serde_json::json;

use super::{Language, Program, Site};

#[test]
fn a_worker_that_is_run_wrongly_says_so() {
    let site = Site::new();
    let mut program = Program::start(Language::Python, &site.server.url(), &["misuse"]);
    let in_a_thread = program.wait_for(&json!({ "misuse": "in a thread" }));
    let text = in_a_thread["text"].as_str().unwrap_or_default();
    assert!(text.contains("run()") && text.contains("stop()"), "{in_a_thread}");
    site.server.wait_for_parked_polls(1);
    program.send("it polls");
    let lines = program.ends();
    let again = |what| json!({ "misuse": what, "text": "a worker runs once; make another Worker" });
    assert_eq!(lines[1..], ["in a child", "while it runs", "after it ran"].map(again));
}

#[test]
fn the_end_of_a_with_block_closes_the_connections() {
    let site = Site::new();
    let mut program = Program::start(Language::Python, &site.server.url(), &["with"]);
    assert_eq!(program.ends(), [json!({ "idle": 0 })]);
}
