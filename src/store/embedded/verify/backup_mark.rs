//! When the last backup was made: a file in the data directory, which `linger backup` writes and the server reads. It is no part
//! of a backup.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use crate::{
    files::{new_file::partial_path, small_file},
    job::Timestamp,
};

/// The file: a moment as the API writes it, and a line break.
pub(super) const BACKUP_MARK_FILE: &str = "last-backup";
/// The server may run as another user than the backup. The directory keeps all others out.
const MODE: u32 = 0o644;

/// Records a backup of the store in `data_dir` that began at this moment; it is complete, and it is `now`. A later moment that
/// another backup has recorded stays.
///
/// # Errors
/// Why it is not recorded; an earlier moment stays then.
pub fn record_backup(data_dir: &Path, began_at: Timestamp, now: Timestamp) -> io::Result<()> {
    let path = data_dir.join(BACKUP_MARK_FILE);
    let _lock = lock(&path)?;
    // A moment that has not come yet is of a clock that was wrong.
    if last_backup(data_dir).is_some_and(|known| began_at < known && known <= now) {
        return Ok(());
    }
    let partial = partial_path(&path);
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&partial)?;
        file.set_permissions(Permissions::from_mode(MODE))?;
        file.write_all(format!("{began_at}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, &path)
    };
    let written = write();
    if written.is_err() {
        // It may not exist.
        let _ = fs::remove_file(&partial);
    }
    written
}

/// Locks the file, which is made if there is none, against other backups. Each of them puts a new file in its place, so the lock
/// counts only while the locked file still has the name.
fn lock(path: &Path) -> io::Result<File> {
    loop {
        // A backup by another user may have made it: only to replace it takes the right to write, to the directory.
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                OpenOptions::new().write(true).create(true).truncate(false).mode(MODE).open(path)?
            }
            opened => opened?,
        };
        file.lock()?;
        let locked = file.metadata()?;
        if fs::metadata(path).is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino())) {
            return Ok(file);
        }
    }
}

/// When the last recorded backup of the store in `data_dir` began; `None` if none is known.
pub(in crate::store::embedded) fn last_backup(data_dir: &Path) -> Option<Timestamp> {
    let text = small_file::read_text(&data_dir.join(BACKUP_MARK_FILE)).ok()?;
    Timestamp::parse(text.trim_end()).ok()
}

/// Removes what is recorded of the store that was in `data_dir` before.
pub(super) fn forget_backup(data_dir: &Path) -> io::Result<()> {
    match fs::remove_file(data_dir.join(BACKUP_MARK_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_recorded_moment_is_known_and_no_other_text_is_taken_for_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        assert_eq!(last_backup(path), None);
        let at = Timestamp::from_millis;
        for ms in [1_000, 1_790_000_000_123] {
            record_backup(path, at(ms), at(ms)).expect("writes");
            assert_eq!(last_backup(path), Some(at(ms)));
        }
        assert_eq!(fs::read_dir(path).expect("reads").count(), 1, "nothing else is left");
        fs::write(path.join(BACKUP_MARK_FILE), "yesterday\n").expect("writes");
        assert_eq!(last_backup(path), None);
        forget_backup(path).expect("removes");
        forget_backup(path).expect("there is none");
        let missing = record_backup(&path.join("missing"), at(1), at(1));
        assert_eq!(missing.expect_err("no directory").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn of_backups_that_overlap_the_one_that_began_last_is_recorded() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, at) = (directory.path(), Timestamp::from_millis);
        std::thread::scope(|scope| {
            for ms in 1..=16 {
                scope.spawn(move || record_backup(path, at(ms), at(20)).expect("writes"));
            }
        });
        assert_eq!(last_backup(path), Some(at(16)));
        assert_eq!(fs::read_dir(path).expect("reads").count(), 1, "nothing else is left");
        record_backup(path, at(15), at(16)).expect("is known");
        assert_eq!(last_backup(path), Some(at(16)));
        record_backup(path, at(14), at(15)).expect("writes");
        assert_eq!(last_backup(path), Some(at(14)), "the clock was wrong before");
    }
}
