//! How often the events of jobs happened in some time, and how late the jobs were.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::event::Event;

/// Upper bounds of the steps of lateness, in milliseconds; the last step has none.
const BOUNDS_MS: [u64; 15] =
    [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000, 120_000, 900_000, 7_200_000];

/// How many jobs were late by each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lateness([u64; BOUNDS_MS.len() + 1]);

/// How often each event happened in some time, and how late jobs were in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventSummary {
    counts: [u64; Event::ALL.len()],
    /// From the due time until a job was ready.
    pub ready_late: Lateness,
    /// From the due time until the reservation that a worker or a callback got.
    pub delivered_late: Lateness,
}

/// What happened to the jobs of each topic in the last minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventsByTopic {
    /// The topics whose jobs had events.
    pub topics: BTreeMap<Arc<str>, EventSummary>,
    /// Whether these are all such topics, with all events.
    pub is_complete: bool,
}

impl Lateness {
    /// Counts a job.
    pub(super) fn record(&mut self, late: Duration) {
        self.0[BOUNDS_MS.partition_point(|bound| Duration::from_millis(*bound) < late)] += 1;
    }

    /// The lateness that `permille` of a thousand jobs did not exceed, rounded up to 1, 2, 5, 10, 25, 50 ms and so on;
    /// `None` if there were no jobs, or if it is more than two hours.
    #[must_use]
    pub fn quantile(&self, permille: u64) -> Option<Duration> {
        let all: u128 = self.0.iter().map(|count| u128::from(*count)).sum();
        let wanted = (all * u128::from(permille)).div_ceil(1_000).max(1);
        let mut seen = 0;
        let reaches = |(_, count): &(usize, &u64)| {
            seen += u128::from(**count);
            seen >= wanted
        };
        let (step, _) = self.0.iter().enumerate().find(reaches)?;
        BOUNDS_MS.get(step).map(|ms| Duration::from_millis(*ms))
    }

    /// The jobs of each step.
    #[must_use]
    pub fn steps(&self) -> &[u64] {
        &self.0
    }

    /// The counts of the first steps; all others are 0. Counts of more steps than there are were made by another version, and are
    /// left out.
    #[must_use]
    pub fn from_steps(first: &[u64]) -> Self {
        let mut steps = Self::default();
        if let Some(known) = steps.0.get_mut(..first.len()) {
            known.copy_from_slice(first);
        }
        steps
    }

    fn add(&mut self, other: &Self) {
        add_each(&mut self.0, &other.0);
    }
}

impl EventSummary {
    /// A summary of these counts.
    #[must_use]
    pub fn new(count: impl Fn(&str) -> u64, ready_late: Lateness, delivered_late: Lateness) -> Self {
        Self { counts: Event::ALL.map(|(_, name, _)| count(name)), ready_late, delivered_late }
    }

    /// How often `event` happened.
    #[must_use]
    pub fn count(&self, event: Event) -> u64 {
        self.counts[event as usize]
    }

    /// The events by the names of their metrics.
    pub fn named_counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Event::ALL.into_iter().map(|(event, name, _)| (name, self.count(event)))
    }

    /// Counts `n` more of an event.
    pub(super) fn record(&mut self, event: Event, n: u64) {
        self.counts[event as usize] += n;
    }

    /// Adds what happened elsewhere or at another time.
    pub fn add(&mut self, other: &Self) {
        add_each(&mut self.counts, &other.counts);
        self.ready_late.add(&other.ready_late);
        self.delivered_late.add(&other.delivered_late);
    }
}

impl EventsByTopic {
    /// Adds what happened elsewhere.
    pub fn add(&mut self, other: Self) {
        for (topic, summary) in other.topics {
            self.topics.entry(topic).or_default().add(&summary);
        }
        self.is_complete &= other.is_complete;
    }
}

/// Numbers of other processes may be anything.
fn add_each(sums: &mut [u64], counts: &[u64]) {
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_rounded_up() {
        let mut late = Lateness::default();
        assert_eq!(late.quantile(500), None);
        for us in [0, 900, 1_000, 1_001, 30_000_000] {
            late.record(Duration::from_micros(us));
        }
        let quantile = |late: &Lateness, permille| late.quantile(permille).map(|late| late.as_millis());
        let shown = [0, 600, 601, 990].map(|permille| quantile(&late, permille));
        assert_eq!(shown, [Some(1), Some(1), Some(2), Some(30_000)]);
        late.record(Duration::from_secs(86_400));
        assert_eq!(quantile(&late, 1_000), None, "more than two hours");
    }

    #[test]
    fn steps_that_are_left_out_at_the_end_are_empty() {
        let mut late = Lateness::default();
        late.record(Duration::from_millis(2));
        assert_eq!(Lateness::from_steps(&[0, 1]), late);
        assert_eq!(Lateness::from_steps(late.steps()), late);
        assert_eq!(Lateness::from_steps(&[1; 17]), Lateness::default(), "by steps that are not known here");
    }
}
