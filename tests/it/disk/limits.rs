//! Limits that the free space of a disk does not show, a quota and the largest size of a file: the server treats them as a full
//! disk, and goes on when they are gone.

use std::{path::Path, sync::Mutex};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use super::{
    ledger::{JobState, Ledger},
    strace::{Trace, check_available},
    worker::{Outcome, Worker},
};
use crate::harness::{not_here::not_run_here, process::Server, wait::TimeLimit};

const MIB: u64 = 1 << 20;

fn pid_of(id: u32) -> Pid {
    i32::try_from(id).ok().and_then(Pid::from_raw).expect("a valid process id")
}

/// Sets the largest size of a file that the server may write.
fn limit_files(server: &Server, bytes: Option<u64>) {
    let limit = Rlimit { current: bytes, maximum: None };
    prlimit(Some(pid_of(server.pid())), Resource::Fsize, limit).expect("the limit is set");
}

/// Adds jobs of half a MiB together until an add is refused.
fn fill(worker: &mut Worker<'_>) {
    for _ in 0..1_000 {
        match worker.add(&[100_000; 5], false) {
            Outcome::Done => {}
            Outcome::Full => return,
            other @ (Outcome::Unavailable | Outcome::ConnectionLost) => panic!("{other:?} instead of full"),
        }
    }
    panic!("never full");
}

fn wait_until_adds_succeed(worker: &mut Worker<'_>, server: &Server) {
    let time_limit = TimeLimit::new();
    loop {
        match worker.add(&[5], false) {
            Outcome::Done => return,
            Outcome::Full => time_limit.check(|| server.log()),
            other @ (Outcome::Unavailable | Outcome::ConnectionLost) => panic!("{other:?}: {}", server.log()),
        }
        time_limit.pause_thread();
    }
}

fn assert_nothing_is_lost(mut server: Server, directory: &Path, ledger: Mutex<Ledger>) {
    let log = server.log();
    assert!(!log.contains("no more writes until a restart"), "{log}");
    server.kill();
    let mut ledger = ledger.into_inner().expect("not poisoned");
    assert!(ledger.contradictions.is_empty(), "{:#?}", ledger.contradictions);
    let found = ledger.check(&Server::serve(&[], &[], directory));
    assert!(found.is_clean(), "{found:#?}");
}

#[test]
fn with_a_limit_on_the_size_of_files_adds_stop_while_everything_can_be_finished() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, ledger) = (Server::serve(&[], &[], directory.path()), Mutex::default());
    limit_files(&server, Some(80 * MIB));
    let mut worker = Worker::new("t", 0, server.address, &ledger);
    fill(&mut worker);
    let verbose = server.call("GET", "/readyz?verbose", "");
    assert!(verbose.status == 200 && verbose.body.contains("disk_space"), "{}", verbose.body);
    while worker.pop(50) == Outcome::Done && !worker.reservations().is_empty() {
        for (id, receipt) in worker.reservations() {
            assert_eq!(worker.finish(&id, &receipt), Outcome::Done, "{}", server.log());
        }
    }
    assert_eq!(worker.ids(|state| *state != JobState::Gone), Vec::<String>::new());
    limit_files(&server, None);
    wait_until_adds_succeed(&mut worker, &server);
    assert_nothing_is_lost(server, directory.path(), ledger);
}

#[test]
fn a_write_past_the_limit_on_the_size_of_a_file_is_a_full_disk_until_the_limit_is_raised() {
    let directory = tempfile::tempdir().expect("a directory");
    // Without reserved space, so that the writes themselves meet the limit.
    let variables = [("LINGER__EMBEDDED__MIN_FREE", "0B"), ("LINGER__EMBEDDED__BALLAST", "0B")];
    let (server, ledger) = (Server::serve(&[], &variables, directory.path()), Mutex::default());
    limit_files(&server, Some(10 * MIB));
    let mut worker = Worker::new("t", 0, server.address, &ledger);
    fill(&mut worker);
    assert_eq!(server.call("GET", "/readyz", "").status, 200, "{}", server.log());
    server.wait_for_log("ERROR");
    limit_files(&server, None);
    wait_until_adds_succeed(&mut worker, &server);
    server.wait_for_log("the disk has room again");
    assert_nothing_is_lost(server, directory.path(), ledger);
}

#[test]
fn a_quota_is_a_full_disk_until_it_has_room() {
    if let Err(why) = check_available() {
        return not_run_here("quota", &why);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let (server, ledger) = (Server::serve(&[], &[], directory.path()), Mutex::default());
    let mut worker = Worker::new("t", 0, server.address, &ledger);
    assert_eq!(worker.add(&[5], false), Outcome::Done);
    let trace = Trace::new(directory.path().join("trace"));
    let calls = ["pwrite64", "fallocate"];
    let mut tracer = trace.attach_failing(server.pid(), &directory.path().join("data"), &calls, "EDQUOT");
    assert_eq!(worker.add(&[5], false), Outcome::Full, "{}", server.log());
    let verbose = server.call("GET", "/readyz?verbose", "");
    assert!(verbose.status == 200 && verbose.body.contains("quota"), "{}", verbose.body);
    kill_process(pid_of(tracer.id()), Signal::TERM).expect("strace runs");
    tracer.wait().expect("is a child");
    wait_until_adds_succeed(&mut worker, &server);
    server.wait_for_log("the disk has room again");
    assert_nothing_is_lost(server, directory.path(), ledger);
}
