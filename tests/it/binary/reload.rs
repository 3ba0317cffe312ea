//! Files that the server reads at start and at SIGHUP, and the host names in requests.

use std::{
    fs::File,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
};

use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::Signal,
};

use crate::harness::process::{Server, linger, stderr};

const ENTRY: &str = "[[token]]\nname = 'a'\nscopes = ['admin']\n\
    sha256 = '2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae'\n";

fn make_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
}

#[test]
fn fault_a_tokens_file_that_cannot_be_read_stops_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let tokens = directory.path().join("tokens.toml");
    std::fs::write(&tokens, ENTRY).expect("can be written");
    let mut server = Server::serve(&[], &[("LINGER__AUTH__TOKENS_FILE", "tokens.toml")], directory.path());
    std::fs::remove_file(&tokens).expect("is there");
    make_pipe(&tokens);
    server.signal(Signal::HUP);
    server.wait_for_log("it is not a regular file");
    assert_eq!(server.call("GET", "/livez", "").status, 200);
    std::fs::remove_file(&tokens).expect("is there");
    File::create(&tokens).and_then(|file| file.set_len(1 << 30)).expect("a large file");
    server.signal(Signal::HUP);
    server.wait_for_log("it is larger than");
    std::fs::write(&tokens, ENTRY).expect("can be written");
    server.signal(Signal::HUP);
    server.wait_for_log("reloaded the tokens");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0.code(), Some(0), "{}", server.log());
}

#[test]
fn a_start_does_not_wait_for_a_pipe() {
    let directory = tempfile::tempdir().expect("a directory");
    make_pipe(&directory.path().join("tokens.toml"));
    let mut command = linger(&["--listen", "127.0.0.1:0"], directory.path());
    let output = command.env("LINGER__AUTH__TOKENS_FILE", "tokens.toml").output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("tokens.toml"), "{}", stderr(&output));
    assert!(stderr(&output).contains("it is not a regular file"), "{}", stderr(&output));
}

#[test]
fn a_hangup_never_ends_a_server_that_has_nothing_to_reload() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = Server::serve(&[], &[], directory.path());
    server.signal(Signal::HUP);
    server.wait_for_log("no tokens and no certificate to reload");
    assert_eq!(server.call("GET", "/livez", "").status, 200);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0.code(), Some(0), "{}", server.log());
}

/// The status line of the response to a GET with this host name.
fn status_line(address: SocketAddr, path: &str, host: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connects");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("is read");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("is answered");
    response.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn fault_a_rebound_host_name_is_refused_if_no_token_is_required() {
    let directory = tempfile::tempdir().expect("a directory");
    let allowed =
        [("LINGER__SERVER__ALLOWED_HOSTS", "*.svc.cluster.local"), ("LINGER__AUTH__ALLOW_ANONYMOUS", "true")];
    for variables in [&allowed[1..], &allowed[..]] {
        let mut command = linger(&["serve", "--listen", "0.0.0.0:0"], directory.path());
        command.envs(variables.iter().copied());
        let server = Server::spawn(command);
        let address = SocketAddr::from(([127, 0, 0, 1], server.address.port()));
        for path in ["/topics", "/version"] {
            assert_eq!(status_line(address, path, "evil.test"), "HTTP/1.1 403 Forbidden");
            for host in ["localhost", "127.0.0.1:9277", "10.1.2.3"] {
                assert_eq!(status_line(address, path, host), "HTTP/1.1 200 OK", "{host}");
            }
        }
        for path in ["/livez", "/readyz"] {
            assert_eq!(status_line(address, path, "pod-7.internal"), "HTTP/1.1 200 OK");
        }
        let in_cluster = status_line(address, "/topics", "linger.default.svc.cluster.local:9277");
        let expected = if variables.len() == 2 { "HTTP/1.1 200 OK" } else { "HTTP/1.1 403 Forbidden" };
        assert_eq!(in_cluster, expected);
    }
}
