//! The parameters of a load, and its results.

use std::time::Duration;

use crate::checker::Verdict;

/// The parameters of a load.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The minimum number of jobs. Producers continue until the faults have ended, too.
    pub jobs: usize,
    /// The longest delay; delays are random between zero and this.
    pub spread: Duration,
    /// The TTR of the jobs in whole seconds.
    pub ttr: u64,
    /// The number of producers, and of workers. Every second one uses batches.
    pub clients: usize,
    /// How long a producer waits after each add or batch.
    pub pause: Duration,
    /// Whether workers use every operation of a worker, or only finish.
    pub mixed: bool,
    /// Whether clients change due times and requeue buried jobs.
    pub changes: bool,
    /// The attempts of most jobs; 0 for any number.
    pub most_attempts: u32,
    /// The seed of the clients' random choices.
    pub seed: u64,
}

impl Plan {
    /// The load that the environment variables describe, or a short one: `LINGER_LOAD_JOBS` jobs with delays up to
    /// `LINGER_LOAD_SECONDS`, with random choices by `LINGER_LOAD_SEED`.
    pub fn from_environment() -> Self {
        Self {
            jobs: usize::try_from(setting("LINGER_LOAD_JOBS", 1_200)).expect("fits"),
            spread: Duration::from_secs(setting("LINGER_LOAD_SECONDS", 2)),
            ttr: 2,
            clients: 8,
            pause: Duration::ZERO,
            mixed: true,
            changes: true,
            most_attempts: 0,
            seed: setting("LINGER_LOAD_SEED", rand::random_range(0..1_000_000)),
        }
    }

    /// Like [`from_environment`](Self::from_environment), with fewer jobs and clients by default and with pauses of
    /// `LINGER_LOAD_PAUSE_MS`, for loads that last as long as their faults.
    pub fn light() -> Self {
        let jobs = usize::try_from(setting("LINGER_LOAD_JOBS", 300)).expect("fits");
        Self {
            jobs,
            spread: Duration::from_secs(setting("LINGER_LOAD_SECONDS", 1)),
            clients: 4,
            pause: Duration::from_millis(setting("LINGER_LOAD_PAUSE_MS", 200)),
            ..Self::from_environment()
        }
    }
}

/// The number in an environment variable.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// The results of a load.
#[derive(Debug)]
pub struct Report {
    pub verdict: Verdict,
    /// Whether the load came to rest within its time limit.
    pub came_to_rest: bool,
    /// The lateness of every delivery by the wall clock, sorted, in microseconds.
    pub late_us: Vec<u64>,
    /// The time from the first add until the load came to rest.
    pub took: Duration,
    pub seed: u64,
}

impl Report {
    /// The lateness at a percentile from 0 to 100, in milliseconds.
    fn late_ms(&self, percentile: f64) -> f64 {
        let last = self.late_us.len().saturating_sub(1);
        let index = (last as f64 * percentile / 100.0).round() as usize;
        self.late_us.get(index).map_or(0.0, |us| *us as f64 / 1_000.0)
    }

    /// Prints the results of a load with this number of faults.
    pub fn print(&self, what: &str, faults: u64) {
        let Self { verdict, .. } = self;
        let lost = verdict.count(crate::checker::Law::NothingLost);
        let [p50, p99, max] = [50.0, 99.0, 100.0].map(|percentile| self.late_ms(percentile));
        println!(
            "proof: what={what} runs=1 faults={faults} jobs={} deliveries={} again={} refused={} late={} lost={lost} \
             violations={} late_p50_ms={p50:.1} late_p99_ms={p99:.1} late_max_ms={max:.1} seconds={:.1} seed={}",
            verdict.acknowledged,
            verdict.deliveries,
            verdict.redeliveries,
            verdict.refused,
            verdict.late,
            verdict.violations.len(),
            self.took.as_secs_f64(),
            self.seed,
        );
    }

    /// Panics if a law was violated or the load did not come to rest.
    #[track_caller]
    pub fn assert_clean(&self) {
        self.verdict.assert_clean();
        assert!(self.came_to_rest, "the load did not come to rest");
    }
}
