//! `linger top` on a real terminal, and what it prints elsewhere.

use linger::auth::{Scope, token_entry};
use rustix::process::Signal;
use serde_json::Value;

use super::{Cli, command_in, ended, home, terminal::Terminal};
use crate::harness::{
    process::Server,
    redis::{free_port, fresh_prefix, shared},
};

fn start_top(cli: &Cli, words: &[&str]) -> Terminal {
    Terminal::start(cli.command(&[&["top", "--every", "100ms"], words].concat()), 80, 24)
}

/// A server with a ready job that nobody polls for, and a delayed one.
fn with_jobs(cli: Cli) -> Cli {
    cli.succeed(&["add", "mail"]);
    cli.succeed(&["add", "news", "--delay", "1h"]);
    cli
}

fn shows_mail(line: &str) -> bool {
    line.starts_with("mail ") && line.ends_with('!')
}

fn shows_topics_until_q(cli: &Cli) {
    let mut terminal = start_top(cli, &[]);
    // The last line is drawn last.
    let screen = terminal.wait_for(|line| line.starts_with("2 topics by ready") && line.ends_with("h help"));
    terminal.assert_taken();
    assert!(screen.lines().any(shows_mail), "{screen}");
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines[0].starts_with("linger top  http://127.0.0.1:"), "{screen}");
    assert_eq!(lines[4], "TOPIC         DELAYED  READY  RESERVED  DEAD  OLDEST  POLLS    PAUSED");
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
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let terminal = start_top(&cli, &[]);
        terminal.wait_for(shows_mail);
        terminal.assert_taken();
        terminal.signal(signal);
        let left = terminal.wait();
        assert_eq!((left.code, left.is_restored), (Some(code), true), "{signal:?}: {left:?}");
    }
    assert!(cli.server.stop().success());
}

#[test]
fn a_closed_terminal_ends_it() {
    let cli = with_jobs(Cli::start());
    let terminal = start_top(&cli, &[]);
    terminal.wait_for(shows_mail);
    assert_eq!(terminal.close(), Some(1), "it was no signal: the terminal is not the controlling one");
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
    // Ctrl-C, which the terminal does not turn into a signal while it is taken.
    terminal.press("\u{3}");
    let left = terminal.wait();
    assert_eq!((left.code, left.is_restored), (Some(0), true), "{left:?}");
    assert!(cli.server.stop().success());
}

#[test]
fn a_server_that_never_answers_is_named_before_the_terminal_is_taken() {
    let home = home();
    let url = format!("http://127.0.0.1:{}", free_port());
    let command = command_in(home.path(), &["top", "--url", &url, "--timeout", "200ms"]);
    let left = Terminal::start(command, 80, 24).wait();
    assert_eq!((left.code, left.is_restored), (Some(6), true), "{left:?}");
    assert!(left.text.starts_with("linger: version: ") && left.text.contains(&url), "{left:?}");
}

#[test]
fn without_a_terminal_one_object_is_printed() {
    let cli = with_jobs(Cli::start());
    let printed = cli.succeed(&["top", "--sort", "delayed"]);
    assert_eq!(printed.lines().count(), 1, "{printed}");
    let printed: Value = serde_json::from_str(&printed).expect("is JSON");
    assert_eq!(printed["version"]["engine"], "embedded");
    assert_eq!(printed["stats"]["counts"]["delayed"], 1);
    let topics = printed["topics"].as_array().expect("are listed");
    let names: Vec<_> = topics.iter().map(|topic| topic["topic"].as_str()).collect();
    assert_eq!(names, [Some("news"), Some("mail")]);
    let json = Terminal::start(cli.command(&["top", "--json"]), 300, 24).wait();
    assert!(json.code == Some(0) && json.text.starts_with("{\"version\":{"), "{json:?}");
    assert!(cli.server.stop().success());
}

#[test]
fn a_token_for_some_topics_sees_these_without_totals() {
    let tokens = tempfile::NamedTempFile::new().expect("a file");
    let mail = linger::job::TopicPattern::parse("mail").expect("is a pattern");
    std::fs::write(tokens.path(), token_entry("app", "secret", &[Scope::Read, Scope::Add], &[mail]))
        .expect("can be written");
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
    assert!(screen.contains("the token is for some topics"), "{screen}");
    terminal.press("q");
    assert_eq!(terminal.wait().code, Some(0));
    assert_eq!(ended(command(&["timeline"])).code, Some(5));
    assert_eq!(ended(command(&["timeline", "mail"])).code, Some(0));
    assert_eq!(ended(cli.command(&["top"])).code, Some(5), "no token is not one for some topics");
    assert!(cli.server.stop().success());
}
