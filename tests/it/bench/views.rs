//! What `linger bench` measures of the calls of the dashboard: the scenario `look`, and lateness beside viewers.

use std::fs;

use linger::{
    auth::{Scope, token_entry},
    job::TopicPattern,
};

use super::{assert_empty, bench, json, metric, run_scenario, topics};
use crate::harness::{
    process::{Server, stderr},
    redis,
};

/// The steps of `look`, each with or without a rate, and with or without percentiles.
const STEPS: [(&str, bool, bool); 13] = [
    ("add, 100 a request", true, false),
    ("timeline of 24 h, a topic", false, true),
    ("timeline of 24 h, all topics", false, true),
    ("timeline of 10 years, a topic", false, true),
    ("timeline of 10 years, all topics", false, true),
    ("50 jobs, all topics", false, true),
    ("50 jobs, a topic of 1 %", false, true),
    ("50 jobs, a topic of 100 jobs", false, true),
    ("50 jobs, all topics, latest first", false, true),
    ("search of ids, all topics", false, true),
    ("add before a bulk change", false, true),
    ("add beside a bulk change", false, true),
    ("stop a bulk change", false, true),
];

#[test]
fn look_is_measured() {
    let found = run_scenario("look", &[], &STEPS);
    for row in 1..9 {
        assert_eq!(found["rows"][row]["latency_ms"]["count"], 200, "{found}");
    }
    // The first pages have more than enough jobs, and a search examines the rest.
    assert!(metric(&found, 5, "examined_at_most") >= 50.0 && metric(&found, 5, "short") <= 200.0, "{found}");
    assert!(metric(&found, 9, "examined_at_most") > 100.0, "{found}");
    // The small topics have two jobs each, and the third of the nine large ones has 22 of the others.
    assert_eq!((metric(&found, 10, "count"), metric(&found, 11, "changed")), (200.0, 22.0), "{found}");
    let added = metric(&found, 10, "count") + metric(&found, 11, "count");
    assert_eq!(found["totals"]["jobs"].as_f64(), Some(200.0 + added), "{found}");
    assert!(metric(&found, 12, "changed") >= 1.0, "{found}");
}

#[test]
fn look_leaves_nothing_in_redis() {
    let directory = tempfile::tempdir().expect("a directory");
    let (url, prefix) = (redis::shared().url(), redis::fresh_prefix());
    let (words, variables) =
        (["--store", "redis", "--redis-url", &url], [("LINGER__REDIS__PREFIX", &prefix[..])]);
    let output =
        bench(&[&["look", "--json", "--jobs", "20"], &words[..]].concat(), &variables, directory.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found = json(&output);
    assert_eq!(found["server"]["engine"], "redis");
    assert_eq!(found["rows"].as_array().map(Vec::len), Some(STEPS.len()));
    assert_empty(directory.path());
    let server = Server::serve(&words, &variables, directory.path());
    assert_eq!(topics(&server), [""; 0]);
}

#[test]
fn look_counts_only_its_own_jobs_of_a_running_server() {
    let (directory, store) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
    let server = Server::serve(&[], &[], store.path());
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"theirs","delay":"2h"}"#).status, 201);
    let before = server.call("GET", "/topics", "").body;
    let (url, pid) = (server.url(), server.pid().to_string());
    let options = ["look", "--json", "--jobs", "30", "--url", &url, "--pid", &pid];
    let output = bench(&options, &[], directory.path());
    assert_eq!((output.status.code(), &*stderr(&output)), (Some(0), ""), "{output:?}");
    assert_eq!(server.call("GET", "/topics", "").body, before);
    // A process that is named twice is counted twice.
    let once = metric(&json(&output), 0, "resident_bytes");
    let output = bench(&[&options[..], &["--pid", &pid]].concat(), &[], directory.path());
    assert!(metric(&json(&output), 0, "resident_bytes") > 1.5 * once, "{output:?}");
}

#[test]
fn lateness_beside_viewers_is_measured() {
    let steps = [
        ("at rest, before viewers", false, false),
        ("3 viewers, no jobs", false, true),
        ("at rest, after viewers", false, false),
        ("add, 400/s", true, true),
        ("delivered after due", true, true),
        ("add, 400/s, 3 viewers", true, true),
        ("delivered after due, 3 viewers", true, true),
        ("3 viewers, 400 jobs/s", false, true),
    ];
    let found = run_scenario("lateness", &["--rate", "400", "--seconds", "2", "--viewers", "3"], &steps);
    // Each viewer makes three calls every two seconds.
    assert!(found["rows"][1]["latency_ms"]["count"].as_u64().is_some_and(|calls| calls >= 9), "{found}");
    // Viewers have the store read.
    assert!(metric(&found, 1, "store_calls") > metric(&found, 0, "store_calls"), "{found}");
    assert_eq!(found["rows"][6]["latency_ms"]["count"], 200);
    assert!(metric(&found, 6, "p99_against_alone") > 0.0, "{found}");
    assert!(metric(&found, 6, "viewers_cpu_percent").abs() < 100.0, "{found}");
    assert_eq!(found["totals"]["jobs"], 400);
}

#[test]
fn a_refused_view_ends_the_bench() {
    let (directory, store) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
    let file = store.path().join("tokens.toml");
    // It may do everything with the topics of the bench, and read no others.
    let topics = TopicPattern::parse("bench-*").expect("is a pattern");
    fs::write(&file, token_entry("own", "own", &[Scope::Admin], &[topics])).expect("can be written");
    let variables = [("LINGER__AUTH__TOKENS_FILE", file.to_str().expect("is text"))];
    let server = Server::serve(&[], &variables, store.path());
    let url = server.url();
    for (words, call) in
        [(&["look"][..], "timeline"), (&["lateness", "--viewers", "2", "--seconds", "1"], "view")]
    {
        let words = [words, &["--jobs", "20", "--url", &url]].concat();
        let output = bench(&words, &[("LINGER_BENCH_TOKEN", "own")], directory.path());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(
            stderr(&output).contains(&format!("{call}: the server answers 403: forbidden")),
            "{output:?}"
        );
    }
}
