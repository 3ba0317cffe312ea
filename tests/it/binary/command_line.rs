//! The commands that do not serve: help, settings, health.

use std::{
    io::{BufRead, BufReader},
    process::{Output, Stdio},
};

use crate::harness::process::{Server, linger, run, stderr, stdout};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn config(words: &[&str], file: &str, variables: &[(&str, &str)]) -> Output {
    let directory = directory();
    std::fs::write(directory.path().join("linger.toml"), file).expect("can be written");
    let mut command = linger(&["config"], directory.path());
    command.args(words).envs(variables.iter().copied()).output().expect("linger runs")
}

#[test]
fn help_and_version_are_on_stdout_and_wrong_usage_is_2() {
    let directory = directory();
    let help = run(&["--help"], directory.path());
    assert!(help.status.success());
    for word in ["--listen", "--data-dir", "--store", "--redis-url", "--config", "LINGER__", "Examples:"] {
        assert!(stdout(&help).contains(word), "{word}");
    }
    let version = run(&["--version"], directory.path());
    // The version has the commit if it is known, as in a release or an image.
    let version = stdout(&version);
    let commit = version.strip_prefix(concat!("linger ", env!("CARGO_PKG_VERSION"))).expect("the version");
    let is_commit = commit.starts_with(" (") && commit.ends_with(")\n");
    assert!(is_commit || (commit == "\n" && cfg!(debug_assertions)), "{version}");
    let wrong = run(&["--lisen", "127.0.0.1:0"], directory.path());
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("--listen"), "{}", stderr(&wrong));
}

#[test]
fn config_check_succeeds_for_a_valid_configuration() {
    let checked = config(&["check"], "[queue]\nmax_batch = 7", &[]);
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
}

#[test]
fn every_fault_of_every_source_is_listed_before_anything_starts() {
    let file = "[server]\nlisten = 'nowhere'\n[sever]\nlisten = 1";
    let variables = [("LINGER__EMBEDDED__DURABILITY", "perhaps"), ("LINGER__QUEUE__MAX_WATE", "1s")];
    let checked = config(&["check", "--store", "mysql"], file, &variables);
    assert_eq!(checked.status.code(), Some(1));
    let directory = directory();
    std::fs::write(directory.path().join("linger.toml"), file).expect("can be written");
    let mut serve = linger(&["serve", "--store", "mysql"], directory.path());
    let served = serve.envs(variables).output().expect("linger runs");
    assert_eq!(served.status.code(), Some(2));
    for output in [checked, served] {
        for fault in [
            "5 faults",
            "server.listen (linger.toml): \"nowhere\"",
            "sever.listen (linger.toml): is not a known key; did you mean server.listen?",
            "embedded.durability (environment variable LINGER__EMBEDDED__DURABILITY): \"perhaps\"",
            "queue.max_wate (environment variable LINGER__QUEUE__MAX_WATE): is not a known key",
            "store.engine (flag --store): \"mysql\"",
        ] {
            assert!(stderr(&output).contains(fault), "{fault:?} is not in:\n{}", stderr(&output));
        }
        assert_eq!(stdout(&output), "");
    }
    assert!(!directory.path().join("data").exists());
}

#[test]
fn config_show_prints_each_setting_with_its_source_and_without_secrets() {
    let file =
        "[store]\nengine = 'redis'\n[redis]\nurl = 'redis://app:hunter2@cache:6379'\n[queue]\nmax_batch = 7";
    let variables = [("LINGER_PORT", "tcp://10.0.0.1:1")];
    let shown = config(&["show", "--listen", "[::1]:1"], file, &variables);
    assert_eq!(shown.status.code(), Some(0), "{}", stderr(&shown));
    let text = stdout(&shown);
    for line in [
        "[server]",
        "listen = \"[::1]:1\"  # flag --listen",
        "max_batch = 7  # linger.toml",
        "url = \"redis://app:<redacted>@cache:6379\"  # linger.toml",
        "max_wait = \"60s\"",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line:?} is not in:\n{text}");
    }
    assert!(!text.contains("hunter2"), "{text}");
    let file = "[store]\nengine = 'redis'\n[redis]\nmode = 'sentinel'\nnodes = ['cache:26379']\nsentinel_master = 'm'";
    let shown = config(&["show"], file, &[("LINGER__REDIS__SENTINEL_PASSWORD", "hunter2")]);
    assert_eq!(shown.status.code(), Some(0), "{}", stderr(&shown));
    let text = stdout(&shown);
    let line = "sentinel_password = \"<redacted>\"  # environment variable LINGER__REDIS__SENTINEL_PASSWORD";
    assert!(text.lines().any(|shown| shown == line), "{line:?} is not in:\n{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn a_closed_stdout_is_not_a_failure() {
    let directory = directory();
    let mut child = linger(&["config", "show"], directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("linger starts");
    // Closes stdout before anything is read from it.
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

#[test]
fn health_is_0_for_a_ready_server_and_1_otherwise() {
    let directory = directory();
    let server = Server::serve(&[], &[], directory.path());
    let listen = format!("0.0.0.0:{}", server.address.port());
    for words in [&["--url", &server.url()][..], &["--listen", &listen]] {
        let mut health = linger(&["health"], directory.path());
        let health =
            health.args(words).env("LINGER__AUTH__ALLOW_ANONYMOUS", "true").output().expect("linger runs");
        assert_eq!((health.status.code(), stdout(&health)), (Some(0), "ready\n".to_owned()), "{words:?}");
    }
    let address = server.address.to_string();
    assert!(server.stop().success());
    let health = run(&["health", "--listen", &address], directory.path());
    assert_eq!(health.status.code(), Some(1));
    assert!(stderr(&health).contains("is not ready"), "{}", stderr(&health));
}

#[test]
fn health_does_not_wait_for_ever_for_a_silent_server() {
    let directory = directory();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("has an address").to_string();
    let health = run(&["health", "--listen", &address, "--timeout", "50ms"], directory.path());
    assert_eq!(health.status.code(), Some(1));
    assert!(stderr(&health).contains("no answer within 50ms"), "{}", stderr(&health));
}

#[test]
fn health_reports_a_server_that_answers_503_as_not_ready() {
    let directory = directory();
    let unready = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = unready.local_addr().expect("has an address").to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = unready.accept().expect("is called");
        let mut request_line = String::new();
        BufReader::new(&stream).read_line(&mut request_line).expect("is text");
        let answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
        std::io::Write::write_all(&mut stream, answer).expect("is read");
        request_line
    });
    let health = run(&["health", "--listen", &address], directory.path());
    assert_eq!(health.status.code(), Some(1));
    assert!(stderr(&health).contains("answers 503"), "{}", stderr(&health));
    assert_eq!(server.join().expect("does not panic"), "GET /readyz HTTP/1.1\r\n");
}
