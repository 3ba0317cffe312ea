//! The history checker compares a log of what clients sent and received with the guarantees.
//!
//! It knows neither HTTP nor engines. A client's call is an interval: its effect happened at some time between the request
//! and the response. The checker reports a violation only if no choice of times in these intervals satisfies the laws, so a
//! violation is never a matter of timing in the client. Its own tests give it a broken history for every law.

mod final_state;
mod history;
mod job;
mod lifetimes;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt::{Display, Formatter, Result},
};

use job::End;

pub use final_state::{FinalJob, FinalState};
pub use history::{Action, Add, Event, History, Outcome, SentAt};

/// The guarantees that a history can violate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Law {
    /// A job whose add was acknowledged exists until it is finished or deleted.
    NothingLost,
    /// Every job that is delivered or stored was sent by a client.
    NothingInvented,
    /// No job is delivered before it is due.
    NeverEarly,
    /// Between a reservation and its end, no other client receives the job, and its holder is not refused.
    OneHolder,
    /// The receipt of a reservation that has ended changes nothing.
    StaleReceipt,
    /// A finished or deleted job never appears again, and is removed only once, unless it was added again. Where its id is
    /// remembered, only a newer version is added again.
    GoneStaysGone,
    /// Once a newer version of a job is acknowledged, no older one is delivered.
    NewestVersion,
    /// No job is delivered after its expiry.
    NotExpired,
    /// Attempts count up to `max_attempts` at most.
    Attempts,
    /// The dead letters are exactly the jobs that were buried, expired, or used all their attempts.
    DeadLetters,
    /// At the end, the counts match the contents.
    Counts,
}

/// A violated law.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The law.
    pub law: Law,
    /// The job's id; for counts, the topic.
    pub job: String,
    /// What the job did.
    pub description: String,
}

impl Display for Violation {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{:?}: {} {}", self.law, self.job, self.description)
    }
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Jobs whose add was acknowledged.
    pub acknowledged: usize,
    /// How many of these are known to be finished or deleted.
    pub gone: usize,
    /// The number of deliveries.
    pub deliveries: usize,
    /// Deliveries beyond the first of a job.
    pub redeliveries: usize,
    /// Calls with a receipt that were refused.
    pub refused: usize,
    /// Finishes that were sent when their reservation may have timed out, and were accepted.
    pub late: usize,
    /// Every violation.
    pub violations: Vec<Violation>,
    /// All events of the first job with a violation, one per line.
    pub first_job: Vec<String>,
}

impl Verdict {
    /// The number of violations of one law.
    pub fn count(&self, law: Law) -> usize {
        self.violations.iter().filter(|violation| violation.law == law).count()
    }

    fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// Adds the results of a job.
    fn add(&mut self, job: Self) {
        self.acknowledged += job.acknowledged;
        self.gone += job.gone;
        self.deliveries += job.deliveries;
        self.redeliveries += job.redeliveries;
        self.refused += job.refused;
        self.late += job.late;
        self.violations.extend(job.violations);
    }

    /// Panics with the first violations, if there are any.
    #[track_caller]
    pub fn assert_clean(&self) {
        let first: Vec<String> = self.violations.iter().take(20).map(ToString::to_string).collect();
        let (number, first_job) = (self.violations.len(), self.first_job.join("\n"));
        assert!(first.is_empty(), "{number} violations:\n{}\nthe first job:\n{first_job}", first.join("\n"));
    }
}

/// Checks a history, and the final state if it is given, against every law.
pub fn check(history: &History, final_state: Option<&FinalState>) -> Verdict {
    let events = history.events();
    let mut jobs: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in events.iter() {
        jobs.entry(&event.job).or_default().push(event);
    }
    let mut verdict = Verdict::default();
    for (name, events) in &jobs {
        let remains = final_state.is_some_and(|final_state| final_state.jobs.contains_key(*name));
        let splits = lifetimes::splits(events, remains);
        let mut verdicts = splits.iter().map(|lifetimes| check_lifetimes(name, lifetimes, final_state));
        let first = verdicts.next().expect("there is at least one way to split");
        let valid = if first.is_clean() { None } else { verdicts.find(Verdict::is_clean) };
        verdict.add(valid.unwrap_or(first));
        if !verdict.violations.is_empty() && verdict.first_job.is_empty() {
            verdict.first_job = events.iter().map(ToString::to_string).collect();
        }
    }
    if let Some(final_state) = final_state {
        final_state.check(&|name| jobs.contains_key(name), &mut verdict);
    }
    verdict
}

/// Checks the lifetimes of a job id.
fn check_lifetimes(name: &str, lifetimes: &[Vec<&Event>], final_state: Option<&FinalState>) -> Verdict {
    let mut verdict = Verdict::default();
    for (number, lifetime) in lifetimes.iter().enumerate() {
        // Only the last lifetime can be seen in the final state.
        let end = if number + 1 == lifetimes.len() { End::Last(final_state) } else { End::AddedAgain };
        job::check(name, lifetime, end, &mut verdict);
    }
    verdict
}
