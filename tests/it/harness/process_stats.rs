//! What the system reports about a process: its memory, its processor time, its open files.

use std::{fs, time::Duration};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

fn read(pid: u32, file: &str) -> String {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The resident memory of a process in bytes.
pub fn memory_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmRSS:")
}

/// The most resident memory that a process had since the last [`reset_peak_memory`], in bytes.
pub fn peak_memory_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmHWM:")
}

/// Makes the present memory of a process its peak.
pub fn reset_peak_memory(pid: u32) {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").expect("the process runs");
}

fn status_bytes(pid: u32, name: &str) -> u64 {
    let status = read(pid, "status");
    let kib = status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
    kib.expect("the status has this value").trim().parse::<u64>().expect("a number") * 1_024
}

/// The processor time that a process has used since its start.
pub fn processor_time(pid: u32) -> Duration {
    let stat = read(pid, "stat");
    // The name in brackets may contain anything; user and system time are the 12th and 13th field after it.
    let (_, fields) = stat.rsplit_once(") ").expect("the stat line has a name");
    let ticks: u64 = fields.split(' ').skip(11).take(2).map(|t| t.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second())
}

/// The number of files that a process has open.
pub fn open_files(pid: u32) -> u64 {
    let path = format!("/proc/{pid}/fd");
    u64::try_from(fs::read_dir(path).expect("the process runs").count()).expect("fits")
}

/// Lowers the soft limit on the open files of a process.
pub fn limit_open_files(pid: u32, limit: u64) {
    // A child has its parent's hard limit, and only root may raise it.
    let maximum = getrlimit(Resource::Nofile).maximum;
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let old = prlimit(
        Some(pid.expect("a valid process id")),
        Resource::Nofile,
        Rlimit { current: Some(limit), maximum },
    );
    old.unwrap_or_else(|error| panic!("cannot set the limit of the process: {error}"));
}

/// Whether a signal has stopped every thread of the process.
pub fn is_stopped(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    // The state is the field behind the name, which is in brackets and may have spaces.
    threads.flatten().all(|thread| {
        fs::read_to_string(thread.path().join("stat"))
            .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T')))
    })
}
