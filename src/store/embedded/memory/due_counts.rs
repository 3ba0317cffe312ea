//! How many jobs are due in each minute and in each hour, so that a timeline of years needs no look at a job. Knows neither
//! jobs nor topics.

use std::collections::{BTreeMap, btree_map::Entry};

use crate::store::{Minute, Span};

const MINUTES_PER_HOUR: u32 = 60;

/// Counts by minute and by hour. What is 0 takes no space; an entry takes some 16 bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct DueCounts {
    minutes: BTreeMap<u32, u32>,
    hours: BTreeMap<u32, u32>,
    /// The minute of the last job that was added, and jobs due then that the maps do not count. Most jobs in a row are due in
    /// the same minute, both when they are added with the same delay and when they are loaded in order of due time.
    recent: (u32, u32),
}

impl PartialEq for DueCounts {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (self.clone().flushed(), other.clone().flushed());
        one.minutes == other.minutes && one.hours == other.hours
    }
}

impl DueCounts {
    pub fn add(&mut self, due: Minute) {
        if self.recent.0 != due.0 {
            self.flush();
            self.recent.0 = due.0;
        }
        self.recent.1 = self.recent.1.checked_add(1).expect("memory ends long before the count does");
    }

    /// Removes a job that was added.
    pub fn remove(&mut self, due: Minute) {
        match &mut self.recent {
            (minute, count) if *minute == due.0 && *count > 0 => *count -= 1,
            _ => {
                remove_one(&mut self.minutes, due.0);
                remove_one(&mut self.hours, due.0 / MINUTES_PER_HOUR);
            }
        }
    }

    /// Adds the recent jobs to the maps.
    fn flush(&mut self) {
        let (minute, count) = self.recent;
        if count > 0 {
            add(&mut self.minutes, minute, count);
            add(&mut self.hours, minute / MINUTES_PER_HOUR, count);
            self.recent.1 = 0;
        }
    }

    fn flushed(mut self) -> Self {
        self.flush();
        self
    }

    /// The jobs due in each step of `span`.
    pub fn count(&self, span: &Span) -> Vec<u64> {
        span.step_bounds().map(|(from, to)| self.between(from.0, to.0)).collect()
    }

    /// The jobs due from minute `from` on and before minute `to`: whole hours where there are any, else minutes.
    fn between(&self, from: u32, to: u32) -> u64 {
        let (minute, count) = self.recent;
        let recent = if (from..to).contains(&minute) { u64::from(count) } else { 0 };
        let first_hour = from.div_ceil(MINUTES_PER_HOUR);
        let end_hour = to / MINUTES_PER_HOUR;
        if first_hour >= end_hour {
            return recent + sum(&self.minutes, from, to);
        }
        recent
            + sum(&self.minutes, from, first_hour * MINUTES_PER_HOUR)
            + sum(&self.hours, first_hour, end_hour)
            + sum(&self.minutes, end_hour * MINUTES_PER_HOUR, to)
    }
}

fn sum(counts: &BTreeMap<u32, u32>, from: u32, to: u32) -> u64 {
    counts.range(from..to).map(|(_, count)| u64::from(*count)).sum()
}

fn add(counts: &mut BTreeMap<u32, u32>, at: u32, number: u32) {
    let count = counts.entry(at).or_default();
    *count = count.checked_add(number).expect("memory ends long before the count does");
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
            runs in prop::collection::vec((0_u32..2_000, 1_usize..4), 0..100),
            removed in 0_usize..200,
            from in 0_u32..2_000, step in 1_u32..200, steps in 1_u32..20,
        ) {
            let added: Vec<u32> = runs.iter().flat_map(|(minute, jobs)| vec![*minute; *jobs]).collect();
            let mut counts = DueCounts::default();
            added.iter().for_each(|minute| counts.add(Minute(*minute)));
            let left = added.split_at(removed.min(added.len())).1;
            added[..added.len() - left.len()].iter().for_each(|minute| counts.remove(Minute(*minute)));
            let span = Span::new(Minute(from), step, steps).expect("is short");
            let by_hand = span.step_bounds().map(|(from, to)| {
                left.iter().filter(|minute| (from.0..to.0).contains(*minute)).count() as u64
            });
            prop_assert_eq!(counts.count(&span), by_hand.collect::<Vec<u64>>());
            let mut again = DueCounts::default();
            left.iter().rev().for_each(|minute| again.add(Minute(*minute)));
            prop_assert_eq!(counts, again, "what is left is the same, however it came about");
        }
    }
}
