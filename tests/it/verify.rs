//! `linger verify` as a program: its output and its exit code. It changes nothing.

use std::{collections::BTreeMap, path::Path, process::Output};

use rusqlite::{Connection, config::DbConfig};

use crate::harness::{
    process::{Server, linger, run, stderr, stdout},
    redis::RedisServer,
    resp::Resp,
};

/// A directory with the store of a server that had jobs in every state and was killed.
fn store_of_killed_server() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = Server::serve(&[], &[], directory.path());
    for (id, delay) in [("a", 0), ("b", 0), ("c", 0), ("d", 3_600), ("e", 900_000)] {
        let job = format!(r#"{{"topic":"t","id":"{id}","delay":{delay},"body":"of {id}"}}"#);
        assert_eq!(server.call("POST", "/jobs", &job).status, 201);
    }
    assert_eq!(server.call("GET", "/topics/t/pop?ttr=1h", "").json()["id"], "a");
    let reserved = server.call("GET", "/topics/t/pop", "").json();
    let bury = format!(r#"{{"receipt":{}}}"#, reserved["receipt"]);
    assert_eq!(server.call("POST", "/jobs/b/bury", &bury).status, 200);
    server.kill();
    directory
}

/// Opens a connection to the store that does not remove the log when it closes.
fn database(directory: &Path) -> Connection {
    let conn = Connection::open(directory.join("data/linger.db")).expect("opens");
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).expect("is set");
    conn
}

fn damage(directory: &Path, sql: &str) {
    database(directory).execute_batch(sql).expect("runs");
}

/// The content of every file of the store except SQLite's index of the log.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory.join("data")).expect("the directory exists");
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("is readable");
        let name = entry.file_name().into_string().expect("is text");
        (name, std::fs::read(entry.path()).expect("reads"))
    };
    entries.map(file).filter(|(name, _)| name != "linger.db-shm").collect()
}

/// Runs a verification, which must change no file.
fn verify(directory: &Path) -> Output {
    let before = files(directory);
    let output = run(&["verify"], directory);
    assert!(files(directory) == before, "the verification changed a file");
    output
}

#[test]
fn a_sound_store_is_summarised_with_exit_code_0() {
    let directory = store_of_killed_server();
    let output = verify(directory.path());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let expected = "data: sound\n  jobs       5 (2 delayed, 1 ready, 1 reserved, 1 dead)\n  stale      0\n  \
                    set aside  0\n  faults     0\n";
    assert_eq!(stdout(&output), expected);
}

#[test]
fn faults_are_listed_with_exit_code_1_and_not_repaired() {
    for (sql, fault) in [
        ("UPDATE rec SET body = x'37' WHERE id = 'd'", "job \"d\""),
        ("UPDATE rec SET head = zeroblob(50) WHERE id = 'e'", "checksum of its head"),
        ("DELETE FROM rec WHERE id = 'a'", "the reservation at"),
        (
            "DELETE FROM rec WHERE id = 'd'; INSERT INTO broken (id) VALUES ('d'); DROP TABLE lease",
            "no such table",
        ),
    ] {
        let directory = store_of_killed_server();
        damage(directory.path(), sql);
        for _ in 0..2 {
            let output = verify(directory.path());
            let text = stdout(&output);
            assert_eq!(output.status.code(), Some(1), "{text}{}", stderr(&output));
            assert!(text.starts_with("data: NOT SOUND\n") && text.contains(fault), "{fault:?}: {text}");
        }
    }
}

#[test]
fn damaged_pages_are_reported_as_faults() {
    let directory = store_of_killed_server();
    // A clean stop copies everything into the database file.
    assert!(Server::serve(&[], &[], directory.path()).stop().success());
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'rec'";
    let page: u32 = database(directory.path()).query_row(root, [], |row| row.get(0)).expect("reads");
    let path = directory.path().join("data/linger.db");
    let mut bytes = std::fs::read(&path).expect("reads");
    let start = (page as usize - 1) * 4_096;
    bytes[start..start + 4_096].fill(0xa5);
    std::fs::write(&path, bytes).expect("writes");
    let output = verify(directory.path());
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let text = stdout(&output);
    assert!(text.contains("NOT SOUND") && text.contains("malformed"), "{text}");
}

#[test]
fn a_store_that_cannot_be_verified_is_named_and_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = run(&["verify"], directory.path());
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("data/linger.db: No such file"), "{}", stderr(&missing));
    assert!(!directory.path().join("data").exists());

    let server = Server::serve(&[], &[], directory.path());
    let in_use = run(&["verify"], directory.path());
    assert_eq!(in_use.status.code(), Some(2));
    let refusal = format!(
        "another process (pid {}) is using this data directory; stop it, or verify a backup",
        server.pid()
    );
    assert!(stderr(&in_use).contains(&refusal), "{}", stderr(&in_use));
    assert!(server.stop().success());

    damage(directory.path(), "PRAGMA user_version = 7");
    let newer = verify(directory.path());
    assert_eq!(newer.status.code(), Some(1));
    assert!(stderr(&newer).contains("format 7, but this version of Linger knows only 2"));
}

#[test]
fn a_lost_log_is_refused() {
    let directory = store_of_killed_server();
    std::fs::remove_file(directory.path().join("data/linger.db-wal")).expect("removes");
    for command in [&["verify"][..], &["backup", "copy"]] {
        let output = run(command, directory.path());
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(stderr(&output).contains("the log is missing or empty"), "{}", stderr(&output));
    }
    assert!(!directory.path().join("copy").exists());
}

#[test]
fn redis_is_verified_while_servers_use_it() {
    let (directory, redis) = (tempfile::tempdir().expect("a directory"), RedisServer::start());
    let url = redis.url();
    let words = ["--store", "redis", "--redis-url", &url];
    let server = Server::serve(&words, &[], directory.path());
    for id in ["a", "b"] {
        assert_eq!(server.call("POST", "/jobs", &format!(r#"{{"topic":"t","id":"{id}"}}"#)).status, 201);
    }
    let verify = || linger(&["verify"], directory.path()).args(words).output().expect("linger runs");
    let sound = verify();
    assert_eq!(sound.status.code(), Some(0), "{}", stderr(&sound));
    let text = stdout(&sound);
    assert!(text.contains("): sound\n  jobs       2 (0 delayed, 2 ready, 0 reserved, 0 dead)"), "{text}");
    let mut client = Resp::connect(([127, 0, 0, 1], redis.port).into()).expect("connects");
    // A job without its entry in the ready list would wait until the server repairs it.
    for key in client.call(&["KEYS", "*:ready:t"]).list() {
        client.call(&["DEL", &key.text()]);
    }
    let faulty = verify();
    assert_eq!(faulty.status.code(), Some(1), "{}", stdout(&faulty));
    assert!(stdout(&faulty).contains("NOT SOUND"), "{}", stdout(&faulty));
}

/// No server runs, so every write would come from the verification.
#[test]
fn verifying_redis_writes_nothing() {
    let (directory, redis) = (tempfile::tempdir().expect("a directory"), RedisServer::start());
    let url = redis.url();
    let words = ["--store", "redis", "--redis-url", &url];
    let verify = || linger(&["verify"], directory.path()).args(words).output().expect("linger runs");
    let mut client = Resp::connect(([127, 0, 0, 1], redis.port).into()).expect("connects");
    let empty = verify();
    assert_eq!(empty.status.code(), Some(0), "{}", stderr(&empty));
    assert!(stdout(&empty).contains("jobs       0 "), "{}", stdout(&empty));
    assert_eq!(client.call(&["DBSIZE"]).int(), 0, "the verification wrote to an empty Redis");

    let mut server = Server::serve(&words, &[], directory.path());
    for (id, delay) in [("a", 0), ("b", 3_600)] {
        let job = format!(r#"{{"topic":"t","id":"{id}","delay":{delay}}}"#);
        assert_eq!(server.call("POST", "/jobs", &job).status, 201);
    }
    server.kill();
    // Only a server compacts lists.
    let before = client.call(&["DEBUG", "DIGEST"]);
    let sound = verify();
    assert_eq!(sound.status.code(), Some(0), "{}{}", stdout(&sound), stderr(&sound));
    assert_eq!(client.call(&["DEBUG", "DIGEST"]), before, "the verification wrote something");
    client.call(&["DEL", "{linger}:meta"]);
    let before = client.call(&["DEBUG", "DIGEST"]);
    let lost = verify();
    assert_eq!(lost.status.code(), Some(1), "{}{}", stdout(&lost), stderr(&lost));
    assert!(stderr(&lost).contains("was emptied or replaced"), "{}", stderr(&lost));
    assert_eq!(client.call(&["DEBUG", "DIGEST"]), before, "the verification wrote something");
}

/// The keys of one prefix begin like the keys of a shard of the other.
#[test]
fn queues_whose_prefixes_look_like_shards_are_distinguished() {
    let (directory, redis) = (tempfile::tempdir().expect("a directory"), RedisServer::start());
    let url = redis.url();
    let words = ["--store", "redis", "--redis-url", &url];
    let prefixes = ["linger", "linger:0"];
    let servers = prefixes.map(|prefix| {
        let server = Server::serve(&words, &[("LINGER__REDIS__PREFIX", prefix)], directory.path());
        assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t","id":"a"}"#).status, 201);
        assert!((200..300).contains(&server.call("POST", "/topics/t/pause", r#"{"delivery":true}"#).status));
        server
    });
    for prefix in prefixes {
        let mut command = linger(&["verify"], directory.path());
        let output = command.args(words).env("LINGER__REDIS__PREFIX", prefix).output().expect("linger runs");
        assert_eq!(output.status.code(), Some(0), "{prefix}: {}", stdout(&output));
    }
    drop(servers);
}
