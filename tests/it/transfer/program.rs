//! `linger export` and `linger import`, from outside.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use super::{content, file};
use crate::harness::{
    process::{Server, linger, run, stderr, stdout},
    redis::{fresh_prefix, shared},
    wait::TimeLimit,
};

/// Runs a command that must end with `code`. Returns what it printed.
pub fn run_to(code: i32, words: &[&str], directory: &Path) -> String {
    let output = run(words, directory);
    let printed = stdout(&output) + &stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {printed}");
    printed
}

/// Writes the configuration of a Redis store with a prefix of its own.
pub fn configure_redis(directory: &Path) {
    let toml = format!(
        "[store]\nengine = 'redis'\n[redis]\nurl = '{}'\nprefix = '{}'",
        shared().url(),
        fresh_prefix()
    );
    fs::write(directory.join("redis.toml"), toml).expect("writes");
}

pub const REDIS: [&str; 2] = ["--config", "redis.toml"];

pub fn add(server: &Server, job: &str) -> u16 {
    server.call("POST", "/jobs", job).status
}

#[test]
fn a_holder_finishes_at_the_new_place_and_repeated_adds_are_recognised() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    configure_redis(path);
    let server = Server::serve(&[], &[], path);
    let job = r#"{"topic":"t","id":"a","body":{"n":1}}"#;
    assert_eq!(add(&server, job), 201);
    assert_eq!(add(&server, r#"{"topic":"u","id":"b","delay":3600}"#), 201);
    assert_eq!(server.call("PUT", "/topics/u", r#"{"ttr":5}"#).status, 200);
    let popped = server.call("GET", "/topics/t/pop?ttr=1h", "").json();
    let finish = format!("/jobs/a/finish?receipt={}", popped["receipt"].as_str().expect("a receipt"));
    let text = run_to(0, &["export", "jobs.export"], path);
    assert_eq!(text, "jobs.export: 2 jobs and 1 topic\n");
    let mode = fs::metadata(path.join("jobs.export")).expect("is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(server.stop().success());

    let text = run_to(0, &["import", "jobs.export", REDIS[0], REDIS[1]], path);
    assert!(text.contains("imported 2 jobs and 1 topic; already there: 0, refused: 0"), "{text}");
    let server = Server::serve(&REDIS, &[], path);
    assert_eq!(add(&server, job), 200, "it is recognised");
    assert_eq!(server.call("POST", &finish, "").status, 204);
    assert_eq!(server.call("GET", "/topics/u", "").json()["settings"]["ttr"], 5);
    // An import into a Redis that is served, and back into a data directory.
    run_to(0, &["import", "jobs.export", REDIS[0], REDIS[1]], path);
    run_to(0, &["export", "again.export", REDIS[0], REDIS[1]], path);
    let [first, again] =
        ["jobs.export", "again.export"].map(|name| fs::read(path.join(name)).expect("reads"));
    let sorted = |export: &[u8]| {
        let mut lines: Vec<Vec<u8>> = content(export).iter().map(|line| line.to_vec()).collect();
        lines.pop();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&first), sorted(&again));
    assert!(server.stop().success());
    run_to(0, &["import", "again.export", "--data-dir", "new"], path);
    assert!(
        run_to(0, &["verify", "--data-dir", "new"], path)
            .contains("jobs       2 (1 delayed, 0 ready, 1 reserved")
    );
}

#[test]
fn a_command_that_cannot_be_done_says_why_and_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::write(path.join("mine"), "mine").expect("writes");
    assert!(run_to(2, &["export", "copy"], path).contains("data/linger.db: No such file"));
    let server = Server::serve(&[], &[], path);
    assert_eq!(add(&server, r#"{"topic":"t","id":"a","delay":60}"#), 201);
    let text = run_to(2, &["export", "mine"], path);
    assert!(text.contains("mine: it exists already, and an export overwrites nothing"), "{text}");
    assert!(run_to(2, &["export", "no/copy"], path).contains("no/copy: there is no such directory"));
    run_to(0, &["export", "copy"], path);
    let text = run_to(2, &["import", "copy"], path);
    assert!(text.contains("is using this data directory; stop the server, then import"), "{text}");
    assert!(
        run_to(1, &["import", "mine", "--data-dir", "new"], path).contains("it is not an export of Linger")
    );
    let whole = fs::read(path.join("copy")).expect("reads");
    fs::write(path.join("cut"), &whole[..whole.len() - 5]).expect("writes");
    let text = run_to(1, &["import", "cut", "--data-dir", "new"], path);
    assert!(text.contains("its end is missing; --partial imports what is there: 1 job and"), "{text}");
    assert!(!path.join("new").exists(), "a refused import makes no store");
    run_to(0, &["import", "cut", "--partial", "--data-dir", "new"], path);
    let other = r#"{"topic":"t","id":"a","delay":99}"#;
    let fresh = tempfile::tempdir().expect("a directory");
    let second = Server::serve(&[], &[], fresh.path());
    assert_eq!(add(&second, other), 201);
    assert!(second.stop().success());
    let data = fresh.path().join("data").display().to_string();
    let text = run_to(1, &["import", "copy", "--data-dir", &data], path);
    assert!(text.contains("job a: another job with this id is there"), "{text}");
}

#[test]
fn an_export_goes_to_stdout() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    assert_eq!(add(&server, r#"{"topic":"t","id":"a","delay":60}"#), 201);
    let output = run(&["export", "-"], directory.path());
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "-: 1 job and 0 topics\n");
    let (_file, path) = file(&output.stdout);
    linger::transfer::check(&path, false).expect("is whole");
}

#[test]
fn broken_records_are_named_and_left_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let server = Server::serve(&[], &[], path);
    for id in ["a", "b"] {
        assert_eq!(add(&server, &format!(r#"{{"topic":"t","id":"{id}","delay":60}}"#)), 201);
    }
    assert!(server.stop().success());
    let damaged = rusqlite::Connection::open(path.join("data/linger.db")).expect("opens");
    damaged.execute_batch("UPDATE rec SET body = x'37' WHERE id = 'a'").expect("runs");
    drop(damaged);
    let text = run_to(1, &["export", "copy"], path);
    assert!(text.contains("the record of job \"a\" is broken: the checksum of its body is wrong"), "{text}");
    assert!(text.contains("copy: 1 job and 0 topics; left out 1 broken record"), "{text}");
    run_to(0, &["import", "copy", "--data-dir", "new"], path);
}

/// Ten thousand jobs in the file `jobs.export`.
fn export_many(path: &Path) {
    let server = Server::serve(&[], &[], path);
    for batch in 0..20 {
        let job = |n: usize| {
            format!(r#"{{"topic":"t","id":"{batch}-{n}","delay":3600,"body":"{}"}}"#, "x".repeat(300))
        };
        let jobs: Vec<String> = (0..500).map(job).collect();
        let added = server.call("POST", "/batch/jobs", &format!(r#"{{"jobs":[{}]}}"#, jobs.join(",")));
        assert_eq!(added.status, 200, "{added:?}");
    }
    assert!(server.stop().success());
    run_to(0, &["export", "jobs.export"], path);
}

/// Makes attempts, each in a directory of its own, until one kills its import in time: a machine that holds up the test may let
/// an import end before.
fn until_killed_in_time(attempt: impl Fn(&Path) -> bool) {
    let limit = TimeLimit::new();
    while !attempt(tempfile::tempdir().expect("a directory").path()) {
        limit.check(|| "each import was done before its kill".to_owned());
    }
}

/// Kills an import once `is_under_way`, and completes it by a second one. Returns whether it was killed in time.
fn kill_and_complete(words: &[&str], is_under_way: impl Fn() -> bool, path: &Path) -> bool {
    let mut killed = linger(words, path).spawn().expect("starts");
    let limit = TimeLimit::new();
    while !is_under_way() {
        limit.check(|| "nothing was imported".to_owned());
        limit.pause_thread();
    }
    killed.kill().expect("is a child");
    if killed.wait().expect("ends").success() {
        return false;
    }
    let text = run_to(0, words, path);
    let existing =
        text.split_once("already there: ").expect("a number").1.split(',').next().expect("a number");
    let existing: usize = existing.parse().expect("a number");
    assert!((1..10_000).contains(&existing), "{text}");
    true
}

#[test]
fn an_import_that_was_killed_is_completed_by_a_second_one() {
    until_killed_in_time(|path| {
        export_many(path);
        let written = || fs::metadata(path.join("new/linger.db-wal")).map_or(0, |log| log.len());
        let import = ["import", "jobs.export", "--data-dir", "new"];
        if !kill_and_complete(&import, || written() >= 500_000, path) {
            return false;
        }
        run_to(0, &["verify", "--data-dir", "new"], path);
        run_to(0, &["export", "again.export", "--data-dir", "new"], path);
        let [first, again] =
            ["jobs.export", "again.export"].map(|name| fs::read(path.join(name)).expect("reads"));
        assert!(content(&first) == content(&again));
        true
    });
}

#[test]
fn an_import_into_a_served_redis_that_was_killed_is_completed_by_a_second_one() {
    until_killed_in_time(|path| {
        configure_redis(path);
        export_many(path);
        let server = Server::serve(&REDIS, &[], path);
        let counts = || server.call("GET", "/topics/t", "").json()["counts"]["delayed"].as_u64();
        let import = ["import", "jobs.export", REDIS[0], REDIS[1]];
        if !kill_and_complete(&import, || counts().is_some_and(|jobs| jobs > 0), path) {
            return false;
        }
        assert_eq!(counts(), Some(10_000));
        // A job of the import is due for the server at once, and known to it.
        assert_eq!(server.call("PATCH", "/jobs/0-0", r#"{"delay":0}"#).status, 200);
        assert_eq!(server.call("GET", "/topics/t/pop?wait=20s", "").json()["id"], "0-0");
        assert!(server.stop().success());
        let verified = run_to(0, &["verify", REDIS[0], REDIS[1]], path);
        assert!(verified.contains("jobs       10000 (9999 delayed, 0 ready, 1 reserved"), "{verified}");
        true
    });
}

#[test]
fn a_server_on_redis_delivers_what_is_imported_beside_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    configure_redis(path);
    let source = Server::serve(&[], &[], path);
    assert_eq!(add(&source, r#"{"topic":"t","id":"now"}"#), 201);
    assert_eq!(add(&source, r#"{"topic":"t","id":"soon","delay":"2s"}"#), 201);
    run_to(0, &["export", "jobs.export"], path);
    assert!(source.stop().success());
    let server = Server::serve(&REDIS, &[], path);
    let (popped, import) = std::thread::scope(|scope| {
        let poll = || server.call("GET", "/topics/t/pop?wait=60s", "").json()["id"].clone();
        let polls = [(); 2].map(|()| scope.spawn(poll));
        server.wait_for_parked_polls(2);
        let import = run_to(0, &["import", "jobs.export", REDIS[0], REDIS[1]], path);
        (polls.map(|poll| poll.join().expect("is answered")), import)
    });
    assert!(import.contains("imported 2 jobs"), "{import}");
    let mut popped = popped.map(|id| id.as_str().expect("a job").to_owned());
    popped.sort();
    assert_eq!(popped, ["now", "soon"]);
    assert!(server.stop().success());
}
