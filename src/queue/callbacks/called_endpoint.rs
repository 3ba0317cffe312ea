//! An endpoint of callbacks as the API shows it.

use crate::job::{Timestamp, Topic};

/// How many calls to an endpoint ended in the last minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallsOfMinute {
    /// All of them.
    pub calls: u64,
    /// Those after which the job was finished, or the endpoint holds it.
    pub succeeded: u64,
}

/// An endpoint that jobs of a topic are sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalledEndpoint {
    /// The topic of the jobs.
    pub topic: Topic,
    /// Its scheme, host and port.
    pub host: String,
    /// Calls in progress.
    pub in_flight: u32,
    /// Most calls in progress at the moment.
    pub window: u32,
    /// No process begins a call before this moment.
    pub resting_until: Option<Timestamp>,
    /// When a call failed last, and the first word of the reason.
    pub last_failure: Option<(Timestamp, String)>,
    /// The calls that ended in the last minute; `None` if a process of an earlier version, which does not count them, makes some.
    pub minute: Option<CallsOfMinute>,
}

impl CallsOfMinute {
    /// So many calls.
    #[must_use]
    pub fn new(calls: impl Into<u64>, succeeded: impl Into<u64>) -> Self {
        Self { calls: calls.into(), succeeded: succeeded.into() }
    }

    /// These and the other ones.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            succeeded: self.succeeded.saturating_add(other.succeeded),
        }
    }
}

impl CalledEndpoint {
    /// Adds the figures of the same endpoint at another process.
    pub(in crate::queue) fn add(&mut self, other: &Self) {
        self.in_flight = self.in_flight.saturating_add(other.in_flight);
        self.window = self.window.saturating_add(other.window);
        // One that does not rest, or not for so long, calls.
        self.resting_until = self.resting_until.min(other.resting_until);
        if other.last_failure > self.last_failure {
            self.last_failure.clone_from(&other.last_failure);
        }
        self.minute = self.minute.zip(other.minute).map(|(one, other)| one.plus(other));
    }
}
