//! The metrics of the process that every program shows under the same names, read from `/proc` when they are scraped.

use std::{fmt, fs};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};
use rustix::{
    param::{clock_ticks_per_second, page_size},
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};

/// Reads the process's own entries of `/proc`. Where there are none, the metrics are absent.
#[derive(Debug)]
pub(super) struct ProcessCollector {
    /// When the process started, in seconds since the Unix epoch. Reckoned once, so that steps of the clock do not change it.
    started: Option<f64>,
}

impl ProcessCollector {
    pub fn register(registry: &mut Registry) {
        let started = stat().map(|stat| boot_time() + stat.start_ticks as f64 / ticks_per_second());
        registry.register_collector(Box::new(Self { started }));
    }
}

/// The fields of `/proc/self/stat` that are shown.
#[derive(Debug, PartialEq, Eq)]
struct ProcessStat {
    cpu_ticks: u64,
    threads: u64,
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl ProcessStat {
    /// Parses the line. The name of the program, in parentheses, may contain anything.
    fn parse(line: &str) -> Option<Self> {
        let (_, fields) = line.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // proc(5) counts from 1, and the first two are before the split.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            threads: field(20)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// The present fields; none where there is no `/proc`.
fn stat() -> Option<ProcessStat> {
    ProcessStat::parse(&fs::read_to_string("/proc/self/stat").unwrap_or_default())
}

/// How many bytes of memory this process has in use, if the system says so.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    Some(stat()?.resident_pages.saturating_mul(page_size() as u64))
}

fn ticks_per_second() -> f64 {
    clock_ticks_per_second().max(1) as f64
}

/// When the system started, in seconds since the Unix epoch. (Rejected: `/proc/stat`, which systemd hides with
/// `ProcSubset=pid`.)
fn boot_time() -> f64 {
    let [now, since_boot] = [ClockId::Realtime, ClockId::Boottime].map(|clock| {
        let time = clock_gettime(clock);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    });
    now - since_boot
}

/// The number of open files. The size of the directory is their number since Linux 6.2; before, they are counted.
fn open_files() -> Option<u64> {
    let size = fs::metadata("/proc/self/fd").ok()?.len();
    if size > 0 {
        return Some(size);
    }
    // One of them is the directory that is being read.
    let count = fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    u64::try_from(count).ok()
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let Some(stat) = stat() else { return Ok(()) };
        let help = "User and system time.";
        let cpu = ConstCounter::new(stat.cpu_ticks as f64 / ticks_per_second());
        cpu.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?)?;
        let resident = stat.resident_pages.saturating_mul(page_size() as u64);
        let most_files = getrlimit(Resource::Nofile).current;
        let gauges = [
            ("process_start_time_seconds", "Start of the process, since the Unix epoch.", self.started),
            ("process_resident_memory_bytes", "Memory in use.", Some(resident as f64)),
            ("process_virtual_memory_bytes", "Address space.", Some(stat.virtual_bytes as f64)),
            ("process_threads", "Threads.", Some(stat.threads as f64)),
            ("process_open_fds", "Open files and connections.", open_files().map(|files| files as f64)),
            ("process_max_fds", "Most open files and connections.", most_files.map(|files| files as f64)),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                let encoder = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                ConstGauge::new(value).encode(encoder)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_may_contain_anything() {
        let line = "17 (a) b (c) S 1 17 17 0 -1 4194560 1 2 3 4 500 60 7 8 20 0 9 0 12345 678900 321 1 2 3\n";
        let expected = ProcessStat {
            cpu_ticks: 560,
            threads: 9,
            start_ticks: 12_345,
            virtual_bytes: 678_900,
            resident_pages: 321,
        };
        assert_eq!(ProcessStat::parse(line), Some(expected));
        assert_eq!(ProcessStat::parse("17 (a) S 1"), None);
    }

    #[test]
    fn the_system_started_when_the_kernel_says() {
        let stat = fs::read_to_string("/proc/stat").expect("reads");
        let boot = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok());
        // The kernel cuts its figure down to a second.
        let (boot, found) = (boot.expect("has the moment"), boot_time());
        assert!((found - boot).abs() < 2.0, "{found} and {boot}");
    }

    #[test]
    fn every_metric_of_the_process_is_plausible() {
        let mut registry = Registry::default();
        ProcessCollector::register(&mut registry);
        let _open = fs::File::open("/proc/self/stat").expect("opens");
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("writes");
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("no {name} in {text}")).parse::<f64>().expect("a number")
        };
        let (resident, open) = (value("process_resident_memory_bytes"), value("process_open_fds"));
        assert!(resident > 1e6 && value("process_virtual_memory_bytes") > resident, "{text}");
        assert!(open > 3.0 && open < value("process_max_fds"), "{text}");
        assert!(value("process_threads") >= 2.0, "this test has a thread of its own: {text}");
        assert!(value("process_start_time_seconds") > 1_700_000_000.0, "{text}");
        assert!(value("process_cpu_seconds_total") < 10_000.0, "{text}");
    }
}
