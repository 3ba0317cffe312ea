//! The rate of a topic's calls: evenly spaced, with bursts of a tenth of a second. Pure; `scripts/allow.lua` and
//! `scripts/give_back_calls.lua` of the Redis engine do the same by the server's clock.

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
    /// The rate that they were taken of.
    pub rate: CallRate,
    /// What the engine has stored since. It changes when calls are taken or given back.
    pub stored: i128,
}

/// Grants up to `want` calls of `rate` at `now_us`, `next_ns` being when the next one is free by what was granted before.
/// `stored` is when the next one is free then. Nanoseconds, because ten thousand calls a second are only 100 us apart.
pub(super) fn grant(next_ns: i128, now_us: i64, rate: CallRate, want: usize) -> Allowed {
    let (now_ns, spacing) = (i128::from(now_us) * 1_000, rate.spacing().as_nanos().cast_signed());
    let burst = i128::from((rate.as_milli() / 1_000 / BURSTS_A_SECOND).max(1));
    // A clock that stepped back, or a lower rate before, must not delay the next call for longer than this rate does.
    let next_ns = next_ns.clamp(now_ns - (burst - 1) * spacing, now_ns + spacing);
    let free = if next_ns <= now_ns { (now_ns - next_ns) / spacing + 1 } else { 0 };
    let granted = want.min(usize::try_from(free).unwrap_or(usize::MAX));
    let stored = next_ns + spacing * i128::try_from(granted).unwrap_or(i128::MAX / spacing);
    let left_us = (stored - now_ns).max(0).unsigned_abs().div_ceil(1_000);
    let next_in = Duration::from_micros(u64::try_from(left_us).unwrap_or(u64::MAX));
    Allowed { granted, next_in, rate, stored }
}

/// When the next call is free after `unused` calls of `allowed` are given back. If calls were taken or given back since,
/// it stays as it is: what was not used in time is lost, as after a pause.
pub(super) fn without(next_ns: i128, allowed: Allowed, unused: usize) -> i128 {
    let spacing = allowed.rate.spacing().as_nanos().cast_signed();
    let given_back = spacing * i128::try_from(unused.min(allowed.granted)).unwrap_or_default();
    if next_ns == allowed.stored { next_ns - given_back } else { next_ns }
}
