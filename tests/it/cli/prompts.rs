//! Questions before a change: on a terminal they are asked, elsewhere `--yes` is needed.

use std::{
    io::{Read, Write},
    process::Command,
};

use super::{
    Cli, ended,
    terminal::{Terminal, open_terminal},
};

/// What a command showed on a terminal, and its exit code.
struct Shown {
    code: Option<i32>,
    text: String,
}

/// Runs a command on a terminal of its own, and types an answer once it asks.
#[track_caller]
fn on_terminal(mut command: Command, answer: &str) -> Shown {
    let (mut terminal, open) = open_terminal();
    let mut child = command.stdin(open()).stdout(open()).stderr(open()).spawn().expect("linger starts");
    // The reader of the terminal sees its end once no process has the other side open.
    drop(command);
    let (mut text, mut has_answered) = (String::new(), false);
    let mut bytes = [0; 4_096];
    while let Ok(read @ 1..) = terminal.read(&mut bytes) {
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        if !has_answered && (text.ends_with("] ") || text.ends_with(": ")) {
            writeln!(terminal, "{answer}").expect("can be typed");
            has_answered = true;
        }
    }
    Shown { code: child.wait().expect("it ends").code(), text }
}

/// A command for a profile that asks before a change.
fn careful(cli: &Cli, words: &[&str]) -> Command {
    cli.succeed(&["profile", "set", "prod", "--url", &cli.server.url(), "--confirm", "true"]);
    let mut command = cli.command(words);
    command.env_remove("LINGER_URL").env("LINGER_PROFILE", "prod");
    command
}

fn add_jobs(cli: &Cli) {
    for id in ["a", "b"] {
        cli.succeed(&["add", "mail", "--id", id]);
    }
}

#[test]
fn a_purge_asks_for_the_name_of_the_topic() {
    let cli = Cli::start();
    add_jobs(&cli);
    let purge = |answer| on_terminal(cli.command(&["topic", "purge", "mail"]), answer);
    let wrong = purge("yes");
    assert_eq!(wrong.code, Some(1), "{}", wrong.text);
    assert!(wrong.text.contains("delete every job of mail (2 jobs) at http://127.0.0.1:"), "{}", wrong.text);
    assert!(wrong.text.contains("not confirmed; nothing was changed"), "{}", wrong.text);
    let without_terminal = cli.run(&["topic", "purge", "mail"]);
    assert_eq!(without_terminal.code, Some(2), "{without_terminal:?}");
    assert!(cli.job("a").is_some());
    let right = purge("mail");
    assert_eq!(right.code, Some(0), "{}", right.text);
    assert!(right.text.contains("2 jobs deleted"), "on a terminal the output is text: {}", right.text);
    assert!(cli.job("a").is_none());
    assert!(cli.server.stop().success());
}

#[test]
fn deleting_all_dead_letters_asks_and_deleting_named_ones_does_not() {
    let cli = Cli::start();
    add_jobs(&cli);
    for id in ["a", "b"] {
        let popped: serde_json::Value =
            serde_json::from_str(&cli.succeed(&["pop", "mail", "--wait", "20s"])).expect("is a job");
        let receipt = popped["receipt"].as_str().expect("has a receipt");
        cli.succeed(&["bury", popped["id"].as_str().expect("has an id"), "--receipt", receipt]);
        assert_eq!(popped["id"], id);
    }
    cli.succeed(&["add", "mail", "--id", "alive"]);
    assert_eq!(cli.run(&["dead", "delete", "mail", "--all"]).code, Some(2));
    let refused = on_terminal(cli.command(&["dead", "delete", "mail", "--all"]), "no");
    assert_eq!((refused.code, cli.job("a").is_some()), (Some(1), true), "{}", refused.text);
    assert!(refused.text.contains("delete all dead letters of mail (2 jobs) at"), "{}", refused.text);
    assert_eq!(cli.succeed(&["dead", "delete", "mail", "a"]), "{\"status\":204,\"id\":\"a\"}\n");
    let printed = cli.succeed(&["dead", "delete", "mail", "--all", "--yes", "--text"]);
    assert_eq!(printed, "1 deleted\n");
    assert_eq!(["a", "b", "alive"].map(|id| cli.job(id).is_some()), [false, false, true]);
    assert!(cli.server.stop().success());
}

#[test]
fn a_profile_with_confirm_asks_before_any_change() {
    let cli = Cli::start();
    let command = |words: &[&str]| careful(&cli, words);
    let without_terminal = ended(command(&["add", "mail", "--id", "a"]));
    assert_eq!(without_terminal.code, Some(2), "{without_terminal:?}");
    assert!(without_terminal.stderr.contains("this needs --yes"), "{without_terminal:?}");
    let refused = on_terminal(command(&["add", "mail", "--id", "a"]), "");
    assert_eq!((refused.code, cli.job("a").is_some()), (Some(1), false), "{}", refused.text);
    assert!(refused.text.contains("add a job to mail at http://127.0.0.1:"), "{}", refused.text);
    let confirmed = on_terminal(command(&["add", "mail", "--id", "a"]), "y");
    assert_eq!((confirmed.code, cli.job("a").is_some()), (Some(0), true), "{}", confirmed.text);
    assert_eq!(ended(command(&["get", "a"])).code, Some(0), "a look is no change");
    assert_eq!(ended(command(&["cancel", "a", "--yes"])).code, Some(0));
    assert!(cli.server.stop().success());
}

/// Commands that change something at a server.
const CHANGES: &[&[&str]] = &[
    &["add", "mail"],
    &["add", "--lines", "-"],
    &["pop", "mail"],
    &["finish", "a", "--receipt", "9f"],
    &["release", "a", "--receipt", "9f"],
    &["revoke", "a"],
    &["touch", "a", "--receipt", "9f"],
    &["bury", "a", "--receipt", "9f"],
    &["reschedule", "a", "--now"],
    &["cancel", "a"],
    &["bulk", "reschedule", "mail", "--state", "ready", "--delay", "1h"],
    &["bulk", "requeue", "mail"],
    &["bulk", "revoke", "mail"],
    &["bulk", "delete", "mail", "--state", "ready"],
    &["bulk", "stop", "none"],
    &["dead", "requeue", "mail", "a"],
    &["dead", "delete", "mail", "a"],
    &["topic", "set", "mail", "--ttr", "5s"],
    &["topic", "secret", "add", "mail"],
    &["topic", "secret", "delete", "mail", "9f86d081884c7d65"],
    &["topic", "pause", "mail"],
    &["topic", "resume", "mail"],
    &["topic", "call", "mail"],
    &["topic", "purge", "mail"],
    &["schedule", "put", "daily", "--cron", "@daily", "--topic", "mail"],
    &["schedule", "pause", "daily"],
    &["schedule", "resume", "daily"],
    &["schedule", "run", "daily"],
    &["schedule", "delete", "daily"],
    &["work", "mail", "--until-empty", "--", "true"],
];

/// Commands that only look.
const LOOKS: &[&[&str]] = &[
    &["get", "a"],
    &["dead", "ls", "mail"],
    &["jobs", "mail"],
    &["bulk", "list"],
    &["bulk", "delete", "mail", "--state", "ready", "--dry-run"],
    &["callbacks", "mail"],
    &["workers"],
    &["audit"],
    &["stats"],
    &["whoami"],
    &["topics"],
    &["topic", "show", "mail"],
    &["topic", "secret", "list", "mail"],
    &["schedule", "list"],
    &["schedule", "get", "daily"],
    &["schedule", "next", "daily"],
    &["timeline", "mail"],
    &["top"],
    &["health"],
];

/// Every command of the program with these words before it, by its help.
fn commands_below(cli: &Cli, words: &[String]) -> Vec<Vec<String>> {
    let given: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
    let help = cli.succeed(&given);
    let Some((_, commands)) = help.split_once("Commands:\n") else { return vec![words.to_owned()] };
    let lines = commands.lines().take_while(|line| !line.is_empty());
    // Further lines of a description are indented further.
    let named = lines.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names = named.filter_map(|line| line.split_whitespace().next());
    let inner = names.filter(|name| *name != "help");
    inner.flat_map(|name| commands_below(cli, &[words, &[name.to_owned()]].concat())).collect()
}

#[test]
fn every_change_of_a_careful_profile_needs_a_yes() {
    let cli = Cli::start();
    add_jobs(&cli);
    let start = "2100-01-01T00:00:00Z";
    cli.succeed(&["schedule", "put", "daily", "--every", "1d", "--start", start, "--topic", "mail"]);
    for words in CHANGES {
        let refused = ended(careful(&cli, words));
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{words:?}: {refused:?}");
        assert!(refused.stderr.contains("this needs --yes"), "{words:?}: {refused:?}");
    }
    for id in ["a", "b"] {
        assert_eq!(cli.state(id), Some(("ready".to_owned(), 0)));
    }
    for words in LOOKS {
        let shown = ended(careful(&cli, words));
        assert_eq!(shown.code, Some(0), "{words:?}: {shown:?}");
    }
    let worked = ended(careful(&cli, &["work", "mail", "--until-empty", "--yes", "--", "true"]));
    assert_eq!((worked.code, cli.job("a")), (Some(0), None), "{worked:?}");
    // Each command that reads profiles is in one of the lists.
    let listed: Vec<String> = [CHANGES, LOOKS].concat().iter().map(|words| words.join(" ") + " ").collect();
    let commands = commands_below(&cli, &[]);
    assert!(commands.len() > 30, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let calls = cli.succeed(&words).contains("--profile <NAME>");
        let name = command.join(" ") + " ";
        assert_eq!(listed.iter().any(|listed| listed.starts_with(&name)), calls, "{name}");
    }
    assert!(cli.server.stop().success());
}

/// The lines are typed, so that the command waits for as long as the test does.
#[test]
fn long_work_shows_how_far_it_is_on_a_terminal() {
    let cli = Cli::start();
    let mut terminal = Terminal::start(cli.command(&["add", "mail", "--lines", "-"]), 80, 24);
    terminal.press("{\"id\":\"a\"}\n");
    terminal.wait_for(|line| line.contains("linger: add: 1 line, "));
    terminal.press("no JSON\n");
    terminal.wait_for(|line| {
        line == "linger: add: stdin, line 2: is no definition of a job: expected ident at column 2"
    });
    terminal.wait_for(|line| line.contains("linger: add: 2 lines, "));
    terminal.press("\u{4}");
    let left = terminal.wait();
    assert_eq!(left.code, Some(1), "{left:?}");
    assert!(left.text.contains("1 added, 0 there already, 1 failed"), "{left:?}");
    assert!(!left.text.contains("lines, "), "the line is gone: {left:?}");
    assert!(cli.server.stop().success());
}

#[test]
fn a_row_of_dead_letters_is_cut_to_the_width_of_the_terminal() {
    let cli = Cli::start();
    cli.succeed(&["add", "mail", "--id", "a"]);
    let popped: serde_json::Value =
        serde_json::from_str(&cli.succeed(&["pop", "mail", "--wait", "20s"])).expect("is a job");
    let receipt = popped["receipt"].as_str().expect("has a receipt");
    cli.succeed(&["bury", "a", "--receipt", receipt, "--reason", &"a long reason ".repeat(30)]);
    for columns in [60, 100] {
        let left = Terminal::start(cli.command(&["dead", "ls", "mail"]), columns, 24).wait();
        let row = left.text.trim_end();
        assert!(row.starts_with("a  died ") && row.ends_with('…'), "{left:?}");
        assert_eq!(row.chars().count(), usize::from(columns), "{left:?}");
    }
    assert!(cli.server.stop().success());
}

#[test]
fn secrets_do_not_go_to_a_terminal() {
    let cli = Cli::start();
    add_jobs(&cli);
    for command in ["export", "backup"] {
        let shown = on_terminal(cli.command(&[command, "-"]), "");
        assert_eq!(shown.code, Some(2), "{}", shown.text);
        assert!(shown.text.contains("cannot go to a terminal"), "{}", shown.text);
        assert!(!shown.text.contains("linger_export") && !shown.text.contains("SQLite"), "{}", shown.text);
    }
    assert!(cli.server.stop().success());
}
