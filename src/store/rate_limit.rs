//! The rate of a topic's calls: evenly spaced, with bursts of a tenth of a second. Pure; `scripts/allow.lua` of the Redis
//! engine does the same by the server's clock.

use std::time::Duration;

use crate::job::CallRate;

/// The share of a second whose calls may be made at once after a pause.
const BURSTS_A_SECOND: u32 = 10;

/// How many calls may be made now, of those that were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed {
    /// Calls that may be made now.
    pub granted: usize,
    /// When the next one may be made.
    pub next_in: Duration,
}

/// Grants up to `want` calls of `rate` at `now_us`, `next_ns` being when the next one is free by what was granted before.
/// Returns what is granted, and when the next one is free then. Nanoseconds, because ten thousand calls a second are only
/// 100 us apart.
pub(super) fn grant(next_ns: i128, now_us: i64, rate: CallRate, want: usize) -> (Allowed, i128) {
    let (now_ns, spacing) = (i128::from(now_us) * 1_000, rate.spacing().as_nanos().cast_signed());
    let burst = i128::from((rate.as_milli() / 1_000 / BURSTS_A_SECOND).max(1));
    // A clock that stepped back, or a lower rate before, must not delay the next call for longer than this rate does.
    let next_ns = next_ns.clamp(now_ns - (burst - 1) * spacing, now_ns + spacing);
    let free = if next_ns <= now_ns { (now_ns - next_ns) / spacing + 1 } else { 0 };
    let granted = want.min(usize::try_from(free).unwrap_or(usize::MAX));
    let next_ns = next_ns + spacing * i128::try_from(granted).unwrap_or(i128::MAX / spacing);
    let left_us = (next_ns - now_ns).max(0).unsigned_abs().div_ceil(1_000);
    let next_in = Duration::from_micros(u64::try_from(left_us).unwrap_or(u64::MAX));
    (Allowed { granted, next_in }, next_ns)
}
