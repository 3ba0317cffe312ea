//! Disk faults of the embedded engine: power cuts, failing system calls, a full file system, damaged files, and
//! backups. The tests run the real program on real files, and then compare its jobs with the answers that its clients
//! received.
//!
//! The normal run is short. `LINGER_PROVE_CUTS`, `LINGER_PROVE_FAULTS` and `LINGER_PROVE_DAMAGE` set how many
//! power cuts, failing calls and damaged stores of each kind there are, `LINGER_PROVE_SEED` chooses them; with
//! `LINGER_PROVE_TAIL=1` a log is cut off at every byte of its end. Each test prints one line of figures that begins
//! with `proof:`, or says why it cannot run (`harness::not_here`).

mod backup_faults;
mod content;
mod damage;
mod exports;
mod faults;
mod full_disk;
mod ledger;
mod limits;
mod low_space;
mod mount_namespace;
mod other_programs;
mod power_cuts;
mod strace;
mod syncs;
mod worker;

use std::path::Path;

use crate::harness::process::Refused;

/// A number from the environment, or the default of a short run.
fn setting(name: &str, default: usize) -> usize {
    let number = |text: String| text.parse().unwrap_or_else(|_| panic!("{name}: a number"));
    std::env::var(name).map_or(default, number)
}

/// How many of the possible faults, and how many damages of each kind, a test tries in the normal run.
const FAULTS: usize = 12;
const DAMAGES: usize = 18;

/// The seed of the random numbers; printed, so that a failure can be reproduced.
fn seed() -> u64 {
    let seed = setting("LINGER_PROVE_SEED", 0) as u64;
    if seed == 0 { rand::random::<u32>().into() } else { seed }
}

/// Copies the store in `data` from one server's directory to another's.
fn copy_store(from: &Path, to: &Path) {
    let Ok(files) = std::fs::read_dir(from.join("data")) else { return };
    std::fs::create_dir_all(to.join("data")).expect("can be made");
    let is_copied = |file: &std::fs::DirEntry| file.file_name() != "ballast";
    for file in files.map(|file| file.expect("readable")).filter(is_copied) {
        std::fs::copy(file.path(), to.join("data").join(file.file_name())).expect("copies");
    }
}

/// Whether a refusal to start is orderly: its last line names the file of `data` that is at fault.
fn names_a_file(refused: &Refused) -> bool {
    let last = refused.log.lines().last().unwrap_or_default();
    let named = ["data/linger.db", "data/lock", "data:"].iter().any(|name| last.contains(name));
    named && refused.status.code() == Some(1) && !refused.log.contains("panicked")
}
