//! `linger move`, from outside.

use std::{fs, path::Path};

use super::super::program::{REDIS, add, configure_redis, run_to};
use crate::harness::process::{Server, refused, stderr};

const MOVE: [&str; 3] = ["move", "--to", "redis.toml"];
const ABANDON: [&str; 2] = ["move", "--abandon"];

/// Runs a step of the move to Redis.
fn step(code: i32, flags: &[&str], directory: &Path) -> String {
    run_to(code, &[&MOVE[..], flags].concat(), directory)
}

/// Why a server does not start.
fn why_refused(flags: &[&str], directory: &Path) -> String {
    stderr(&refused(&[&["serve", "--listen", "127.0.0.1:0"], flags].concat(), directory))
}

#[test]
fn a_served_store_moves_to_redis_and_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    configure_redis(path);
    let server = Server::serve(&[], &[], path);
    let job = r#"{"topic":"t","id":"held","body":{"n":1}}"#;
    assert_eq!(add(&server, job), 201);
    let popped = server.call("GET", "/topics/t/pop?ttr=1h", "").json();
    let finish = format!("/jobs/held/finish?receipt={}", popped["receipt"].as_str().expect("a receipt"));
    for id in ["later", "gone", "patched"] {
        assert_eq!(add(&server, &format!(r#"{{"topic":"t","id":"{id}","delay":3600}}"#)), 201);
    }
    assert_eq!(server.call("PUT", "/topics/t", r#"{"ttr":5}"#).status, 200);
    let daily = r#"{"cron":"30 9 * * *","time_zone":"Europe/Berlin","job":{"topic":"t","body":{"n":1}}}"#;
    let put = server.call("PUT", "/schedules/daily", daily);
    assert_eq!(put.status, 201, "{put:?}");
    let text = step(0, &[], path);
    let expected =
        "4 jobs, 1 topic and 1 schedule; copied 4 jobs, deleted 0, set 1 topic and 1 schedule; when";
    assert!(text.contains(expected), "{text}");
    assert!(
        why_refused(&REDIS, path)
            .contains("the move is not complete: complete it with `linger move --to NEW.toml --last`")
    );
    assert_eq!(server.call("DELETE", "/jobs/gone", "").status, 204);
    assert_eq!(server.call("PATCH", "/jobs/patched", r#"{"delay":7200}"#).status, 200);
    let text = step(0, &[], path);
    let expected = "3 jobs, 1 topic and 1 schedule; copied 1 job, deleted 1, set 0 topics; when";
    assert!(text.contains(expected), "{text}");
    assert!(step(2, &["--last"], path).contains("stop the server of the source first"));
    assert!(server.stop().success());
    let text = step(0, &["--last"], path);
    assert!(text.contains("copied 0 jobs, deleted 0, set 0 topics; it is open: start its servers"), "{text}");
    assert!(step(0, &["--last"], path).contains("it is open already"));
    assert!(run_to(2, &ABANDON, path).contains("its jobs were moved to redis ("));
    assert!(why_refused(&[], path).contains("its jobs were moved to redis ("));

    let server = Server::serve(&REDIS, &[], path);
    assert_eq!(add(&server, job), 200, "it is recognised");
    assert_eq!(server.call("POST", &finish, "").status, 204);
    assert_eq!(server.call("GET", "/topics/t", "").json()["settings"]["ttr"], 5);
    assert_eq!(server.call("GET", "/schedules/daily", "").json(), put.json());
    fs::write(path.join("back.toml"), "[embedded]\ndata_dir = 'back'\n").expect("writes");
    let back = ["move", "--to", "back.toml", REDIS[0], REDIS[1]];
    assert!(run_to(0, &back, path).contains("2 jobs, 1 topic and 1 schedule"));
    // On Redis the fence keeps a server that is still running from changing the store.
    let text = run_to(0, &[&back[..], &["--last"]].concat(), path);
    assert!(text.contains("it is open: start its servers"), "{text}");
    let refused = server.call("POST", "/jobs", r#"{"topic":"t","id":"late"}"#);
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert_eq!(server.call("DELETE", "/jobs/later", "").status, 503);
    assert!(server.stop().success());
    assert!(why_refused(&REDIS, path).contains("its jobs were moved to embedded ("));
    let text = run_to(0, &["verify", "--data-dir", "back"], path);
    assert!(text.contains("jobs       2 (2 delayed"), "{text}");
    let server = Server::serve(&["--data-dir", "back"], &[], path);
    assert_eq!(server.call("GET", "/schedules/daily", "").json(), put.json());
    assert!(server.stop().success());
}

#[test]
fn a_target_that_may_remember_fewer_ids_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let server = Server::serve(&[], &[], path);
    assert_eq!(server.call("PUT", "/topics/t", r#"{"dedup":"24h"}"#).status, 200);
    for id in ["a", "b", "c"] {
        assert_eq!(add(&server, &format!(r#"{{"topic":"t","id":"{id}"}}"#)), 201);
        assert_eq!(server.call("POST", "/batch/pop", r#"{"topics":["t"]}"#).status, 200);
        assert_eq!(server.call("POST", &format!("/jobs/{id}/finish"), "").status, 204);
    }
    assert!(server.stop().success());
    let target = "[embedded]\ndata_dir = 'target'\n[queue]\ndedup_max = 2\n";
    fs::write(path.join("target.toml"), target).expect("writes");
    for (flags, end) in [(&[][..], "when"), (&["--last"], "it is open")] {
        let text = run_to(1, &[&["move", "--to", "target.toml"], flags].concat(), path);
        let expected = format!("kept at most 2 of the remembered ids (queue.dedup_max); {end}");
        assert!(text.contains(&expected), "{text}");
    }
}

/// The last run opens the store as a server does, which sets a damaged record aside. The target has the job as it was.
#[test]
fn a_job_whose_record_was_damaged_after_it_was_copied_is_not_lost() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    configure_redis(path);
    let server = Server::serve(&[], &[], path);
    for id in ["a", "b"] {
        assert_eq!(add(&server, &format!(r#"{{"topic":"t","id":"{id}","delay":3600}}"#)), 201);
    }
    step(0, &[], path);
    assert!(server.stop().success());
    let damaged = rusqlite::Connection::open(path.join("data/linger.db")).expect("opens");
    let damage = "UPDATE rec SET head = zeroblob(length(head)) WHERE id = 'a'";
    assert_eq!(damaged.execute(damage, []).expect("runs"), 1);
    drop(damaged);
    // The second run finds what the first one has set aside.
    for _ in 0..2 {
        let text = step(1, &["--last"], path);
        assert!(text.contains(r#"the record of job "a" was set aside"#), "{text}");
        assert!(text.contains("1 broken record cannot be moved"), "{text}");
    }
    run_to(0, &["export", "target", REDIS[0], REDIS[1]], path);
    let target = fs::read_to_string(path.join("target")).expect("reads");
    assert!(target.contains(r#""id":"a""#), "{target}");
}

#[test]
fn an_abandoned_move_gives_the_store_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    configure_redis(path);
    let server = Server::serve(&[], &[], path);
    assert_eq!(add(&server, r#"{"topic":"t","id":"a","delay":60}"#), 201);
    step(0, &[], path);
    // Nothing of a served store is closed yet.
    assert!(run_to(0, &ABANDON, path).contains("no move has closed it; its servers may run"));
    assert_eq!(server.call("GET", "/jobs/a", "").status, 200);
    assert!(why_refused(&REDIS, path).contains("the move is not complete"));
}

#[test]
fn a_move_that_cannot_be_made_says_why() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    configure_redis(path);
    assert!(step(2, &[], path).contains("data/linger.db: No such file"));
    assert!(run_to(2, &["move", "--to", "none.toml"], path).contains("none.toml"));
    let from_redis = ["move", "--to", "redis.toml", REDIS[0], REDIS[1]];
    let text = run_to(1, &from_redis, path);
    assert!(text.contains("nothing is stored under the prefix"), "{text}");
    assert!(step(2, &["--abandon"], path).contains("cannot be used with"));
    assert!(run_to(2, &["move"], path).contains("--to <NEW.toml>"));
    assert!(step(2, &["--without-broken"], path).contains("--last"));
    let server = Server::serve(&[], &[], path);
    assert_eq!(add(&server, r#"{"topic":"t","id":"a","delay":60}"#), 201);
    let other = Server::serve(&REDIS, &[], path);
    assert_eq!(add(&other, r#"{"topic":"t","id":"b","delay":60}"#), 201);
    assert!(step(2, &[], path).contains("is not empty; a move needs a new store"));
    assert!(run_to(2, &from_redis, path).contains("is the source itself"));
    fs::write(path.join("same.toml"), "[embedded]\ndata_dir = './data/.'\n").expect("writes");
    assert!(run_to(2, &["move", "--to", "same.toml"], path).contains("is both the source and the target"));
    assert_eq!(add(&other, r#"{"topic":"t","id":"c","delay":60}"#), 201, "it is as it was");
}
