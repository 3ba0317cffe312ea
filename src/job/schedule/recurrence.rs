//! When a schedule runs: by a pattern in a time zone, or at an interval, between two moments.

use std::time::Duration;

use super::{CronPattern, ScheduleError, Zone, occurrences::first_occurrence};
use crate::job::{Delay, Timestamp, time::ceil_millis};

/// The rule of the occurrences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// By the wall clock of a zone.
    Cron {
        /// The times that match.
        pattern: CronPattern,
        /// Where the wall clock is.
        zone: Zone,
    },
    /// At an interval of whole milliseconds, by the time that has passed since the start, or since 1970.
    Every(Duration),
}

/// When a schedule runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recurrence {
    rule: Rule,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
}

/// What a client says about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecurrenceFields {
    /// A pattern.
    pub cron: Option<String>,
    /// Or an interval.
    pub every: Option<Duration>,
    /// The zone of the pattern.
    pub time_zone: Option<String>,
    /// No occurrence is before this moment.
    pub start: Option<Timestamp>,
    /// No occurrence is after this moment.
    pub end: Option<Timestamp>,
}

/// From this moment on a pattern must have an occurrence: 2026-01-01. A fixed one, so that the answer does not depend on when
/// it is asked.
const CHECKED_FROM_MS: i64 = 1_767_225_600_000;

/// How many intervals of a pattern are compared to find the longest.
const COMPARED_INTERVALS: usize = 100;

impl Recurrence {
    /// Shortest interval.
    pub const MIN_EVERY: Duration = Duration::from_secs(1);

    /// Reads what a client says. Whether a pattern ever matches is left to [`check`](Self::check).
    ///
    /// # Errors
    /// [`ScheduleError`] with the field that is missing, too much, or malformed.
    pub fn parse(fields: &RecurrenceFields) -> Result<Self, ScheduleError> {
        let refused = |field, problem: &str| Err(ScheduleError::new(field, problem));
        let RecurrenceFields { cron, every, time_zone, start, end } = fields;
        let rule = match (cron, every) {
            (Some(_), Some(_)) => return refused("every", "must not be beside cron; leave one of them out"),
            (None, None) => {
                return refused("cron", "is missing; set it, such as to \"0 9 * * *\", or set every");
            }
            (Some(cron), None) => Rule::Cron {
                pattern: CronPattern::parse(cron)?,
                zone: Zone::parse(time_zone.as_deref().unwrap_or(Zone::DEFAULT))?,
            },
            (None, Some(_)) if time_zone.is_some() => {
                return refused("time_zone", "has no meaning for every; leave it out, or use cron");
            }
            (None, Some(every)) if !(Self::MIN_EVERY..=Delay::MAX).contains(every) => {
                return refused("every", "must be between 1 s and 10 years");
            }
            (None, Some(every)) => Rule::Every(Duration::from_millis(ceil_millis(*every).unsigned_abs())),
        };
        if start.zip(*end).is_some_and(|(start, end)| end < start) {
            return refused("end", "must not be before start");
        }
        Ok(Self { rule, start: *start, end: *end })
    }

    /// Refuses a pattern that never matches.
    ///
    /// # Errors
    /// [`ScheduleError`] if there is no occurrence in 41 years, whatever start and end are.
    pub fn check(&self) -> Result<(), ScheduleError> {
        let Rule::Cron { zone, .. } = &self.rule else { return Ok(()) };
        if self.first_by_rule(CHECKED_FROM_MS).is_some() {
            return Ok(());
        }
        let problem = format!(
            "never matches in the zone {}: no year has such a date, or the clocks leave out that time; change its day, month or hour",
            zone.name()
        );
        Err(ScheduleError::new("cron", problem))
    }

    /// The rule.
    #[must_use]
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// No occurrence is before this moment.
    #[must_use]
    pub fn start(&self) -> Option<Timestamp> {
        self.start
    }

    /// No occurrence is after this moment.
    #[must_use]
    pub fn end(&self) -> Option<Timestamp> {
        self.end
    }

    /// Whether another version of the zone database may have other occurrences.
    #[must_use]
    pub fn has_zone(&self) -> bool {
        matches!(self.rule, Rule::Cron { .. })
    }

    /// Whether the occurrences of both are the same, but for those that `start` and `end` leave out.
    #[must_use]
    pub fn has_occurrences_of(&self, other: &Self) -> bool {
        let counts_from = |this: &Self| (!this.has_zone()).then_some(this.start).flatten();
        self.rule == other.rule && counts_from(self) == counts_from(other)
    }

    /// The first occurrence after a moment. The work is bounded: some thousand steps for the rarest patterns, and a few for
    /// usual ones.
    #[must_use]
    pub fn following(&self, after: Timestamp) -> Option<Timestamp> {
        let start = self.start.map_or(0, Timestamp::as_millis);
        let first = self.first_by_rule(start.max(after.as_millis() + 1))?;
        (self.end.is_none_or(|end| first <= end)).then_some(first)
    }

    /// Whether a moment is between start and end.
    #[must_use]
    pub fn is_open_at(&self, moment: Timestamp) -> bool {
        self.start.is_none_or(|start| start <= moment) && self.end.is_none_or(|end| moment <= end)
    }

    /// No two occurrences are closer.
    pub(super) fn shortest_interval(&self) -> Duration {
        match &self.rule {
            Rule::Cron { pattern, .. } if pattern.has_seconds() => Duration::from_secs(1),
            Rule::Cron { .. } => Duration::from_secs(60),
            Rule::Every(every) => *every,
        }
    }

    /// The time from an occurrence to the next one of the rule, also if the end comes before.
    pub(super) fn interval_after(&self, occurrence: Timestamp) -> Option<Duration> {
        let next = self.first_by_rule(occurrence.as_millis() + 1)?;
        Some(next.since(occurrence))
    }

    /// The longest interval, of a pattern the longest of some.
    pub(super) fn longest_interval(&self) -> Duration {
        let mut occurrence = self.first_by_rule(CHECKED_FROM_MS);
        let mut longest = Duration::ZERO;
        for _ in 0..COMPARED_INTERVALS {
            let Some(next) = occurrence.and_then(|this| self.first_by_rule(this.as_millis() + 1)) else {
                break;
            };
            longest = occurrence.map_or(longest, |this| longest.max(next.since(this)));
            occurrence = Some(next);
        }
        longest
    }

    /// The first occurrence at or after a moment, whatever start and end are.
    fn first_by_rule(&self, from_ms: i64) -> Option<Timestamp> {
        let found_ms = match &self.rule {
            Rule::Cron { pattern, zone } => {
                let from_s = from_ms.div_euclid(1_000) + i64::from(from_ms.rem_euclid(1_000) != 0);
                let from = jiff::Timestamp::from_second(from_s).ok()?;
                first_occurrence(pattern, &zone.rules, from)?.as_millisecond()
            }
            Rule::Every(every) => {
                let every_ms = i64::try_from(every.as_millis()).ok()?;
                let origin_ms = self.start.map_or(0, Timestamp::as_millis);
                let since_ms = (from_ms - origin_ms).max(0);
                let count = since_ms / every_ms + i64::from(since_ms % every_ms != 0);
                origin_ms + count * every_ms
            }
        };
        (found_ms <= Timestamp::MAX.as_millis()).then(|| Timestamp::from_millis(found_ms))
    }
}
