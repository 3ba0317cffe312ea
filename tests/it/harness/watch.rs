//! A process seen from outside: its memory, its processor time, its open files.

use std::{fs, time::Duration};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

fn read(pid: u32, file: &str) -> String {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Bytes in memory that are its own.
pub fn memory_bytes(pid: u32) -> u64 {
    let status = read(pid, "status");
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    kib.expect("tells its memory").trim().parse::<u64>().expect("a number") * 1_024
}

/// Processor time that it has used since its start.
pub fn processor_time(pid: u32) -> Duration {
    let stat = read(pid, "stat");
    // The name in brackets may contain anything; user and system time are the 12th and 13th field after it.
    let (_, fields) = stat.rsplit_once(") ").expect("has a name");
    let ticks: u64 = fields.split(' ').skip(11).take(2).map(|t| t.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second())
}

/// Files that it has open.
pub fn open_files(pid: u32) -> u64 {
    let path = format!("/proc/{pid}/fd");
    u64::try_from(fs::read_dir(path).expect("it runs").count()).expect("fits")
}

/// Lowers the soft limit of its open files.
pub fn limit_open_files(pid: u32, limit: u64) {
    // A child has its parent's hard limit; raising it is for root alone.
    let maximum = getrlimit(Resource::Nofile).maximum;
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let old =
        prlimit(Some(pid.expect("is a process")), Resource::Nofile, Rlimit { current: Some(limit), maximum });
    old.unwrap_or_else(|error| panic!("the limit of another process of ours: {error}"));
}
