//! Power cuts: an ext4 image, itself a file on a file system that shares blocks, is cloned while it is mounted
//! and written to. The clone contains what had been written to the block device at one moment, and nothing that was
//! only in memory; so it is what a machine finds when the power comes back.

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
    asked,
    bay::Bay,
    ledger::{Findings, Ledger},
    seed,
    worker::{Outcome, Worker},
};
use crate::harness::{not_here::not_run_here, process::Server, wait::StopOnDrop};

const CLIENTS: u64 = 4;

/// A mount namespace with the image mounted at `disk`.
fn bay() -> Result<Bay, String> {
    let bay = Bay::open()?;
    bay.run(
        "mkdir outer disk; truncate -s 1G outer.img; mkfs.xfs -q -m reflink=1 outer.img; mount -o loop outer.img outer
         truncate -s 256M outer/disk.img; mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 outer/disk.img
         mount -o loop outer/disk.img disk",
    )?;
    Ok(bay)
}

/// The power comes back.
fn remount(bay: &Bay) {
    bay.must("umount disk; mv outer/cut.img outer/disk.img; mount -o loop outer/disk.img disk");
}

/// A second power cut, during the start that recovers from the first.
fn cut_in_start(bay: &Bay, looks: usize) {
    let mut command = bay.server("disk/data", &[]);
    let mut starting = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("linger starts");
    for _ in 0..looks {
        let _ = std::fs::metadata(bay.path("disk/data/linger.db-wal"));
    }
    bay.clone_file("outer/disk.img", "outer/cut.img");
    starting.kill().expect("is a child");
    starting.wait().expect("is a child");
    remount(bay);
}

/// The clients work until `steps` calls were answered; then the power fails. What the ledger can hold the
/// store against afterwards.
fn cut_under_load(bay: &Bay, mut server: Server, ledger: Ledger, seed: u64, steps: usize) -> Ledger {
    // Every other time enough is written for the log to be moved into the file and begun anew.
    let largest = if seed.is_multiple_of(2) { 250_000 } else { 5_000 };
    let (ledger, over) = (Mutex::new(ledger), AtomicBool::new(false));
    let lock = || ledger.lock().expect("not poisoned");
    let kept = std::thread::scope(|scope| {
        let _ends = StopOnDrop(&over);
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
        let before = lock().before();
        bay.clone_file("outer/disk.img", "outer/cut.img");
        let kept = before.through(&lock());
        assert_eq!(done, steps, "the clients gave up: {}", server.log());
        kept
    });
    let untrue = std::mem::take(&mut lock().untrue);
    assert!(untrue.is_empty(), "{untrue:#?}");
    server.kill();
    remount(bay);
    kept
}

#[test]
fn nothing_acknowledged_is_lost_in_a_power_cut() {
    let bay = match bay() {
        Ok(bay) => bay,
        Err(why) => return not_run_here("power_cuts", &why),
    };
    let (cuts, seed) = (asked("LINGER_PROVE_CUTS", 10), seed());
    println!("LINGER_PROVE_SEED={seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let (mut ledger, mut all, mut dropped) = (Ledger::default(), Findings::default(), 0);
    let mut server = bay.serve("disk/data", &[]);
    for cut in 0..cuts as u64 {
        let steps = rng.random_range(1..250);
        ledger = cut_under_load(&bay, server, ledger, seed + cut, steps);
        if cut % 3 == 2 {
            cut_in_start(&bay, rng.random_range(0..40_000));
        }
        server = bay.serve("disk/data", &[]);
        let found = ledger.check(&server);
        assert!(found.is_clean(), "cut {cut} of seed {seed}: {found:#?}\n{}", server.log());
        assert!(!server.log().contains("changes are missing"), "cut {cut} of seed {seed}: {}", server.log());
        dropped += server.log().matches("are dropped").count();
        all.present = found.present;
    }
    let returned = ledger.still_gone(&server);
    assert!(returned.is_empty(), "came back: {returned:?}");
    println!(
        "proof: what=power_cuts runs={cuts} faults={cuts} acks={} lost=0 returned=0 cut_short_logs={dropped} jobs_at_end={} violations=0",
        ledger.acks, all.present
    );
}

/// The same without syncing: a power cut that loses nothing would prove nothing.
#[test]
fn a_power_cut_takes_what_was_not_synced() {
    let bay = match bay() {
        Ok(bay) => bay,
        Err(why) => return not_run_here("power_cuts_unsynced", &why),
    };
    let unsynced = [("LINGER__EMBEDDED__DURABILITY", "os")];
    let server = bay.serve("disk/data", &unsynced);
    // Few steps, because the system writes data by itself after some seconds.
    let mut ledger = cut_under_load(&bay, server, Ledger::default(), seed(), 60);
    let living = ledger.living();
    let server = bay.serve("disk/data", &unsynced);
    let found = ledger.check(&server);
    let undone = [&found.lost, &found.returned, &found.wrong].map(Vec::len);
    println!(
        "proof: what=power_cuts_without_syncing runs=1 acked={living} control_lost={} control_returned={} control_moved={}",
        undone[0], undone[1], undone[2]
    );
    assert!(undone.iter().sum::<usize>() > 0, "a cut takes nothing here: {}", server.log());
}
