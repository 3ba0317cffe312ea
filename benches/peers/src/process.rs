//! Processor time and memory of processes, as Linux tells them.

/// Linux counts processor time for users in these, whatever the kernel's own tick is.
const TICK_US: u64 = 10_000;

/// Processor time that they have taken so far, in microseconds.
pub fn cpu_us(pids: &[u32]) -> u64 {
    let ticks = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The second field is a name in parentheses, which may hold anything.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
        fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>()
    };
    pids.iter().map(ticks).sum::<u64>() * TICK_US
}

/// Memory that they hold now.
pub fn resident_bytes(pids: &[u32]) -> u64 {
    let kib = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:").map(str::to_owned));
        line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    pids.iter().map(kib).sum::<u64>() * 1_024
}
