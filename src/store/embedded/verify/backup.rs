//! A copy of the whole store into one file, beside the server that uses it, and back into a directory.
//!
//! The copy is one read transaction of SQLite's online backup, from another process or this one: it holds
//! nobody up, and shows exactly what was committed when it began; meanwhile the log grows, because it cannot
//! start over. (Rejected: an HTTP endpoint, which would have to trust clients with everybody's jobs;
//! `VACUUM INTO`, which stops at the first damaged page instead of copying it for somebody to look at.)

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use rusqlite::{
    Connection,
    backup::{Backup, StepResult},
    config::DbConfig,
};

use super::offline::read_run_state;
use crate::store::embedded::{
    disk::{
        ballast::BALLAST_FILE,
        data_dir::{DB_FILE, DataDir, LOCK_FILE, WAL_FILE, create_dir, sync_dir},
    },
    options::OpenError,
    recovery::wal::WalState,
    rows::{
        db::{Db, SqlResult},
        meta::RunState,
        schema,
    },
};

/// Copies the store in `data_dir` to `target`, which must not exist; its length in bytes. A server may be at
/// work on it. `target` appears only when it is complete and on disk.
///
/// # Errors
/// What stood in the way; nothing is left behind then.
pub fn backup(data_dir: &Path, target: &Path) -> Result<u64, OpenError> {
    if fs::symlink_metadata(target).is_ok() {
        return Err(io_at(target)(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "it exists already, and a backup overwrites nothing",
        )));
    }
    copy_store(data_dir, target)?.keep_as(target, || Ok(()))
}

/// Copies the store in `data_dir` to `out`; its length in bytes. A server may be at work on it. The copy is made in a
/// file in `scratch_dir` first, because SQLite does not write it from the beginning to the end.
///
/// # Errors
/// What stood in the way. Then `out` may have got a part of it.
pub fn backup_to(data_dir: &Path, scratch_dir: &Path, out: &mut impl io::Write) -> Result<u64, OpenError> {
    let target = scratch_dir.join("backup");
    let partial = copy_store(data_dir, &target)?;
    let mut copy = File::open(&partial.0).map_err(io_at(&target))?;
    let written = io::copy(&mut copy, out).and_then(|len| out.flush().map(|()| len));
    written.map_err(io_at(Path::new("-")))
}

/// Copies the store in `data_dir` to a file that is to become `target`.
fn copy_store(data_dir: &Path, target: &Path) -> Result<Partial, OpenError> {
    let (db_path, log_path) = (data_dir.join(DB_FILE), data_dir.join(WAL_FILE));
    fs::metadata(&db_path).map_err(io_at(&db_path))?;
    let source = Db::new(schema::open_existing(&db_path)?);
    let sqlite = |source| OpenError::Sqlite { path: db_path.clone(), source };
    // From the first read on one moment is seen, and the log cannot be emptied.
    source.conn().execute_batch("BEGIN").map_err(sqlite)?;
    let run = read_run_state(&source, &db_path)?;
    if run == RunState::Open {
        WalState::inspect(&log_path).map_err(io_at(&log_path))?.check_compatible(&log_path, &db_path, run)?;
    }
    let partial = Partial::create(target)?;
    let copied = copy(source.conn(), &partial.0).and_then(|()| detach(&partial.0));
    copied.map_err(|source| OpenError::Sqlite { path: target.to_owned(), source })?;
    Ok(partial)
}

/// Puts the backup `file` into `data_dir`, which must be empty or missing, as its store. Whether the backup is
/// sound is for [`inspect_backup`](crate::store::embedded::inspect_backup) to say before.
///
/// # Errors
/// What stood in the way; no store is there then.
pub fn restore(file: &Path, data_dir: &Path) -> Result<(), OpenError> {
    refuse_unless_empty(data_dir)?;
    create_dir(data_dir).map_err(io_at(data_dir))?;
    let locked = DataDir::lock(data_dir)?;
    refuse_unless_empty(data_dir)?;
    let target = data_dir.join(DB_FILE);
    let mut source = File::open(file).map_err(io_at(file))?;
    let partial = Partial::create(&target)?;
    let mut copy = OpenOptions::new().write(true).open(&partial.0).map_err(io_at(&target))?;
    io::copy(&mut source, &mut copy).map_err(io_at(&target))?;
    // It may still tell of the store that was here before; until now that kept a start from beginning anew.
    let kept =
        partial.keep_as(&target, || locked.lock_file().set_len(0).map_err(io_at(&data_dir.join(LOCK_FILE))));
    kept.map(drop)
}

/// One consistent copy of all pages.
fn copy(source: &Connection, target: &Path) -> SqlResult<()> {
    let mut target = Connection::open(target)?;
    // What is cut short is thrown away whole.
    target.pragma_update(None, "journal_mode", "MEMORY")?;
    let backup = Backup::new(source, &mut target)?;
    match backup.step(-1)? {
        StepResult::Done => Ok(()),
        // All pages were asked for and nobody else knows the target, so only the source can be busy.
        _ => Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY),
            Some("somebody else has locked the database".to_owned()),
        )),
    }
}

/// Makes the copy complete without a log: it needs none, and says that none is missing.
fn detach(target: &Path) -> SqlResult<()> {
    let conn = Connection::open(target)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.pragma_update(None, "journal_mode", "DELETE")?;
    conn.execute("UPDATE meta SET value = ?1 WHERE name = 'run'", [RunState::Clean.as_str()])?;
    conn.close().map_err(|(_, error)| error)
}

/// A file in the making, beside the one it becomes; removed unless it is kept.
struct Partial(PathBuf);

impl Partial {
    fn create(target: &Path) -> Result<Self, OpenError> {
        let mut name = target.file_name().map(OsString::from).unwrap_or_default();
        name.push(format!(".{}.partial", std::process::id()));
        let path = target.with_file_name(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // For our eyes only: bodies may be confidential.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&path).map_err(|error| match error.kind() {
            // Its name is nobody's business: what is missing is the directory.
            io::ErrorKind::NotFound => io_at(target)(io::Error::other("there is no such directory")),
            _ => io_at(target)(error),
        })?;
        Ok(Self(path))
    }

    /// Gives it its name, which must be free, once all of it is on disk; its length. When the name may not
    /// last or `then` fails, nothing is there.
    fn keep_as(self, target: &Path, then: impl FnOnce() -> Result<(), OpenError>) -> Result<u64, OpenError> {
        let file = File::open(&self.0).map_err(io_at(target))?;
        file.sync_all().map_err(io_at(target))?;
        let len = file.metadata().map_err(io_at(target))?.len();
        // A link, because a rename would overwrite what came into being meanwhile.
        fs::hard_link(&self.0, target).map_err(io_at(target))?;
        drop(self);
        let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let lasting = sync_dir(dir).map_err(io_at(dir)).and_then(|()| then());
        if lasting.is_err() {
            // What is told of is the first failure; this one would be the same disk's.
            let _ = fs::remove_file(target);
        }
        lasting.map(|()| len)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        for ending in ["", "-journal", "-wal", "-shm"] {
            let mut path = self.0.clone().into_os_string();
            path.push(ending);
            // What is not there needs no removing.
            let _ = fs::remove_file(path);
        }
    }
}

/// Only a lock file may be there, which stays behind when a restore is refused or cut short, and the ballast.
fn refuse_unless_empty(dir: &Path) -> Result<(), OpenError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_at(dir)(error)),
    };
    for entry in entries {
        let name = entry.map_err(io_at(dir))?.file_name();
        if name != LOCK_FILE && name != BALLAST_FILE {
            let why =
                format!("it is not empty ({} is in it), and a restore overwrites nothing", name.display());
            return Err(io_at(dir)(io::Error::new(io::ErrorKind::DirectoryNotEmpty, why)));
        }
    }
    Ok(())
}

fn io_at(path: &Path) -> impl Fn(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io { path: path.clone(), source }
}
