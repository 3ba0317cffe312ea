//! Verification of a store that nobody serves: a data directory or a backup. It reads into memory as a start
//! would, but writes nothing: what a start would set aside is reported instead. (In a directory SQLite makes
//! its index of the log, `linger.db-shm`, anew, and an empty log where there is none; a missing lock file is
//! made.)

use std::{io, path::Path};

use super::online::{Findings, check_integrity, verify_all};
use crate::{
    clock::Clock,
    store::{
        TopicStats, Verified,
        embedded::{
            disk::data_dir::{DB_FILE, DataDir, LOCK_FILE, LOG_FILE},
            memory::{job_index::JobIndex, state::Memory},
            options::{OpenError, Options},
            recovery::{
                identity::{CommitMark, HeadState, StoreFiles, StoreHead},
                load,
                wal::{RunState, WalState},
            },
            rows::{
                key::RowKey,
                records::{Db, SqlResult},
                schema,
            },
        },
    },
};

/// What was found in a store that nobody serves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inspection {
    /// What a verification found. A record that a start would set aside is a fault.
    pub verified: Verified,
    /// Jobs waiting for their due time, as the states were at the last moment that was acted on.
    pub delayed: u64,
    /// Jobs waiting for a worker.
    pub ready: u64,
    /// Jobs held by workers.
    pub reserved: u64,
    /// Dead letters.
    pub dead: u64,
}

/// Verifies the store in `options.data_dir`.
///
/// # Errors
/// Why it cannot be opened; [`OpenError::Locked`] while somebody serves it.
pub fn inspect(options: &Options, clock: &dyn Clock) -> Result<Inspection, OpenError> {
    let (db_path, log_path) = (options.data_dir.join(DB_FILE), options.data_dir.join(LOG_FILE));
    let io = |source| OpenError::Io { path: db_path.clone(), source };
    std::fs::metadata(&db_path).map_err(io)?;
    let locked = DataDir::lock(&options.data_dir)?;
    let lock_path = options.data_dir.join(LOCK_FILE);
    let note = CommitMark::read(locked.lock_file())
        .map_err(|source| OpenError::Io { path: lock_path.clone(), source })?;
    let log =
        WalState::inspect(&log_path).map_err(|source| OpenError::Io { path: log_path.clone(), source })?;
    let files = StoreFiles::new(&db_path, &log_path, lock_path, log.replays()).map_err(io)?;
    let db = Db::new(schema::open_existing(&db_path)?);
    log.check_compatible(&log_path, &db_path, read_run_state(&db, &db_path)?)?;
    let told = read_head_state(&db, &db_path)?;
    let link = files.check_compatible(told, note)?;
    let missing = note.map_or(0, |note| link.missing(note));
    Ok(examine(&db, log, (told, missing), options, clock))
}

/// Verifies the backup `file`, which needs no log beside it.
///
/// # Errors
/// Why it cannot be read, or is no backup.
pub fn inspect_backup(file: &Path, clock: &dyn Clock) -> Result<Inspection, OpenError> {
    let refused = |source| OpenError::Io { path: file.to_owned(), source };
    if std::fs::metadata(file).map_err(refused)?.is_dir() {
        let why = io::Error::other("this is a directory, not a backup; use --data-dir for it");
        return Err(refused(why));
    }
    for ending in ["-wal", "-journal"] {
        let mut beside = file.as_os_str().to_owned();
        beside.push(ending);
        if std::fs::metadata(&beside).is_ok_and(|beside| beside.len() > 0) {
            let why = format!("{} lies beside it, so it is no backup", Path::new(&beside).display());
            return Err(OpenError::Incomplete { path: file.to_owned(), why });
        }
    }
    let db = Db::new(schema::open_immutable(file)?);
    WalState::Missing.check_compatible(file, file, read_run_state(&db, file)?)?;
    let told = read_head_state(&db, file)?;
    Ok(examine(&db, WalState::Missing, (told, 0), &Options::new("."), clock))
}

pub(crate) fn read_run_state(db: &Db, path: &Path) -> Result<RunState, OpenError> {
    db.run().map_err(|source| OpenError::Sqlite { path: path.to_owned(), source })
}

fn read_head_state(db: &Db, path: &Path) -> Result<HeadState, OpenError> {
    db.store_head_state().map_err(|source| OpenError::Sqlite { path: path.to_owned(), source })
}

/// `told` is the link, and how many changes are missing by the lock file.
fn examine(
    db: &Db,
    log: WalState,
    told: (HeadState, u64),
    options: &Options,
    clock: &dyn Clock,
) -> Inspection {
    let mut faults = Findings::default();
    let commits = match log {
        WalState::Present(frames) => frames.dropped_commits,
        WalState::Missing | WalState::Unreadable => 0,
    };
    faults.check(commits < 2, || {
        format!("the log ends in {commits} damaged commits; up to one is what a crash leaves behind")
    });
    match schema::differences(db.conn()) {
        Ok(differences) => differences.into_iter().for_each(|difference| {
            faults.add(|| format!("the database was changed by another program: {difference}"));
        }),
        Err(error) => faults.add(|| format!("the tables of the database cannot be read: {error}")),
    }
    let (told, missing) = told;
    faults.check(told != HeadState::Damaged, || "how far the store had come cannot be read".to_owned());
    faults.check(missing == 0, || format!("{missing} changes are missing from its end"));
    let memory = match read(db, options, clock) {
        Ok(memory) => {
            if let HeadState::StoreHead(StoreHead { jobs: Some(jobs), .. }) = told {
                let found = memory.job_index().len() as u64;
                faults.check(found == jobs, || format!("{found} jobs can be read, and {jobs} were counted"));
            }
            verify_all(&memory, db, clock.read(), &mut faults);
            memory
        }
        Err(error) => {
            faults.add(|| format!("not everything could be read: {error}"));
            check_integrity(db, &mut faults);
            Memory::new(JobIndex::new(), RowKey::START)
        }
    };
    let sum = |count: fn(&TopicStats) -> u64| memory.topics().by_name(None).map(|t| count(&t.stats())).sum();
    let verified = Verified {
        jobs: memory.job_index().len() as u64,
        stale: 0,
        set_aside: db.set_aside_count().unwrap_or_default(),
        faults: faults.into_sentences(),
    };
    let [delayed, ready, reserved, dead] =
        [sum(|t| t.delayed), sum(|t| t.ready), sum(|t| t.reserved), sum(|t| t.dead)];
    Inspection { verified, delayed, ready, reserved, dead }
}

/// Memory as a start would have it. What it could not take in, the verification names.
fn read(db: &Db, options: &Options, clock: &dyn Clock) -> SqlResult<Memory> {
    // Without it the system's clock has to do; that it is damaged the verification says.
    let mark = db.clock()?.unwrap_or(clock.read().down);
    clock.advance_to_at_least(mark);
    let frontier = RowKey::first_after(clock.read().up.after(options.look_ahead));
    let mut memory = Memory::new(JobIndex::new(), frontier);
    load::read(&mut memory, db, mark)?;
    memory.commit(|_, _| ());
    Ok(memory)
}
