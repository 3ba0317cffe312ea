//! The rules about overlaps and missed runs, jitter, and the names of runs.

use proptest::prelude::*;

use super::*;
use crate::job::JobId;

#[test]
fn rules_about_missed_runs_suit_each_other() {
    let day = hours(24);
    for (missed, within, overlap, told) in [
        (
            Missed::All,
            None,
            Overlap::Skip,
            "missed must not be \"all\" unless overlap is \"allow\": the runs would stop each other",
        ),
        (
            Missed::All,
            None,
            Overlap::Replace,
            "missed must not be \"all\" unless overlap is \"allow\": the runs would stop each other",
        ),
        (
            Missed::None,
            Some(day),
            Overlap::Skip,
            "missed_within has no meaning if missed is \"none\"; leave it out",
        ),
        (
            Missed::One,
            Some(Duration::from_secs(59)),
            Overlap::Skip,
            "missed_within must be at least 1 minute",
        ),
    ] {
        assert_eq!(MissedRule::new(missed, within, overlap).expect_err(told).to_string(), told);
    }
    let window = |missed, within| MissedRule::new(missed, within, Overlap::Allow).expect("valid").window();
    assert_eq!(window(Missed::One, None), None);
    assert_eq!(window(Missed::One, Some(minutes(5))), Some(minutes(5)));
    assert_eq!(window(Missed::All, None), Some(day));
    assert_eq!(window(Missed::All, Some(2 * day)), Some(2 * day));
    assert_eq!(window(Missed::None, None), Some(minutes(1)));
}

#[test]
fn jitter_is_at_most_the_interval() {
    let jitter = |recurrence, jitter| {
        ScheduleSpec::new(&ScheduleFields { jitter: Some(jitter), ..fields(recurrence) })
    };
    assert!(jitter(every(minutes(5)), minutes(5)).is_ok());
    assert!(jitter(cron("0 9 * * MON-FRI", "UTC"), hours(72)).is_ok(), "over a weekend");
    for (recurrence, too_long, told) in [
        (every(minutes(5)), minutes(6), "jitter must be at most the time between two runs, 300 s"),
        (cron("* * * * *", "UTC"), minutes(5), "jitter must be at most the time between two runs, 60 s"),
        (
            cron("0 9 * * MON-FRI", "UTC"),
            hours(73),
            "jitter must be at most the time between two runs, 259200 s",
        ),
    ] {
        assert_eq!(jitter(recurrence, too_long).expect_err(told).to_string(), told);
    }
}

#[test]
fn runs_are_named_by_schedule_and_occurrence() {
    assert_eq!(
        run_id(&name(), moment("2026-11-26T08:30:00.999Z")).as_str(),
        "cron:daily-report:20261126T083000Z"
    );
    let longest = ScheduleName::parse(&"n".repeat(ScheduleName::MAX_LEN)).expect("valid");
    assert!(
        run_id(&longest, Timestamp::MAX).as_str().len() < JobId::MAX_LEN - 30,
        "there is room for a suffix"
    );
    assert!(ScheduleName::parse(&"n".repeat(201)).is_err());
}

/// Processes of all versions must agree, so the numbers themselves are fixed.
#[test]
fn jitter_depends_on_name_and_occurrence_alone() {
    let jitter = Some(minutes(5));
    let spec = spec(&ScheduleFields { jitter, ..fields(cron("30 9 * * *", "UTC")) });
    let due = |name: &str, occurrence| {
        let name = ScheduleName::parse(name).expect("valid");
        spec.due_at(&name, moment(occurrence)).to_string()
    };
    assert_eq!(due("daily-report", "2026-11-26T09:30:00Z"), "2026-11-26T09:33:38.465Z");
    assert_eq!(due("daily-report", "2026-11-27T09:30:00Z"), "2026-11-27T09:33:48.779Z");
    assert_eq!(due("other", "2026-11-26T09:30:00Z"), "2026-11-26T09:32:41.730Z");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn jitter_keeps_the_order(
        recurrence in prop::sample::select(vec![
            cron("0,1,30 9 * * MON-FRI", "Europe/Berlin"),
            every(minutes(7)),
            every(Duration::from_millis(1_001)),
        ]),
        share in 1u32..=10,
        after_s in 0i64..4_000_000_000,
    ) {
        let longest = super::recurrence(&recurrence).longest_interval();
        let spec = spec(&ScheduleFields { jitter: Some(longest * share / 10), ..fields(recurrence) });
        let after = Timestamp::from_millis(after_s * 1_000);
        let occurrences: Vec<_> = spec.recurrence.occurrences(after, Timestamp::MAX).take(20).collect();
        for pair in occurrences.windows(2) {
            let due = spec.due_at(&name(), pair[0]);
            prop_assert!(pair[0] <= due && due < pair[1], "{due} of {pair:?}");
            prop_assert!(due.since(pair[0]) < spec.jitter);
        }
    }
}
