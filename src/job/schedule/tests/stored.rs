//! The stored forms.

use proptest::prelude::*;

use super::*;
use crate::job::JobId;

fn full_spec() -> ScheduleSpec {
    let recurrence = RecurrenceFields {
        start: Some(moment("2026-01-01T00:00:00Z")),
        end: Some(moment("2027-01-01T00:00:00.001Z")),
        ..cron("30 9 * * mon-fri", "europe/berlin")
    };
    spec(&ScheduleFields {
        jitter: Some(Duration::from_millis(300_001)),
        overlap: Some(Overlap::Allow),
        missed: Some(Missed::All),
        missed_within: Some(hours(48)),
        ..fields(recurrence)
    })
}

fn full_state() -> ScheduleState {
    let mut state = ScheduleState::new(&full_spec(), moment("2026-03-01T00:00:00Z"), "2026f");
    state.last = Some(moment("2026-02-27T08:30:00Z"));
    state.last_job = JobId::parse("cron:daily-report:20260227T083000Z.2").ok();
    state.paused = true;
    state.counts = RunCounts { fired: 3, missed: 2, overlapped: 1 };
    state.fired.insert(&full_spec().recurrence, moment("2026-02-27T08:30:00Z"));
    state.waiting(moment("2026-03-01T00:00:00Z"), WaitReason::StoreFull)
}

#[test]
fn specs_read_back() {
    let specs = [
        full_spec(),
        spec(&fields(every(Duration::from_millis(1_500)))),
        spec(&fields(cron("@daily", "UTC"))),
    ];
    for spec in specs {
        assert_eq!(ScheduleSpec::decode(&spec.encode()), Ok(spec));
    }
    assert_eq!(
        full_spec().encode(),
        r#"{"cron":"30 9 * * mon-fri","end":"2027-01-01T00:00:00.001Z","jitter":300.001,"job":"{\"topic\":\"report\",\"body\":{\"kind\":\"daily\"}}","missed":"all","missed_within":172800,"overlap":"allow","start":"2026-01-01T00:00:00.000Z","time_zone":"europe/berlin","topic":"report"}"#
    );
}

#[test]
fn states_read_back() {
    let new = ScheduleState::new(&full_spec(), moment("2026-03-01T00:00:00Z"), "2026f");
    for state in [new, full_state()] {
        assert_eq!(ScheduleState::decode(&state.encode()), Ok(state));
    }
    assert_eq!(
        full_state().encode(),
        r#"{"after":1772323200000,"fired":3,"fired_runs":[[1772181000000,1772181000000,1]],"last":1772181000000,"last_job":"cron:daily-report:20260227T083000Z.2","missed":2,"next":1772440200000,"overlapped":1,"paused":true,"revision":1,"waiting_for":"store_full","waiting_since":1772323200000,"zone_database":"2026f"}"#
    );
}

#[test]
fn members_of_later_versions_are_kept_as_they_are() {
    let later =
        |text: String| text.replacen('{', r#"{"a_\"later\" one":{"n":1.00, "x":[12345678901234567890]},"#, 1);
    let (spec, state) = (later(full_spec().encode()), later(full_state().encode()));
    let read = ScheduleSpec::decode(&spec).expect("valid");
    assert!(read.encode().contains(r#""a_\"later\" one":{"n":1.00, "x":[12345678901234567890]}"#));
    assert!(read.asks_same(&full_spec()), "they are no difference to a client that does not know them");
    assert_eq!(ScheduleSpec::decode(&read.encode()), Ok(read));
    let mut read = ScheduleState::decode(&state).expect("valid");
    read.revision += 1;
    assert!(read.encode().contains(r#""a_\"later\" one":{"n":1.00, "x":[12345678901234567890]}"#));
    let waits = full_state().encode().replace("store_full", "later_reason");
    assert!(ScheduleState::decode(&waits).expect("valid").encode().contains("later_reason"));
}

#[test]
fn what_cannot_be_read_is_refused_with_a_reason() {
    let spec = full_spec().encode();
    for (text, told) in [
        ("[]".to_owned(), "is no JSON object"),
        (spec.replace("\"all\"", "\"some\""), "has an unknown missed"),
        (spec.replace("\"allow\"", "\"queue\""), "has an unknown overlap"),
        (spec.replace("europe/berlin", "Mars/Olympus"), "has a field at fault: time_zone is not a zone"),
        (spec.replace("\"topic\":\"report\"}", "\"topic\":\"a b\"}"), "has a topic that may only hold"),
        (spec.replace("\"job\":", "\"job_\":"), "has no job"),
    ] {
        let error = ScheduleSpec::decode(&text).expect_err(told);
        assert!(error.starts_with(told), "{error}");
    }
    let state = full_state().encode();
    for (text, told) in [
        (state.replace("\"revision\":1", "\"revision\":-1"), "has a malformed revision"),
        (state.replace("\"after\"", "\"after_\""), "has no after"),
        (state.replace("cron:daily-report", "cron daily report"), "has a last_job that may only hold"),
    ] {
        let error = ScheduleState::decode(&text).expect_err(told);
        assert!(error.starts_with(told), "{error}");
    }
}

/// A later zone database must not make a stored schedule unreadable.
#[test]
fn a_stored_pattern_need_not_match_any_more() {
    let stored = spec(&fields(cron("0 0 * * *", "UTC"))).encode().replace("0 0 * * *", "0 0 31 2 *");
    let spec = ScheduleSpec::decode(&stored).expect("readable");
    assert_eq!(spec.recurrence.following(moment("2026-01-01T00:00:00Z")), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_text_is_read_or_refused_without_panic(text in "\\PC{0,60}", name in "[a-z_]{1,14}", value in "[0-9\"\\[\\]{}a-z,-]{0,12}") {
        let _ = (ScheduleSpec::decode(&text), ScheduleState::decode(&text));
        for stored in [full_spec().encode(), full_state().encode()] {
            let changed = stored.replacen('{', &format!("{{\"{name}\":{value},"), 1);
            let _ = (ScheduleSpec::decode(&changed), ScheduleState::decode(&changed));
        }
    }
}
