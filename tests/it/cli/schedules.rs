//! `linger schedule`, with the default settings of a server. The schedules have no run while a test lasts, except for those that
//! a test runs.

use serde_json::{Value, json};

use super::{Cli, matches, terminal::Terminal};

const START: &str = "2100-01-01T00:00:00Z";

/// Makes a schedule of the topic report by flags.
fn put(cli: &Cli, name: &str, more: &[&str]) -> String {
    let words = ["schedule", "put", name, "--topic", "report", "--start", START];
    cli.succeed(&[&words, more].concat())
}

/// A schedule as the server has it.
#[track_caller]
fn schedule(cli: &Cli, name: &str) -> Value {
    let response = cli.server.call("GET", &format!("/schedules/{name}"), "");
    assert_eq!(response.status, 200, "{name}");
    response.json()
}

#[test]
fn flags_and_documents_make_the_same_schedule() {
    let cli = Cli::start();
    let flags = [
        "--cron",
        "30 9 * * MON-FRI",
        "--time-zone",
        "Europe/Berlin",
        "--end",
        "2101-01-01T01:00:00+01:00",
        "--jitter",
        "5m",
        "--overlap",
        "allow",
        "--missed",
        "all",
        "--missed-within",
        "1h",
        "--body",
        r#"{"kind":  "daily"}"#,
        "--ttr",
        "2m",
        "--max-attempts",
        "3",
        "--retry",
        "15s,3m",
        "--callback",
        "http://127.0.0.1:8080/hook",
        "--expire",
        "1d",
        "--on-expiry",
        "delete",
    ];
    let printed = put(&cli, "daily", &[&flags[..], &["--text"]].concat());
    assert!(matches("daily  active  next in [..] (2100-01-01 [..])  (new)", &printed), "{printed}");
    let made = schedule(&cli, "daily");
    for (member, value) in [
        ("cron", json!("30 9 * * MON-FRI")),
        ("time_zone", json!("Europe/Berlin")),
        ("start", json!("2100-01-01T00:00:00.000Z")),
        ("end", json!("2101-01-01T00:00:00.000Z")),
        ("jitter", json!(300)),
        ("overlap", json!("allow")),
        ("missed", json!("all")),
        ("missed_within", json!(3_600)),
        (
            "job",
            json!({ "topic": "report", "ttr": "120000ms", "max_attempts": 3, "retry": ["15000ms", "180000ms"],
                "expire": "86400000ms", "on_expiry": "delete", "callback": { "url": "http://127.0.0.1:8080/hook" },
                "body": { "kind": "daily" } }),
        ),
    ] {
        assert_eq!(made[member], value, "{member}");
    }
    // The definition in a file is the same one, and from stdin, too.
    let definition = cli.succeed(&["schedule", "get", "daily", "--definition"]);
    assert!(definition.contains(r#""body":{"kind":  "daily"}"#), "{definition}");
    std::fs::write(cli.home.path().join("daily.json"), &definition).expect("can be written");
    cli.succeed(&["schedule", "put", "daily", "@daily.json"]);
    assert_eq!(schedule(&cli, "daily"), made, "the definition is complete");
    cli.succeed(&["schedule", "put", "copy", &definition]);
    assert_eq!(cli.succeed(&["schedule", "get", "copy", "--definition"]), definition);

    let printed = put(&cli, "notes", &["--every", "90s", "--raw", "--body", "@daily.json", "--json"]);
    let notes: Value = serde_json::from_str(&printed).expect("is a schedule");
    assert_eq!((&notes["every"], &notes["job"]["body"]), (&json!(90), &json!(definition)));
    assert!(cli.server.stop().success());
}

#[test]
fn schedules_are_listed_by_name_and_cut_to_the_width_of_a_terminal() {
    let cli = Cli::start();
    put(&cli, "daily", &["--cron", "30 9 * * MON-FRI", "--time-zone", "Europe/Berlin"]);
    put(&cli, "once", &["--every", "15m", "--end", START]);
    let listed = cli.succeed(&["schedule", "list", "--text"]);
    let expected = "\
NAME   STATE   NEXT[..]TOPIC   WHEN
daily  active  in [..]  report  30 9 * * MON-FRI  Europe/Berlin
once   active  in [..]  report  every 15m";
    assert!(matches(expected, &listed), "{listed}");
    let lines = cli.succeed(&["schedule", "list"]);
    let names =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("is JSON")["name"].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["daily", "once"]);

    let next: Value = serde_json::from_str(&cli.succeed(&["schedule", "next", "once"])).expect("is JSON");
    let only = json!({ "next": ["2100-01-01T00:00:00.000Z"], "clock_changes": [] });
    assert_eq!(next, only, "no run is after the end");

    put(&cli, "long", &["--cron", "0,5,10,15,20,25,30,35,40,45,50 9 * * *", "--time-zone", "Europe/Berlin"]);
    let left = Terminal::start(cli.command(&["schedule", "list"]), 60, 24).wait();
    let lines: Vec<_> = left.text.trim_end().lines().map(|line| line.chars().count()).collect();
    assert_eq!((left.code, lines.len(), lines.iter().max()), (Some(0), 4, Some(&60)), "{left:?}");
    assert!(cli.server.stop().success());
}

#[test]
fn a_dry_run_shows_the_runs_and_the_changes_of_clocks() {
    let cli = Cli::start();
    let nightly = ["schedule", "put", "nightly", "--topic", "report", "--cron", "30 2 * * *"];
    let put = |more: &[&str]| cli.run(&[&nightly, more].concat());
    let shown = put(&["--time-zone", "Europe/Berlin", "--dry-run", "--text"]);
    let lines: Vec<&str> = shown.stdout.lines().collect();
    // Right after the gap of the spring, a run is at a full hour.
    assert!(
        lines[..10].iter().all(|line| matches("20[..]-[..]-[..]T0[..]:[..]:00Z  in [..]", line)),
        "{shown:?}"
    );
    for clocks in [
        "clocks skip 20[..]-03-[..] 02:30:00: that run is at 20[..]-03-[..]T01:00:00Z",
        "clocks repeat 20[..]-10-[..] 02:30:00: that run is at 20[..]-10-[..]T00:30:00Z",
    ] {
        assert!(lines[10..].iter().any(|line| matches(clocks, line)), "{shown:?}");
    }
    assert_eq!(cli.succeed(&["schedule", "list"]), "");
    let refused = put(&["--time-zone", "Europe/Berlinn", "--dry-run"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("did you mean Europe/Berlin?"), "{refused:?}");
    assert!(cli.server.stop().success());
}

#[test]
fn runs_have_ids_of_their_own_and_outlive_their_schedule() {
    let cli = Cli::start();
    put(&cli, "daily", &["--cron", "@daily", "--body", "7"]);
    let runs = [(); 2].map(|()| {
        let run = cli.succeed(&["schedule", "run", "daily"]);
        serde_json::from_str::<Value>(&run).expect("is a job")["id"].as_str().expect("has an id").to_owned()
    });
    assert!(runs.iter().all(|id| id.starts_with("run:daily:")) && runs[0] != runs[1], "{runs:?}");
    let deleted = cli.run(&["schedule", "delete", "none", "daily"]);
    assert_eq!(
        (deleted.code, deleted.stdout.as_str()),
        (Some(1), "{\"status\":204,\"name\":\"daily\"}\n"),
        "{deleted:?}"
    );
    assert!(deleted.stderr.starts_with("linger: schedule delete: none: "), "{deleted:?}");
    for id in runs {
        assert_eq!(cli.job(&id).expect("stays")["body"], 7);
    }
    assert!(cli.server.stop().success());
}
