//! Which clock counts, and durations and moments as the integers that clocks and scripts use. Knows no job.

use std::{sync::Arc, time::Duration};

use fred::types::Value;

use crate::clock::Clock;

/// Which clock decides when jobs are due.
#[derive(Debug, Clone)]
pub enum TimeSource {
    /// The server's clock, read inside the scripts, so that processes with different clocks agree.
    Server,
    /// This clock, passed to the scripts: for tests.
    Manual(Arc<dyn Clock>),
}

/// Whole microseconds; the largest number for a duration that does not fit.
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// The time from one moment to a later one; zero if that one has passed.
pub fn between(from_us: i64, to_us: i64) -> Duration {
    Duration::from_micros(u64::try_from(to_us.saturating_sub(from_us)).unwrap_or_default())
}

/// Whole milliseconds as an argument of a script.
pub fn millis_arg(duration: Duration) -> Value {
    i64::try_from(duration.as_millis()).expect("durations are at most ten years").into()
}
