//! When the last backup was made: a file in the data directory, which `linger backup` writes and the server reads. It is no part
//! of a backup.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
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

/// Records that a backup of the store in `data_dir` is complete, which began at this moment.
///
/// # Errors
/// Why it is not recorded; an earlier moment stays then.
pub fn record_backup(data_dir: &Path, began_at: Timestamp) -> io::Result<()> {
    let path = data_dir.join(BACKUP_MARK_FILE);
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
        for ms in [1_000, 1_790_000_000_123] {
            record_backup(path, Timestamp::from_millis(ms)).expect("writes");
            assert_eq!(last_backup(path), Some(Timestamp::from_millis(ms)));
        }
        assert_eq!(fs::read_dir(path).expect("reads").count(), 1, "nothing else is left");
        fs::write(path.join(BACKUP_MARK_FILE), "yesterday\n").expect("writes");
        assert_eq!(last_backup(path), None);
        forget_backup(path).expect("removes");
        forget_backup(path).expect("there is none");
        let missing = record_backup(&path.join("missing"), Timestamp::from_millis(1));
        assert_eq!(missing.expect_err("no directory").kind(), io::ErrorKind::NotFound);
    }
}
