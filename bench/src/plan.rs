//! What a bench does: the scenario, its sizes, the pattern of delays, and the server. Owns the defaults; does no
//! I/O.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::ValueEnum;

use linger_client::Timestamp;

/// The variable that may hold the token, which other users would see in the list of processes.
pub const TOKEN_VARIABLE: &str = "LINGER_BENCH_TOKEN";

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// Add all jobs as fast as possible, then pop and finish all of them
    Throughput,
    /// Add evenly, and measure how long after its due moment each job is delivered
    Lateness,
    /// Park long polls: their memory, their CPU at rest, and how soon a job reaches one
    Parked,
    /// Add jobs due in a day: how adding fares as they pile up, memory and disk of each
    Backlog,
    /// Jobs all due at one instant: first and last delivery, and what another topic notices
    Burst,
    /// Timelines and pages of jobs of many pending jobs, adds beside a bulk change of them, and how soon one stops
    Look,
    /// Calls to an endpoint of the bench's own: their cost, how soon they come, and what endpoints that hang change
    Callbacks,
    /// Many schedules, of which some run at the same moments: how long after its moment each job is delivered
    Schedules,
    /// All but look, callbacks and schedules, in a short form
    All,
}

/// How the delays of jobs differ from one another. It matters: jobs that are due in the order in which they
/// were added are cheaper to index than those that are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DelayPattern {
    /// All jobs have the same delay
    Constant,
    /// Each job has a delay of its own
    Random,
}

/// A bench.
#[derive(Debug)]
pub struct Plan {
    /// What to measure.
    pub scenario: Scenario,
    /// Sizes.
    pub load: Load,
    /// The server.
    pub target: Target,
    /// Sent with every call.
    pub token: Option<String>,
}

/// Sizes; what is `None` depends on the scenario.
#[derive(Debug, Clone)]
pub struct Load {
    /// How many jobs.
    pub jobs: Option<usize>,
    /// How many connections, each with one request at a time.
    pub connections: Option<usize>,
    /// Jobs per request.
    pub batch: Option<usize>,
    /// How long.
    pub seconds: Option<u64>,
    /// Jobs per second that lateness adds.
    pub rate: usize,
    /// How many schedules there are. `jobs` of them run at the same moments.
    pub schedules: usize,
    /// Viewers beside which lateness is measured too.
    pub viewers: Option<usize>,
    /// The size of a body.
    pub body_bytes: usize,
    /// The pattern of delays.
    pub delay: DelayPattern,
}

/// The server to drive.
#[derive(Debug)]
pub enum Target {
    /// A running server.
    Running {
        /// Host and port.
        authority: String,
        /// Its processes, where they run on this machine.
        pids: Vec<u32>,
    },
    /// A server that the bench starts.
    Own {
        /// Words of its command line beside the address and the directory.
        settings: Vec<OsString>,
        /// Where its directory is made.
        parent: PathBuf,
    },
}

impl Load {
    /// Connections of every scenario but parked.
    pub(crate) fn connections(&self) -> usize {
        self.connections.unwrap_or(64)
    }

    /// Connections of parked: one poll is far too little to see in a process's memory.
    pub(crate) fn parked(&self) -> usize {
        self.connections.unwrap_or(1_000)
    }

    /// How many schedules share their moments.
    #[must_use]
    pub fn due_schedules(&self) -> usize {
        self.jobs.unwrap_or(1_000)
    }

    /// Jobs per request where single adds are not worth measuring.
    pub(crate) fn batch(&self) -> usize {
        self.batch.unwrap_or(100)
    }
}

/// When the jobs of a step are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// At once.
    Now,
    /// After `least_ms`, and up to `spread_ms` more.
    After { least_ms: u64, spread_ms: u64 },
    /// At this moment of the server's clock, which is not before `due_us` of ours.
    At { moment: Timestamp, due_us: i64 },
}

impl Due {
    /// The same delay for all, or random ones between `from_ms` and `to_ms`.
    pub fn after(pattern: DelayPattern, constant_ms: u64, from_ms: u64, to_ms: u64) -> Self {
        match pattern {
            DelayPattern::Constant => Self::After { least_ms: constant_ms, spread_ms: 0 },
            DelayPattern::Random => Self::After { least_ms: from_ms, spread_ms: to_ms - from_ms },
        }
    }

    /// The pattern as it is printed with every figure.
    pub fn pattern(self) -> String {
        let text = |ms: u64| format!("{}s", ms as f64 / 1_000.0);
        match self {
            Self::Now => "none".to_owned(),
            Self::After { least_ms, spread_ms: 0 } => format!("constant {}", text(least_ms)),
            Self::After { least_ms, spread_ms } => {
                format!("random {} to {}", text(least_ms), text(least_ms + spread_ms))
            }
            Self::At { .. } => "one instant".to_owned(),
        }
    }

    /// The longest time from `now_us` until a job is due.
    pub fn longest(self, now_us: i64) -> Duration {
        match self {
            Self::Now => Duration::ZERO,
            Self::After { least_ms, spread_ms } => Duration::from_millis(least_ms + spread_ms),
            Self::At { due_us, .. } => Duration::from_micros(u64::try_from(due_us - now_us).unwrap_or(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_described_in_words() {
        let random = Due::after(DelayPattern::Random, 1_000, 0, 2_000);
        assert_eq!(random.pattern(), "random 0s to 2s");
        assert_eq!(Due::after(DelayPattern::Constant, 1_000, 0, 2_000).pattern(), "constant 1s");
    }
}
