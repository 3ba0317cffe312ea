//! What `linger topic set` changes and leaves, and the secrets of a topic, with the default settings of a server.

use serde_json::{Value, json};

use super::Cli;

#[test]
fn a_callback_is_set_changed_and_unset_member_by_member() {
    let cli = Cli::start();
    let url = "http://127.0.0.1:59999/hook";
    let limits = ["--callback-rate", "2.5", "--callback-concurrency", "3", "--callback-timeout", "5s"];
    cli.succeed(&[&["topic", "set", "hooks", "--callback-url", url][..], &limits].concat());
    let callback =
        |cli: &Cli| cli.server.call("GET", "/topics/hooks", "").json()["settings"]["callback"].clone();
    let whole = json!({"url": url, "method": "POST", "timeout": 5, "rate": 2.5, "concurrency": 3});
    assert_eq!(callback(&cli), whole);
    let shown = cli.succeed(&["topic", "set", "hooks", "--ttr", "1m", "--text"]);
    assert_eq!(callback(&cli), whole, "another setting leaves it");
    let line = shown.lines().find(|line| line.contains("callback")).unwrap_or_default();
    assert_eq!(
        line.trim(),
        format!("callback         POST {url}, at most 2.5/s, 3 at a time, 5s for an answer")
    );
    cli.succeed(&[
        "topic",
        "set",
        "hooks",
        "--unset",
        "callback-rate,callback-timeout",
        "--callback-concurrency",
        "8",
    ]);
    assert_eq!(callback(&cli), json!({"url": url, "method": "POST", "concurrency": 8}));
    cli.succeed(&["topic", "set", "hooks", "--unset", "callback"]);
    assert_eq!(callback(&cli), Value::Null);
    let wrong = cli.run(&["topic", "set", "hooks", "--callback-url", "ftp://a"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("/callback/url"), "{wrong:?}");
    assert!(cli.server.stop().success());
}

#[test]
fn secrets_are_added_listed_and_deleted() {
    let cli = Cli::start();
    let list = |cli: &Cli| cli.succeed(&["topic", "secret", "list", "hooks", "--text"]);
    assert_eq!(list(&cli).trim_end(), "the calls of this topic are not signed");
    let added: Value =
        serde_json::from_str(&cli.succeed(&["topic", "secret", "add", "hooks"])).expect("is JSON");
    assert!(added["secret"].as_str().is_some_and(|key| key.starts_with("whsec_")), "{added}");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let own = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    std::fs::write(file.path(), format!("{own}\n")).expect("can be written");
    let from_file =
        ["topic", "secret", "add", "hooks", "--file", file.path().to_str().expect("is text"), "--text"];
    let printed = cli.succeed(&from_file);
    assert!(printed.contains(own) && printed.contains("No later call shows it"), "{printed}");
    let listed = list(&cli);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(!listed.contains("whsec_"), "{listed}");
    let third = cli.run(&["topic", "secret", "add", "hooks"]);
    assert!(third.code == Some(4) && third.stderr.contains("too_many_secrets"), "{third:?}");
    let first = added["id"].as_str().expect("has an id");
    cli.succeed(&["topic", "secret", "delete", "hooks", first]);
    let left = list(&cli);
    assert!(left.lines().count() == 1 && !left.contains(first), "{left}");
    let missing = cli.run(&["topic", "secret", "add", "hooks", "--file", "/no/such/file"]);
    assert!(missing.code == Some(2) && missing.stderr.contains("/no/such/file"), "{missing:?}");
    assert!(cli.server.stop().success());
}
