//! The data directory: made for its owner only, locked against a second process, and checked while it is in use.
//! Does not know what the files contain.
//!
//! Two locks (`flock`) keep a second process out: one on the lock file, which also contains the commit mark,
//! and one on the directory itself, because users remove lock files. The directory and not `linger.db`:
//! SQLite holds POSIX locks on that file, and the kernel drops all of them as soon as the process closes any
//! other descriptor of it. On NFS, where `flock` becomes a POSIX lock, the two would also exclude each other.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{OFlags, major, minor};

use crate::store::embedded::options::OpenError;

pub(crate) const DB_FILE: &str = "linger.db";
pub(crate) const WAL_FILE: &str = "linger.db-wal";
pub(crate) const LOCK_FILE: &str = "lock";

/// A data directory, locked until this is dropped.
#[derive(Debug)]
pub(crate) struct DataDir {
    lock: File,
    /// `None` on file systems that cannot lock directories.
    directory: Option<File>,
    /// Files that must stay in place, with their device and inode.
    in_use: Vec<(PathBuf, (u64, u64))>,
}

impl DataDir {
    /// Locks `dir`, which must exist. Creates the lock file when it is missing.
    pub fn lock(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(LOCK_FILE);
        let io = |path: &Path, source| OpenError::Io { path: path.to_owned(), source: explained(source) };
        let directory = File::open(dir).map_err(|source| io(dir, source))?;
        let directory = match directory.try_lock() {
            Ok(()) => Some(directory),
            Err(TryLockError::WouldBlock) => return Err(in_use(dir, &directory)),
            Err(TryLockError::Error(error)) => {
                tracing::debug!(%error, dir = %dir.display(), "this file system cannot lock directories");
                None
            }
        };
        let lock = open_private(&path).map_err(|source| io(&path, source))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { lock, directory, in_use: Vec::new() }),
            Err(TryLockError::WouldBlock) => Err(in_use(dir, &lock)),
            Err(TryLockError::Error(source)) => Err(io(&path, source)),
        }
    }

    /// The lock file, for the commit mark.
    pub fn lock_file(&self) -> &File {
        &self.lock
    }

    /// Makes `check` compare the file at `path` with the one that is there now.
    pub fn watch(&mut self, path: PathBuf) -> io::Result<()> {
        let id = id_of(&fs::metadata(&path)?);
        self.in_use.push((path, id));
        Ok(())
    }

    /// Checks that the files in use are still in place. Writes to a file that was removed or replaced would be lost
    /// with the process.
    pub fn check(&self) -> Result<(), String> {
        for (path, id) in &self.in_use {
            let is_there = match fs::metadata(path) {
                Ok(file) => id_of(&file) == *id,
                Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
            };
            if !is_there {
                return Err(format!("{} was removed or replaced", path.display()));
            }
        }
        Ok(())
    }
}

impl Drop for DataDir {
    /// Unlocks explicitly. Closing the files is not enough: a program that another thread starts just now has copies of them
    /// until it runs, and the locks would last as long.
    fn drop(&mut self) {
        for file in self.directory.iter().chain([&self.lock]) {
            if let Err(error) = file.unlock() {
                tracing::debug!(%error, "a lock of the data directory lasts until its file is closed");
            }
        }
    }
}

fn id_of(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn in_use(dir: &Path, locked: &File) -> OpenError {
    OpenError::Locked { dir: dir.to_owned(), pid: holder(locked) }
}

/// The process that has the lock on `file`, if the system reports it.
fn holder(file: &File) -> Option<u32> {
    let (dev, ino) = id_of(&file.metadata().ok()?);
    let id = format!("{:02x}:{:02x}:{ino}", major(dev), minor(dev));
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        // As in "1: FLOCK ADVISORY WRITE 4711 08:01:12345 0 EOF".
        match words[..] {
            [_, "FLOCK", _, "WRITE", pid, file, ..] if file == id => pid.parse().ok().filter(|pid| *pid > 0),
            _ => None,
        }
    })
}

/// Opens a file for its owner only, and creates it when it is missing. Does not follow a link.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    let no_follow = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).mode(0o600).custom_flags(no_follow);
    options.open(path).map_err(|error| match rustix::io::Errno::from_io_error(&error) {
        Some(rustix::io::Errno::LOOP) => {
            io::Error::new(error.kind(), "it is a symbolic link, which is not followed; remove it")
        }
        Some(_) | None => error,
    })
}

/// Creates the directory and its parents, for its owner only: bodies may be confidential.
pub(crate) fn create_dir(dir: &Path) -> io::Result<()> {
    match fs::metadata(dir) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a directory")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(explained(error)),
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(explained)?;
    dir.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or(Ok(()), sync_dir)
}

/// Adds which user was refused and what to do to the system's "Permission denied".
fn explained(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    let uid = rustix::process::geteuid().as_raw();
    let why = format!(
        "this process runs as user {uid}, which may not write here; make that user the owner of the data \
         directory (chown -R {uid} DIR, for a bind mount on the host), or choose another with --data-dir"
    );
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Makes the names of new files durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_lock_file_does_not_unlock_the_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let held = DataDir::lock(dir.path()).expect("locks");
        let refused = DataDir::lock(dir.path()).expect_err("is refused").to_string();
        assert!(refused.contains(&format!("(pid {})", std::process::id())), "{refused}");
        fs::remove_file(dir.path().join(LOCK_FILE)).expect("removes");
        assert!(matches!(DataDir::lock(dir.path()), Err(OpenError::Locked { .. })));
        drop(held);
        DataDir::lock(dir.path()).expect("is free");
    }

    #[test]
    fn copies_of_the_files_that_a_starting_program_has_do_not_keep_the_locks() {
        let dir = tempfile::tempdir().expect("a directory");
        let held = DataDir::lock(dir.path()).expect("locks");
        let directory = held.directory.as_ref().expect("is locked").try_clone().expect("is copied");
        let copies = (held.lock.try_clone().expect("is copied"), directory);
        drop(held);
        DataDir::lock(dir.path()).expect("is free");
        drop(copies);
    }

    #[test]
    fn the_lock_file_is_private_and_no_link_is_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        drop(DataDir::lock(dir.path()).expect("locks"));
        let path = dir.path().join(LOCK_FILE);
        assert_eq!(fs::metadata(&path).expect("is there").mode() & 0o777, 0o600);
        fs::remove_file(&path).expect("removes");
        let precious = dir.path().join("precious");
        fs::write(&precious, "precious").expect("writes");
        std::os::unix::fs::symlink(&precious, &path).expect("links");
        let refused = DataDir::lock(dir.path()).expect_err("is refused").to_string();
        assert!(refused.contains("symbolic link"), "{refused}");
        assert_eq!(fs::read(&precious).expect("reads"), b"precious");
    }

    #[test]
    fn a_file_that_goes_or_is_replaced_is_noticed() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut held = DataDir::lock(dir.path()).expect("locks");
        let path = dir.path().join(DB_FILE);
        assert!(held.watch(path.clone()).is_err(), "there is none yet");
        fs::write(&path, "one").expect("writes");
        held.watch(path.clone()).expect("watches");
        assert_eq!(held.check(), Ok(()));
        let other = dir.path().join("other");
        fs::write(&other, "two").expect("writes");
        fs::rename(&other, &path).expect("renames");
        assert!(held.check().is_err_and(|why| why.contains("linger.db was removed or replaced")));
        fs::remove_file(&path).expect("removes");
        assert!(held.check().is_err());
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        fs::write(&file, "").expect("writes");
        assert_eq!(create_dir(&file).expect_err("is refused").to_string(), "it is not a directory");
        let denied = explained(io::ErrorKind::PermissionDenied.into()).to_string();
        assert!(denied.contains("runs as user ") && denied.contains("--data-dir"), "{denied}");
    }
}
