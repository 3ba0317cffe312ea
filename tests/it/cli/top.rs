//! `linger top` on a real terminal, and what it prints elsewhere.

use std::os::unix::process::CommandExt;

use linger::auth::{Scope, token_entry};
use rustix::process::Signal;
use serde_json::Value;

use super::{Cli, command_in, ended, home, terminal::Terminal};
use crate::harness::{
    process::Server,
    redis::{free_port, fresh_prefix, shared},
};

const TOP: &[&str] = &["top", "--every", "100ms"];
/// Starts a program to which its terminal sends signals.
const CONTROLLED: &[&str] = &["setsid", "--ctty"];
const CTRL_C: &str = "\u{3}";
const CTRL_Z: &str = "\u{1a}";

fn start_top(cli: &Cli, words: &[&str]) -> Terminal {
    start_top_under(cli, &[], words)
}

fn start_top_under(cli: &Cli, wrapper: &[&str], words: &[&str]) -> Terminal {
    Terminal::start(cli.command_under(wrapper, &[TOP, words].concat()), 80, 24)
}

/// A server with a ready job that no client polls for, and a delayed one.
fn with_jobs(cli: Cli) -> Cli {
    cli.succeed(&["add", "mail"]);
    cli.succeed(&["add", "news", "--delay", "1h"]);
    cli
}

fn shows_mail(line: &str) -> bool {
    line.starts_with("mail ") && line.ends_with('!')
}

/// Whether a line says how long the oldest job of the topic has been due.
fn shows_age(line: &str) -> bool {
    let is_age = |word: &str| word.starts_with(|first: char| first.is_ascii_digit()) && word.ends_with('s');
    line.starts_with("mail ") && line.split_whitespace().any(is_age)
}

fn shows_topics_until_q(cli: &Cli) {
    let mut terminal = start_top(cli, &[]);
    // The last line is drawn last.
    let screen = terminal.wait_for(|line| line.starts_with("2 topics by ready") && line.ends_with("h help"));
    terminal.wait_until_taken(true);
    terminal.wait_for(shows_mail);
    terminal.wait_for(shows_age);
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines[0].starts_with("linger top  http://127.0.0.1:"), "{screen}");
    assert_eq!(lines[4], "TOPIC         DELAYED  READY  DEAD  IN/s  OUT/s  LATE p99  OLDEST  POLLS");
    cli.succeed(&["topic", "pause", "news"]);
    terminal.wait_for(|line| line.starts_with("news ") && line.ends_with("  both"));
    terminal.press("s");
    terminal.wait_for(|line| line.starts_with("2 topics by overdue"));
    terminal.resize(40, 10);
    terminal.wait_for(|line| line == "TOPIC         READY  OLDEST  POLLS");
    terminal.wait_for(|line| line == "2 topics by overdue");
    terminal.resize(3, 2);
    terminal.wait_for(|line| line == "2 …");
    terminal.resize(120, 30);
    terminal.wait_for(shows_mail);
    terminal.press("h");
    terminal.wait_for(|line| line.starts_with("q, Ctrl-C"));
    terminal.press("q");
    let left = terminal.wait();
    assert_eq!((left.code, left.is_restored), (Some(0), true), "{left:?}");
    assert_eq!(left.text, "", "nothing is left of it on the first screen");
}

#[test]
fn the_topics_of_the_embedded_engine_are_shown_until_q() {
    let cli = with_jobs(Cli::start());
    shows_topics_until_q(&cli);
    assert!(cli.server.stop().success());
}

#[test]
fn the_topics_of_redis_are_shown_until_q() {
    let variables = [("LINGER__REDIS__PREFIX", &*fresh_prefix())];
    let cli = Cli::start_with(&["--store", "redis", "--redis-url", &shared().url()], &variables);
    let cli = with_jobs(cli);
    shows_topics_until_q(&cli);
    assert!(cli.server.stop().success());
}

#[test]
fn signals_give_the_terminal_back() {
    let cli = with_jobs(Cli::start());
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        let terminal = start_top(&cli, &[]);
        terminal.wait_for(shows_mail);
        terminal.wait_until_taken(true);
        terminal.signal(signal);
        let left = terminal.wait();
        assert_eq!((left.code, left.is_restored), (Some(code), true), "{signal:?}: {left:?}");
    }
    assert!(cli.server.stop().success());
}

#[test]
fn a_stopped_command_has_given_the_terminal_back_and_takes_it_again() {
    let cli = with_jobs(Cli::start());
    let mut command = cli.command(TOP);
    // SIGTSTP does not stop a process of an orphaned group, such as this test's may be.
    command.process_group(0);
    let mut terminal = Terminal::start(command, 80, 24);
    terminal.wait_for(shows_mail);
    terminal.signal(Signal::TSTP);
    terminal.wait_until_stopped();
    terminal.wait_until_taken(false);
    terminal.signal(Signal::CONT);
    terminal.wait_until_taken(true);
    terminal.wait_for(shows_mail);
    // SIGSTOP cannot be caught, so the shell that finds the command stopped restores the terminal.
    terminal.signal(Signal::STOP);
    terminal.wait_until_stopped();
    terminal.cook();
    terminal.signal(Signal::CONT);
    terminal.wait_until_taken(true);
    terminal.press("q");
    let left = terminal.wait();
    assert_eq!((left.code, left.is_restored), (Some(0), true), "{left:?}");
    assert!(cli.server.stop().success());
}

#[test]
fn a_shell_stops_and_continues_it() {
    let cli = with_jobs(Cli::start());
    let start = |script: &str| {
        let wrapper = [CONTROLLED, &["bash", "--norc", "-mc", script, "bash"]].concat();
        let mut terminal = start_top_under(&cli, &wrapper, &[]);
        terminal.wait_for(shows_mail);
        terminal.press(CTRL_Z);
        // The shell waits for a line, or this one might be gone before it is seen.
        terminal.wait_for(|line| line.starts_with("stopped: "));
        terminal.press("\n");
        terminal
    };
    let mut terminal = start("\"$@\"; echo \"stopped: $?\"; read; fg; echo \"ended: $?\"");
    terminal.wait_for(shows_mail);
    terminal.wait_until_taken(true);
    terminal.press("q");
    let left = terminal.wait();
    assert!(left.is_restored && left.text.contains("ended: 0"), "{left:?}");
    // In the background it must not touch the terminal, which would stop it again.
    let until_ended = "while kill -0 %1 2>/dev/null; do sleep 0.01; done; echo ended";
    let left = start(&format!("\"$@\"; echo \"stopped: $?\"; read; kill %1; {until_ended}")).wait();
    assert!(left.is_restored && left.text.contains("ended"), "{left:?}");
    assert!(cli.server.stop().success());
}

#[test]
fn keys_of_the_terminal_are_signals() {
    let cli = with_jobs(Cli::start());
    let mut terminal = start_top_under(&cli, CONTROLLED, &[]);
    terminal.wait_for(shows_mail);
    // There is no shell that could continue it.
    terminal.press(CTRL_Z);
    terminal.press("s");
    terminal.wait_for(|line| line.starts_with("2 topics by overdue"));
    terminal.wait_until_taken(true);
    terminal.press(CTRL_C);
    let left = terminal.wait();
    assert_eq!((left.code, left.is_restored), (Some(130), true), "{left:?}");
    assert!(cli.server.stop().success());
}

#[test]
fn keys_are_read_although_stdin_is_a_file() {
    let cli = with_jobs(Cli::start());
    let without_stdin = ["sh", "-c", "exec \"$@\" </dev/null", "sh"];
    let mut terminal = start_top_under(&cli, &[CONTROLLED, &without_stdin].concat(), &[]);
    terminal.wait_for(shows_mail);
    terminal.press("q");
    let left = terminal.wait();
    assert_eq!((left.code, left.is_restored), (Some(0), true), "{left:?}");
    let left = start_top_under(&cli, &[&["setsid"][..], &without_stdin].concat(), &[]).wait();
    assert_eq!((left.code, left.is_restored), (Some(1), true), "{left:?}");
    assert!(
        left.text.starts_with("linger: top: the terminal cannot be used: no keys can be read: "),
        "{left:?}"
    );
    assert!(cli.server.stop().success());
}

#[test]
fn a_closed_terminal_ends_it() {
    let cli = with_jobs(Cli::start());
    for wrapper in [CONTROLLED, &[]] {
        let terminal = start_top_under(&cli, wrapper, &[]);
        terminal.wait_for(shows_mail);
        assert_eq!(terminal.close(), Some(129), "{wrapper:?}");
    }
    assert!(cli.server.stop().success());
}

#[test]
fn the_last_figures_stay_while_the_server_is_away() {
    let mut cli = with_jobs(Cli::start());
    let mut terminal = start_top(&cli, &["--sort", "name"]);
    terminal.wait_for(shows_mail);
    cli.server.kill();
    terminal.wait_for(|line| line.contains("no answer, data "));
    terminal.wait_for(|line| line.contains("Connection refused"));
    terminal.wait_for(shows_mail);
    let listen = cli.server.address.to_string();
    cli.server = Server::start(&["serve", "--listen", &listen], cli.home.path());
    terminal.wait_for(|line| line.contains("  ready, data "));
    cli.succeed(&["add", "orders"]);
    terminal.wait_for(|line| line.starts_with("orders "));
    terminal.press("q");
    let left = terminal.wait();
    assert_eq!((left.code, left.is_restored), (Some(0), true), "{left:?}");
    assert!(cli.server.stop().success());
}

#[test]
fn a_server_that_hangs_is_named_and_delays_no_key() {
    let cli = with_jobs(Cli::start());
    // As long as a busy machine may take to answer.
    let mut terminal = start_top(&cli, &["--timeout", "2s"]);
    terminal.wait_for(shows_mail);
    cli.server.signal(Signal::STOP);
    terminal.wait_for(|line| line.contains("no answer, data "));
    terminal.wait_for(|line| line.contains("no answer within 2s"));
    terminal.press("h");
    terminal.wait_for(|line| line.starts_with("q, Ctrl-C"));
    cli.server.signal(Signal::CONT);
    terminal.wait_for(|line| line.contains("  ready, data "));
    terminal.press("q");
    assert_eq!(terminal.wait().code, Some(0));
    assert!(cli.server.stop().success());
}

#[test]
fn of_very_many_topics_the_first_ones_are_shown() {
    let cli = Cli::start();
    let jobs = (0..1_100).map(|n| format!("{{\"topic\":\"t{n:04}\",\"delay\":\"1h\"}}\n"));
    std::fs::write(cli.home.path().join("jobs"), jobs.collect::<String>()).expect("can be written");
    cli.succeed(&["add", "--lines", "@jobs"]);
    let mut terminal = start_top(&cli, &["--sort", "name"]);
    terminal.wait_for(|line| line.starts_with("1-18 of the first 1,000 topics by name"));
    // The key End.
    terminal.press("\u{1b}[F");
    let screen = terminal.wait_for(|line| line.starts_with("983-1,000 of the first 1,000 topics by name"));
    assert!(screen.lines().any(|line| line.starts_with("t0999 ")), "{screen}");
    terminal.press("q");
    assert_eq!(terminal.wait().code, Some(0));
    assert!(cli.server.stop().success());
}

#[test]
fn a_server_that_never_answers_is_named_before_the_terminal_is_taken() {
    let home = home();
    let url = format!("http://127.0.0.1:{}", free_port());
    let command = command_in(home.path(), &["top", "--url", &url, "--timeout", "200ms"]);
    let left = Terminal::start(command, 80, 24).wait();
    assert_eq!((left.code, left.is_restored), (Some(6), true), "{left:?}");
    assert!(left.text.starts_with("linger: top: ") && left.text.contains(&url), "{left:?}");
}

#[test]
fn without_a_terminal_one_object_is_printed() {
    let cli = with_jobs(Cli::start());
    let printed = cli.succeed(&["top", "--sort", "delayed"]);
    assert_eq!(printed.lines().count(), 1, "{printed}");
    let printed: Value = serde_json::from_str(&printed).expect("is JSON");
    assert_eq!(printed["version"]["engine"], "embedded");
    assert_eq!(printed["stats"]["counts"]["delayed"], 1);
    let minutes = &printed["stats"]["topics"];
    let added = [0, 1].map(|n| (&minutes[n]["topic"], &minutes[n]["minute"]["added"]));
    assert_eq!(added, [(&"mail".into(), &1.into()), (&"news".into(), &1.into())]);
    let topics = printed["topics"].as_array().expect("are listed");
    let names: Vec<_> = topics.iter().map(|topic| topic["topic"].as_str()).collect();
    assert_eq!(names, [Some("news"), Some("mail")]);
    let json = Terminal::start(cli.command(&["top", "--json"]), 300, 24).wait();
    assert!(json.code == Some(0) && json.text.starts_with("{\"version\":{"), "{json:?}");
    assert!(cli.server.stop().success());
}

#[test]
fn a_token_sees_the_topics_that_it_is_for() {
    let tokens = tempfile::NamedTempFile::new().expect("a file");
    let mail = linger::job::TopicPattern::parse("mail").expect("is a pattern");
    let entries = [
        token_entry("app", "secret", &[Scope::Read, Scope::Add], &[mail]),
        token_entry("producer", "other", &[Scope::Add], &[]),
    ];
    std::fs::write(tokens.path(), entries.concat()).expect("can be written");
    let variables = [("LINGER__AUTH__TOKENS_FILE", tokens.path().to_str().expect("is text"))];
    let cli = Cli::start_with(&[], &variables);
    let command = |words: &[&str]| {
        let mut command = cli.command(words);
        command.env("LINGER_TOKEN", "secret");
        command
    };
    assert_eq!(ended(command(&["add", "mail"])).code, Some(0));
    let printed = ended(command(&["top"]));
    let printed: Value = serde_json::from_str(&printed.stdout).expect("is JSON");
    assert_eq!((&printed["stats"], &printed["topics"][0]["topic"]), (&Value::Null, &"mail".into()));
    let mut terminal = Terminal::start(command(&["top"]), 80, 24);
    let screen = terminal.wait_for(shows_mail);
    assert!(screen.contains("no totals: the token is for some topics only"), "{screen}");
    terminal.press("q");
    assert_eq!(terminal.wait().code, Some(0));
    let timelines =
        [&["timeline", "--text"][..], &["timeline", "mail", "--text"]].map(|words| ended(command(words)));
    for timeline in &timelines {
        assert!(timeline.code == Some(0) && timeline.stdout.starts_with("mail: "), "{timeline:?}");
    }
    assert_eq!(ended(cli.command(&["top"])).code, Some(5), "no token is not one for some topics");
    let mut may_not_read = command(&["top"]);
    may_not_read.env("LINGER_TOKEN", "other");
    let left = Terminal::start(may_not_read, 80, 24).wait();
    assert_eq!((left.code, left.is_restored), (Some(5), true), "{left:?}");
    assert!(left.text.contains("403"), "{left:?}");
    assert!(cli.server.stop().success());
}
