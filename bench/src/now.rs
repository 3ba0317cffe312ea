//! The time of a bench: real, monotonic, in microseconds. Owns where it begins.

use std::{sync::OnceLock, time::Instant};

/// What the first reading is, so that no moment is 0 or before it.
const FIRST_US: i64 = 1_000_000;

/// Microseconds since about the first reading in this process.
#[must_use]
pub fn now_us() -> i64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let elapsed = FIRST.get_or_init(Instant::now).elapsed();
    FIRST_US + i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX / 4)
}
