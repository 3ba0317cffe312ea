//! What a server costs this machine: processor time and memory as `/proc` shows them, and the disk space of its
//! directory. None of it where there is no process to watch, or no `/proc`.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// What is watched.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    /// The processes of the server, whose figures are added up.
    pub pids: Vec<u32>,
    /// The directory of its store.
    pub directory: Option<PathBuf>,
}

/// The figures of one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// Processor time so far, by all its threads, in microseconds. Linux counts it in steps of about 10 ms.
    pub cpu_us: Option<u64>,
    /// Memory now.
    pub resident_bytes: Option<u64>,
    /// Disk space now.
    pub disk_bytes: Option<u64>,
}

impl Watch {
    /// Reads the figures.
    #[must_use]
    pub fn sample(&self) -> Sample {
        Sample {
            cpu_us: self.sum(cpu_us),
            resident_bytes: self.sum(resident_bytes),
            disk_bytes: self.directory.as_deref().map(disk_bytes),
        }
    }

    /// The sum over all processes; none when there is none, or one of them is gone.
    fn sum(&self, figure: impl Fn(u32) -> Option<u64>) -> Option<u64> {
        if self.pids.is_empty() { None } else { self.pids.iter().map(|pid| figure(*pid)).sum() }
    }
}

impl Sample {
    /// Processor time since `before` for each of `count` operations, in microseconds.
    #[must_use]
    pub fn cpu_us_per(&self, before: &Self, count: usize) -> Option<f64> {
        let spent_us = self.cpu_us?.checked_sub(before.cpu_us?)?;
        Some(spent_us as f64 / count.max(1) as f64)
    }

    /// Processor time since `before`, in percent of one processor.
    #[must_use]
    pub fn cpu_percent(&self, before: &Self, elapsed_us: i64) -> Option<f64> {
        self.cpu_us_per(before, 1).map(|spent_us| spent_us * 100.0 / elapsed_us.max(1) as f64)
    }
}

/// By how many bytes a figure grew for each of `count` jobs or polls.
pub(crate) fn grown(now: Option<u64>, before: Option<u64>, count: usize) -> Option<f64> {
    Some((now? as f64 - before? as f64) / count.max(1) as f64)
}

fn cpu_us(pid: u32) -> Option<u64> {
    cpu_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
        .map(|ticks| ticks * 1_000_000 / rustix::param::clock_ticks_per_second())
}

/// User and system time, fields 14 and 15; the name in field 2 may hold anything, blanks and brackets too.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

fn resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1_024)
}

/// Bytes allocated below `directory`, which is what they take from the disk.
fn disk_bytes(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => disk_bytes(&entry.path()),
        Ok(found) => found.blocks() * 512,
        // Removed meanwhile.
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_look_like_its_figures() {
        let stat = "7 (a) S 1 2) S 1 7 7 0 -1 4194304 5 6 7 8 250 50 9 10 20 0 3 0 11";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(cpu_ticks("7 (a"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_is_there_is_seen_and_one_that_is_not_is_not() {
        let seen = Watch { pids: vec![std::process::id()], directory: None }.sample();
        assert!(
            seen.cpu_us.is_some() && seen.resident_bytes.is_some_and(|bytes| bytes > 1 << 20),
            "{seen:?}"
        );
        let absent = Watch { pids: vec![u32::MAX], directory: None }.sample();
        assert!(absent.cpu_us.is_none() && absent.resident_bytes.is_none(), "{absent:?}");
    }
}
