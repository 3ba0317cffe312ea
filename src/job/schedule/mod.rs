//! Schedules: jobs that recur. When each run is, what an outage and a wrong clock do to it, and the one decision that a
//! process takes about a schedule at a moment ([`plan`]).
//!
//! Pure, like all of the domain: every function depends on its arguments alone, so all processes decide alike. It does not
//! know what the template of a job means, how a store keeps a schedule, or whether the job of an earlier run still lives.
//!
//! An *occurrence* is a moment at which a schedule runs by its rule; it names the run. The run is *due* at the occurrence, or
//! up to the schedule's jitter later.

mod change;
mod clock_changes;
mod error;
mod fired;
mod jitter;
mod members;
mod occurrences;
mod pattern;
mod plan;
mod recurrence;
mod rules;
mod search;
mod spec;
mod state;
mod zone;

pub use change::{PutResult, pause, put, resume};
pub use clock_changes::{ClockChange, ClockEffect};
pub use error::ScheduleError;
pub use fired::FiredRuns;
pub use jitter::{run_id, schedule_of_run};
pub use pattern::CronPattern;
pub use plan::{Change, ChangeKind, Plan, PlannedRun, plan};
pub use recurrence::{Recurrence, RecurrenceFields, Rule};
pub use rules::{Missed, MissedRule, Overlap};
pub use spec::{ScheduleFields, ScheduleSpec};
pub use state::{RunCounts, ScheduleState, WaitReason, Waiting};
pub use zone::{Zone, zone_database_version};

#[cfg(test)]
mod tests;
