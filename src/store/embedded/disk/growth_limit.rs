//! Limits that the free space of a disk does not show: quotas, and limits on the size of a file. SQLite reports a write past
//! them as it reports a broken disk, so a file beside the database tries whether it could grow.

use std::{fs, io, os::unix::fs::FileExt, path::Path};

use rustix::{
    fs::{FallocateFlags, fallocate},
    io::Errno,
    process::{Resource, getrlimit},
};

use super::{
    ballast::is_lack_of_space,
    data_dir::{DB_FILE, WAL_FILE, open_private},
};

const PROBE_FILE: &str = "growth_probe";
/// More than one group of operations writes.
const ROOM_BYTES: u64 = 2 << 20;
/// What is written where space can only be allocated by writing.
const WRITTEN_BYTES: usize = 1 << 20;

/// By how much the database in `dir` may still grow by the limit of this process (`ulimit -f`, `LimitFSIZE=`).
pub(crate) fn bytes_left(dir: &Path) -> u64 {
    let limit = getrlimit(Resource::Fsize).current;
    limit.map_or(u64::MAX, |limit| limit.saturating_sub(file_bytes(dir, DB_FILE)))
}

/// Whether such a limit explains that a write to the database in `dir` or to its log failed.
pub(crate) fn explains_failed_write(dir: &Path) -> bool {
    is_refused(dir, file_bytes(dir, DB_FILE).max(file_bytes(dir, WAL_FILE)), ROOM_BYTES)
}

/// Whether the database in `dir` cannot grow with this many bytes to spare. Its log need not: it starts over.
pub(crate) fn is_reached(dir: &Path, reserved_bytes: u64) -> bool {
    is_refused(dir, file_bytes(dir, DB_FILE), ROOM_BYTES + reserved_bytes)
}

fn file_bytes(dir: &Path, name: &str) -> u64 {
    fs::metadata(dir.join(name)).map_or(0, |file| file.len())
}

/// Whether a file in `dir` that is `from` bytes long cannot grow by as many bytes.
fn is_refused(dir: &Path, from: u64, bytes: u64) -> bool {
    let path = dir.join(PROBE_FILE);
    let tried = try_to_grow(&path, from, bytes);
    // Without a file there is nothing to remove.
    let _ = fs::remove_file(&path);
    tried.is_err_and(|error| is_lack_of_space(&error))
}

fn try_to_grow(path: &Path, from: u64, bytes: u64) -> io::Result<()> {
    let file = open_private(path)?;
    match fallocate(&file, FallocateFlags::empty(), from, bytes) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP) => {
            // Random, because the file system may compress.
            let mut probe = vec![0; WRITTEN_BYTES];
            rand::fill(&mut probe[..]);
            file.write_all_at(&probe, from)
        }
        Err(error) => Err(error.into()),
    }
}
