//! A file system with little free space, with the default settings: the queue must not use up the space that finishing,
//! deleting and a restart need, and must keep working when another program uses the rest.

use std::{process::ExitStatus, sync::Mutex};

use rustix::process::Signal;

use super::{
    bay::Bay,
    ledger::{Ledger, Place},
    worker::{Outcome, Worker},
};
use crate::harness::{not_here::not_run_here, process::Server};

/// The two kinds of file systems on which this failed before.
#[derive(Debug, Clone, Copy)]
enum Disk {
    Memory,
    Ext4,
}

impl Disk {
    /// A mount namespace with a file system of 200 MiB at `small`.
    fn bay(self) -> Result<Bay, String> {
        let bay = Bay::open()?;
        bay.run(match self {
            Self::Memory => "mkdir small; mount -t tmpfs -o size=200m none small",
            Self::Ext4 => {
                "mkdir small; truncate -s 200M small.img; mkfs.ext4 -q -m 0 small.img; mount -o loop small.img small"
            }
        })?;
        Ok(bay)
    }
}

/// Fills the disk as another program until `mib` are left. The queue's own log may shrink by tens of MiB at any
/// moment.
fn leave(bay: &Bay, mib: u64, name: &str) {
    let free = bay.must("df --output=avail -B1 small | tail -1").trim().parse::<u64>().expect("a number");
    let len = free.saturating_sub(mib << 20);
    bay.must(&format!("dd if=/dev/zero of=small/{name} bs=64k count={} 2>/dev/null", len >> 16));
}

/// Fills the disk as another program until nothing is left.
fn fill(bay: &Bay, name: &str) {
    bay.must(&format!("dd if=/dev/zero of=small/{name} bs=64k 2>/dev/null || true; sync small/{name}"));
    bay.must(&format!("dd if=/dev/zero of=small/{name}-rest bs=1 count=9000 2>/dev/null || true"));
}

fn end(server: &mut Server, signal: Signal) -> ExitStatus {
    server.signal(signal);
    server.wait().0
}

/// Adds many small jobs, and gives them large bodies until that is refused.
fn patch_until_refused(worker: &mut Worker<'_>) -> usize {
    for n in 0..18 {
        assert_eq!(worker.add(&[10; 50], n % 2 == 0), Outcome::Done, "there is room for small jobs");
    }
    let waiting = worker.ids(|place| matches!(place, Place::Ready | Place::Delayed));
    let refused = waiting.iter().position(|id| worker.patch(id, 240_000) != Outcome::Done);
    refused.expect("200 MiB do not hold 900 bodies of 240 kB")
}

/// Asserts that every call that would make the store larger is refused.
fn assert_growth_is_refused(worker: &mut Worker<'_>, other: &Worker<'_>) {
    let ready = worker.ids(|place| *place == Place::Ready);
    assert_eq!(worker.add(&[10], false), Outcome::Full);
    assert_eq!(worker.patch(ready.last().expect("a small one"), 240_000), Outcome::Full);
    assert_eq!(worker.set(77), Outcome::Full);
    assert_eq!(other.pause("pause"), Outcome::Full);
    if let Some(id) = worker.ids(|place| *place == Place::Dead).first() {
        assert_eq!(worker.requeue(id), Outcome::Full);
    }
}

/// Reserves jobs and ends them in every way, with large bodies and small ones.
fn work_off(worker: &Worker<'_>, jobs: usize) {
    for _ in 0..jobs.div_ceil(10) {
        assert_eq!(worker.pop(10), Outcome::Done);
        for (n, (id, receipt)) in worker.held().into_iter().enumerate() {
            let outcome = match n % 5 {
                0 => worker.bury(&id, &receipt),
                1 => worker.release(&id, &receipt, true),
                2 => worker.touch(&id, &receipt),
                _ => worker.finish(&id, &receipt),
            };
            assert_eq!(outcome, Outcome::Done, "{n}");
        }
        for (id, receipt) in worker.held() {
            assert_eq!(worker.finish(&id, &receipt), Outcome::Done);
        }
    }
}

/// Asserts that the server is ready, and reports what it refuses.
fn assert_ready_and_short(server: &Server) {
    let answer = server.call("GET", "/readyz?verbose", "");
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = answer.json();
    let checks = answer["checks"].as_array().expect("a list");
    let space = checks.iter().find(|check| check["name"] == "disk_space").expect("is named");
    assert_eq!(space["status"], "degraded", "{answer}");
    assert!(space["detail"].as_str().expect("words").contains("min_free"), "{answer}");
}

fn check(server: &Server, ledger: &Mutex<Ledger>) {
    let mut ledger = ledger.lock().expect("not poisoned");
    assert!(ledger.untrue.is_empty(), "{:#?}", ledger.untrue);
    let found = ledger.check(server);
    assert!(found.is_clean(), "{found:#?}\n{}", server.log());
}

/// The queue fills its disk as far as it may; then another program uses the rest, twice.
fn a_queue_survives_on_a_full(disk: Disk) {
    let bay = match disk.bay() {
        Ok(bay) => bay,
        Err(why) => return not_run_here("nearly_full", &why),
    };
    let (mut server, ledger) = (bay.serve("small/data", &[]), Mutex::default());
    let mut worker = Worker::new("t", 0, server.address, &ledger);
    assert_eq!(worker.set(99), Outcome::Done);
    assert_eq!(worker.pause("pause"), Outcome::Done);
    let patched = patch_until_refused(&mut worker);
    leave(&bay, 30, "filler-first");
    assert_growth_is_refused(&mut worker, &Worker::new("other", 0, server.address, &ledger));
    assert_ready_and_short(&server);
    work_off(&worker, 50);
    assert!(end(&mut server, Signal::TERM).success(), "{}", server.log());

    let mut server = bay.serve("small/data", &[]);
    let mut worker = Worker::new("t", 1, server.address, &ledger);
    fill(&bay, "filler");
    assert_growth_is_refused(&mut worker, &Worker::new("other", 0, server.address, &ledger));
    work_off(&worker, 200);
    assert_eq!(worker.pause("resume"), Outcome::Done);
    let delayed = worker.ids(|place| *place == Place::Delayed);
    for id in delayed.iter().take(100) {
        assert_eq!(worker.delete(id), Outcome::Done);
    }
    assert_growth_is_refused(&mut worker, &Worker::new("other", 0, server.address, &ledger));
    assert_ready_and_short(&server);
    assert!(end(&mut server, Signal::TERM).success(), "{}", server.log());

    let mut server = bay.serve("small/data", &[]);
    check(&server, &ledger);
    end(&mut server, Signal::KILL);
    let server = bay.serve("small/data", &[]);
    check(&server, &ledger);
    assert_eq!(Worker::new("t", 2, server.address, &ledger).purge(), Outcome::Done);
    bay.must("rm small/filler*");
    let mut worker = Worker::new("t", 3, server.address, &ledger);
    assert_eq!(worker.add(&[100_000; 5], false), Outcome::Done, "there is room again");
    assert_eq!(bay.must("stat -c %s small/data/ballast"), "33554432\n", "the ballast is back");
    check(&server, &ledger);
    println!("proof: what=nearly_full_{disk:?} runs=1 patched={patched} lost=0 returned=0 violations=0");
}

#[test]
fn a_queue_survives_on_a_full_tmpfs() {
    a_queue_survives_on_a_full(Disk::Memory);
}

#[test]
fn a_queue_survives_on_a_full_ext4() {
    a_queue_survives_on_a_full(Disk::Ext4);
}

/// A start needs disk space, which the ballast provides.
#[test]
fn a_server_starts_on_a_full_disk_after_a_kill_and_after_a_stop() {
    let bay = match Disk::Memory.bay() {
        Ok(bay) => bay,
        Err(why) => return not_run_here("start_on_a_full_disk", &why),
    };
    for (run, ending) in [Signal::KILL, Signal::TERM].into_iter().enumerate() {
        let (mut server, ledger) = (bay.serve("small/data", &[]), Mutex::default());
        let mut worker = Worker::new("t", run as u64, server.address, &ledger);
        for _ in 0..10 {
            assert_eq!(worker.add(&[100_000; 10], false), Outcome::Done);
        }
        fill(&bay, "filler");
        let status = end(&mut server, ending);
        assert!(ending == Signal::KILL || status.success(), "{status}: {}", server.log());
        let server = bay.serve("small/data", &[]);
        check(&server, &ledger);
        assert_eq!(Worker::new("t", 9, server.address, &ledger).purge(), Outcome::Done);
        drop(server);
        bay.must("rm small/filler*");
    }
}

#[test]
fn a_start_without_room_for_the_ballast_says_so() {
    let bay = match Disk::Memory.bay() {
        Ok(bay) => bay,
        Err(why) => return not_run_here("start_without_ballast", &why),
    };
    // More than is kept free by default, but not with the ballast beside it.
    leave(&bay, 80, "filler");
    let server = bay.serve("small/data", &[]);
    server.wait_for_log("there is no room for the ballast file yet");
    bay.must("test ! -e small/data/ballast");
}

/// Reads go through the writer too, but do not fail with the changes of their group.
#[test]
fn reads_are_answered_beside_changes_that_meet_a_full_disk() {
    let bay = match Disk::Memory.bay() {
        Ok(bay) => bay,
        Err(why) => return not_run_here("reads_on_a_full_disk", &why),
    };
    // Nothing is kept free, so that each change meets the full disk itself.
    let variables = [("LINGER__EMBEDDED__MIN_FREE", "0B")];
    let (server, ledger) = (bay.serve("small/data", &variables), Mutex::default());
    let mut worker = Worker::new("t", 0, server.address, &ledger);
    assert_eq!(worker.add(&[10; 40], false), Outcome::Done);
    fill(&bay, "filler");
    let ids = worker.ids(|_| true);
    let mut full = 0;
    for _ in 0..5 {
        std::thread::scope(|scope| {
            let patches: Vec<_> = ids.iter().map(|id| scope.spawn(|| worker.patch(id, 240_000))).collect();
            for id in &ids {
                assert_eq!(server.call("GET", &format!("/jobs/{id}"), "").status, 200);
                assert_eq!(server.call("GET", "/readyz", "").status, 200);
            }
            let outcomes = patches.into_iter().map(|patch| patch.join().expect("does not panic"));
            full += outcomes.filter(|outcome| *outcome == Outcome::Full).count();
        });
    }
    assert!(full > 50, "the disk was hardly full: {full}");
}
