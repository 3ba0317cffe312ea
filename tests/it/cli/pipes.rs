//! Readers of stdout that go before they have read everything, and writes that fail: no job is lost.

use std::{
    fs::OpenOptions,
    io::{BufRead, BufReader, Write},
    process::Stdio,
};

use super::{Cli, ended};
use crate::harness::process::linger_under;

fn add_jobs(cli: &Cli) {
    for id in ["a", "b", "c"] {
        cli.succeed(&["add", "mail", "--id", id]);
    }
}

fn ready(attempts: u64) -> Option<(String, u64)> {
    Some(("ready".to_owned(), attempts))
}

#[test]
fn pop_finish_finishes_what_head_has_read_and_no_more() {
    let cli = Cli::start();
    add_jobs(&cli);
    let script = "{ \"$@\"; echo $? >code; } | head -n 1";
    let words = ["pop", "mail", "--max", "3", "--finish"];
    let mut command = linger_under(&["sh", "-c", script, "sh"], &words, cli.home.path());
    command.env("LINGER_URL", cli.server.url());
    let popped = ended(command);
    assert_eq!((popped.code, popped.stderr.as_str()), (Some(0), ""), "{popped:?}");
    assert!(popped.stdout.starts_with("{\"id\":\"a\",") && popped.stdout.lines().count() == 1, "{popped:?}");
    // The shell writes the code after head has ended, perhaps.
    let code = || std::fs::read_to_string(cli.home.path().join("code")).unwrap_or_default();
    let time_limit = crate::harness::wait::TimeLimit::new();
    while !code().ends_with('\n') {
        time_limit.check(code);
        time_limit.pause_thread();
    }
    assert_eq!(code(), "0\n");
    assert_eq!(cli.state("a"), None);
    // Whether the second one was reserved depends on how fast head has gone.
    assert_eq!(cli.state("b").expect("is there").0, "ready");
    assert_eq!(cli.state("c"), ready(0), "it is reserved only when the one before it is done with");
    assert!(cli.server.stop().success());
}

#[test]
fn a_job_whose_line_is_not_read_is_not_finished() {
    let cli = Cli::start();
    add_jobs(&cli);
    let mut command = cli.command(&["pop", "mail", "--max", "3", "--finish"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("linger starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("is text");
    assert!(line.starts_with("{\"id\":\"a\","), "{line}");
    // Waits until the second line is in the pipe.
    let time_limit = crate::harness::wait::TimeLimit::new();
    while rustix::io::ioctl_fionread(stdout.get_ref()).expect("is a pipe") == 0 {
        time_limit.check(String::new);
        time_limit.pause_thread();
    }
    drop(stdout);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert_eq!([cli.state("a"), cli.state("b"), cli.state("c")], [None, ready(1), ready(0)]);
    assert!(cli.server.stop().success());
}

#[test]
fn a_pop_for_a_closed_pipe_takes_no_job_and_one_that_is_under_way_gives_it_back() {
    let cli = Cli::start();
    let mut polling = cli.command(&["pop", "mail", "--wait", "60s"]);
    let mut polling = polling.stdout(Stdio::piped()).spawn().expect("linger starts");
    cli.server.wait_for_parked_polls(1);
    drop(polling.stdout.take());
    cli.succeed(&["add", "mail", "--id", "a"]);
    assert_eq!(polling.wait().expect("it ends").code(), Some(0));
    assert_eq!(cli.state("a"), ready(1));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut late = cli.command(&["pop", "mail"]).stdout(writer).spawn().expect("linger starts");
    assert_eq!(late.wait().expect("it ends").code(), Some(0));
    assert_eq!(cli.state("a"), ready(1));
    assert!(cli.server.stop().success());
}

/// Also behind a server that permits short waits only, as behind one that shuts down.
#[test]
fn a_pop_waits_to_its_end_although_polls_are_answered_early() {
    let cli = Cli::start_with(&[], &[("LINGER__QUEUE__MAX_WAIT", "20ms")]);
    let mut polling = cli.command(&["pop", "mail", "--wait", "60s"]).spawn().expect("linger starts");
    let answered = r#"linger_http_poll_wait_seconds_count{route="/batch/pop",method="POST"}"#;
    let time_limit = crate::harness::wait::TimeLimit::new();
    while cli.server.metric(answered) < Some(2.0) {
        time_limit.check(|| "two polls are not answered".to_owned());
        time_limit.pause_thread();
    }
    cli.succeed(&["add", "mail", "--id", "a"]);
    assert_eq!(polling.wait().expect("it ends").code(), Some(0));
    assert_eq!(cli.state("a").expect("is there").0, "reserved");
    assert!(cli.server.stop().success());
}

#[test]
fn a_job_that_cannot_be_printed_is_given_back() {
    let cli = Cli::start();
    add_jobs(&cli);
    // A job that is to be finished is reserved only when the one before it is done with.
    for (attempts, finish) in [([1, 1, 1], &[][..]), ([2, 1, 1], &["--finish"])] {
        let words = [&["pop", "mail", "--max", "3"], finish].concat();
        let mut command = cli.command(&words);
        let full = OpenOptions::new().write(true).open("/dev/full").expect("is there");
        let mut child = command.stdout(full).stderr(Stdio::piped()).spawn().expect("linger starts");
        let mut stderr = String::new();
        let errors = child.stderr.take().expect("piped");
        BufReader::new(errors).read_line(&mut stderr).expect("is text");
        assert!(stderr.contains("cannot write to stdout"), "{stderr}");
        assert_eq!(child.wait().expect("it ends").code(), Some(1));
        assert_eq!(["a", "b", "c"].map(|id| cli.state(id)), attempts.map(ready), "{words:?}");
    }
    assert!(cli.server.stop().success());
}

#[test]
fn a_change_is_done_even_if_its_output_is_not_read() {
    let cli = Cli::start();
    add_jobs(&cli);
    for words in [&["topics"][..], &["cancel", "a", "b", "c"]] {
        let mut child = cli.command(words).stdout(Stdio::piped()).spawn().expect("linger starts");
        drop(child.stdout.take());
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "{words:?}");
    }
    assert_eq!(["a", "b", "c"].map(|id| cli.state(id)), [None, None, None]);
    assert!(cli.server.stop().success());
}

/// A shell's loop has the rest of its lines on stdin, so nothing is read unasked; what may be a body is not dropped either.
#[test]
fn a_body_on_stdin_is_sent_with_a_dash_and_refused_without() {
    let cli = Cli::start();
    let path = cli.home.path().join("body.json");
    std::fs::write(&path, "{\"n\":1}").expect("can be written");
    let add = |words: &[&str], stdin: Stdio| {
        let mut command = cli.command(&[&["add", "mail"], words].concat());
        command.stdin(stdin);
        ended(command)
    };
    let file = || Stdio::from(std::fs::File::open(&path).expect("can be opened"));
    let (reading, writing) = std::io::pipe().expect("a pipe");
    for stdin in [file(), Stdio::from(reading)] {
        let refused = add(&[], stdin);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("add - to send it, or null to send none"), "{refused:?}");
    }
    drop(writing);
    let (ended_pipe, _) = std::io::pipe().expect("a pipe");
    for (words, stdin, body) in [
        (&["-"][..], file(), "{\"n\":1}"),
        (&["7"], file(), "7"),
        (&[], Stdio::from(ended_pipe), "null"),
        (&[], Stdio::null(), "null"),
    ] {
        let added = add(words, stdin);
        assert_eq!(added.code, Some(0), "{words:?}: {added:?}");
        assert!(added.stdout.contains(&format!("\"body\":{body}}}")), "{words:?}: {added:?}");
    }
    assert!(cli.server.stop().success());
}

#[test]
fn a_line_is_added_when_the_next_one_has_to_be_waited_for() {
    let cli = Cli::start();
    let mut command = cli.command(&["add", "mail", "--lines", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("linger starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"{").expect("is read");
    for id in ["a", "b"] {
        // Also behind the beginning of a line whose end is not there yet.
        write!(stdin, "\"id\":\"{id}\"}}\n{{").expect("is read");
        let time_limit = crate::harness::wait::TimeLimit::new();
        while cli.job(id).is_none() {
            time_limit.check(|| format!("{id} is not there"));
            time_limit.pause_thread();
        }
    }
    drop(stdin);
    assert_eq!(child.wait().expect("ends").code(), Some(1), "the last line is cut off");
    assert!(cli.server.stop().success());
}
