//! `linger bench`, the real program: each scenario against a server of its own and against a running one, what
//! it leaves behind, what it refuses. Servers that lose, double or hurry jobs are in `broken`.

mod broken;
mod ending;

use std::{fs, path::Path, process::Output};

use linger::auth::{Scope, token_entry};
use serde_json::Value;

use crate::harness::{
    process::{Server, linger, run, stderr, stdout},
    redis,
};

/// Runs a bench in `directory`, which is also where temporary files go.
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

/// Names of a server's topics.
fn topics(server: &Server) -> Vec<String> {
    let found = server.call("GET", "/topics", "").json()["topics"].clone();
    let name = |topic: &Value| topic["topic"].as_str().expect("a name").to_owned();
    found.as_array().expect("a list").iter().map(name).collect()
}

/// Runs a scenario with 200 jobs against a server of its own: these steps, in this order, each with a rate or
/// not, with percentiles or not.
#[track_caller]
fn measures(scenario: &str, more: &[&str], steps: &[(&str, bool, bool)]) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = [&[scenario, "--json", "--jobs", "200", "--connections", "8"], more].concat();
    let output = bench(&arguments, &[], directory.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found = json(&output);
    let rows = found["rows"].as_array().expect("a list");
    let seen: Vec<_> = rows
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
    assert_eq!(seen, steps);
    for figure in ["lost", "doubled", "early"] {
        assert_eq!(found["totals"][figure], 0, "{found}");
    }
    assert!(found["failure"].is_null() && found["server"]["own"] == true, "{found}");
    assert_eq!(found["server"]["durability"], "always");
    assert_empty(directory.path());
    found
}

/// The number in a row.
fn metric(found: &Value, row: usize, name: &str) -> f64 {
    found["rows"][row][name].as_f64().unwrap_or_else(|| panic!("no {name} in row {row} of {found}"))
}

/// The steps of throughput, with this behind their names.
fn throughput(more: &[&str], suffix: &str) -> Value {
    let steps = ["add", "pop", "finish", "pop and finish"];
    let named = steps.map(|step| (format!("{step}{suffix}"), step != "pop and finish"));
    let shown: Vec<_> = named.iter().map(|(name, has_times)| (&name[..], true, *has_times)).collect();
    measures("throughput", more, &shown)
}

#[test]
fn throughput_one_by_one() {
    let found = throughput(&[], "");
    assert_eq!(found["totals"]["jobs"], 200);
    assert_eq!(found["rows"][0]["delay"], "constant 1s");
    assert_eq!(found["rows"][0]["latency_ms"]["count"], 200);
    assert!(
        metric(&found, 0, "resident_bytes") > 1e6 && metric(&found, 3, "cpu_us_per_job") > 0.0,
        "{found}"
    );
}

#[test]
fn throughput_in_batches() {
    let found = throughput(&["--batch", "50", "--delay", "random"], ", 50 a request");
    assert_eq!(found["totals"]["jobs"], 200);
    assert_eq!(found["rows"][0]["delay"], "random 0s to 2s");
    assert_eq!(found["rows"][0]["latency_ms"]["count"], 4);
}

#[test]
fn lateness() {
    let steps = [("add, 400/s", true, true), ("delivered after due", true, true)];
    let found = measures("lateness", &["--rate", "400"], &steps);
    assert_eq!(found["rows"][1]["latency_ms"]["count"], 200);
    assert_eq!(found["totals"]["jobs"], 200);
}

#[test]
fn parked() {
    let steps =
        [("park polls", true, false), ("polls at rest", false, false), ("job to a parked poll", false, true)];
    let found = measures("parked", &["--seconds", "1"], &steps);
    assert_eq!(found["rows"][0]["count"], 8);
    assert!(metric(&found, 1, "cpu_percent") < 100.0 && found["rows"][0]["memory_per_poll_bytes"].is_f64());
    assert_eq!(found["rows"][2]["latency_ms"]["count"], 200);
    assert_eq!(found["totals"]["jobs"], 200);
}

#[test]
fn a_server_of_its_own_takes_all_connections_from_one_address() {
    let directory = tempfile::tempdir().expect("a directory");
    let few = [("LINGER__SERVER__MAX_CONNECTIONS_PER_ADDRESS", "2")];
    let output =
        bench(&["throughput", "--json", "--jobs", "40", "--connections", "8"], &few, directory.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(json(&output)["totals"]["jobs"], 40);
}

#[test]
fn backlog() {
    let found = measures("backlog", &["--batch", "30"], &[("add up to 200, 30 a request", true, true)]);
    assert!(metric(&found, 0, "disk_per_job_bytes") > 256.0, "{found}");
    assert_eq!(found["rows"][0]["delay"], "constant 86400s");
    assert_eq!(found["totals"]["jobs"], 200);
}

#[test]
fn burst() {
    let steps = [
        ("delivered after due", true, true),
        ("other topic before", false, true),
        ("other topic meanwhile", false, true),
    ];
    let found = measures("burst", &["--seconds", "2"], &steps);
    assert_eq!(found["rows"][0]["latency_ms"]["count"], 200);
    assert!(metric(&found, 0, "first_ms") <= metric(&found, 0, "last_ms"), "{found}");
    let others = metric(&found, 1, "count") + metric(&found, 2, "count");
    assert_eq!(found["totals"]["jobs"].as_f64(), Some(200.0 + others));
}

#[test]
fn all_of_them_each_on_a_server_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let few = ["--json", "--jobs", "20", "--connections", "4", "--seconds", "2", "--rate", "100"];
    let output = bench(&few, &[], directory.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found = json(&output);
    let mut seen: Vec<_> =
        found["rows"].as_array().expect("a list").iter().map(|row| &row["scenario"]).collect();
    seen.dedup();
    assert_eq!(seen, ["throughput", "lateness", "parked", "backlog", "burst"]);
    // Throughput twice, and the other topic of the burst.
    let others = metric(&found, 15, "count") + metric(&found, 16, "count");
    assert_eq!(found["totals"]["jobs"].as_f64(), Some(6.0 * 20.0 + others), "{found}");
    // Nothing that another scenario left behind serves this one's jobs.
    let backlog =
        found["rows"].as_array().expect("a list").iter().position(|row| row["scenario"] == "backlog");
    assert!(metric(&found, backlog.expect("is there"), "disk_per_job_bytes") > 256.0, "{found}");
    assert_empty(directory.path());
}

#[test]
fn a_running_server_is_left_as_it_was() {
    let (directory, store) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
    let server = Server::serve(&[], &[], store.path());
    for id in ["a", "b", "c"] {
        let job =
            format!(r#"{{"topic":"theirs","id":"{id}","delay":{}}}"#, if id == "a" { "0" } else { "\"1h\"" });
        assert_eq!(server.call("POST", "/jobs", &job).status, 201);
    }
    let before = server.call("GET", "/topics", "").body;
    let (url, pid) = (server.url(), server.pid().to_string());
    let few = ["all", "--jobs", "40", "--connections", "4", "--seconds", "2", "--url", &url, "--pid", &pid];
    let output = bench(&few, &[], directory.path());
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
fn what_was_left_in_a_redis_is_nothing() {
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
fn a_token_is_needed_and_used() {
    let (directory, store) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
    let file = store.path().join("tokens.toml");
    let entries =
        token_entry("all", "all", &[Scope::Admin], &[]) + &token_entry("some", "some", &[Scope::Read], &[]);
    fs::write(&file, entries).expect("can be written");
    let variables = [("LINGER__AUTH__TOKENS_FILE", file.to_str().expect("is text"))];
    let server = Server::serve(&[], &variables, store.path());
    let url = server.url();
    let few = ["backlog", "--jobs", "20", "--url", &url];
    for (token, said) in [(None, "401: unauthorized"), (Some("some"), "403: forbidden")] {
        let variables: Vec<_> = token.map(|token| ("LINGER_BENCH_TOKEN", token)).into_iter().collect();
        let output = bench(&few, &variables, directory.path());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(&output).contains(said), "{output:?}");
        assert!(stderr(&output).contains("set LINGER_BENCH_TOKEN to a token that allows add,"), "{output:?}");
    }
    let output = bench(&few, &[("LINGER_BENCH_TOKEN", "all")], directory.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let given = [&few[..], &["--token", "all"]].concat();
    let output = bench(&given, &[("LINGER_BENCH_TOKEN", "none")], directory.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    for (arguments, said) in [
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
    ] {
        let output = bench(arguments, &[], directory.path());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(stderr(&output).contains(said), "{arguments:?}: {output:?}");
    }
    assert_empty(directory.path());
}

#[test]
fn what_cannot_be_reached_or_started_is_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = nobody.local_addr().expect("has an address");
    drop(nobody);
    let url = format!("http://{address}");
    let in_the_way = directory.path().join("file");
    std::fs::write(&in_the_way, "").expect("can be written");
    let in_the_way = in_the_way.to_str().expect("is text");
    let redis = format!("redis://{address}");
    let at_once = [("LINGER__REDIS__START_TIMEOUT", "0s")];
    for (arguments, variables, said) in [
        (&["--url", &url][..], &[][..], &address.to_string()[..]),
        (&["--data-dir", in_the_way], &[], "/file: "),
        (&["--redis-url", &redis], &at_once, "the server did not start"),
    ] {
        let output = bench(arguments, variables, directory.path());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(&output).contains(said), "{said}: {output:?}");
    }
    std::fs::remove_file(in_the_way).expect("is there");
    assert_empty(directory.path());
}

#[test]
fn a_data_directory_that_is_missing_is_made_and_removed_again() {
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
    for word in ["throughput", "lateness", "parked", "backlog", "burst", "all", "LINGER_BENCH_TOKEN"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}
