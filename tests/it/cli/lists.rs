//! `linger jobs`, `linger bulk` and what a server says of itself, with the default settings of a server.

use serde_json::{Value, json};

use super::{Cli, matches};

/// Adds jobs of two topics, one of which has a dead letter and a job that a worker has.
fn fill(cli: &Cli) {
    for (id, topic, delay) in [
        ("o:1", "order", "1h"),
        ("o:2", "order", "2h"),
        ("m:1", "mail", "1h"),
        ("m:2", "mail", "0s"),
        ("m:3", "mail", "0s"),
    ] {
        cli.succeed(&["add", topic, "1", "--id", id, "--delay", delay, "--ttr", "1h"]);
    }
    cli.succeed(&["pop", "mail", "--worker", "w1"]);
    let popped: Value = serde_json::from_str(&cli.succeed(&["pop", "mail"])).expect("is a job");
    let text = |member: &str| popped[member].as_str().expect("is text").to_owned();
    cli.succeed(&["bury", &text("id"), "--receipt", &text("receipt"), "--reason", "http 503 from psp"]);
}

fn ids(cli: &Cli, words: &[&str]) -> Vec<String> {
    let listed = cli.succeed(words);
    let id =
        |line: &str| serde_json::from_str::<Value>(line).expect("is JSON")["id"].as_str().map(str::to_owned);
    listed.lines().map(|line| id(line).expect("has an id")).collect()
}

#[test]
fn jobs_are_listed_by_what_flags_say() {
    let cli = Cli::start();
    fill(&cli);
    for (words, expected) in [
        (&["jobs"][..], &["o:1", "m:1", "o:2"][..]),
        (&["jobs", "--latest", "--limit", "1"], &["o:2"]),
        (&["jobs", "order", "--all"], &["o:1", "o:2"]),
        (&["jobs", "--id-prefix", "m:"], &["m:1"]),
        (&["jobs", "--to", "2020-01-01 00:00"], &[]),
        (&["jobs", "mail", "--state", "reserved"], &["m:2"]),
        (&["jobs", "--worker", "w1"], &["m:2"]),
        (&["jobs", "mail", "--worker", "w"], &[]),
        (&["jobs", "--reason", "http 503"], &["m:3"]),
        (&["jobs", "--reason", "timeout"], &[]),
    ] {
        assert_eq!(ids(&cli, words), expected, "{words:?}");
    }
    let text = |words: &[&str]| cli.succeed(&[words, &["--text"]].concat());
    for (words, expected) in [
        (&["jobs", "order", "--limit", "1"][..], "order  o:1  delayed  due in [..]"),
        (&["jobs", "--state", "reserved"], "mail  m:2  reserved  until [..]  by w1"),
        (&["jobs", "--state", "dead"], "mail  m:3  dead  died [..] ago  1 attempt  http 503 from psp"),
    ] {
        let printed = text(words);
        assert!(matches(expected, printed.trim_end()), "{printed}");
    }
    let refused = cli.run(&["jobs", "--from", "tomorrow"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("--from"), "{refused:?}");
    assert!(cli.server.stop().success());
}

#[test]
fn all_jobs_that_match_are_counted_and_changed() {
    let cli = Cli::start();
    fill(&cli);
    let text = |words: &[&str]| cli.succeed(&[words, &["--text"]].concat()).trim_end().to_owned();
    let counted = text(&["bulk", "delete", "order", "--state", "delayed", "--dry-run"]);
    assert!(
        matches("order  o:1  delayed  due in [..]\norder  o:2  delayed  due in [..]\n2 jobs match", &counted),
        "{counted}"
    );
    assert!(cli.job("o:1").is_some(), "nothing is deleted");
    let due = |id: &str| cli.job(id).map(|job| job["due_at"].clone());
    let before = due("o:2");
    assert_eq!(text(&["bulk", "reschedule", "order", "--limit", "1", "--shift", "-30m"]), "1 rescheduled");
    assert_eq!(due("o:2"), before, "the earliest comes first");
    assert_eq!(
        text(&["bulk", "reschedule", "--all-topics", "--id-prefix", "o:2", "--at", "2100-01-01T00:00:00Z"]),
        "1 rescheduled"
    );
    assert_eq!(due("o:2"), Some(json!("2100-01-01T00:00:00.000Z")));
    assert_eq!(
        text(&["bulk", "requeue", "mail", "--reason", "http 503", "--delay", "1h", "--spread", "1m"]),
        "1 requeued"
    );
    assert_eq!(cli.job("m:3").expect("lives")["state"], "delayed");
    assert_eq!(text(&["bulk", "revoke", "mail", "--reason", "its host is gone"]), "1 revoked");
    assert_eq!(cli.job("m:2").expect("lives")["reason"], "revoked by 127.0.0.1: its host is gone");
    let refused = cli.run(&["bulk", "delete", "order", "--state", "delayed"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("--yes"), "{refused:?}");
    assert_eq!(text(&["bulk", "delete", "order", "--state", "delayed", "--yes"]), "2 deleted");
    assert_eq!(text(&["bulk", "delete", "order", "--state", "delayed", "--yes"]), "0 jobs match");
    let operations = text(&["bulk", "list"]);
    // A count that takes long is an operation, too.
    let lines: Vec<_> = operations.lines().filter(|line| !line.contains("counted")).collect();
    assert!(lines.len() == 5 && matches("[..]  done  2 deleted  [..]", lines[0]), "{operations}");
    let absent = cli.run(&["bulk", "stop", "none"]);
    assert_eq!(absent.code, Some(3), "{absent:?}");
    for words in [
        &["bulk", "delete"][..],
        &["bulk", "reschedule", "order"],
        &["bulk", "delete", "order", "--all-topics"],
    ] {
        assert_eq!(cli.run(words).code, Some(2), "{words:?}");
    }
    assert!(cli.server.stop().success());
}

#[test]
fn a_server_says_what_there_is_and_who_asks() {
    let cli = Cli::start();
    fill(&cli);
    let text = |words: &[&str]| cli.succeed(&[words, &["--text"]].concat());
    let stats = text(&["stats", "--by-topic"]);
    let lines: Vec<_> =
        stats.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines[..2], ["DELAYED READY RESERVED DEAD", "3 0 1 1"], "{stats}");
    assert!(lines[3].starts_with("IN THE LAST ADDED DELIVERED FINISHED DIED"), "{stats}");
    assert!(lines[4].starts_with("minute 5 2 0 1") && lines[5].starts_with("hour 5 2 0 1"), "{stats}");
    assert!(
        lines[6].starts_with("minute, mail 3 2 0 1") && lines[7].starts_with("minute, order 2 0 0 0"),
        "{stats}"
    );
    let json: Value = serde_json::from_str(&cli.succeed(&["stats"])).expect("is JSON");
    assert_eq!(json["counts"]["dead"], 1);
    let who = text(&["whoami"]);
    assert_eq!(who.trim_end(), "no token  admin  all topics");
    for words in [&["callbacks", "mail"][..], &["callbacks"]] {
        assert_eq!(text(words).trim_end(), "no endpoint was called lately");
    }
    let workers = text(&["workers", "mail"]);
    let words: Vec<Vec<&str>> = workers.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["TOPIC", "WORKER", "WAITING", "POLLED", "RESERVED", "OLDEST", "FROM"], "{workers}");
    assert_eq!(
        (words[1][..3].to_vec(), words[1].last()),
        (vec!["mail", "w1", "0"], Some(&"127.0.0.1")),
        "{workers}"
    );
    assert_eq!(
        text(&["workers", "order"]).trim_end(),
        "no worker has polled in the last minute or has reserved a job"
    );
    assert!(cli.server.stop().success());
}
