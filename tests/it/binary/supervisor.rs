//! What the server tells systemd: the test is the service manager.

use std::{os::unix::net::UnixDatagram, time::Duration};

use linger::clock::{Clock, SystemClock};
use rustix::process::Signal;

use crate::harness::{
    not_here::not_run_here,
    process::{Server, linger, linger_under},
};

/// Longest wait for a message.
const LONGEST: Duration = Duration::from_secs(60);

fn receive(socket: &UnixDatagram) -> String {
    let mut message = [0; 4_096];
    let length = socket.recv(&mut message).expect("a message arrives");
    String::from_utf8_lossy(&message[..length]).into_owned()
}

#[test]
fn systemd_learns_when_the_server_is_ready_alive_and_stopping() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(LONGEST)).expect("can be set");
    let mut command = linger(&["serve", "--listen", "127.0.0.1:0"], directory.path());
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000");
    let mut server = Server::spawn(command);
    let mut messages: Vec<String> = (0..6).map(|_| receive(&socket)).collect();
    messages.sort();
    // The watchdog is fed again and again.
    assert_eq!(
        messages.iter().filter(|message| message.trim_end() == "WATCHDOG=1").count(),
        5,
        "{messages:?}"
    );
    let ready = format!("READY=1\nSTATUS=listening on {}, engine embedded", server.url());
    assert!(messages[0].starts_with(&ready), "{messages:?}");
    server.signal(Signal::TERM);
    while receive(&socket).trim_end() != "STOPPING=1\nSTATUS=shutting down" {}
    assert_eq!(server.wait().0.code(), Some(0), "{}", server.log());
}

#[test]
fn a_server_starts_although_the_service_manager_is_gone() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = linger(&["serve", "--listen", "127.0.0.1:0"], directory.path());
    command.env("NOTIFY_SOCKET", directory.path().join("nobody")).env("WATCHDOG_USEC", "10000");
    let server = Server::spawn(command);
    server.wait_for_log("cannot notify systemd");
    assert_eq!(server.call("GET", "/livez", "").status, 200);
}

/// As in a unit with `ProcSubset=pid`.
#[test]
fn the_start_of_the_process_is_known_although_the_system_hides_its_statistics() {
    if !rustix::process::geteuid().is_root() {
        return not_run_here("hidden_statistics", "mounting needs root");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let hidden = "mount --bind /dev/null /proc/stat && exec \"$@\"";
    let wrapper = ["unshare", "--mount", "sh", "-c", hidden, "sh"];
    let clock = SystemClock::new();
    let seconds = || Duration::from_micros(clock.now_micros().unsigned_abs()).as_secs_f64();
    let before = seconds();
    let server =
        Server::spawn(linger_under(&wrapper, &["serve", "--listen", "127.0.0.1:0"], directory.path()));
    let metrics = server.call("GET", "/metrics", "").body;
    let started = metrics.lines().find_map(|line| line.strip_prefix("process_start_time_seconds "));
    let started: f64 = started.expect("is shown").parse().expect("a number");
    assert!(started + 2.0 > before && started < seconds() + 2.0, "{started} is not after {before}");
}
