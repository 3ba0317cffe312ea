//! What the server contains once a run has come to rest.

use std::collections::{HashMap, HashSet};

use super::{Law, Verdict, Violation};

/// A job that still exists at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinalJob {
    pub dead: bool,
    pub attempts: u32,
}

/// The contents of a topic at the end, and what the server reports about them.
#[derive(Debug, Default)]
pub struct FinalState {
    /// Every job that exists, as read one by one.
    pub jobs: HashMap<String, FinalJob>,
    /// The dead letters that the server lists.
    pub dead: HashSet<String>,
    /// The topic's counts: delayed, ready and reserved together, and dead.
    pub counts: (u64, u64),
}

impl FinalState {
    pub(super) fn check(&self, known: &dyn Fn(&str) -> bool, verdict: &mut Verdict) {
        let mut violation = |law, job: &str, description| {
            verdict.violations.push(Violation { law, job: job.to_owned(), description });
        };
        for name in self.jobs.keys().chain(&self.dead).filter(|name| !known(name)) {
            violation(Law::NothingInvented, name, "exists and was never sent".to_owned());
        }
        for (name, job) in &self.jobs {
            if job.dead != self.dead.contains(name) {
                violation(
                    Law::DeadLetters,
                    name,
                    format!("is {job:?}, which contradicts the list of dead letters"),
                );
            }
        }
        for name in self.dead.iter().filter(|name| !self.jobs.contains_key(*name)) {
            violation(Law::DeadLetters, name, "is listed as dead and does not exist".to_owned());
        }
        let dead = self.jobs.values().filter(|job| job.dead).count() as u64;
        let found = (self.jobs.len() as u64 - dead, dead);
        if found != self.counts {
            violation(
                Law::Counts,
                "the topic",
                format!("counts {:?} jobs, and {found:?} exist", self.counts),
            );
        }
    }
}
