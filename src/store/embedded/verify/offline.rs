//! Verification of a store that is not in use: a data directory or a backup. It loads the store as a start would,
//! but writes nothing: records that a start would set aside are reported instead. (In a directory SQLite creates
//! its index of the log, `linger.db-shm`, anew, and an empty log where there is none; a missing lock file is
//! created.)

use std::{io, path::Path};

use super::{
    findings::Findings,
    online::{check_integrity, verify_all},
    verify_sql::set_aside_count,
};
use crate::{
    clock::Clock,
    store::{
        TopicStats, Verified,
        embedded::{
            disk::{
                commit_mark::CommitMark,
                data_dir::{DB_FILE, DataDir, LOCK_FILE, WAL_FILE},
            },
            memory::{job_index::JobIndex, state::Memory},
            options::{OpenError, Options},
            recovery::{identity::StoreFiles, load, wal::WalState},
            rows::{
                db::{Db, SqlResult},
                meta::{RunState, StoreHead},
                schema,
            },
        },
    },
};

/// The result of verifying a store that is not in use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inspection {
    /// The faults. A record that a start would set aside is one.
    pub verified: Verified,
    /// Jobs waiting for their due time, as of the last moment that the store acted on.
    pub delayed: u64,
    /// Jobs waiting for a worker.
    pub ready: u64,
    /// Jobs reserved by workers.
    pub reserved: u64,
    /// Dead letters.
    pub dead: u64,
}

/// Verifies the store in `options.data_dir`.
///
/// # Errors
/// Why it cannot be opened; [`OpenError::Locked`] while a process serves it.
pub fn inspect(options: &Options, clock: &dyn Clock) -> Result<Inspection, OpenError> {
    let (db_path, wal_path) = (options.data_dir.join(DB_FILE), options.data_dir.join(WAL_FILE));
    let lock_path = options.data_dir.join(LOCK_FILE);
    std::fs::metadata(&db_path).map_err(io_at(&db_path))?;
    let data_dir = DataDir::lock(&options.data_dir)?;
    let mark = CommitMark::read(data_dir.lock_file()).map_err(io_at(&lock_path))?;
    let wal = WalState::inspect(&wal_path).map_err(io_at(&wal_path))?;
    let files = StoreFiles::read((&db_path, &wal_path, lock_path), wal, mark).map_err(io_at(&db_path))?;
    let db = Db::new(schema::open_existing(&db_path)?);
    wal.check_compatible(&wal_path, &db_path, read_run_state(&db, &db_path)?)?;
    let stored = read_store_head(&db, &db_path)?;
    let head = files.check(stored)?;
    let missing = mark.map_or(0, |mark| mark.missing_from(head));
    Ok(examine(&db, wal, (stored, missing), clock))
}

/// Verifies the backup `file`, which needs no log beside it.
///
/// # Errors
/// Why it cannot be read, or is no backup.
pub fn inspect_backup(file: &Path, clock: &dyn Clock) -> Result<Inspection, OpenError> {
    if std::fs::metadata(file).map_err(io_at(file))?.is_dir() {
        let why = io::Error::other("this is a directory, not a backup; use --data-dir for it");
        return Err(io_at(file)(why));
    }
    for ending in ["-wal", "-journal"] {
        let mut beside = file.as_os_str().to_owned();
        beside.push(ending);
        if std::fs::metadata(&beside).is_ok_and(|beside| beside.len() > 0) {
            let why = format!("{} is beside it, so it is no backup", Path::new(&beside).display());
            return Err(OpenError::Incomplete { path: file.to_owned(), why });
        }
    }
    let db = Db::new(schema::open_immutable(file)?);
    WalState::Missing.check_compatible(file, file, read_run_state(&db, file)?)?;
    let stored = read_store_head(&db, file)?;
    Ok(examine(&db, WalState::Missing, (stored, 0), clock))
}

pub(super) fn read_run_state(db: &Db, path: &Path) -> Result<RunState, OpenError> {
    let run = db.run_state().map_err(|source| OpenError::Sqlite { path: path.to_owned(), source })?;
    // The verification reports a damaged entry.
    Ok(run.unwrap_or(RunState::Open))
}

fn read_store_head(db: &Db, path: &Path) -> Result<Option<StoreHead>, OpenError> {
    db.read_store_head().map_err(|source| OpenError::Sqlite { path: path.to_owned(), source })
}

fn io_at(path: &Path) -> impl Fn(io::Error) -> OpenError {
    move |source| OpenError::Io { path: path.to_owned(), source }
}

/// Verifies a store whose head is `stored`, `None` when it is damaged, and from which `missing` commits are missing by
/// its lock file.
fn examine(
    db: &Db,
    wal: WalState,
    (stored, missing): (Option<StoreHead>, u64),
    clock: &dyn Clock,
) -> Inspection {
    let mut findings = Findings::default();
    check_files(db, wal, missing, &mut findings);
    let memory = match read(db, clock) {
        Ok(memory) => {
            if let Some(StoreHead { jobs: Some(jobs), .. }) = stored {
                let found = memory.job_index().len() as u64;
                findings
                    .check(found == jobs, || format!("{found} jobs can be read, and {jobs} were counted"));
            }
            verify_all(&memory, db, clock.read(), &mut findings);
            memory
        }
        Err(error) => {
            findings.add(|| format!("not everything could be read: {error}"));
            check_integrity(db, &mut findings);
            Memory::new(JobIndex::new())
        }
    };
    let topics = memory.topics();
    let sum =
        |count: fn(&TopicStats) -> u64| topics.by_name().map(|(ix, _)| count(&topics.stats(ix, 0))).sum();
    let verified = Verified {
        jobs: memory.job_index().len() as u64,
        stale: 0,
        set_aside: set_aside_count(db).unwrap_or_default(),
        faults: findings.into_sentences(),
    };
    let [delayed, ready, reserved, dead] =
        [sum(|t| t.delayed), sum(|t| t.ready), sum(|t| t.reserved), sum(|t| t.dead)];
    Inspection { verified, delayed, ready, reserved, dead }
}

/// Loads the store as a start would. The verification reports what could not be loaded.
fn read(db: &Db, clock: &dyn Clock) -> SqlResult<Memory> {
    // When it is damaged, which the verification reports, the system clock is used.
    let mark = db.clock_mark()?.unwrap_or(clock.read().rounded_down);
    clock.advance_to_at_least(mark);
    let mut memory = Memory::new(JobIndex::new());
    load::read(&mut memory, db, mark, clock.wall_now())?;
    memory.commit(|_, _| ());
    Ok(memory)
}

fn check_files(db: &Db, wal: WalState, missing: u64, findings: &mut Findings) {
    let commits = match wal {
        WalState::Present(frames) => frames.dropped_commits,
        WalState::Missing | WalState::Unreadable => 0,
    };
    findings.check(commits < 2, || {
        format!("the log ends in {commits} damaged commits; up to one is what a crash leaves behind")
    });
    match schema::differences(db.conn()) {
        Ok(differences) => differences.into_iter().for_each(|difference| {
            findings.add(|| format!("the database was changed by another program: {difference}"));
        }),
        Err(error) => findings.add(|| format!("the tables of the database cannot be read: {error}")),
    }
    findings.check(missing == 0, || format!("{missing} changes are missing from its end"));
}
