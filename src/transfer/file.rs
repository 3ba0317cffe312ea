//! Export files: writing one that appears only when it is complete, and checking one before anything is imported from it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Seek, Write},
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
use sha2::{Digest, Sha256};

use super::{
    contents_in_words,
    line::{self, End, ExportLine},
};
use crate::{
    files::file_kind,
    files::new_file::{directory_of, partial_path, rename_new},
    job::Body,
};

/// Longest line that is read: the largest body that a server may be set to take, written as a string in which each of its bytes is
/// escaped, and the rest of its job.
const MAX_LINE_BYTES: u64 = 2 * Body::LARGEST_LIMIT + (64 << 20);

/// For the owner only: bodies, headers and secrets are confidential.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Why a transfer was not done, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// It is not possible as requested; nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
}

/// The sum over the lines of an export.
#[derive(Default)]
pub(super) struct LineSum(Sha256);

impl LineSum {
    pub fn add(&mut self, line: &[u8]) {
        self.0.update(line);
    }

    pub fn hex(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A new export file. It has no name until it is complete, so that nothing is left of it when the process is killed. Where
/// the file system has no such files it has another name, under which it is removed if it does not become complete.
pub struct ExportFile {
    out: BufWriter<File>,
    target: PathBuf,
    partial: Option<PathBuf>,
}

impl ExportFile {
    /// Creates the file beside `target`, which must not exist.
    ///
    /// # Errors
    /// Why there is no file.
    pub fn create(target: &Path) -> Result<Self, TransferError> {
        if fs::symlink_metadata(target).is_ok() {
            let why = "it exists already, and an export overwrites nothing";
            return Err(TransferError::Refused(format!("{}: {why}", target.display())));
        }
        unnamed(target).map_or_else(|| Self::create_named(target), |file| Ok(Self::new(file, target, None)))
    }

    fn create_named(target: &Path) -> Result<Self, TransferError> {
        let partial = partial_path(target);
        let file = OpenOptions::new().write(true).create_new(true).mode(MODE.bits()).open(&partial);
        let file = file.map_err(|error| match error.kind() {
            // The temporary name would only confuse.
            ErrorKind::NotFound => {
                TransferError::Refused(format!("{}: there is no such directory", target.display()))
            }
            _ => failed(target, &error),
        })?;
        Ok(Self::new(file, target, Some(partial)))
    }

    fn new(file: File, target: &Path, partial: Option<PathBuf>) -> Self {
        Self { out: BufWriter::with_capacity(1 << 16, file), target: target.to_owned(), partial }
    }

    /// Where to write.
    pub fn out(&mut self) -> &mut impl Write {
        &mut self.out
    }

    /// Gives the file its name once all of it is on disk.
    ///
    /// # Errors
    /// Why there is no file of that name.
    pub fn complete(mut self) -> Result<(), TransferError> {
        let target = self.target.clone();
        let written = self.out.flush().and_then(|()| self.out.get_ref().sync_all());
        let named = written.and_then(|()| match &self.partial {
            Some(partial) => rename_new(partial, &target),
            None => {
                let own = path_of(self.out.get_ref());
                Ok(linkat(CWD, own, CWD, &target, AtFlags::SYMLINK_FOLLOW)?)
            }
        });
        named.map_err(|error| failed(&target, &error))?;
        self.partial = None;
        let durable = File::open(directory_of(&target)).and_then(|dir| dir.sync_all());
        durable.map_err(|error| {
            // The first failure is reported; this one has probably the same cause.
            let _ = fs::remove_file(&target);
            failed(&target, &error)
        })
    }
}

impl Drop for ExportFile {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            let _ = fs::remove_file(partial);
        }
    }
}

/// A file without a name in the directory of `target`; none where there cannot be one, or it could get no name later.
fn unnamed(target: &Path) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, directory_of(target), flags, MODE).ok()?);
    path_of(&file).exists().then_some(file)
}

/// An open file by its descriptor, whether it has a name or not.
fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Removes what is incomplete of an export of this process to `target`. For a process that is about to end.
pub fn remove_incomplete(target: &Path) {
    // It may have no name.
    let _ = fs::remove_file(partial_path(target));
}

pub(super) fn failed(path: &Path, error: &io::Error) -> TransferError {
    TransferError::Failed(format!("{}: {error}", path.display()))
}

/// An export that is read line by line.
#[derive(Debug)]
pub(super) struct Lines {
    reader: BufReader<File>,
    path: PathBuf,
    number: u64,
}

impl Lines {
    /// Opens an export and reads its header.
    fn open(path: &Path) -> Result<Self, TransferError> {
        // Opening a pipe waits for its writer otherwise.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.map_err(|error| match error.kind() {
            ErrorKind::NotFound => TransferError::Refused(format!("{}: {error}", path.display())),
            _ => failed(path, &error),
        })?;
        if !file.metadata().map_err(|error| failed(path, &error))?.is_file() {
            let why = "it is not a regular file; an import reads its file twice, so write it to one first";
            return Err(TransferError::Refused(format!("{}: {why}", path.display())));
        }
        Self::new(file, path)
    }

    /// Reads an export from its beginning.
    fn new(file: File, path: &Path) -> Result<Self, TransferError> {
        let mut lines =
            Self { reader: BufReader::with_capacity(1 << 16, file), path: path.to_owned(), number: 0 };
        let beginning = lines.reader.fill_buf().map_err(|error| failed(path, &error))?;
        if let Some(kind) = file_kind::recognise(beginning).filter(|_| !beginning.starts_with(line::HEADER)) {
            return Err(TransferError::Refused(format!("{}: {kind}", path.display())));
        }
        let header = match lines.next()? {
            Some(header) => line::parse_header(&header),
            None => Err("it is not an export of Linger, or was cut off in its first line".to_owned()),
        };
        header.map_err(|why| lines.fault(&why))?;
        Ok(lines)
    }

    /// The next complete line; `None` at the end of the file, and for a last line that was cut off.
    fn next(&mut self) -> Result<Option<Vec<u8>>, TransferError> {
        let mut bytes = Vec::new();
        let mut limited = self.reader.by_ref().take(MAX_LINE_BYTES);
        limited.read_until(b'\n', &mut bytes).map_err(|error| failed(&self.path, &error))?;
        self.number += 1;
        if bytes.len() as u64 == MAX_LINE_BYTES {
            return Err(self.fault("it is too long"));
        }
        Ok(bytes.ends_with(b"\n").then_some(bytes))
    }

    /// The next topic, schedule, job or end, with its bytes.
    pub fn next_record(&mut self) -> Result<Option<(ExportLine, Vec<u8>)>, TransferError> {
        let Some(bytes) = self.next()? else { return Ok(None) };
        let record = line::parse(&bytes).map_err(|why| self.fault(&why))?;
        Ok(Some((record, bytes)))
    }

    /// Begins again with the first record of the same file, whatever has its name now.
    pub fn rewind(self) -> Result<Self, TransferError> {
        let (mut file, path) = (self.reader.into_inner(), self.path);
        file.rewind().map_err(|error| failed(&path, &error))?;
        Self::new(file, &path)
    }

    pub(super) fn fault(&self, why: &str) -> TransferError {
        TransferError::Failed(format!("{}, line {}: {why}", self.path.display(), self.number))
    }
}

/// An export that was checked, and what it has.
#[derive(Debug)]
pub struct CheckedExport {
    pub(super) lines: Lines,
    pub(super) found: End,
}

/// Checks a whole export: every line, its sum, its end. Without its end it is accepted only if `partial` is set.
///
/// # Errors
/// What is wrong with it.
pub fn check(path: &Path, partial: bool) -> Result<CheckedExport, TransferError> {
    let (mut lines, mut found, mut sum) = (Lines::open(path)?, End::default(), LineSum::default());
    while let Some((line, bytes)) = lines.next_record()? {
        match line {
            ExportLine::Topic(_) => found.topics += 1,
            ExportLine::Schedule(_) => found.schedules += 1,
            ExportLine::Remembered(_) => found.remembered += 1,
            ExportLine::Job(_) => found.jobs += 1,
            ExportLine::End(end) => {
                found.sha256 = sum.hex();
                check_end(&mut lines, &found, &end)?;
                return Ok(CheckedExport { lines, found });
            }
        }
        sum.add(&bytes);
    }
    if partial {
        found.sha256 = sum.hex();
        return Ok(CheckedExport { lines, found });
    }
    let End { jobs, topics, schedules, remembered, .. } = found;
    Err(TransferError::Failed(format!(
        "{}: it was cut off: its end is missing; --partial imports what is there: {}",
        path.display(),
        contents_in_words(jobs, topics, schedules, remembered)
    )))
}

fn check_end(lines: &mut Lines, found: &End, end: &End) -> Result<(), TransferError> {
    let path = lines.path.display().to_string();
    if found != end {
        let why = if found.sha256 == end.sha256 { "its counts are wrong" } else { "its checksum is wrong" };
        return Err(TransferError::Failed(format!("{path}: it was changed or damaged: {why}")));
    }
    let mut rest = [0];
    match lines.reader.read(&mut rest) {
        Ok(0) => Ok(()),
        Ok(_) => {
            Err(TransferError::Failed(format!("{path}: it was changed or damaged: more follows its end")))
        }
        Err(error) => Err(failed(Path::new(&path), &error)),
    }
}
