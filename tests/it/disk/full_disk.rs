//! A full disk: the test mounts a small file system in memory and fills it.

use std::sync::Mutex;

use super::{
    ledger::{JobState, Ledger},
    mount_namespace::MountNamespace,
    names_a_file,
    worker::{Outcome, Worker},
};
use crate::harness::{not_here::not_run_here, process::Server};

/// A mount namespace with a file system of this size at `small`.
pub fn mount_tmpfs(size: &str) -> Result<MountNamespace, String> {
    let namespace = MountNamespace::open()?;
    namespace.run(&format!("mkdir small; mount -t tmpfs -o size={size} none small"))?;
    Ok(namespace)
}

/// Adds jobs until an add is refused. Returns the number of added jobs.
fn fill(worker: &mut Worker<'_>, body_bytes: usize) -> usize {
    for added in 0..10_000 {
        match worker.add(&[body_bytes; 5], added % 3 == 0) {
            Outcome::Done => {}
            Outcome::Full => return added,
            other @ (Outcome::Unavailable | Outcome::ConnectionLost) => panic!("{other:?} instead of full"),
        }
    }
    panic!("never full");
}

/// Removes every job of the worker, in several ways. Returns the number of calls.
fn end_all(worker: &Worker<'_>) -> usize {
    let mut calls = 0;
    let mut done = |outcome| {
        assert_eq!(outcome, Outcome::Done, "call {calls}");
        calls += 1;
    };
    loop {
        let ready = worker.ids(|state| *state == JobState::Ready).len();
        if ready == 0 {
            break;
        }
        done(worker.pop(ready.min(50)));
        for (n, (id, receipt)) in worker.reservations().into_iter().enumerate() {
            done(match n % 8 {
                0 => worker.bury(&id, &receipt),
                1 => worker.release(&id, &receipt, true),
                _ => worker.finish(&id, &receipt),
            });
        }
    }
    for id in worker.ids(|state| *state != JobState::Gone) {
        done(worker.delete(&id));
    }
    calls
}

fn check(namespace: &MountNamespace, variables: &[(&str, &str)], ledger: Mutex<Ledger>) {
    let mut ledger = ledger.into_inner().expect("not poisoned");
    assert!(ledger.contradictions.is_empty(), "{:#?}", ledger.contradictions);
    let server = namespace.serve("small/data", variables);
    let found = ledger.check(&server);
    assert!(found.is_clean(), "{found:#?}\n{}", server.log());
}

#[test]
fn adds_stop_while_there_is_room_to_finish_and_delete_everything() {
    let namespace = match mount_tmpfs("160m") {
        Ok(namespace) => namespace,
        Err(why) => return not_run_here("short_of_space", &why),
    };
    let (mut server, ledger) = (namespace.serve("small/data", &[]), Mutex::default());
    let mut worker = Worker::new("t", 0, server.address, &ledger);
    let adds = fill(&mut worker, 100_000);
    assert_eq!(server.call("GET", "/readyz", "").status, 200, "finishing goes on");
    let calls = end_all(&worker);
    assert_eq!(server.call("GET", "/readyz", "").status, 200);
    server.kill();
    check(&namespace, &[], ledger);
    println!("proof: what=short_of_space runs=1 adds={adds} then_ended={calls}");
}

/// Makes every kind of call once, and returns the outcomes.
fn try_everything(server: &Server, ledger: &Mutex<Ledger>, topic: &str) -> Vec<Outcome> {
    let outcomes = Worker::new(topic, 0, server.address, ledger).script();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Done | Outcome::Full)), "{outcomes:?}");
    outcomes
}

#[test]
fn a_full_disk_loses_nothing_and_is_written_again_when_there_is_space() {
    let namespace = match mount_tmpfs("8m") {
        Ok(namespace) => namespace,
        Err(why) => return not_run_here("full_disk", &why),
    };
    // Without reserved space, so that every call meets the full disk itself.
    let variables = [("LINGER__EMBEDDED__MIN_FREE", "0B")];
    let (mut server, ledger) = (namespace.serve("small/data", &variables), Mutex::default());
    try_everything(&server, &ledger, "before");
    let mut full = 0;
    // Another file fills the disk except for a few bytes, so that the disk is full at different points of a change.
    for (round, left) in [0, 4_096, 8_192, 20_000, 60_000].into_iter().enumerate() {
        namespace.run_ok(&format!(
            "head -c 100m /dev/zero >small/filler 2>/dev/null || true
             truncate -s $(($(stat -c %s small/filler) > {left} ? $(stat -c %s small/filler) - {left} : 0)) small/filler"
        ));
        let outcomes = try_everything(&server, &ledger, &format!("full{round}"));
        full += outcomes.iter().filter(|outcome| **outcome == Outcome::Full).count();
        let again = namespace.server("small/data", &variables);
        server.kill();
        // A start also needs some space. Without it, the program reports that.
        if let Err(refused) = Server::try_spawn(again) {
            assert!(names_a_file(&refused), "{refused:?}");
        }
        namespace.run_ok("rm small/filler");
        server = namespace.serve("small/data", &variables);
        let mut known = ledger.lock().expect("not poisoned");
        let found = known.check(&server);
        assert!(found.is_clean(), "{left} left: {found:#?}\n{}", server.log());
        drop(known);
        let after = try_everything(&server, &ledger, &format!("room{round}"));
        assert!(after.iter().all(|outcome| *outcome == Outcome::Done), "{after:?}");
    }
    assert!(full > 5, "the disk was hardly full: {full}");
    server.kill();
    check(&namespace, &variables, ledger);
    println!("proof: what=full_disk runs=5 faults=5 refused={full}");
}

/// One server over several full disks: a full disk stops nothing permanently.
#[test]
fn a_full_disk_stops_nothing_for_good() {
    let namespace = match mount_tmpfs("8m") {
        Ok(namespace) => namespace,
        Err(why) => return not_run_here("full_disk_passing", &why),
    };
    let variables = [("LINGER__EMBEDDED__MIN_FREE", "0B")];
    let (mut server, ledger) = (namespace.serve("small/data", &variables), Mutex::default());
    let mut worker = Worker::new("t", 0, server.address, &ledger);
    let mut size_mib = 8;
    for round in 0..2 {
        fill(&mut worker, 20_000);
        fill(&mut worker, 1);
        assert!(
            matches!(worker.pop(1), Outcome::Done | Outcome::Full),
            "a pop succeeds or reports a full disk"
        );
        assert_eq!(
            server.call("GET", "/readyz", "").status,
            200,
            "a full disk does not make the server unready"
        );
        // Space for twice the data: a checkpoint may begin at any time, and until it ends the data is both in the log
        // and in the database file.
        size_mib *= 3;
        namespace.run_ok(&format!("mount -o remount,size={size_mib}m small"));
        let after = try_everything(&server, &ledger, &format!("room{round}"));
        assert!(after.iter().all(|outcome| *outcome == Outcome::Done), "{after:?}");
    }
    server.kill();
    check(&namespace, &variables, ledger);
    println!("proof: what=full_disk_passing runs=2 faults=2");
}
