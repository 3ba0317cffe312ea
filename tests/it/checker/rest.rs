//! What is there once everything has come to rest.

use std::collections::{HashMap, HashSet};

use super::{Law, Verdict, Violation};

/// A job at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resting {
    pub dead: bool,
    pub attempts: u32,
}

/// The contents of a topic at rest, and what the server says of them.
#[derive(Debug, Default)]
pub struct Rest {
    /// Every job that is there, found one by one.
    pub jobs: HashMap<String, Resting>,
    /// The list of dead letters.
    pub dead: HashSet<String>,
    /// The topic's counts: delayed, ready and reserved together, and dead.
    pub counts: (u64, u64),
}

impl Rest {
    pub(super) fn check(&self, known: &dyn Fn(&str) -> bool, verdict: &mut Verdict) {
        let mut broken = |law, job: &str, words| {
            verdict.violations.push(Violation { law, job: job.to_owned(), words });
        };
        for name in self.jobs.keys().chain(&self.dead).filter(|name| !known(name)) {
            broken(Law::NothingInvented, name, "is there and was never sent".to_owned());
        }
        for (name, job) in &self.jobs {
            if job.dead != self.dead.contains(name) {
                broken(Law::DeadLetters, name, format!("is {job:?}, and listed otherwise"));
            }
        }
        for name in self.dead.iter().filter(|name| !self.jobs.contains_key(*name)) {
            broken(Law::DeadLetters, name, "is listed as dead and not there".to_owned());
        }
        let dead = self.jobs.values().filter(|job| job.dead).count() as u64;
        let found = (self.jobs.len() as u64 - dead, dead);
        if found != self.counts {
            broken(Law::Counts, "the topic", format!("counts {:?}, and {found:?} are there", self.counts));
        }
    }
}
