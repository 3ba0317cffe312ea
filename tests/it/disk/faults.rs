//! Injected disk faults: one write, sync, truncation, open or read fails. The program reports the failure or is not
//! affected. After a restart every acknowledged change is there.

use std::{path::Path, process::Child, sync::Mutex};

use rand::{SeedableRng, rngs::SmallRng, seq::IndexedRandom};
use rustix::process::Signal;

use super::{
    FAULTS, copy_store,
    ledger::Ledger,
    names_a_file, seed, setting,
    strace::{Fault, Trace, check_available},
    worker::{Outcome, Worker},
};
use crate::harness::{
    not_here::not_run_here,
    process::{Refused, Server, linger, linger_under},
};

/// Every system call that changes or reads the files, and the errors that are injected into it.
const CALLS: [(&str, &[&str]); 7] = [
    ("pwrite64", &["EIO", "ENOSPC"]),
    ("fsync", &["EIO"]),
    ("fdatasync", &["EIO"]),
    ("ftruncate", &["EIO"]),
    ("openat", &["EIO", "EMFILE"]),
    ("unlink", &["EIO"]),
    ("pread64", &["EIO"]),
];

/// The store and its ledger before the run in which the fault happens.
struct InitialStore {
    directory: tempfile::TempDir,
    ledger: Ledger,
}

impl InitialStore {
    fn empty() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory"), ledger: Ledger::default() }
    }

    fn killed() -> Self {
        let (directory, ledger) = (tempfile::tempdir().expect("a directory"), Mutex::default());
        let mut server = Server::serve(&[], &[], directory.path());
        Worker::new("past", 0, server.address, &ledger).script();
        server.kill();
        Self { directory, ledger: ledger.into_inner().expect("not poisoned") }
    }

    fn copy(&self) -> Self {
        let copy = tempfile::tempdir().expect("a directory");
        copy_store(self.directory.path(), copy.path());
        Self { directory: copy, ledger: self.ledger.clone() }
    }
}

/// What the log says once a failure has stopped the writes.
const STOPPED: &str = "no more writes until a restart";

/// The effects of one fault.
#[derive(Debug, Default)]
struct Effects {
    hit: bool,
    refused: bool,
    stopped: bool,
    full: bool,
}

/// Runs the script of calls on a copy of `initial` while `fault` is injected, ends the program with `ending`, and
/// compares the next run with the ledger.
fn run(initial: &InitialStore, fault: &Fault, ending: Signal) -> Effects {
    let InitialStore { directory, ledger } = initial.copy();
    let trace = Trace::new(directory.path().join("trace"));
    let about = format!("{fault:?} {ending:?}");
    let mut effects = Effects::default();
    let mut ledger = Mutex::new(ledger);
    match start(directory.path(), &trace, Some(fault)) {
        Ok(mut server) => {
            let outcomes = Worker::new("now", 0, server.address, &ledger).script();
            effects.full = outcomes.contains(&Outcome::Full);
            let clear = outcomes.iter().all(|outcome| matches!(outcome, Outcome::Done | Outcome::Full));
            if !clear {
                server.wait_until_unready();
                // The log is written in the background. A killed process would take the line with it.
                server.wait_for_log(STOPPED);
            }
            server.signal(ending);
            let (status, _) = server.wait();
            let log = server.log();
            effects.stopped = log.contains(STOPPED);
            assert!(!log.contains("panicked"), "{about}: {log}");
            // After a failure that is neither success nor a full disk, writes stop until a restart.
            assert!(clear || effects.stopped, "{about}: {outcomes:?}: {log}");
            let is_reported = if effects.stopped {
                !status.success()
            } else {
                status.success() || log.contains("did not close cleanly")
            };
            assert!(ending == Signal::KILL || is_reported, "{about}: {status}: {log}");
        }
        Err(refused) => {
            effects.refused = true;
            assert!(names_a_file(&refused), "{about}: {refused:?}");
        }
    }
    effects.hit = trace.was_hit();
    let ledger = ledger.get_mut().expect("not poisoned");
    assert!(ledger.contradictions.is_empty(), "{about}: {:#?}", ledger.contradictions);
    let server = Server::try_spawn(linger(&["serve", "--listen", "127.0.0.1:0"], directory.path()));
    let server = server.unwrap_or_else(|refused| panic!("{about}: {effects:?}: then {refused:?}"));
    let found = ledger.check(&server);
    assert!(found.is_clean(), "{about}: {found:#?}\n{}", server.log());
    assert_eq!(server.call("GET", "/readyz", "").status, 200, "{about}");
    effects
}

fn start(directory: &Path, trace: &Trace, fault: Option<&Fault>) -> Result<Server, Refused> {
    let calls = CALLS.map(|(call, _)| call);
    let wrapper = trace.wrapper(&directory.join("data"), &calls, fault);
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    Server::try_spawn(linger_under(&wrapper, &["serve", "--listen", "127.0.0.1:0"], directory))
}

/// Every fault that the script can meet on `initial`. A run without a fault counts its calls.
fn plan(initial: &InitialStore) -> Vec<Fault> {
    let InitialStore { directory, ledger } = initial.copy();
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
    if let Err(why) = check_available() {
        return not_run_here("disk_faults", &why);
    }
    let (most, seed) = (setting("LINGER_PROVE_FAULTS", FAULTS), seed());
    println!("LINGER_PROVE_SEED={seed}");
    let stores = [InitialStore::empty(), InitialStore::killed()];
    let mut faults = Vec::new();
    for initial in &stores {
        faults.extend(
            plan(initial).into_iter().flat_map(|fault| {
                [Signal::TERM, Signal::KILL].map(|ending| (initial, fault.clone(), ending))
            }),
        );
    }
    let possible = faults.len();
    let sample: Vec<_> = faults.sample(&mut SmallRng::seed_from_u64(seed), most).collect();
    let effects: Vec<Effects> =
        sample.iter().map(|(initial, fault, ending)| run(initial, fault, *ending)).collect();
    let count = |what: fn(&Effects) -> bool| effects.iter().filter(|effects| what(effects)).count();
    let hit = count(|effects| effects.hit);
    println!(
        "proof: what=disk_faults runs={} possible={possible} faults={hit} refused={} stopped={} full={}",
        effects.len(),
        count(|effects| effects.refused),
        count(|effects| effects.stopped),
        count(|effects| effects.full)
    );
    assert!(hit * 2 > effects.len(), "few faults happened: {hit} of {}", effects.len());
}

/// SQLite commits the switch to a write-ahead log after it has returned the new mode.
#[test]
fn each_read_of_the_first_start_may_fail() {
    if let Err(why) = check_available() {
        return not_run_here("first_start", &why);
    }
    let initial = InitialStore::empty();
    let (most, seed) = (setting("LINGER_PROVE_FAULTS", FAULTS), seed());
    println!("LINGER_PROVE_SEED={seed}");
    let reads: Vec<Fault> = plan(&initial).into_iter().filter(|fault| fault.call == "pread64").collect();
    let sample: Vec<_> = reads.sample(&mut SmallRng::seed_from_u64(seed), most).collect();
    let effects: Vec<Effects> = sample.iter().map(|fault| run(&initial, fault, Signal::TERM)).collect();
    let count = |what: fn(&Effects) -> bool| effects.iter().filter(|effects| what(effects)).count();
    let (hit, refused) = (count(|effects| effects.hit), count(|effects| effects.refused));
    assert!(hit * 2 > effects.len(), "few faults happened: {hit} of {}", effects.len());
    let tried_all = effects.len() == reads.len();
    assert!(refused >= 3 || !tried_all, "{refused} of {} faults stopped a start", effects.len());
}

/// Starts a server, adds one job, and attaches the tracer, which counts calls from then on.
fn traced(directory: &Path, trace: &Trace, ledger: &Mutex<Ledger>, fault: &Fault) -> (Server, Child) {
    let server = Server::serve(&[], &[], directory);
    assert_eq!(Worker::new("before", 0, server.address, ledger).add(&[5], false), Outcome::Done);
    let tracer =
        trace.attach(server.pid(), &directory.join("data"), &["pwrite64", "fsync", "fdatasync"], Some(fault));
    (server, tracer)
}

#[test]
fn a_failed_sync_stops_all_writes_until_a_restart_and_is_not_tried_again() {
    if let Err(why) = check_available() {
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
    server.wait_for_log("no more writes until a restart");
    server.signal(Signal::TERM);
    let status = server.wait().0;
    tracer.wait().expect("is a child");
    assert!(!status.success(), "a shutdown after a failed sync must fail: {}", server.log());
    let after = trace.after_fault();
    assert!(trace.was_hit() && after.is_empty(), "the files were used again: {after:#?}");
    let found = ledger.into_inner().expect("not poisoned").check(&Server::serve(&[], &[], directory.path()));
    assert!(found.is_clean(), "{found:#?}");
}
