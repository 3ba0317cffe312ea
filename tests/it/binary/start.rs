//! The start: one line on stdout, or a clear message if the start fails.

use std::{net::TcpListener, process::Stdio};

use crate::harness::process::{Server, linger, refused, stderr};

#[test]
fn the_start_line_has_the_address_the_engine_and_the_durability() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = Server::serve(&[], &[], directory.path());
    let expected = format!(
        "linger {} listening on {}, engine embedded ({}), durability always\n",
        env!("CARGO_PKG_VERSION"),
        server.url(),
        directory.path().canonicalize().expect("is there").join("data").display()
    );
    assert_eq!(server.line, expected);
    assert_ne!(server.address.port(), 0);
    assert_eq!(server.call("GET", "/livez", "").status, 200);
    assert_eq!(server.call("GET", "/readyz", "").status, 200);
    assert_eq!(server.call("GET", "/version", "").json()["durability"], "always");
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.wait().1, "", "stdout has nothing else");
}

#[test]
fn serve_is_the_default_command() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::spawn(linger(&["--listen", "127.0.0.1:0"], directory.path()));
    assert_eq!(server.call("GET", "/readyz", "").status, 200);
}

#[test]
fn every_source_of_settings_takes_effect() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = "[queue]\nmax_body = '10B'\n[embedded]\ndata_dir = 'elsewhere'\n[log]\nformat = 'json'";
    std::fs::write(directory.path().join("mine.toml"), file).expect("can be written");
    let variables =
        [("LINGER__EMBEDDED__DURABILITY", "interval"), ("LINGER__EMBEDDED__SYNC_INTERVAL", "20ms")];
    let server = Server::serve(&["--config", "mine.toml"], &variables, directory.path());
    assert!(server.line.contains("/elsewhere), durability interval 20ms"), "{}", server.line);
    assert!(directory.path().join("elsewhere").is_dir());
    let large = server.call("POST", "/jobs", r#"{"topic":"t","body":"more than ten bytes"}"#);
    assert_eq!((large.status, large.json()["code"].as_str()), (413, Some("body_too_large")));
    server.wait_for_log("listening");
    let first = server.log().lines().next().map(str::to_owned).expect("a line");
    assert!(serde_json::from_str::<serde_json::Value>(&first).is_ok(), "{first}");
}

#[test]
fn the_log_says_which_addresses_callbacks_may_reach_by_default() {
    let directory = tempfile::tempdir().expect("a directory");
    let words = "allowed=\"public, private, loopback\" setting=\"callbacks.allow_networks\"";
    for (networks, calls, is_logged) in
        [("auto", "512", true), ("public", "512", false), ("auto", "0", false)]
    {
        let mut server = Server::serve(
            &[],
            &[
                ("LINGER__CALLBACKS__ALLOW_NETWORKS", networks),
                ("LINGER__CALLBACKS__MAX_CALLS", calls),
                ("LINGER__LOG__FORMAT", "text"),
            ],
            directory.path(),
        );
        server.signal(rustix::process::Signal::TERM);
        server.wait();
        assert_eq!(server.log().contains(words), is_logged, "{}", server.log());
    }
}

#[test]
fn a_port_in_use_is_reported_in_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("has an address").to_string();
    let output = refused(&["--listen", &address], directory.path());
    let expected = format!("linger: cannot listen on {address}: another process uses this address; ");
    assert_eq!(output.status.code(), Some(1));
    let last = stderr(&output).lines().last().map(str::to_owned).expect("a line");
    assert!(last.starts_with(&expected), "{last}");
    assert!(!directory.path().join("data").exists(), "the store is not opened");
}

#[test]
fn a_second_process_on_the_same_directory_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = Server::serve(&[], &[], directory.path());
    let second = refused(&["--listen", "127.0.0.1:0"], directory.path());
    assert_eq!(second.status.code(), Some(1));
    let last = stderr(&second).lines().last().map(str::to_owned).expect("a line");
    assert!(last.starts_with("linger: cannot open the store: "), "{last}");
    assert_eq!(first.call("GET", "/readyz", "").status, 200, "the first process still serves");
}

#[test]
fn a_data_directory_that_cannot_be_created_is_reported_in_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("file"), "in the way").expect("can be written");
    let output = refused(&["--listen", "127.0.0.1:0", "--data-dir", "file/data"], directory.path());
    assert_eq!(output.status.code(), Some(1));
    let last = stderr(&output).lines().last().map(str::to_owned).expect("a line");
    assert!(last.starts_with("linger: cannot open the store: ") && last.contains("/file/data: "), "{last}");
}

#[test]
fn logs_go_to_stderr_as_json_by_default_and_as_text_if_configured() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut json = Server::serve(&[], &[], directory.path());
    json.signal(rustix::process::Signal::TERM);
    json.wait();
    for line in json.log().lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("every line is JSON");
        assert!(line["timestamp"].is_string() && line["level"].is_string() && line["message"].is_string());
    }
    let mut text = Server::serve(&[], &[("LINGER__LOG__FORMAT", "text")], directory.path());
    text.signal(rustix::process::Signal::TERM);
    text.wait();
    assert!(text.log().contains("INFO linger::server: stopped"), "{}", text.log());
    let mut quiet = Server::serve(&[], &[("RUST_LOG", "off")], directory.path());
    quiet.signal(rustix::process::Signal::TERM);
    quiet.wait();
    assert_eq!(quiet.log(), "");
}

#[test]
fn a_closed_stderr_stops_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut child = linger(&["--listen", "127.0.0.1:0"], directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("linger starts");
    drop(child.stderr.take());
    let server = Server::from_child(child);
    assert_eq!(server.call("GET", "/readyz", "").status, 200);
    assert!(server.stop().success());
}
