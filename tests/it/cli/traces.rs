//! The trace that a command runs in, and that its jobs then come from.

use std::fs;

use super::{Cli, ended};

const SPAN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER_SPAN: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00";

/// Runs a command, which must succeed, in a trace.
#[track_caller]
fn run_in(cli: &Cli, traceparent: &str, words: &[&str]) {
    let mut command = cli.command(words);
    command.env("TRACEPARENT", traceparent).env("TRACESTATE", "a=1");
    let ended = ended(command);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{words:?}: {ended:?}");
}

#[track_caller]
fn context_of(cli: &Cli, id: &str) -> [Option<String>; 2] {
    let job = cli.job(id).expect("is there");
    ["traceparent", "tracestate"].map(|name| job[name].as_str().map(str::to_owned))
}

#[test]
fn an_added_job_comes_from_the_span_of_the_command() {
    let cli = Cli::start();
    let lines = format!(
        "{{\"id\":\"line\"}}\n{{\"id\":\"own\",\"traceparent\":\"{OTHER_SPAN}\"}}\n{{\"body\":\"without an id\"}}\n"
    );
    fs::write(cli.home.path().join("lines"), lines).expect("can be written");
    run_in(&cli, SPAN, &["add", "mail", "--id", "one"]);
    run_in(&cli, SPAN, &["add", "mail", "--lines", "@lines"]);
    run_in(&cli, "no span", &["add", "mail", "--id", "malformed"]);
    cli.succeed(&["add", "mail", "--id", "none"]);
    let whole = [Some(SPAN.to_owned()), Some("a=1".to_owned())];
    assert_eq!((context_of(&cli, "one"), context_of(&cli, "line")), (whole.clone(), whole));
    assert_eq!(context_of(&cli, "own"), [Some(OTHER_SPAN.to_owned()), None]);
    assert_eq!((context_of(&cli, "malformed"), context_of(&cli, "none")), ([None, None], [None, None]));
    let shown = cli.succeed(&["get", "one", "--text"]);
    assert!(shown.contains(&format!("\n  trace     {SPAN}\n")), "{shown}");
    run_in(&cli, OTHER_SPAN, &["add", "mail", "--lines", "@lines"]);
    let topic = cli.server.call("GET", "/topics/mail", "").json();
    assert_eq!(topic["counts"]["ready"], 6, "a second run adds nothing, from whichever span");
    assert!(cli.server.stop().success());
}
