//! Times and their percentiles, by an HDR histogram of microseconds.

use std::sync::{Mutex, MutexGuard};

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longer times than an hour are recorded as an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// Times as they come in, from any task.
#[derive(Debug)]
pub struct Times(Mutex<Histogram<u64>>);

/// What is reported of times, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// How many times.
    pub count: u64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

impl Times {
    /// Without any times.
    #[must_use]
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_US, 3);
        Self(Mutex::new(histogram.expect("an hour in microseconds by three digits can be held")))
    }

    /// Records a time in microseconds; a negative one, which the ledger counts as early, as zero.
    pub fn record(&self, time_us: i64) {
        self.lock().saturating_record(u64::try_from(time_us).unwrap_or(0));
    }

    /// The percentiles; none when there were no times.
    #[must_use]
    pub fn percentiles(&self) -> Option<Percentiles> {
        let times = self.lock();
        let ms = |time_us: u64| time_us as f64 / 1_000.0;
        // A bucket's upper end may lie past the longest time that fell into it.
        let at = |share| ms(times.value_at_quantile(share).min(times.max()));
        let count = times.len();
        (count > 0).then(|| Percentiles {
            count,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: ms(times.max()),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Histogram<u64>> {
        self.0.lock().expect("no code panics while it holds the times")
    }
}

/// How many of `count` there were per second.
pub(crate) fn per_second(count: usize, elapsed_us: i64) -> f64 {
    count as f64 * 1e6 / elapsed_us.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_in_milliseconds_and_never_past_the_longest() {
        let times = Times::new();
        assert_eq!(times.percentiles(), None);
        (1..=100).for_each(|ms| times.record(ms * 1_000));
        let found = times.percentiles().expect("there are times");
        assert_eq!(found.count, 100);
        for (found, ms) in [(found.p50, 50.0), (found.p90, 90.0), (found.p99, 99.0), (found.max, 100.0)] {
            assert!((found - ms).abs() <= ms / 1_000.0, "{found} for {ms}");
        }
        times.record(-5);
        assert!(times.percentiles().is_some_and(|found| found.p50 <= found.max));
    }
}
