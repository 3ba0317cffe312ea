//! The example receiver of callbacks, with the test vector of Standard Webhooks.

use std::{
    net::{SocketAddr, TcpStream},
    process::Command,
};

use super::{Program, example};
use crate::harness::{blocking_http::call_with, redis::free_port, wait::TimeLimit};

/// The secret, the headers and the body of the test vector.
const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const HEADERS: &str = "webhook-id: msg_27UH4WbU6Z5A5EzD8u03UvzRbpk\r\nwebhook-timestamp: 1649367553\r\n";
const SIGNATURE: &str = "webhook-signature: v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=\r\n";
const BODY: &str = r#"{"email":"test@example.com","username":"test_user"}"#;
/// The time at which the vector was signed.
const SIGNED_AT: &str = "2022-04-07 21:39:13";

/// The receiver, and the port that it listens on.
struct Receiver {
    program: Program,
    address: SocketAddr,
}

impl Receiver {
    /// Starts a command that runs the receiver on the port in `PORT`, and waits until it listens.
    fn start(mut command: Command, secrets: &str) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        command.env("PORT", address.port().to_string()).env("LINGER_SECRETS", secrets);
        let directory = tempfile::tempdir().expect("a directory");
        let program = Program::start(command, "", directory.path());
        let time_limit = TimeLimit::new();
        while TcpStream::connect(address).is_err() {
            time_limit.check(|| program.errors());
            std::thread::yield_now();
        }
        Self { program, address }
    }

    fn call(&self, headers: &str, body: &str) -> u16 {
        call_with(self.address, "POST", "/", headers, body).expect("the receiver answers").status
    }
}

fn receiver(program: &[&str]) -> Command {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).arg(example("receiver.py")).env("TZ", "UTC");
    command
}

#[test]
fn the_receiver_accepts_a_signed_call_only() {
    let secrets = format!("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA {SECRET}");
    let mut receiver = Receiver::start(receiver(&["faketime", SIGNED_AT, "python3"]), &secrets);
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
    let receiver = Receiver::start(receiver(&["python3"]), SECRET);
    assert_eq!(receiver.call(&format!("{HEADERS}{SIGNATURE}"), BODY), 401);
}
