//! The commands that call a server: what they print, their exit codes, and what they leave behind.

mod exits;
mod expiring;
mod foreign;
mod lists;
mod pipes;
mod profiles;
mod prompts;
mod repeats;
mod schedules;
mod session;
mod terminal;
mod top;
mod topic_settings;
mod traces;

use std::{path::Path, process::Command};

use tempfile::TempDir;

use crate::harness::process::{Server, linger, linger_under, run_to_end, stderr, stdout};

/// A server, and a home directory for the commands that call it.
pub struct Cli {
    pub server: Server,
    pub home: TempDir,
}

/// What a command printed, and its exit code.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Cli {
    /// Starts a server on the embedded engine.
    pub fn start() -> Self {
        Self::start_with(&[], &[])
    }

    /// Starts a server with these arguments and variables.
    pub fn start_with(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let home = home();
        let server = Server::serve(arguments, variables, home.path());
        Self { server, home }
    }

    /// A command that calls the server.
    pub fn command(&self, words: &[&str]) -> Command {
        self.command_under(&[], words)
    }

    /// The same, started by another program whose words come first.
    pub fn command_under(&self, wrapper: &[&str], words: &[&str]) -> Command {
        let mut command = linger_under(wrapper, words, self.home.path());
        command.env("HOME", self.home.path()).env("LINGER_URL", self.server.url());
        command
    }

    /// Runs a command that calls the server.
    #[track_caller]
    pub fn run(&self, words: &[&str]) -> Ended {
        ended(self.command(words))
    }

    /// Runs a command that must succeed. Returns what it printed.
    #[track_caller]
    pub fn succeed(&self, words: &[&str]) -> String {
        let ended = self.run(words);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{words:?}: {ended:?}");
        ended.stdout
    }

    /// A job as the server has it; none if there is none.
    #[track_caller]
    pub fn job(&self, id: &str) -> Option<serde_json::Value> {
        let response = self.server.call("GET", &format!("/jobs/{id}"), "");
        (response.status == 200).then(|| response.json())
    }

    /// The state of a job, and its attempts.
    #[track_caller]
    pub fn state(&self, id: &str) -> Option<(String, u64)> {
        let job = self.job(id)?;
        Some((job["state"].as_str()?.to_owned(), job["attempts"].as_u64()?))
    }
}

/// An empty home directory.
pub fn home() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// A command in a home directory, with no server.
pub fn command_in(home: &Path, words: &[&str]) -> Command {
    let mut command = linger(words, home);
    command.env("HOME", home);
    command
}

/// Runs a command to its end.
#[track_caller]
pub fn ended(command: Command) -> Ended {
    let output = run_to_end(command);
    Ended { code: output.status.code(), stdout: stdout(&output), stderr: stderr(&output) }
}

/// Whether text is as expected; `[..]` stands for any text within a line.
pub fn matches(expected: &str, text: &str) -> bool {
    let line_matches = |expected: &str, line: &str| {
        let mut parts = expected.split("[..]");
        let first = parts.next().expect("there is one part at least");
        let Some(mut rest) = line.strip_prefix(first) else { return false };
        let mut last = None;
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
            last = Some(part);
        }
        last.map_or(rest.is_empty(), |last| rest.is_empty() || last.is_empty() || line.ends_with(last))
    };
    let (expected, lines): (Vec<_>, Vec<_>) = (expected.lines().collect(), text.lines().collect());
    expected.len() == lines.len()
        && expected.iter().zip(lines).all(|(expected, line)| line_matches(expected, line))
}

#[test]
fn wildcards_match_within_a_line_only() {
    for (expected, text, is_match) in [
        ("a [..] c", "a b c", true),
        ("a [..]", "a b c", true),
        ("a [..] c", "a b d", false),
        ("a [..] c", "a b c d", false),
        ("a", "a b", false),
        ("a\n[..]", "a", false),
        ("a [..] b [..] c", "a 1 b 2 c", true),
        ("a [..] b [..] c", "a 1 c", false),
    ] {
        assert_eq!(matches(expected, text), is_match, "{expected:?} and {text:?}");
    }
}
