//! The name of a run, and how long after its occurrence it is due.

use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use super::Recurrence;
use crate::job::{JobId, ScheduleName, Timestamp};

/// The id of the job of an occurrence: `cron:<name>:<YYYYMMDDTHHMMSSZ>`. Occurrences of a schedule are at least a second apart,
/// so no two have the same.
#[must_use]
pub fn run_id(name: &ScheduleName, occurrence: Timestamp) -> JobId {
    let moment = jiff::Timestamp::from_millisecond(occurrence.as_millis())
        .expect("timestamps are within the range of jiff");
    JobId::parse(&format!("cron:{name}:{}", moment.strftime("%Y%m%dT%H%M%SZ")))
        .expect("a schedule's name has the alphabet of ids and leaves room for the rest")
}

/// When the run of an occurrence is due: less than `jitter` after it, and before the next occurrence, so runs keep their
/// order. It depends on the name and the occurrence only.
pub fn due_at(
    name: &ScheduleName,
    recurrence: &Recurrence,
    jitter: Duration,
    occurrence: Timestamp,
) -> Timestamp {
    if jitter.is_zero() {
        return occurrence;
    }
    let span = recurrence.interval_after(occurrence).map_or(jitter, |interval| interval.min(jitter));
    let span_ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let offset_ms = xxh3_64(run_id(name, occurrence).as_str().as_bytes()).checked_rem(span_ms).unwrap_or(0);
    occurrence.after(Duration::from_millis(offset_ms))
}
