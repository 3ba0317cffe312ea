//! The examples of callbacks and the shell blocks of docs/callbacks.md: the receiver with the test vector of Standard
//! Webhooks, and all of them against the real program.

use std::{
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
};

use super::{Program, example};
use crate::harness::{
    blocking_http::call_with,
    faketime,
    pages::{TRY_CURL, blocks_after},
    process::Server,
    redis::free_port,
    wait::TimeLimit,
};

/// The secret, the headers and the body of the test vector.
const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const HEADERS: &str = "webhook-id: msg_27UH4WbU6Z5A5EzD8u03UvzRbpk\r\nwebhook-timestamp: 1649367553\r\n";
const SIGNATURE: &str = "webhook-signature: v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=\r\n";
const BODY: &str = r#"{"email":"test@example.com","username":"test_user"}"#;
/// The time at which the vector was signed, from which the clock goes on.
const SIGNED_AT: &str = "@2022-04-07 21:39:13";

const COMMENT: &str = "<!-- tests/it/examples/callbacks.rs runs the next two blocks -->";

/// The receiver, and the address that it listens on.
struct Receiver {
    program: Program,
    address: SocketAddr,
}

impl Receiver {
    /// Starts a command that runs the receiver on the port in `PORT`, and waits until it listens.
    fn start(mut command: Command, secrets: &str, address: SocketAddr) -> Self {
        command.env("PORT", address.port().to_string()).env("LINGER_SECRETS", secrets);
        let program = Program::start(command, "", root());
        let time_limit = TimeLimit::new();
        while TcpStream::connect(address).is_err() {
            time_limit.check(|| program.errors());
            time_limit.pause_thread();
        }
        Self { program, address }
    }

    fn call(&self, headers: &str, body: &str) -> u16 {
        call_with(self.address, "POST", "/", headers, body).expect("the receiver answers").status
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// An address that nothing listens on.
fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

fn receiver() -> Command {
    let mut command = Command::new("python3");
    command.arg(example("receiver.py")).env("TZ", "UTC");
    command
}

#[test]
fn the_receiver_accepts_a_signed_call_only() {
    let secrets = format!("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA {SECRET}");
    let mut command = receiver();
    command.env("LD_PRELOAD", faketime::library()).env("FAKETIME", SIGNED_AT);
    let mut receiver = Receiver::start(command, &secrets, free_address());
    let signed = format!("{HEADERS}{SIGNATURE}linger-job: one\r\n");
    assert_eq!(receiver.call(&signed, BODY), 204);
    assert_eq!(receiver.program.line(), format!("one {BODY}\n"));
    assert_eq!(receiver.call(&signed, &BODY.replace("test_user", "test_users")), 401);
    assert_eq!(receiver.call(HEADERS, BODY), 401, "there is no signature");
    assert_eq!(receiver.call("", BODY), 401, "there is nothing that Linger sends");
    let other = SIGNATURE.replace("tZ1I4", "tZ1I5");
    assert_eq!(receiver.call(&format!("{HEADERS}{other}"), BODY), 401);
    let earlier =
        format!("webhook-signature: {} v1,AAAA\r\n", &SIGNATURE["webhook-signature: ".len()..].trim());
    assert_eq!(receiver.call(&format!("{HEADERS}{earlier}"), BODY), 204, "one of two signatures is right");
}

#[test]
fn the_receiver_refuses_an_old_call() {
    let receiver = Receiver::start(receiver(), SECRET, free_address());
    assert_eq!(receiver.call(&format!("{HEADERS}{SIGNATURE}"), BODY), 401);
}

/// The shell blocks of the guide, for this server and this receiver.
fn shell_blocks(server: &Server, receiver: SocketAddr) -> Vec<String> {
    let mut blocks = blocks_after("docs/callbacks.md", COMMENT);
    blocks.retain(|block| block.language == "sh");
    let localize = |code: &str| {
        let code = code.replace("localhost:9277", &server.address.to_string());
        code.replace("localhost:8000", &format!("localhost:{}", receiver.port()))
    };
    blocks.iter().map(|block| localize(&block.code)).collect()
}

/// Functions of a shell whose calls are sent again if they were not begun.
fn curl() -> String {
    format!("{TRY_CURL}curl() {{ try_curl \"$@\"; }}")
}

/// A shell that ends at the first error, also when a response has a status of 400 or more.
fn shell(script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", &format!("{}\n{script}", curl())]);
    command
}

/// Runs a command to its end. Returns what it printed.
fn run(command: Command, server: &Server) -> String {
    let (status, printed, errors) = Program::start(command, &server.url(), root()).wait();
    assert!(status.success(), "{status}: {printed}{errors}");
    printed
}

fn wait_until_gone(server: &Server, id: &str) {
    let time_limit = TimeLimit::new();
    while server.call("GET", &format!("/jobs/{id}"), "").status != 404 {
        time_limit.check(|| format!("{id} is not finished: {}", server.log()));
        time_limit.pause_thread();
    }
}

#[test]
fn the_first_callback_of_the_guide_arrives() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    let address = free_address();
    let blocks = shell_blocks(&server, address);
    let mut receiver = Receiver::start(shell(&blocks[0]), "", address);
    let added = run(shell(&blocks[1]), &server);
    assert!(added.contains("\"state\":\"delayed\""), "{added}");
    assert_eq!(receiver.program.line(), "orders:1001:close {\"order\":1001}\n");
    wait_until_gone(&server, "orders:1001:close");
    assert!(server.stop().success());
}

#[test]
fn the_other_shell_blocks_of_the_guide_are_accepted() {
    let directory = tempfile::tempdir().expect("a directory");
    // The endpoints of these blocks do not exist.
    let server = Server::serve(&[], &[("LINGER__CALLBACKS__MAX_CALLS", "0")], directory.path());
    let blocks = shell_blocks(&server, free_address());
    let [_, _, endpoint, payment, finish] = &blocks[..] else { panic!("{blocks:#?}") };
    run(shell(endpoint), &server);
    let added = run(shell(payment), &server);
    assert!(added.contains("payments:2001:paid"), "{added}");
    let job = r#"{"topic":"plain","id":"orders:1001:close"}"#;
    assert_eq!(server.call("POST", "/jobs", job).status, 201);
    let popped = server.call("GET", "/topics/plain/pop", "").json();
    let mut command = shell(finish);
    command.env("receipt", popped["receipt"].as_str().expect("a pop has a receipt"));
    run(command, &server);
    wait_until_gone(&server, "orders:1001:close");
}

#[test]
fn a_payment_notification_arrives_with_a_signature() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    let address = free_address();
    let functions = directory.path().join("functions");
    std::fs::write(&functions, curl()).expect("can be written");
    let notification = |arguments: &[&str]| {
        let mut command = Command::new("bash");
        command.arg(example("notification.sh")).args(arguments).env("BASH_ENV", &functions);
        run(command, &server)
    };
    let secret = notification(&["endpoint", &format!("http://localhost:{}/paid", address.port())]);
    let mut receiver = Receiver::start(receiver(), secret.trim(), address);
    let settings = server.call("GET", "/topics/work", "").json()["settings"].clone();
    assert_eq!(settings["retry"].as_array().map(Vec::len), Some(9), "{settings}");
    notification(&["paid", "2001"]);
    let line = "payments:2001:paid {\"payment\":\"2001\",\"status\":\"paid\"}\n";
    assert_eq!(receiver.program.line(), line);
    wait_until_gone(&server, "payments:2001:paid");
}
