//! What a process does about a schedule at a moment.

use super::{Missed, MissedRule, Overlap, ScheduleSpec, ScheduleState, run_id};
use crate::job::{JobId, ScheduleName, Timestamp};

/// What to do about a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// Nothing before this moment; `None` before a client changes it.
    Wait(Option<Timestamp>),
    /// Store another state.
    Store(Box<Change>),
    /// Run an occurrence.
    Fire(Box<PlannedRun>),
}

/// A change of the state without a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Why it changes.
    pub kind: ChangeKind,
    /// The new state.
    pub state: ScheduleState,
}

/// Why a state changes without a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// Its moments were over a minute later than the clock, so it has been computed anew.
    Ahead,
    /// It was computed with an older zone database.
    ZoneDatabase,
    /// Runs were missed.
    Missed,
}

/// A run, which one step of the store carries out: if the schedule still has the revision and the next occurrence of the state
/// from which it was planned, the step adds the job and stores the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRun {
    /// The occurrence.
    pub occurrence: Timestamp,
    /// The id of the job, without the suffix by which a store chooses its place. A job of this id that lives already counts as
    /// added.
    pub id: JobId,
    /// When the job is due.
    pub due_at: Timestamp,
    /// What the step does if the job of the previous run, `last_job` of the state, still lives.
    pub overlap: Overlap,
    /// The state after the run. A store sets `last_job` in it to the id with its suffix.
    pub fired: ScheduleState,
    /// The state if the occurrence gives way.
    pub overlapped: ScheduleState,
}

/// What to do about a schedule at a moment: to be asked when its next run is due, at the start of a process, and after the
/// clock was set. The process that carries the plan out asks again with the new state.
///
/// * A run waits for its due moment. While the next run is at most a minute late, or waits for room, runs take place one after
///   the other. If it is later, there was an outage, and the rule about missed runs chooses.
/// * A state that is over a minute ahead of the clock is computed anew from the clock. Occurrences that have run are left out.
/// * A state of an older zone database is computed anew, from the same moment on. One of a newer database stays as it is until
///   it runs.
#[must_use]
pub fn plan(
    name: &ScheduleName,
    spec: &ScheduleSpec,
    state: &ScheduleState,
    now: Timestamp,
    zone_database: &str,
) -> Plan {
    if state.paused {
        return Plan::Wait(None);
    }
    let change = |kind, change: &dyn Fn(&mut ScheduleState)| {
        let mut state = state.clone();
        change(&mut state);
        Plan::Store(Box::new(Change { kind, state }))
    };
    if state.after > now.after(MissedRule::LATE) {
        return change(ChangeKind::Ahead, &|state| state.continue_from(name, spec, now, zone_database));
    }
    if spec.recurrence.has_zone() && state.zone_database.as_str() < zone_database {
        return change(ChangeKind::ZoneDatabase, &|state| state.recompute(spec, zone_database));
    }
    let Some(next) = state.next else { return Plan::Wait(None) };
    let due_at = spec.due_at(name, next);
    if due_at > now {
        return Plan::Wait(Some(due_at));
    }
    let planner = Planner { name, spec, state, zone_database };
    if state.waiting.is_some() || now.since(due_at) <= MissedRule::LATE {
        return Plan::Fire(Box::new(planner.run(state.clone(), next)));
    }
    planner.after_outage(next, now)
}

struct Planner<'a> {
    name: &'a ScheduleName,
    spec: &'a ScheduleSpec,
    state: &'a ScheduleState,
    zone_database: &'a str,
}

impl Planner<'_> {
    fn due_at(&self, occurrence: Timestamp) -> Timestamp {
        self.spec.due_at(self.name, occurrence)
    }

    fn run(&self, before: ScheduleState, occurrence: Timestamp) -> PlannedRun {
        let id = run_id(self.name, occurrence);
        let mut overlapped = before;
        overlapped.last = Some(occurrence);
        overlapped.fired.insert(&self.spec.recurrence, occurrence);
        overlapped.continue_after(self.spec, occurrence, self.zone_database);
        let mut fired = overlapped.clone();
        overlapped.counts.overlapped += 1;
        fired.counts.fired += 1;
        fired.last_job = Some(id.clone());
        let (due_at, overlap) = (self.due_at(occurrence), self.spec.overlap);
        PlannedRun { occurrence, id, due_at, overlap, fired, overlapped }
    }

    /// Runs the next occurrence if the rule makes up for it. Otherwise leaves out those that it does not make up for, in a step of
    /// its own: then the first of the others is the next, and stays it while it waits for room.
    fn after_outage(&self, next: Timestamp, now: Timestamp) -> Plan {
        let mut state = self.state.clone();
        let kept = self.first_kept(next, now);
        if kept == Some(next) && self.due_at(next) <= now {
            return Plan::Fire(Box::new(self.run(state, next)));
        }
        let missed_until = kept.map_or(now, |kept| kept.shifted(-1));
        let following = |after: &Timestamp| state.fired.following(&self.spec.recurrence, *after);
        let missed =
            std::iter::successors(Some(next), following).take_while(|missed| *missed <= missed_until);
        state.counts.missed += missed.take(MissedRule::MAX_RUNS).count() as u64;
        if let Some(last) = self.spec.recurrence.latest(self.state.after, missed_until) {
            state.last = Some(last);
        }
        state.continue_after(self.spec, missed_until.min(now), self.zone_database);
        Plan::Store(Box::new(Change { kind: ChangeKind::Missed, state }))
    }

    /// The first occurrence from `next` on that is not missed. It may not be due yet.
    fn first_kept(&self, next: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let recurrence = &self.spec.recurrence;
        let before_next = next.shifted(-1);
        let following = |from: Timestamp| self.state.fired.following(recurrence, from.shifted(-1));
        // Only the last occurrence can still wait for its jitter, so the last one that is due is among the last two.
        let latest_few = recurrence.latest_few(before_next, now, 2);
        let last_due = latest_few.into_iter().rev().find(|occurrence| self.due_at(*occurrence) <= now);
        // With another zone database than that of `next` there may be none.
        let last_due = last_due.unwrap_or(next);
        let rule = self.spec.missed;
        let first = match rule.missed() {
            Missed::One => last_due,
            Missed::All if self.may_exceed_limit(next, last_due) => {
                *recurrence.latest_few(before_next, last_due, MissedRule::MAX_RUNS).first()?
            }
            Missed::All | Missed::None => next,
        };
        let earliest_due = rule.window().map_or(Timestamp::from_millis(0), |window| {
            now.shifted(-i64::try_from(window.as_millis()).unwrap_or(i64::MAX))
        });
        if self.due_at(first) >= earliest_due {
            // The next has not run, whatever this zone database says of it.
            return if first == next { Some(next) } else { following(first) };
        }
        // The last occurrence before that moment may be due after it.
        let before = recurrence.latest(before_next, earliest_due).unwrap_or(first).max(first);
        let is_kept = before > first && self.due_at(before) >= earliest_due;
        following(if is_kept { before } else { before.shifted(1) })
    }

    /// Whether there may be more occurrences from one to another than an outage makes up for. Most often the interval says it.
    fn may_exceed_limit(&self, first: Timestamp, last: Timestamp) -> bool {
        let intervals = u32::try_from(MissedRule::MAX_RUNS - 1).unwrap_or(u32::MAX);
        last.since(first) > self.spec.recurrence.shortest_interval() * intervals
    }
}
