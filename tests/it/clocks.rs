//! Somebody sets the system's clock by an hour, while the real program runs and across its restarts: nothing is
//! early, nothing is held back, and its own time never goes backwards.
//!
//! The clock is set for the program alone, by libfaketime, which reads the offset from a file at every look. The
//! clocks that only count (monotonic, boot time) stay real, as they do when a machine's clock is set.

use std::{
    fs,
    path::{Path, PathBuf},
};

use linger::{
    clock::{Clock, SystemClock},
    job::Timestamp,
};
use serde_json::Value;

use crate::harness::{
    process::Server,
    redis::{fresh_prefix, shared},
};

const HOUR: i64 = 3_600;

/// A program in a directory of its own, and its clock.
struct Machine {
    directory: tempfile::TempDir,
    library: PathBuf,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { directory: tempfile::tempdir().expect("a directory"), library: library() };
        machine.set_clock(0);
        machine
    }

    /// Sets the clock to the real time and this much.
    fn set_clock(&self, offset_s: i64) {
        // Replaced in one step, for the program may be looking.
        let (path, new) = (self.path("offset"), self.path("offset.new"));
        fs::write(&new, format!("{offset_s:+}")).expect("writes");
        fs::rename(new, path).expect("replaces");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn serve(&self) -> Server {
        self.serve_with(&[], &[])
    }

    fn serve_with(&self, arguments: &[&str], more: &[(&str, &str)]) -> Server {
        let offset = self.path("offset");
        let text = |path: &Path| path.to_str().expect("is text").to_owned();
        let variables = [
            ("LD_PRELOAD", text(&self.library)),
            ("FAKETIME_TIMESTAMP_FILE", text(&offset)),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("NO_FAKE_STAT", "1".to_owned()),
        ];
        let variables: Vec<(&str, &str)> =
            variables.iter().map(|(name, value)| (*name, &value[..])).chain(more.iter().copied()).collect();
        Server::serve(arguments, &variables, self.directory.path())
    }
}

/// Debian's library; of its two, the one for programs with threads.
fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").expect("is there").map(|entry| entry.expect("reads").path());
    let mut found =
        folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).filter(|file| file.exists());
    found.next().expect("libfaketime is missing; install it with scripts/test")
}

/// Adds a job; what it answers.
fn add(server: &Server, id: &str, delay_s: i64) -> Value {
    let job = format!(r#"{{"topic":"{id}","id":"{id}","delay":{delay_s}}}"#);
    let answer = server.call("POST", "/jobs", &job);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

fn moment(job: &Value, member: &str) -> Timestamp {
    Timestamp::parse(job[member].as_str().expect("a moment")).expect("a moment")
}

/// Waits for the job `id`, which must come before long.
fn comes(server: &Server, id: &str) -> Value {
    let answer = server.call("GET", &format!("/topics/{id}/pop?wait=20s&ttr=2h"), "");
    assert_eq!(answer.status, 200, "{id} is held back");
    let job = answer.json();
    assert_eq!(job["id"], id);
    job
}

fn waits(server: &Server, id: &str) {
    assert_eq!(server.call("GET", &format!("/topics/{id}/pop"), "").status, 204, "{id} is early");
    assert_eq!(server.call("GET", &format!("/jobs/{id}"), "").json()["state"], "delayed");
}

/// Waits until the program has noticed that its clock was set the `nth` time.
fn noticed(server: &Server, nth: usize) {
    let figure = format!("\nlinger_clock_steps_total {nth}\n");
    let mut rounds = 0;
    while !server.call("GET", "/metrics", "").body.contains(&figure) {
        rounds += 1;
        assert!(rounds < 100_000, "nothing was noticed; the log: {}", server.log());
    }
}

#[test]
fn setting_the_clock_by_an_hour_neither_fires_early_nor_holds_back() {
    let machine = Machine::new();
    let server = machine.serve();
    let clock = SystemClock::new();
    add(&server, "held", 0);
    let held = comes(&server, "held");
    add(&server, "later", HOUR / 2);
    for (step, offset) in [HOUR, -HOUR, 0].into_iter().enumerate() {
        let soon = format!("soon-{step}");
        let before_us = clock.now_micros();
        let job = add(&server, &soon, 3);
        machine.set_clock(offset);
        noticed(&server, step + 1);
        waits(&server, "later");
        let came = comes(&server, &soon);
        assert!(clock.now_micros() - before_us >= 3_000_000, "{soon} is early");
        assert_eq!(came["due_at"], job["due_at"]);
        let next = add(&server, &format!("next-{step}"), 0);
        assert!(moment(&next, "created_at") >= moment(&came, "due_at"), "time went backwards");
    }
    // A reservation of two hours was not cut short by an hour forwards, nor by the hours back.
    let receipt = held["receipt"].as_str().expect("a receipt");
    assert_eq!(server.call("POST", &format!("/jobs/held/finish?receipt={receipt}"), "").status, 204);
    let log = server.log();
    assert_eq!(log.matches("the system's clock was set").count(), 3, "{log}");
    println!("proof: what=clock_steps, runs=3, early=0, held_back=0, violations=0");
}

#[test]
fn a_clock_that_was_set_back_over_a_restart_does_not_take_time_back() {
    for killed in [false, true] {
        let machine = Machine::new();
        let mut server = machine.serve();
        let job = add(&server, "soon", 3);
        add(&server, "later", HOUR / 2);
        machine.set_clock(-HOUR);
        if killed {
            server.kill();
        } else {
            assert!(server.stop().success());
        }
        let mut server = machine.serve();
        let next = add(&server, "next", 0);
        assert!(moment(&next, "created_at") >= moment(&job, "created_at"), "time went backwards");
        comes(&server, "soon");
        waits(&server, "later");
        add(&server, "after", 1);
        comes(&server, "after");
        server.kill();
        let log = server.log();
        assert!(log.contains("the clock was behind the latest moment of this store and was raised"), "{log}");
    }
}

#[test]
fn a_clock_that_was_set_forwards_over_a_restart_is_believed() {
    let machine = Machine::new();
    let server = machine.serve();
    add(&server, "half-an-hour", HOUR / 2);
    add(&server, "two-hours", 2 * HOUR);
    assert!(server.stop().success());
    // As if it had been off for an hour.
    machine.set_clock(HOUR);
    let server = machine.serve();
    let came = comes(&server, "half-an-hour");
    waits(&server, "two-hours");
    assert!(server.stop().success());
    // The clock was wrong and is put right: what was acted on stays, and nothing is held back for the hour.
    machine.set_clock(0);
    let server = machine.serve();
    let next = add(&server, "soon", 2);
    assert!(moment(&next, "created_at") >= moment(&came, "due_at"), "time went backwards");
    comes(&server, "soon");
    waits(&server, "two-hours");
}

/// Only Redis's clock counts: what one process delays or reserves, another whose clock is hours ahead neither
/// delivers early nor takes away, and one whose clock is behind does not hold it back.
#[test]
fn processes_with_wrong_clocks_go_by_that_of_redis() {
    let (url, prefix) = (shared().url(), fresh_prefix());
    let arguments = ["--store", "redis", "--redis-url", &url];
    let variables = [("LINGER__REDIS__PREFIX", &prefix[..])];
    let machines = [2 * HOUR, -2 * HOUR].map(|offset| {
        let machine = Machine::new();
        machine.set_clock(offset);
        machine
    });
    let [ahead, behind] = machines.each_ref().map(|machine| machine.serve_with(&arguments, &variables));
    let clock = SystemClock::new();
    for (n, (one, other)) in [(&ahead, &behind), (&behind, &ahead)].into_iter().enumerate() {
        let [held, soon, later] = ["held", "soon", "later"].map(|name| format!("{name}-{n}"));
        add(one, &held, 0);
        let receipt = comes(one, &held);
        add(one, &later, HOUR / 2);
        let before_us = clock.now_micros();
        let job = add(one, &soon, 2);
        let created_us = moment(&job, "created_at").as_millis() * 1_000;
        assert!((created_us - before_us).abs() < 60_000_000, "{job} is not stamped by Redis's clock");
        comes(other, &soon);
        assert!(clock.now_micros() - before_us >= 2_000_000, "{soon} is early");
        waits(other, &later);
        waits(one, &later);
        let receipt = receipt["receipt"].as_str().expect("a receipt");
        let done = other.call("POST", &format!("/jobs/{held}/finish?receipt={receipt}"), "");
        assert_eq!(done.status, 204, "the reservation was taken away");
    }
}
