//! Backup of a whole store into one file, also while a server uses it, and restore into a directory.
//!
//! The copy is one read transaction of SQLite's online backup, from this or another process: it blocks no operation,
//! and contains exactly what was committed when it began; meanwhile the log grows, because it cannot start over.
//! (Rejected: an HTTP endpoint, which would give clients the jobs of every topic; `VACUUM INTO`, which stops at
//! the first damaged page instead of copying it for an inspection.)

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use rusqlite::{
    Connection,
    backup::{Backup, StepResult},
    config::DbConfig,
};

use super::{
    backup_mark::{BACKUP_MARK_FILE, forget_backup},
    offline::read_run_state,
};
use crate::{
    files::new_file::{directory_of, partial_path, rename_new},
    store::embedded::{
        disk::{
            ballast::BALLAST_FILE,
            data_dir::{DB_FILE, DataDir, LOCK_FILE, WAL_FILE, create_dir, sync_dir},
        },
        options::OpenError,
        recovery::wal::WalState,
        rows::{
            db::{Db, SqlResult},
            meta::{RunState, put_run_state},
            schema,
        },
    },
};

/// Copies the store in `data_dir` to `target`, which must not exist. Returns the length in bytes. A server may be
/// using the store. `target` appears only when it is complete and on disk.
///
/// # Errors
/// Why it failed; nothing is left behind then.
pub fn backup(data_dir: &Path, target: &Path) -> Result<u64, OpenError> {
    if fs::symlink_metadata(target).is_ok() {
        return Err(io_at(target)(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "it exists already, and a backup overwrites nothing",
        )));
    }
    copy_store(data_dir, target)?.keep_as(target, || Ok(()))
}

/// Copies the store in `data_dir` to `out`. Returns the length in bytes. A server may be using the store. The copy is
/// made in a file beside `scratch` first, because SQLite does not write it sequentially.
///
/// # Errors
/// Why it failed. `out` may have received a part of the copy then.
pub fn backup_to(data_dir: &Path, scratch: &Path, out: &mut impl io::Write) -> Result<u64, OpenError> {
    let partial = copy_store(data_dir, scratch)?;
    let mut copy = File::open(&partial.0).map_err(io_at(scratch))?;
    let written = io::copy(&mut copy, out).and_then(|len| out.flush().map(|()| len));
    written.map_err(io_at(Path::new("-")))
}

/// Copies the store in `data_dir` to a file that is to become `target`.
fn copy_store(data_dir: &Path, target: &Path) -> Result<Partial, OpenError> {
    let (db_path, wal_path) = (data_dir.join(DB_FILE), data_dir.join(WAL_FILE));
    fs::metadata(&db_path).map_err(io_at(&db_path))?;
    let source = Db::new(schema::open_existing(&db_path)?);
    let sqlite = |source| OpenError::Sqlite { path: db_path.clone(), source };
    // From the first read on, the transaction sees one moment, and the log cannot be emptied.
    source.conn().execute_batch("BEGIN").map_err(sqlite)?;
    let run = read_run_state(&source, &db_path)?;
    if run == RunState::Open {
        WalState::inspect(&wal_path).map_err(io_at(&wal_path))?.check_compatible(&wal_path, &db_path, run)?;
    }
    let partial = Partial::create(target)?;
    let copied = copy(source.conn(), &partial.0).and_then(|()| detach(&partial.0));
    copied.map_err(|source| OpenError::Sqlite { path: target.to_owned(), source })?;
    Ok(partial)
}

/// Puts the backup `file` into `data_dir`, which must be empty or missing, as its store. Verify the
/// backup before with [`inspect_backup`](crate::store::embedded::inspect_backup).
///
/// # Errors
/// Why it failed; there is no store in the directory then.
pub fn restore(file: &Path, data_dir: &Path) -> Result<(), OpenError> {
    restore_from(&mut File::open(file).map_err(io_at(file))?, data_dir, |_| Ok(true)).map(drop)
}

/// Like [`restore`], from a stream. `is_sound` verifies the copy before it becomes the store: without that there is none.
/// Returns what it returned.
///
/// # Errors
/// Those of [`restore`], and that of `is_sound`.
pub fn restore_from(
    source: &mut impl io::Read,
    data_dir: &Path,
    is_sound: impl FnOnce(&Path) -> Result<bool, OpenError>,
) -> Result<bool, OpenError> {
    refuse_unless_empty(data_dir)?;
    create_dir(data_dir).map_err(io_at(data_dir))?;
    let locked = DataDir::lock(data_dir)?;
    refuse_unless_empty(data_dir)?;
    let target = restored_file(data_dir);
    let partial = Partial::create(&target)?;
    let mut copy = OpenOptions::new().write(true).open(&partial.0).map_err(io_at(&target))?;
    io::copy(source, &mut copy).map_err(io_at(&target))?;
    if !is_sound(&partial.0)? {
        return Ok(false);
    }
    // The lock file may still contain the mark of a previous store, which must not be compared with this one.
    let kept = partial.keep_as(&target, || {
        locked.lock_file().set_len(0).map_err(io_at(&data_dir.join(LOCK_FILE)))?;
        forget_backup(data_dir).map_err(io_at(&data_dir.join(BACKUP_MARK_FILE)))
    });
    kept.map(|_| true)
}

/// One consistent copy of all pages.
fn copy(source: &Connection, target: &Path) -> SqlResult<()> {
    let mut target = Connection::open(target)?;
    // An incomplete copy is deleted, so it needs no journal on disk.
    target.pragma_update(None, "journal_mode", "MEMORY")?;
    let backup = Backup::new(source, &mut target)?;
    match backup.step(-1)? {
        StepResult::Done => Ok(()),
        // All pages were requested and no other process knows the target, so only the source can be busy.
        _ => Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY),
            Some("another program has locked the database".to_owned()),
        )),
    }
}

/// Makes the copy complete without a log, and marks it as cleanly closed, so that no log is missed.
fn detach(target: &Path) -> SqlResult<()> {
    let conn = Connection::open(target)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.pragma_update(None, "journal_mode", "DELETE")?;
    put_run_state(&conn, RunState::Clean)?;
    conn.close().map_err(|(_, error)| error)
}

/// The file that [`restore`] makes.
pub fn restored_file(data_dir: &Path) -> PathBuf {
    data_dir.join(DB_FILE)
}

/// Removes an incomplete copy that this process makes, and that is to become `target`. For a process that is about to end.
pub fn remove_incomplete(target: &Path) {
    remove_partial(&partial_path(target));
}

fn remove_partial(partial: &Path) {
    for ending in ["", "-journal", "-wal", "-shm"] {
        let mut path = partial.as_os_str().to_owned();
        path.push(ending);
        // It may not exist.
        let _ = fs::remove_file(path);
    }
}

/// An incomplete file beside its target; removed unless it is kept.
struct Partial(PathBuf);

impl Partial {
    fn create(target: &Path) -> Result<Self, OpenError> {
        let path = partial_path(target);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // For the owner only: bodies may be confidential.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&path).map_err(|error| match error.kind() {
            // The directory is missing; the temporary name would only confuse.
            io::ErrorKind::NotFound => io_at(target)(io::Error::other("there is no such directory")),
            _ => io_at(target)(error),
        })?;
        Ok(Self(path))
    }

    /// Renames it to `target`, which must not exist, once all of it is on disk. Returns its length. When the name
    /// cannot be made durable or `then` fails, the file is removed.
    fn keep_as(self, target: &Path, then: impl FnOnce() -> Result<(), OpenError>) -> Result<u64, OpenError> {
        let file = File::open(&self.0).map_err(io_at(target))?;
        file.sync_all().map_err(io_at(target))?;
        let len = file.metadata().map_err(io_at(target))?.len();
        rename_new(&self.0, target).map_err(io_at(target))?;
        drop(self);
        let dir = directory_of(target);
        let durable = sync_dir(dir).map_err(io_at(dir)).and_then(|()| then());
        if durable.is_err() {
            // The first failure is reported; this one has probably the same cause.
            let _ = fs::remove_file(target);
        }
        durable.map(|()| len)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        remove_partial(&self.0);
    }
}

/// Allows only a lock file, which stays behind when a restore fails, the ballast, and what is recorded of backups.
fn refuse_unless_empty(dir: &Path) -> Result<(), OpenError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_at(dir)(error)),
    };
    for entry in entries {
        let name = entry.map_err(io_at(dir))?.file_name();
        // A recording that was interrupted leaves a file whose name begins as that of the record.
        let is_record = name.to_str().is_some_and(|name| name.starts_with(BACKUP_MARK_FILE));
        if name != LOCK_FILE && name != BALLAST_FILE && !is_record {
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
