//! The times of a pattern that clocks leave out or show twice when they are changed.

use jiff::{Timestamp as Moment, ToSpan, civil::DateTime, tz::TimeZone};

use super::{CronPattern, Recurrence, Rule};
use crate::job::Timestamp;

/// A time of the pattern at which the clocks of its zone are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockChange {
    /// When the run is.
    pub at: Timestamp,
    /// The time by the clocks of the zone.
    pub time: DateTime,
    /// What the clocks do with it.
    pub effect: ClockEffect,
}

/// What clocks that are changed do with a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockEffect {
    /// They leave it out: the run is right after the gap.
    Skipped,
    /// They show it twice: the run is at the first.
    Repeated,
}

impl ClockEffect {
    /// The name in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Repeated => "repeated",
        }
    }
}

impl Recurrence {
    /// The changes of the clocks that meet a run after `after` and at or before `until`, each with the first such run. A pattern
    /// that follows the time that passes has none.
    #[must_use]
    pub fn clock_changes(&self, after: Timestamp, until: Timestamp) -> Vec<ClockChange> {
        let Rule::Cron { pattern, zone } = self.rule() else { return Vec::new() };
        let moment = |at: Timestamp| Moment::from_millisecond(at.as_millis()).ok();
        let Some((from, to)) = moment(after).zip(moment(until)).filter(|_| pattern.has_fixed_times()) else {
            return Vec::new();
        };
        let is_meant = |change: &ClockChange| change.at > after && self.is_open_at(change.at);
        let changes = zone.rules.following(from).map(|change| change.timestamp());
        let within = changes.take_while(|change| *change <= to);
        within.filter_map(|change| met(pattern, &zone.rules, change).find(is_meant)).collect()
    }
}

/// The times of the pattern that a change of the clocks leaves out or repeats.
fn met(pattern: &CronPattern, zone: &TimeZone, change: Moment) -> impl Iterator<Item = ClockChange> {
    let before = zone.to_offset(change.checked_sub(1.second()).unwrap_or(change));
    let (old, new) = (before.to_datetime(change), zone.to_offset(change).to_datetime(change));
    let (end, is_gap) = (old.max(new), old < new);
    let first = move |from: DateTime| pattern.first_match(from).filter(|time| *time < end);
    let times =
        std::iter::successors(first(old.min(new)), move |time| first(time.checked_add(1.second()).ok()?));
    times.filter_map(move |time| {
        let (at, effect) = match is_gap {
            true => (change, ClockEffect::Skipped),
            false => (before.to_timestamp(time).ok()?, ClockEffect::Repeated),
        };
        Some(ClockChange { at: Timestamp::from_millis(at.as_millisecond()), time, effect })
    })
}
