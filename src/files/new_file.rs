//! Files that get their names only when they are complete. Knows nothing of their content.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

/// The name beside `target` that this process gives the file until it is complete.
pub(crate) fn partial_path(target: &Path) -> PathBuf {
    let mut name = target.file_name().map(OsString::from).unwrap_or_default();
    name.push(format!(".{}.partial", std::process::id()));
    target.with_file_name(name)
}

/// The directory of a file.
pub(crate) fn directory_of(target: &Path) -> &Path {
    target.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Renames `partial` to `target`, which must not exist: a plain rename would overwrite a file that was created meanwhile.
///
/// # Errors
/// If there is such a file, or the file system can do that in neither way. `partial` is still there then.
pub(crate) fn rename_new(partial: &Path, target: &Path) -> io::Result<()> {
    match renameat_with(CWD, partial, CWD, target, RenameFlags::NOREPLACE) {
        // Some network file systems cannot; others have no hard links.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => link_new(partial, target),
        renamed => Ok(renamed?),
    }
}

fn link_new(partial: &Path, target: &Path) -> io::Result<()> {
    fs::hard_link(partial, target)?;
    // The file is complete; a second name is only untidy.
    let _ = fs::remove_file(partial);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_file_gets_its_name_and_overwrites_nothing() {
        for rename in [rename_new, link_new] {
            let directory = tempfile::tempdir().expect("a directory");
            let target = directory.path().join("file");
            let partial = partial_path(&target);
            assert_eq!(directory_of(&partial), directory.path());
            fs::write(&partial, "whole").expect("writes");
            fs::write(&target, "of another process").expect("writes");
            let error = rename(&partial, &target).expect_err("the name is taken");
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&target).expect("reads"), b"of another process");
            fs::remove_file(&target).expect("is removed");
            rename(&partial, &target).expect("the name is free");
            assert_eq!(fs::read(&target).expect("reads"), b"whole");
            assert!(!partial.exists());
        }
        assert_eq!(directory_of(Path::new("file")), Path::new("."));
    }
}
