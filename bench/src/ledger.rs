//! The record of each job of a step: its due time, its deliveries, its finish. Owns what counts as lost, doubled
//! and early; does no I/O.

use std::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use serde::Serialize;

/// Reservations of a bench last so long that none ends within it, short of a server that hangs.
pub(crate) const TTR: Duration = Duration::from_secs(600);

/// A job that was not delivered although the server said for this long after the last one that it has none is
/// lost.
const QUIET_US: i64 = 10_000_000;

/// What went wrong with jobs, over all steps.
#[derive(Debug, Default)]
pub struct Tally {
    pub(crate) jobs: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) doubled: AtomicU64,
    pub(crate) early: AtomicU64,
}

/// The results of all jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Jobs that the server took.
    pub jobs: u64,
    /// Jobs that were never delivered.
    pub lost: u64,
    /// Deliveries of a job that another worker held or had finished.
    pub doubled: u64,
    /// Deliveries before the due time.
    pub early: u64,
}

impl Tally {
    /// The counts so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let Self { jobs, lost, doubled, early } = self;
        let [jobs, lost, doubled, early] = [jobs, lost, doubled, early].map(|count| count.load(Relaxed));
        Totals { jobs, lost, doubled, early }
    }
}

/// What a delivery was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The first of its job, this long after its due moment.
    First {
        /// How late it was, in microseconds; negative for an early one.
        late_us: i64,
    },
    /// Another one, though the reservation before had not ended.
    Doubled,
    /// Another one, after the reservation before had ended.
    Again,
}

/// The jobs of one step, by number.
#[derive(Debug)]
pub struct Ledger(Mutex<Jobs>);

#[derive(Debug, Default)]
struct Jobs {
    entries: Vec<Entry>,
    /// How many the server says it has taken.
    taken: usize,
    delivered: usize,
    finished: usize,
    /// The latest due moment, first delivery or finish.
    last_us: i64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    due_us: i64,
    /// Of the latest delivery; 0 without one.
    delivered_us: i64,
    is_finished: bool,
}

impl Ledger {
    /// For jobs 0 to `jobs` - 1.
    #[must_use]
    pub fn new(jobs: usize) -> Self {
        Self(Mutex::new(Jobs { entries: vec![Entry::default(); jobs], ..Jobs::default() }))
    }

    /// A job is about to be added, and must not be delivered before `due_us`.
    pub fn expect(&self, number: usize, due_us: i64) {
        let mut jobs = self.lock();
        jobs.last_us = jobs.last_us.max(due_us);
        if let Some(entry) = jobs.entries.get_mut(number) {
            entry.due_us = due_us;
        }
    }

    /// The server took `count` jobs.
    pub fn taken(&self, count: usize) {
        self.lock().taken += count;
    }

    /// A job was delivered; none when there is no such job.
    pub fn deliver(&self, number: usize, now_us: i64, tally: &Tally) -> Option<Delivery> {
        let mut jobs = self.lock();
        let entry = jobs.entries.get_mut(number)?;
        let before_us = std::mem::replace(&mut entry.delivered_us, now_us);
        let (late_us, was_finished) = (now_us - entry.due_us, entry.is_finished);
        if late_us < 0 {
            tally.early.fetch_add(1, Relaxed);
        }
        if before_us == 0 {
            jobs.delivered += 1;
            jobs.last_us = jobs.last_us.max(now_us);
            return Some(Delivery::First { late_us });
        }
        let ttr_us = i64::try_from(TTR.as_micros()).unwrap_or(i64::MAX);
        if was_finished || now_us - before_us < ttr_us {
            tally.doubled.fetch_add(1, Relaxed);
            return Some(Delivery::Doubled);
        }
        Some(Delivery::Again)
    }

    /// The server said that jobs are finished.
    pub fn finish(&self, numbers: impl Iterator<Item = usize>, now_us: i64) {
        let mut jobs = self.lock();
        for number in numbers {
            let entry = jobs.entries.get_mut(number).filter(|entry| !entry.is_finished);
            if let Some(entry) = entry {
                entry.is_finished = true;
                jobs.finished += 1;
            }
        }
        jobs.last_us = jobs.last_us.max(now_us);
    }

    /// Whether every job is finished.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let jobs = self.lock();
        jobs.finished == jobs.entries.len()
    }

    /// Whether the missing jobs are lost: the server has just answered that it has none.
    #[must_use]
    pub fn are_missing_lost(&self, now_us: i64) -> bool {
        let jobs = self.lock();
        let is_all_added = jobs.taken == jobs.entries.len();
        is_all_added && jobs.delivered < jobs.entries.len() && now_us - jobs.last_us > QUIET_US
    }

    /// The latest due moment, first delivery or finish.
    #[must_use]
    pub fn last_us(&self) -> i64 {
        self.lock().last_us
    }

    /// Counts the jobs that the server took and never delivered as lost. To be called once, at the end.
    pub fn close(&self, tally: &Tally) {
        let jobs = self.lock();
        let count = |jobs| u64::try_from(jobs).unwrap_or(u64::MAX);
        tally.jobs.fetch_add(count(jobs.taken), Relaxed);
        tally.lost.fetch_add(count(jobs.taken.saturating_sub(jobs.delivered)), Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.0.lock().expect("no code panics while it holds the ledger")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_doubled_and_early_jobs_are_counted() {
        let (ledger, tally) = (Ledger::new(4), Tally::default());
        for number in 0..4 {
            ledger.expect(number, 1_000);
        }
        ledger.taken(4);
        assert_eq!(ledger.deliver(0, 1_000, &tally), Some(Delivery::First { late_us: 0 }));
        assert_eq!(ledger.deliver(1, 999, &tally), Some(Delivery::First { late_us: -1 }));
        assert_eq!(ledger.deliver(1, 1_001, &tally), Some(Delivery::Doubled));
        assert_eq!(ledger.deliver(2, 1_002, &tally), Some(Delivery::First { late_us: 2 }));
        assert_eq!(ledger.deliver(2, 1_002 + 600_000_000, &tally), Some(Delivery::Again));
        assert_eq!(ledger.deliver(4, 2_000, &tally), None);
        ledger.finish(0..3, 2_000);
        assert_eq!(ledger.deliver(0, 1_000 + 700_000_000, &tally), Some(Delivery::Doubled), "was finished");
        ledger.close(&tally);
        assert_eq!(tally.totals(), Totals { jobs: 4, lost: 1, doubled: 2, early: 1 });
    }

    #[test]
    fn missing_jobs_are_lost_some_time_after_the_last_one_was_due_or_came() {
        let (ledger, tally) = (Ledger::new(1), Tally::default());
        ledger.expect(0, 5_000);
        assert!(!ledger.are_missing_lost(i64::MAX), "not yet added");
        ledger.taken(1);
        assert!(!ledger.are_missing_lost(5_000 + QUIET_US));
        assert!(ledger.are_missing_lost(5_001 + QUIET_US));
        ledger.deliver(0, 6_000, &tally);
        assert!(!ledger.are_missing_lost(i64::MAX));
        assert!(!ledger.is_done());
        ledger.finish(std::iter::once(0), 7_000);
        assert!(ledger.is_done());
    }
}
