//! The times that changed clocks leave out or repeat.

use super::*;

/// The changes of a year as text.
fn changes(fields: &RecurrenceFields, from: &str) -> Vec<String> {
    let after = moment(from);
    let found = recurrence(fields).clock_changes(after, after.after(hours(366 * 24)));
    let text = |change: &ClockChange| format!("{} {} {}", change.effect.as_str(), change.time, change.at);
    found.iter().map(text).collect()
}

#[test]
fn times_of_a_day_meet_changes_of_clocks() {
    let berlin = |pattern| changes(&cron(pattern, "Europe/Berlin"), "2027-01-01T00:00:00Z");
    let [spring, autumn] = [
        "skipped 2027-03-28T02:30:00 2027-03-28T01:00:00.000Z",
        "repeated 2027-10-31T02:30:00 2027-10-31T00:30:00.000Z",
    ];
    assert_eq!(berlin("30 2 * * *"), [spring, autumn]);
    assert_eq!(berlin("30,45 1,2,3 * * SUN"), [spring, autumn], "the first time that a change meets");
    assert_eq!(berlin("30 2 * 10 *"), [autumn]);
    // The gap begins at two, and the repeated hour ends before three.
    let edges = [
        "skipped 2027-03-28T02:00:00 2027-03-28T01:00:00.000Z",
        "repeated 2027-10-31T02:00:00 2027-10-31T00:00:00.000Z",
    ];
    assert_eq!(berlin("0 2 * * *"), edges);
    for other in ["0 3 * * *", "59 1 * * *", "30 2 * * MON", "30 * * * *", "*/15 2 * * *"] {
        assert_eq!(berlin(other), [""; 0], "{other}");
    }
}

#[test]
fn only_runs_between_start_and_end_count() {
    let nightly = cron("30 2 * * *", "Europe/Berlin");
    let until = RecurrenceFields { end: Some(moment("2027-04-01T00:00:00Z")), ..nightly.clone() };
    assert_eq!(changes(&until, "2027-01-01T00:00:00Z").len(), 1);
    // Of two runs in the repeated hour, the first is over, or before the start.
    let twice = cron("0,30 2 * * *", "Europe/Berlin");
    let second = "repeated 2027-10-31T02:30:00 2027-10-31T00:30:00.000Z";
    assert_eq!(changes(&twice, "2027-10-31T00:15:00Z")[0], second);
    let begun = RecurrenceFields { start: Some(moment("2027-10-31T00:15:00Z")), ..twice };
    assert_eq!(changes(&begun, "2027-10-01T00:00:00Z")[0], second);
    assert!(
        changes(&nightly, "2027-10-31T00:45:00Z")[0].starts_with("skipped 2028"),
        "that of the autumn is over"
    );
    let from = RecurrenceFields { start: Some(moment("2027-12-01T00:00:00Z")), ..nightly.clone() };
    assert_eq!(changes(&from, "2027-01-01T00:00:00Z").len(), 0);
    let later = changes(&nightly, "2027-03-28T01:00:00Z");
    assert!(later[0].starts_with("repeated 2027-10-31"), "that of the spring is over: {later:?}");
    assert_eq!(changes(&cron("30 2 * * *", "UTC"), "2027-01-01T00:00:00Z").len(), 0);
    assert_eq!(changes(&every(hours(1)), "2027-01-01T00:00:00Z").len(), 0);
}

/// Samoa left out the 30 December 2011.
#[test]
fn a_day_that_a_zone_leaves_out_is_skipped() {
    let noon = changes(&cron("0 12 * * *", "Pacific/Apia"), "2011-12-01T00:00:00Z");
    assert_eq!(noon, ["skipped 2011-12-30T12:00:00 2011-12-30T10:00:00.000Z"]);
}
