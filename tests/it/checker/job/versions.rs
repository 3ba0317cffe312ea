//! The versions of a job: each add with a higher revision replaces the one before.

use std::time::Duration;

use super::JobHistory;
use crate::checker::{Event, Law};

/// The adds of a lifetime that may have taken effect.
pub(super) struct Versions<'a>(Vec<(u64, Duration, &'a Event)>);

/// The adds with one revision, each of which may be the one that took effect.
pub(super) struct Version {
    /// When the first of them was sent.
    pub sent: Duration,
    /// The earliest due time.
    pub due: Duration,
    /// The latest due time.
    pub latest_due: Duration,
    /// When the first success was answered.
    acknowledged: Option<Duration>,
}

impl Version {
    pub fn is_certain_at(&self, time: Duration) -> bool {
        self.acknowledged.is_some_and(|acknowledged| acknowledged <= time)
    }
}

impl<'a> Versions<'a> {
    pub fn new(events: &[&'a Event]) -> Self {
        let possible = events.iter().copied().filter(|event| event.possible());
        let adds = possible.filter_map(|event| {
            let add = event.action.added()?;
            Some((add.revision, add.delay, event))
        });
        Self(adds.collect())
    }

    /// The version with this revision, if one was sent.
    pub fn of(&self, revision: u64) -> Option<Version> {
        let adds = || self.0.iter().filter(|(added, ..)| *added == revision);
        let acknowledged =
            adds().filter(|(_, _, event)| event.done()).map(|(_, _, event)| event.answered).min();
        // A later add of the same revision changes nothing.
        let is_first = |event: &Event| acknowledged.is_none_or(|acknowledged| event.sent < acknowledged);
        let first_adds = adds().filter(|(_, _, event)| is_first(event));
        Some(Version {
            sent: adds().map(|(_, _, event)| event.sent).min()?,
            due: adds().map(|(_, delay, event)| event.sent + *delay).min()?,
            latest_due: first_adds.map(|(_, delay, event)| event.answered + *delay).max()?,
            acknowledged,
        })
    }

    /// The highest revision that the job has for certain at `time`.
    pub fn certain_at(&self, time: Duration) -> Option<u64> {
        let certain = self.0.iter().filter(|(_, _, event)| event.done() && event.answered <= time);
        certain.map(|(revision, ..)| *revision).max()
    }

    /// The highest revision that the job may have at `time`.
    pub fn possible_at(&self, time: Duration) -> Option<u64> {
        let possible = self.0.iter().filter(|(_, _, event)| event.sent < time);
        possible.map(|(revision, ..)| *revision).max()
    }
}

impl JobHistory<'_> {
    pub(super) fn check_versions(&mut self) {
        let mut found = Vec::new();
        for delivery in &self.deliveries {
            let (revision, newest) = (delivery.revision, self.versions.certain_at(delivery.event.sent));
            if let Some(newest) = newest.filter(|newest| *newest > revision) {
                found.push(format!("was delivered with revision {revision} after it had revision {newest}"));
            }
        }
        found.into_iter().for_each(|description| self.violation(Law::NewestVersion, description));
    }
}
