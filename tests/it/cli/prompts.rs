//! Questions before a change: on a terminal they are asked, elsewhere `--yes` is needed.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    process::Command,
};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::{Cli, ended};

/// What a command showed on a terminal, and its exit code.
struct Shown {
    code: Option<i32>,
    text: String,
}

/// Runs a command on a terminal of its own, and types an answer once it asks.
#[track_caller]
fn on_terminal(mut command: Command, answer: &str) -> Shown {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are terminals");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("the terminal is ours");
    let name = ptsname(&terminal, Vec::new()).expect("it has a name");
    let name = name.to_str().expect("is text");
    let open = || OpenOptions::new().read(true).write(true).open(name).expect("can be opened");
    let mut child = command.stdin(open()).stdout(open()).stderr(open()).spawn().expect("linger starts");
    // The terminal ends for its reader once nobody has it open.
    drop(command);
    let (mut terminal, mut text, mut has_answered) = (File::from(terminal), String::new(), false);
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
    assert!(wrong.text.contains("delete every job of mail at http://127.0.0.1:"), "{}", wrong.text);
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
    assert_eq!(cli.succeed(&["dead", "delete", "mail", "a"]), "{\"status\":204,\"id\":\"a\"}\n");
    let printed = cli.succeed(&["dead", "delete", "mail", "--all", "--yes", "--text"]);
    assert_eq!(printed, "1 deleted\n");
    assert_eq!(["a", "b", "alive"].map(|id| cli.job(id).is_some()), [false, false, true]);
    assert!(cli.server.stop().success());
}

#[test]
fn a_profile_with_confirm_asks_before_any_change() {
    let cli = Cli::start();
    cli.succeed(&["profile", "set", "prod", "--url", &cli.server.url(), "--confirm", "true"]);
    let command = |words: &[&str]| {
        let mut command = cli.command(words);
        command.env_remove("LINGER_URL").env("LINGER_PROFILE", "prod");
        command
    };
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
