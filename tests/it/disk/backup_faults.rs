//! Backups and restores in which one system call fails. The copy is complete, or it does not exist and the program
//! reports the error.

use std::{path::Path, process::Output, sync::Mutex};

use rand::{SeedableRng, rngs::SmallRng, seq::IndexedRandom};

use super::{
    FAULTS, copy_store,
    ledger::Ledger,
    seed, setting,
    strace::{Fault, Trace, check_available},
    worker::{Outcome, Worker},
};
use crate::harness::{
    not_here::not_run_here,
    process::{self, Server, linger_under, stderr},
};

/// Every system call of a backup or restore, and the error that is injected into it.
const CALLS: [(&str, &str); 9] = [
    ("openat", "EIO"),
    ("pread64", "EIO"),
    ("read", "EIO"),
    ("pwrite64", "ENOSPC"),
    ("copy_file_range", "ENOSPC"),
    ("ftruncate", "EIO"),
    ("fsync", "EIO"),
    ("fdatasync", "EIO"),
    ("linkat", "EIO"),
];

/// A stopped store in a directory, and the ledger of its clients.
fn store() -> (tempfile::TempDir, Ledger) {
    let (directory, ledger) = (tempfile::tempdir().expect("a directory"), Mutex::default());
    let server = Server::serve(&[], &[], directory.path());
    let outcomes = Worker::new("kept", 0, server.address, &ledger).script();
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Done), "{outcomes:?}");
    assert!(server.stop().success());
    (directory, ledger.into_inner().expect("not poisoned"))
}

/// Runs the program with these arguments, and injects `fault`, if there is one.
fn run(home: &Path, trace: &Trace, words: &[&str], fault: Option<&Fault>) -> Output {
    let wrapper = trace.wrapper_for_all_files(&CALLS.map(|(call, _)| call), fault);
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    linger_under(&wrapper, words, home).output().expect("it runs")
}

/// A sample of the faults that a run with these arguments can meet. A run without a fault counts its calls.
fn plan(home: &Path, words: &[&str]) -> Vec<Fault> {
    let (trace, seed) = (Trace::new(home.join("trace")), seed());
    println!("LINGER_PROVE_SEED={seed}");
    let output = run(home, &trace, words, None);
    assert!(output.status.success(), "{}", stderr(&output));
    let counts = trace.counts();
    let each = |(call, error): (&'static str, &'static str)| {
        (1..=counts.get(call).copied().unwrap_or_default()).map(move |nth| Fault { call, error, nth })
    };
    let all: Vec<Fault> = CALLS.into_iter().flat_map(each).collect();
    all.sample(&mut SmallRng::seed_from_u64(seed), setting("LINGER_PROVE_FAULTS", FAULTS)).cloned().collect()
}

/// Runs the program with these arguments once for each fault, in a directory made by `prepare`, and passes the result
/// to `check`.
fn under_faults(what: &str, words: &[&str], prepare: impl Fn(&Path), check: impl Fn(&Path, &str, bool)) {
    let home = || {
        let home = tempfile::tempdir().expect("a directory");
        prepare(home.path());
        home
    };
    let faults = plan(home().path(), words);
    let (mut hit, mut refused, mut explained) = (0, 0, 0);
    for fault in &faults {
        let home = home();
        let trace = Trace::new(home.path().join("trace"));
        let output = run(home.path(), &trace, words, Some(fault));
        let (done, errors) = (output.status.success(), stderr(&output));
        let about = format!("{fault:?}: {}: {errors}", output.status);
        assert!(!errors.contains("panicked") && output.status.code().is_some(), "{about}");
        assert!(done || !errors.is_empty(), "it reports no error: {about}");
        hit += usize::from(trace.was_hit());
        refused += usize::from(!done);
        explained += usize::from(!done && errors.starts_with("linger: "));
        check(home.path(), &about, done);
    }
    println!("proof: what={what}_on_a_failing_disk runs={} faults={hit} refused={refused}", faults.len());
    // Other faults hit the start of the program, before its own code runs.
    assert!(
        hit * 2 > faults.len() && explained > 0,
        "{hit} of {} happened, {explained} reported",
        faults.len()
    );
}

/// Asserts that a directory contains only these files, apart from the trace.
fn assert_only_files(home: &Path, expected: &[&str], about: &str) {
    let entries =
        std::fs::read_dir(home).expect("is there").map(|entry| entry.expect("readable").file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.retain(|name| name != "trace");
    names.sort();
    assert_eq!(names, expected, "{about}");
}

/// Asserts that the store in `home` agrees with the ledger.
fn assert_store_is_complete(home: &Path, ledger: &Ledger, about: &str) {
    let found = ledger.clone().check(&Server::serve(&[], &[], home));
    assert!(found.is_clean(), "{about}: {found:#?}");
}

fn restore(file: &Path, home: &Path, about: &str) {
    let output = process::run(&["restore", &file.display().to_string()], home);
    assert!(output.status.success(), "{about}: {}", stderr(&output));
}

#[test]
fn a_backup_that_meets_a_fault_is_complete_or_not_there() {
    if let Err(why) = check_available() {
        return not_run_here("backup_on_a_failing_disk", &why);
    }
    let (store, ledger) = store();
    let prepare = |home: &Path| copy_store(store.path(), home);
    under_faults("backup", &["backup", "jobs.backup"], prepare, |home, about, done| {
        assert_only_files(home, if done { &["data", "jobs.backup"] } else { &["data"] }, about);
        assert_store_is_complete(home, &ledger, about);
        if done {
            let other = tempfile::tempdir().expect("a directory");
            restore(&home.join("jobs.backup"), other.path(), about);
            assert_store_is_complete(other.path(), &ledger, about);
        }
    });
}

#[test]
fn a_restore_that_meets_a_fault_is_complete_or_can_be_repeated() {
    if let Err(why) = check_available() {
        return not_run_here("restore_on_a_failing_disk", &why);
    }
    let (store, ledger) = store();
    let backup = process::run(&["backup", "jobs.backup"], store.path());
    assert!(backup.status.success(), "{}", stderr(&backup));
    let file = store.path().join("jobs.backup");
    let words = ["restore", &file.display().to_string()];
    under_faults(
        "restore",
        &words,
        |_| {},
        |home, about, done| {
            if !done {
                let left = home.join("data");
                if left.exists() {
                    let lock: &[&str] = if left.join("lock").exists() { &["lock"] } else { &[] };
                    assert_only_files(&left, lock, about);
                }
                restore(&file, home, about);
            }
            assert_store_is_complete(home, &ledger, about);
        },
    );
}
