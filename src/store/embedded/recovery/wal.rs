//! Inspects the write-ahead log before SQLite replays it: whether it is there, and how much of it SQLite will
//! drop. SQLite itself silently ends the log at its first bad frame.
//!
//! The file `linger.db` itself contains `run = open` from before the first operation until a clean stop. During
//! that time the log is never empty, because closing does not remove it and only a clean stop truncates it. So a
//! log that is missing or empty beside `run = open` was lost, and acknowledged changes with it. `opening` covers
//! the moments before the first operation.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

use crate::store::embedded::{options::OpenError, rows::meta::RunState};

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// The write-ahead log as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalState {
    /// It does not exist, or is empty.
    Missing,
    /// Its header is invalid, so that SQLite will ignore all of it.
    Unreadable,
    Present(WalFrames),
}

/// Numbers of frames in the log; each frame holds one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WalFrames {
    /// Up to the last sound commit: SQLite replays these.
    pub kept: u64,
    /// Commits among these.
    pub commits: u64,
    /// Behind that, since the log last started over: SQLite drops these.
    pub dropped: u64,
    /// How many of the dropped ones end a commit. Unless the medium decays this is at most the very last
    /// commit, which was not acknowledged.
    pub dropped_commits: u64,
}

impl WalState {
    /// Inspects the log at `path` up to its present end: a server may go on writing to it faster than it is read.
    pub fn inspect(path: &Path) -> io::Result<Self> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Missing),
            Err(error) => return Err(error),
        };
        let len = file.metadata()?.len();
        let mut reader = BufReader::with_capacity(1 << 16, file.take(len));
        let mut header = [0; HEADER_BYTES];
        match read_full(&mut reader, &mut header)? {
            0 => Ok(Self::Missing),
            HEADER_BYTES => {
                frames(&mut reader, &header).map(|found| found.map_or(Self::Unreadable, Self::Present))
            }
            _ => Ok(Self::Unreadable),
        }
    }

    /// Number of commits that SQLite will replay.
    pub fn commits(self) -> u64 {
        match self {
            Self::Missing | Self::Unreadable => 0,
            Self::Present(frames) => frames.commits,
        }
    }

    /// Refuses a log that was lost with changes in it, and logs what SQLite drops.
    pub fn check_compatible(self, path: &Path, db: &Path, run: RunState) -> Result<(), OpenError> {
        match self {
            Self::Missing | Self::Unreadable if run == RunState::Open => {
                let what = if self == Self::Missing { "missing or empty" } else { "damaged at its head" };
                return Err(OpenError::Incomplete {
                    path: path.to_owned(),
                    why: format!(
                        "the log is {what} though the store was not stopped cleanly. If it was lost, \
                         acknowledged changes were lost with it: put it back. If another program moved it into \
                         the file (the sqlite3 shell does when it closes), if this is a backup, or to accept the \
                         loss: sqlite3 {} \"{}\"",
                        db.display(),
                        RunState::Clean.statement()
                    ),
                });
            }
            Self::Missing => {}
            Self::Unreadable => {
                tracing::warn!(log = %path.display(), "the log is damaged at its head, but contained no change");
            }
            Self::Present(WalFrames { dropped: 0, .. }) => {}
            Self::Present(WalFrames { kept, dropped, dropped_commits, commits: _ }) => tracing::warn!(
                log = %path.display(), kept, dropped, dropped_commits,
                "frames at the end of the log are incomplete or damaged and are dropped; \
                 up to one commit is what a crash leaves behind"
            ),
        }
        Ok(())
    }
}

/// Counts the frames behind a header; `None` when the header is invalid. The format is specified in SQLite's
/// documentation ("WAL-mode file format").
fn frames(reader: &mut impl Read, header: &[u8; HEADER_BYTES]) -> io::Result<Option<WalFrames>> {
    let magic = word(header, 0);
    let page_bytes = word(header, 8) as usize;
    if magic & !1 != 0x377f_0682 || !page_bytes.is_power_of_two() || !(512..=65_536).contains(&page_bytes) {
        return Ok(None);
    }
    let mut sum = WalChecksum { big_endian: magic & 1 == 1, words: (0, 0) };
    sum.add(&header[..24]);
    if !sum.matches(header, 24) {
        return Ok(None);
    }
    let mut found = WalFrames::default();
    let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes];
    let (mut sound, mut at) = (true, 0);
    while read_full(reader, &mut frame)? == frame.len() {
        at += 1;
        // Frames from before the log started over have other salts, and are not part of it.
        if frame[8..16] != header[16..24] {
            sound = false;
            continue;
        }
        let commits = word(&frame, 4) != 0;
        sum.add(&frame[..8]);
        sum.add(&frame[FRAME_HEADER_BYTES..]);
        sound &= sum.matches(&frame, 16);
        if sound && commits {
            (found.kept, found.commits, found.dropped) = (at, found.commits + 1, 0);
        } else {
            found.dropped += 1;
            found.dropped_commits += u64::from(commits);
        }
    }
    Ok(Some(found))
}

/// SQLite's running checksum over pairs of 32-bit words.
struct WalChecksum {
    big_endian: bool,
    words: (u32, u32),
}

impl WalChecksum {
    fn add(&mut self, bytes: &[u8]) {
        for pair in bytes.as_chunks::<8>().0 {
            self.words.0 = self.words.0.wrapping_add(self.summand(pair, 0)).wrapping_add(self.words.1);
            self.words.1 = self.words.1.wrapping_add(self.summand(pair, 4)).wrapping_add(self.words.0);
        }
    }

    fn summand(&self, pair: &[u8], at: usize) -> u32 {
        if self.big_endian { word(pair, at) } else { word(pair, at).swap_bytes() }
    }

    fn matches(&self, bytes: &[u8], at: usize) -> bool {
        self.words == (word(bytes, at), word(bytes, at + 4))
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Reads until `buffer` is full or the file ends. Returns the number of bytes.
fn read_full(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match reader.read(&mut buffer[len..])? {
            0 => break,
            n => len += n,
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database with three commits in its log. Returns its directory and the path of the log.
    fn database_with_wal() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let conn = rusqlite::Connection::open(dir.path().join("x.db")).expect("opens");
        conn.execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2);",
        )
        .expect("writes");
        let copy = dir.path().join("copy-wal");
        std::fs::copy(dir.path().join("x.db-wal"), &copy).expect("copies");
        (dir, copy)
    }

    fn frames_of(log: WalState) -> WalFrames {
        match log {
            WalState::Present(frames) => frames,
            WalState::Missing | WalState::Unreadable => panic!("{log:?}"),
        }
    }

    #[test]
    fn a_sound_log_drops_nothing() {
        let (_dir, path) = database_with_wal();
        let frames = frames_of(WalState::inspect(&path).expect("reads"));
        assert!(frames.kept >= 3 && frames.commits == 3, "{frames:?}");
        assert_eq!((frames.dropped, frames.dropped_commits), (0, 0));
    }

    #[test]
    fn a_bad_frame_ends_the_log_and_what_follows_is_counted() {
        let (_dir, path) = database_with_wal();
        let all = frames_of(WalState::inspect(&path).expect("reads")).kept;
        let mut bytes = std::fs::read(&path).expect("reads");
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&path, &bytes).expect("writes");
        let one = WalFrames { kept: all - 1, commits: 2, dropped: 1, dropped_commits: 1 };
        assert_eq!(frames_of(WalState::inspect(&path).expect("reads")), one);
        let second_last = bytes.len() - 1 - (FRAME_HEADER_BYTES + 4_096);
        bytes[last] ^= 1;
        bytes[second_last] ^= 1;
        std::fs::write(&path, &bytes).expect("writes");
        let two = WalFrames { kept: all - 2, commits: 1, dropped: 2, dropped_commits: 2 };
        assert_eq!(frames_of(WalState::inspect(&path).expect("reads")), two);
    }

    #[test]
    fn frames_from_before_a_restart_of_the_log_are_no_loss() {
        let (_dir, path) = database_with_wal();
        let mut bytes = std::fs::read(&path).expect("reads");
        let all = frames_of(WalState::inspect(&path).expect("reads")).kept;
        let last_frame = bytes.len() - (FRAME_HEADER_BYTES + 4_096);
        bytes[last_frame + 8] ^= 0xff;
        std::fs::write(&path, &bytes).expect("writes");
        let found = frames_of(WalState::inspect(&path).expect("reads"));
        assert_eq!(found, WalFrames { kept: all - 1, commits: 2, dropped: 0, dropped_commits: 0 });
    }

    #[test]
    fn a_missing_log_is_refused_only_when_changes_were_in_it() {
        let (dir, path) = database_with_wal();
        let db = dir.path().join("x.db");
        let gone = dir.path().join("no-wal");
        assert_eq!(WalState::inspect(&gone).expect("reads"), WalState::Missing);
        std::fs::write(&gone, b"").expect("writes");
        assert_eq!(WalState::inspect(&gone).expect("reads"), WalState::Missing);
        let refused = WalState::Missing
            .check_compatible(&gone, &db, RunState::Open)
            .expect_err("is refused")
            .to_string();
        assert!(refused.contains("no-wal") && refused.contains("INTO meta"), "{refused}");
        assert!(WalState::Missing.check_compatible(&gone, &db, RunState::Clean).is_ok());
        assert!(WalState::Missing.check_compatible(&gone, &db, RunState::Opening).is_ok());
        std::fs::write(&path, [0; 4_000]).expect("writes");
        assert_eq!(WalState::inspect(&path).expect("reads"), WalState::Unreadable);
        // The header is synced before the first frame, so a crash does not damage it.
        assert!(WalState::Unreadable.check_compatible(&path, &db, RunState::Open).is_err());
        assert!(WalState::Unreadable.check_compatible(&path, &db, RunState::Opening).is_ok());
    }
}
