//! Low disk space with the default settings. The queue must not use up the space that finishing, deleting and a restart
//! need, and must keep working when another program uses the rest.

use std::{process::ExitStatus, sync::Mutex};

use rustix::process::Signal;

use super::{
    ledger::{JobState, Ledger},
    mount_namespace::MountNamespace,
    worker::{Outcome, Worker},
};
use crate::harness::{not_here::not_run_here, process::Server, wait::TimeLimit};

/// The two kinds of file systems on which this failed before.
#[derive(Debug, Clone, Copy)]
enum Disk {
    Memory,
    Ext4,
}

impl Disk {
    /// A mount namespace with a file system of 160 MiB at `small`.
    fn mount(self) -> Result<MountNamespace, String> {
        let namespace = MountNamespace::open()?;
        namespace.run(match self {
            Self::Memory => "mkdir small; mount -t tmpfs -o size=160m none small",
            Self::Ext4 => {
                "mkdir small; truncate -s 160M small.img; mkfs.ext4 -q -m 0 small.img; mount -o loop small.img small"
            }
        })?;
        Ok(namespace)
    }
}

fn free_bytes(namespace: &MountNamespace) -> u64 {
    namespace.run_ok("df --output=avail -B1 small | tail -1").trim().parse().expect("a number")
}

/// Fills the disk as another program would, until `mib` MiB are left. The log of the store may shrink by tens of MiB at
/// any moment.
fn fill_except(namespace: &MountNamespace, mib: u64, name: &str) {
    let len = free_bytes(namespace).saturating_sub(mib << 20);
    namespace.run_ok(&format!("dd if=/dev/zero of=small/{name} bs=64k count={} 2>/dev/null", len >> 16));
}

/// Fills the disk as another program would, until nothing is left.
fn fill(namespace: &MountNamespace, name: &str) {
    namespace
        .run_ok(&format!("dd if=/dev/zero of=small/{name} bs=64k 2>/dev/null || true; sync small/{name}"));
    namespace.run_ok(&format!("dd if=/dev/zero of=small/{name}-rest bs=1 count=9000 2>/dev/null || true"));
}

fn end(server: &mut Server, signal: Signal) -> ExitStatus {
    server.signal(signal);
    server.wait().0
}

/// Adds many small jobs, then patches them with large bodies until a patch is refused.
fn patch_until_refused(worker: &mut Worker<'_>) -> usize {
    for n in 0..18 {
        assert_eq!(worker.add(&[10; 50], n % 2 == 0), Outcome::Done, "there is room for small jobs");
    }
    let waiting = worker.ids(|state| matches!(state, JobState::Ready | JobState::Delayed));
    let refused = waiting.iter().position(|id| worker.patch(id, 240_000) != Outcome::Done);
    refused.expect("160 MiB do not hold 900 bodies of 240 kB")
}

/// Asserts that every call that would make the store larger is refused.
fn assert_growth_is_refused(worker: &mut Worker<'_>, other: &Worker<'_>) {
    let ready = worker.ids(|state| *state == JobState::Ready);
    assert_eq!(worker.add(&[10], false), Outcome::Full);
    assert_eq!(worker.patch(ready.last().expect("a small one"), 240_000), Outcome::Full);
    assert_eq!(worker.set(77), Outcome::Full);
    // Operators pause topics when something is wrong.
    assert_eq!(other.pause("pause"), Outcome::Done);
    assert_eq!(other.pause("resume"), Outcome::Done);
    if let Some(id) = worker.ids(|state| *state == JobState::Dead).first() {
        assert_eq!(worker.requeue(id), Outcome::Full);
    }
}

/// Reserves jobs and ends them in every way, with large bodies and small ones.
fn work_off(worker: &Worker<'_>, jobs: usize) {
    for _ in 0..jobs.div_ceil(10) {
        assert_eq!(worker.pop(10), Outcome::Done);
        for (n, (id, receipt)) in worker.reservations().into_iter().enumerate() {
            let outcome = match n % 5 {
                0 => worker.bury(&id, &receipt),
                1 => worker.release(&id, &receipt, true),
                2 => worker.touch(&id, &receipt),
                _ => worker.finish(&id, &receipt),
            };
            assert_eq!(outcome, Outcome::Done, "{n}");
        }
        for (id, receipt) in worker.reservations() {
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
    assert!(ledger.contradictions.is_empty(), "{:#?}", ledger.contradictions);
    let found = ledger.check(server);
    assert!(found.is_clean(), "{found:#?}\n{}", server.log());
}

/// The queue fills its disk up to its limit. Then another program uses the rest, twice.
fn a_queue_survives_on_a_full(disk: Disk) {
    let namespace = match disk.mount() {
        Ok(namespace) => namespace,
        Err(why) => return not_run_here("nearly_full", &why),
    };
    let (mut server, ledger) = (namespace.serve("small/data", &[]), Mutex::default());
    let mut worker = Worker::new("t", 0, server.address, &ledger);
    assert_eq!(worker.set(99), Outcome::Done);
    assert_eq!(worker.pause("pause"), Outcome::Done);
    let patched = patch_until_refused(&mut worker);
    // Of 64 MiB: the last patches began above them, and the log has up to 16 MiB before it is emptied, which take up as much in
    // the file, too.
    let free = free_bytes(&namespace);
    assert!(free > 32 << 20, "patches used up min_free: {free} bytes are left");
    fill_except(&namespace, 30, "filler-first");
    assert_growth_is_refused(&mut worker, &Worker::new("other", 0, server.address, &ledger));
    assert_ready_and_short(&server);
    work_off(&worker, 50);
    assert!(end(&mut server, Signal::TERM).success(), "{}", server.log());

    let mut server = namespace.serve("small/data", &[]);
    let mut worker = Worker::new("t", 1, server.address, &ledger);
    fill(&namespace, "filler");
    assert_growth_is_refused(&mut worker, &Worker::new("other", 0, server.address, &ledger));
    work_off(&worker, 200);
    assert_eq!(worker.pause("resume"), Outcome::Done);
    let delayed = worker.ids(|state| *state == JobState::Delayed);
    for id in delayed.iter().take(100) {
        assert_eq!(worker.delete(id), Outcome::Done);
    }
    assert_growth_is_refused(&mut worker, &Worker::new("other", 0, server.address, &ledger));
    assert_ready_and_short(&server);
    assert!(end(&mut server, Signal::TERM).success(), "{}", server.log());

    let mut server = namespace.serve("small/data", &[]);
    check(&server, &ledger);
    end(&mut server, Signal::KILL);
    let server = namespace.serve("small/data", &[]);
    check(&server, &ledger);
    assert_eq!(Worker::new("t", 2, server.address, &ledger).purge(), Outcome::Done);
    namespace.run_ok("rm small/filler*");
    let mut worker = Worker::new("t", 3, server.address, &ledger);
    assert_eq!(worker.add(&[100_000; 5], false), Outcome::Done, "there is room again");
    let time_limit = TimeLimit::new();
    while namespace.run_ok("stat -c %s small/data/ballast || true") != "33554432\n" {
        time_limit.check(|| format!("the ballast is not back: {}", server.log()));
        time_limit.pause_thread();
    }
    check(&server, &ledger);
    println!("proof: what=nearly_full_{disk:?} runs=1 patched={patched}");
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
    let namespace = match Disk::Memory.mount() {
        Ok(namespace) => namespace,
        Err(why) => return not_run_here("start_on_a_full_disk", &why),
    };
    for (run, ending) in [Signal::KILL, Signal::TERM].into_iter().enumerate() {
        let (mut server, ledger) = (namespace.serve("small/data", &[]), Mutex::default());
        let mut worker = Worker::new("t", run as u64, server.address, &ledger);
        for _ in 0..10 {
            assert_eq!(worker.add(&[100_000; 10], false), Outcome::Done);
        }
        fill(&namespace, "filler");
        let status = end(&mut server, ending);
        assert!(ending == Signal::KILL || status.success(), "{status}: {}", server.log());
        let server = namespace.serve("small/data", &[]);
        check(&server, &ledger);
        assert_eq!(Worker::new("t", 9, server.address, &ledger).purge(), Outcome::Done);
        drop(server);
        namespace.run_ok("rm small/filler*");
    }
}

#[test]
fn a_start_without_room_for_the_ballast_says_so() {
    let namespace = match Disk::Memory.mount() {
        Ok(namespace) => namespace,
        Err(why) => return not_run_here("start_without_ballast", &why),
    };
    // More than the default of `min_free`, but less than that and the ballast together.
    fill_except(&namespace, 80, "filler");
    let server = namespace.serve("small/data", &[]);
    server.wait_for_log("there is no room for the ballast file yet");
    namespace.run_ok("test ! -e small/data/ballast");
}

/// The writer also runs reads, but they do not fail with the changes of their group.
#[test]
fn reads_are_answered_while_concurrent_changes_meet_a_full_disk() {
    let namespace = match Disk::Memory.mount() {
        Ok(namespace) => namespace,
        Err(why) => return not_run_here("reads_on_a_full_disk", &why),
    };
    // Without reserved space, so that each change meets the full disk itself.
    let variables = [("LINGER__EMBEDDED__MIN_FREE", "0B")];
    let (server, ledger) = (namespace.serve("small/data", &variables), Mutex::default());
    let mut worker = Worker::new("t", 0, server.address, &ledger);
    assert_eq!(worker.add(&[10; 40], false), Outcome::Done);
    fill(&namespace, "filler");
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
