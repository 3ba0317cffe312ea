//! Occurrences in a span of time, whose number may be millions: searched from its end, not walked.

use super::Recurrence;
use crate::job::Timestamp;

impl Recurrence {
    /// The latest occurrence after `after` and at or before `until`, found by bisection.
    #[must_use]
    pub fn latest(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let within = |from| self.following(from).filter(|found| *found <= until);
        let mut latest = within(after)?;
        // None is after this moment and within the span.
        let mut empty_from = until;
        while latest < empty_from {
            let middle = middle(latest, empty_from);
            match within(middle) {
                Some(found) => latest = found,
                None => empty_from = middle,
            }
        }
        Some(latest)
    }

    /// The latest occurrences after `after` and at or before `until`, at most `limit`, in order.
    #[must_use]
    pub fn latest_few(&self, after: Timestamp, until: Timestamp, limit: usize) -> Vec<Timestamp> {
        let mut few: Vec<Timestamp> = self.occurrences(after, until).take(limit + 1).collect();
        if few.len() <= limit {
            return few;
        }
        // At least one is too many, so the span is longer than a millisecond.
        let middle = middle(after, until);
        let mut later = self.latest_few(middle, until, limit);
        if later.len() < limit {
            few = self.latest_few(after, middle, limit - later.len());
            few.append(&mut later);
            return few;
        }
        later
    }

    /// The occurrences after `after` and at or before `until`, in order.
    pub fn occurrences(&self, after: Timestamp, until: Timestamp) -> impl Iterator<Item = Timestamp> {
        let within = move |from| self.following(from).filter(|found| *found <= until);
        std::iter::successors(within(after), move |found| within(*found))
    }
}

fn middle(from: Timestamp, to: Timestamp) -> Timestamp {
    Timestamp::from_millis(from.as_millis().midpoint(to.as_millis()))
}
