//! Damaged files: truncated, with flipped bits or zeroed pages, missing, exchanged. Either nothing is lost, or the log
//! reports the loss, or the start is refused and names the file. No loss is silent.

use std::{
    fs::OpenOptions,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Mutex,
};

use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::SliceRandom};

use super::{
    DAMAGES,
    content::Content,
    copy_store,
    ledger::{Effect, JobState, Ledger},
    names_a_file, seed, setting,
    worker::{SETTINGS_URL, Worker},
};
use crate::harness::process::{Server, linger, run, stdout};

const DB: &str = "linger.db";
const LOG: &str = "linger.db-wal";
const FRAME_BYTES: u64 = 24 + 4_096;

/// The files of a store that is not in use, and the ledger of its clients.
struct Store {
    directory: tempfile::TempDir,
    ledger: Ledger,
}

impl Store {
    /// A store with jobs in the database file and more in the log: stopped once, then killed.
    fn killed() -> Self {
        let (directory, ledger) = (tempfile::tempdir().expect("a directory"), Mutex::default());
        let server = Server::serve(&[], &[], directory.path());
        Worker::new("first", 0, server.address, &ledger).script();
        assert!(server.stop().success());
        let mut server = Server::serve(&[], &[], directory.path());
        Worker::new("second", 0, server.address, &ledger).script();
        server.kill();
        Self { directory, ledger: ledger.into_inner().expect("not poisoned") }
    }

    /// The same jobs in a store that was stopped cleanly.
    fn stopped() -> Self {
        let store = Self::killed();
        assert!(Server::serve(&[], &[], store.directory.path()).stop().success());
        store
    }

    /// A copy of this store after more calls, with a topic of their own, and another kill.
    fn later(&self, topic: &str) -> Self {
        let (copy, ledger) = (self.copy(), Mutex::new(self.ledger.clone()));
        let mut server = Server::serve(&[], &[], copy.directory.path());
        Worker::new(topic, 0, server.address, &ledger).script();
        server.kill();
        Self { directory: copy.directory, ledger: ledger.into_inner().expect("not poisoned") }
    }

    fn copy(&self) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        copy_store(self.directory.path(), directory.path());
        Self { directory, ledger: self.ledger.clone() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join("data").join(name)
    }

    /// Where a text begins in a file.
    fn positions_of(&self, name: &str, text: &str) -> Vec<u64> {
        let bytes = std::fs::read(self.file(name)).expect("is readable");
        let starts = bytes.windows(text.len()).enumerate().filter(|(_, window)| *window == text.as_bytes());
        starts.map(|(at, _)| at as u64).collect()
    }

    fn len(&self, name: &str) -> u64 {
        std::fs::metadata(self.file(name)).map_or(0, |file| file.len())
    }
}

/// Damage to a store that is not in use.
#[derive(Debug, Clone)]
enum Damage {
    Truncate(&'static str, u64),
    Flip(&'static str, u64, u8),
    Zero(&'static str, u64, u64),
    /// Foreign bytes after the end.
    Append(&'static str, u64),
    Remove(&'static [&'static str]),
    /// A file of another store, or of the same at another time.
    Exchange(&'static str, PathBuf),
}

impl Damage {
    fn apply(&self, store: &Store) {
        let open =
            |name: &str| OpenOptions::new().write(true).read(true).open(store.file(name)).expect("is there");
        match self {
            Self::Truncate(name, len) => open(name).set_len(*len).expect("is truncated"),
            Self::Flip(name, at, bit) => {
                let (file, mut byte) = (open(name), [0]);
                file.read_exact_at(&mut byte, *at).expect("is there");
                file.write_all_at(&[byte[0] ^ (1 << bit)], *at).expect("is written");
            }
            Self::Zero(name, from, to) => {
                let len = usize::try_from(*to - *from).expect("fits");
                open(name).write_all_at(&vec![0; len], *from).expect("is written");
            }
            Self::Append(name, len) => {
                let noise: Vec<u8> = (0..*len).map(|n| (n * 31 % 251) as u8).collect();
                open(name).write_all_at(&noise, store.len(name)).expect("is written");
            }
            Self::Remove(names) => {
                names.iter().for_each(|name| std::fs::remove_file(store.file(name)).expect("is there"));
            }
            Self::Exchange(name, other) => {
                std::fs::copy(other, store.file(name)).expect("copies");
            }
        }
    }
}

/// The result of starting a damaged store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DamageResult {
    Whole,
    /// Something is missing, and the log reports it.
    Reported,
    Refused,
    /// Something is missing and the log does not report it; or a panic.
    Silent,
}

/// Damages a copy of `store`, starts a server on it, and compares the server with the ledger.
fn result_of(store: &Store, damage: &Damage) -> (DamageResult, String) {
    let mut copy = store.copy();
    damage.apply(&copy);
    let verified = run(&["verify"], copy.directory.path());
    let command = linger(&["serve", "--listen", "127.0.0.1:0"], copy.directory.path());
    match Server::try_spawn(command) {
        Err(refused) if names_a_file(&refused) => (DamageResult::Refused, refused.log),
        Err(refused) => (DamageResult::Silent, refused.log),
        Ok(mut server) => {
            assert!(copy.ledger.contradictions.is_empty(), "{:#?}", copy.ledger.contradictions);
            let found = copy.ledger.check(&server);
            server.signal(rustix::process::Signal::TERM);
            server.wait();
            let log = server.log();
            let end = match (found.is_clean(), is_reported(&log)) {
                _ if log.contains("panicked") => DamageResult::Silent,
                (true, _) => DamageResult::Whole,
                (false, true) => DamageResult::Reported,
                (false, false) => DamageResult::Silent,
            };
            // A verification before the start finds every loss that the start reports.
            let agrees = end != DamageResult::Reported || !verified.status.success();
            assert!(agrees, "{damage:?} was verified: {}{found:?}\n{log}", stdout(&verified));
            (end, format!("{found:?}\n{log}"))
        }
    }
}

/// Whether the store has logged a warning or an error.
fn is_reported(log: &str) -> bool {
    let is_warning = |line: &str| line.contains(r#""WARN""#) || line.contains(r#""ERROR""#);
    log.lines().any(|line| is_warning(line) && line.contains("linger::store::embedded"))
}

/// Tries all cases. Panics if a loss was silent.
fn try_all(what: &str, cases: &[(&Store, Damage)]) {
    let mut ends = Vec::new();
    let mut silent = Vec::new();
    for (store, damage) in cases {
        let (end, log) = result_of(store, damage);
        ends.push(end);
        if end == DamageResult::Silent {
            silent.push(format!("{damage:?}: {log}"));
        }
    }
    let count = |wanted| ends.iter().filter(|end| **end == wanted).count();
    println!(
        "proof: what=damage_{what} runs={} whole={} told={} refused={} silent={} violations={}",
        cases.len(),
        count(DamageResult::Whole),
        count(DamageResult::Reported),
        count(DamageResult::Refused),
        silent.len(),
        silent.len()
    );
    assert!(silent.is_empty(), "{} losses were silent: {}", silent.len(), silent.join("\n"));
}

fn sampled<T>(mut all: Vec<T>, rng: &mut SmallRng, part: usize) -> Vec<T> {
    all.shuffle(rng);
    all.truncate(setting("LINGER_PROVE_DAMAGE", DAMAGES).div_ceil(part));
    all
}

fn random() -> SmallRng {
    let seed = seed();
    println!("LINGER_PROVE_SEED={seed}");
    SmallRng::seed_from_u64(seed)
}

#[test]
fn a_log_cut_off_anywhere_is_noticed() {
    let (store, mut rng) = (Store::killed(), random());
    let len = store.len(LOG);
    let frames = (len - 32) / FRAME_BYTES;
    // SQLite cannot notice a log that ends after a whole frame.
    let ends: Vec<u64> = (0..=frames).map(|n| 32 + n * FRAME_BYTES).filter(|end| *end < len).collect();
    let mut cuts = sampled(ends, &mut rng, 3);
    cuts.extend([0, 1, 31]);
    cuts.extend(sampled((0..len).collect(), &mut rng, 3));
    if setting("LINGER_PROVE_TAIL", 0) > 0 {
        cuts.extend(len - FRAME_BYTES..len);
    }
    let cases: Vec<_> = cuts.into_iter().map(|at| (&store, Damage::Truncate(LOG, at))).collect();
    try_all("cut_log", &cases);
}

#[test]
fn a_file_cut_off_anywhere_is_noticed() {
    let (killed, stopped, mut rng) = (Store::killed(), Store::stopped(), random());
    let cuts = |store: &Store| (0..store.len(DB)).collect();
    let mut cases: Vec<_> = sampled(cuts(&killed), &mut rng, 8)
        .into_iter()
        .map(|at| (&killed, Damage::Truncate(DB, at)))
        .collect();
    cases.extend(
        sampled(cuts(&stopped), &mut rng, 8).into_iter().map(|at| (&stopped, Damage::Truncate(DB, at))),
    );
    let pages = |store: &Store| (0..store.len(DB) / 4_096).map(|page| page * 4_096).collect();
    cases.extend(
        sampled(pages(&stopped), &mut rng, 8).into_iter().map(|at| (&stopped, Damage::Truncate(DB, at))),
    );
    try_all("cut_file", &cases);
}

#[test]
fn a_flipped_bit_is_noticed_or_harmless() {
    let (killed, stopped, mut rng) = (Store::killed(), Store::stopped(), random());
    let mut cases = Vec::new();
    for (store, name) in [(&killed, LOG), (&killed, DB), (&stopped, DB)] {
        for _ in 0..setting("LINGER_PROVE_DAMAGE", DAMAGES).div_ceil(3) {
            let at = rng.random_range(0..store.len(name));
            cases.push((store, Damage::Flip(name, at, rng.random_range(0..8))));
        }
    }
    // The settings of a topic are few bytes of many.
    for at in stopped.positions_of(DB, SETTINGS_URL) {
        cases.push((&stopped, Damage::Flip(DB, at + rng.random_range(0..SETTINGS_URL.len() as u64), 1)));
    }
    try_all("flipped", &cases);
}

#[test]
fn a_zeroed_page_is_noticed() {
    let (killed, stopped, mut rng) = (Store::killed(), Store::stopped(), random());
    let mut cases = Vec::new();
    for (store, name) in [(&killed, LOG), (&killed, DB), (&stopped, DB)] {
        let len = store.len(name);
        let pages: Vec<u64> = (0..len.div_ceil(4_096)).collect();
        for page in sampled(pages, &mut rng, 3) {
            cases.push((store, Damage::Zero(name, page * 4_096, len.min((page + 1) * 4_096))));
        }
    }
    try_all("zeroed", &cases);
}

#[test]
fn missing_and_exchanged_files_are_noticed() {
    let (killed, stopped, other) = (Store::killed(), Store::stopped(), Store::killed());
    let later = killed.later("later");
    let much_later = later.later("much-later");
    let from = |store: &Store, name: &str| store.file(name);
    let cases = [
        (&killed, Damage::Remove(&[LOG]), DamageResult::Refused),
        (&killed, Damage::Remove(&[DB]), DamageResult::Refused),
        (&killed, Damage::Remove(&["linger.db-shm"]), DamageResult::Whole),
        (&killed, Damage::Remove(&["lock"]), DamageResult::Whole),
        (&killed, Damage::Remove(&[LOG, "linger.db-shm"]), DamageResult::Refused),
        (&killed, Damage::Remove(&[LOG, "linger.db-shm", "lock"]), DamageResult::Refused),
        (&killed, Damage::Remove(&[DB, LOG]), DamageResult::Refused),
        (&stopped, Damage::Remove(&[LOG]), DamageResult::Whole),
        (&stopped, Damage::Remove(&[DB]), DamageResult::Refused),
        (&stopped, Damage::Remove(&["lock"]), DamageResult::Whole),
        (&killed, Damage::Exchange(LOG, from(&other, LOG)), DamageResult::Refused),
        (&killed, Damage::Exchange(DB, from(&other, DB)), DamageResult::Refused),
        (&stopped, Damage::Exchange(LOG, from(&other, LOG)), DamageResult::Refused),
        (&killed, Damage::Exchange(LOG, from(&killed, DB)), DamageResult::Refused),
        (&killed, Damage::Exchange(DB, from(&killed, LOG)), DamageResult::Refused),
        (&later, Damage::Exchange(LOG, from(&killed, LOG)), DamageResult::Refused),
        (&much_later, Damage::Exchange(DB, from(&killed, DB)), DamageResult::Refused),
        (&much_later, Damage::Exchange(DB, from(&stopped, DB)), DamageResult::Refused),
        (&later, Damage::Exchange("linger.db-shm", from(&other, "linger.db-shm")), DamageResult::Whole),
        (&killed, Damage::Append(LOG, 100), DamageResult::Whole),
        (&killed, Damage::Append(LOG, 10_000), DamageResult::Whole),
        (&killed, Damage::Append(DB, 5_000), DamageResult::Whole),
    ];
    for (store, damage, expected) in &cases {
        let (end, log) = result_of(store, damage);
        assert_eq!(end, *expected, "{damage:?}: {log}");
    }
    println!("proof: what=damage_missing_or_exchanged runs={}", cases.len());
}

/// The control: a loss that the program cannot notice counts as silent.
#[test]
fn a_silent_loss_is_recognised() {
    let store = Store::killed();
    assert_eq!(result_of(&store, &Damage::Append("linger.db-shm", 1)).0, DamageResult::Whole);
    let mut more = store.copy();
    more.ledger.begin("first", "never-there", Effect::EXISTENCE);
    more.ledger.confirm("never-there", JobState::Ready, Content::default());
    assert_eq!(result_of(&more, &Damage::Append("linger.db-shm", 1)).0, DamageResult::Silent);
    assert_eq!(result_of(&store, &Damage::Remove(&[LOG])).0, DamageResult::Refused);
    assert!(Path::new(&store.file(DB)).exists(), "only copies are damaged");
}
