//! What a load is to be, and what came of it.

use std::time::Duration;

use crate::checker::Verdict;

/// A load: so many clients, so many jobs, and what they do with them.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Jobs to add at the least; producers go on until the chaos has ended too.
    pub jobs: usize,
    /// Delays are spread from nothing to this.
    pub spread: Duration,
    /// For how long jobs are held; whole seconds.
    pub ttr: u64,
    /// Producers, and workers, by number. Every second one works in batches.
    pub clients: usize,
    /// Whether workers do all that a worker may do, or only finish.
    pub mixed: bool,
    /// For what the clients choose by lot.
    pub seed: u64,
}

impl Plan {
    /// The load that variables ask for, or a short one: `LINGER_LOAD_JOBS` jobs with delays over
    /// `LINGER_LOAD_SECONDS`, chosen by `LINGER_LOAD_SEED`.
    pub fn asked() -> Self {
        Self {
            jobs: usize::try_from(setting("LINGER_LOAD_JOBS", 2_000)).expect("fits"),
            spread: Duration::from_secs(setting("LINGER_LOAD_SECONDS", 2)),
            ttr: 2,
            clients: 8,
            mixed: true,
            seed: setting("LINGER_LOAD_SEED", rand::random_range(0..1_000_000)),
        }
    }

    /// The same, or else a lighter one, for loads that last as long as their faults do.
    pub fn light() -> Self {
        let jobs = usize::try_from(setting("LINGER_LOAD_JOBS", 600)).expect("fits");
        Self {
            jobs,
            spread: Duration::from_secs(setting("LINGER_LOAD_SECONDS", 1)),
            clients: 4,
            ..Self::asked()
        }
    }
}

/// A number from a variable.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: a number")))
}

/// What a load showed.
#[derive(Debug)]
pub struct Report {
    pub verdict: Verdict,
    /// Whether everything came to rest within its bound.
    pub quiet: bool,
    /// Lateness of every delivery by the wall clock, sorted, in microseconds.
    pub late_us: Vec<u64>,
    /// From the first add to rest.
    pub took: Duration,
    pub seed: u64,
}

impl Report {
    /// Lateness at a percentile from 0 to 100, in milliseconds.
    fn late_ms(&self, percentile: f64) -> f64 {
        let last = self.late_us.len().saturating_sub(1);
        let index = (last as f64 * percentile / 100.0).round() as usize;
        self.late_us.get(index).map_or(0.0, |us| *us as f64 / 1_000.0)
    }

    /// Prints the figures of a run that survived `faults` faults.
    pub fn print(&self, what: &str, faults: u64) {
        let Self { verdict, .. } = self;
        let lost = verdict.count(crate::checker::Law::NothingLost);
        let [p50, p99, max] = [50.0, 99.0, 100.0].map(|percentile| self.late_ms(percentile));
        println!(
            "proof: what={what} runs=1 faults={faults} jobs={} deliveries={} again={} refused={} lost={lost} \
             violations={} late_p50_ms={p50:.1} late_p99_ms={p99:.1} late_max_ms={max:.1} seconds={:.1} seed={}",
            verdict.acknowledged,
            verdict.deliveries,
            verdict.again,
            verdict.refused,
            verdict.violations.len(),
            self.took.as_secs_f64(),
            self.seed,
        );
    }

    /// Fails when a promise was broken or something never came to rest.
    #[track_caller]
    pub fn assert_clean(&self) {
        self.verdict.assert_clean();
        assert!(self.quiet, "the load came to rest");
    }
}
