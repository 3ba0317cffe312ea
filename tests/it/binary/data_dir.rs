//! The data directory from outside: who may use it, what happens if it is removed while a server runs, and the messages if
//! it cannot be used.

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

/// The last line that a server logs if it refuses to start.
fn refusal(arguments: &[&str], directory: &Path) -> String {
    let output = refused(&[&["--listen", "127.0.0.1:0"], arguments].concat(), directory);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    last_line(&stderr(&output))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("is there").permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("can be set");
}

/// Waits, because the server checks its store once a second.
#[track_caller]
fn wait_until_unready(server: &Server) {
    let time_limit = TimeLimit::new();
    while server.call("GET", "/readyz", "").status != 503 {
        time_limit.check(|| "the server is still ready".to_owned());
        time_limit.pause_thread();
    }
}

#[test]
fn a_second_server_is_refused_even_if_the_lock_file_was_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = Server::serve(&[], &[], directory.path());
    let expected = format!("another process (pid {}) is using this data directory", first.pid());
    let data = directory.path().join("data");
    for removed in ["nothing", "lock"] {
        let _ = fs::remove_file(data.join(removed));
        let message = refusal(&[], directory.path());
        assert!(message.contains(&expected), "{message}");
        assert!(message.contains(&format!("{}: ", data.display())), "the path is absolute: {message}");
    }
    for words in [&["verify"][..], &["restore", "none"]] {
        assert_ne!(run(words, directory.path()).status.code(), Some(0), "{words:?}");
    }
    assert_eq!(first.call("POST", "/jobs", r#"{"topic":"t"}"#).status, 201, "the first server still works");
    assert!(first.stop().success());
    assert!(Server::serve(&[], &[], directory.path()).stop().success());
}

#[test]
fn nothing_is_acknowledged_once_the_files_are_removed() {
    for removed in ["", "linger.db", "linger.db-wal"] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut server = Server::serve(&[], &[], directory.path());
        assert_eq!(server.call("POST", "/jobs", r#"{"topic":"t","id":"a"}"#).status, 201);
        let path = directory.path().join("data").join(removed);
        if removed.is_empty() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }
            .expect("can be removed");
        let add = server.call("POST", "/jobs", r#"{"topic":"t","id":"b"}"#);
        assert_eq!(add.status, 503, "{removed:?}: {add:?}");
        wait_until_unready(&server);
        server.wait_for_log("was removed or replaced");
        server.signal(Signal::TERM);
        assert!(!server.wait().0.success(), "{removed:?}: the shutdown reports success");
    }
}

#[test]
fn the_server_becomes_unready_even_without_a_change() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    assert_eq!(server.call("GET", "/readyz", "").status, 200);
    fs::rename(directory.path().join("data"), directory.path().join("moved")).expect("can be moved");
    wait_until_unready(&server);
}

#[test]
fn the_error_says_that_the_path_is_not_a_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("file"), "").expect("can be written");
    let message = refusal(&["--data-dir", "file"], directory.path());
    assert!(message.ends_with("/file: it is not a directory"), "{message}");
}

#[test]
fn a_directory_of_another_user_is_refused_with_the_remedy() {
    // Root may write everywhere, so root runs the server as another user.
    let (wrapper, uid): (&[&str], _) = match geteuid().is_root() {
        true => (&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"], 65_534),
        false => (&[], geteuid().as_raw()),
    };
    let directory = tempfile::tempdir().expect("a directory");
    set_mode(directory.path(), 0o755);
    let program = directory.path().join("linger");
    let built = linger(&[], directory.path()).get_program().to_owned();
    fs::copy(built, &program).expect("copies");
    for existing in [true, false] {
        let data = directory.path().join(format!("data-{existing}"));
        if existing {
            fs::create_dir(&data).expect("can be made");
        }
        set_mode(directory.path(), 0o555);
        let command_line =
            [program.as_os_str(), "serve".as_ref(), "--listen".as_ref(), "127.0.0.1:0".as_ref()];
        let mut words = wrapper
            .iter()
            .map(AsRef::as_ref)
            .chain(command_line)
            .chain(["--data-dir".as_ref(), data.as_os_str()]);
        let mut command = Command::new(words.next().expect("the words contain the program"));
        command.args(words).current_dir(directory.path()).stdin(Stdio::null());
        if existing {
            set_mode(&data, 0o555);
        }
        let Err(Refused { status, log }) = Server::try_spawn(command) else { panic!("the server started") };
        set_mode(directory.path(), 0o755);
        let message = last_line(&log);
        assert_eq!(status.code(), Some(1), "{log}");
        for part in [format!("user {uid}"), format!("chown -R {uid}"), "--data-dir".to_owned()] {
            assert!(message.contains(&part), "{part:?} is not in {message}");
        }
    }
}

#[test]
fn files_are_private_even_in_an_existing_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    fs::create_dir(&data).expect("can be made");
    set_mode(&data, 0o755);
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
    let message = refusal(&[], directory.path());
    assert!(message.contains("data/lock: it is a symbolic link"), "{message}");
    assert_eq!(fs::read(directory.path().join("precious")).expect("reads"), b"precious");
}

#[test]
fn files_that_other_users_may_read_or_write_cause_a_warning() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let token = stdout(&run(&["token", "new", "--scope", "read"], directory.path()));
    let entry = token.find("[[token]]").map(|at| &token[at..]).expect("an entry");
    fs::write(path("tokens.toml"), entry).expect("can be written");
    fs::write(path("linger.toml"), "[auth]\ntokens_file = 'tokens.toml'\n").expect("can be written");
    fs::create_dir(path("data")).expect("can be made");
    for (dir_mode, file_mode, warned) in [(0o700, 0o600, false), (0o777, 0o666, true)] {
        set_mode(&path("data"), dir_mode);
        set_mode(&path("tokens.toml"), file_mode);
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
