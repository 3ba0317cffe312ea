//! `linger backup` while a server runs, and `linger restore`: a backup contains every change acknowledged before it.

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use crate::harness::{
    blocking_http::call_until_begun,
    process::{self, Server, linger, run, run_to_end, stderr, stdout},
    wait::StopOnDrop,
};

/// The ids of the jobs for which each step was acknowledged.
#[derive(Debug, Default, Clone)]
struct Acknowledged {
    added: BTreeSet<String>,
    popped: BTreeSet<String>,
    buried: BTreeSet<String>,
    finished: BTreeSet<String>,
    /// Finishes that were sent, and may not be answered yet.
    finishing: BTreeSet<String>,
}

/// Adds jobs until it is stopped. It finishes, buries or reserves a job, or leaves it delayed, in turn.
fn work(
    address: SocketAddr,
    worker: usize,
    acknowledged: &Mutex<Acknowledged>,
    stop: &AtomicBool,
    added: &mpsc::Sender<()>,
) {
    let step = |method: &str, path: &str, body: &str, status: u16| {
        let response = call_until_begun(address, method, path, body).expect("the server answers");
        assert_eq!(response.status, status, "{path}: {response:?}");
        response
    };
    let record = |change: &dyn Fn(&mut Acknowledged)| change(&mut acknowledged.lock().expect("not poisoned"));
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let id = format!("w{worker}-{n}");
        let delay = if n % 4 == 3 { 3_600 } else { 0 };
        let job = format!(r#"{{"topic":"w{worker}","id":"{id}","delay":{delay},"body":"{id}"}}"#);
        step("POST", "/jobs", &job, 201);
        record(&|acknowledged| _ = acknowledged.added.insert(id.clone()));
        let _ = added.send(());
        if n % 4 == 3 {
            continue;
        }
        let popped = step("GET", &format!("/topics/w{worker}/pop?ttr=1h"), "", 200).json();
        assert_eq!(popped["id"], id.as_str());
        record(&|acknowledged| _ = acknowledged.popped.insert(id.clone()));
        if n % 4 == 0 {
            record(&|acknowledged| _ = acknowledged.finishing.insert(id.clone()));
            let receipt = popped["receipt"].as_str().expect("a receipt");
            step("POST", &format!("/jobs/{id}/finish?receipt={receipt}"), "", 204);
            record(&|acknowledged| _ = acknowledged.finished.insert(id.clone()));
        } else if n % 4 == 1 {
            let bury = format!(r#"{{"receipt":{},"reason":"as told"}}"#, popped["receipt"]);
            step("POST", &format!("/jobs/{id}/bury"), &bury, 200);
            record(&|acknowledged| _ = acknowledged.buried.insert(id.clone()));
        }
    }
}

/// Compares a restored server with the calls before the copy began and until it was complete.
fn check(server: &Server, before: &Acknowledged, after: &Acknowledged) {
    for id in &before.added {
        let found = server.call("GET", &format!("/jobs/{id}"), "");
        if before.finished.contains(id) {
            assert_eq!(found.status, 404, "{id} was finished and exists again");
            continue;
        }
        if after.finishing.contains(id) && found.status == 404 {
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

/// Runs a command that must succeed. Returns its stdout.
fn run_successfully(words: &[&str], directory: &Path) -> String {
    let output = run(words, directory);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

/// Runs a command that must fail with `code` and print `text`.
fn assert_refused(words: &[&str], directory: &Path, code: i32, text: &str) {
    let output = run(words, directory);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {}", stderr(&output));
    assert!(stderr(&output).contains(text), "{words:?}: {text:?} is not in {}", stderr(&output));
}

fn file_names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the directory exists");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("reads").file_name().into_string();
    let mut names: Vec<String> = entries.map(|entry| name(entry).expect("is text")).collect();
    names.sort();
    names
}

#[test]
fn a_backup_under_load_contains_every_change_acknowledged_before_it_began() {
    const WORKERS: usize = 4;
    let runs = std::env::var("LINGER_PROVE_BACKUPS").map_or(3, |text| text.parse().expect("is a number"));
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let server = Server::serve(&[], &[], path);
    let (address, (sender, added)) = (server.address, mpsc::channel());
    let (acknowledged, stop) = (Mutex::new(Acknowledged::default()), AtomicBool::new(false));
    let snapshot = || acknowledged.lock().expect("not poisoned").clone();
    let copies: Vec<(Acknowledged, Acknowledged)> = std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        for worker in 0..WORKERS {
            let (acknowledged, stop, sender) = (&acknowledged, &stop, sender.clone());
            scope.spawn(move || work(address, worker, acknowledged, stop, &sender));
        }
        drop(sender);
        let copies = (0..runs).map(|n| {
            assert_eq!(added.iter().take(60).count(), 60, "the workers gave up");
            let before = snapshot();
            let message = run_successfully(&["backup", &format!("copy-{n}")], path);
            assert!(message.starts_with(&format!("copy-{n}: ")), "{message}");
            (before, snapshot())
        });
        copies.collect()
    });
    assert!(server.stop().success());
    assert_eq!(file_names(path).len(), runs + 1, "other files are left: {:?}", file_names(path));
    let mut jobs = 0;
    for (n, (before, after)) in copies.iter().enumerate() {
        assert!(
            !before.finished.is_empty() && !before.buried.is_empty(),
            "the load has finished and buried jobs"
        );
        assert!(
            run_successfully(&["verify", &format!("copy-{n}")], path).contains(&format!("copy-{n}: sound"))
        );
        let restored = tempfile::tempdir().expect("a directory");
        let data = restored.path().join("data");
        let data = data.to_str().expect("is text");
        run_successfully(&["restore", &format!("copy-{n}"), "--data-dir", data], path);
        assert!(run_successfully(&["verify", "--data-dir", data], path).contains("sound"));
        let server = Server::serve(&[], &[], restored.path());
        check(&server, before, after);
        assert!(server.stop().success());
        assert!(run_successfully(&["verify", "--data-dir", data], path).contains("sound"));
        jobs += before.added.len();
    }
    println!("proof: what=backups, runs={runs}, acked={jobs}");
}

#[test]
fn a_backup_is_one_file_for_its_owner_that_overwrites_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let mut server = Server::serve(&[], &[], path);
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t","id":"a","delay":60}"#).status, 201);
    fs::write(path.join("mine"), "mine").expect("writes");
    assert_refused(&["backup", "mine"], path, 2, "mine: it exists already, and a backup overwrites nothing");
    assert_eq!(fs::read(path.join("mine")).expect("reads"), b"mine");
    assert_refused(&["backup", "no/such/place"], path, 1, "no/such/place: there is no such directory");
    run_successfully(&["backup", "copy"], path);
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(path.join("copy")).expect("the backup exists").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    // The same for a store that is not in use, because its server was killed.
    server.kill();
    run_successfully(&["backup", "after"], path);
    assert_eq!(file_names(path), ["after", "copy", "data", "mine"]);
    assert!(run_successfully(&["verify", "after"], path).contains("jobs       1 (1 delayed"));
    assert_eq!(file_names(path), ["after", "copy", "data", "mine"], "verifying leaves no file behind");
}

#[test]
fn a_backup_can_be_written_to_stdout() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let server = Server::serve(&[], &[], path);
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t","id":"a","delay":60}"#).status, 201);
    let before = file_names(&path.join("data"));
    let output = run(&["backup", "-"], path);
    assert!(output.status.success() && stderr(&output).ends_with(" bytes\n"), "{}", stderr(&output));
    fs::write(path.join("copy"), &output.stdout).expect("writes");
    assert!(run_successfully(&["verify", "copy"], path).contains("jobs       1 (1 delayed"));
    fs::remove_file(path.join("data/last-backup")).expect("the time of the backup is recorded");
    assert_eq!(file_names(&path.join("data")), before, "the backup leaves no other file behind");
    let missing = run(&["backup", "-", "--data-dir", "none"], path);
    assert!(!missing.status.success() && missing.stdout.is_empty());
}

#[test]
fn the_server_shows_when_the_last_backup_began() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let shown = |server: &Server| server.call("GET", "/stats", "").json()["store"]["backup_at"].clone();
    let server = Server::serve(&[], &[], path);
    assert!(shown(&server).is_null(), "none is known");
    run_successfully(&["backup", "copy"], path);
    let first = shown(&server).as_str().expect("a moment").to_owned();
    assert!(run(&["backup", "-"], path).status.success());
    let second = shown(&server);
    assert!(second.as_str() > Some(&*first), "{second} comes after {first}");
    assert!(!run(&["backup", "no/such/place"], path).status.success());
    assert_eq!(shown(&server), second, "it was none");
    assert!(server.stop().success());
    // What a store leaves behind that was moved away.
    let restored = path.join("restored/data");
    fs::create_dir_all(&restored).expect("makes it");
    fs::copy(path.join("data/last-backup"), restored.join("last-backup")).expect("copies");
    fs::write(restored.join("last-backup.1.partial"), "2026-").expect("writes");
    run_successfully(&["restore", "copy", "--data-dir", "restored/data"], path);
    let server = Server::serve(&[], &[], &path.join("restored"));
    assert!(shown(&server).is_null(), "it is of another store");
}

#[test]
fn a_backup_that_cannot_be_recorded_is_complete_and_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let _server = Server::serve(&[], &[], path);
    fs::create_dir(path.join("data/last-backup")).expect("makes it");
    let message = run_successfully(&["backup", "copy"], path);
    assert!(message.contains("the server does not show when this backup was made: "), "{message}");
    assert!(run_successfully(&["verify", "copy"], path).contains("copy: sound"));
}

/// In a container whose root file system is read-only, say.
#[test]
fn a_backup_into_a_place_without_write_access_says_that_stdout_takes_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    // Not even root can make a file there.
    let refused = run(&["backup", "/sys/backup"], directory.path());
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    let hint = "; with - in the place of the file, the backup is written to standard output\n";
    assert!(stderr(&refused).ends_with(hint), "{}", stderr(&refused));
    let elsewhere = run(&["backup", "none/backup"], directory.path());
    assert!(!elsewhere.status.success() && !stderr(&elsewhere).contains("standard output"));
    assert!(server.stop().success());
}

/// Content that an attacker with write access to a backup could put into it.
const FOREIGN_OBJECTS: [(&str, &str); 4] = [
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
    run_successfully(&["backup", "copy"], path);
    assert!(server.stop().success());
    for (n, (sql, expected)) in FOREIGN_OBJECTS.into_iter().enumerate() {
        let copy = format!("copy-{n}");
        fs::copy(path.join("copy"), path.join(&copy)).expect("copies");
        let conn = rusqlite::Connection::open(path.join(&copy)).expect("opens");
        conn.execute_batch(sql).expect("runs");
        drop(conn);
        let found = run(&["verify", &copy], path);
        let text = stdout(&found);
        assert_eq!(found.status.code(), Some(1), "{text}");
        assert!(text.contains("NOT SOUND") && text.contains(expected), "{text}");
        assert_refused(&["restore", &copy, "--data-dir", "new"], path, 1, expected);
        // The same for the data directory of a server.
        let data = path.join(format!("data-{n}"));
        fs::create_dir(&data).expect("can be made");
        fs::copy(path.join(&copy), data.join("linger.db")).expect("copies");
        let message = refusal_of_start(&["--data-dir", data.to_str().expect("is text")], path);
        assert!(message.contains("changed by another program") && message.contains(expected), "{message}");
    }
}

fn refusal_of_start(words: &[&str], directory: &Path) -> String {
    let output = process::refused(&[&["--listen", "127.0.0.1:0"], words].concat(), directory);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    stderr(&output)
}

#[test]
fn a_restore_accepts_only_sound_backups_and_empty_directories() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let mut server = Server::serve(&[], &[], path);
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t","id":"a","delay":60}"#).status, 201);
    run_successfully(&["backup", "copy"], path);
    // A manual copy of a database in use lacks the content of the log.
    fs::copy(path.join("data/linger.db"), path.join("by-hand")).expect("copies");
    server.kill();
    assert_refused(&["restore", "copy"], path, 2, "it is not empty");
    assert_refused(&["restore", "by-hand", "--data-dir", "new"], path, 1, "the log is missing or empty");
    assert_refused(
        &["restore", "data/linger.db", "--data-dir", "new"],
        path,
        1,
        "linger.db-wal is beside it",
    );
    assert_refused(&["restore", "data", "--data-dir", "new"], path, 1, "this is a directory");
    assert_refused(&["restore", "nothing", "--data-dir", "new"], path, 2, "nothing: No such file");
    fs::write(path.join("text"), "not a database at all, but long enough to be taken for one")
        .expect("writes");
    assert_refused(&["restore", "text", "--data-dir", "new"], path, 1, "text: this is not a Linger store");
    let faulty = rusqlite::Connection::open(path.join("copy")).expect("opens");
    faulty.execute_batch("UPDATE rec SET body = x'37'").expect("runs");
    drop(faulty);
    assert_refused(
        &["restore", "copy", "--data-dir", "new"],
        path,
        1,
        "not restored, because the backup has faults",
    );
    assert!(!path.join("new").exists(), "the refused restore created no directory");
}

#[test]
fn a_backup_is_restored_from_stdin_if_it_is_sound() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let server = Server::serve(&[], &[], path);
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t","id":"a","delay":60}"#).status, 201);
    run_successfully(&["backup", "copy"], path);
    assert!(server.stop().success());
    let restore = |file: &str| {
        let mut command = linger(&["restore", "-", "--data-dir", "restored/data"], path);
        command.stdin(fs::File::open(path.join(file)).expect("opens"));
        run_to_end(command)
    };
    let whole = fs::read(path.join("copy")).expect("reads");
    fs::write(path.join("cut"), &whole[..whole.len() / 2]).expect("writes");
    fs::write(path.join("empty"), "").expect("writes");
    for file in ["cut", "empty"] {
        let refused = restore(file);
        assert_eq!(refused.status.code(), Some(1), "{file}: {}", stdout(&refused));
        assert!(stderr(&refused).contains("standard input: "), "{file}: {}", stderr(&refused));
        let left = fs::read_dir(path.join("restored/data")).expect("a directory");
        let left: Vec<_> = left.map(|entry| entry.expect("an entry").file_name()).collect();
        assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("linger.db")), "{file}: {left:?}");
    }
    let restored = restore("copy");
    assert!(restored.status.success(), "{}", stderr(&restored));
    let server = Server::serve(&[], &[], &path.join("restored"));
    assert_eq!(server.job("a")["state"], "delayed");
}

#[test]
fn a_truncated_backup_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let server = Server::serve(&[], &[], path);
    for n in 0..50 {
        let job = format!(r#"{{"topic":"t","id":"{n}","delay":60,"body":"{}"}}"#, "x".repeat(3_000));
        assert_eq!(server.call("POST", "/jobs", &job).status, 201);
    }
    run_successfully(&["backup", "copy"], path);
    let whole = fs::read(path.join("copy")).expect("reads");
    for part in 0..8 {
        fs::write(path.join("cut"), &whole[..whole.len() * part / 8]).expect("writes");
        let output = run(&["restore", "cut", "--data-dir", "new"], path);
        assert_eq!(output.status.code(), Some(1), "{part}/8: {}", stdout(&output));
    }
    assert!(!path.join("new").exists());
}

#[test]
fn backups_of_redis_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("redis.toml"), "[store]\nengine = 'redis'").expect("writes");
    for command in ["backup", "restore"] {
        let words = [command, "copy", "--config", "redis.toml"];
        assert_refused(&words, directory.path(), 2, "the store is Redis; ");
    }
    assert_eq!(file_names(directory.path()), ["redis.toml"]);
}
