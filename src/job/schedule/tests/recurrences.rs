//! Intervals, bounds, and searches in spans.

use proptest::prelude::*;

use super::*;

#[test]
fn intervals_count_from_the_start_or_from_1970() {
    let of_90_minutes = recurrence(&every(minutes(90)));
    assert_eq!(
        texts(&of_90_minutes, "1970-01-01T01:00:00Z", "1970-01-01T03:00:00Z"),
        ["1970-01-01T01:30Z", "1970-01-01T03:00Z"]
    );
    let start = Some(moment("2026-01-01T00:00:00.250Z"));
    let started = recurrence(&RecurrenceFields { start, ..every(Duration::from_millis(1_500)) });
    assert_eq!(started.following(moment("2025-01-01T00:00:00Z")), start, "the start is an occurrence");
    assert_eq!(
        started.following(moment("2026-01-01T00:00:00.250Z")),
        Some(moment("2026-01-01T00:00:01.750Z"))
    );
    assert_eq!(started.following(Timestamp::MAX), None);
}

#[test]
fn occurrences_are_from_start_to_end_both_included() {
    let (start, end) = (Some(moment("2026-01-02T09:00:00Z")), Some(moment("2026-01-04T09:00:00Z")));
    let bounded = recurrence(&RecurrenceFields { start, end, ..cron("0 9 * * *", "UTC") });
    assert_eq!(
        texts(&bounded, "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
        ["2026-01-02T09:00Z", "2026-01-03T09:00Z", "2026-01-04T09:00Z"]
    );
    assert_eq!(bounded.following(moment("2026-01-04T09:00:00Z")), None);
}

/// A year of seconds: a walk would take minutes.
#[test]
fn the_end_of_a_long_span_is_not_walked_to() {
    let seconds = recurrence(&cron("* * * * * *", "Europe/Berlin"));
    let (from, to) = (moment("2025-11-21T06:10:00Z"), moment("2026-11-21T06:10:00.5Z"));
    assert_eq!(seconds.latest(from, to), Some(moment("2026-11-21T06:10:00Z")));
    let few = seconds.latest_few(from, to, 1_000);
    assert_eq!(few.len(), 1_000);
    assert_eq!((few[0], few[999]), (moment("2026-11-21T05:53:21Z"), moment("2026-11-21T06:10:00Z")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn searches_agree_with_walks(
        pattern in prop::sample::select(vec!["*/7 * * * *", "30 2 * * *", "*/10 3 * * MON", "0 */5 1-10 * *"]),
        from_s in 1_700_000_000i64..1_800_000_000,
        length_s in 0i64..1_000_000,
        limit in 1usize..40,
    ) {
        let recurrence = recurrence(&cron(pattern, "America/New_York"));
        let (from, to) = (Timestamp::from_millis(from_s * 1_000), Timestamp::from_millis((from_s + length_s) * 1_000));
        let few = recurrence.latest_few(from, to, limit);
        let all: Vec<_> = recurrence.occurrences(from, to).collect();
        prop_assert_eq!(recurrence.latest(from, to), all.last().copied());
        prop_assert_eq!(&few[..], &all[all.len().saturating_sub(limit)..]);
    }
}
