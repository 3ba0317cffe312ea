//! What clients change, and what stays.

use super::*;
use crate::job::JobId;

const NOW: &str = "2026-03-02T12:00:00Z";
const DB: &str = "2026f";

/// A schedule that has run at nine, and whose run at ten is due.
fn running() -> (ScheduleSpec, ScheduleState) {
    let spec = spec(&fields(cron("0 * * * *", "Europe/Berlin")));
    let mut state = ScheduleState::new(&spec, moment("2026-03-02T08:30:00Z"), DB);
    state.last = Some(moment("2026-03-02T09:00:00Z"));
    state.last_job = JobId::parse("cron:daily-report:20260302T090000Z").ok();
    state.counts.fired = 1;
    state.fired.insert(&spec.recurrence, moment("2026-03-02T09:00:00Z"));
    state.continue_after(&spec, moment("2026-03-02T09:00:00Z"), DB);
    assert_eq!(state.next, Some(moment("2026-03-02T10:00:00Z")));
    (spec, state)
}

fn changed(new: &ScheduleFields) -> ScheduleState {
    let (spec, state) = running();
    match put(Some((&spec, &state)), &super::spec(new), moment(NOW), DB) {
        PutResult::Changed(changed) => changed,
        other @ (PutResult::Created(_) | PutResult::Unchanged) => panic!("{other:?}"),
    }
}

#[test]
fn a_new_schedule_runs_after_now() {
    let PutResult::Created(state) = put(None, &running().0, moment("2026-03-02T10:00:00Z"), DB) else {
        panic!("is new")
    };
    assert_eq!((state.revision, state.next), (1, Some(moment("2026-03-02T11:00:00Z"))));
    assert_eq!((state.last, state.zone_database.as_str()), (None, DB));
}

#[test]
fn equal_content_changes_nothing() {
    let (spec, state) = running();
    assert_eq!(put(Some((&spec, &state)), &spec.clone(), moment(NOW), DB), PutResult::Unchanged);
}

#[test]
fn another_job_keeps_everything_but_the_revision() {
    let (_, before) = running();
    let template = r#"{"topic":"report","body":2}"#.to_owned();
    let same = fields(cron("0 * * * *", "Europe/Berlin"));
    for new in [
        ScheduleFields { template, ..same.clone() },
        ScheduleFields { overlap: Some(Overlap::Allow), ..same.clone() },
        ScheduleFields { jitter: Some(minutes(1)), ..same.clone() },
        ScheduleFields { missed: Some(Missed::None), ..same },
    ] {
        assert_eq!(changed(&new), ScheduleState { revision: 2, ..before.clone() });
    }
}

#[test]
fn another_rule_begins_anew_but_stays_paused() {
    let (spec, state) = running();
    let state = pause(&state).expect("is not paused");
    for new in [cron("30 * * * *", "Europe/Berlin"), cron("0 * * * *", "Asia/Kolkata"), every(minutes(30))] {
        let PutResult::Changed(changed) =
            put(Some((&spec, &state)), &super::spec(&fields(new)), moment(NOW), DB)
        else {
            panic!("is changed")
        };
        assert_eq!(changed.next, Some(moment("2026-03-02T12:30:00Z")), "the run that was due is gone");
        assert_eq!((changed.revision, changed.paused, changed.last), (3, true, None));
        assert_eq!((&changed.last_job, changed.counts), (&state.last_job, state.counts));
        assert_eq!(changed.fired, FiredRuns::default());
    }
}

#[test]
fn other_bounds_keep_a_due_run_that_is_within() {
    let bounded = |start: Option<&str>, end: Option<&str>| {
        let (start, end) = (start.map(moment), end.map(moment));
        changed(&fields(RecurrenceFields { start, end, ..cron("0 * * * *", "Europe/Berlin") }))
    };
    for (start, end, next) in [
        (None, Some("2026-03-02T10:00:00Z"), Some(moment("2026-03-02T10:00:00Z"))),
        (None, Some("2026-03-02T09:59:59Z"), None),
        (Some("2026-03-02T10:00:01Z"), None, Some(moment("2026-03-02T13:00:00Z"))),
        (Some("2026-04-01T00:00:00Z"), None, Some(moment("2026-04-01T00:00:00Z"))),
    ] {
        let state = bounded(start, end);
        assert_eq!(state.next, next, "{start:?} to {end:?}");
        assert_eq!(state.last, running().1.last);
        assert!(state.fired.contains(moment("2026-03-02T09:00:00Z")));
    }
}

#[test]
fn a_start_that_is_left_out_lets_it_run_at_once() {
    let start = Some(moment("2027-01-01T00:00:00Z"));
    let old = spec(&fields(RecurrenceFields { start, ..cron("0 * * * *", "Europe/Berlin") }));
    let state = ScheduleState::new(&old, moment(NOW), DB);
    assert_eq!(state.next, start);
    let new = running().0;
    let PutResult::Changed(state) = put(Some((&old, &state)), &new, moment(NOW), DB) else {
        panic!("is changed")
    };
    assert_eq!(state.next, Some(moment("2026-03-02T13:00:00Z")));
}

#[test]
fn another_start_moves_the_intervals() {
    let old = spec(&fields(every(minutes(60))));
    let state = ScheduleState::new(&old, moment(NOW), DB);
    let start = Some(moment("2026-01-01T00:20:00Z"));
    let new = spec(&fields(RecurrenceFields { start, ..every(minutes(60)) }));
    let PutResult::Changed(state) = put(Some((&old, &state)), &new, moment(NOW), DB) else {
        panic!("is changed")
    };
    assert_eq!(state.next, Some(moment("2026-03-02T12:20:00Z")));
}

#[test]
fn a_pause_ends_without_catching_up() {
    let (spec, state) = running();
    assert_eq!(resume(&name(), &spec, &state, moment(NOW), DB), None, "it is not paused");
    let paused = pause(&state).expect("is not paused");
    assert_eq!(pause(&paused), None);
    assert_eq!(paused.due_at(&name(), &spec), None);
    assert_eq!(plan(&name(), &spec, &paused, moment(NOW), DB), Plan::Wait(None));
    let resumed = resume(&name(), &spec, &paused, moment(NOW).shifted(1), DB).expect("is paused");
    assert_eq!((resumed.revision, resumed.next), (3, Some(moment("2026-03-02T13:00:00Z"))));
    assert_eq!((resumed.last, resumed.counts), (state.last, state.counts), "nothing was missed");
    assert_eq!(resumed.upcoming(&spec, 2), [moment("2026-03-02T13:00:00Z"), moment("2026-03-02T14:00:00Z")]);
}

#[test]
fn a_run_that_falls_due_after_the_resume_takes_place() {
    let (_, state) = running();
    let jitter = Some(minutes(59));
    let spec = spec(&ScheduleFields { jitter, ..fields(cron("0 * * * *", "Europe/Berlin")) });
    let ten = moment("2026-03-02T10:00:00Z");
    let due_at = spec.due_at(&name(), ten);
    assert!(due_at > ten, "{due_at}");
    let paused = pause(&state).expect("is not paused");
    let next = |now| resume(&name(), &spec, &paused, now, DB).expect("is paused").next;
    assert_eq!(next(due_at), Some(ten));
    assert_eq!(next(due_at.shifted(1)), Some(moment("2026-03-02T11:00:00Z")));
}
