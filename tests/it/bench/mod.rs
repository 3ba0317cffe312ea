//! `linger bench` as a program: each scenario against a server of its own and against a running one, what it leaves behind,
//! and what it refuses. Servers that lose jobs, deliver them twice or too early are in `faulty_server`.

mod faulty_server;
mod interruption;
mod views;

use std::{fs, path::Path, process::Output};

use linger::auth::{Scope, token_entry};
use serde_json::Value;

use crate::harness::{
    process::{Server, linger, run, stderr, stdout},
    redis,
};

/// Runs a bench in `directory`, which is also the directory for temporary files.
fn bench(arguments: &[&str], variables: &[(&str, &str)], directory: &Path) -> Output {
    let mut command = linger(&["bench"], directory);
    command.args(arguments).env("TMPDIR", directory).envs(variables.iter().copied());
    command.output().expect("linger runs")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[track_caller]
fn assert_empty(directory: &Path) {
    let left: Vec<_> = fs::read_dir(directory).expect("a directory").collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The names of a server's topics.
fn topics(server: &Server) -> Vec<String> {
    let found = server.call("GET", "/topics", "").json()["topics"].clone();
    let name = |topic: &Value| topic["topic"].as_str().expect("a name").to_owned();
    found.as_array().expect("a list").iter().map(name).collect()
}

/// How many schedules share their moments: so few that a busy machine has put all of them before the first one.
const FEW: &str = "20";

/// Runs a scenario with 200 jobs, or few schedules, against a server of its own. Asserts that it has these steps in this order, each with or
/// without a rate, and with or without percentiles.
#[track_caller]
fn run_scenario(scenario: &str, options: &[&str], steps: &[(&str, bool, bool)]) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    let jobs = if scenario == "schedules" { FEW } else { "200" };
    let arguments = [&[scenario, "--json", "--jobs", jobs, "--connections", "8"], options].concat();
    let output = bench(&arguments, &[], directory.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found = json(&output);
    let rows = found["rows"].as_array().expect("a list");
    let steps_found: Vec<_> = rows
        .iter()
        .map(|row| {
            assert_eq!(row["scenario"], scenario);
            let times = &row["latency_ms"];
            if let (Some(p50), Some(max)) = (times["p50"].as_f64(), times["max"].as_f64()) {
                assert!(0.0 < max && p50 <= max, "{row}");
            }
            (row["step"].as_str().expect("a name"), row["per_second"].is_f64(), times.is_object())
        })
        .collect();
    assert_eq!(steps_found, steps);
    for count in ["lost", "doubled", "early"] {
        assert_eq!(found["totals"][count], 0, "{found}");
    }
    assert!(found["failure"].is_null() && found["server"]["own"] == true, "{found}");
    assert_eq!(found["server"]["durability"], "always");
    assert_empty(directory.path());
    found
}

/// A number in a row of the result.
fn metric(found: &Value, row: usize, name: &str) -> f64 {
    found["rows"][row][name].as_f64().unwrap_or_else(|| panic!("no {name} in row {row} of {found}"))
}

/// Runs the scenario `throughput`, whose steps have this suffix.
fn run_throughput(options: &[&str], suffix: &str) -> Value {
    let steps = ["add", "pop", "finish", "pop and finish"];
    let named = steps.map(|step| (format!("{step}{suffix}"), step != "pop and finish"));
    let shown: Vec<_> = named.iter().map(|(name, has_times)| (&name[..], true, *has_times)).collect();
    run_scenario("throughput", options, &shown)
}

#[test]
fn throughput_with_single_jobs_is_measured() {
    let found = run_throughput(&[], "");
    assert_eq!(found["totals"]["jobs"], 200);
    assert_eq!(found["rows"][0]["delay"], "constant 1s");
    assert_eq!(found["rows"][0]["latency_ms"]["count"], 200);
    assert!(
        metric(&found, 0, "resident_bytes") > 1e6 && metric(&found, 3, "cpu_us_per_job") > 0.0,
        "{found}"
    );
}

#[test]
fn throughput_with_batches_is_measured() {
    let found = run_throughput(&["--batch", "50", "--delay", "random"], ", 50 a request");
    assert_eq!(found["totals"]["jobs"], 200);
    assert_eq!(found["rows"][0]["delay"], "random 0s to 2s");
    assert_eq!(found["rows"][0]["latency_ms"]["count"], 4);
}

#[test]
fn lateness_is_measured() {
    let steps = [("add, 400/s", true, true), ("delivered after due", true, true)];
    let found = run_scenario("lateness", &["--rate", "400"], &steps);
    assert_eq!(found["rows"][1]["latency_ms"]["count"], 200);
    assert_eq!(found["totals"]["jobs"], 200);
}

#[test]
fn parked_polls_are_measured() {
    let steps =
        [("park polls", true, false), ("polls at rest", false, false), ("job to a parked poll", false, true)];
    let found = run_scenario("parked", &["--seconds", "1"], &steps);
    assert_eq!(found["rows"][0]["count"], 8);
    assert!(metric(&found, 1, "cpu_percent") < 100.0 && found["rows"][0]["memory_per_poll_bytes"].is_f64());
    assert_eq!(found["rows"][2]["latency_ms"]["count"], 200);
    assert_eq!(found["totals"]["jobs"], 200);
}

#[test]
fn the_bench_raises_the_limit_of_connections_per_address_of_its_own_server() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = [("LINGER__SERVER__MAX_CONNECTIONS_PER_ADDRESS", "2")];
    let output =
        bench(&["throughput", "--json", "--jobs", "40", "--connections", "8"], &options, directory.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(json(&output)["totals"]["jobs"], 40);
}

#[test]
fn a_backlog_is_measured() {
    let found = run_scenario("backlog", &["--batch", "30"], &[("add up to 200, 30 a request", true, true)]);
    assert!(metric(&found, 0, "disk_per_job_bytes") > 256.0, "{found}");
    assert_eq!(found["rows"][0]["delay"], "constant 86400s");
    assert_eq!(found["totals"]["jobs"], 200);
}

#[test]
fn a_burst_is_measured() {
    let steps = [
        ("delivered after due", true, true),
        ("other topic before", false, true),
        ("other topic meanwhile", false, true),
    ];
    let found = run_scenario("burst", &["--seconds", "5"], &steps);
    assert_eq!(found["rows"][0]["latency_ms"]["count"], 200);
    assert!(metric(&found, 0, "first_ms") <= metric(&found, 0, "last_ms"), "{found}");
    let others = metric(&found, 1, "count") + metric(&found, 2, "count");
    assert_eq!(found["totals"]["jobs"].as_f64(), Some(200.0 + others));
}

#[test]
fn schedules_are_measured() {
    let steps = [("put", true, true), ("delivered after its moment", false, true)];
    let found = run_scenario("schedules", &["--schedules", "120", "--batch", "10"], &steps);
    assert_eq!(found["rows"][0]["latency_ms"]["count"], 120);
    assert_eq!(found["rows"][1]["latency_ms"]["count"], 60, "three moments");
    assert_eq!(found["totals"]["jobs"], 60);
}

#[test]
fn callbacks_are_measured() {
    let steps = [
        ("hanging calls", false, false),
        ("bare POST", true, false),
        ("pop and finish", true, false),
        ("call", true, false),
        ("add, 200/s", true, true),
        ("delivered after due", true, true),
        ("called after due, 200/s", true, true),
        ("called after due, alone, 100/s", true, true),
        ("beside 1 that hang, 100/s", true, true),
        ("beside 20 that hang, 100/s", true, true),
        ("pop before", false, true),
        ("pop beside a slow endpoint", false, true),
        ("at rest, no topics", false, false),
        ("topics at rest", false, false),
    ];
    let found = run_scenario("callbacks", &["--seconds", "1", "--rate", "200"], &steps);
    assert!(found["rows"][0]["memory_per_call_bytes"].is_f64(), "{found}");
    for name in ["cpu_against_bare", "cpu_against_pop", "rate_against_bare"] {
        assert!(metric(&found, 3, name) > 0.0, "{found}");
    }
    // An endpoint that has never answered is called once at a time.
    for (row, most) in [(0, 60.0), (8, 1.0), (9, 20.0)] {
        assert!((1.0..=most).contains(&metric(&found, row, "hanging_calls")), "{found}");
    }
    assert!((1.0..=64.0).contains(&metric(&found, 11, "reserved")), "{found}");
    assert_eq!(metric(&found, 13, "count"), 200.0, "{found}");
    // Two steps of 200 jobs for the cost, two of a second at 200/s, three at 100/s, and two of 100 pops.
    assert_eq!(found["totals"]["jobs"], 400 + 400 + 300 + 200);
}

#[test]
fn callbacks_and_schedules_leave_a_running_server_unchanged() {
    let (directory, store) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
    let server = Server::serve(&[], &[], store.path());
    let read = || ["/topics", "/schedules"].map(|path| server.call("GET", path, "").body);
    let (before, url) = (read(), server.url());
    for options in [&["callbacks", "--seconds", "1", "--rate", "50"][..], &["schedules", "--schedules", "60"]]
    {
        let options = [options, &["--jobs", "40", "--connections", "4", "--url", &url]].concat();
        let output = bench(&options, &[], directory.path());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(stderr(&output), "");
        assert_eq!(read(), before);
    }
}

#[test]
fn by_default_every_short_scenario_runs_on_a_server_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    // Enough for the jobs of a burst to be added before they are due, also on a machine that stands still.
    let options = ["--json", "--jobs", "20", "--connections", "4", "--seconds", "4", "--rate", "100"];
    let output = bench(&options, &[], directory.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found = json(&output);
    let mut steps_found: Vec<_> =
        found["rows"].as_array().expect("a list").iter().map(|row| &row["scenario"]).collect();
    steps_found.dedup();
    assert_eq!(steps_found, ["throughput", "lateness", "parked", "backlog", "burst"]);
    // Throughput runs twice, and the burst has a second topic.
    let others = metric(&found, 15, "count") + metric(&found, 16, "count");
    assert_eq!(found["totals"]["jobs"].as_f64(), Some(6.0 * 20.0 + others), "{found}");
    // The backlog's disk use is its own, because no other scenario left free pages behind.
    let backlog =
        found["rows"].as_array().expect("a list").iter().position(|row| row["scenario"] == "backlog");
    assert!(metric(&found, backlog.expect("is there"), "disk_per_job_bytes") > 256.0, "{found}");
    assert_empty(directory.path());
}

#[test]
fn a_running_server_is_left_unchanged() {
    let (directory, store) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
    let server = Server::serve(&[], &[], store.path());
    for id in ["a", "b", "c"] {
        let job =
            format!(r#"{{"topic":"theirs","id":"{id}","delay":{}}}"#, if id == "a" { "0" } else { "\"1h\"" });
        assert_eq!(server.call("POST", "/jobs", &job).status, 201);
    }
    let before = server.call("GET", "/topics", "").body;
    let (url, pid) = (server.url(), server.pid().to_string());
    let options =
        ["all", "--jobs", "40", "--connections", "4", "--seconds", "4", "--url", &url, "--pid", &pid];
    let output = bench(&options, &[], directory.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let table = stdout(&output);
    assert!(table.starts_with(&format!("linger {} at {url}\n", env!("CARGO_PKG_VERSION"))), "{table}");
    assert!(
        table.contains("durability always") && table.contains("\nlost 0, doubled 0, early 0 (of "),
        "{table}"
    );
    for scenario in ["throughput", "lateness", "parked", "backlog", "burst"] {
        assert!(table.contains(&format!("\n{scenario} ")), "{scenario}: {table}");
    }
    assert_eq!(stderr(&output), "");
    assert_eq!(server.call("GET", "/topics", "").body, before);
    assert_empty(directory.path());
}

#[test]
fn nothing_is_left_in_redis() {
    let directory = tempfile::tempdir().expect("a directory");
    let (url, prefix) = (redis::shared().url(), redis::fresh_prefix());
    let (words, variables) =
        (["--store", "redis", "--redis-url", &url], [("LINGER__REDIS__PREFIX", &prefix[..])]);
    let arguments = [&["backlog", "--json", "--jobs", "200"], &words[..]].concat();
    let output = bench(&arguments, &variables, directory.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(json(&output)["server"]["engine"], "redis");
    assert_empty(directory.path());
    let server = Server::serve(&words, &variables, directory.path());
    assert_eq!(topics(&server), [""; 0]);
}

#[test]
fn the_token_is_sent_and_its_absence_is_explained() {
    let (directory, store) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
    let file = store.path().join("tokens.toml");
    let entries =
        token_entry("all", "all", &[Scope::Admin], &[]) + &token_entry("some", "some", &[Scope::Read], &[]);
    fs::write(&file, entries).expect("can be written");
    let variables = [("LINGER__AUTH__TOKENS_FILE", file.to_str().expect("is text"))];
    let server = Server::serve(&[], &variables, store.path());
    let url = server.url();
    let options = ["backlog", "--jobs", "20", "--url", &url];
    for (token, expected) in [(None, "401: unauthorized"), (Some("some"), "403: forbidden")] {
        let variables: Vec<_> = token.map(|token| ("LINGER_BENCH_TOKEN", token)).into_iter().collect();
        let output = bench(&options, &variables, directory.path());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(&output).contains(expected), "{output:?}");
        assert!(stderr(&output).contains("set LINGER_BENCH_TOKEN to a token that allows add,"), "{output:?}");
    }
    let output = bench(&options, &[("LINGER_BENCH_TOKEN", "all")], directory.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let given = [&options[..], &["--token", "all"]].concat();
    let output = bench(&given, &[("LINGER_BENCH_TOKEN", "none")], directory.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn invalid_options_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    for (arguments, expected) in [
        (&["everything"][..], "everything"),
        (&["--jobs", "0"], "--jobs"),
        (&["--jobs", "ten"], "--jobs"),
        (&["--connections", "0"], "--connections"),
        (&["--batch", "1001"], "--batch"),
        (&["--body-bytes", "1"], "--body-bytes"),
        (&["--rate", "0"], "--rate"),
        (&["--seconds", "0"], "--seconds"),
        (&["--delay", "none"], "--delay"),
        (&["--pid", "1"], "--url"),
        (&["--url", "http://127.0.0.1:1", "--pid", "4294967295"], "--pid"),
        (&["--url", "https://127.0.0.1:1"], "plain HTTP"),
        (&["--url", "127.0.0.1:1"], "--url"),
        (&["--url", "http://127.0.0.1:1", "--store", "redis"], "--url: a running server takes no settings"),
        (&["--listen", "127.0.0.1:0"], "--listen"),
        (&["--store", "paper"], "store.engine"),
        (&["parked", "--rate", "5"], "--rate does not apply"),
        (&["parked", "--batch", "5"], "--batch does not apply"),
        (&["backlog", "--seconds", "5"], "--seconds does not apply"),
        (&["burst", "--delay", "random"], "--delay does not apply"),
        (&["look", "--delay", "random"], "--delay does not apply"),
        (&["look", "--rate", "5"], "--rate does not apply"),
        (&["look", "--viewers", "5"], "--viewers does not apply"),
        (&["burst", "--schedules", "5"], "--schedules does not apply"),
        (&["schedules", "--schedules", "999"], "--jobs: must not be more than the 999 schedules"),
        (&["schedules", "--seconds", "5"], "--seconds does not apply"),
        (&["lateness", "--viewers", "0"], "--viewers"),
    ] {
        let output = bench(arguments, &[], directory.path());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(stderr(&output).contains(expected), "{arguments:?}: {output:?}");
    }
    assert_empty(directory.path());
}

#[test]
fn the_error_says_which_server_cannot_be_reached_or_started() {
    let directory = tempfile::tempdir().expect("a directory");
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], redis::free_port()));
    let url = format!("http://{address}");
    let existing_file = directory.path().join("file");
    std::fs::write(&existing_file, "").expect("can be written");
    let existing_file = existing_file.to_str().expect("is text");
    let redis = format!("redis://{address}");
    let no_timeout = [("LINGER__REDIS__START_TIMEOUT", "0s")];
    for (arguments, variables, expected) in [
        (&["--url", &url][..], &[][..], &address.to_string()[..]),
        (&["--data-dir", existing_file], &[], "/file: "),
        (&["--redis-url", &redis], &no_timeout, "the server did not start"),
    ] {
        let output = bench(arguments, variables, directory.path());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(&output).contains(expected), "{expected}: {output:?}");
    }
    std::fs::remove_file(existing_file).expect("is there");
    assert_empty(directory.path());
}

#[test]
fn a_data_directory_that_is_missing_is_created_and_removed_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let words = ["throughput", "--jobs", "20", "--connections", "1", "--data-dir", "new/deeper"];
    let output = bench(&words, &[], directory.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_empty(directory.path());
}

#[test]
fn the_help_names_every_scenario() {
    let directory = tempfile::tempdir().expect("a directory");
    let help = stdout(&run(&["bench", "--help"], directory.path()));
    for scenario in
        ["throughput", "lateness", "parked", "backlog", "burst", "look", "callbacks", "schedules", "all"]
    {
        let line = format!("- {scenario}:");
        assert!(help.lines().any(|shown| shown.trim_start().starts_with(&line)), "{line} {help}");
    }
    assert!(help.contains("LINGER_BENCH_TOKEN"), "{help}");
}
