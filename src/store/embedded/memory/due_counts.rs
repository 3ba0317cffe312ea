//! How many jobs are due in each minute and in each hour, so that a timeline of years needs no look at a job. Knows neither
//! jobs nor topics.

use std::collections::{BTreeMap, btree_map::Entry};

use crate::store::{Minute, Span};

const MINUTES_PER_HOUR: u32 = 60;

/// Counts by minute and by hour. What is 0 takes no space; an entry takes some 16 bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DueCounts {
    minutes: BTreeMap<u32, u32>,
    hours: BTreeMap<u32, u32>,
}

impl DueCounts {
    pub fn add(&mut self, due: Minute) {
        add_one(&mut self.minutes, due.0);
        add_one(&mut self.hours, due.0 / MINUTES_PER_HOUR);
    }

    /// Removes a job that was added.
    pub fn remove(&mut self, due: Minute) {
        remove_one(&mut self.minutes, due.0);
        remove_one(&mut self.hours, due.0 / MINUTES_PER_HOUR);
    }

    /// The jobs due in each step of `span`.
    pub fn count(&self, span: &Span) -> Vec<u64> {
        span.step_bounds().map(|(from, to)| self.between(from.0, to.0)).collect()
    }

    /// The jobs due from minute `from` on and before minute `to`: whole hours where there are any, else minutes.
    fn between(&self, from: u32, to: u32) -> u64 {
        let first_hour = from.div_ceil(MINUTES_PER_HOUR);
        let end_hour = to / MINUTES_PER_HOUR;
        if first_hour >= end_hour {
            return sum(&self.minutes, from, to);
        }
        sum(&self.minutes, from, first_hour * MINUTES_PER_HOUR)
            + sum(&self.hours, first_hour, end_hour)
            + sum(&self.minutes, end_hour * MINUTES_PER_HOUR, to)
    }
}

fn sum(counts: &BTreeMap<u32, u32>, from: u32, to: u32) -> u64 {
    counts.range(from..to).map(|(_, count)| u64::from(*count)).sum()
}

fn add_one(counts: &mut BTreeMap<u32, u32>, at: u32) {
    let count = counts.entry(at).or_default();
    *count = count.checked_add(1).expect("memory ends long before the count does");
}

fn remove_one(counts: &mut BTreeMap<u32, u32>, at: u32) {
    let Entry::Occupied(mut count) = counts.entry(at) else { panic!("only a counted job is removed") };
    *count.get_mut() -= 1;
    if *count.get() == 0 {
        count.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_span_counts_what_was_added_and_not_removed(
            added in prop::collection::vec(0_u32..2_000, 0..200),
            removed in 0_usize..200,
            from in 0_u32..2_000, step in 1_u32..200, steps in 1_u32..20,
        ) {
            let mut counts = DueCounts::default();
            added.iter().for_each(|minute| counts.add(Minute(*minute)));
            let left = added.split_at(removed.min(added.len())).1;
            added[..added.len() - left.len()].iter().for_each(|minute| counts.remove(Minute(*minute)));
            let span = Span::new(Minute(from), step, steps).expect("is short");
            let by_hand = span.step_bounds().map(|(from, to)| {
                left.iter().filter(|minute| (from.0..to.0).contains(*minute)).count() as u64
            });
            prop_assert_eq!(counts.count(&span), by_hand.collect::<Vec<u64>>());
            if left.is_empty() {
                prop_assert_eq!(counts, DueCounts::default());
            }
        }
    }
}
