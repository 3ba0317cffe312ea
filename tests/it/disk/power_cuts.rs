//! Power cuts. The store is on an ext4 image, which is a file on a file system that shares blocks. The image is cloned
//! while the store writes to it. The clone contains what had been written to the block device at one moment, and
//! nothing that was only in memory. So it contains what a machine would find after a power cut.

use std::{
    process::Stdio,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{
    ledger::{Findings, Ledger},
    mount_namespace::MountNamespace,
    seed, setting,
    worker::{Outcome, Worker},
};
use crate::harness::{not_here::not_run_here, process::Server, wait::StopOnDrop};

const CLIENTS: u64 = 4;

/// Mounts the image. By itself the file system would write its journal every five seconds, and with it much that the
/// store has not synced: on a busy machine a cut would take nothing.
const MOUNT: &str = "mount -o loop,commit=600 outer/disk.img disk";

/// A mount namespace with the image mounted at `disk`.
fn mount_image() -> Result<MountNamespace, String> {
    let namespace = MountNamespace::open()?;
    namespace.run(&format!(
        "mkdir outer disk; truncate -s 1G outer.img; mkfs.xfs -q -m reflink=1 outer.img; mount -o loop outer.img outer
         truncate -s 256M outer/disk.img; mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 outer/disk.img
         {MOUNT}"
    ))?;
    Ok(namespace)
}

/// Restores the power: mounts the clone in place of the image.
fn remount(namespace: &MountNamespace) {
    namespace.run_ok(&format!("umount disk; mv outer/cut.img outer/disk.img; {MOUNT}"));
}

/// Cuts the power again, during the start that recovers from the first cut. The number of reads determines the moment.
fn cut_in_start(namespace: &MountNamespace, reads: usize) {
    let mut command = namespace.server("disk/data", &[]);
    let mut starting = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("linger starts");
    for _ in 0..reads {
        let _ = std::fs::metadata(namespace.path("disk/data/linger.db-wal"));
    }
    namespace.clone_file("outer/disk.img", "outer/cut.img");
    starting.kill().expect("is a child");
    starting.wait().expect("is a child");
    remount(namespace);
}

/// Runs clients until `steps` calls were answered, then cuts the power. Returns what the ledger certainly knows about
/// the store after the cut.
fn cut_under_load(
    namespace: &MountNamespace,
    mut server: Server,
    ledger: Ledger,
    seed: u64,
    steps: usize,
) -> Ledger {
    // With even seeds the clients write so much that a checkpoint moves the log into the database file.
    let largest = if seed.is_multiple_of(2) { 250_000 } else { 5_000 };
    let (ledger, over) = (Mutex::new(ledger), AtomicBool::new(false));
    let lock = || ledger.lock().expect("not poisoned");
    let kept = std::thread::scope(|scope| {
        let _stop = StopOnDrop(&over);
        let (sender, stepped) = mpsc::channel();
        for client in 0..CLIENTS {
            let (ledger, over, sender, address) = (&ledger, &over, sender.clone(), server.address);
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(seed ^ (client << 32));
                let mut worker = Worker::new(&format!("c{client}"), seed, address, ledger);
                while !over.load(Ordering::Relaxed) && worker.random_step(&mut rng, largest) == Outcome::Done
                {
                    let _ = sender.send(());
                }
            });
        }
        drop(sender);
        let done = stepped.iter().take(steps).count();
        let before = lock().begin_snapshot();
        namespace.clone_file("outer/disk.img", "outer/cut.img");
        let kept = before.end_snapshot(&lock());
        assert_eq!(done, steps, "the clients gave up: {}", server.log());
        kept
    });
    let contradictions = std::mem::take(&mut lock().contradictions);
    assert!(contradictions.is_empty(), "{contradictions:#?}");
    server.kill();
    remount(namespace);
    kept
}

#[test]
fn nothing_acknowledged_is_lost_in_a_power_cut() {
    let namespace = match mount_image() {
        Ok(namespace) => namespace,
        Err(why) => return not_run_here("power_cuts", &why),
    };
    let (cuts, seed) = (setting("LINGER_PROVE_CUTS", 6), seed());
    println!("LINGER_PROVE_SEED={seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let (mut ledger, mut all, mut dropped) = (Ledger::default(), Findings::default(), 0);
    let mut server = namespace.serve("disk/data", &[]);
    for cut in 0..cuts as u64 {
        let steps = rng.random_range(1..250);
        ledger = cut_under_load(&namespace, server, ledger, seed + cut, steps);
        if cut % 3 == 2 {
            cut_in_start(&namespace, rng.random_range(0..40_000));
        }
        server = namespace.serve("disk/data", &[]);
        let found = ledger.check(&server);
        assert!(found.is_clean(), "cut {cut} of seed {seed}: {found:#?}\n{}", server.log());
        assert!(!server.log().contains("changes are missing"), "cut {cut} of seed {seed}: {}", server.log());
        dropped += server.log().matches("are dropped").count();
        all.present = found.present;
    }
    let returned = ledger.returned_jobs(&server);
    assert!(returned.is_empty(), "these jobs came back: {returned:?}");
    println!(
        "proof: what=power_cuts runs={cuts} faults={cuts} acks={} cut_short_logs={dropped} jobs_at_end={}",
        ledger.acks, all.present
    );
}

/// The control: without syncs a power cut must lose changes, or the test above would prove nothing.
#[test]
fn a_power_cut_takes_what_was_not_synced() {
    let namespace = match mount_image() {
        Ok(namespace) => namespace,
        Err(why) => return not_run_here("power_cuts_unsynced", &why),
    };
    let unsynced = [("LINGER__EMBEDDED__DURABILITY", "os")];
    let server = namespace.serve("disk/data", &unsynced);
    // Few steps, because the system writes data by itself after some seconds.
    let mut ledger = cut_under_load(&namespace, server, Ledger::default(), seed(), 60);
    let living = ledger.existing();
    let server = namespace.serve("disk/data", &unsynced);
    let found = ledger.check(&server);
    let undone = [&found.lost, &found.returned, &found.wrong].map(Vec::len);
    println!(
        "proof: what=power_cuts_without_syncing control=must_be_lost runs=1 acked={living} control_lost={} control_returned={} control_moved={}",
        undone[0], undone[1], undone[2]
    );
    assert!(undone.iter().sum::<usize>() > 0, "the power cut lost nothing: {}", server.log());
}
