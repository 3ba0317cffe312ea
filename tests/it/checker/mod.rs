//! The history checker: a log of what clients sent and saw, held against the promises.
//!
//! It knows neither HTTP nor engines. A client's call is an interval: whatever it did happened between
//! sending and answer. The checker finds fault only where no moment in those intervals would do, so a
//! violation is never a matter of timing in the client. Its own tests hand it a broken history for
//! every law.

mod history;
mod job;
mod lives;
mod rest;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt::{Display, Formatter, Result},
};

pub use history::{Act, Event, History, Said, Sent};
pub use rest::{Rest, Resting};

/// The promises of which a history can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Law {
    /// A job whose add was acknowledged is there until it is finished or deleted.
    NothingLost,
    /// What is delivered or kept was sent by somebody.
    NothingInvented,
    /// No delivery before the job is due.
    NeverEarly,
    /// Nobody else gets a job between a reservation and its end, and its holder is not refused.
    OneHolder,
    /// The receipt of an ended reservation changes nothing.
    StaleReceipt,
    /// A finished or deleted job is never seen again, and goes only once, unless it was added again.
    GoneStaysGone,
    /// Attempts count up, and never beyond `max_attempts`.
    Attempts,
    /// Dead letters are exactly the jobs that were buried or used their attempts.
    DeadLetters,
    /// At rest the counts are those of the contents.
    Counts,
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub law: Law,
    /// Of which job; the topic's name for counts.
    pub job: String,
    /// How.
    pub words: String,
}

impl Display for Violation {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{:?}: {} {}", self.law, self.job, self.words)
    }
}

/// What a history amounts to.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Jobs whose add was acknowledged.
    pub acknowledged: usize,
    /// Of these, known to be finished or deleted.
    pub gone: usize,
    /// Deliveries seen.
    pub deliveries: usize,
    /// Deliveries beyond the first of a job.
    pub again: usize,
    /// Calls with a receipt that were refused.
    pub refused: usize,
    /// Every broken promise.
    pub violations: Vec<Violation>,
    /// All that happened to the first of the jobs that they are about, an event a line.
    pub story: Vec<String>,
}

impl Verdict {
    /// How many violations of one law.
    pub fn count(&self, law: Law) -> usize {
        self.violations.iter().filter(|violation| violation.law == law).count()
    }

    /// Fails with the first violations, if there are any.
    #[track_caller]
    pub fn assert_clean(&self) {
        let first: Vec<String> = self.violations.iter().take(20).map(ToString::to_string).collect();
        let (number, story) = (self.violations.len(), self.story.join("\n"));
        assert!(first.is_empty(), "{number} violations:\n{}\nthe first job:\n{story}", first.join("\n"));
    }
}

/// Holds a history, and what was there at rest after it, against every law.
pub fn check(history: &History, rest: Option<&Rest>) -> Verdict {
    let events = history.events();
    let mut jobs: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in events.iter() {
        jobs.entry(&event.job).or_default().push(event);
    }
    let mut verdict = Verdict::default();
    for (name, events) in &jobs {
        let lives = lives::lives(events, rest.is_some_and(|rest| rest.jobs.contains_key(*name)));
        for (number, life) in lives.iter().enumerate() {
            // Only the last one can be seen at rest.
            job::check(name, life, rest.filter(|_| number + 1 == lives.len()), &mut verdict);
        }
        if !verdict.violations.is_empty() && verdict.story.is_empty() {
            verdict.story = events.iter().map(ToString::to_string).collect();
        }
    }
    if let Some(rest) = rest {
        rest.check(&|name| jobs.contains_key(name), &mut verdict);
    }
    verdict
}
