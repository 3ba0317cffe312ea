//! What the ring hands out: turns, and tickets for calls.

use crate::job::{HostNumber, Origin, Outlet, Timestamp};

/// Where the jobs of an outlet go now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// To a URL.
    Callback {
        /// Number of its host.
        host: HostNumber,
        /// Most calls of the topic in progress at a time.
        concurrency: Option<u32>,
        /// When the topic's endpoints were last to be called although they rest.
        called_at: Option<Timestamp>,
    },
    /// Nowhere while the delivery of the topic is paused.
    Paused,
    /// To workers: the topic has no URL.
    Workers,
}

/// An outlet's turn: permits for `calls` calls. Must be returned to [`Ring::reserved`] or [`Ring::postpone`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Whose turn it is.
    pub outlet: Outlet,
    /// Most jobs to reserve: there may be more of them than calls, where some are not called now.
    pub jobs: u32,
    /// Most calls to begin.
    pub calls: u32,
    pub(super) host: HostNumber,
    pub(super) window_number: u32,
    /// Whether its calls are trials.
    pub(super) is_trial: bool,
}

/// A call in progress. Must be returned to [`Ring::ended`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallTicket {
    pub(super) outlet: Outlet,
    pub(super) host: HostNumber,
    pub(super) window_number: u32,
    /// The number of the call in its window.
    pub(super) number: u64,
    /// Its host, if others share the outlet.
    pub(super) origin: Option<Origin>,
    /// Whether it counts against the window of its host alone.
    pub(super) is_alone: bool,
    pub(super) is_trial: bool,
}

impl CallTicket {
    /// The outlet of the job.
    pub fn outlet(&self) -> &Outlet {
        &self.outlet
    }
}
