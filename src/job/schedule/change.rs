//! Changes that clients make to schedules.

use super::{FiredRuns, ScheduleSpec, ScheduleState};
use crate::job::{ScheduleName, Timestamp};

/// What a PUT does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutResult {
    /// The schedule is new.
    Created(ScheduleState),
    /// It has been so already.
    Unchanged,
    /// It is this now.
    Changed(ScheduleState),
}

/// What a PUT does to a schedule, or to none.
///
/// Pause, counts and the job of the last run stay in any case. If the rule stays, so do the last run, the
/// occurrences that are not run again, and the next run; a change of `start` or `end` keeps a run that is due, if it is still within.
#[must_use]
pub fn put(
    old: Option<(&ScheduleSpec, &ScheduleState)>,
    new: &ScheduleSpec,
    now: Timestamp,
    zone_database: &str,
) -> PutResult {
    let Some((spec, old)) = old else {
        return PutResult::Created(ScheduleState::new(new, now, zone_database));
    };
    if spec.asks_same(new) {
        return PutResult::Unchanged;
    }
    let mut state = ScheduleState { revision: old.revision + 1, ..old.clone() };
    if !spec.recurrence.has_occurrences_of(&new.recurrence) {
        state.last = None;
        state.fired = FiredRuns::default();
        state.continue_after(new, now, zone_database);
    } else if spec.recurrence != new.recurrence {
        let due = old.next.filter(|next| *next <= now);
        if due.is_none_or(|due| !new.recurrence.is_open_at(due)) {
            state.continue_after(new, now, zone_database);
        }
    }
    PutResult::Changed(state)
}

/// The state of a schedule that is paused; `None` if it is so already.
#[must_use]
pub fn pause(state: &ScheduleState) -> Option<ScheduleState> {
    let paused = ScheduleState { revision: state.revision + 1, paused: true, waiting: None, ..state.clone() };
    (!state.paused).then_some(paused)
}

/// The state of a schedule that goes on, without what it missed while it was paused; `None` if it was not.
#[must_use]
pub fn resume(
    name: &ScheduleName,
    spec: &ScheduleSpec,
    state: &ScheduleState,
    now: Timestamp,
    zone_database: &str,
) -> Option<ScheduleState> {
    let mut resumed = ScheduleState { revision: state.revision + 1, paused: false, ..state.clone() };
    resumed.continue_from(name, spec, now, zone_database);
    state.paused.then_some(resumed)
}
