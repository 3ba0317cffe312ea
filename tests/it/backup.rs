//! `linger backup` while a server is running, and `linger restore`: every change acknowledged before is there.

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    path::Path,
    process::Output,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use crate::harness::{
    blocking_http::call,
    process::{self, Server, run, stderr, stdout},
    wait::StopOnDrop,
};

/// Ids by the last step that was sent or acknowledged for them.
#[derive(Debug, Default, Clone)]
struct Told {
    added: BTreeSet<String>,
    popped: BTreeSet<String>,
    buried: BTreeSet<String>,
    finished: BTreeSet<String>,
    /// Sent, and perhaps not answered yet.
    leaving: BTreeSet<String>,
}

/// Adds jobs until it is stopped: in turn it finishes, buries, reserves or leaves one.
fn work(address: SocketAddr, worker: usize, told: &Mutex<Told>, stop: &AtomicBool, acked: &mpsc::Sender<()>) {
    let step = |method: &str, path: &str, body: &str, status: u16| {
        let answer = call(address, method, path, body).expect("it answers");
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        answer
    };
    let note = |change: &dyn Fn(&mut Told)| change(&mut told.lock().expect("not poisoned"));
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let id = format!("w{worker}-{n}");
        let delay = if n % 4 == 3 { 3_600 } else { 0 };
        let job = format!(r#"{{"topic":"w{worker}","id":"{id}","delay":{delay},"body":"{id}"}}"#);
        step("POST", "/jobs", &job, 201);
        note(&|told| _ = told.added.insert(id.clone()));
        let _ = acked.send(());
        if n % 4 == 3 {
            continue;
        }
        let popped = step("GET", &format!("/topics/w{worker}/pop?ttr=1h"), "", 200).json();
        assert_eq!(popped["id"], id.as_str());
        note(&|told| _ = told.popped.insert(id.clone()));
        if n % 4 == 0 {
            note(&|told| _ = told.leaving.insert(id.clone()));
            let receipt = popped["receipt"].as_str().expect("a receipt");
            step("POST", &format!("/jobs/{id}/finish?receipt={receipt}"), "", 204);
            note(&|told| _ = told.finished.insert(id.clone()));
        } else if n % 4 == 1 {
            let bury = format!(r#"{{"receipt":{},"reason":"as told"}}"#, popped["receipt"]);
            step("POST", &format!("/jobs/{id}/bury"), &bury, 200);
            note(&|told| _ = told.buried.insert(id.clone()));
        }
    }
}

/// Compares a restored server with the calls before the copy began and until it was complete.
fn check(server: &Server, before: &Told, after: &Told) {
    for id in &before.added {
        let found = server.call("GET", &format!("/jobs/{id}"), "");
        if before.finished.contains(id) {
            assert_eq!(found.status, 404, "{id} was finished and is back");
            continue;
        }
        if after.leaving.contains(id) && found.status == 404 {
            continue;
        }
        assert_eq!(found.status, 200, "{id} is lost");
        let job = found.json();
        assert_eq!(job["body"], id.as_str());
        let state = job["state"].as_str().expect("a state");
        if before.buried.contains(id) {
            assert_eq!(state, "dead", "{id}");
        } else if before.popped.contains(id) {
            assert!(["reserved", "dead"].contains(&state), "{id} is {state}");
        }
    }
}

fn linger(words: &[&str], directory: &Path) -> Output {
    run(words, directory)
}

/// Runs a command that must succeed. Returns its output.
fn done(words: &[&str], directory: &Path) -> String {
    let output = linger(words, directory);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

/// Runs a command that must fail with `code` and print `text`.
fn refused(words: &[&str], directory: &Path, code: i32, text: &str) {
    let output = linger(words, directory);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {}", stderr(&output));
    assert!(stderr(&output).contains(text), "{words:?}: {text:?} is not in {}", stderr(&output));
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("is there");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("reads").file_name().into_string();
    let mut names: Vec<String> = entries.map(|entry| name(entry).expect("is text")).collect();
    names.sort();
    names
}

#[test]
fn a_backup_under_load_holds_everything_acknowledged_before_it_began() {
    const WORKERS: usize = 4;
    let runs = std::env::var("LINGER_PROVE_BACKUPS").map_or(3, |text| text.parse().expect("is a number"));
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let server = Server::serve(&[], &[], path);
    let (address, (sender, acked)) = (server.address, mpsc::channel());
    let (told, stop) = (Mutex::new(Told::default()), AtomicBool::new(false));
    let snapshot = || told.lock().expect("not poisoned").clone();
    let copies: Vec<(Told, Told)> = std::thread::scope(|scope| {
        let _ends = StopOnDrop(&stop);
        for worker in 0..WORKERS {
            let (told, stop, sender) = (&told, &stop, sender.clone());
            scope.spawn(move || work(address, worker, told, stop, &sender));
        }
        drop(sender);
        let copies = (0..runs).map(|n| {
            assert_eq!(acked.iter().take(60).count(), 60, "the workers gave up");
            let before = snapshot();
            let said = done(&["backup", &format!("copy-{n}")], path);
            assert!(said.starts_with(&format!("copy-{n}: ")), "{said}");
            (before, snapshot())
        });
        copies.collect()
    });
    assert!(server.stop().success());
    assert_eq!(names(path).len(), runs + 1, "nothing else is left: {:?}", names(path));
    let mut jobs = 0;
    for (n, (before, after)) in copies.iter().enumerate() {
        assert!(!before.finished.is_empty() && !before.buried.is_empty(), "the load has got that far");
        assert!(done(&["verify", &format!("copy-{n}")], path).contains(&format!("copy-{n}: sound")));
        let restored = tempfile::tempdir().expect("a directory");
        let data = restored.path().join("data");
        let data = data.to_str().expect("is text");
        done(&["restore", &format!("copy-{n}"), "--data-dir", data], path);
        assert!(done(&["verify", "--data-dir", data], path).contains("sound"));
        let server = Server::serve(&[], &[], restored.path());
        check(&server, before, after);
        assert!(server.stop().success());
        assert!(done(&["verify", "--data-dir", data], path).contains("sound"));
        jobs += before.added.len();
    }
    println!("proof: what=backups, runs={runs}, faults=0, acked={jobs}, lost=0, violations=0");
}

#[test]
fn a_backup_is_one_file_for_its_owner_that_overwrites_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let mut server = Server::serve(&[], &[], path);
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t","id":"a","delay":60}"#).status, 201);
    fs::write(path.join("mine"), "mine").expect("writes");
    refused(&["backup", "mine"], path, 2, "mine: it exists already, and a backup overwrites nothing");
    assert_eq!(fs::read(path.join("mine")).expect("reads"), b"mine");
    refused(&["backup", "no/such/place"], path, 1, "no/such/place: there is no such directory");
    done(&["backup", "copy"], path);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path.join("copy")).expect("is").permissions());
    assert_eq!(mode & 0o777, 0o600);
    // Also of a store that is not in use, stopped or killed.
    server.kill();
    done(&["backup", "after"], path);
    assert_eq!(names(path), ["after", "copy", "data", "mine"]);
    assert!(done(&["verify", "after"], path).contains("jobs       1 (1 delayed"));
    assert_eq!(names(path), ["after", "copy", "data", "mine"], "verifying leaves nothing behind");
}

#[test]
fn a_backup_goes_to_stdout_where_that_is_asked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let server = Server::serve(&[], &[], path);
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t","id":"a","delay":60}"#).status, 201);
    let before = names(&path.join("data"));
    let output = linger(&["backup", "-"], path);
    assert!(output.status.success() && stderr(&output).ends_with(" bytes\n"), "{}", stderr(&output));
    fs::write(path.join("copy"), &output.stdout).expect("writes");
    assert!(done(&["verify", "copy"], path).contains("jobs       1 (1 delayed"));
    assert_eq!(names(&path.join("data")), before, "nothing is left behind");
    let missing = linger(&["backup", "-", "--data-dir", "none"], path);
    assert!(!missing.status.success() && missing.stdout.is_empty());
}

/// Content that an attacker with write access to a backup could put into it.
const SABOTAGE: [(&str, &str); 4] = [
    ("CREATE TRIGGER gone AFTER INSERT ON rec BEGIN DELETE FROM rec; END", "trigger \"gone\""),
    ("CREATE VIEW seen AS SELECT * FROM rec", "view \"seen\""),
    ("CREATE TABLE theirs (x)", "table \"theirs\""),
    ("DROP INDEX dead_by_topic", "index \"dead_by_topic\""),
];

#[test]
fn a_store_with_triggers_views_or_other_tables_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let server = Server::serve(&[], &[], path);
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t","id":"a","delay":60}"#).status, 201);
    done(&["backup", "copy"], path);
    assert!(server.stop().success());
    for (n, (sql, named)) in SABOTAGE.into_iter().enumerate() {
        let copy = format!("copy-{n}");
        fs::copy(path.join("copy"), path.join(&copy)).expect("copies");
        let conn = rusqlite::Connection::open(path.join(&copy)).expect("opens");
        conn.execute_batch(sql).expect("runs");
        drop(conn);
        let found = linger(&["verify", &copy], path);
        let text = stdout(&found);
        assert_eq!(found.status.code(), Some(1), "{text}");
        assert!(text.contains("NOT SOUND") && text.contains(named), "{text}");
        refused(&["restore", &copy, "--data-dir", "new"], path, 1, named);
        // The same in the directory of a server.
        let data = path.join(format!("data-{n}"));
        fs::create_dir(&data).expect("can be made");
        fs::copy(path.join(&copy), data.join("linger.db")).expect("copies");
        let said = refused_start(&["--data-dir", data.to_str().expect("is text")], path);
        assert!(said.contains("changed by another program") && said.contains(named), "{said}");
    }
}

fn refused_start(words: &[&str], directory: &Path) -> String {
    let output = process::refused(&[&["--listen", "127.0.0.1:0"], words].concat(), directory);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    stderr(&output)
}

#[test]
fn a_restore_takes_only_sound_backups_and_empty_directories() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let mut server = Server::serve(&[], &[], path);
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t","id":"a","delay":60}"#).status, 201);
    done(&["backup", "copy"], path);
    // A manual copy of a database in use lacks the content of the log.
    fs::copy(path.join("data/linger.db"), path.join("by-hand")).expect("copies");
    server.kill();
    refused(&["restore", "copy"], path, 2, "it is not empty");
    refused(&["restore", "by-hand", "--data-dir", "new"], path, 1, "the log is missing or empty");
    refused(&["restore", "data/linger.db", "--data-dir", "new"], path, 1, "linger.db-wal is beside it");
    refused(&["restore", "data", "--data-dir", "new"], path, 1, "this is a directory");
    refused(&["restore", "nothing", "--data-dir", "new"], path, 2, "nothing: No such file");
    fs::write(path.join("text"), "not a database at all, but long enough to be taken for one")
        .expect("writes");
    refused(&["restore", "text", "--data-dir", "new"], path, 1, "text: this is not a Linger store");
    let faulty = rusqlite::Connection::open(path.join("copy")).expect("opens");
    faulty.execute_batch("UPDATE rec SET body = x'37'").expect("runs");
    drop(faulty);
    refused(
        &["restore", "copy", "--data-dir", "new"],
        path,
        1,
        "not restored, because the backup has faults",
    );
    assert!(!path.join("new").exists(), "nothing was begun");
}

#[test]
fn a_backup_cut_short_anywhere_is_no_backup() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let server = Server::serve(&[], &[], path);
    for n in 0..50 {
        let job = format!(r#"{{"topic":"t","id":"{n}","delay":60,"body":"{}"}}"#, "x".repeat(3_000));
        assert_eq!(server.call("POST", "/jobs", &job).status, 201);
    }
    done(&["backup", "copy"], path);
    let whole = fs::read(path.join("copy")).expect("reads");
    for part in 0..8 {
        fs::write(path.join("cut"), &whole[..whole.len() * part / 8]).expect("writes");
        let output = linger(&["restore", "cut", "--data-dir", "new"], path);
        assert_eq!(output.status.code(), Some(1), "{part}/8: {}", stdout(&output));
    }
    assert!(!path.join("new").exists());
}

#[test]
fn redis_has_means_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("redis.toml"), "[store]\nengine = 'redis'").expect("writes");
    for command in ["backup", "restore"] {
        refused(&[command, "copy", "--config", "redis.toml"], directory.path(), 2, "the store is Redis; ");
    }
    assert_eq!(names(directory.path()), ["redis.toml"]);
}
