//! The types of schedules.

use std::time::Duration;

use jiff::{Timestamp, civil::DateTime};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    durations::{duration, some_duration, some_moment, some_seconds},
    new_job::NewJob,
};

/// A schedule to make, or what one is to be from now on. What is left out gets the server's default. Times are precise to the
/// millisecond.
#[derive(Debug, Clone, Serialize)]
pub struct NewSchedule {
    /// When it runs.
    #[serde(flatten)]
    pub recurrence: Recurrence,
    /// No run is before this moment.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_moment")]
    pub start: Option<Timestamp>,
    /// No run is after this moment.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_moment")]
    pub end: Option<Timestamp>,
    /// Runs are due up to so long after their moment, each by an offset of its own; exactly then when left out.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_duration")]
    pub jitter: Option<Duration>,
    /// What happens if the job of the previous run is not over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// Which of the runs take place that an outage has made late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// How late they may be.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_duration")]
    pub missed_within: Option<Duration>,
    /// The job of each run, without an id and a due time.
    pub job: NewJob,
}

/// The rule by which a schedule runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Recurrence {
    /// By the wall clock.
    Cron {
        /// A pattern of five fields, or of six with seconds first, or a name such as `@daily`.
        cron: String,
        /// The IANA name of the zone of the clock; `UTC` when left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        time_zone: Option<String>,
    },
    /// At an interval, by the time that has passed since `start`, or since 1970.
    Every {
        /// The interval; at least a second.
        #[serde(serialize_with = "duration")]
        every: Duration,
    },
}

/// What a schedule does if the job of its previous run is not over; a dead letter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// The run is left out.
    Skip,
    /// The run takes place beside the other one.
    Allow,
    /// The run takes the place of a job that waits; one that is reserved is left alone.
    Replace,
}

/// Which runs take place that an outage has made late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// The latest.
    One,
    /// All, at most 1,000; only with [`Overlap::Allow`].
    All,
    /// None.
    None,
}

impl NewSchedule {
    /// A schedule by the wall clock in UTC.
    #[must_use]
    pub fn cron(pattern: impl Into<String>, job: NewJob) -> Self {
        Self::new(Recurrence::Cron { cron: pattern.into(), time_zone: None }, job)
    }

    /// A schedule at an interval.
    #[must_use]
    pub fn every(interval: Duration, job: NewJob) -> Self {
        Self::new(Recurrence::Every { every: interval }, job)
    }

    /// A schedule by this rule, with the server's defaults.
    #[must_use]
    pub fn new(recurrence: Recurrence, job: NewJob) -> Self {
        Self {
            recurrence,
            start: None,
            end: None,
            jitter: None,
            overlap: None,
            missed: None,
            missed_within: None,
            job,
        }
    }
}

/// A schedule as the server has it.
#[derive(Debug, Clone, Deserialize)]
pub struct Schedule {
    /// The name.
    pub name: String,
    /// The pattern, if it runs by the wall clock.
    pub cron: Option<String>,
    /// The zone of the pattern.
    pub time_zone: Option<String>,
    /// The interval, if it runs at one.
    #[serde(default, deserialize_with = "some_seconds")]
    pub every: Option<Duration>,
    /// No run is before this moment.
    pub start: Option<Timestamp>,
    /// No run is after this moment.
    pub end: Option<Timestamp>,
    /// Runs are due up to so long after their moment.
    #[serde(default, deserialize_with = "some_seconds")]
    pub jitter: Option<Duration>,
    /// `skip`, `allow` or `replace`; later servers may have more.
    pub overlap: String,
    /// `one`, `all` or `none`; later servers may have more.
    pub missed: String,
    /// How late runs may be that an outage has made late.
    #[serde(default, deserialize_with = "some_seconds")]
    pub missed_within: Option<Duration>,
    /// The job of each run, as it was sent.
    pub job: Box<RawValue>,
    /// Counts the changes by clients, from 1.
    pub revision: u64,
    /// `active`, `paused`, `waiting`, `ahead` or `ended`; later servers may have more.
    pub state: String,
    /// The moments of the next runs, at most three but for a preview, also while it is paused.
    pub next: Vec<Timestamp>,
    /// The moment of the last run, also of one that was left out.
    pub last: Option<Timestamp>,
    /// The id of the job of the last run.
    pub last_job: Option<String>,
    /// Set while a run is due that cannot be added.
    pub waiting: Option<Waiting>,
    /// How many runs there were.
    pub runs: RunCounts,
    /// The changes of clocks that meet a run; only of a preview.
    #[serde(default)]
    pub clock_changes: Vec<ClockChange>,
}

/// A time of a pattern that clocks leave out or show twice when they are changed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ClockChange {
    /// When the run is.
    pub at: Timestamp,
    /// The time by the clocks of the zone.
    pub time: DateTime,
    /// `skipped` if the clocks leave the time out, `repeated` if they show it twice.
    pub effect: String,
}

/// Why a run that is due has not been added.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Waiting {
    /// When it could not be added for the first time.
    pub since: Timestamp,
    /// `store_full`, `intake_paused`, or another code with which an add would be refused.
    pub reason: String,
}

/// How many runs had which end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct RunCounts {
    /// A job was added.
    pub fired: u64,
    /// Left out because of the previous run.
    pub overlap: u64,
    /// Left out after an outage.
    pub missed: u64,
}

/// A page of schedules.
#[derive(Debug, Clone, Deserialize)]
pub struct SchedulePage {
    /// The schedules, by name.
    pub schedules: Vec<Schedule>,
    /// Where the next page begins; none after the last.
    pub next_cursor: Option<String>,
}

/// The answer to a put.
#[derive(Debug, Clone)]
pub struct PutSchedule {
    /// The schedule.
    pub schedule: Schedule,
    /// Whether there was none of this name; false also if an earlier attempt of the call made it.
    pub is_new: bool,
}
