//! The data directory from outside: who may use it, what becomes of it while a server runs, and what is said where it
//! cannot be used.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{Command, Stdio},
};

use rustix::process::{Signal, geteuid};

use crate::harness::{
    process::{Refused, Server, linger, linger_under, refused, run, stderr, stdout},
    wait::TimeLimit,
};

fn last_line(text: &str) -> String {
    text.lines().last().map(str::to_owned).unwrap_or_default()
}

/// What a server that is refused says in its last line.
fn refusal(arguments: &[&str], directory: &Path) -> String {
    let output = refused(&[&["--listen", "127.0.0.1:0"], arguments].concat(), directory);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    last_line(&stderr(&output))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("is there").permissions().mode() & 0o777
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("can be set");
}

/// The server asks its store once a second.
#[track_caller]
fn becomes_unready(server: &Server) {
    let time_limit = TimeLimit::new();
    while server.call("GET", "/readyz", "").status != 503 {
        time_limit.check(|| "it is still ready".to_owned());
        std::thread::yield_now();
    }
}

#[test]
fn a_second_server_is_refused_also_when_the_lock_file_was_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = Server::serve(&[], &[], directory.path());
    let expected = format!("another process (pid {}) is using this data directory", first.pid());
    let data = directory.path().join("data");
    for removed in ["nothing", "lock"] {
        let _ = fs::remove_file(data.join(removed));
        let said = refusal(&[], directory.path());
        assert!(said.contains(&expected), "{said}");
        assert!(said.contains(&format!("{}: ", data.display())), "the path is absolute: {said}");
    }
    for words in [&["verify"][..], &["restore", "none"]] {
        assert_ne!(run(words, directory.path()).status.code(), Some(0), "{words:?}");
    }
    assert_eq!(first.call("POST", "/jobs", r#"{"topic":"t"}"#).status, 201, "the first is unharmed");
    assert!(first.stop().success());
    assert!(Server::serve(&[], &[], directory.path()).stop().success());
}

#[test]
fn nothing_is_acknowledged_once_the_files_are_gone() {
    for removed in ["", "linger.db", "linger.db-wal"] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut server = Server::serve(&[], &[], directory.path());
        assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t","id":"a"}"#).status, 201);
        let path = directory.path().join("data").join(removed);
        if removed.is_empty() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }
            .expect("can be removed");
        let add = server.call("POST", "/jobs", r#"{"topic":"t","id":"b"}"#);
        assert_eq!(add.status, 503, "{removed:?}: {add:?}");
        becomes_unready(&server);
        server.wait_for_log("was removed or replaced");
        server.signal(Signal::TERM);
        assert!(!server.wait().0.success(), "{removed:?}: the end is not called orderly");
    }
}

#[test]
fn unready_without_a_call_that_changes_anything() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    assert_eq!(server.call("GET", "/readyz", "").status, 200);
    fs::rename(directory.path().join("data"), directory.path().join("moved")).expect("can be moved");
    becomes_unready(&server);
}

#[test]
fn what_cannot_be_a_data_directory_is_said_in_words() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("file"), "").expect("can be written");
    let said = refusal(&["--data-dir", "file"], directory.path());
    assert!(said.ends_with("/file: it is not a directory"), "{said}");
}

#[test]
fn a_directory_of_another_user_is_refused_with_the_remedy() {
    // Root may write everywhere, so it becomes somebody else.
    let (wrapper, uid): (&[&str], _) = match geteuid().is_root() {
        true => (&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"], 65_534),
        false => (&[], geteuid().as_raw()),
    };
    let directory = tempfile::tempdir().expect("a directory");
    allow(directory.path(), 0o755);
    let program = directory.path().join("linger");
    let built = linger(&[], directory.path()).get_program().to_owned();
    fs::copy(built, &program).expect("copies");
    for existing in [true, false] {
        let data = directory.path().join(format!("data-{existing}"));
        if existing {
            fs::create_dir(&data).expect("can be made");
        }
        allow(directory.path(), 0o555);
        let own = [program.as_os_str(), "serve".as_ref(), "--listen".as_ref(), "127.0.0.1:0".as_ref()];
        let mut words =
            wrapper.iter().map(AsRef::as_ref).chain(own).chain(["--data-dir".as_ref(), data.as_os_str()]);
        let mut command = Command::new(words.next().expect("at least the program"));
        command.args(words).current_dir(directory.path()).stdin(Stdio::null());
        if existing {
            allow(&data, 0o555);
        }
        let Err(Refused { status, log }) = Server::try_spawn(command) else { panic!("it serves") };
        allow(directory.path(), 0o755);
        let said = last_line(&log);
        assert_eq!(status.code(), Some(1), "{log}");
        for part in [format!("user {uid}"), format!("chown -R {uid}"), "--data-dir".to_owned()] {
            assert!(said.contains(&part), "{part:?} is not in {said}");
        }
    }
}

#[test]
fn files_are_private_also_in_a_directory_that_was_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    fs::create_dir(&data).expect("can be made");
    allow(&data, 0o755);
    let mut command = linger_under(
        &["sh", "-c", "umask 022; exec \"$@\"", "sh"],
        &["--listen", "127.0.0.1:0"],
        directory.path(),
    );
    command.env("LINGER__EMBEDDED__DURABILITY", "always");
    let server = Server::spawn(command);
    assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t"}"#).status, 201);
    let files = fs::read_dir(&data).expect("is there").map(|file| file.expect("readable").path());
    let files: Vec<_> = files.map(|path| (mode(&path), path)).collect();
    assert!(files.len() >= 4 && files.iter().all(|(mode, _)| *mode == 0o600), "{files:?}");
}

#[test]
fn a_lock_file_that_is_a_link_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("data")).expect("can be made");
    fs::write(directory.path().join("precious"), "precious").expect("can be written");
    symlink("../precious", directory.path().join("data/lock")).expect("can be made");
    let said = refusal(&[], directory.path());
    assert!(said.contains("data/lock: it is a symbolic link"), "{said}");
    assert_eq!(fs::read(directory.path().join("precious")).expect("reads"), b"precious");
}

#[test]
fn what_others_may_write_or_read_is_warned_of() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let token = stdout(&run(&["token", "new", "--scope", "read"], directory.path()));
    let entry = token.find("[[token]]").map(|at| &token[at..]).expect("an entry");
    fs::write(path("tokens.toml"), entry).expect("can be written");
    fs::write(path("linger.toml"), "[auth]\ntokens_file = 'tokens.toml'\n").expect("can be written");
    fs::create_dir(path("data")).expect("can be made");
    for (dir_mode, file_mode, warned) in [(0o700, 0o600, false), (0o777, 0o666, true)] {
        allow(&path("data"), dir_mode);
        allow(&path("tokens.toml"), file_mode);
        let mut server = Server::serve(&[], &[], directory.path());
        server.signal(Signal::TERM);
        server.wait();
        let log = server.log();
        let warnings = log.lines().filter(|line| line.contains("other users")).count();
        assert_eq!(warnings, if warned { 2 } else { 0 }, "{log}");
    }
}

#[test]
fn the_start_line_and_the_log_show_the_absolute_path() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    let data = directory.path().canonicalize().expect("is there").join("data");
    assert!(server.line.contains(&format!("engine embedded ({})", data.display())), "{}", server.line);
    server.wait_for_log(&format!("{}/linger.db", data.display()));
}
