//! The README's curl session, word for word but for the port.

use std::process::Command;

use crate::harness::process::Server;

const MARKER: &str = "<!-- scripts/smoke runs the next block word for word -->\n";

#[test]
fn the_session_of_the_readme_works() {
    let readme =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).expect("is there");
    let block = readme.split_once(MARKER).expect("the README marks its session").1;
    let (_, block) = block.split_once("```").expect("a block follows the mark");
    let (_, block) = block.split_once('\n').expect("a block has lines");
    let (session, _) = block.split_once("\n```").expect("a block ends");
    assert!(session.contains("localhost:9277"), "{session}");
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    // An answer of 400 or more ends the session.
    let script = format!(
        "set -euo pipefail\ncurl() {{ command curl --fail-with-body -sS \"$@\"; }}\n{}",
        session.replace("localhost:9277", &server.address.to_string())
    );
    let output = Command::new("bash").args(["-c", &script]).output().expect("bash runs");
    assert!(output.status.success(), "{script}\n{output:?}");
    assert_eq!(server.call("GET", "/topics", "").json()["topics"], serde_json::json!([]), "all is finished");
    assert!(server.stop().success());
}
