//! The decision at a moment, case by case.

use super::*;

const DB: &str = "2026f";

/// An hourly schedule that has run at eight and plans the run of nine.
fn hourly(missed: Missed, within: Option<Duration>) -> (ScheduleSpec, ScheduleState) {
    let overlap = Some(Overlap::Allow);
    let spec = spec(&ScheduleFields {
        overlap,
        missed: Some(missed),
        missed_within: within,
        ..fields(cron("0 * * * *", "Europe/Berlin"))
    });
    let state = ScheduleState::new(&spec, moment("2026-03-02T07:30:00Z"), DB);
    let state = fire(&spec, &state, "2026-03-02T08:00:00Z").fired;
    assert_eq!(state.next, Some(moment("2026-03-02T09:00:00Z")));
    (spec, state)
}

fn plan_at(spec: &ScheduleSpec, state: &ScheduleState, now: &str) -> Plan {
    plan(&name(), spec, state, moment(now), DB)
}

fn fire(spec: &ScheduleSpec, state: &ScheduleState, now: &str) -> PlannedRun {
    match plan_at(spec, state, now) {
        Plan::Fire(run) => *run,
        other @ (Plan::Wait(_) | Plan::Store(_)) => panic!("{other:?}"),
    }
}

fn store(spec: &ScheduleSpec, state: &ScheduleState, now: &str) -> Change {
    match plan_at(spec, state, now) {
        Plan::Store(change) => *change,
        other @ (Plan::Wait(_) | Plan::Fire(_)) => panic!("{other:?}"),
    }
}

/// The occurrences that run at a moment, one after another, and the state after them.
fn all_runs(spec: &ScheduleSpec, state: &ScheduleState, now: &str) -> (Vec<String>, ScheduleState) {
    let (mut runs, mut state) = (Vec::new(), state.clone());
    loop {
        match plan_at(spec, &state, now) {
            Plan::Wait(_) => return (runs, state),
            Plan::Store(change) => state = change.state,
            Plan::Fire(run) => {
                runs.push(run.occurrence.to_string()[11..16].to_owned());
                state = run.fired;
            }
        }
    }
}

#[test]
fn nothing_runs_before_its_moment() {
    let (spec, state) = hourly(Missed::One, None);
    let nine = moment("2026-03-02T09:00:00Z");
    assert_eq!(plan_at(&spec, &state, "2026-03-02T08:59:59.999Z"), Plan::Wait(Some(nine)));
    let run = fire(&spec, &state, "2026-03-02T09:00:00Z");
    assert_eq!((run.occurrence, run.due_at, run.overlap), (nine, nine, Overlap::Allow));
    assert_eq!(run.id.as_str(), "cron:daily-report:20260302T090000Z");
    let fired = &run.fired;
    assert_eq!((fired.next, fired.last), (Some(moment("2026-03-02T10:00:00Z")), Some(nine)));
    assert_eq!((fired.last_job.as_ref(), fired.counts.fired), (Some(&run.id), 2));
    let counts = RunCounts { overlapped: 1, ..state.counts };
    let gave_way = ScheduleState { last_job: state.last_job, counts, ..fired.clone() };
    assert_eq!(run.overlapped, gave_way, "the job to wait for stays");
    assert_eq!(run.fired.revision, 1, "a run is no change by a client");
}

#[test]
fn an_outage_runs_what_the_rule_says() {
    for (missed, within, runs, missed_count) in [
        (Missed::One, None, &["12:00"][..], 3),
        (Missed::One, Some(minutes(30)), &["12:00"], 3),
        (Missed::One, Some(minutes(29)), &[], 4),
        (Missed::All, None, &["09:00", "10:00", "11:00", "12:00"], 0),
        (Missed::All, Some(minutes(90)), &["11:00", "12:00"], 2),
        (Missed::None, None, &[], 4),
    ] {
        let (spec, state) = hourly(missed, within);
        let (found, state) = all_runs(&spec, &state, "2026-03-02T12:30:00Z");
        assert_eq!(
            (&found[..], state.counts.missed),
            (&runs.iter().map(ToString::to_string).collect::<Vec<_>>()[..], missed_count),
            "{missed:?} {within:?}"
        );
        assert_eq!(
            (state.next, state.last),
            (Some(moment("2026-03-02T13:00:00Z")), Some(moment("2026-03-02T12:00:00Z")))
        );
    }
}

/// The last run that was missed is one of a time that the zone left out: it runs right after the gap.
#[test]
fn an_outage_that_ends_after_a_gap_runs_what_was_in_the_gap() {
    for (pattern, missed, from, now, expected) in [
        ("30 2 * * *", Missed::One, "2026-03-28T00:00:00Z", "2026-03-29T06:00:00Z", &["01:00"][..]),
        ("15 0-5 * * *", Missed::One, "2026-03-29T00:10:00Z", "2026-03-29T01:10:00Z", &["01:00"]),
        ("30 2 * * *", Missed::All, "2026-03-28T00:00:00Z", "2026-03-29T06:00:00Z", &["01:00"]),
    ] {
        let (missed, overlap) = (Some(missed), Some(Overlap::Allow));
        let spec = spec(&ScheduleFields { missed, overlap, ..fields(cron(pattern, "Europe/Berlin")) });
        let state = ScheduleState::new(&spec, moment(from), DB);
        assert_eq!(all_runs(&spec, &state, now).0, expected, "{pattern} {missed:?}");
    }
}

#[test]
fn a_minute_late_is_no_outage() {
    for missed in Missed::ALL {
        let (spec, state) = hourly(missed, None);
        assert_eq!(fire(&spec, &state, "2026-03-02T09:01:00Z").occurrence, moment("2026-03-02T09:00:00Z"));
    }
    let (spec, state) = hourly(Missed::None, None);
    let change = store(&spec, &state, "2026-03-02T09:01:00.001Z");
    assert_eq!((change.kind, change.state.counts.missed), (ChangeKind::Missed, 1));
    // After an outage, the runs that are not late take place.
    assert_eq!(all_runs(&spec, &state, "2026-03-02T11:00:30Z").0, ["11:00"]);
    let seconds = spec_of_seconds(Missed::One);
    let state = ScheduleState::new(&seconds, moment("2026-03-02T09:00:00Z"), DB);
    assert_eq!(all_runs(&seconds, &state, "2026-03-02T09:00:03Z").0.len(), 3, "a busy process skips nothing");
    assert_eq!(all_runs(&seconds, &state, "2026-03-02T09:01:01Z").0.len(), 61, "the first is a minute late");
    assert_eq!(all_runs(&seconds, &state, "2026-03-02T09:05:00Z").0.len(), 1);
}

fn spec_of_seconds(missed: Missed) -> ScheduleSpec {
    let (missed, overlap) = (Some(missed), Some(Overlap::Allow));
    spec(&ScheduleFields { missed, overlap, ..fields(cron("* * * * * *", "UTC")) })
}

/// The run that the rule has chosen is the one that waits, and not the first that was missed.
#[test]
fn a_run_after_an_outage_may_wait_for_room() {
    let (spec, state) = hourly(Missed::One, None);
    let left_out = store(&spec, &state, "2026-03-02T12:30:00Z").state;
    let full = left_out.waiting(moment("2026-03-02T12:30:00Z"), WaitReason::StoreFull);
    assert_eq!(all_runs(&spec, &full, "2026-03-02T12:45:00Z").0, ["12:00"]);
}

#[test]
fn at_most_a_thousand_runs_are_made_up_for() {
    let spec = spec_of_seconds(Missed::All);
    let state = ScheduleState::new(&spec, moment("2025-03-02T09:00:00Z"), DB);
    let left_out = store(&spec, &state, "2026-03-02T09:00:00Z").state;
    assert_eq!(left_out.next, Some(moment("2026-03-02T08:43:21Z")));
    assert_eq!(left_out.counts, RunCounts { fired: 0, missed: 1_000, overlapped: 0 });
    assert_eq!(all_runs(&spec, &state, "2026-03-02T09:00:00Z").0.len(), 1_000);
    // In bursts, the shortest interval does not tell how many there are.
    let bursts = super::spec(&ScheduleFields { recurrence: cron("* * 3 * * *", "UTC"), ..fields_of(&spec) });
    let state = ScheduleState::new(&bursts, moment("2026-03-02T00:00:00Z"), DB);
    let left_out = store(&bursts, &state, "2026-03-02T09:00:00Z").state;
    assert_eq!(left_out.next, Some(moment("2026-03-02T03:43:20Z")));
}

fn fields_of(spec: &ScheduleSpec) -> ScheduleFields {
    let (missed, overlap) = (Some(spec.missed.missed()), Some(spec.overlap));
    ScheduleFields { missed, overlap, ..fields(RecurrenceFields::default()) }
}

#[test]
fn a_run_that_waits_for_room_is_not_missed() {
    for missed in Missed::ALL {
        let (spec, state) = hourly(missed, None);
        let waiting = state.waiting(moment("2026-03-02T09:00:00Z"), WaitReason::StoreFull);
        let waiting = waiting.waiting(moment("2026-03-02T09:00:30Z"), WaitReason::IntakePaused);
        let expected = Waiting { since: moment("2026-03-02T09:00:00Z"), reason: WaitReason::IntakePaused };
        assert_eq!(waiting.waiting, Some(expected));
        let run = fire(&spec, &waiting, "2026-03-02T11:30:00Z");
        assert_eq!((run.occurrence, run.fired.counts.missed), (moment("2026-03-02T09:00:00Z"), 0));
        assert_eq!((run.fired.waiting, run.overlapped.waiting), (None, None));
    }
    // The rule decides about those that came meanwhile.
    let (spec, state) = hourly(Missed::One, None);
    let waiting = state.waiting(moment("2026-03-02T09:00:00Z"), WaitReason::StoreFull);
    assert_eq!(all_runs(&spec, &waiting, "2026-03-02T11:30:00Z").0, ["09:00", "11:00"]);
}

#[test]
fn a_clock_that_was_ahead_heals() {
    let (spec, state) = hourly(Missed::One, None);
    let (runs, ahead) = all_runs(&spec, &state, "2026-03-02T14:30:00Z");
    assert_eq!((runs, ahead.next), (vec!["14:00".to_owned()], Some(moment("2026-03-02T15:00:00Z"))));
    let now = moment("2026-03-02T09:10:00Z");
    assert!(ahead.is_ahead(now));
    let change = store(&spec, &ahead, "2026-03-02T09:10:00Z");
    assert_eq!((change.kind, change.state.next), (ChangeKind::Ahead, Some(moment("2026-03-02T10:00:00Z"))));
    assert!(change.state.is_ahead(now), "it is shown until the next run");
    assert_eq!(plan_at(&spec, &change.state, "2026-03-02T09:10:00Z"), Plan::Wait(change.state.next));
    let (_, healed) = all_runs(&spec, &change.state, "2026-03-02T10:00:00Z");
    assert!(!healed.is_ahead(moment("2026-03-02T10:00:00Z")));
    let mut state = healed;
    for (now, runs) in
        [("11", &["11:00"][..]), ("12", &["12:00"]), ("13", &["13:00"]), ("14", &[]), ("15", &["15:00"])]
    {
        let (found, next) = all_runs(&spec, &state, &format!("2026-03-02T{now}:00:00Z"));
        assert_eq!(found, runs, "at {now}");
        state = next;
    }
}

#[test]
fn a_minute_ahead_waits() {
    let (spec, state) = hourly(Missed::One, None);
    let (eight, nine) = ("2026-03-02T07:59:00Z", moment("2026-03-02T09:00:00Z"));
    assert!(!state.is_ahead(moment(eight)));
    assert_eq!(plan_at(&spec, &state, eight), Plan::Wait(Some(nine)));
    let change = store(&spec, &state, "2026-03-02T07:58:59.999Z");
    assert_eq!((change.kind, change.state.next), (ChangeKind::Ahead, Some(nine)), "that of eight has run");
}

#[test]
fn a_schedule_that_was_made_by_a_wrong_clock_heals() {
    let (spec, state) = hourly(Missed::One, None);
    let wrong = moment("2036-01-01T00:00:00Z");
    let new = ScheduleState::new(&spec, wrong, DB);
    let paused = pause(&state).expect("is not paused");
    let resumed = resume(&name(), &spec, &paused, wrong, DB).expect("is paused");
    for state in [new, resumed] {
        assert!(state.is_ahead(moment("2026-03-02T09:10:00Z")));
        let change = store(&spec, &state, "2026-03-02T09:10:00Z");
        assert_eq!(change.state.next, Some(moment("2026-03-02T10:00:00Z")));
    }
}

#[test]
fn a_newer_zone_database_computes_anew_and_an_older_one_does_not() {
    let (spec, state) = hourly(Missed::One, None);
    let now = moment("2026-03-02T08:10:00Z");
    // As if the older database had the zone half an hour off.
    let (wrong, right) = (Some(moment("2026-03-02T08:30:00Z")), Some(moment("2026-03-02T09:00:00Z")));
    let older = ScheduleState { next: wrong, zone_database: "2025c".to_owned(), ..state.clone() };
    let Plan::Store(change) = plan(&name(), &spec, &older, now, DB) else { panic!("is computed anew") };
    assert_eq!(
        (change.kind, change.state),
        (ChangeKind::ZoneDatabase, ScheduleState { next: right, ..state.clone() })
    );
    let newer = ScheduleState { next: wrong, zone_database: "2027a".to_owned(), ..state.clone() };
    assert_eq!(plan(&name(), &spec, &newer, now, DB), Plan::Wait(wrong));
    let run = fire(&spec, &newer, "2026-03-02T08:30:00Z");
    assert_eq!(run.fired.zone_database, DB, "what this process has computed");
    let late = fire(&spec, &newer, "2026-03-02T08:40:00Z");
    assert_eq!(late.occurrence, run.occurrence, "it is due, though this database does not know it");
    let interval = super::spec(&fields(every(hours(1))));
    let older = ScheduleState { zone_database: "2025c".to_owned(), ..state };
    assert_eq!(plan(&name(), &interval, &older, now, DB), Plan::Wait(right), "intervals know no zone");
}

#[test]
fn the_last_run_is_the_end() {
    let end = Some(moment("2026-03-02T09:00:00Z"));
    let spec = spec(&fields(RecurrenceFields { end, ..cron("0 * * * *", "UTC") }));
    let state = ScheduleState::new(&spec, moment("2026-03-02T08:30:00Z"), DB);
    let (runs, state) = all_runs(&spec, &state, "2026-03-02T09:00:00Z");
    assert_eq!((runs, state.next), (vec!["09:00".to_owned()], None));
    assert_eq!(plan_at(&spec, &state, "2026-03-02T12:00:00Z"), Plan::Wait(None));
    let missed = ScheduleState::new(&spec, moment("2026-03-02T08:30:00Z"), DB);
    assert_eq!(all_runs(&spec, &missed, "2027-01-01T00:00:00Z").0, ["09:00"], "after an outage as well");
}

#[test]
fn jitter_moves_the_run_and_not_its_name() {
    let jitter = Some(minutes(30));
    let spec = spec(&ScheduleFields { jitter, ..fields(cron("0 * * * *", "UTC")) });
    let state = ScheduleState::new(&spec, moment("2026-03-02T08:30:00Z"), DB);
    let nine = moment("2026-03-02T09:00:00Z");
    let due_at = spec.due_at(&name(), nine);
    assert!(nine < due_at, "{due_at}");
    assert_eq!(state.due_at(&name(), &spec), Some(due_at));
    assert_eq!(plan(&name(), &spec, &state, nine, DB), Plan::Wait(Some(due_at)));
    let Plan::Fire(run) = plan(&name(), &spec, &state, due_at, DB) else { panic!("is due") };
    assert_eq!((run.occurrence, run.due_at), (nine, due_at));
    // Lateness counts from the due moment, not from the occurrence.
    let none =
        ScheduleSpec { missed: MissedRule::new(Missed::None, None, Overlap::Skip).expect("valid"), ..spec };
    let minute_late = due_at.after(minutes(1));
    assert!(matches!(plan(&name(), &none, &state, minute_late, DB), Plan::Fire(_)));
    assert!(matches!(plan(&name(), &none, &state, minute_late.shifted(1), DB), Plan::Store(_)));
    // An outage keeps a run whose occurrence is past and which is not due yet.
    let state = ScheduleState::new(&none, moment("2026-03-02T01:30:00Z"), DB);
    let Plan::Store(change) = plan(&name(), &none, &state, nine.shifted(1), DB) else { panic!("are missed") };
    assert_eq!((change.state.next, change.state.counts.missed), (Some(nine), 7));
}

#[test]
fn the_past_is_remembered_by_ranges() {
    let (spec, _) = hourly(Missed::One, None);
    let recurrence = &spec.recurrence;
    let first = moment("2026-01-01T00:00:00Z");
    let hourly: Vec<_> = recurrence.occurrences(first, Timestamp::MAX).take(6_000).collect();
    let mut fired = FiredRuns::default();
    for occurrence in &hourly[..3_000] {
        fired.insert(recurrence, *occurrence);
    }
    assert_eq!(fired.ranges(), 1, "without interruption");
    // Every second one.
    for occurrence in hourly[3_001..5_000].iter().step_by(2) {
        fired.insert(recurrence, *occurrence);
    }
    assert_eq!(fired.ranges(), 1_000);
    assert!(fired.contains(hourly[3_001]) && !fired.contains(hourly[3_000]));
    assert!(!fired.contains(hourly[2_999]), "a thousand are remembered");
    let far = moment("2036-01-01T00:00:00Z");
    fired.insert(recurrence, far);
    for occurrence in &hourly[5_001..6_000] {
        fired.insert(recurrence, *occurrence);
    }
    assert!(fired.contains(far), "what is still to come is not forgotten");
    assert_eq!(fired.following(recurrence, far.shifted(-1)), Some(far.after(hours(1))));
    assert_eq!(FiredRuns::decode(&fired.encode()), fired);
}
