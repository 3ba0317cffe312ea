//! A disk on which one system call fails: each write, sync, truncation, opening and reading in turn. The program
//! reports the failure or was not affected; after a restart every acknowledged change is there.

use std::{path::Path, process::Child, sync::Mutex};

use rand::{SeedableRng, rngs::SmallRng, seq::IndexedRandom};
use rustix::process::Signal;

use super::{
    asked, copy_store,
    ledger::Ledger,
    names_a_file, seed,
    strace::{Fault, Trace, works},
    worker::{Outcome, Worker},
};
use crate::harness::{
    not_here::not_run_here,
    process::{Refused, Server, linger, linger_under},
};

/// Every system call that changes or reads the files, and the errors it is made to return.
const CALLS: [(&str, &[&str]); 7] = [
    ("pwrite64", &["EIO", "ENOSPC"]),
    ("fsync", &["EIO"]),
    ("fdatasync", &["EIO"]),
    ("ftruncate", &["EIO"]),
    ("openat", &["EIO", "EMFILE"]),
    ("unlink", &["EIO"]),
    ("pread64", &["EIO"]),
];

/// The state before the program was killed, for faults during the next start.
struct Past {
    directory: tempfile::TempDir,
    ledger: Ledger,
}

impl Past {
    fn none() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory"), ledger: Ledger::default() }
    }

    fn killed() -> Self {
        let (directory, ledger) = (tempfile::tempdir().expect("a directory"), Mutex::default());
        let mut server = Server::serve(&[], &[], directory.path());
        Worker::new("past", 0, server.address, &ledger).script();
        server.kill();
        Self { directory, ledger: ledger.into_inner().expect("not poisoned") }
    }

    /// A copy of it.
    fn again(&self) -> Self {
        let copy = tempfile::tempdir().expect("a directory");
        copy_store(self.directory.path(), copy.path());
        Self { directory: copy, ledger: self.ledger.clone() }
    }
}

/// The effect of one fault.
#[derive(Debug, Default)]
struct Seen {
    hit: bool,
    refused: bool,
    stopped: bool,
    full: bool,
}

/// Runs the script on a copy of `past` with a fault in it, ends the program with `ending`, and compares
/// the next run with the ledger.
fn run(past: &Past, fault: &Fault, ending: Signal) -> Seen {
    let Past { directory, ledger } = past.again();
    let trace = Trace::new(directory.path().join("trace"));
    let about = format!("{fault:?} {ending:?}");
    let mut seen = Seen::default();
    let mut ledger = Mutex::new(ledger);
    match start(directory.path(), &trace, Some(fault)) {
        Ok(mut server) => {
            let outcomes = Worker::new("now", 0, server.address, &ledger).script();
            seen.full = outcomes.contains(&Outcome::Full);
            let clear = outcomes.iter().all(|outcome| matches!(outcome, Outcome::Done | Outcome::Full));
            if !clear {
                server.wait_until_unready();
            }
            server.signal(ending);
            let (status, _) = server.wait();
            let log = server.log();
            seen.stopped = log.contains("no more writes until a restart");
            assert!(!log.contains("panicked"), "{about}: {log}");
            // Whatever is not the plain truth is said: in the answers, in the log, by being unready.
            assert!(clear || seen.stopped, "{about}: {outcomes:?}: {log}");
            let fair = if seen.stopped {
                !status.success()
            } else {
                status.success() || log.contains("did not close cleanly")
            };
            assert!(ending == Signal::KILL || fair, "{about}: {status}: {log}");
        }
        Err(refused) => {
            seen.refused = true;
            assert!(names_a_file(&refused), "{about}: {refused:?}");
        }
    }
    seen.hit = trace.was_hit();
    let ledger = ledger.get_mut().expect("not poisoned");
    assert!(ledger.untrue.is_empty(), "{about}: {:#?}", ledger.untrue);
    let server = Server::try_spawn(linger(&["serve", "--listen", "127.0.0.1:0"], directory.path()));
    let server = server.unwrap_or_else(|refused| panic!("{about}: {seen:?}: then {refused:?}"));
    let found = ledger.check(&server);
    assert!(found.is_clean(), "{about}: {found:#?}\n{}", server.log());
    assert_eq!(server.call("GET", "/readyz", "").status, 200, "{about}");
    seen
}

fn start(directory: &Path, trace: &Trace, fault: Option<&Fault>) -> Result<Server, Refused> {
    let calls = CALLS.map(|(call, _)| call);
    let wrapper = trace.wrapper(&directory.join("data"), &calls, fault);
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    Server::try_spawn(linger_under(&wrapper, &["serve", "--listen", "127.0.0.1:0"], directory))
}

/// Every fault that the script can meet on `past`, counted in a run without a fault.
fn plan(past: &Past) -> Vec<Fault> {
    let Past { directory, ledger } = past.again();
    let trace = Trace::new(directory.path().join("trace"));
    let ledger = Mutex::new(ledger);
    let mut server = start(directory.path(), &trace, None).expect("starts");
    let outcomes = Worker::new("now", 0, server.address, &ledger).script();
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Done), "{outcomes:?}");
    server.signal(Signal::TERM);
    assert!(server.wait().0.success(), "{}", server.log());
    let counts = trace.counts();
    let of = |(call, errors): (&'static str, &'static [&'static str])| {
        let times = counts.get(call).copied().unwrap_or_default();
        let each = move |error| (1..=times).map(move |nth| Fault { call, error, nth });
        errors.iter().flat_map(move |error| each(error))
    };
    CALLS.into_iter().flat_map(of).collect()
}

#[test]
fn each_call_to_the_disk_may_fail_once() {
    if let Err(why) = works() {
        return not_run_here("disk_faults", &why);
    }
    let (most, seed) = (asked("LINGER_PROVE_FAULTS", 24), seed());
    println!("LINGER_PROVE_SEED={seed}");
    let pasts = [Past::none(), Past::killed()];
    let mut faults = Vec::new();
    for past in &pasts {
        faults.extend(
            plan(past)
                .into_iter()
                .flat_map(|fault| [Signal::TERM, Signal::KILL].map(|ending| (past, fault.clone(), ending))),
        );
    }
    let possible = faults.len();
    let sample: Vec<_> = faults.sample(&mut SmallRng::seed_from_u64(seed), most).collect();
    let seen: Vec<Seen> = sample.iter().map(|(past, fault, ending)| run(past, fault, *ending)).collect();
    let count = |what: fn(&Seen) -> bool| seen.iter().filter(|seen| what(seen)).count();
    let hit = count(|seen| seen.hit);
    println!(
        "proof: what=disk_faults runs={} possible={possible} faults={hit} refused={} stopped={} full={} lost=0 returned=0 violations=0",
        seen.len(),
        count(|seen| seen.refused),
        count(|seen| seen.stopped),
        count(|seen| seen.full)
    );
    assert!(hit * 2 > seen.len(), "most of the faults happen: {hit} of {}", seen.len());
}

/// SQLite commits the switch to a write-ahead log after it has returned the new mode.
#[test]
fn each_read_of_the_first_start_may_fail() {
    if let Err(why) = works() {
        return not_run_here("first_start", &why);
    }
    let past = Past::none();
    let reads: Vec<Fault> = plan(&past).into_iter().filter(|fault| fault.call == "pread64").collect();
    let refused = reads.iter().filter(|fault| run(&past, fault, Signal::TERM).refused).count();
    assert!(refused >= 3, "{refused} of {} faults stopped a start", reads.len());
}

/// A server with one acknowledged job that is traced from here on.
fn traced(directory: &Path, trace: &Trace, ledger: &Mutex<Ledger>, fault: &Fault) -> (Server, Child) {
    let server = Server::serve(&[], &[], directory);
    assert_eq!(Worker::new("before", 0, server.address, ledger).add(&[5], false), Outcome::Done);
    let tracer =
        trace.attach(server.pid(), &directory.join("data"), &["pwrite64", "fsync", "fdatasync"], Some(fault));
    (server, tracer)
}

#[test]
fn a_failed_sync_stops_all_writes_until_a_restart_and_is_not_tried_again() {
    if let Err(why) = works() {
        return not_run_here("failed_sync", &why);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let (trace, ledger) = (Trace::new(directory.path().join("trace")), Mutex::default());
    let fault = Fault { call: "fsync", error: "EIO", nth: 1 };
    let (mut server, mut tracer) = traced(directory.path(), &trace, &ledger, &fault);
    let outcomes = Worker::new("after", 0, server.address, &ledger).script();
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Unavailable), "{outcomes:?}");
    assert_eq!(Worker::new("before", 1, server.address, &ledger).pop(1), Outcome::Unavailable);
    server.wait_until_unready();
    assert_eq!(server.call("GET", "/livez", "").status, 200);
    assert!(server.log().contains("no more writes until a restart"), "{}", server.log());
    server.signal(Signal::TERM);
    let status = server.wait().0;
    tracer.wait().expect("is a child");
    assert!(!status.success(), "an end in disorder is a failure: {}", server.log());
    let after = trace.after_fault();
    assert!(trace.was_hit() && after.is_empty(), "touched again: {after:#?}");
    let found = ledger.into_inner().expect("not poisoned").check(&Server::serve(&[], &[], directory.path()));
    assert!(found.is_clean(), "{found:#?}");
}
