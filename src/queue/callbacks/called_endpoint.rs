//! An endpoint of callbacks as the API shows it.

use crate::job::{Timestamp, Topic};

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
    }
}
