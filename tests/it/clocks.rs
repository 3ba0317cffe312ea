//! The system's clock is set by an hour while the real program runs and across its restarts: delays keep their remaining
//! time, moments and signatures follow the clock.
//!
//! The clock is set for the program alone, by libfaketime, which reads the offset from a file at every call. The clocks that
//! only count (monotonic, boot time) stay real, as they do when a machine's clock is set.

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
    faketime::library,
    process::{Server, run, stderr, stdout},
    receiver::{Answer, Receiver},
    redis::{fresh_prefix, shared},
    wait::TimeLimit,
};

const HOUR: i64 = 3_600;

/// A program with a directory and a clock of its own.
struct ProgramWithClock {
    directory: tempfile::TempDir,
    library: PathBuf,
}

impl ProgramWithClock {
    fn new() -> Self {
        let program = Self { directory: tempfile::tempdir().expect("a directory"), library: library() };
        program.set_clock(0);
        program
    }

    /// Sets the clock to the real time plus this offset.
    fn set_clock(&self, offset_s: i64) {
        // Replaces the file in one step, because the program may read it at any time.
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

    fn serve_with(&self, arguments: &[&str], variables_to_add: &[(&str, &str)]) -> Server {
        let variables = self.variables();
        let variables: Vec<(&str, &str)> = variables
            .iter()
            .map(|(name, value)| (*name, &value[..]))
            .chain(variables_to_add.iter().copied())
            .collect();
        Server::serve(arguments, &variables, self.directory.path())
    }

    /// The variables by which a program gets the clock.
    fn variables(&self) -> [(&'static str, String); 5] {
        let text = |path: &Path| path.to_str().expect("is text").to_owned();
        [
            ("LD_PRELOAD", text(&self.library)),
            ("FAKETIME_TIMESTAMP_FILE", text(&self.path("offset"))),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("NO_FAKE_STAT", "1".to_owned()),
        ]
    }
}

/// Adds a job. Returns the response.
fn add(server: &Server, id: &str, delay_s: i64) -> Value {
    let job = format!(r#"{{"topic":"{id}","id":"{id}","delay":{delay_s}}}"#);
    let response = server.call("POST", "/jobs", &job);
    assert_eq!(response.status, 201, "{response:?}");
    response.json()
}

fn timestamp(job: &Value, member: &str) -> Timestamp {
    Timestamp::parse(job[member].as_str().expect("a timestamp")).expect("a timestamp")
}

/// Pops the job `id`, which must be delivered within 20 s.
fn pop(server: &Server, id: &str) -> Value {
    let response = server.call("GET", &format!("/topics/{id}/pop?wait=20s&ttr=2h"), "");
    assert_eq!(response.status, 200, "{id} is delayed");
    let job = response.json();
    assert_eq!(job["id"], id);
    job
}

/// Asserts that a job was created at the time of the program's clock, which is set by this offset.
fn assert_created_now(job: &Value, offset_s: i64) {
    let expected_us = SystemClock::new().now_micros() + offset_s * 1_000_000;
    let created_us = timestamp(job, "created_at").as_millis() * 1_000;
    assert!((created_us - expected_us).abs() < 60_000_000, "{job} was not created by the machine's clock");
}

/// Adds a job that is due so many seconds from now by a right clock.
fn add_moment(server: &Server, id: &str, in_s: i64) {
    let due = Timestamp::from_millis(SystemClock::new().now_micros() / 1_000 + in_s * 1_000);
    let job = format!(r#"{{"topic":"{id}","id":"{id}","at":"{due}"}}"#);
    let response = server.call("POST", "/jobs", &job);
    assert_eq!(response.status, 201, "{response:?}");
}

fn assert_delayed(server: &Server, id: &str) {
    assert_eq!(server.call("GET", &format!("/topics/{id}/pop"), "").status, 204, "{id} is early");
    assert_eq!(server.call("GET", &format!("/jobs/{id}"), "").json()["state"], "delayed");
}

/// Waits until the program has noticed that its clock was set for the `nth` time.
fn wait_for_clock_step(server: &Server, nth: usize) {
    server.wait_for_metric("linger_clock_steps_total", nth as f64);
}

#[test]
fn setting_the_clock_by_an_hour_makes_no_job_early_or_late() {
    let program = ProgramWithClock::new();
    let server = program.serve();
    let clock = SystemClock::new();
    add(&server, "held", 0);
    let held = pop(&server, "held");
    add(&server, "later", HOUR / 2);
    let mut was = 0;
    for (step, offset) in [HOUR, -HOUR, 0].into_iter().enumerate() {
        let soon = format!("soon-{step}");
        let before_us = clock.now_micros();
        let job = add(&server, &soon, 3);
        program.set_clock(offset);
        wait_for_clock_step(&server, step + 1);
        assert_delayed(&server, "later");
        let popped = pop(&server, &soon);
        assert!(clock.now_micros() - before_us >= 3_000_000, "{soon} is early");
        let moved_ms = timestamp(&popped, "due_at").as_millis() - timestamp(&job, "due_at").as_millis();
        let step_ms = (offset - was) * 1_000;
        assert!((moved_ms - step_ms).abs() < 100, "{moved_ms} ms where the clock was set by {step_ms} ms");
        was = offset;
        assert_created_now(&add(&server, &format!("next-{step}"), 0), offset);
    }
    // The steps of the clock did not shorten a reservation of two hours.
    let receipt = held["receipt"].as_str().expect("a receipt");
    assert_eq!(server.call("POST", &format!("/jobs/held/finish?receipt={receipt}"), "").status, 204);
    let steps = || server.log().matches("the machine's clock was set").count();
    let time_limit = TimeLimit::new();
    while steps() < 3 {
        time_limit.check(|| server.log());
        time_limit.pause_thread();
    }
    assert_eq!(steps(), 3, "{}", server.log());
    println!("proof: what=clock_steps, runs=3");
}

#[test]
fn time_does_not_go_backwards_if_the_clock_is_set_back_during_a_restart() {
    for killed in [false, true] {
        let program = ProgramWithClock::new();
        let mut server = program.serve();
        add(&server, "soon", 3);
        add(&server, "later", HOUR / 2);
        program.set_clock(-HOUR);
        if killed {
            server.kill();
        } else {
            assert!(server.stop().success());
        }
        let mut server = program.serve();
        assert_created_now(&add(&server, "next", 0), -HOUR);
        pop(&server, "soon");
        assert_delayed(&server, "later");
        add(&server, "after", 1);
        pop(&server, "after");
        server.kill();
        let log = server.log();
        assert!(log.contains("the clock was behind the latest moment of this store and was raised"), "{log}");
    }
}

#[test]
fn time_follows_a_clock_that_is_set_forwards_during_a_restart() {
    let program = ProgramWithClock::new();
    let server = program.serve();
    add(&server, "half-an-hour", HOUR / 2);
    add(&server, "two-hours", 2 * HOUR);
    assert!(server.stop().success());
    // As if the machine had been off for an hour.
    program.set_clock(HOUR);
    let server = program.serve();
    pop(&server, "half-an-hour");
    assert_delayed(&server, "two-hours");
    assert!(server.stop().success());
    // The clock was wrong and is corrected: earlier deliveries stay, and no new job is delayed by the hour.
    program.set_clock(0);
    let server = program.serve();
    assert_created_now(&add(&server, "soon", 2), 0);
    pop(&server, "soon");
    assert_delayed(&server, "two-hours");
}

/// As after a boot before the time is known, or on a virtual machine that was restored.
#[test]
fn moments_follow_a_clock_that_is_put_right() {
    for wrong in [-HOUR, HOUR] {
        let program = ProgramWithClock::new();
        program.set_clock(wrong);
        let server = program.serve();
        add_moment(&server, "before", 3 * HOUR / 2);
        program.set_clock(0);
        wait_for_clock_step(&server, 1);
        assert_delayed(&server, "before");
        add_moment(&server, "soon", 2);
        add_moment(&server, "later", HOUR / 2);
        pop(&server, "soon");
        assert_delayed(&server, "later");
    }
}

/// A receiver refuses a signature whose time is wrong by five minutes.
#[tokio::test]
async fn calls_are_signed_by_a_clock_that_is_put_right() {
    let (url, prefix) = (shared().url(), fresh_prefix());
    let on_redis = ["--store", "redis", "--redis-url", &url];
    for arguments in [&[][..], &on_redis[..]] {
        let receiver = Receiver::start(1, |_| Answer::Status(204)).await;
        let program = ProgramWithClock::new();
        program.set_clock(-HOUR);
        let variables = [("LINGER__REDIS__PREFIX", &prefix[..])];
        let server = program.serve_with(arguments, if arguments.is_empty() { &[] } else { &variables });
        program.set_clock(0);
        wait_for_clock_step(&server, 1);
        let settings = format!(r#"{{"callback":{{"url":"{}"}}}}"#, receiver.url(0, "/"));
        assert_eq!(server.call("PUT", "/topics/signed", &settings).status, 200);
        add(&server, "signed", 0);
        let call = receiver.wait_for_calls_of("signed", 1).await.remove(0);
        let signed_s: i64 = call.header("webhook-timestamp").parse().expect("a number");
        let off_s = signed_s - SystemClock::new().now_micros() / 1_000_000;
        assert!(off_s.abs() < 300, "signed {off_s} s from now");
    }
}

/// A host that boots in 1970, or a store that once went by a clock that was far ahead.
#[test]
fn a_store_far_ahead_of_the_clock_is_unready_until_the_clock_is_right_or_accepted() {
    let program = ProgramWithClock::new();
    program.set_clock(48 * HOUR);
    let server = program.serve();
    add(&server, "delay", HOUR);
    for (id, delay) in [("waits", HOUR), ("ready", 0)] {
        let job = format!(r#"{{"topic":"expiring","id":"{id}","delay":{delay},"expire":300}}"#);
        assert_eq!(server.call("POST", "/jobs", &job).status, 201);
    }
    assert!(server.stop().success());
    program.set_clock(0);
    let server = program.serve();
    server.wait_until_unready();
    let problem = server.call("GET", "/readyz?verbose", "");
    assert_eq!((problem.status, problem.json()["code"].as_str()), (503, Some("unready")));
    assert!(problem.json()["detail"].as_str().is_some_and(|text| text.contains("linger store accept-clock")));
    add(&server, "works", 0);
    pop(&server, "works");
    program.set_clock(36 * HOUR);
    server.wait_until_ready();
    assert!(server.stop().success());
    program.set_clock(0);
    let directory = program.directory.path();
    let accepted = run(&["store", "accept-clock"], directory);
    assert!(accepted.status.success(), "{}", stderr(&accepted));
    let text = stdout(&accepted);
    assert!(text.contains("was set back by 4") && text.contains("jobs keep their remaining time"), "{text}");
    let server = program.serve();
    server.wait_until_ready();
    let left =
        timestamp(&server.job("delay"), "due_at").as_millis() - SystemClock::new().now_micros() / 1_000;
    assert!((0..=HOUR * 1_000).contains(&left), "due in {left} ms");
    for (id, most_s) in [("waits", HOUR + 300), ("ready", 300)] {
        let expires_at = timestamp(&server.job(id), "expires_at").as_millis();
        let left = expires_at - SystemClock::new().now_micros() / 1_000;
        assert!(left <= most_s * 1_000, "{id} expires in {left} ms");
    }
}

/// Adds a job that is deleted when it expires, so many seconds from now by a right clock.
fn add_expiring(server: &Server, id: &str, in_s: i64) {
    let expires = Timestamp::from_millis(SystemClock::new().now_micros() / 1_000 + in_s * 1_000);
    let job = format!(r#"{{"topic":"t","id":"{id}","expire":"{expires}","on_expiry":"delete"}}"#);
    let response = server.call("POST", "/jobs", &job);
    assert_eq!(response.status, 201, "{response:?}");
}

/// Waits until a job is gone, or a dead letter.
fn wait_for_expiry(server: &Server, id: &str) -> Option<Value> {
    let time_limit = TimeLimit::new();
    loop {
        let response = server.call("GET", &format!("/jobs/{id}"), "");
        match response.status {
            404 => return None,
            _ if response.json()["state"] == "dead" => return Some(response.json()),
            _ => time_limit.check(|| format!("{response:?}")),
        }
        time_limit.pause_thread();
    }
}

/// With the default settings. The clock of Redis: `redis_engine/expiring.rs`.
#[test]
fn a_clock_that_is_set_by_mistake_deletes_no_job_that_expires_by_it() {
    let program = ProgramWithClock::new();
    let server = program.serve();
    add_expiring(&server, "later", HOUR);
    add_expiring(&server, "soon", 1);
    assert_eq!(wait_for_expiry(&server, "soon"), None, "the clock is trusted");
    program.set_clock(2 * HOUR);
    let kept = wait_for_expiry(&server, "later").expect("it must not be deleted");
    assert_eq!(kept["reason"], "expired");
}

/// Only Redis's clock counts. A process whose clock is hours ahead neither delivers the other's jobs early nor ends their
/// reservations, and one whose clock is behind does not delay them. The same holds when one's own clock is set.
#[test]
fn processes_with_wrong_clocks_use_the_clock_of_redis() {
    let (url, prefix) = (shared().url(), fresh_prefix());
    let arguments = ["--store", "redis", "--redis-url", &url];
    let variables = [("LINGER__REDIS__PREFIX", &prefix[..])];
    let programs = [2 * HOUR, -2 * HOUR].map(|offset| {
        let program = ProgramWithClock::new();
        program.set_clock(offset);
        program
    });
    let [ahead, behind] = programs.each_ref().map(|program| program.serve_with(&arguments, &variables));
    let clock = SystemClock::new();
    for (n, (one, other)) in [(&ahead, &behind), (&behind, &ahead)].into_iter().enumerate() {
        let [held, soon, later] = ["held", "soon", "later"].map(|name| format!("{name}-{n}"));
        add(one, &held, 0);
        let receipt = pop(one, &held);
        add(one, &later, HOUR / 2);
        let before_us = clock.now_micros();
        let job = add(one, &soon, 2);
        let created_us = timestamp(&job, "created_at").as_millis() * 1_000;
        assert!((created_us - before_us).abs() < 60_000_000, "{job} does not have the time of Redis's clock");
        pop(other, &soon);
        assert!(clock.now_micros() - before_us >= 2_000_000, "{soon} is early");
        assert_delayed(other, &later);
        assert_delayed(one, &later);
        // The next jobs are added and popped by processes of which each has the clock of the other one.
        programs[n].set_clock([-2 * HOUR, 2 * HOUR][n]);
        wait_for_clock_step([&ahead, &behind][n], 1);
        let receipt = receipt["receipt"].as_str().expect("a receipt");
        let done = other.call("POST", &format!("/jobs/{held}/finish?receipt={receipt}"), "");
        assert_eq!(done.status, 204, "the reservation has ended");
    }
}
