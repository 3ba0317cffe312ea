//! What the clients of a load run sent and saw, and what of it breaks a promise.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant, SystemTime},
};

/// One record for all producers and workers.
#[derive(Debug, Default)]
pub struct Ledger {
    /// By id: the moment before which it may not be delivered.
    earliest: HashMap<String, Instant>,
    acked: HashSet<String>,
    /// By id: until when its present holder has it to itself.
    held: HashMap<String, Instant>,
    finished: HashSet<String>,
    /// How many ids are in both.
    acked_and_finished: usize,
    late_us: Vec<u64>,
    /// Deliveries beyond the first of a job: its holder was too slow, or never saw it.
    pub again: usize,
    /// Every broken promise, in words.
    pub broken: Vec<String>,
}

impl Ledger {
    /// An add is about to be sent. Sent again after a cut connection it counts from the first sending:
    /// that one may have been taken.
    pub fn sending(&mut self, id: &str, delay: Duration) {
        self.earliest.entry(id.to_owned()).or_insert_with(|| Instant::now() + delay);
    }

    /// An add was acknowledged.
    pub fn acked(&mut self, id: &str) {
        let new = self.acked.insert(id.to_owned());
        // A worker can be quicker than the answer to the producer.
        self.acked_and_finished += usize::from(new && self.finished.contains(id));
    }

    /// A job was delivered, to be held for `ttr` from when the pop was `asked`; its due time by the
    /// server was `due_at`.
    pub fn delivered(&mut self, id: &str, asked: Instant, ttr: Duration, due_at: SystemTime) {
        let now = Instant::now();
        match self.earliest.get(id) {
            None => self.broken.push(format!("{id} was delivered and never sent")),
            Some(earliest) if now < *earliest => {
                self.broken.push(format!("{id} was delivered {:?} early", *earliest - now));
            }
            Some(_) => {}
        }
        if self.finished.contains(id) {
            self.broken.push(format!("{id} was delivered after its finish was acknowledged"));
        }
        // The reservation began after the pop was asked for, so it cannot have ended before this.
        if let Some(until) = self.held.insert(id.to_owned(), asked + ttr) {
            self.again += 1;
            if now < until {
                self.broken
                    .push(format!("{id} was delivered while another held it for {:?} more", until - now));
            }
        }
        let late = SystemTime::now().duration_since(due_at).unwrap_or_default();
        self.late_us.push(u64::try_from(late.as_micros()).unwrap_or(u64::MAX));
    }

    /// A finish was acknowledged.
    pub fn finished(&mut self, id: &str) {
        if !self.gone(id) {
            self.broken.push(format!("{id} was finished twice"));
        }
    }

    /// A job is known to be done, perhaps because a finish found nothing after one whose answer was cut.
    /// Whether that is news.
    pub fn gone(&mut self, id: &str) -> bool {
        let new = self.finished.insert(id.to_owned());
        self.acked_and_finished += usize::from(new && self.acked.contains(id));
        new
    }

    /// A finish was refused as late, which is only true once the holder's time is over.
    pub fn refused(&mut self, id: &str, held_until: Instant) {
        if Instant::now() < held_until {
            self.broken.push(format!("{id} was taken from its holder before its time was over"));
        }
    }

    /// Acknowledged jobs not yet finished.
    pub fn open(&self) -> usize {
        self.acked.len() - self.acked_and_finished
    }

    /// Jobs acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        self.acked.len()
    }

    /// Lateness at a percentile from 0 to 100, in milliseconds.
    pub fn late_ms(&mut self, percentile: f64) -> f64 {
        self.late_us.sort_unstable();
        let last = self.late_us.len().saturating_sub(1);
        let index = (last as f64 * percentile / 100.0).round() as usize;
        self.late_us.get(index).map_or(0.0, |us| *us as f64 / 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTR: Duration = Duration::from_secs(60);

    fn delivered(ledger: &mut Ledger, id: &str, ttr: Duration) {
        ledger.delivered(id, Instant::now(), ttr, SystemTime::now());
    }

    #[test]
    fn a_clean_history_is_clean() {
        let mut ledger = Ledger::default();
        ledger.sending("a", Duration::ZERO);
        ledger.acked("a");
        delivered(&mut ledger, "a", Duration::ZERO);
        delivered(&mut ledger, "a", TTR);
        ledger.finished("a");
        assert_eq!((ledger.broken.len(), ledger.open(), ledger.again), (0, 0, 1));
    }

    #[test]
    fn every_broken_promise_is_seen() {
        let mut ledger = Ledger::default();
        ledger.sending("early", TTR);
        delivered(&mut ledger, "early", TTR);
        delivered(&mut ledger, "unknown", TTR);
        ledger.sending("twice", Duration::ZERO);
        delivered(&mut ledger, "twice", TTR);
        delivered(&mut ledger, "twice", TTR);
        ledger.sending("after", Duration::ZERO);
        ledger.finished("after");
        delivered(&mut ledger, "after", TTR);
        ledger.finished("after");
        ledger.refused("taken", Instant::now() + TTR);
        ledger.acked("lost");
        assert_eq!(ledger.open(), 1);
        for word in
            ["early", "never sent", "another held", "after its finish", "finished twice", "taken from"]
        {
            assert!(ledger.broken.iter().any(|line| line.contains(word)), "{word}: {:#?}", ledger.broken);
        }
    }
}
