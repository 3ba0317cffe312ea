//! The ballast: a file in the data directory that only takes up disk space. When the disk is full it is removed,
//! so that jobs can still be finished and deleted and the server can restart. It is made again when there is
//! room. Knows nothing of the store but its directory.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FallocateFlags, fallocate},
    io::Errno,
};

use super::data_dir::{open_private, sync_dir};

/// The file's name.
pub(crate) const BALLAST_FILE: &str = "ballast";

const CHUNK_BYTES: usize = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BallastState {
    Present,
    Missing,
    /// The file system refused it for another reason than lack of space.
    Impossible,
}

/// The ballast of a data directory.
#[derive(Debug)]
pub(crate) struct Ballast {
    path: PathBuf,
    bytes: u64,
    state: BallastState,
}

impl Ballast {
    /// Finds the ballast of `bytes` bytes in `dir`. A file of another size, or one that is not fully allocated
    /// because it was copied, is removed.
    pub fn find(dir: &Path, bytes: u64) -> Self {
        let path = dir.join(BALLAST_FILE);
        let is_whole = |file: fs::Metadata| {
            file.is_file() && file.len() == bytes && file.blocks().saturating_mul(512) >= bytes
        };
        let held = bytes > 0 && fs::symlink_metadata(&path).is_ok_and(is_whole);
        let this =
            Self { path, bytes, state: if held { BallastState::Present } else { BallastState::Missing } };
        if !held {
            this.delete_file();
        }
        this
    }

    /// Whether there is a file that can be removed.
    pub fn is_present(&self) -> bool {
        self.state == BallastState::Present
    }

    /// Whether the file should be made when there is space.
    pub fn is_wanted(&self) -> bool {
        self.bytes > 0 && self.state == BallastState::Missing
    }

    /// The configured size of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Removes the file. Returns whether that freed space.
    pub fn remove(&mut self) -> bool {
        let was_held = self.is_present();
        if was_held {
            self.state = BallastState::Missing;
            self.delete_file();
        }
        was_held
    }

    /// Makes the file. Returns whether it exists now.
    pub fn make(&mut self) -> bool {
        match self.allocate() {
            Ok(()) => self.state = BallastState::Present,
            Err(error) => {
                self.delete_file();
                if !is_lack_of_space(&error) {
                    self.state = BallastState::Impossible;
                    tracing::warn!(ballast = %self.path.display(), %error, "the ballast file cannot be made");
                }
            }
        }
        self.is_present()
    }

    fn allocate(&self) -> io::Result<()> {
        let mut file = open_private(&self.path)?;
        file.set_len(0)?;
        match fallocate(&file, FallocateFlags::empty(), 0, self.bytes) {
            Ok(()) => file.sync_all(),
            // This file system allocates only on write. Random bytes, because it may compress.
            Err(Errno::OPNOTSUPP) => {
                let mut left = self.bytes;
                let mut chunk = vec![0; CHUNK_BYTES];
                while left > 0 {
                    rand::fill(&mut chunk[..]);
                    let len = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    file.write_all(&chunk[..len])?;
                    left -= len as u64;
                }
                file.sync_all()
            }
            Err(error) => Err(error.into()),
        }
    }

    fn delete_file(&self) {
        match fs::remove_file(&self.path) {
            // Some file systems free the blocks only when the removal is on disk.
            Ok(()) => drop(self.path.parent().map(sync_dir)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(ballast = %self.path.display(), %error, "the ballast file cannot be removed");
            }
        }
    }
}

/// Removes the ballast in `dir`, so that a start gets its space. Returns whether there was one.
pub(crate) fn remove_in(dir: &Path) -> bool {
    let removed = fs::remove_file(dir.join(BALLAST_FILE)).is_ok();
    removed.then(|| sync_dir(dir)).is_some()
}

/// Whether the error says that the disk or the quota is full, or a file as large as it may be.
pub(crate) fn is_lack_of_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ballast_takes_up_its_size_and_is_found_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut ballast = Ballast::find(dir.path(), 1 << 20);
        assert!(ballast.is_wanted() && !ballast.is_present() && !ballast.remove());
        assert!(ballast.make());
        let file = fs::metadata(dir.path().join(BALLAST_FILE)).expect("is there");
        assert!(file.blocks() * 512 >= 1 << 20, "{file:?}");
        assert_eq!(file.mode() & 0o777, 0o600);
        assert!(Ballast::find(dir.path(), 1 << 20).is_present());
        assert!(ballast.remove() && !ballast.is_present() && ballast.is_wanted());
        assert!(!dir.path().join(BALLAST_FILE).exists());
    }

    #[test]
    fn another_size_or_a_file_with_holes_does_not_count() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(BALLAST_FILE);
        assert!(Ballast::find(dir.path(), 1 << 20).make());
        assert!(!Ballast::find(dir.path(), 1 << 19).is_present());
        assert!(!path.exists(), "the wrong one is removed");
        fs::File::create(&path).expect("is made").set_len(1 << 20).expect("grows");
        assert!(!Ballast::find(dir.path(), 1 << 20).is_present());
        assert!(!Ballast::find(dir.path(), 0).is_wanted(), "none is configured");
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let precious = dir.path().join("precious");
        fs::write(&precious, "precious").expect("writes");
        std::os::unix::fs::symlink(&precious, dir.path().join(BALLAST_FILE)).expect("links");
        assert!(Ballast::find(dir.path(), 1 << 20).make(), "the link is removed, not what it leads to");
        assert_eq!(fs::read(&precious).expect("reads"), b"precious");
    }
}
